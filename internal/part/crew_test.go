package part

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

var errBroken = errors.New("broken")

// crewed runs parts until ctx ends or one has failed for good.
func crewed(ctx context.Context, c *Crew, parts ...Part) (left []string, broken, stopErr error) {
	b := NewBudget(clock.System, byDefault, byDefault, OfDaemon, nil)
	return c.Run(ctx, b, parts, func(ctx context.Context) { <-ctx.Done() })
}

func newCrew() *Crew { return NewCrew(clock.System, slog.New(slog.DiscardHandler)) }

func stateOf(c *Crew, name string) State {
	for _, s := range c.States() {
		if s.Name == name {
			return s
		}
	}
	return State{}
}

// However a Run ends while nothing asked it to, it has failed: the parts stop in order and the error says why.
func TestRunThatEnds(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run   func(context.Context) error
		want  string
		stack bool
	}{
		"with an error":      {func(context.Context) error { return errBroken }, "part web failed: broken", false},
		"without one":        {func(context.Context) error { return nil }, "part web failed: its Run returned, and the daemon had not stopped it", false},
		"with a panic":       {func(context.Context) error { panic(errBroken) }, "part web failed: panic: broken", true},
		"with its goroutine": {func(context.Context) error { runtime.Goexit(); return nil }, "part web failed: its Run ended its goroutine and did not return", false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var stopped []string
				c := newCrew()
				left, broken, stopErr := crewed(t.Context(), c,
					Part{Name: "db", Stop: func(context.Context) error { stopped = append(stopped, "db"); return nil }},
					Part{Name: "web", Run: tc.run},
					Part{Name: "top", Requires: []string{"web"}, Stop: func(context.Context) error { stopped = append(stopped, "top"); return nil }},
				)
				var failure *Failure
				if !errors.As(broken, &failure) || failure.Error() != tc.want || (len(failure.Stack) > 0) != tc.stack || len(left) > 0 || stopErr != nil {
					t.Errorf("left %q, errors %v and %v, want %q", left, broken, stopErr, tc.want)
				}
				if !slices.Equal(stopped, []string{"top", "db"}) {
					t.Errorf("%q stopped", stopped)
				}
				if got := []string{stateOf(c, "db").State, stateOf(c, "web").State, stateOf(c, "top").State}; !slices.Equal(got, []string{Stopped, Failed, Stopped}) {
					t.Errorf("the parts are %q", got)
				}
			})
		})
	}
}

// A part is started again as often as its Restart says, and waits longer each time. What requires it goes on.
func TestRestarts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var began []time.Duration
		var heard []bool
		start := time.Now()
		c := newCrew()
		c.Heard = func(_ string, _ error, final bool) { heard = append(heard, final) }
		_, broken, _ := crewed(t.Context(), c,
			Part{Name: "web", Restart: &Restart{Max: 3 * time.Second, Most: 4}, Run: func(context.Context) error {
				began = append(began, time.Since(start))
				return errBroken
			}},
			Part{Name: "top", Requires: []string{"web"}, Stop: func(context.Context) error {
				if took := time.Since(start); took < 9*time.Second {
					t.Errorf("what requires the part was stopped after %v", took)
				}
				return nil
			}},
		)
		if len(began) != 5 || !errors.Is(broken, errBroken) || !strings.Contains(broken.Error(), "it was started 5 times in 10m0s") {
			t.Fatalf("it began at %v and ended with %v", began, broken)
		}
		for i, least := range []time.Duration{time.Second, 2 * time.Second, 3 * time.Second, 3 * time.Second} {
			if wait := began[i+1] - began[i]; wait < least || wait > min(3*time.Second, least*5/4) {
				t.Errorf("restart %d came after %v, want %v and up to a quarter", i+1, wait, least)
			}
		}
		if s := stateOf(c, "web"); s.State != Failed || s.Restarts != 4 || s.Err == nil {
			t.Errorf("%+v", s)
		}
		if !slices.Equal(heard, []bool{false, false, false, false, true}) {
			t.Errorf("heard %v", heard)
		}
	})
}

// Failures that lie far apart do not add up.
func TestRestartsFarApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		clock.System.AfterFunc(10*time.Hour, cancel)
		runs := 0
		_, broken, _ := crewed(ctx, newCrew(), Part{Name: "web", Restart: &Restart{Most: 1}, Run: func(ctx context.Context) error {
			runs++
			select {
			case <-ctx.Done():
				return nil
			case <-time.After(time.Hour):
				return errBroken
			}
		}})
		if runs != 10 || broken != nil && !errors.Is(broken, context.Canceled) {
			t.Errorf("%d runs, %v", runs, broken)
		}
	})
}

