package goworker_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

const leftLine = "job left to others"

// onceAnHour lets no second interval begin, however long a test takes.
func onceAnHour(s *goworker.WorkerSettings) { s.PollInterval = time.Hour }

// Jobs of unknown classes go once to the tail of their queue, byte for byte, and count
// as nothing. Those behind them run.
func TestUnknownIsLeft(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, daemontest.Leaving, onceAnHour)
	wrapped := `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Nobody","job_id":"x", "arguments":[1.0]}]}`
	var unknown []string
	for i := range 30 {
		unknown = append(unknown, fmt.Sprintf(`{"class":"Nobody", "args":[%d.0],"id":"é"}`, i))
		b.Push(unknown[i], daemontest.Job("Mark", fmt.Sprint("m", i)))
	}
	unknown = append(unknown, wrapped, wrapped, unknown[0])
	b.Push(unknown[30:]...)
	b.Start()
	b.Exactly(30)
	b.Eventually("all are left", func() bool { return b.Log.Count(leftLine) >= len(unknown) && len(b.Queue("work")) == len(unknown) })
	b.Renewed(2)
	if got := slices.Sorted(slices.Values(b.Queue("work"))); !slices.Equal(got, slices.Sorted(slices.Values(unknown))) {
		t.Errorf("the queue has %q", got)
	}
	if n := b.Log.Count(leftLine); n > len(unknown)+8 {
		t.Errorf("%d jobs were left %d times", len(unknown), n)
	}
	if b.Stat("failed") != 0 || len(b.Failures()) != 0 || b.Stat("processed") != 30 {
		t.Errorf("failed %d, filed %d, processed %d", b.Stat("failed"), len(b.Failures()), b.Stat("processed"))
	}
	if n := b.Log.Count("job done"); n != 30 {
		t.Errorf("%d jobs are called done", n)
	}

	// A daemon that knows the class gets all of them.
	other := goworker.New(goworker.WorkerSettings{QueuesString: "work", Concurrency: 2, URI: b.Redis.URI(), Logger: slog.New(new(daemontest.LogBook)), ExitOnComplete: true, DisableSignals: true})
	ran := make(chan struct{}, 100)
	other.Register("Nobody", func() { ran <- struct{}{} })
	other.Register("Mark", func(string) {})
	defer other.Close()
	if err := other.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.Eventually("the queue is empty", func() bool { return len(b.Queue("work")) == 0 })
}

// A queue of nothing else is gone through once an interval, by each who looks.
func TestUnknownRests(t *testing.T) {
	t.Parallel()
	const interval = 500 * time.Millisecond
	b := daemontest.Setup(t, daemontest.Leaving, func(s *goworker.WorkerSettings) { s.PollInterval = interval })
	second := daemontest.SetupOn(t, b.Redis, daemontest.Leaving, func(s *goworker.WorkerSettings) { s.PollInterval = interval })
	const n = 20
	for i := range n {
		b.Push(fmt.Sprintf(`{"class":"Nobody","args":[%d]}`, i%3))
	}
	begun := time.Now()
	b.Start()
	second.Start()
	b.Eventually("a few intervals pass", func() bool { return b.Log.Count(leftLine) >= 4*n && second.Log.Count(leftLine) >= 4*n })
	for _, one := range []*daemontest.Bundle{b, second} {
		got := one.Log.Count(leftLine) // before the time
		if rounds := int(time.Since(begun)/interval) + 2; got > rounds*(n+8) {
			t.Errorf("%d jobs were left %d times in %d intervals", n, got, rounds)
		}
	}
	// What is pushed behind them runs.
	b.Push(daemontest.Job("Mark", "behind"))
	b.Eventually("it runs", func() bool { return b.Runs.Ends("behind")+second.Runs.Ends("behind") == 1 })
	if err := second.Stop(); err != nil {
		t.Error(err)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	if got := b.Queue("work"); len(got) != n || b.Stat("processed") != 1 {
		t.Errorf("%d jobs wait of %d, processed %d", len(got), n, b.Stat("processed"))
	}
}

// More unknown jobs than may be put back in an interval do not starve what is behind.
func TestUnknownFloodEndsNobody(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, daemontest.Leaving, func(s *goworker.WorkerSettings) { s.PollInterval = 50 * time.Millisecond })
	var flood []string
	for range 2*goworker.MostLeft + 100 {
		flood = append(flood, `{"class":"Nobody","args":[]}`)
	}
	b.Push(append(flood, daemontest.Job("Mark", "last"))...)
	b.Start()
	b.Exactly(1)
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
	if n := len(b.Queue("work")); n != len(flood) {
		t.Errorf("%d jobs wait of %d", n, len(flood))
	}
}

