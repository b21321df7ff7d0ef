package goworker

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkRetry is one run of a job on a real Redis, by how it ends: done, filed as
// failed, or retried.
func BenchmarkRetry(b *testing.B) {
	later := Delays{time.Hour}
	for _, bench := range []struct {
		name  string
		opts  []Option
		fails bool
	}{
		{"done", nil, false},
		{"done/Retry", []Option{Retry(5, later)}, false},
		{"done/ResqueRetry", []Option{Retry(5, later, ResqueRetry{})}, false},
		{"failed", nil, true},
		{"retried/later", []Option{Retry(5, later)}, true},
		{"retried/atOnce", []Option{Retry(1, Delays{0})}, true},
		{"retried/ResqueRetry", []Option{Retry(5, later, ResqueRetry{})}, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := redistest.Start(b)
			d := New(WorkerSettings{
				URI: server.URI(), QueuesString: "work", Concurrency: 25, ExitOnComplete: true, Logger: quiet, DisableSignals: true,
			})
			defer d.Close()
			d.Register("Try", func(_ context.Context, n int) error {
				if bench.fails {
					return errNoLuck
				}
				return nil
			}, bench.opts...)
			c := server.Dial(b)
			for i := range b.N {
				_ = c.Send("RPUSH", "resque:queue:work", fmt.Sprintf(`{"class":"Try","args":[%d]}`, i))
			}
			if _, err := c.Do("SADD", "resque:queues", "work"); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			if err := d.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			b.ReportMetric(float64(server.Int(b, "GET", "resque:stat:processed"))/b.Elapsed().Seconds(), "runs/s")
		})
	}
}
