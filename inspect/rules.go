package inspect

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

// ErrNoRule is returned where there is nothing to take back: no operator has set such a rule.
var ErrNoRule = prefix.New("no operator has set such a rule")

// Rule is something that operators have set for the processes of the fleet. It holds until its end, or until an operator takes it
// back, and survives the starts of processes.
type Rule struct {
	Kind  string // pause of a queue with an end, class (its jobs wait), limit, timeout, retries, or hide (of HiddenNotices)
	About string // the queue, the class, the Spec of the limit, or the identity of a finding
	Class string // of a limit that was given to a class: that class
	Key   string // of such a limit: the place in the arguments whose values each have their own count
	Value string // of a limit as Redis keeps it; of a timeout in ms

	Until time.Time // when it ends; zero: when an operator takes it back
	By    string    // who set it
	Why   string
	At    time.Time // when it was set

	Invalid error // why processes cannot read the rule, which then holds nothing

	Shard string // of several Redises, the one where it is
}

// Text says what the value means: "3" or "5/s" of a limit, "10m0s" of a timeout, "2" of retries; "" of a pause.
func (r Rule) Text() string {
	n, err := strconv.ParseInt(r.Value, 10, 64)
	switch {
	case r.Invalid != nil, r.Kind == control.PauseRule, r.Kind == control.ClassRule:
		return ""
	case r.Kind == control.LimitRule:
		return limitOf(r.About, r.Value).Numbers()
	case r.Kind == control.TimeoutRule && err == nil && n > 0:
		return (time.Duration(n) * time.Millisecond).String()
	case r.Kind == control.TimeoutRule && n == 0, r.Kind == control.RetriesRule && n == -1:
		return "no limit"
	}
	return r.Value
}

// Rules returns all rules that hold, by their kinds and what they are about. A pause of a queue without an end is no rule:
// PausedQueues returns it. Hidden notices are not among them: see HiddenNotices.
func (i *Inspector) Rules(ctx context.Context) ([]Rule, error) { return i.rules(ctx, false) }

// rules returns the hidden notices, or all other rules.
func (i *Inspector) rules(ctx context.Context, hidden bool) ([]Rule, error) {
	if i.several() {
		return over(i, func(a, b []Rule) []Rule { return append(a, b...) }, func(one *Inspector) ([]Rule, error) {
			rules, err := one.rules(ctx, hidden)
			for n := range rules {
				rules[n].Shard = one.name()
			}
			return rules, err
		})
	}
	rules := []Rule{}
	err := i.do(ctx, func(s resque.Store, c redis.Conn) error {
		now, err := s.Now(c)
		if err != nil {
			return err
		}
		texts, err := control.New(s).ReadRules(c)
		for _, name := range slices.Sorted(maps.Keys(texts)) {
			kind, about := control.About(name)
			v, invalid := control.ParseValue(texts[name])
			if v.Ended(now) || (kind == control.HideRule) != hidden {
				continue
			}
			r := Rule{Kind: kind, About: about, Class: v.Class, Key: v.Key, Value: v.Value, By: v.By, Why: v.Why, Invalid: invalid}
			if v.Until > 0 {
				r.Until = time.UnixMilli(v.Until)
			}
			if v.At > 0 {
				r.At = time.UnixMilli(v.At)
			}
			rules = append(rules, r)
		}
		return err
	})
	return rules, err
}

// ruling is one change of rules on one Redis.
type ruling struct {
	what, on string // for the audit
	lasts    time.Duration
	rules    map[string]control.Value // by name, that are set; without Until, By, Why and At
	ended    []string                 // that are taken back
	clears   bool                     // hidden notices whose time is over go too
	changes  []control.Change         // beside those of the rules
	old      string                   // what was before, where that is no rule
}

// tries is how often a ruling is tried again because another operator changed the same rule.
const tries = 3

