package control

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// The kinds of rules. The name of a rule is its kind, a colon, and its queue, class or limit.
const (
	PauseRule   = "pause"   // a queue: when its pause ends. A pause without an end has no rule
	ClassRule   = "class"   // a class whose jobs wait
	LimitRule   = "limit"   // the number of a limit, by its Spec; with a Class a limit of this class
	TimeoutRule = "timeout" // a class: how long its jobs may run, in ms
	RetriesRule = "retries" // a class: how often a failed job runs again
	HideRule    = "hide"    // a finding of a check, which is not shown to operators. Processes obey nothing in it
)

// RuleName is the name of a rule.
func RuleName(kind, about string) string { return kind + ":" + about }

// About returns the kind of a rule, and its queue, class or limit.
func About(name string) (kind, about string) {
	kind, about, _ = strings.Cut(name, ":")
	return kind, about
}

// Value is the value of a rule. Redis has it as JSON. ParseValue ignores fields of newer releases.
type Value struct {
	Value string `json:"value"`
	Class string `json:"class,omitempty"` // of a LimitRule: it holds for the jobs of this class, whatever its program registered
	Key   string `json:"key,omitempty"`   // of such a rule: each value at this place in the arguments has its own count
	Until int64  `json:"until,omitempty"` // when the rule ends, in ms by Redis's clock; 0: when an operator takes it back
	By    string `json:"by,omitempty"`
	Why   string `json:"why,omitempty"`
	At    int64  `json:"at,omitempty"` // when it was made, in ms by Redis's clock
}

// Encode returns the bytes of the value.
func (v Value) Encode() (string, error) {
	text, err := json.Marshal(v)
	return string(text), err
}

// ParseValue reads the bytes of a value.
func ParseValue(text string) (v Value, err error) {
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		return Value{}, fmt.Errorf("the rule is not readable: %w", err)
	}
	if v.Until < 0 {
		return Value{}, errors.New("the rule is not readable: its end is before all time")
	}
	return v, nil
}

// Ended reports whether the rule has ended.
func (v Value) Ended(now time.Time) bool { return v.Until > 0 && now.UnixMilli() >= v.Until }

// Free is the number of a limit that holds no job back. A limit gets it when its rule is gone and jobs may still wait in its lanes:
// without a number they would run one at a time.
func Free(kind resque.LimitKind) string {
	if kind == resque.LimitStarts || kind == resque.LimitStartsHere {
		return resque.RateText(0.001, 1_000_000)
	}
	return "1000000000"
}

// OfClass is the limit that rules give a class. A program cannot choose its name by accident.
func OfClass(kind resque.LimitKind, class, key string) resque.Limit {
	l := resque.Limit{Kind: kind, Name: "rule/" + class, Keyed: key != ""}
	if l.Keyed {
		l.Name += "/key"
	}
	return l
}

// OfPause is the limit under which the jobs of a paused class wait.
func OfPause(class string) resque.Limit {
	return resque.Limit{Kind: resque.LimitRunning, Name: "pause/" + class}
}

// Change is a change of a paused queue or a limit that follows from a rule, in the same step.
type Change struct{ command, what, number string }

// PauseQueue and ResumeQueue change the paused queues.
func PauseQueue(queue string) Change  { return Change{"SADD", queue, ""} }
func ResumeQueue(queue string) Change { return Change{"SREM", queue, ""} }

// SetNumber gives a limit a number, and DropNumber removes it: then processes write the numbers of their programs.
func SetNumber(spec, number string) Change { return Change{"HSET", spec, number} }
func DropNumber(spec string) Change        { return Change{"HDEL", spec, ""} }

// Changes are the changes that follow from a rule while it holds.
func (v Value) Changes(name string) []Change {
	switch kind, about := About(name); kind {
	case PauseRule:
		return []Change{PauseQueue(about)}
	case ClassRule:
		return []Change{SetNumber(OfPause(about).Spec(), "0")}
	case LimitRule:
		return []Change{SetNumber(about, v.Value)}
	}
	return nil
}

