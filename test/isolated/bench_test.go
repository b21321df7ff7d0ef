//go:build unix

package isolated

import (
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkJobs is what a process of its own costs a job that does nothing.
func BenchmarkJobs(b *testing.B) {
	for _, class := range []string{"Plain", "Nothing"} {
		b.Run(map[string]string{"Plain": "plain", "Nothing": "isolated"}[class], func(b *testing.B) {
			server := redistest.Start(b)
			d := goworker.New(goworker.WorkerSettings{URI: server.URI(), QueuesString: "work", Concurrency: 2, ExitOnComplete: true, LogLevel: "error"})
			defer d.Close()
			register(d, server.URI(), b.TempDir()+"/notes")
			jobs := make([]*goworker.Job, b.N)
			for i := range jobs {
				jobs[i] = &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: class}}
			}
			if err := d.EnqueueAll(jobs...); err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			if err := d.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
			if n := server.Int(b, "GET", "resque:stat:processed"); n != b.N {
				b.Errorf("%d of %d are done", n, b.N)
			}
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
