package outcome

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

var (
	noon    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	errOops = errors.New("oops")
)

// fleet is a clock that stands still.
type fleet struct{}

func (fleet) Now() time.Time { return noon }

// registry knows classes by their names.
type registry map[string]*Class

func (r registry) Class(name string) *Class { return r[name] }

func (registry) Unknown(class string) error { return fmt.Errorf("unknown class %s", class) }

func (registry) Misfit(class string, e *args.Error) error {
	return fmt.Errorf("misfit %s: %v", class, e)
}

// bundle is a Set, and what its features did.
type bundle struct {
	*Set
	t     *testing.T
	said  []string // in order
	ended []Outcome
}

// classes are those that the tests register.
func classes() registry {
	r := make(registry)
	for _, name := range []string{"Plain", "Other", "Bound"} {
		r[name] = &Class{Name: name, Handler: "handler of " + name}
	}
	Put(r["Bound"], "bound")
	return r
}

// setup makes a Set that also keeps what its observer sees.
func setup(t *testing.T, features ...Feature) *bundle {
	t.Helper()
	b := &bundle{t: t}
	var makers []func(Deps) Feature
	for _, f := range features {
		makers = append(makers, func(Deps) Feature { return f })
	}
	b.Set = New(Deps{
		Base: part.Base{Log: slog.New(slog.DiscardHandler), Store: resque.New(""), Clock: clock.System},
		Time: fleet{}, Settings: Settings{MaxPayload: 1000},
	}, classes(), makers...)
	b.Observe(func(_ context.Context, _ *Job, o *Outcome) { b.ended = append(b.ended, *o) })
	return b
}

func (b *bundle) say(format string, args ...any) {
	b.said = append(b.said, fmt.Sprintf(format, args...))
}

// heard returns what was said since it was called last.
func (b *bundle) heard() string {
	text := strings.Join(b.said, " ")
	b.said = nil
	return text
}

// talker is a policy that says what it is asked, under its name.
type talker struct {
	None
	b    *bundle
	name string

	admit  func(j *Job) (Outcome, bool)
	decide func(j *Job, err error) (Outcome, bool)
	settle func(j *Job, o *Outcome)
}

func (p talker) Admit(_ context.Context, j *Job) (o Outcome, decided bool) {
	p.b.say("%s.admit", p.name)
	if p.admit != nil {
		return p.admit(j)
	}
	return o, false
}

func (p talker) Wrap(next Handler) Handler {
	return func(ctx context.Context, j *Job) error {
		p.b.say("%s{", p.name)
		defer p.b.say("}%s", p.name)
		return next(ctx, j)
	}
}

func (p talker) Running(*Job) { p.b.say("%s.running", p.name) }

func (p talker) Decide(_ context.Context, j *Job, err error) (o Outcome, decided bool) {
	p.b.say("%s.decide", p.name)
	if p.decide != nil {
		return p.decide(j, err)
	}
	return o, false
}

func (p talker) Settle(j *Job, o *Outcome) {
	p.b.say("%s.settle:%v", p.name, o.State)
	if p.settle != nil {
		p.settle(j, o)
	}
}

func job(text string) *Job {
	return &Job{Reserved: resque.Reserved{Ticket: 7, Queue: "q", Payload: []byte(text)}}
}

func of(class string, fields ...string) *Job {
	text := `{"class":"` + class + `","args":[]`
	for _, f := range fields {
		text += "," + f
	}
	return job(text + "}")
}

// run runs a job whose handler returns err.
func (b *bundle) run(j *Job, err error) Outcome {
	b.t.Helper()
	var o Outcome
	b.Run(b.t.Context(), j, func(context.Context, *Job) error { b.say("handler"); return err }, &o)
	return o
}

