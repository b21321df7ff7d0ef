package part

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/goworker/goworker/internal/clock"
)

// drawn is a part with a random life.
type drawn struct {
	Name       string
	Requires   []string
	Kind       string // "steps", "start", "stop" or "run"
	AwaitReady bool
	Starts     time.Duration // how long its Start takes, or its Run until it is ready
	Start      string        // how that ends: "ok", "error", "panic" or "deaf"
	Fails      time.Duration // when its Run fails after that; 0: never
	Most       int           // of its Restart; 0: it has none
	Stop       string        // how its Stop ends, or its Run that is stopped
}

func drawParts(r *rapid.T) (all []drawn) {
	usually := rapid.SampledFrom([]string{"ok", "ok", "ok", "ok", "error", "panic", "deaf"})
	for i := range rapid.IntRange(1, 6).Draw(r, "parts") {
		p := drawn{Name: fmt.Sprint("p", i), Kind: rapid.SampledFrom([]string{"steps", "start", "stop", "run", "run"}).Draw(r, "kind")}
		for _, name := range append([]string{"workers", "poller"}, namesOf(all)...) {
			if rapid.IntRange(0, 3).Draw(r, "requires") == 0 {
				p.Requires = append(p.Requires, name)
			}
		}
		p.AwaitReady = rapid.Bool().Draw(r, "await")
		// No two things happen at one moment: which of them comes first then is chance.
		p.Starts = time.Duration(rapid.IntRange(0, 35).Draw(r, "starts"))*time.Second + time.Duration(1<<i)*time.Millisecond
		p.Start, p.Stop = usually.Draw(r, "start"), usually.Draw(r, "stop")
		if rapid.IntRange(0, 3).Draw(r, "breaks") == 0 {
			p.Fails, p.Most = time.Duration(rapid.IntRange(1, 60).Draw(r, "fails"))*time.Second, rapid.IntRange(0, 3).Draw(r, "most")
		}
		all = append(all, p)
	}
	return all
}

func namesOf(all []drawn) (names []string) {
	for _, p := range all {
		names = append(names, p.Name)
	}
	return names
}

// book is what happened in one life of some parts.
type book struct {
	mu     sync.Mutex
	events []string
	gate   chan struct{} // closed at the end: what is deaf returns
}

func (b *book) note(event, name string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.events = append(b.events, event+" "+name)
}

func (b *book) at(event, name string) int { return slices.Index(b.events, event+" "+name) }

func (b *book) count(event, name string) (n int) {
	for _, e := range b.events {
		if e == event+" "+name {
			n++
		}
	}
	return n
}

// ends ends a function.
func (b *book) ends(how string) error {
	switch how {
	case "error":
		return errBroken
	case "panic":
		panic(errBroken)
	case "deaf":
		<-b.gate
	}
	return nil
}

// part returns the part that lives this life.
func (b *book) part(d drawn) Part {
	p := Part{Name: d.Name, Requires: d.Requires}
	start := func(ctx context.Context) error {
		b.note("starting", d.Name)
		select {
		case <-time.After(d.Starts):
		case <-ctx.Done():
			return ctx.Err()
		}
		return b.ends(d.Start)
	}
	if d.Kind == "steps" || d.Kind == "start" {
		p.Start = func(ctx context.Context) error {
			err := start(ctx)
			if err == nil {
				b.note("started", d.Name)
			}
			return err
		}
	}
	if d.Kind == "steps" || d.Kind == "stop" {
		p.Stop = func(context.Context) error {
			b.note("stopping", d.Name)
			return b.ends(d.Stop)
		}
	}
	if d.Kind != "run" {
		return p
	}
	if p.AwaitReady = d.AwaitReady; d.Most > 0 {
		p.Restart = &Restart{Most: d.Most}
	}
	p.Run = func(ctx context.Context) error {
		if err := start(ctx); err != nil {
			return err
		}
		b.note("started", d.Name)
		Ready(ctx)
		var fails <-chan time.Time
		if d.Fails > 0 {
			fails = time.After(d.Fails)
		}
		select {
		case <-fails:
			return errBroken
		case <-ctx.Done():
			b.note("stopping", d.Name)
			return b.ends(d.Stop)
		}
	}
	return p
}

