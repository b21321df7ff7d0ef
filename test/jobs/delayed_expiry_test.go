package jobs

import (
	"math"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/payload"
)

// A job that is delayed to another time has as long from then as it had.
func TestRescheduleExpiring(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	list := b.Daemon.Delayed()
	at, moved := time.UnixMilli(time.Now().Add(time.Hour).UnixMilli()), time.UnixMilli(time.Now().Add(2*time.Hour).UnixMilli())
	unique := b.MustEnqueue("Mark", "unique", goworker.ProcessAt(at), goworker.ExpireAfter(time.Minute), goworker.Unique())
	b.MustEnqueue("Mark", "never", goworker.ProcessAt(at))
	now := b.MustEnqueue("Mark", "now", goworker.ProcessAt(at), goworker.ExpiresAt(at.Add(time.Minute)))
	soon := b.MustEnqueue("Mark", "soon", goworker.ProcessAt(at), goworker.ExpireAfter(time.Minute))

	found, err := list.List(time.Time{}, 0, 9)
	if n, err2 := list.Reschedule(moved, found...); n != 4 || err != nil || err2 != nil {
		t.Fatalf("%d were rescheduled: %v, %v", n, err, err2)
	}
	if n, err := list.Reschedule(moved, found...); n != 1 || err != nil { // the one that did not change
		t.Errorf("%d were rescheduled by the list of before: %v", n, err)
	}
	again, err := list.List(time.Time{}, 0, 9)
	if err != nil || len(again) != 4 {
		t.Fatalf("%d jobs are delayed: %v", len(again), err)
	}
	for _, j := range again {
		p, err := payload.Parse(j.Payload)
		if err != nil {
			t.Fatal(err)
		}
		if want := moved.Add(time.Minute).UnixMilli(); !j.At.Equal(moved) || p.ExpiresAt != want && (p.ExpiresAt != 0 || string(p.Args[0]) != `"never"`) {
			t.Errorf("%s waits until %v", j.Payload, j.At)
		}
	}
	last := b.MustEnqueue("Mark", "unique", goworker.ProcessAt(moved), goworker.ExpireAfter(time.Minute), goworker.Unique(goworker.ReplaceWaiting()))
	if last.Replaced != unique.ID { // its lock knows where it is
		t.Errorf("%q made room, want %q", last.Replaced, unique.ID)
	}

	run := func(id string, how func(jobs ...goworker.DelayedJob) (int, error)) {
		t.Helper()
		found, err := list.Find(id, moved)
		if n, err2 := how(found...); n != 1 || err != nil || err2 != nil {
			t.Fatalf("%d of job %s: %v, %v", n, id, err, err2)
		}
	}
	run(now.ID, list.Enqueue)
	run(soon.ID, func(jobs ...goworker.DelayedJob) (int, error) { return list.Reschedule(time.Time{}, jobs...) })
	run(last.ID, func(jobs ...goworker.DelayedJob) (int, error) { return list.Reschedule(time.Now(), jobs...) })
	b.Start()
	b.Eventually("they run", func() bool {
		return b.Runs.Ends("now") == 1 && b.Runs.Ends("soon") == 1 && b.Runs.Ends("unique") == 1
	})
	b.Free()
}

// A failure that is retried by hand runs, however late.
func TestRetryOfExpiredFailure(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Redis.Do(t, "RPUSH", "resque:failed", `{"failed_at":"2026/01/01 00:00:00 UTC","payload":{"class":"Mark","args":["a"],"expires_at":1000,"id":"x"},"exception":"E","error":"e","worker":"w","queue":"work"}`)
	if n, err := b.Daemon.Failures().RetryWhere(goworker.FailureFilter{}); n != 1 || err != nil {
		t.Fatalf("%d retried: %v", n, err)
	}
	b.Eventually("it runs", func() bool { return b.Runs.Ends("a") == 1 })
}

// Some say by the largest number there is that a job never expires.
func TestRescheduleNeverExpiring(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	never := time.UnixMilli(math.MaxInt64)
	job := &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: []any{"kept"}}}
	if _, err := b.Daemon.EnqueueWith(job, goworker.ProcessIn(time.Hour), goworker.ExpiresAt(never)); err != nil {
		t.Fatal(err)
	}
	list := b.Daemon.Delayed()
	found, err := list.List(time.Time{}, 0, 1)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := list.Reschedule(time.Now().Add(2*time.Hour), found...); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	if n, err := b.Daemon.EnqueueDelayed(job); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	b.Start()
	b.Eventually("it runs", func() bool { return b.Runs.Ends("kept") == 1 })
}
