package inspect

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

// ErrNoLimit is returned for a limit that Redis does not know: no process has announced it, and no job waits for it.
var ErrNoLimit = prefix.New("nothing in Redis knows a limit of this name")

// LimitKind says what a limit counts.
type LimitKind string

const (
	LimitRunning     LimitKind = "running"             // jobs that run in the fleet: MaxRunning
	LimitRunningHere LimitKind = "running per process" // the same in each process: PerProcess
	LimitStarts      LimitKind = "starts"              // starts in a time: RateLimit
	LimitStartsHere  LimitKind = "starts per process"
)

// LimitInfo is a limit of the fleet: its numbers, and what they hold back.
type LimitInfo struct {
	Spec string // names the limit and its kind in calls: c:SendEmail
	Name string // as its programs name it: that of a class, queue/ and a queue, or of SharedAs
	Kind LimitKind

	Most  int           // of a limit of running jobs
	Each  time.Duration // of a rate: the time from one start to the next
	Burst int           // of a rate: how many may start at once
	Text  string        // the numbers as Redis keeps them; "": none, each process goes by its own

	// Invalid says why Text is no number. Then one job runs at a time, or is started each second.
	Invalid error

	Running int64 // jobs that hold a slot of it, those of all keys and processes
	Waiting int64 // jobs in lanes of it. Some of them may wait for another limit
	Lanes   int64 // their lanes: one a queue, and one more for each key
	Partial bool  // there are so many lanes that not all were counted

	Rule *Rule // what an operator has set; nil: the numbers are those of a program

	Shard string // of several Redises, the one where it is
}

// Numbers says what the limit is: "at most 3", "10/s", "5/m, 3 at once".
func (l LimitInfo) Numbers() string {
	switch {
	case l.Text == "":
		return "as each process has it"
	case l.Invalid != nil:
		return strconv.Quote(l.Text)
	case l.Kind == LimitRunning || l.Kind == LimitRunningHere:
		return strconv.Itoa(l.Most)
	case l.Burst > 1:
		return rateText(l.Each) + ", " + strconv.Itoa(l.Burst) + " at once"
	}
	return rateText(l.Each)
}

// rateText writes the time between two starts as a rate, in the unit in which it is a whole number.
func rateText(each time.Duration) string {
	for _, u := range []struct {
		d    time.Duration
		name string
	}{{time.Second, "s"}, {time.Minute, "m"}, {time.Hour, "h"}} {
		n := float64(u.d) / float64(max(each, 1))
		if whole := float64(int64(n + 0.5)); whole >= 1 && (n-whole)/whole < 1e-4 && (whole-n)/whole < 1e-4 {
			return strconv.FormatInt(int64(whole), 10) + "/" + u.name
		}
	}
	return "one each " + each.String()
}

// mostLanes is how many lanes of one Redis Limits counts.
const mostLanes = 10_000

// Limits returns the limits that the fleet knows, sorted by name. Ruby's workers know none of them. Over shards each has its own
// numbers, so a limit is on the list once for each.
func (i *Inspector) Limits(ctx context.Context) ([]LimitInfo, error) {
	if i.several() {
		all, err := over(i, func(a, b []LimitInfo) []LimitInfo { return append(a, b...) }, func(one *Inspector) ([]LimitInfo, error) {
			limits, err := one.Limits(ctx)
			for n := range limits {
				limits[n].Shard = one.name()
			}
			return limits, err
		})
		slices.SortStableFunc(all, compareLimits)
		return all, err
	}
	var numbers map[string]string
	var counts map[string]*resque.LimitCounts
	whole := true
	err := i.do(ctx, func(s resque.Store, c redis.Conn) (err error) {
		if numbers, err = s.LimitNumbers(c); err != nil {
			return err
		}
		counts, whole, err = s.CountLimits(c, mostLanes)
		return err
	})
	var rules []Rule
	if err == nil {
		rules, err = i.Rules(ctx)
	}
	infos := make([]LimitInfo, 0, len(numbers))
	specs := slices.Collect(maps.Keys(numbers))
	for spec := range counts {
		if _, there := numbers[spec]; !there {
			specs = append(specs, spec)
		}
	}
	for _, spec := range specs {
		l := limitOf(spec, numbers[spec])
		if n := counts[spec]; n != nil {
			l.Running, l.Waiting, l.Lanes = n.Running, n.Waiting, n.Lanes
		}
		l.Partial = !whole
		if at := slices.IndexFunc(rules, func(r Rule) bool { return r.Kind == control.LimitRule && r.About == spec }); at >= 0 {
			l.Rule = &rules[at]
		}
		if l.Rule == nil && l.Lanes == 0 && l.Running == 0 && l.Text == control.Free(kindOf(spec)) {
			continue // it is left of a rule that is gone
		}
		infos = append(infos, l)
	}
	slices.SortFunc(infos, compareLimits)
	return infos, err
}

func kindOf(spec string) resque.LimitKind { return resque.ParseLimit(spec).Kind }

func compareLimits(a, b LimitInfo) int {
	return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Spec, b.Spec), cmp.Compare(a.Shard, b.Shard))
}

