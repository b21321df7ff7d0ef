package jobs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// A job that snoozes runs again later, as often as it likes, and all its attempts are left. It is
// no failure, with and without Retry.
func TestSnooze(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		opts []goworker.Option
		err  error
		left int
	}{
		"no Retry":     {nil, goworker.Snooze(time.Hour), 0},
		"Retry":        {[]goworker.Option{goworker.Retry(2, goworker.NoRetryIf(func(error) bool { return true }))}, goworker.Snooze(time.Hour), 2},
		"Retry(0)":     {[]goworker.Option{goworker.Retry(0)}, goworker.Snooze(time.Hour), 0},
		"wrapped":      {nil, fmt.Errorf("no export yet: %w", goworker.Snooze(time.Hour)), 0},
		"joined":       {nil, errors.Join(daemontest.ErrNoLuck, goworker.Snooze(time.Hour)), 0},
		"of outermost": {nil, errors.Join(goworker.Snooze(time.Hour), goworker.FailNow(nil)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			runs := 0
			b := daemontest.Trying(t, func(d *goworker.Delivery) error {
				if runs++; runs <= 30 {
					return tt.err
				}
				return nil
			}, tt.opts...)
			var hooks []string
			b.Daemon.AddHooks(goworker.Hooks{
				Snooze: func(ctx context.Context, d *goworker.Delivery, err error, at time.Time) {
					if err != tt.err || goworker.FromContext(ctx) != d || time.Until(at).Round(time.Hour) != time.Hour {
						t.Errorf("the hook saw %v, and the next run at %s", err, at)
					}
					hooks = append(hooks, "snooze")
				},
				Retry:   func(context.Context, *goworker.Delivery, error, time.Time) { hooks = append(hooks, "retry") },
				Failure: func(context.Context, *goworker.Delivery, error) { hooks = append(hooks, "failure") },
				Success: func(context.Context, *goworker.Delivery) { hooks = append(hooks, "success") },
			})
			b.Push(daemontest.Job("Try", "a"))
			b.Start()
			for range 30 { // more often than RetryIn may
				b.Eventually("the job waits", func() bool { return len(b.Scheduled()) == 1 })
				if p := b.Scheduled()[0]; !strings.HasPrefix(p, `{"class":"Try","args":["a"],`) || strings.Contains(p, "attempt") {
					t.Fatalf("what waits is %s", p)
				}
				b.Due()
			}
			b.Eventually("it is done", func() bool { return b.Stat("processed") == 31 })
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimSpace(strings.Repeat(fmt.Sprintf("1/%d ", tt.left), 31)); b.Seen() != want {
				t.Errorf("the runs saw %s", b.Seen())
			}
			if want := strings.Repeat("snooze ", 30) + "success"; strings.Join(hooks, " ") != want {
				t.Errorf("hooks: %q", hooks)
			}
			if n := b.Stat("failed") + len(b.Failures()); n != 0 {
				t.Errorf("%d failures", n)
			}
			if n := b.Log.Count("INFO job snoozed; it runs again later"); n != 30 {
				t.Errorf("%d lines of the log say so:\n%s", n, b.Log.Text())
			}
			if s := b.Daemon.Stats().Jobs; s.Snoozed != 30 || s.Retried != 0 || s.Done != 1 {
				t.Errorf("counted: %+v", s)
			}
		})
	}
}

// Snooze and a retry do not mix up their counts: only runs that failed use up an attempt.
func TestSnoozeBetweenRetries(t *testing.T) {
	t.Parallel()
	plan := []error{goworker.Snooze(0), daemontest.ErrNoLuck, goworker.Snooze(-time.Second), goworker.Snooze(0), daemontest.ErrNoLuck, goworker.Snooze(0), daemontest.ErrNoLuck}
	run := 0
	b := daemontest.Trying(t, func(*goworker.Delivery) error { run++; return plan[run-1] }, goworker.Retry(2, goworker.Delays{0}))
	b.Push(daemontest.Job("Try", "a"))
	b.Start()
	b.Eventually("it is given up", func() bool { return len(b.Failures()) == 1 })
	if want := "1/2 1/2 2/1 2/1 2/1 3/0 3/0"; b.Seen() != want {
		t.Errorf("the runs saw %s, want %s", b.Seen(), want)
	}
	if p, f := b.Stat("processed"), b.Stat("failed"); p != 7 || f != 1 {
		t.Errorf("processed %d, failed %d", p, f)
	}
}

// Zero or less puts the job behind the others of its queue at once.
func TestSnoozeAtOnce(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 1; s.ExitOnComplete = true })
	var order []string
	b.Daemon.Register("Turn", func(ctx context.Context, id string) error {
		order = append(order, id)
		if id == "a" && len(order) == 1 {
			return goworker.Snooze(0)
		}
		return nil
	})
	b.Push(daemontest.Job("Turn", "a"), daemontest.Job("Turn", "b"), daemontest.Job("Turn", "c"))
	b.Start()
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(order, " "); got != "a b c a" {
		t.Errorf("they ran as %s", got)
	}
}

// A unique job keeps its lock while it snoozes, and its end releases it.
func TestSnoozeOfUniqueJob(t *testing.T) {
	t.Parallel()
	first := true
	b := daemontest.Trying(t, func(*goworker.Delivery) error {
		if first {
			first = false
			return goworker.Snooze(time.Hour)
		}
		return nil
	}, goworker.Unique())
	job := goworker.NewJob("work", "Try", "a")
	receipt, err := b.Daemon.Client().Enqueue(t.Context(), job)
	if err != nil {
		t.Fatal(err)
	}
	b.Start()
	b.Eventually("the job waits", func() bool { return len(b.Scheduled()) == 1 })
	_, err = b.Daemon.Client().Enqueue(t.Context(), job)
	var held *goworker.DuplicateError
	if !errors.As(err, &held) || held.Holder != receipt.ID {
		t.Errorf("the second one: %v", err)
	}
	b.Due()
	b.Eventually("it is done", func() bool { return b.Stat("processed") == 2 })
	if keys := b.Locks(); len(keys) > 0 {
		t.Errorf("locks: %q", keys)
	}
}

// A job that always snoozes ends with its expiry.
func TestSnoozeUntilExpired(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, func(*goworker.Delivery) error { return goworker.Snooze(10 * time.Millisecond) })
	b.Start()
	if _, err := b.Daemon.Client().Enqueue(t.Context(), goworker.NewJob("work", "Try", "a"), goworker.ExpireAfter(time.Second)); err != nil {
		t.Fatal(err)
	}
	b.Eventually("it has expired", func() bool { return b.Redis.Int(t, "HGET", "resque:go:stats", "expired") == 1 })
	if n := len(b.Scheduled()) + len(b.Queue("work")) + len(b.Failures()); n != 0 {
		t.Errorf("%d are left", n)
	}
}