// Undo are the changes at its end.
func (v Value) Undo(name string) []Change {
	switch kind, about := About(name); kind {
	case PauseRule:
		return []Change{ResumeQueue(about)}
	case ClassRule:
		return []Change{SetNumber(OfPause(about).Spec(), Free(resque.LimitRunning))}
	case LimitRule:
		if v.Class != "" {
			return []Change{SetNumber(about, Free(resque.ParseLimit(about).Kind))}
		}
		return []Change{DropNumber(about)}
	}
	return nil
}

// ParseKey reads a place in the arguments of a job: the number of the argument, from 0 on, and the names of the fields that lead to
// the value in it. 0.account is the field account of the first argument.
func ParseKey(text string) (index int, path []string, err error) {
	first, rest, deeper := strings.Cut(text, ".")
	if index, err = strconv.Atoi(first); err != nil || index < 0 || index > 1000 {
		return 0, nil, keyError(text)
	}
	if deeper {
		path = strings.Split(rest, ".")
		if slices.Contains(path, "") {
			return 0, nil, keyError(text)
		}
	}
	return index, path, nil
}

type keyError string

func (e keyError) Error() string {
	return strconv.Quote(string(e)) + " is no place in the arguments of a job: give the number of an argument and the names of fields in it, as in 0.account"
}

// Pause stops all processes from taking jobs of a queue, without an end. Resume ends a pause.
func (s Store) Pause(c redis.Conn, queue string) error { return s.pause(c, queue, PauseQueue(queue)) }

func (s Store) Resume(c redis.Conn, queue string) error {
	return s.pause(c, queue, ResumeQueue(queue))
}

func (s Store) pause(c redis.Conn, queue string, change Change) error {
	_, err := s.Announce(c, Announcement{Rules: []Rule{{Name: RuleName(PauseRule, queue), Any: true}}, Changes: []Change{change}})
	return err
}

// wokenTogether is how many lanes WakeLanes wakes in one step, and wakeSteps how many steps it makes for a set: takes may put lanes off again
// meanwhile.
const (
	wokenTogether = 250
	wakeSteps     = 1000
)

// WakeLanes gives lanes that wait for a rate by key their turn at once, after its number has changed. The old number has postponed that
// turn, by a minute at most. If Redis refuses, the lanes get their turn after that minute.
func (s Store) WakeLanes(c redis.Conn, changes []Change) error {
	for _, change := range changes {
		limit, ok := resque.ParseSpec(change.what)
		if change.command[0] != 'H' || !ok || limit.Kind != resque.LimitStarts && limit.Kind != resque.LimitStartsHere {
			continue
		}
		limit.Keyed = true
		sets, err := s.SortedQueues(c, "")
		for _, set := range sets {
			if err == nil && set.SortedBy(limit) {
				err = s.wake(c, set)
			}
		}
		if refused := redis.Error(""); err != nil && !errors.As(err, &refused) {
			return fmt.Errorf("waking the jobs of the limit %s: %w", limit.Name, err)
		}
	}
	return nil
}

// wake gives the lanes of a set their turns now. It does not bring back lanes that are removed meanwhile.
func (s Store) wake(c redis.Conn, set resque.Lanes) error {
	now, err := s.Now(c)
	for step, lanes := 0, []string(nil); err == nil && step < wakeSteps && (step == 0 || len(lanes) == wokenTogether); step++ {
		lanes, err = redis.Strings(c.Do("ZRANGEBYSCORE", s.KeyOfTurns(set), now.UnixMicro()+1, "+inf", "LIMIT", 0, wokenTogether))
		if err != nil || len(lanes) == 0 {
			break
		}
		args := redis.Args{s.KeyOfTurns(set), "XX", "LT"}
		for _, lane := range lanes {
			args = args.Add(now.UnixMicro(), lane)
		}
		_, err = c.Do("ZADD", args...)
	}
	return resque.Explain(err)
}