// A daemon that is to exit when the queues are empty does so when it has looked at all.
func TestUnknownExitOnComplete(t *testing.T) {
	t.Parallel()
	for _, tracking := range []bool{true, false} {
		b := daemontest.Setup(t, daemontest.Leaving, func(s *goworker.WorkerSettings) {
			s.ExitOnComplete, s.DisableTracking, s.QueuesString = true, !tracking, "a,work"
		})
		for i := range 20 {
			b.Push(`{"class":"Nobody","args":[]}`, daemontest.Job("Mark", fmt.Sprint(i)))
		}
		b.Start()
		if err := b.Wait(); err != nil {
			t.Error(err)
		}
		if got := b.Queue("work"); len(got) != 20 || strings.Contains(fmt.Sprint(got), "Mark") {
			t.Errorf("tracking %v: left %q", tracking, got)
		}
	}
}

// Without the setting an unknown class is a failure.
func TestUnknownFails(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Push(`{"class":"Nobody","args":[]}`)
	b.Start()
	b.Eventually("it fails", func() bool { return b.Stat("failed") == 1 && len(b.Failures()) == 1 })
}

// Only a process that knows its class decides about a job whose time is over.
func TestUnknownDoesNotExpire(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, daemontest.Leaving)
	b.Push(`{"class":"Nobody","args":[],"expires_at":1}`)
	b.Start()
	b.Eventually("it is left", func() bool { return b.Log.Count(leftLine) > 0 && len(b.Queue("work")) == 1 })
	if n := b.Redis.Int(t, "EXISTS", "resque:go:stats"); n != 0 {
		t.Error("it is counted as expired")
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
}

// In a sorted queue they block no other jobs, and a process that knows their class
// applies its limits.
func TestUnknownIsLeftInLanes(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, daemontest.Leaving, onceAnHour)
	g := daemontest.NewGauge()
	b.Daemon.Register("Slow", func(tenant string, n int) { g.Run("slow", n, 0) }, goworker.MaxRunning(2))
	b.Daemon.LimitQueue("work")
	const n = 300
	for i := range n {
		b.Push(daemontest.TenantJob("Slow", "a", i), daemontest.TenantJob("Nobody", "a", i), daemontest.Job("Mark", fmt.Sprint("m", i)))
	}
	b.Start()
	b.Eventually("all others run", func() bool { return g.Done.Load() == n && b.Runs.Finished() == n })
	if left := b.Log.Count(leftLine); left == 0 || left > 2*4 {
		t.Errorf("%d jobs were left in an interval by four workers", left)
	}
	if size, err := b.Daemon.QueueSize("work"); size != n || err != nil {
		t.Errorf("%d jobs wait of %d, %v", size, n, err)
	}
	other := daemontest.SetupOn(t, b.Redis, func(s *goworker.WorkerSettings) { s.ExitOnComplete = true })
	other.Daemon.Register("Nobody", func(tenant string, n int) { g.Run("unknown", n, 0) }, goworker.MaxRunning(1))
	other.Start()
	if err := other.Wait(); err != nil {
		t.Fatal(err)
	}
	if most := g.Mosts()["unknown"]; most != 1 || g.Done.Load() != 2*n {
		t.Errorf("%d of them ran at a time, and %d jobs in all", most, g.Done.Load())
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.NothingWaits()
}