// rule makes a change of rules: the rules, what they change beside themselves and the line of the audit are written in one step. It
// reports how many rules were there before.
func (i *Inspector) rule(ctx context.Context, r ruling) (before int, err error) {
	err = i.do(ctx, func(base resque.Store, c redis.Conn) error {
		s := control.New(base)
		for try := 1; ; try++ {
			now, err := s.Now(c)
			if err != nil {
				return err
			}
			texts, err := s.ReadRules(c)
			if err != nil {
				return err
			}
			an := control.Announcement{}
			before = 0
			for name, text := range texts {
				if kind, _ := control.About(name); r.clears && kind == control.HideRule && !slices.Contains(r.ended, name) {
					v, err := control.ParseValue(text)
					if _, again := r.rules[name]; !again && (err != nil || v.Ended(now)) {
						an.Rules = append(an.Rules, control.Rule{Name: name, Was: text})
					}
				}
			}
			var olds []string
			for _, name := range r.ended {
				text, there := texts[name]
				if !there {
					continue
				}
				before++
				olds = append(olds, name+" "+text)
				an.Rules = append(an.Rules, control.Rule{Name: name, Was: text})
				if v, err := control.ParseValue(text); err == nil {
					an.Changes = append(an.Changes, v.Undo(name)...)
				}
			}
			for _, name := range slices.Sorted(maps.Keys(r.rules)) {
				v := r.rules[name]
				v.By, v.Why, v.At = logging.Shorten(i.who, mostName), logging.Shorten(i.why, mostName), now.UnixMilli()
				if r.lasts > 0 {
					v.Until = now.Add(r.lasts).UnixMilli()
				}
				text, err := v.Encode()
				if err != nil {
					return err
				}
				if was, there := texts[name]; there {
					olds = append(olds, name+" "+was)
				}
				an.Rules = append(an.Rules, control.Rule{Name: name, Value: text, Was: texts[name]})
				an.Changes = append(an.Changes, v.Changes(name)...)
			}
			an.Changes = append(an.Changes, r.changes...) // a rule that goes undoes what it did, so these come last
			if len(an.Rules)+len(an.Changes) == 0 {
				return nil
			}
			if an.Audit, err = i.line(c, AuditEntry{What: r.what, On: r.on, Old: cmp.Or(r.old, strings.Join(olds, " ")), Changed: 1}); err != nil {
				return err
			}
			switch _, err = s.Announce(c, an); {
			case err == nil:
				return s.WakeLanes(c, an.Changes)
			case !errors.Is(err, control.ErrChanged) || try == tries:
				return err
			}
		}
	})
	return before, prefix.Of(err)
}

// mostName is how many bytes of who set a rule, and of the reason, the rule has.
const mostName = 200

// line is a line of the audit, for a step that writes it with the change; nil: the changes of this Inspector are not recorded.
func (i *Inspector) line(c redis.Conn, e AuditEntry) ([]byte, error) {
	if i.who == "" {
		return nil, nil
	}
	e.At, e.Who, e.Why, e.Face, e.User = clock.System.Now().UTC().Truncate(time.Millisecond), i.who, i.why, i.face, resque.User(c)
	e.On, e.Old = logging.Shorten(e.On, mostText), logging.Shorten(e.Old, mostText)
	return json.Marshal(e)
}

var errNoEnd = errors.New("goworker: a rule cannot hold for less than no time; give a time above 0, or 0 for no end")

// holds says how long something holds, for the audit.
func holds(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return " for " + d.String()
}

// ruleClass is rule on each Redis, for a class.
func (i *Inspector) ruleClass(ctx context.Context, class string, r ruling) (before int, err error) {
	if err := i.usable(); err != nil {
		return 0, err
	}
	switch {
	case class == "":
		return 0, errors.New("goworker: the class of the rule has no name; give it one")
	case r.lasts < 0:
		return 0, errNoEnd
	}
	err = i.each(func(one *Inspector) error {
		n, err := one.rule(ctx, r)
		before += n
		return err
	})
	return before, err
}

// PauseClass keeps all processes of the fleet from running the jobs of a class, until ResumeClass, or for a time; 0: without an end.
// They wait in a lane of their own, where Ruby's workers do not see them, and run in their order when the pause ends; other jobs of
// their queues go on. Jobs that run go on too. Processes of older releases run such a job where they take it from its queue before a
// process of this one does.
func (i *Inspector) PauseClass(ctx context.Context, class string, d time.Duration) error {
	_, err := i.ruleClass(ctx, class, ruling{
		what: "PauseClass", on: "class " + class + holds(d), lasts: d,
		rules: map[string]control.Value{control.RuleName(control.ClassRule, class): {Value: "0"}},
	})
	return err
}

