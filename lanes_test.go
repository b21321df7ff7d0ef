package goworker

import (
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/watch"
)

// A queue that is removed is not a sorted one any more.
func TestRemovedQueuesAreNotSorted(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.QueuesString = "*" })
	b.daemon.Register("Turn", func(tenant string, n int) {}, Fair(Arg(0)))
	b.start()
	for i := range 5 {
		b.pushTo(fmt.Sprint("tenant", i), tenantJob("Turn", "a", 1))
	}
	b.eventually("they run", func() bool { return b.stat("processed") == 5 && b.redis.Int(t, "SCARD", "resque:go:lanes") == 5 })
	for i := range 5 {
		if err := b.daemon.RemoveQueue(fmt.Sprint("tenant", i)); err != nil {
			t.Fatal(err)
		}
	}
	if left := b.redis.List(t, "SMEMBERS", "resque:go:lanes"); len(left) > 0 {
		t.Errorf("sorted are %v", left)
	}
	b.eventually("nobody looks there any more", func() bool { return b.sortedQueues() == 0 })
	b.pushTo("tenant3", tenantJob("Turn", "a", 2))
	b.eventually("it is a queue as any other", func() bool { return b.stat("processed") == 6 })
}

// sortedQueues is of how many queues the poller looks at lanes.
func (b *bundle) sortedQueues() int {
	p, answer := b.daemon.currentPoller(), make(chan int)
	p.ask(func() { answer <- p.source.(*watch.Order).Lanes().Len() })
	return <-answer
}

// When the limit of a class was taken away, what waits for it is drained as it was sorted,
// and new jobs stay in their queue, for Ruby too.
func TestLimitTakenAway(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]Option{
		"of a class": {Concurrency(2)}, "of keys": {Concurrency(2, PerKey(Arg(0)))}, "turns": {Fair(Arg(0)), Concurrency(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			g := newGauge()
			b.daemon.Register("Slow", func(tenant string, n int) { g.run("", n, time.Millisecond); <-b.gate }, limits...)
			b.daemon.Register("Turn", func(tenant string, n int) {}, Fair(Arg(0)))
			b.start()
			for n := range 30 {
				b.push(tenantJob("Slow", "a", n))
			}
			b.eventually("all are sorted", func() bool { return len(b.queue("work")) == 0 && g.done.Load() == 2 })
			b.open()
			if err := b.stop(); err != nil {
				t.Fatal(err)
			}

			next := setupOn(t, b.redis, func(s *WorkerSettings) { s.QueuesString = "work,turns" })
			next.daemon.Register("Turn", func(tenant string, n int) {}, Concurrency(1, PerKey(Arg(0))), Concurrency(7))
			next.daemon.Register("Slow", func(tenant string, n int) { g.run("", n, time.Millisecond) })
			next.start()
			next.eventually("all run", func() bool { return g.done.Load() == 30 && next.stat("processed") == 30 })
			if most := g.mosts()[""]; most != 2 {
				t.Errorf("%d of those that waited ran at a time, want 2", most)
			}
			before := next.redis.List(t, "SMEMBERS", "resque:go:lanes")
			for n := range 20 {
				next.push(tenantJob("Slow", "a", n))
			}
			next.eventually("all are done", func() bool { return next.stat("processed") == 50 })
			if after := next.redis.List(t, "SMEMBERS", "resque:go:lanes"); len(before) != 1 || !slices.Equal(before, after) {
				t.Errorf("jobs were sorted into %v, and before into %v", after, before)
			}
			next.nothingWaits()

			next.pushTo("turns", tenantJob("Turn", "a", 1))
			next.eventually("a queue that needs it is sorted", func() bool { return next.stat("processed") == 51 && next.sortedQueues() == 2 })
		})
	}
}

// Jobs from lanes count as running when their process dies, like all others.
func TestJobsFromLanesAreRecordedAsHandedOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("Slow", func(_ string, n int) { b.runs.start(fmt.Sprint(n)); <-b.gate }, Concurrency(4))
	b.daemon.LimitQueue("work")
	b.start()
	for n := range 3 {
		b.push(tenantJob("Slow", "a", n))
	}
	b.eventually("they run", func() bool { return b.runs.started() == 3 })
	process := b.daemon.session.Load().process.ID
	upTo, _ := strconv.Atoi(b.redis.Text(t, "HGET", "resque:go:process:"+process, "handed"))
	for _, ticket := range b.redis.List(t, "HKEYS", "resque:go:inflight:"+process) {
		if n, err := strconv.Atoi(ticket); err == nil && n > upTo {
			t.Errorf("the record says that jobs up to %d were handed out, and not %d", upTo, n)
		}
	}
	b.open()
}
