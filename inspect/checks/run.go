package checks

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// Options say how Run looks. The zero Options look for 2 s at most.
type Options struct {
	Budget   time.Duration // how long all checks together may wait for Redis; 0: 2 s
	Only     []int         // the numbers of the checks to run; empty: all
	Accept   []int         // the numbers of the checks whose findings are known and accepted
	Most     int           // how many findings of one check are returned; 0: 20
	ReadOnly bool          // write nothing: a check that would have to says that it could not look

	// Now is this machine's clock; nil: it is read.
	Now func() time.Time
}

const (
	defaultBudget = 2 * time.Second
	defaultMost   = 20
)

// ErrReadOnly is returned by Fix for a finding of a Run with Options.ReadOnly.
var ErrReadOnly = prefix.New("this run of the checks may not write, so it mends nothing")

// ErrNoFix is returned by Fix for a finding that has no fix.
var ErrNoFix = prefix.New("nothing but the remedy in words mends this finding")

// Run runs the checks of doctor in the order of their numbers and yields at least one finding for each. Over shards it runs
// them on one Redis after the other. An error is that of a Redis which does not answer; the next Redis follows.
func Run(ctx context.Context, in *inspect.Inspector, o Options) iter.Seq2[Finding, error] {
	if o.Budget <= 0 {
		o.Budget = defaultBudget
	}
	if o.Most <= 0 {
		o.Most = defaultMost
	}
	if o.Now == nil {
		o.Now = clock.System.Now
	}
	return func(yield func(Finding, error) bool) {
		doors := in.Doors()
		for n, door := range doors {
			r := &run{door: door, options: o, until: clock.System.Now().Add(o.Budget / time.Duration(len(doors))), read: make(map[string]any)}
			shard := ""
			if len(doors) > 1 {
				shard = door.Name()
			}
			its, cancel := part(ctx, len(doors)-n)
			goOn := r.all(its, func(f Finding, err error) bool {
				f.Shard, f.door, f.readOnly = shard, n, o.ReadOnly
				return yield(f, err)
			})
			if cancel(); !goOn {
				return
			}
		}
	}
}

// part bounds what is done for the next of several Redises by its part of the time that is left: one that hangs leaves time for the others.
func part(ctx context.Context, left int) (context.Context, context.CancelFunc) {
	end, bounded := ctx.Deadline()
	if !bounded || left < 2 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, clock.Until(clock.System, end)/time.Duration(left))
}

// run is a Run on one Redis.
type run struct {
	door    inspect.Door
	options Options
	until   time.Time // when the budget is over
	read    map[string]any
}

// all runs the checks until one ends with an error or yield returns false.
func (r *run) all(ctx context.Context, yield func(Finding, error) bool) (goOn bool) {
	for _, check := range Table {
		if !check.In(Doctor) || len(r.options.Only) > 0 && !slices.Contains(r.options.Only, check.Number) {
			continue
		}
		findings, err := r.one(ctx, check)
		if err != nil {
			return yield(Finding{Check: check}, err)
		}
		for _, f := range findings {
			if !yield(f, nil) {
				return false
			}
		}
	}
	return true
}

// one runs a check.
func (r *run) one(ctx context.Context, check *Check) ([]Finding, error) {
	l := &look{Context: ctx, check: check, run: r, seen: 1}
	settings, err := r.door.Settings()
	if err != nil {
		return nil, err
	}
	l.settings = settings
	err = r.door.Do(ctx, func(s resque.Store, c redis.Conn) error {
		l.store, l.conn = s, c
		if l.over() {
			l.seen = 0
			return nil
		}
		return check.look(l)
	})
	if why, rule, ok := l.cannot(err); ok {
		f := l.end(CouldNotLook, check.Title+": "+why)
		if f.Rule = rule; rule != "" {
			f.Remedy.Words = "add the ACL rule " + rule
		}
		return append(l.found, f), nil
	}
	if err != nil {
		return nil, prefix.Errorf("check %d, %s: %w", check.Number, check.Title, err)
	}
	if l.more > 0 {
		l.found[len(l.found)-1].More = l.more
	}
	for n := range l.found {
		l.found[n].Seen = l.seen
	}
	switch {
	case len(l.found) > 0:
		return l.found, nil
	case l.seen < 1:
		f := l.end(NotAllSeen, fmt.Sprintf("%s: %s was seen", check.Title, in(share(math.Floor(100*l.seen)/100))))
		f.Remedy.Words = "give it more time: --budget " + r.longer(l.seen).String()
		return []Finding{f}, nil
	}
	return []Finding{l.end(OK, check.Title)}, nil
}

// longer is the budget that would have been enough for a check that saw a part.
func (r *run) longer(seen float64) time.Duration {
	budget := 10 * r.options.Budget
	if seen > 0.1 {
		budget = time.Duration(float64(r.options.Budget) * 1.5 / seen)
	}
	return max(budget.Round(time.Second), time.Second)
}

