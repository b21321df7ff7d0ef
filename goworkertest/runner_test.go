package goworkertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

var errBusy = errors.New("the bank is busy")

// start is the time at which tests begin.
var start = time.Date(2026, 3, 2, 10, 0, 0, 0, time.UTC)

// daemon returns a daemon for a test.
func daemon(classes func(d *goworker.Daemon)) *goworker.Daemon {
	d := goworker.New(goworker.WorkerSettings{})
	classes(d)
	return d
}

func enqueue(t *testing.T, r *goworkertest.Runner, job *goworker.Job, opts ...goworker.EnqueueOption) {
	t.Helper()
	if _, err := r.Client().Enqueue(t.Context(), job, opts...); err != nil {
		t.Fatal(err)
	}
}

// states is what became of jobs, in short.
func states(results []*goworkertest.Result) string {
	var s []string
	for _, r := range results {
		s = append(s, fmt.Sprintf("%s %d %s", r.Class, r.Attempt, r.State))
	}
	return strings.Join(s, ", ")
}

func TestRunnerRetries(t *testing.T) {
	t.Parallel()
	var at []time.Duration
	var r *goworkertest.Runner
	r = goworkertest.New(t, daemon(func(d *goworker.Daemon) {
		d.Register("Pay", func() error {
			at = append(at, r.Now().Sub(start))
			return errBusy
		}, goworker.Retry(3, goworker.Delays{time.Minute, time.Hour, 24 * time.Hour}))
	}), goworkertest.StartAt(start))
	began := time.Now()
	enqueue(t, r, goworker.NewJob("pay", "Pay"))
	if got := states(r.Drain()); got != "Pay 1 retried" {
		t.Errorf("the first drain: %s", got)
	}
	if again := r.Drain(); len(again) > 0 {
		t.Errorf("a drain with nothing due: %s", states(again))
	}
	if waiting := r.Delayed(); len(waiting) != 1 || !waiting[0].At.Equal(start.Add(time.Minute)) {
		t.Errorf("waiting: %+v", waiting)
	}
	if early := r.Advance(time.Minute - time.Millisecond); len(early) > 0 {
		t.Errorf("a millisecond early: %s", states(early))
	}
	if got := states(r.Advance(time.Millisecond)); got != "Pay 2 retried" {
		t.Errorf("after a minute: %s", got)
	}
	if got := states(r.Advance(48 * time.Hour)); got != "Pay 3 retried, Pay 4 failed" {
		t.Errorf("two days later: %s", got)
	}
	want := []time.Duration{0, time.Minute, time.Hour + time.Minute, 25*time.Hour + time.Minute}
	if !slices.Equal(at, want) {
		t.Errorf("ran at %v, want %v", at, want)
	}
	r.Results()[3].RequireFailed(t, errBusy)
	if failed := r.Failed(); len(failed) != 1 || failed[0].Class != "Pay" {
		t.Errorf("failures: %+v", failed)
	}
	if waited := time.Since(began); waited > 2*time.Minute {
		t.Errorf("the days took %s", waited)
	}
	if !strings.Contains(r.Log(), "job failed; it is retried") {
		t.Errorf("the log: %s", r.Log())
	}
}

func TestRunnerDelays(t *testing.T) {
	t.Parallel()
	var ran []string
	r := goworkertest.New(t, daemon(func(d *goworker.Daemon) {
		d.Register("Note", func(what string) { ran = append(ran, what) })
	}), goworkertest.StartAt(start))
	note := func(what string) *goworker.Job { return goworker.NewJob("notes", "Note", what) }
	enqueue(t, r, note("at"), goworker.ProcessAt(start.Add(90*time.Second)))
	enqueue(t, r, note("in"), goworker.ProcessIn(time.Minute))
	enqueue(t, r, note("ruby"), goworker.ProcessIn(75*time.Second), goworker.ResqueScheduler())
	enqueue(t, r, note("expired"), goworker.ProcessIn(time.Minute), goworker.ExpiresAt(start.Add(30*time.Second)))
	enqueue(t, r, note("now"))
	enqueue(t, r, note("before"), goworker.ProcessAt(start.Add(-time.Hour)))
	r.Drain()
	r.Advance(time.Minute)
	enqueue(t, r, note("later"), goworker.ProcessIn(time.Minute))
	r.Advance(time.Hour)
	if want := []string{"now", "before", "in", "ruby", "at", "later"}; !slices.Equal(ran, want) {
		t.Errorf("ran %v, want %v", ran, want)
	}
	var expired []*goworkertest.Result
	for _, one := range r.Results() {
		if one.State == goworkertest.Expired {
			expired = append(expired, one)
		}
	}
	if len(expired) != 1 || expired[0].Ran {
		t.Errorf("expired: %s", states(expired))
	}
	goworkertest.RequireEnqueued(t, r, note("later"), goworkertest.DueAt(start.Add(2*time.Minute)))
}