// talkers returns a bundle with three features: a binds the class Bound, f is switched on by its
// field, and z is for every job that has not ended well.
func talkers(t *testing.T, change ...func(*talker)) *bundle {
	t.Helper()
	var b *bundle
	policy := func(name string) Policy {
		p := talker{b: b, name: name}
		for _, c := range change {
			c(&p)
		}
		return p
	}
	only := func(name string) func(*Class) Policy {
		return func(c *Class) Policy {
			if said, ok := Get[string](c); ok && said == "bound" {
				return policy(name)
			}
			return nil
		}
	}
	b = setup(t,
		Feature{Name: "a", Bind: only("a")},
		Feature{Name: "f", Field: "switch", Open: func(j *Job) Policy { return policy("f") }},
		Feature{Name: "z", Bind: func(c *Class) Policy {
			if c != nil {
				return nil
			}
			return talker{name: "z"}
		}},
	)
	for _, all := range [][]Policy{b.rest, b.others} { // New made them before the bundle was there
		for i, p := range all {
			if _, ok := p.(talker); ok {
				all[i] = policy("z")
			}
		}
	}
	return b
}

// The features admit, wrap, decide and settle in their order, and a plain job meets none of them
// unless it fails.
func TestOrder(t *testing.T) {
	t.Parallel()
	b := talkers(t)
	for _, tt := range []struct {
		name string
		j    *Job
		err  error
		want string
	}{
		{"plain, done", of("Plain"), nil, "handler"},
		{"plain, failed", of("Plain"), errOops, "handler z.decide z.settle:failed"},
		{"bound, done", of("Bound"), nil, "a.admit z.admit a{ z{ handler }z }a a.settle:done z.settle:done"},
		{"bound and switched, failed", of("Bound", `"switch":1`), errOops,
			"a.admit f.admit z.admit a{ f{ z{ handler }z }f }a a.decide f.decide z.decide a.settle:failed f.settle:failed z.settle:failed"},
		{"switched, done", of("Plain", `"switch":1`), nil, "f.admit z.admit f{ z{ handler }z }f f.settle:done z.settle:done"},
		{"another field", of("Plain", `"switched":1`), nil, "handler"},
		{"unknown", of("Nobody"), nil, "z.admit z.decide z.settle:failed"},
		{"unknown and switched", of("Nobody", `"switch":1`), nil, "f.admit z.admit f.decide z.decide f.settle:failed z.settle:failed"},
		{"no job", job(`{"switch":1}`), nil, "z.admit z.decide z.settle:failed"},
		{"too large", of("Bound", `"other":"`+strings.Repeat("x", 2000)+`"`, `"switch":1`), nil, "f.admit z.admit f.decide z.decide f.settle:failed z.settle:failed"},
		{"too large and not at the end", of("Bound", `"switch":1`, `"other":"`+strings.Repeat("x", 2000)+`"`), nil, "z.admit z.decide z.settle:failed"},
		{"interrupted", of("Bound"), &failure.Cancelled{Cause: failure.ErrLeaseLost, Err: errOops}, "a.admit z.admit a{ z{ handler }z }a a.settle:returned z.settle:returned"},
	} {
		if b.run(tt.j, tt.err); b.heard() != tt.want {
			b.run(tt.j, tt.err)
			t.Errorf("%s:\n got %s\nwant %s", tt.name, b.heard(), tt.want)
		}
	}
}

// The first policy that decides is the last one that is asked.
func TestFirstDecides(t *testing.T) {
	t.Parallel()
	b := talkers(t, func(p *talker) {
		p.admit = func(j *Job) (Outcome, bool) { return Outcome{State: Expired}, p.name == "f" && j.Parsed.ID == "admit" }
		p.decide = func(*Job, error) (Outcome, bool) {
			return Outcome{State: Discarded, Err: errors.New(p.name)}, p.name == "f"
		}
	})
	o := b.run(of("Bound", `"switch":1`, `"id":"admit"`), nil)
	if want := "a.admit f.admit a.settle:expired f.settle:expired z.settle:expired"; b.heard() != want || o.State != Expired || o.Started || o.Counts != resque.CountsNothing {
		t.Errorf("admitted: %+v", o)
	}
	o = b.run(of("Bound", `"switch":1`), errOops)
	if want := "a.admit f.admit z.admit a{ f{ z{ handler }z }f }a a.decide f.decide a.settle:discarded f.settle:discarded z.settle:discarded"; b.heard() != want || o.Err.Error() != "f" || !o.Started {
		t.Errorf("decided: %+v", o)
	}
}