// limitOf reads a field of the limits. A field that goworker did not write keeps its name.
func limitOf(spec, text string) LimitInfo {
	l := LimitInfo{Spec: spec, Name: spec, Text: text}
	limit, ok := resque.ParseSpec(spec)
	if ok {
		l.Name = limit.Name
		switch limit.Kind {
		case resque.LimitRunning:
			l.Kind = LimitRunning
		case resque.LimitRunningHere:
			l.Kind = LimitRunningHere
		case resque.LimitStarts:
			l.Kind = LimitStarts
		case resque.LimitStartsHere:
			l.Kind = LimitStartsHere
		}
	}
	n, burst, number := resque.ParseNumbers(text)
	switch {
	case text == "":
	case !ok:
		l.Invalid = fmt.Errorf("%q names no limit that goworker knows", spec)
	case !number:
		l.Invalid = fmt.Errorf("%q is no number", text)
	case l.rate():
		l.Each, l.Burst = time.Duration(n*float64(time.Microsecond)), burst
	default:
		l.Most = int(n)
	}
	return l
}

func (l LimitInfo) rate() bool { return l.Kind == LimitStarts || l.Kind == LimitStartsHere }

// SetLimit gives a limit other numbers, in the whole fleet, and returns what they were. The limit is named by its Spec, or by its
// Name where one limit has it. The numbers are "3" for jobs that run, and "10/s", "5/m" or "100/h" for a rate; ":3" behind a rate
// lets three start at once.
//
// They hold until ResetLimit, whatever numbers the programs have that start meanwhile: they are a Rule. The error is ErrNoLimit if
// Redis knows no such limit.
func (i *Inspector) SetLimit(ctx context.Context, name, numbers string) (was string, err error) {
	return i.SetLimitFor(ctx, name, numbers, 0)
}

// SetLimitFor is SetLimit with an end: after this time processes write the numbers of their programs; 0: until ResetLimit.
func (i *Inspector) SetLimitFor(ctx context.Context, name, numbers string, d time.Duration) (was string, err error) {
	return i.changeLimit(ctx, name, d, func(l LimitInfo) (ruling, error) {
		text, err := l.parse(numbers)
		rule := control.RuleName(control.LimitRule, l.Spec)
		v := control.Value{Value: text}
		if l.Rule != nil {
			v.Class, v.Key = l.Rule.Class, l.Rule.Key
		}
		return ruling{what: "SetLimit", on: "limit " + l.Spec + holds(d), lasts: d, rules: map[string]control.Value{rule: v}}, err
	})
}

// ResetLimit takes back the numbers of SetLimit: the next process that takes a job of the limit writes those of its program.
// It returns what the numbers were.
func (i *Inspector) ResetLimit(ctx context.Context, name string) (was string, err error) {
	return i.changeLimit(ctx, name, 0, func(l LimitInfo) (ruling, error) {
		r := ruling{what: "ResetLimit", on: "limit " + l.Spec, ended: []string{control.RuleName(control.LimitRule, l.Spec)}}
		if l.Rule == nil {
			r.changes = []control.Change{control.DropNumber(l.Spec)}
		}
		return r, nil
	})
}

func (i *Inspector) changeLimit(ctx context.Context, name string, d time.Duration, change func(LimitInfo) (ruling, error)) (was string, err error) {
	if err := i.usable(); err != nil {
		return "", err
	}
	if d < 0 {
		return "", errNoEnd
	}
	known := false
	err = i.each(func(one *Inspector) error {
		all, err := one.Limits(ctx)
		if err != nil {
			return err
		}
		of := slices.DeleteFunc(all, func(l LimitInfo) bool { return l.Spec != name && l.Name != name })
		switch {
		case len(of) == 0:
			return nil
		case len(of) > 1:
			var specs []string
			for _, l := range of {
				specs = append(specs, l.Spec)
			}
			return fmt.Errorf("goworker: %d limits are named %s: say which of %s is meant", len(of), name, strings.Join(specs, ", "))
		}
		known = true
		r, err := change(of[0])
		if err == nil {
			r.old = of[0].Text
			was = cmp.Or(was, r.old)
			_, err = one.rule(ctx, r)
		}
		return err
	})
	if err == nil && !known {
		err = prefix.Errorf("limit %s: %w", name, ErrNoLimit)
	}
	return was, err
}

// ErrLimitText is the error of a text that is no number of a limit. Nothing was changed.
var ErrLimitText = prefix.New(`give a number such as 3 to a limit of running jobs, and one such as 10/s, 5/m, 100/h or 10/s:3 to a rate`)

// parse reads the numbers of a limit as an operator writes them, and returns them as Redis keeps them.
func (l LimitInfo) parse(text string) (string, error) {
	wrong := func() error {
		return prefix.Errorf("%q is no number for the limit %s, which counts %s: %w", text, l.Spec, l.Kind, ErrLimitText)
	}
	numbers, ok := resque.NumbersOf(l.rate(), text)
	if !ok || !l.rate() && l.Kind == "" {
		return "", wrong()
	}
	return numbers, nil
}