// Whatever parts do, in whatever order they require each other, and whenever the stop comes:
//
//   - A part starts once, after all that it requires, and its Stop is called once if it has started, and else not.
//   - It stops after all that require it, unless those were left behind.
//   - The daemon is ready at most once, and if so after all starts and before all stops.
//   - At the end each part is stopped, failed, or was never started. The stop was over in its time.
//   - An error names a part with a reason, and without such a part there is none.
func TestLivesOfParts(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		all := rapid.Permutation(drawParts(r)).Draw(r, "order")
		stopAt := time.Duration(rapid.IntRange(0, 200).Draw(r, "stop"))*time.Second + 500*time.Millisecond
		var wrong []string
		synctest.Test(t, func(t *testing.T) { wrong = live(t, all, stopAt) })
		if len(wrong) > 0 {
			r.Fatalf("%q", wrong)
		}
	})
}

func live(t *testing.T, all []drawn, stopAt time.Duration) (wrong []string) {
	say := func(format string, args ...any) { wrong = append(wrong, fmt.Sprintf(format, args...)) }
	b := &book{gate: make(chan struct{})}
	defer close(b.gate)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	defer clock.System.AfterFunc(stopAt, cancel).Stop()
	var added []Part
	for _, d := range all {
		added = append(added, b.part(d))
	}
	parts, err := Arrange(Own, nil, added)
	if err != nil {
		t.Fatal(err)
	}
	hooks := Part{Name: "hooks", Unseen: true,
		Start: func(context.Context) error { b.note("ready", ""); return nil },
		Stop:  func(context.Context) error { b.note("ending", ""); return nil },
	}
	c, budget := newCrew(), NewBudget(clock.System, byDefault, byDefault, OfDaemon, nil)
	left, broken, stopErr := c.Run(ctx, budget, append(parts, hooks), func(ctx context.Context) { <-ctx.Done() })
	if took := time.Since(budget.Began()); took > byDefault+Graces {
		say("the stop took %v", took)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if ready, ending := b.count("ready", ""), b.count("ending", ""); ready > 1 || ready != ending || c.Started() != (ready == 1) {
		say("ready %d times, ending %d times, started: %v", ready, ending, c.Started())
	}
	mayFail := false
	states := make(map[string]State)
	for _, s := range c.States() {
		states[s.Name] = s
	}
	for _, d := range all {
		s := states[d.Name]
		if !slices.Contains([]string{Waiting, Stopped, Failed}, s.State) || (s.State == Failed) != (s.Err != nil && s.State != Stopped) {
			say("%s is %s with %v", d.Name, s.State, s.Err)
		}
		mayFail = mayFail || d.Start != "ok" || d.Stop != "ok" || d.Fails > 0 || d.Starts >= StartWithin
		starts, started, stopping := b.count("starting", d.Name), b.at("started", d.Name), b.at("stopping", d.Name)
		if starts > 1 && d.Most == 0 || b.count("stopping", d.Name) > 1 {
			say("%s started %d times, and stopped %d times", d.Name, starts, b.count("stopping", d.Name))
		}
		if steps := d.Kind == "steps"; steps && (started >= 0) != (stopping >= 0) {
			say("%s started at %d and stopped at %d", d.Name, started, stopping)
		}
		if ready := b.at("ready", ""); ready >= 0 && d.Kind != "stop" && (d.Kind != "run" || d.AwaitReady) && started > ready || stopping >= 0 && ready >= 0 && stopping < b.at("ending", "") {
			say("%s started at %d and stopped at %d, ready was %d", d.Name, started, stopping, ready)
		}
		for _, name := range d.Requires {
			i := slices.IndexFunc(all, func(o drawn) bool { return o.Name == name })
			if i < 0 {
				continue
			}
			holds := all[i].Kind == "steps" || all[i].Kind == "start" || all[i].Kind == "run" && all[i].AwaitReady
			if first := b.at("starting", d.Name); holds && first >= 0 && (b.at("started", name) < 0 || b.at("started", name) > first) {
				say("%s started before %s", d.Name, name)
			}
			if of := b.at("stopping", name); stopping >= 0 && of >= 0 && of < stopping {
				say("%s stopped before %s", name, d.Name)
			}
		}
	}
	for _, err := range []error{broken, stopErr} {
		if failure := (*Failure)(nil); err != nil && !mayFail && !errors.Is(err, context.Canceled) || errors.As(err, &failure) && !slices.Contains(namesOf(all), failure.Part) {
			say("error %v", err)
		}
	}
	for _, name := range left {
		if states[name].State != Failed {
			say("%s was left behind and is %s", name, states[name].State)
		}
	}
	return wrong
}