func TestRunnerSchedules(t *testing.T) {
	t.Parallel()
	var ticks []string
	d := daemon(func(d *goworker.Daemon) {
		d.Register("Tick", func(tick time.Time) { ticks = append(ticks, tick.UTC().Format("15:04")) })
	})
	if err := d.Schedule("tick", goworker.Recurring{Cron: "0,30 * * * *", Class: "Tick", Queue: "ticks", TickArg: true}); err != nil {
		t.Fatal(err)
	}
	r := goworkertest.New(t, d, goworkertest.StartAt(start.Add(10*time.Minute)))
	r.Drain()
	r.Advance(19 * time.Minute)
	if len(ticks) > 0 {
		t.Errorf("too early: %v", ticks)
	}
	r.Advance(2 * time.Hour)
	if want := []string{"10:30", "11:00", "11:30", "12:00"}; !slices.Equal(ticks, want) {
		t.Errorf("ticks %v, want %v", ticks, want)
	}
	if got := states(r.Results()); strings.Count(got, "done") != 4 {
		t.Error(got)
	}
}

// Handlers enqueue by the daemon's Client, and the jobs run in the same drain; so do those of unique classes, one at a time.
func TestRunnerFollowsJobs(t *testing.T) {
	t.Parallel()
	var refused error
	d := goworker.New(goworker.WorkerSettings{Queues: []string{"orders", "mail"}})
	d.Register("Order", func(ctx context.Context, id int) error {
		if _, err := d.Client().Enqueue(ctx, goworker.NewJob("mail", "Mail", id)); err != nil {
			return err
		}
		_, refused = d.Client().Enqueue(ctx, goworker.NewJob("mail", "Mail", id))
		return nil
	})
	d.Register("Mail", func(int) {}, goworker.Unique())
	r := goworkertest.New(t, d)
	enqueue(t, r, goworker.NewJob("orders", "Order", 7))
	if got := states(r.Drain()); got != "Order 1 done, Mail 1 done" {
		t.Error(got)
	}
	if !errors.Is(refused, goworker.ErrDuplicate) {
		t.Errorf("the second mail: %v", refused)
	}
	goworkertest.RequireEnqueued(t, r, goworker.NewJob("mail", "Mail", 7), goworkertest.Times(1))
	enqueue(t, r, goworker.NewJob("mail", "Mail", 7)) // the lock is free again
	if got := len(r.Drain()); got != 1 {
		t.Errorf("%d jobs", got)
	}
	enqueue(t, r, goworker.NewJob("other", "Order", 8)) // no queue of this daemon
	if got := r.Drain(); len(got) > 0 {
		t.Error(states(got))
	}
}

// What holds jobs up in production does not keep a drain from its end.
func TestRunnerWithoutLimits(t *testing.T) {
	t.Parallel()
	r := goworkertest.New(t, daemon(func(d *goworker.Daemon) {
		d.Register("Call", func(string) {}, goworker.RateLimit(1, time.Hour), goworker.MaxRunning(1))
		d.Register("Ruby", func() error { return errBusy }, goworker.Retry(2, goworker.Delays{time.Minute}, goworker.ResqueRetry{}))
		d.LimitQueue("calls", goworker.MaxRunning(1))
	}))
	for range 5 {
		enqueue(t, r, goworker.NewJob("calls", "Call", "a"))
	}
	enqueue(t, r, goworker.NewJob("ruby", "Ruby"))
	if got := states(r.Drain()); strings.Count(got, "Call 1 done") != 5 || strings.Count(got, "Ruby 1 retried") != 1 {
		t.Error(got)
	}
	if got := states(r.Advance(time.Hour)); got != "Ruby 2 retried, Ruby 3 failed" {
		t.Error(got)
	}
}

// Schedules that Ruby shares fire under the schedulers' lock, and persistent ones are read from the Redis of the test.
func TestRunnerSharedSchedules(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{DynamicSchedule: true})
	d.Register("Tidy", func() {})
	r := goworkertest.New(t, d, goworkertest.StartAt(start))
	for name, schedule := range map[string]goworker.Recurring{
		"shared":     {Every: 20 * time.Second, Class: "Tidy", Queue: "shared", Shared: true},
		"persistent": {Every: 30 * time.Second, Class: "Tidy", Queue: "persistent", Persist: true},
	} {
		if err := d.Schedule(name, schedule); err != nil {
			t.Fatal(err)
		}
	}
	fired := make(map[string]int)
	for _, one := range r.Advance(time.Minute) {
		fired[one.Queue]++
	}
	if fired["shared"] != 3 || fired["persistent"] != 2 {
		t.Errorf("fired %v", fired)
	}
}
