package topology

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// packs works a MessagePack queue: jobs of several queues in one call, delayed ones, and a workflow over both kinds of queues.
func packs(t *testing.T, s shape, d *goworker.Daemon) {
	calc := goworker.MessagePack("calc")
	settings := s.settings
	settings.Namespace, settings.QueuesString, settings.PollInterval = d.Namespace(), "work,"+calc, time.Hour
	settings.Logger = slog.New(slog.DiscardHandler)
	d = newDaemon(t, settings)
	var ran atomic.Int64
	d.Register("Add", func(n int64) (int64, error) { ran.Add(n); return n, nil })
	d.Register("Sum", func(a, b int64) (int64, error) { ran.Add(a + b); return a + b, nil })
	stop := start(t, d)
	c := d.Client()
	if _, err := c.EnqueueMany(t.Context(), goworker.Item{Job: goworker.NewJob(calc, "Add", 1)}, goworker.Item{Job: goworker.NewJob("work", "Add", 2)}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Enqueue(t.Context(), goworker.NewJob(calc, "Add", 4), goworker.ProcessIn(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	r, err := c.Start(t.Context(), goworker.Chain(goworker.Step(goworker.NewJob("work", "Add", 8)), goworker.Step(goworker.NewJob(calc, "Sum", 16))))
	if err != nil {
		t.Fatal(err)
	}
	if sum, err := goworker.Await[int64](t.Context(), c, r.ID); sum != 24 || err != nil {
		t.Errorf("the workflow comes to %d, %v", sum, err)
	}
	eventually(t, "all have run", func() bool { return ran.Load() == 1+2+4+8+24 })
	stop()
	if n := number(t, d, "SISMEMBER", d.Namespace()+"queues", calc); n != 0 {
		t.Error("the set of queues has the MessagePack queue")
	}
}
