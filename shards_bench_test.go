package goworker_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkShards is jobs/s of one process with 25 workers, the jobs dealt to one,
// two and three Redises, with handlers that do nothing and that compute for 50 µs.
func BenchmarkShards(b *testing.B) {
	handlers := map[string]func(){
		"noop": func() {},
		"50us": func() {
			for end := time.Now().Add(50 * time.Microsecond); time.Now().Before(end); {
			}
		},
	}
	for _, name := range []string{"noop", "50us"} {
		for n := 1; n <= 3; n++ {
			b.Run(fmt.Sprintf("%s/shards=%d", name, n), func(b *testing.B) { benchShards(b, n, handlers[name]) })
		}
	}
}

func benchShards(b *testing.B, n int, handler func()) {
	var shards []goworker.Shard
	for i := range n {
		shards = append(shards, goworker.Shard{URI: "unix://" + redistest.Start(b).Socket(), Queues: []string{fmt.Sprint("q", i)}})
	}
	s := goworker.NewShards(goworker.WorkerSettings{Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}, shards...)
	defer s.Close()
	var left atomic.Int64
	done := make(chan struct{})
	s.Register("Job", func(string, ...any) error {
		handler()
		if left.Add(-1) == 0 {
			close(done)
		}
		return nil
	})
	left.Store(int64(b.N))
	for at := 0; at < b.N; at += 1000 {
		var batch []*goworker.Job
		for i := at; i < min(at+1000, b.N); i++ {
			batch = append(batch, &goworker.Job{Queue: fmt.Sprint("q", i%n), Payload: goworker.Payload{Class: "Job", Args: []any{i}}})
		}
		if err := s.EnqueueAll(batch...); err != nil {
			b.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error)
	b.ResetTimer()
	go func() { ended <- s.Run(ctx) }()
	<-done
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
