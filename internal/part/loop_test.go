package part

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
)

func base() Base {
	log := slog.New(slog.DiscardHandler)
	return Base{Log: log, Outages: logging.NewOutages(log, clock.System), Clock: clock.System}
}

func TestLoopTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns, ends atomic.Int64
		l := NewLoop(base(), "x", func(context.Context) (time.Duration, error) {
			turns.Add(1)
			return time.Minute, nil
		})
		l.End = func() { ends.Add(1) }
		l.Start(t.Context())
		synctest.Wait()
		if turns.Load() != 1 {
			t.Errorf("%d turns at the start", turns.Load())
		}
		time.Sleep(3*time.Minute + time.Second)
		if turns.Load() != 4 {
			t.Errorf("%d turns after 3 minutes", turns.Load())
		}
		l.Wake()
		synctest.Wait()
		if turns.Load() != 5 {
			t.Errorf("%d turns after a wake", turns.Load())
		}
		l.Stop(t.Context())
		l.Stop(t.Context())
		if ends.Load() != 1 {
			t.Errorf("ended %d times", ends.Load())
		}
	})
}

func TestLoopNever(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns atomic.Int64
		l := NewLoop(base(), "x", func(context.Context) (time.Duration, error) { turns.Add(1); return Never, nil })
		l.Quiet = time.Second
		l.Start(t.Context())
		time.Sleep(1000 * time.Hour)
		l.Wake()
		synctest.Wait()
		if turns.Load() != 2 {
			t.Errorf("%d turns", turns.Load())
		}
		l.Wake() // within Quiet: put off
		synctest.Wait()
		if turns.Load() != 2 {
			t.Errorf("%d turns at once", turns.Load())
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if turns.Load() != 3 {
			t.Errorf("%d turns after Quiet", turns.Load())
		}
		l.Stop(t.Context())
	})
}

func TestLoopBacksOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var turns atomic.Int64
		l := NewLoop(base(), "x", func(context.Context) (time.Duration, error) {
			turns.Add(1)
			return 0, errors.New("no Redis")
		})
		l.Start(t.Context())
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := turns.Load(); n < 60 || n > 130 {
			t.Errorf("%d turns in a minute of failures", n)
		}
		l.Stop(t.Context())
	})
}

func TestLoopPatient(t *testing.T) {
	for _, patient := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var turns atomic.Int64
			l := NewLoop(base(), "x", func(context.Context) (time.Duration, error) {
				turns.Add(1)
				return 0, errors.New("no Redis")
			})
			l.Patient = patient
			l.Start(t.Context())
			for range 100 {
				l.Wake()
				synctest.Wait()
			}
			if n, want := turns.Load(), map[bool]int64{false: 101, true: 1}[patient]; n != want {
				t.Errorf("patient %v: %d turns after 100 wakes, want %d", patient, n, want)
			}
			l.Stop(t.Context())
		})
	}
}

func TestLoopStop(t *testing.T) {
	for name, tc := range map[string]struct {
		grace, want time.Duration
		limit       time.Duration // of the context of Stop
	}{
		"no grace":         {0, 0, time.Hour},
		"grace":            {2 * time.Second, 2 * time.Second, time.Hour},
		"context is first": {time.Minute, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := NewLoop(base(), "x", func(ctx context.Context) (time.Duration, error) {
					<-ctx.Done()
					return 0, ctx.Err()
				})
				l.Grace = tc.grace
				l.Start(t.Context())
				synctest.Wait()
				began := time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), tc.limit)
				defer cancel()
				l.Stop(ctx)
				if took := time.Since(began); took != tc.want {
					t.Errorf("stopped after %v, want %v", took, tc.want)
				}
			})
		})
	}
}

func TestLoopStopBeforeStart(t *testing.T) {
	l := NewLoop(base(), "x", func(context.Context) (time.Duration, error) { return 0, nil })
	l.Stop(t.Context())
}

// A loop that stands is named while it runs, and not while it rests or after its end.
func TestLoopsThatStand(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b, gate, loops := base(), make(chan struct{}), new(Loops)
		b.Loops = loops
		rests := NewLoop(b, "rests", func(context.Context) (time.Duration, error) { return Never, nil })
		stands := NewLoop(b, "stands", func(context.Context) (time.Duration, error) { <-gate; return Never, nil })
		if all := loops.Standing(0); all != nil {
			t.Errorf("before the start: %v", all)
		}
		rests.Start(t.Context())
		stands.Start(t.Context())
		time.Sleep(time.Minute)
		if all := loops.Standing(59 * time.Second); !slices.Equal(all, []Standing{{"stands", time.Minute}}) {
			t.Errorf("after a minute: %v", all)
		}
		if all := loops.Standing(time.Minute); all != nil {
			t.Errorf("not longer than a minute: %v", all)
		}
		close(gate)
		synctest.Wait()
		if all := loops.Standing(0); all != nil {
			t.Errorf("when it goes on: %v", all)
		}
		rests.Stop(t.Context())
		stands.Stop(t.Context())
		time.Sleep(time.Hour)
		if all := loops.Standing(0); all != nil || len(loops.all) > 0 {
			t.Errorf("after their end: %v", all)
		}
		if all := (*Loops)(nil).Standing(0); all != nil {
			t.Error(all)
		}
	})
}