// A part that says itself when it is ready holds the parts that require it back, also while it is started again.
func TestAwaitReady(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		runs, c := 0, newCrew()
		_, broken, _ := crewed(ctx, c,
			Part{Name: "web", AwaitReady: true, Restart: new(Restart), Run: func(ctx context.Context) error {
				if runs++; runs < 3 {
					return errBroken
				}
				time.Sleep(5 * time.Second)
				Ready(ctx)
				Ready(ctx)
				<-ctx.Done()
				return ctx.Err()
			}},
			Part{Name: "top", Requires: []string{"web"}, Start: func(context.Context) error {
				if s := stateOf(c, "web"); s.State != Running || s.Restarts != 2 {
					t.Errorf("it starts while the one before it is %+v", s)
				}
				cancel()
				return nil
			}},
		)
		if s := stateOf(c, "web"); s.StartTook < 8*time.Second || s.State != Stopped || broken != nil && !errors.Is(broken, context.Canceled) {
			t.Errorf("%+v, %v", s, broken)
		}
		Ready(t.Context()) // of no part
	})
}

// A part that is never ready does not start: that is an error, and it is stopped.
func TestNeverReady(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		run  func(context.Context) error
		want string
	}{
		"it waits": {func(ctx context.Context) error { <-ctx.Done(); return nil }, "starting web: it did not start in 30s"},
		"it fails": {func(context.Context) error { return errBroken }, "part web failed: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := newCrew()
				left, broken, _ := crewed(t.Context(), c, Part{Name: "web", AwaitReady: true, Run: tc.run})
				if broken == nil || broken.Error() != tc.want || len(left) > 0 || c.Started() || stateOf(c, "web").State != Failed {
					t.Errorf("left %q, %v, want %q", left, broken, tc.want)
				}
			})
		})
	}
}

// What a Run does when it is stopped before it was ready is part of the reason why it did not start.
func TestStopBeforeReady(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end  func() error
		want string
	}{
		"nil":      {func() error { return nil }, "starting web: context canceled"},
		"an error": {func() error { return errBroken }, "starting web: broken"},
		"a panic":  {func() error { panic(errBroken) }, "part web failed: panic: broken"},
	} {
		for _, late := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				want := tc.want
				if late {
					want = map[string]string{"nil": "starting web: it did not start in 30s", "an error": "starting web: it did not start in 30s: broken", "a panic": want}[name]
				} else {
					clock.System.AfterFunc(time.Second, cancel)
				}
				c := newCrew()
				left, broken, stopErr := crewed(ctx, c, Part{Name: "web", AwaitReady: true, Run: func(ctx context.Context) error { <-ctx.Done(); return tc.end() }})
				if broken == nil || broken.Error() != want || len(left) > 0 || stopErr != nil || stateOf(c, "web").State != Failed {
					t.Errorf("%s, late: %v: left %q, %v and %v, want %q", name, late, left, broken, stopErr, want)
				}
			})
		}
	}
}

// A part that fails while another one starts ends that start.
func TestFailureDuringAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		_, broken, _ := crewed(t.Context(), newCrew(),
			Part{Name: "web", Run: func(context.Context) error { time.Sleep(time.Second); return errBroken }},
			Part{Name: "top", Start: minds},
		)
		if took := time.Since(began); took != time.Second || broken == nil || broken.Error() != "part web failed: broken" {
			t.Errorf("it took %v, %v", took, broken)
		}
	})
}

// A panic in a Start or a Stop does not keep the others from stopping.
func TestPanicsOfSteps(t *testing.T) {
	t.Parallel()
	for _, starts := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			stopped := false
			web := Part{Name: "web", Start: func(context.Context) error { cancel(); return nil }, Stop: func(context.Context) error { panic(errBroken) }}
			if starts {
				web = Part{Name: "web", Start: func(context.Context) error { panic(errBroken) }}
			}
			_, broken, stopErr := crewed(ctx, newCrew(), Part{Name: "db", Stop: func(context.Context) error { stopped = true; return nil }}, web)
			var failure *Failure
			if !errors.As(errors.Join(broken, stopErr), &failure) || failure.Part != "web" || len(failure.Stack) == 0 || !stopped {
				t.Errorf("errors %v and %v; the other one stopped: %v", broken, stopErr, stopped)
			}
		})
	}
}

// A Run that is stopped may return nil or the error of its context. Another error is one of its stop, and a panic
// is a Failure.
func TestRunThatIsStopped(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		end             func(context.Context) error
		broken, stopErr string
	}{
		"nil":         {func(context.Context) error { return nil }, "", ""},
		"its context": {func(ctx context.Context) error { return ctx.Err() }, "", ""},
		"an error":    {func(context.Context) error { return errBroken }, "", "stopping web: broken"},
		"a panic":     {func(context.Context) error { panic(errBroken) }, "part web failed: panic: broken", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				clock.System.AfterFunc(time.Second, cancel)
				text := func(err error) string {
					if err == nil {
						return ""
					}
					return err.Error()
				}
				_, broken, stopErr := crewed(ctx, newCrew(), Part{Name: "web", Run: func(ctx context.Context) error { <-ctx.Done(); return tc.end(ctx) }})
				if text(broken) != tc.broken || text(stopErr) != tc.stopErr {
					t.Errorf("errors %v and %v, want %q and %q", broken, stopErr, tc.broken, tc.stopErr)
				}
			})
		})
	}
}

