package control

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/events"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkFailure measures how long an idle process takes from the push of a job to its start, and how long from there, where the job fails
// at once, until a listener has the event.
func BenchmarkFailure(b *testing.B) {
	server := redistest.Start(b)
	failed, heard := make(chan time.Time, 1), make(chan time.Time, 100)
	d := goworker.New(goworker.WorkerSettings{
		URI: server.URI(), QueuesString: "work", Concurrency: 1, PollInterval: time.Minute, DisableSignals: true, Logger: slog.New(slog.DiscardHandler),
	})
	d.Register("Fails", func() error {
		failed <- time.Now()
		return errors.New("no")
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended, listened := make(chan error, 1), make(chan struct{})
	go func() { ended <- d.Run(ctx) }()
	go func() {
		defer close(listened)
		for e, err := range events.Watch(ctx, d, events.Filter{Kinds: []string{events.Failed}}) {
			if err != nil {
				b.Error(err)
			} else if e.Kind == events.Failed {
				heard <- time.Now()
			}
		}
	}()
	defer func() {
		cancel()
		<-listened
		if err := <-ended; err != nil {
			b.Error(err)
		}
		d.Close()
	}()
	redistest.Eventually(b, time.Minute, "it is ready", func() bool { return d.Health().Ready })
	push := func() {
		if _, err := d.Client().Enqueue(ctx, goworker.NewJob("work", "Fails")); err != nil {
			b.Fatal(err)
		}
	}
	wait := func(what string, c <-chan time.Time) time.Time {
		b.Helper()
		select {
		case at := <-c:
			return at
		case <-time.After(time.Minute):
			b.Fatal(what)
			return time.Time{}
		}
	}
	redistest.Eventually(b, time.Minute, "the process hears of the listener", func() bool {
		push()
		wait("the job does not start", failed)
		time.Sleep(20 * time.Millisecond)
		return len(heard) > 0
	})
	time.Sleep(100 * time.Millisecond)
	for len(heard) > 0 {
		<-heard
	}
	took := make(map[string][]float64)
	note := func(what string, d time.Duration) {
		took[what] = append(took[what], float64(d)/float64(time.Millisecond))
	}
	for b.Loop() {
		time.Sleep(5 * time.Millisecond) // the process is idle again
		began := time.Now()
		push()
		at := wait("the job does not start", failed)
		note("idle", at.Sub(began))
		note("heard", wait("the listener does not hear of it", heard).Sub(at))
	}
	for what, all := range took {
		slices.Sort(all)
		b.ReportMetric(all[(len(all)-1)/2], what+"-p50-ms")
		b.ReportMetric(all[(len(all)-1)*95/100], what+"-p95-ms")
	}
}