// look is one check while it looks. The context is that of the call.
type look struct {
	context.Context
	check    *Check
	run      *run
	store    resque.Store
	conn     redis.Conn
	settings access.Settings

	found []Finding
	more  int
	seen  float64
}

// find adds a finding. The values are those in braces of the check's row.
func (l *look) find(v values) {
	if len(l.found) == l.run.options.Most {
		l.more++
		return
	}
	f := newFinding(l.check, v)
	if slices.Contains(l.run.options.Accept, l.check.Number) {
		f.State = Accepted
	}
	l.found = append(l.found, f)
}

// newFinding fills the texts of a row.
func newFinding(c *Check, v values) Finding {
	f := Finding{Check: c, State: Found, Seen: 1, Sentence: sentence(c.Sentence, v), values: v}
	f.Remedy = Remedy{Words: sentence(c.Remedy, v), Command: c.command(v)}
	f.Subject, f.about = make(map[string]string, len(v)), c.Name
	for _, name := range sortedKeys(v) {
		switch value := v[name].(type) {
		case words, arguments, literal: // what this program says of it
		case string: // a name
			f.about += fmt.Sprintf(" %s=%q", name, value)
			f.Subject[name] = exact(value)
		default:
			f.Subject[name] = exact(value)
		}
	}
	return f
}

func (l *look) end(state State, text string) Finding {
	return Finding{Check: l.check, State: state, Seen: l.seen, Sentence: text}
}

// saw says how much of what there is the check has seen. Of several calls the smallest share counts.
func (l *look) saw(part, all int) {
	if part < all {
		l.seen = min(l.seen, float64(part)/float64(all))
	}
}

// over reports whether the budget of the run is over.
func (l *look) over() bool {
	return !clock.System.Now().Before(l.run.until) || l.Err() != nil
}

// now is the time of this machine.
func (l *look) now() time.Time { return l.run.options.Now() }

// read asks once for what several checks of a run look at.
func read[T any](l *look, name string, ask func() (T, error)) (T, error) {
	if kept, ok := l.run.read[name]; ok {
		return kept.(T), nil
	}
	got, err := ask()
	if err == nil {
		l.run.read[name] = got
	}
	return got, err
}

// blind is why a check could not look, where no command was refused.
type blind struct{ why, rule string }

func (b blind) Error() string { return b.why }

// cannot returns why an error means that a check could not look, and the ACL rule that is missing.
func (l *look) cannot(err error) (why, rule string, ok bool) {
	var b blind
	denied, refused := l.store.Denied(err)
	switch {
	case errors.As(err, &b):
		return b.why, b.rule, true
	case refused:
		return denied.Error(), denied.Rule, true
	case resque.IsWrongType(err):
		return "a key that it reads is of another type, see check 23", "", true
	case resque.IsCrossSlot(err):
		return "the keys that it reads lie on several nodes, see check 22", "", true
	}
	return "", "", false
}

// fixing is a fix of one finding.
type fixing struct {
	context.Context
	door  inspect.Door
	store resque.Store
	conn  redis.Conn
	values
}

// settingsAndTime are what a fix needs that files a failure: the program's settings, and the time by Redis's clock.
func (f *fixing) settingsAndTime() (settings access.Settings, now time.Time, err error) {
	if settings, err = f.door.Settings(); err == nil {
		now, err = f.store.Now(f.conn)
	}
	return settings, now, err
}

// text returns a value that is from Redis.
func (f *fixing) text(name string) string {
	text, _ := f.values[name].(string)
	return text
}

// Fix mends one finding that Run has returned for the same Inspector. What was found may have changed since: Fix looks again
// in the step that changes, and then returns false and changes nothing. The change is recorded under the Inspector's By; where it cannot
// be, nothing is changed.
func Fix(ctx context.Context, in *inspect.Inspector, f Finding) (changed bool, err error) {
	doors := in.Doors()
	switch {
	case f.readOnly:
		return false, ErrReadOnly
	case !f.Fixable() || f.door >= len(doors):
		return false, ErrNoFix
	}
	door := doors[f.door]
	if err := door.Inspector().Recordable(ctx); err != nil {
		return false, err
	}
	err = door.Do(ctx, func(s resque.Store, c redis.Conn) error {
		changed, err = f.Check.fix(&fixing{Context: ctx, door: door, store: s, conn: c, values: f.values})
		return err
	})
	if err != nil {
		err = prefix.Errorf("mending what check %d found: %w", f.Check.Number, err)
	}
	if !changed {
		return false, err
	}
	return true, door.Record(ctx, fmt.Sprintf("doctor --fix %d", f.Check.Number), f.Sentence, 1, err)
}
