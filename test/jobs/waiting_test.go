package jobs

import (
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// What waits for limits is counted with its queue, shown, and goes with it.
func TestWaiting(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("HoldOne", func(id string) { b.Runs.Start(id); <-b.Gate; b.Runs.End(id) }, goworker.MaxRunning(1))
	b.Daemon.Register("Turn", func(tenant string, n int) {}, goworker.FairBy(goworker.ByArg(0)), goworker.RateLimit(1, time.Hour, goworker.PerKey(goworker.ByArg(0))))
	b.Start()
	b.Push(daemontest.Jobs("HoldOne", 5)...)
	b.Eventually("one runs", func() bool { return b.Runs.Started() == 1 })
	b.Push(daemontest.TenantJob("Turn", "a c", 0), daemontest.TenantJob("Turn", "a c", 1), daemontest.TenantJob("Turn", "a c", 2))
	b.Eventually("one of them has run", func() bool { return b.Stat("processed") == 1 && len(b.Queue("work")) == 0 })
	waiting, err := b.Daemon.Waiting("work")
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
	if n, err := b.Daemon.QueueSize("work"); n != 6 || err != nil {
		t.Errorf("the queue's size is %d, %v", n, err)
	}
	if info, err := b.Daemon.Info(); info.Pending != 6 || info.QueueSizes["work"] != 6 || err != nil {
		t.Errorf("pending are %d, %v, %v", info.Pending, info.QueueSizes, err)
	}
	if err := b.Daemon.RemoveQueue("work"); err != nil {
		t.Fatal(err)
	}
	b.Open()
	b.Eventually("the one that ran is done", func() bool { return b.Stat("processed") == 2 })
	b.NothingWaits()
}
