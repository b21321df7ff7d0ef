package goworker

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/watch"
)

func leaving(s *WorkerSettings) { s.LeaveUnknown = true }

const leftLine = "job left to others"

// Jobs that nobody here knows go once to the tail of their queue, byte for byte, and
// count as nothing. Those behind them run.
func TestUnknownIsLeft(t *testing.T) {
	t.Parallel()
	b := setup(t, leaving)
	wrapped := `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Nobody","job_id":"x", "arguments":[1.0]}]}`
	var unknown []string
	for i := range 30 {
		unknown = append(unknown, fmt.Sprintf(`{"class":"Nobody", "args":[%d.0],"id":"é"}`, i))
		b.push(unknown[i], job("Mark", fmt.Sprint("m", i)))
	}
	unknown = append(unknown, wrapped, wrapped, unknown[0])
	b.push(unknown[30:]...)
	b.start()
	b.exactly(30)
	b.eventually("all are left", func() bool { return b.log.count(leftLine) >= len(unknown) && len(b.queue("work")) == len(unknown) })
	b.renewed(2)
	if got := slices.Sorted(slices.Values(b.queue("work"))); !slices.Equal(got, slices.Sorted(slices.Values(unknown))) {
		t.Errorf("the queue has %q", got)
	}
	if n := b.log.count(leftLine); n > len(unknown)+8 {
		t.Errorf("%d jobs were left %d times", len(unknown), n)
	}
	if b.stat("failed") != 0 || len(b.failures()) != 0 || b.stat("processed") != 30 {
		t.Errorf("failed %d, filed %d, processed %d", b.stat("failed"), len(b.failures()), b.stat("processed"))
	}
	if n := b.log.count("job done"); n != 30 {
		t.Errorf("%d jobs are called done", n)
	}

	// Somebody who knows the class gets all of them.
	other := New(WorkerSettings{QueuesString: "work", Concurrency: 2, URI: b.redis.URI(), Logger: slog.New(new(logBook)), ExitOnComplete: true, DisableSignals: true})
	ran := make(chan struct{}, 100)
	other.Register("Nobody", func() { ran <- struct{}{} })
	other.Register("Mark", func(string) {})
	defer other.Close()
	if err := other.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.eventually("the queue is empty", func() bool { return len(b.queue("work")) == 0 })
}

// A queue of nothing else is gone through once an interval, by each who looks.
func TestUnknownRests(t *testing.T) {
	t.Parallel()
	const interval = 500 * time.Millisecond
	b := setup(t, leaving, func(s *WorkerSettings) { s.PollInterval = interval })
	second := setupOn(t, b.redis, leaving, func(s *WorkerSettings) { s.PollInterval = interval })
	const n = 20
	for i := range n {
		b.push(fmt.Sprintf(`{"class":"Nobody","args":[%d]}`, i%3))
	}
	begun := time.Now()
	b.start()
	second.start()
	b.eventually("a few intervals pass", func() bool { return b.log.count(leftLine) >= 4*n && second.log.count(leftLine) >= 4*n })
	rounds := int(time.Since(begun)/interval) + 2
	for _, one := range []*bundle{b, second} {
		if got := one.log.count(leftLine); got > rounds*(n+8) {
			t.Errorf("%d jobs were left %d times in %d intervals", n, got, rounds)
		}
	}
	// What is pushed behind them runs.
	b.push(job("Mark", "behind"))
	b.eventually("it runs", func() bool { return b.runs.ends("behind")+second.runs.ends("behind") == 1 })
	if err := second.stop(); err != nil {
		t.Error(err)
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if got := b.queue("work"); len(got) != n || b.stat("processed") != 1 {
		t.Errorf("%d jobs wait of %d, processed %d", len(got), n, b.stat("processed"))
	}
}

// More unknown jobs than may be put back in an interval do not starve what is behind.
func TestUnknownFloodEndsNobody(t *testing.T) {
	t.Parallel()
	b := setup(t, leaving, func(s *WorkerSettings) { s.PollInterval = 50 * time.Millisecond })
	var flood []string
	for range 2*watch.MostPassed + 100 {
		flood = append(flood, `{"class":"Nobody","args":[]}`)
	}
	b.push(append(flood, job("Mark", "last"))...)
	b.start()
	b.exactly(1)
	if err := b.stop(); err != nil {
		t.Error(err)
	}
	if n := len(b.queue("work")); n != len(flood) {
		t.Errorf("%d jobs wait of %d", n, len(flood))
	}
}

// A daemon that is to exit when the queues are empty does so when it has looked at all.
func TestUnknownExitOnComplete(t *testing.T) {
	t.Parallel()
	for _, tracking := range []bool{true, false} {
		b := setup(t, leaving, func(s *WorkerSettings) {
			s.ExitOnComplete, s.DisableTracking, s.QueuesString = true, !tracking, "a,work"
		})
		for i := range 20 {
			b.push(`{"class":"Nobody","args":[]}`, job("Mark", fmt.Sprint(i)))
		}
		b.start()
		if err := b.wait(); err != nil {
			t.Error(err)
		}
		if got := b.queue("work"); len(got) != 20 || strings.Contains(fmt.Sprint(got), "Mark") {
			t.Errorf("tracking %v: left %q", tracking, got)
		}
	}
}

// Without the setting an unknown class is a failure.
func TestUnknownFails(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push(`{"class":"Nobody","args":[]}`)
	b.start()
	b.eventually("it fails", func() bool { return b.stat("failed") == 1 && len(b.failures()) == 1 })
}

// What becomes of a job whose time is over is for somebody to say who knows its class.
func TestUnknownDoesNotExpire(t *testing.T) {
	t.Parallel()
	b := setup(t, leaving)
	b.push(`{"class":"Nobody","args":[],"expires_at":1}`)
	b.start()
	b.eventually("it is left", func() bool { return b.log.count(leftLine) > 0 && len(b.queue("work")) == 1 })
	if n := b.redis.Int(t, "EXISTS", "resque:go:stats"); n != 0 {
		t.Error("it is counted as expired")
	}
	if err := b.stop(); err != nil {
		t.Error(err)
	}
}

// In a sorted queue they keep nobody waiting, and who knows their class holds them to
// its limits.
func TestUnknownIsLeftInLanes(t *testing.T) {
	t.Parallel()
	b := setup(t, leaving)
	g := newGauge()
	b.daemon.Register("Slow", func(tenant string, n int) { g.run("slow", n, 0) }, Concurrency(2))
	b.daemon.LimitQueue("work")
	const n = 300
	for i := range n {
		b.push(tenantJob("Slow", "a", i), tenantJob("Nobody", "a", i), job("Mark", fmt.Sprint("m", i)))
	}
	b.start()
	b.eventually("all others run", func() bool { return g.done.Load() == n && b.runs.finished() == n })
	if left := b.log.count(leftLine); left == 0 || left > 2*4 {
		t.Errorf("%d jobs were left in a minute by four workers", left)
	}
	if size, err := b.daemon.QueueSize("work"); size != n || err != nil {
		t.Errorf("%d jobs wait of %d, %v", size, n, err)
	}
	other := setupOn(t, b.redis, func(s *WorkerSettings) { s.ExitOnComplete = true })
	other.daemon.Register("Nobody", func(tenant string, n int) { g.run("nobody", n, 0) }, Concurrency(1))
	other.start()
	if err := other.wait(); err != nil {
		t.Fatal(err)
	}
	if most := g.mosts()["nobody"]; most != 1 || g.done.Load() != 2*n {
		t.Errorf("%d of them ran at a time, and %d jobs in all", most, g.done.Load())
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.nothingWaits()
}