// ResumeClass ends PauseClass. The error is ErrNoRule if the class is not paused.
func (i *Inspector) ResumeClass(ctx context.Context, class string) error {
	n, err := i.ruleClass(ctx, class, ruling{what: "ResumeClass", on: "class " + class, ended: []string{control.RuleName(control.ClassRule, class)}})
	if err == nil && n == 0 {
		err = prefix.Errorf("resuming class %s: %w", class, ErrNoRule)
	}
	return err
}

// limitsOfClass are the limits that rules can give a class.
func limitsOfClass(class string) (specs []string) {
	for _, kind := range []resque.LimitKind{resque.LimitRunning, resque.LimitStarts} {
		for _, key := range []string{"", "0"} {
			specs = append(specs, control.OfClass(kind, class, key).Spec())
		}
	}
	return specs
}

// LimitClass holds the jobs of a class to a limit in the whole fleet, whatever its program has registered, for a time; 0: until
// ResetClass. The limits of its program hold too. The numbers are those of SetLimit: "3" jobs at a time, or "5/s". With a key, each
// value at that place in the arguments has its own count: "0.account" is the field account of the first argument. Jobs without such a
// value are not held.
func (i *Inspector) LimitClass(ctx context.Context, class, numbers, key string, d time.Duration) error {
	l := LimitInfo{Kind: LimitRunning}
	kind := resque.LimitRunning
	if strings.Contains(numbers, "/") {
		l.Kind, kind = LimitStarts, resque.LimitStarts
	}
	if key != "" {
		if _, _, err := control.ParseKey(key); err != nil {
			return prefix.Of(err)
		}
	}
	l.Spec = control.OfClass(kind, class, key).Spec()
	text, err := l.parse(numbers)
	if err != nil {
		return prefix.Errorf("%q is no number for a limit of class %s: %w", numbers, class, ErrLimitText)
	}
	_, err = i.ruleClass(ctx, class, ruling{
		what: "LimitClass", on: strings.TrimSpace("class "+class+" to "+numbers+" "+key) + holds(d), lasts: d,
		rules: map[string]control.Value{control.RuleName(control.LimitRule, l.Spec): {Value: text, Class: class, Key: key}},
	})
	return err
}

// ResetClass takes back the limits of LimitClass, and the rules of SetTimeout and SetRetries. The error is ErrNoRule if there are none.
// A pause stays.
func (i *Inspector) ResetClass(ctx context.Context, class string) error {
	var names []string
	for _, spec := range limitsOfClass(class) {
		names = append(names, control.RuleName(control.LimitRule, spec))
	}
	names = append(names, control.RuleName(control.TimeoutRule, class), control.RuleName(control.RetriesRule, class))
	n, err := i.ruleClass(ctx, class, ruling{what: "ResetClass", on: "class " + class, ended: names})
	if err == nil && n == 0 {
		err = prefix.Errorf("resetting class %s: %w", class, ErrNoRule)
	}
	return err
}

// SetTimeout gives the jobs of a class another time limit, from their next run on, for a time; 0: until ResetClass. It goes before that of
// Register, and a job's own limit goes before it. The timeout 0 is no limit.
func (i *Inspector) SetTimeout(ctx context.Context, class string, timeout, d time.Duration) error {
	if timeout < 0 {
		return fmt.Errorf("goworker: a job cannot run for %s at most; give a time, or 0 for no limit", timeout)
	}
	_, err := i.ruleClass(ctx, class, ruling{
		what: "SetTimeout", on: "class " + class + " to " + timeout.String() + holds(d), lasts: d,
		rules: map[string]control.Value{control.RuleName(control.TimeoutRule, class): {Value: strconv.FormatInt(timeout.Milliseconds(), 10)}},
	})
	return err
}

// SetRetries has failed jobs of a class run again at most so often, for a time; 0: until ResetClass. It goes before the number of Register, and a
// job's own number goes before it. -1 is no limit.
func (i *Inspector) SetRetries(ctx context.Context, class string, retries int, d time.Duration) error {
	if retries < -1 {
		return fmt.Errorf("goworker: a job cannot be run again %d times; give 0 or more, or -1 for no limit", retries)
	}
	_, err := i.ruleClass(ctx, class, ruling{
		what: "SetRetries", on: "class " + class + " to " + strconv.Itoa(retries) + holds(d), lasts: d,
		rules: map[string]control.Value{control.RuleName(control.RetriesRule, class): {Value: strconv.Itoa(retries)}},
	})
	return err
}
