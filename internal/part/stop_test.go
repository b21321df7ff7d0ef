package part

import (
	"cmp"
	"context"
	"errors"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// The shutdown timeout of the default settings.
const byDefault = 17 * time.Second

// What has started is stopped, whether all parts started or not. The parts run until wait
// returns.
func TestRun(t *testing.T) {
	t.Parallel()
	for _, broken := range []error{nil, errors.New("broken")} {
		var log []string
		part := func(name string, err error) Part {
			return Part{Name: name,
				Start: func(context.Context) error { log = append(log, "start "+name); return err },
				Stop:  func(context.Context) error { log = append(log, "stop "+name); return errors.New("late") },
			}
		}
		b := NewBudget(clock.System, time.Minute, time.Minute, OfDaemon, nil)
		left, startErr, stopErr := b.Run(t.Context(), []Part{part("a", nil), part("b", broken)}, func() { log = append(log, "wait") })
		want := []string{"start a", "start b", "wait", "stop b", "stop a"}
		if broken != nil {
			want = []string{"start a", "start b", "stop a"}
		}
		if !slices.Equal(log, want) || !errors.Is(startErr, broken) || stopErr == nil || len(left) > 0 {
			t.Errorf("%v, want %v; errors %v and %v; left %q", log, want, startErr, stopErr, left)
		}
	}
}

// The graces and the default timeout are 25 s, and no step ends after the one that comes next.
func TestGraces(t *testing.T) {
	t.Parallel()
	for name, l := range map[string]Layout{"daemon": OfDaemon, "member": OfMember, "group": OfGroup} {
		if !slices.IsSorted(l[:]) {
			t.Errorf("the steps of a %s end after %v", name, l)
		}
		if l[Leave]+CloseGrace+250*time.Millisecond > Graces {
			t.Errorf("the last step of a %s ends after %v, which leaves %v of %v", name, l[Leave], Graces-l[Leave], Graces)
		}
	}
	if OfMember[Leave] > OfGroup[Jobs] {
		t.Errorf("a member may take %v, and its group waits %v", OfMember[Leave], OfGroup[Jobs])
	}
	if byDefault+Graces != 25*time.Second {
		t.Errorf("a stop may take %v", byDefault+Graces)
	}
}

// stopped runs parts, stops them at once, and returns how long the stop took.
func stopped(t *testing.T, b *Budget, parts []Part) (took time.Duration, left []string, err error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	began := time.Now()
	left, startErr, err := b.Run(ctx, parts, func() {})
	if startErr != nil {
		t.Error(startErr)
	}
	return time.Since(began), left, err
}

// own returns the daemon's own parts, which stop as steps says, and the program's around them.
func own(t *testing.T, steps map[string]func(context.Context) error, added ...Part) []Part {
	t.Helper()
	all := make(map[string]Steps)
	for name, stop := range steps {
		all[name] = Steps{Stop: stop}
	}
	parts, err := Arrange(Own, all, added)
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

// A part that ignores its context, until the test has ended.
func deaf(t *testing.T) func(context.Context) error {
	gate := make(chan struct{})
	t.Cleanup(func() { close(gate) })
	return func(context.Context) error { <-gate; return nil }
}

// minds waits for the end of its context.
func minds(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }

// Whatever does not stop costs its share and no more, and the stop is over in its time.
func TestStopIsOverInTime(t *testing.T) {
	t.Parallel()
	above := []string{"poller"}
	for name, tc := range map[string]struct {
		timeout time.Duration // 0: no limit
		layout  Layout
		own     []string // that are deaf
		added   []Part   // without a Stop they are deaf
		cut     bool
		want    time.Duration
		left    []string
	}{
		"nothing waits":                {byDefault, OfDaemon, nil, nil, false, 0, nil},
		"a part above the poller":      {byDefault, OfDaemon, nil, []Part{{Name: "web", Requires: above}}, false, byDefault + aboveGrace, []string{"web"}},
		"two parts above":              {byDefault, OfDaemon, nil, []Part{{Name: "web", Requires: above}, {Name: "cron", Requires: above}}, false, byDefault + aboveGrace, []string{"cron", "web"}},
		"one of two parts above":       {byDefault, OfDaemon, nil, []Part{{Name: "web", Requires: above, Stop: func(context.Context) error { return nil }}, {Name: "cron", Requires: above}}, false, (byDefault + aboveGrace) / 2, []string{"cron"}},
		"a part above that minds":      {byDefault, OfDaemon, nil, []Part{{Name: "web", Requires: above, Stop: minds}}, false, byDefault, nil},
		"a part below":                 {byDefault, OfDaemon, nil, []Part{{Name: "db"}}, false, byDefault + 6250*time.Millisecond, []string{"db"}},
		"the poller":                   {byDefault, OfDaemon, []string{"poller"}, nil, false, byDefault + 4250*time.Millisecond, []string{"poller"}},
		"the lease":                    {byDefault, OfDaemon, []string{"lease"}, nil, false, byDefault + 7500*time.Millisecond, []string{"lease"}},
		"everything":                   {byDefault, OfDaemon, []string{"recurring", "schedule", "poller", "workers", "records", "lease"}, []Part{{Name: "db"}, {Name: "cache"}, {Name: "web", Requires: above}}, false, byDefault + 7550*time.Millisecond, []string{"web", "recurring", "schedule", "poller", "workers", "cache", "db", "records", "lease"}},
		"everything in a group":        {byDefault, OfMember, []string{"recurring", "schedule", "poller", "records", "lease"}, []Part{{Name: "db"}}, false, byDefault + 6500*time.Millisecond, []string{"recurring", "schedule", "poller", "db", "records", "lease"}},
		"a group":                      {byDefault, OfGroup, []string{"poller"}, []Part{{Name: "db"}, {Name: "web", Requires: above}}, false, byDefault + 7500*time.Millisecond, []string{"web", "poller", "db"}},
		"everything, after the second": {byDefault, OfDaemon, []string{"recurring", "schedule", "poller", "records", "lease"}, []Part{{Name: "db"}, {Name: "web", Requires: above}}, true, 7500 * time.Millisecond, []string{"web", "recurring", "schedule", "poller", "db", "records", "lease"}},
		"no limit, all but the poller": {0, OfDaemon, []string{"recurring", "schedule", "records", "lease"}, []Part{{Name: "db"}, {Name: "web", Requires: above}}, false, byDefault + 2*time.Second + 3250*time.Millisecond, []string{"web", "recurring", "schedule", "db", "records", "lease"}},
		"no limit, cut":                {0, OfDaemon, []string{"poller", "lease"}, nil, true, 7500 * time.Millisecond, []string{"poller", "lease"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := NewBudget(clock.System, tc.timeout, byDefault, tc.layout, nil)
				if tc.cut {
					b.Cut()
				}
				steps := make(map[string]func(context.Context) error)
				for _, name := range tc.own {
					steps[name] = deaf(t)
				}
				added := slices.Clone(tc.added)
				for i := range added {
					if added[i].Stop == nil {
						added[i].Stop = deaf(t)
					}
				}
				took, left, _ := stopped(t, b, own(t, steps, added...))
				if d := took - tc.want; d < -100*time.Millisecond || d > 100*time.Millisecond || !slices.Equal(left, tc.left) {
					t.Errorf("the stop took %v and left %q, want %v and %q", took, left, tc.want, tc.left)
				}
			})
		})
	}
}

