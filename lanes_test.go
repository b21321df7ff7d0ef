package goworker_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// A queue that is removed is not a sorted one any more.
func TestRemovedQueuesAreNotSorted(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "*" })
	b.Daemon.Register("Turn", func(tenant string, n int) {}, goworker.Fair(goworker.Arg(0)))
	b.Start()
	for i := range 5 {
		b.PushTo(fmt.Sprint("tenant", i), daemontest.TenantJob("Turn", "a", 1))
	}
	b.Eventually("they run", func() bool { return b.Stat("processed") == 5 && b.Redis.Int(t, "SCARD", "resque:go:lanes") == 5 })
	for i := range 5 {
		if err := b.Daemon.RemoveQueue(fmt.Sprint("tenant", i)); err != nil {
			t.Fatal(err)
		}
	}
	if left := b.Redis.List(t, "SMEMBERS", "resque:go:lanes"); len(left) > 0 {
		t.Errorf("sorted are %v", left)
	}
	b.Eventually("nobody looks there any more", func() bool { return goworker.SortedQueues(b.Daemon) == 0 })
	b.PushTo("tenant3", daemontest.TenantJob("Turn", "a", 2))
	b.Eventually("it is a queue as any other", func() bool { return b.Stat("processed") == 6 })
}

// sortedQueues is of how many queues the poller looks at lanes.

// When the limit of a class was taken away, what waits for it is drained as it was sorted,
// and new jobs stay in their queue, for Ruby too.
func TestLimitTakenAway(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]goworker.Option{
		"of a class": {goworker.Concurrency(2)}, "of keys": {goworker.Concurrency(2, goworker.PerKey(goworker.Arg(0)))}, "turns": {goworker.Fair(goworker.Arg(0)), goworker.Concurrency(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t)
			g := daemontest.NewGauge()
			b.Daemon.Register("Slow", func(tenant string, n int) { g.Run("", n, time.Millisecond); <-b.Gate }, limits...)
			b.Daemon.Register("Turn", func(tenant string, n int) {}, goworker.Fair(goworker.Arg(0)))
			b.Start()
			for n := range 30 {
				b.Push(daemontest.TenantJob("Slow", "a", n))
			}
			b.Eventually("all are sorted", func() bool { return len(b.Queue("work")) == 0 && g.Done.Load() == 2 })
			b.Open()
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}

			next := daemontest.SetupOn(t, b.Redis, func(s *goworker.WorkerSettings) { s.QueuesString = "work,turns" })
			next.Daemon.Register("Turn", func(tenant string, n int) {}, goworker.Concurrency(1, goworker.PerKey(goworker.Arg(0))), goworker.Concurrency(7))
			next.Daemon.Register("Slow", func(tenant string, n int) { g.Run("", n, time.Millisecond) })
			next.Start()
			next.Eventually("all run", func() bool { return g.Done.Load() == 30 && next.Stat("processed") == 30 })
			if most := g.Mosts()[""]; most != 2 {
				t.Errorf("%d of those that waited ran at a time, want 2", most)
			}
			before := next.Redis.List(t, "SMEMBERS", "resque:go:lanes")
			for n := range 20 {
				next.Push(daemontest.TenantJob("Slow", "a", n))
			}
			next.Eventually("all are done", func() bool { return next.Stat("processed") == 50 })
			if after := next.Redis.List(t, "SMEMBERS", "resque:go:lanes"); len(before) != 1 || !slices.Equal(before, after) {
				t.Errorf("jobs were sorted into %v, and before into %v", after, before)
			}
			next.NothingWaits()

			next.PushTo("turns", daemontest.TenantJob("Turn", "a", 1))
			next.Eventually("a queue that needs it is sorted", func() bool { return next.Stat("processed") == 51 && goworker.SortedQueues(next.Daemon) == 2 })
		})
	}
}

// Jobs from lanes count as running when their process dies, like all others.
func TestJobsFromLanesAreRecordedAsHandedOut(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Slow", func(_ string, n int) { b.Runs.Start(fmt.Sprint(n)); <-b.Gate }, goworker.Concurrency(4))
	b.Daemon.LimitQueue("work")
	b.Start()
	for n := range 3 {
		b.Push(daemontest.TenantJob("Slow", "a", n))
	}
	b.Eventually("they run", func() bool { return b.Runs.Started() == 3 })
	process := goworker.InFleet(b.Daemon)
	upTo, _ := strconv.Atoi(b.Redis.Text(t, "HGET", "resque:go:process:"+process, "handed"))
	for _, ticket := range b.Redis.List(t, "HKEYS", "resque:go:inflight:"+process) {
		if n, err := strconv.Atoi(ticket); err == nil && n > upTo {
			t.Errorf("the record says that jobs up to %d were handed out, and not %d", upTo, n)
		}
	}
	b.Open()
}
