package goworker

import (
	"slices"
	"testing"
	"time"
)

// What waits for limits is counted with its queue, shown, and goes with it.
func TestWaiting(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("HoldOne", func(id string) { b.runs.start(id); <-b.gate; b.runs.end(id) }, Concurrency(1))
	b.daemon.Register("Turn", func(tenant string, n int) {}, Fair(Arg(0)), RateLimit(1, time.Hour, PerKey(Arg(0))))
	b.start()
	b.push(jobs("HoldOne", 5)...)
	b.eventually("one runs", func() bool { return b.runs.started() == 1 })
	b.push(tenantJob("Turn", "a c", 0), tenantJob("Turn", "a c", 1), tenantJob("Turn", "a c", 2))
	b.eventually("one of them has run", func() bool { return b.stat("processed") == 1 && len(b.queue("work")) == 0 })
	waiting, err := b.daemon.Waiting("work")
	if err != nil || len(waiting) != 2 {
		t.Fatalf("waiting are %+v, %v", waiting, err)
	}
	one, turn := waiting[0], waiting[1]
	if !slices.Equal(one.Limits, []string{"HoldOne"}) || one.Jobs != 4 || one.Key != "" || time.Until(one.Turn) > 0 {
		t.Errorf("the first lane is %+v", one)
	}
	if !slices.Equal(turn.Limits, []string{"Turn/key=a c"}) || turn.Jobs != 2 || turn.Key != "a c" || time.Until(turn.Turn) < 30*time.Second {
		t.Errorf("the second lane is %+v", turn)
	}
	if n, err := b.daemon.QueueSize("work"); n != 6 || err != nil {
		t.Errorf("the queue's size is %d, %v", n, err)
	}
	if info, err := b.daemon.Info(); info.Pending != 6 || info.QueueSizes["work"] != 6 || err != nil {
		t.Errorf("pending are %d, %v, %v", info.Pending, info.QueueSizes, err)
	}
	if err := b.daemon.RemoveQueue("work"); err != nil {
		t.Fatal(err)
	}
	b.open()
	b.eventually("the one that ran is done", func() bool { return b.stat("processed") == 2 })
	b.nothingWaits()
}