// Each of the daemon's own parts stops in a step of its own parts, and the steps follow one another. So none of them takes a share of the time that
// the program's parts have.
func TestOwnPartsStopInTheirSteps(t *testing.T) {
	t.Parallel()
	parts := own(t, nil, Part{Name: "db"}, Part{Name: "web", Requires: []string{"poller"}})
	steps := stepsOf(parts)
	for i, p := range parts {
		program := p.Name == "db" || p.Name == "web"
		if _, known := ownSteps[p.Name]; known == program {
			t.Errorf("%s is in the table of own steps: %v", p.Name, known)
		}
		if i > 0 && steps[i] > steps[i-1] {
			t.Errorf("%s stops in step %d, and %s after it in step %d", p.Name, steps[i], parts[i-1].Name, steps[i-1])
		}
	}
	synctest.Test(t, func(t *testing.T) {
		ends := make(map[string]func(context.Context) error)
		for _, p := range Own {
			ends[p.Name] = func(context.Context) error { return nil }
		}
		var had time.Duration
		b := NewBudget(clock.System, byDefault, byDefault, OfDaemon, nil)
		_, left, err := stopped(t, b, own(t, ends, Part{Name: "web", Requires: []string{"poller"}, Stop: func(ctx context.Context) error {
			ends, _ := ctx.Deadline()
			had = time.Until(ends)
			return nil
		}}))
		if had != byDefault || len(left) > 0 || err != nil {
			t.Errorf("the program's only part above the poller has %v to stop, left %q, %v", had, left, err)
		}
	})
}

// A second signal ends the wait for a part, and its context.
func TestCutWhileAPartStops(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(clock.System, byDefault, byDefault, OfDaemon, nil)
		var ended error
		parts := own(t, nil, Part{Name: "web", Requires: []string{"poller"}, Stop: func(ctx context.Context) error {
			<-ctx.Done()
			ended = ctx.Err()
			return nil
		}})
		clock.System.AfterFunc(2*time.Second, b.Cut)
		took, left, err := stopped(t, b, parts)
		if took < 2*time.Second || took > 2100*time.Millisecond || len(left) > 0 || err != nil || ended == nil {
			t.Errorf("the stop took %v, left %q and returned %v", took, left, err)
		}
	})
}

// A part that is starting when the stop begins has as long as one above the workers, and is then left
// behind.
func TestStopDuringAStart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(clock.System, byDefault, byDefault, OfDaemon, nil)
		ctx, cancel := context.WithCancel(t.Context())
		clock.System.AfterFunc(time.Hour, cancel)
		began := time.Now()
		left, err, _ := b.Run(ctx, own(t, nil, Part{Name: "db", Start: deaf(t), Timeout: -1}), func() { t.Error("all started") })
		if took := time.Since(began) - time.Hour; took != byDefault+aboveGrace {
			t.Errorf("the stop took %v", took)
		}
		if !slices.Equal(left, []string{"db"}) || err == nil || !strings.Contains(err.Error(), "starting db") {
			t.Errorf("left %q, %v", left, err)
		}
	})
}