// Admit may keep a job from running by an error, which is then decided about.
func TestAdmitFails(t *testing.T) {
	t.Parallel()
	b := talkers(t, func(p *talker) {
		p.admit = func(j *Job) (o Outcome, decided bool) { j.Err = cmp.Or(j.Err, errOops); return o, false }
	})
	o := b.run(of("Bound"), nil)
	if want := "a.admit z.admit a.decide z.decide a.settle:failed z.settle:failed"; b.heard() != want || o.Err != errOops || o.Started {
		t.Errorf("%+v", o)
	}
}

// A plain job has no policies at all, and an acknowledgement is all that its end takes.
func TestPlain(t *testing.T) {
	t.Parallel()
	b := talkers(t)
	j := of("Plain", `"id":"1"`)
	o := b.run(j, nil)
	if j.policies != nil || !o.Plain() || o.State != Done || o.Counts != resque.CountsDone || len(o.Effects) != 0 {
		t.Errorf("policies %v, outcome %+v", j.policies, o)
	}
	b.Run(b.t.Context(), of("Plain"), func(_ context.Context, j *Job) error {
		if j.running.Load() != nil || j.Handler != "handler of Plain" || !j.Started {
			t.Errorf("while it runs it is %+v", j)
		}
		b.Running(j)
		return nil
	}, &o)
	if said := b.heard(); said != "handler" {
		t.Errorf("after 100 ms: %s", said)
	}
	j = of("Plain")
	j.Found = 2
	if o := b.run(j, nil); o.Plain() || len(o.Effects) != 1 {
		t.Errorf("a job that was found in dead processes: %+v", o)
	}
}

