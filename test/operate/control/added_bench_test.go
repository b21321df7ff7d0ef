package control

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkAdded measures by turns how long an idle process takes from the push of a job to its start, and how long from the call that adds a
// queue to the start of the job that waits there.
func BenchmarkAdded(b *testing.B) {
	server := redistest.Start(b)
	started := make(chan time.Time, 1)
	d := goworker.New(goworker.WorkerSettings{
		URI: server.URI(), QueuesString: "work", Concurrency: 1, PollInterval: time.Minute, DisableSignals: true, Logger: slog.New(slog.DiscardHandler),
	})
	d.Register("Mark", func() { started <- time.Now() })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			b.Error(err)
		}
		d.Close()
	}()
	redistest.Eventually(b, time.Minute, "it is ready", func() bool { return d.Health().Ready })
	push := func(queue string) {
		if _, err := d.Client().Enqueue(ctx, goworker.NewJob(queue, "Mark")); err != nil {
			b.Fatal(err)
		}
	}
	took := make(map[string][]float64)
	since := func(what string, began time.Time) {
		b.Helper()
		select {
		case at := <-started:
			took[what] = append(took[what], float64(at.Sub(began))/float64(time.Millisecond))
		case <-time.After(time.Minute):
			b.Fatal("the job does not start")
		}
	}
	work := func(queues ...string) {
		b.Helper()
		if _, err := d.SetQueues(ctx, queues...); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		time.Sleep(5 * time.Millisecond) // the process is idle again
		began := time.Now()
		push("work")
		since("idle", began)

		push("more")
		time.Sleep(5 * time.Millisecond)
		began = time.Now()
		work("work", "more")
		since("added", began)
		work("work")
	}
	for what, all := range took {
		slices.Sort(all)
		b.ReportMetric(all[(len(all)-1)/2], what+"-p50-ms")
		b.ReportMetric(all[(len(all)-1)*95/100], what+"-p95-ms")
	}
}
