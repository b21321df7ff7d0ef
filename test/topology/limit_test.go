package topology

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// Jobs with limits wait and run in their order, and a paused queue rests.
func holdsLimits(t *testing.T, s shape, d *goworker.Daemon) {
	var now, most, ran, next atomic.Int64
	d.Register("One", func(account string, n int64) {
		if running := now.Add(1); running > most.Load() {
			most.Store(running)
		}
		if !next.CompareAndSwap(n, n+1) {
			t.Errorf("job %d ran out of its order", n)
		}
		time.Sleep(time.Millisecond)
		now.Add(-1)
		ran.Add(1)
	}, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))), goworker.RateLimit(500, time.Second), goworker.FairBy(goworker.ByArg(0)))
	d.LimitQueue("work")
	if err := d.PauseQueue("work"); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		enqueue(t, d, job("One", "acme", n))
	}
	stop := start(t, d)
	eventually(t, "they are sorted", func() bool { return number(t, d, "LLEN", d.Namespace()+"queue:work") == 0 })
	if n := ran.Load(); n != 0 {
		t.Errorf("%d jobs of a paused queue ran", n)
	}
	if n, err := d.QueueSize("work"); n != 20 || err != nil {
		t.Errorf("the queue's size is %d, %v", n, err)
	}
	if err := d.ResumeQueue("work"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "all have run", func() bool { return number(t, d, "GET", d.Namespace()+"stat:processed") == 20 })
	stop()
	if most.Load() != 1 {
		t.Errorf("%d ran at a time", most.Load())
	}
	if n, err := d.QueueSize("work"); n != 0 || err != nil {
		t.Errorf("the queue's size is %d, %v", n, err)
	}
}