// What Open returns goes before what Bind returns, and both before Bind(nil).
func TestOpenGoesBeforeBind(t *testing.T) {
	t.Parallel()
	var b *bundle
	open := false
	both := Feature{
		Name: "both",
		Open: func(j *Job) Policy {
			if !open {
				return nil
			}
			return talker{b: b, name: "open"}
		},
		Bind: func(c *Class) Policy {
			if c == nil {
				return talker{name: "rest"}
			}
			if _, ok := Get[string](c); !ok {
				return nil
			}
			return talker{b: b, name: "bound"}
		},
	}
	b = setup(t, both, Feature{Name: "other", Field: "switch", Open: func(*Job) Policy { return talker{b: b, name: "other"} }})
	rest := talker{b: b, name: "rest"}
	b.rest[0], b.others[0] = rest, rest
	lane := &resque.Lane{Queue: "q"}
	for _, tt := range []struct {
		name       string
		j          *Job
		lane, open bool
		want       string
	}{
		{"bound", of("Bound"), false, false, "bound"},
		{"bound, from its queue", of("Bound"), false, true, "bound"},
		{"bound, from a lane", of("Bound"), true, false, "bound"},
		{"bound, opened", of("Bound"), true, true, "open"},
		{"opened", of("Plain"), true, true, "open"},
		{"from a lane", of("Plain"), true, false, ""},
		{"unknown, opened", of("Nobody"), false, true, "open"},
		{"unknown", of("Nobody"), false, false, "rest"},
		{"switched", of("Plain", `"switch":1`), false, true, "rest other"},
		{"switched, opened", of("Plain", `"switch":1`), true, true, "open other"},
	} {
		open, tt.j.Lane = tt.open, nil
		if tt.lane {
			tt.j.Lane = lane
		}
		b.read(tt.j)
		var names []string
		for _, p := range b.policies(tt.j) {
			names = append(names, p.(talker).name)
		}
		if got := strings.Join(names, " "); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// live is a feature that applies to all classes while its version is not 0.
func live(name string, version *atomic.Uint64, bound *int) Feature {
	return Feature{Name: name, Live: version.Load, Bind: func(c *Class) Policy {
		if c == nil || version.Load() == 0 {
			return nil
		}
		*bound++
		return talker{name: name}
	}}
}

// A live feature is bound again, once for each class, when its version changes. One that comes while
// another goes is seen as well.
func TestLive(t *testing.T) {
	t.Parallel()
	var versions [2]atomic.Uint64
	var bound int
	b := setup(t, live("a", &versions[0], &bound), live("b", &versions[1], &bound))
	for _, step := range []struct {
		versions [2]uint64
		want     string
		bound    int
	}{
		{[2]uint64{0, 0}, "", 0},
		{[2]uint64{1, 0}, "a", 2},
		{[2]uint64{1, 0}, "a", 0},
		{[2]uint64{0, 1}, "b", 2},
		{[2]uint64{2, 3}, "a b", 4},
		{[2]uint64{3, 2}, "a b", 4},
		{[2]uint64{0, 0}, "", 0},
	} {
		for i, v := range step.versions {
			versions[i].Store(v)
		}
		bound = 0
		for range 3 {
			for _, class := range []string{"Plain", "Other"} {
				j := of(class)
				b.read(j)
				var names []string
				for _, p := range b.policies(j) {
					names = append(names, p.(talker).name)
				}
				if got := strings.Join(names, " "); got != step.want {
					t.Errorf("at %v class %s has %q, want %q", step.versions, class, got, step.want)
				}
			}
		}
		if bound != step.bound {
			t.Errorf("at %v %d policies were bound, want %d", step.versions, bound, step.bound)
		}
	}
}

// A class serves two daemons: each has its own policies for it.
func TestClassOfTwoSets(t *testing.T) {
	t.Parallel()
	var version atomic.Uint64
	version.Store(1)
	bound := 0
	b, other := setup(t, live("a", &version, &bound)), setup(t, live("b", &version, &bound))
	other.classes = b.classes
	for range 3 {
		for _, s := range []*bundle{b, other} {
			j := of("Plain")
			s.read(j)
			if got, want := s.policies(j)[0].(talker).name, s.features[0].Name; got != want {
				t.Errorf("the policy is %s, want %s", got, want)
			}
		}
	}
}

// What an end adds to the totals follows its state, unless a policy says otherwise or it is a dead
// process's job.
func TestCounts(t *testing.T) {
	t.Parallel()
	want := map[State]resque.Counts{
		Done: resque.CountsDone, Failed: resque.CountsFailed, Retried: resque.CountsDone, Snoozed: resque.CountsDone, Discarded: resque.CountsDone,
		Returned: resque.CountsNothing, Passed: resque.CountsNothing, Expired: resque.CountsNothing, Cancelled: resque.CountsNothing,
	}
	over := []State{Done, Failed, Discarded, Expired, Cancelled}
	b := setup(t)
	for s := Done; s <= Cancelled; s++ {
		if o := b.End(of("Plain"), s, nil); o.Counts != want[s] {
			t.Errorf("%v counts as %q", s, o.Counts)
		}
		j := of("Plain")
		j.Dead = true
		if o := b.End(j, s, nil); o.Counts != resque.CountsNothing {
			t.Errorf("%v of a dead process counts as %q", s, o.Counts)
		}
		j = of("Plain")
		j.Found = 1
		if o := b.End(j, s, nil); (s == Returned || s == Passed) == slices.ContainsFunc(o.Effects, func(e resque.Effect) bool { return fmt.Sprint(e) == fmt.Sprint(b.store.ResetDeaths(j.Reserved)) }) {
			t.Errorf("%v resets the deaths, or does not: %v", s, o.Effects)
		}
		if s.Over() != slices.Contains(over, s) {
			t.Errorf("%v is over: %v", s, s.Over())
		}
		if level, message := (&Outcome{State: s}).Line(); message == "" || (level == slog.LevelError) != (s == Failed) {
			t.Errorf("%v is logged as %v %q", s, level, message)
		}
	}
	counted := talkers(t, func(p *talker) {
		p.decide = func(*Job, error) (Outcome, bool) {
			return Outcome{State: Retried, Counts: resque.CountsFailed, Counted: true}, true
		}
	})
	if o := counted.run(of("Plain"), errOops); o.Counts != resque.CountsFailed {
		t.Errorf("it counts as %q, although a policy said otherwise", o.Counts)
	}
}

// The next run is built before any Settle, and placed after the last one.
func TestNextBeforeSettle(t *testing.T) {
	t.Parallel()
	var decision Outcome
	var seen []Next
	b := talkers(t, func(p *talker) {
		p.decide = func(*Job, error) (Outcome, bool) { return decision, true }
		p.settle = func(_ *Job, o *Outcome) { seen = append(seen, o.Next) }
	})
	lane := resque.Lane{Queue: "q", Own: "f:x=1"}
	const text = `{"class":"Bound","args":[]}`
	for _, tt := range []struct {
		name     string
		decision Outcome
		lane     bool
		place    Place
		bytes    string // of the next run, before its id; "": this run's
	}{
		{name: "retried at once", decision: Outcome{State: Retried}, place: Tail, bytes: `{"class":"Bound","args":[],"attempt":2,"id":"`},
		{name: "retried in the past", decision: Outcome{State: Retried, At: noon}, place: Tail, bytes: `{"class":"Bound","args":[],"attempt":2,"id":"`},
		{name: "retried later", decision: Outcome{State: Retried, At: noon.Add(1)}, place: Schedule, bytes: `{"class":"Bound","args":[],"attempt":2,"id":"`},
		{name: "retried with fields", decision: Outcome{State: Retried, Fields: []payload.Field{payload.TextField("step", "two")}}, place: Tail, bytes: `{"class":"Bound","args":[],"attempt":2,"step":"two","id":"`},
		{name: "snoozed", decision: Outcome{State: Snoozed, At: noon.Add(time.Hour)}, place: Schedule, bytes: `{"class":"Bound","args":[],"id":"`},
		{name: "in Ruby's schedule", decision: Outcome{State: Retried, At: noon.Add(time.Hour), Next: Next{Place: RubySchedule}}, place: RubySchedule, bytes: text},
		{name: "not in Ruby's schedule", decision: Outcome{State: Retried, At: noon.Add(time.Hour), Fields: []payload.Field{payload.TextField("step", "two")}, Next: Next{Place: RubySchedule}},
			place: Schedule, bytes: `{"class":"Bound","args":[],"attempt":2,"step":"two","id":"`},
		{name: "as said", decision: Outcome{State: Retried, Next: Next{Place: Tail, Payload: []byte("as said")}}, place: Tail, bytes: "as said"},
		{name: "returned", decision: Outcome{State: Returned}, place: Head},
		{name: "returned to its lane", decision: Outcome{State: Returned}, lane: true, place: Lane},
		{name: "passed", decision: Outcome{State: Passed}, place: Tail},
		{name: "discarded", decision: Outcome{State: Discarded}},
	} {
		decision, seen = tt.decision, nil
		j := job(text)
		if tt.lane {
			j.Lane = &lane
		}
		o := b.run(j, errOops)
		if len(seen) != 2 {
			t.Fatalf("%s: %d policies settled", tt.name, len(seen))
		}
		for _, n := range seen {
			if n.Place != tt.place || !strings.HasPrefix(string(n.Payload), tt.bytes) || tt.bytes == "" && n.Payload != nil || (n.Lane != nil) != tt.lane {
				t.Errorf("%s: a policy that settles sees %+v %s", tt.name, n, n.Payload)
			}
		}
		if (len(o.Effects) == 0) != (tt.place == Nowhere) {
			t.Errorf("%s: the effects are %v", tt.name, o.Effects)
		}
	}
}

// A policy adds fields to the next run of a job, also where another policy decides that there is one.
func TestFieldsOfOthers(t *testing.T) {
	t.Parallel()
	for _, place := range []Place{Nowhere, RubySchedule} {
		b := talkers(t, func(p *talker) {
			p.admit = func(j *Job) (Outcome, bool) {
				j.Fields = []payload.Field{payload.TextField("step", "two")}
				return Outcome{}, false
			}
			p.decide = func(*Job, error) (Outcome, bool) {
				return Outcome{State: Retried, At: noon.Add(time.Hour), Next: Next{Place: place}}, true
			}
		})
		o := b.run(job(`{"class":"Bound","args":[]}`), errOops)
		if o.Next.Place != Schedule || !strings.HasPrefix(string(o.Next.Payload), `{"class":"Bound","args":[],"attempt":2,"step":"two","id":"`) {
			t.Errorf("the next run is %+v %s", o.Next, o.Next.Payload)
		}
	}
}

// Two runs of one job never give the same bytes: the schedule takes equal ones for one.
func TestNextRunsDiffer(t *testing.T) {
	t.Parallel()
	seen := make(map[string]bool)
	for _, text := range []string{`{"class":"Plain","args":[]}`, `{"class":"Plain","args":[],"id":"mine"}`} {
		for _, s := range []State{Retried, Snoozed} {
			j := job(text)
			Read(j, classes(), 1000)
			for range 2 {
				next := string(nextRun(j, &Outcome{State: s}))
				if seen[next] || next == text {
					t.Errorf("%v of %s gives %s again", s, text, next)
				}
				seen[next] = true
				p, err := payload.Parse([]byte(next))
				if want := map[State]int{Retried: 2, Snoozed: 1}[s]; err != nil || p.Attempt != want || p.ID == "" {
					t.Errorf("%v of %s gives %s", s, text, next)
				}
			}
		}
	}
}

// Observers see every end once, settled.
func TestObservers(t *testing.T) {
	t.Parallel()
	b := talkers(t, func(p *talker) {
		p.settle = func(_ *Job, o *Outcome) { o.Effects = append(o.Effects, resque.New("").ExpiredCount()) }
	})
	want := 0
	end := func(what string, effects int, f func() Outcome) {
		t.Helper()
		want++
		o := f()
		if len(b.ended) != want {
			t.Fatalf("%s: %d ends were seen, want %d", what, len(b.ended), want)
		}
		if seen := b.ended[want-1]; seen.State != o.State || len(seen.Effects) != effects {
			t.Errorf("%s: seen was %+v", what, seen)
		}
	}
	end("plain", 0, func() Outcome { return b.run(of("Plain"), nil) })
	end("bound", 2, func() Outcome { return b.run(of("Bound"), nil) })
	end("failed", 1, func() Outcome { return b.run(of("Plain"), errOops) })
	end("no job", 1, func() Outcome { return b.run(job("?"), nil) })
	end("ended by others", 2, func() Outcome { return b.End(of("Bound"), Failed, errOops) })
	end("returned, not read", 3, func() Outcome { return b.End(of("Bound"), Returned, nil) })
	end("of a dead process", 2, func() Outcome {
		return Outcome{State: Failed, Effects: b.Bury(resque.DeadJob{Reserved: of("Nobody", `"switch":1`).Reserved, Poison: 3, Started: true})}
	})
}

// A job of a dead process that is poison has failed; any other goes back.
func TestBury(t *testing.T) {
	t.Parallel()
	for _, poison := range []int{0, 3} {
		var got *Job
		b := setup(t, Feature{Name: "all", Open: func(j *Job) Policy { got = j; return nil }})
		b.Bury(resque.DeadJob{Reserved: of("Plain").Reserved, Process: "p", Worker: "w", Poison: poison, Started: true})
		o := b.ended[0]
		if !got.Dead || !got.Started || !o.Started || got.Process != "p" || got.Worker != "w" || got.Name != "Plain" {
			t.Errorf("the job is %+v", got)
		}
		var err *Poison
		if poison > 0 && (o.State != Failed || !errors.As(o.Err, &err) || err.Found != 3 || err.Last != "p") || poison == 0 && (o.State != Returned || o.Err != nil) {
			t.Errorf("found %d times it ended as %+v", poison, o)
		}
	}
}

// Fail decides about a job whose handler ended its goroutine as about any other that failed.
func TestFail(t *testing.T) {
	t.Parallel()
	b := talkers(t)
	for class, want := range map[string]string{
		"Plain": "z.decide z.settle:failed",
		"Bound": "a.admit z.admit a{ z{ }z }a a.decide z.decide a.settle:failed z.settle:failed",
	} {
		j, o, left := of(class), Outcome{State: Expired, Effects: make([]resque.Effect, 3)}, make(chan struct{})
		go func() {
			defer close(left)
			b.Run(t.Context(), j, func(context.Context, *Job) error { runtime.Goexit(); return nil }, &o)
		}()
		<-left
		b.Running(j)
		b.Fail(t.Context(), j, failure.ErrGoexit, &o)
		if got := b.heard(); got != want || o.State != Failed || o.Err != failure.ErrGoexit || !o.Started || len(o.Effects) != 0 || len(b.ended) != 1 {
			t.Errorf("%s: %s, %+v", class, got, o)
		}
		b.ended = nil
	}
}

// Running reaches the policies of a job that runs, in their order, and none once it has ended.
func TestRunning(t *testing.T) {
	t.Parallel()
	b := talkers(t)
	j := of("Bound")
	b.Running(j)
	var o Outcome
	b.Run(t.Context(), j, func(context.Context, *Job) error { b.heard(); b.Running(j); return nil }, &o)
	b.Running(j)
	if got := b.heard(); !strings.HasPrefix(got, "a.running z.running }z") || strings.Count(got, "running") != 2 {
		t.Error(got)
	}
}

type hostile struct{}

func (hostile) MarshalJSON() ([]byte, error) { panic("no JSON") }

// A result that is kept is there when the policies settle a job that is done. One that cannot be
// encoded costs the result, and a line of the log says so.
func TestResult(t *testing.T) {
	t.Parallel()
	var settled json.RawMessage
	b := talkers(t, func(p *talker) {
		p.admit = func(j *Job) (o Outcome, decided bool) { j.Keep = j.Parsed.ID == "keep"; return o, false }
		p.settle = func(_ *Job, o *Outcome) { settled = o.Result }
	})
	for _, tt := range []struct {
		value     any
		err       error
		keep      bool
		want, log string
	}{
		{value: map[string]int{"n": 1}, keep: true, want: `{"n":1}`},
		{value: nil, keep: true, want: "null"},
		{value: 1},
		{value: 1, err: errOops, keep: true},
		{value: make(chan int), keep: true, log: "cannot be encoded: json: unsupported type: chan int"},
		{value: hostile{}, keep: true, log: "cannot be encoded: panic: no JSON"},
	} {
		j := of("Bound")
		if tt.keep {
			j = of("Bound", `"id":"keep"`)
		}
		var o Outcome
		settled = nil
		b.Run(t.Context(), j, func(_ context.Context, j *Job) error { j.Value = tt.value; return tt.err }, &o)
		log := ""
		if len(o.Log.Attrs) > 0 {
			log = o.Log.Attrs[0].Value.String()
		}
		if string(o.Result) != tt.want || string(settled) != tt.want || log != tt.log {
			t.Errorf("%v: the result is %s, when it is settled %s, and the log says %q", tt.value, o.Result, settled, log)
		}
	}
}

// What a handler returns after its context ended says why the context ended.
func TestCancelled(t *testing.T) {
	t.Parallel()
	b := talkers(t)
	for _, tt := range []struct {
		cause, err error
		want       State
	}{
		{failure.ErrShutdown, context.Canceled, Returned},
		{failure.ErrShutdown, errOops, Failed},
		{failure.ErrLeaseLost, errOops, Returned},
		{failure.ErrCancelled, context.Canceled, Failed},
		{failure.ErrShutdown, nil, Done},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		var o Outcome
		b.Run(ctx, of("Plain"), func(context.Context, *Job) error { cancel(tt.cause); return tt.err }, &o)
		if o.State != tt.want || tt.err != nil && !(errors.Is(o.Err, tt.cause) && errors.Is(o.Err, tt.err)) {
			t.Errorf("%v, %v: %v %v", tt.cause, tt.err, o.State, o.Err)
		}
	}
}

func TestRead(t *testing.T) {
	t.Parallel()
	inner := func(class, more string) string {
		return `{"class":"` + args.ActiveJobWrapper + `","args":[{"job_class":"` + class + `","job_id":"j1","arguments":[1]` + more + `}]}`
	}
	for _, tt := range []struct {
		text     string
		name, id string
		attempt  int
		args     string
		err      string
		unknown  bool
	}{
		{text: `{"class":"Plain","args":[1],"id":"x","attempt":3}`, name: "Plain", id: "x", attempt: 3, args: "1"},
		{text: `{"class":"Nobody","args":[1]}`, name: "Nobody", attempt: 1, args: "1", err: "unknown class Nobody", unknown: true},
		{text: inner("Plain", `,"executions":2`), name: "Plain", id: "j1", attempt: 3, args: "1"},
		{text: inner("Nobody", ""), name: "Nobody", id: "j1", attempt: 1, args: "1", err: "unknown class Nobody", unknown: true},
		{text: `{"class":"` + args.ActiveJobWrapper + `","args":[]}`, name: args.ActiveJobWrapper, attempt: 1, err: "misfit"},
		{text: `[]`, err: "the payload is JSON but not an object"},
		{text: strings.Repeat("x", 1001), err: "1001"},
	} {
		j := job(tt.text)
		Read(j, classes(), 1000)
		Read(j, nil, 0) // it was read before
		text := ""
		for _, a := range j.Args {
			text += string(a)
		}
		if j.Name != tt.name || j.ID != tt.id || j.Attempt != tt.attempt || text != tt.args || j.UnknownClass != tt.unknown || j.Readable() != (tt.name != "") ||
			(j.Err == nil) != (tt.err == "") || j.Err != nil && !strings.Contains(j.Err.Error(), tt.err) {
			t.Errorf("%.60s: %+v", tt.text, j)
		}
		if (j.Class != nil) != (tt.err == "") || j.Class != nil && j.Handler != j.Class.Handler {
			t.Errorf("%.60s: class %v, handler %v", tt.text, j.Class, j.Handler)
		}
	}
}

// Features add to a push in their order, to one without options only those that add to such, and they are closed once.
func TestEnqueueAndClose(t *testing.T) {
	t.Parallel()
	closed := 0
	add := func(name string) Feature {
		return Feature{Name: name, Close: func() { closed++ }, EnqueueAll: name == "b", EnqueueNamed: name == "c", Enqueue: func(p *Push) error {
			if p.Name == name {
				return errors.New("not for " + name)
			}
			p.Fields = append(p.Fields, payload.TextField(name, "1"))
			return nil
		}}
	}
	b := setup(t, add("a"), Feature{Name: "none"}, add("b"), add("c"))
	with := new(Class)
	Put(with, 1)
	for what, p := range map[string]*Push{"bare": {}, "of a bare class": {Class: new(Class)}, "id": {ID: "x"}, "id and no class option": {ID: "x", Class: new(Class)}, "options": {Options: new(Options)}, "class": {Class: with}} {
		err := b.Enqueue(p)
		var names []string
		for _, f := range p.Fields {
			names = append(names, f.Name)
		}
		want := []string{"a", "b", "c"}
		if strings.Contains(what, "bare") {
			want = want[1:2]
		} else if strings.Contains(what, "id") {
			want = want[1:]
		}
		if err != nil || !slices.Equal(names, want) {
			t.Errorf("%s: %q %v", what, names, err)
		}
	}
	if refused := (&Push{ID: "x", Name: "b"}); b.Enqueue(refused) == nil || len(refused.Fields) != 0 {
		t.Errorf("refused by b: %+v", refused)
	}
	b.Close()
	if closed != 3 {
		t.Errorf("%d closed", closed)
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	type number int
	c := &Class{}
	Put(c, number(7))
	Put(c, "text")
	n, ok := Get[number](c)
	_, none := Get[int](c)
	_, absent := Get[number](nil)
	if n != 7 || !ok || none || absent {
		t.Error(n, ok, none, absent)
	}
}