// The same holds for a part of the daemon's own, whose start waits for Redis by a Dialer of the program that ignores its context.
func TestStopDuringTheStartOfAnOwnPart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(clock.System, byDefault, byDefault, OfDaemon, nil)
		ctx, cancel := context.WithCancel(t.Context())
		clock.System.AfterFunc(time.Hour, cancel)
		parts := own(t, nil)
		parts[slices.IndexFunc(parts, func(p Part) bool { return p.Name == "lease" })].Start = deaf(t)
		began := time.Now()
		left, err, _ := b.Run(ctx, parts, func() { t.Error("all started") })
		if took := time.Since(began) - time.Hour; took != byDefault+aboveGrace {
			t.Errorf("the stop took %v", took)
		}
		if !slices.Equal(left, []string{"lease"}) || err == nil || !strings.Contains(err.Error(), "starting lease") {
			t.Errorf("left %q, %v", left, err)
		}
	})
}

// A part that does not start in its time is an error that names it. Its context ends with that time. What
// ran before it is stopped.
func TestStartOverItsTime(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		timeout time.Duration
		deaf    bool
		want    time.Duration
	}{
		"by default":                    {0, false, StartWithin},
		"by default, and it is deaf":    {0, true, StartWithin + aboveGrace},
		"its own":                       {time.Second, false, time.Second},
		"its own, and the part is deaf": {time.Second, true, time.Second + aboveGrace},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				start, stopped := minds, false
				if tc.deaf {
					start = deaf(t)
				}
				b := NewBudget(clock.System, byDefault, byDefault, OfDaemon, nil)
				began := time.Now()
				left, err, _ := b.Run(t.Context(), own(t, nil,
					Part{Name: "first", Stop: func(context.Context) error { stopped = true; return nil }},
					Part{Name: "slow", Requires: []string{"first"}, Start: start, Timeout: tc.timeout},
				), func() { t.Error("all started") })
				if took := time.Since(began); took != tc.want || !stopped {
					t.Errorf("it took %v, and the part before it was stopped: %v", took, stopped)
				}
				want := "starting slow: it did not start in " + cmp.Or(tc.timeout, StartWithin).String()
				if err == nil || !strings.Contains(err.Error(), want) || slices.Contains(left, "slow") != tc.deaf {
					t.Errorf("left %q, error %v, want %q", left, err, want)
				}
			})
		})
	}
}

// A part that has a Timeout of its own is left behind after it, and the others have what it did not use.
func TestStopOverItsOwnTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(clock.System, byDefault, byDefault, OfDaemon, nil)
		var had time.Duration
		took, left, err := stopped(t, b, own(t, nil,
			Part{Name: "db", Stop: func(ctx context.Context) error {
				ends, _ := ctx.Deadline()
				had = time.Until(ends)
				return nil
			}},
			Part{Name: "web", Requires: []string{"db"}, Stop: deaf(t), Timeout: 500 * time.Millisecond},
		))
		if took != 500*time.Millisecond || had < byDefault || !slices.Equal(left, []string{"web"}) || err != nil {
			t.Errorf("the stop took %v, left %q and returned %v; db had %v", took, left, err, had)
		}
	})
}

// A part that is late but has returned when the stop is over is not left behind, and its error counts. So does what an error has to say then.
func TestStopThatIsLate(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		late := func(err error) func(context.Context) error {
			return func(ctx context.Context) error {
				<-ctx.Done()
				time.Sleep(lateMost + 10*time.Millisecond)
				return err
			}
		}
		b := NewBudget(clock.System, byDefault, byDefault, OfDaemon, nil)
		_, left, err := stopped(t, b, own(t, map[string]func(context.Context) error{
			"history": late(nil), "events": late(errors.New("too slow")), "schedule": func(context.Context) error { return again{} }, "lease": deaf(t),
		}))
		if !slices.Equal(left, []string{"lease"}) || err == nil || err.Error() != "stopping events: too slow\nstopping schedule: said again" {
			t.Errorf("left %q, %v", left, err)
		}
	})
}

// again is an error that says something else at the end of the stop.
type again struct{}

func (again) Error() string { return "said at once" }
func (again) Later() error  { return errors.New("said again") }

// A Stop that ends its goroutine has an error.
func TestStopThatExits(t *testing.T) {
	t.Parallel()
	b := NewBudget(clock.System, time.Minute, time.Minute, OfDaemon, nil)
	parts := own(t, nil, Part{Name: "db", Stop: func(context.Context) error { runtime.Goexit(); return nil }})
	if _, left, err := stopped(t, b, parts); len(left) > 0 || err == nil || !strings.Contains(err.Error(), "stopping db: it ended its goroutine") {
		t.Errorf("left %q, %v", left, err)
	}
}