// A loop that panics ends the run. Its turn is over, and its Stop does not wait.
func TestLoopThatPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, b := newCrew(), base()
		b.Crashed = c.Crashed
		l := NewLoop(b, "lease", func(context.Context) (time.Duration, error) { panic(errBroken) })
		_, broken, stopErr := crewed(t.Context(), c, Part{
			Name:  "lease",
			Start: func(ctx context.Context) error { l.Start(ctx); return nil },
			Stop:  func(ctx context.Context) error { l.Stop(ctx); return nil },
		})
		if broken == nil || broken.Error() != "part lease failed: panic: broken" || stopErr != nil || stateOf(c, "lease").State != Failed {
			t.Errorf("errors %v and %v, %+v", broken, stopErr, stateOf(c, "lease"))
		}
	})
}

// States has what a part says of itself, and does not wait for one that says nothing.
func TestInfo(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCrew()
		asked, gate := 0, make(chan struct{})
		parts := c.Tend([]Part{
			{Name: "quick", Info: func() any { return 7 }},
			{Name: "slow", Info: func() any { asked++; <-gate; return "late" }},
			{Name: "wild", Info: func() any { panic("no") }},
			{Name: "mute"},
			{Name: "hidden", Unseen: true},
		})
		if got := stateOf(c, "quick"); got.Info != nil || got.State != Waiting {
			t.Errorf("before the start: %+v", got)
		}
		if _, err := Start(t.Context(), parts); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			began := time.Now()
			var infos []any
			for _, s := range c.States() {
				infos = append(infos, s.Info)
			}
			if took := time.Since(began); took > infoWithin || !slices.Equal(infos, []any{7, nil, "panic: no", nil}) {
				t.Errorf("after %v: %v", took, infos)
			}
		}
		close(gate)
		synctest.Wait()
		if got := stateOf(c, "slow").Info; got != "late" || asked != 2 {
			t.Errorf("%v after %d calls", got, asked)
		}
		if down := c.Down(); down != nil {
			t.Errorf("%q do not run", down)
		}
	})
}

// A function of a part may end its goroutine, as t.FailNow does. Nothing waits for it then, and the part's state says so.
func TestFunctionsThatExit(t *testing.T) {
	t.Parallel()
	exit := func(context.Context) error { runtime.Goexit(); return nil }
	for name, tc := range map[string]struct {
		part    Part
		started bool
		want    string
	}{
		"Start": {Part{Name: "lease", Start: exit}, false, "it ended its goroutine and did not return"}, // that of an own part has no goroutine of its own
		"Stop":  {Part{Name: "web", Stop: exit}, true, "it ended its goroutine and did not return"},
		"Info":  {Part{Name: "web", Info: func() any { runtime.Goexit(); return nil }}, true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				c, over := newCrew(), make(chan error, 1)
				go func() {
					defer close(over)
					left, broken, stopErr := crewed(ctx, c, tc.part)
					if c.Started() {
						broken = nil // the end of ctx
					}
					over <- errors.Join(broken, stopErr)
					if len(left) > 0 {
						t.Errorf("left %q", left)
					}
				}()
				synctest.Wait()
				if c.Started() != tc.started {
					t.Fatalf("started: %v", c.Started())
				}
				for range 2 {
					if began, s := time.Now(), stateOf(c, tc.part.Name); tc.part.Info != nil && (s.Info != "it ended its goroutine and did not return" || time.Since(began) > 0) {
						t.Errorf("after %v Info is %v", time.Since(began), s.Info)
					}
				}
				cancel()
				err, returned := <-over
				if !returned || tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
					t.Errorf("it returned: %v, %v, want %q", returned, err, tc.want)
				}
				if s, failed := stateOf(c, tc.part.Name), tc.want != ""; (s.State == Failed) != failed || (s.Err != nil) != failed {
					t.Errorf("%+v", s)
				}
			})
		})
	}
}

func TestPartsThatContradictThemselves(t *testing.T) {
	t.Parallel()
	run, step := func(context.Context) error { return nil }, func(context.Context) error { return nil }
	for want, p := range map[string]Part{
		"a Run and a Start or Stop":    {Name: "a", Run: run, Stop: step},
		"a Restart and no Run":         {Name: "a", Start: step, Restart: new(Restart)},
		"AwaitReady and no Run":        {Name: "a", Start: step, AwaitReady: true},
		"Restart has a negative field": {Name: "a", Run: run, Restart: &Restart{Most: -1}},
	} {
		if _, err := Sort([]Part{p}); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), `"a"`) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// Owed grows while a turn does not end, and while a rest is overdue.
func TestLoopOwes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l := NewLoop(base(), "x", func(context.Context) (time.Duration, error) {
			<-gate
			return Never, nil
		})
		l.Start(t.Context())
		time.Sleep(time.Minute)
		if owed := l.Owed(); owed != time.Minute {
			t.Errorf("a turn of a minute owes %v", owed)
		}
		close(gate)
		time.Sleep(1000 * time.Hour)
		if owed := l.Owed(); owed != 0 {
			t.Errorf("a loop that rests owes %v", owed)
		}
		l.Stop(t.Context())
	})
}
