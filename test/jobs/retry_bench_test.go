package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkRetry is one run of a job on a real Redis, by how it ends: done, filed as
// failed, or retried.
func BenchmarkRetry(b *testing.B) {
	later := goworker.Delays{time.Hour}
	for _, bench := range []struct {
		name  string
		opts  []goworker.Option
		fails bool
	}{
		{"done", nil, false},
		{"done/Retry", []goworker.Option{goworker.Retry(5, later)}, false},
		{"done/ResqueRetry", []goworker.Option{goworker.Retry(5, later, goworker.ResqueRetry{})}, false},
		{"failed", nil, true},
		{"retried/later", []goworker.Option{goworker.Retry(5, later)}, true},
		{"retried/atOnce", []goworker.Option{goworker.Retry(1, goworker.Delays{0})}, true},
		{"retried/ResqueRetry", []goworker.Option{goworker.Retry(5, later, goworker.ResqueRetry{})}, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := redistest.Start(b)
			d := goworker.New(goworker.WorkerSettings{
				URI: server.URI(), QueuesString: "work", Concurrency: 25, ExitOnComplete: true, Logger: daemontest.Quiet, DisableSignals: true,
			})
			defer d.Close()
			d.Register("Try", func(_ context.Context, n int) error {
				if bench.fails {
					return daemontest.ErrNoLuck
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
