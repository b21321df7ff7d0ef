package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkEnqueueMany is many jobs a call, of arguments of about a hundred bytes: plain ones, ones with
// ids, and ones that are unique. 100,000 unique ones are more than a call may have.
func BenchmarkEnqueueMany(b *testing.B) {
	server := redistest.Start(b)
	client := benchDaemon(b, server).Client()
	for _, size := range []int{1_000, 100_000} {
		for _, kind := range []struct {
			name string
			opts []goworker.EnqueueOption
		}{
			{"plain", nil},
			{"ids", []goworker.EnqueueOption{goworker.ExpireAfter(time.Hour)}},
			{"unique", []goworker.EnqueueOption{goworker.Unique()}},
		} {
			if kind.name == "unique" && size > 1_000 {
				continue
			}
			b.Run(fmt.Sprintf("%s/jobs=%d", kind.name, size), func(b *testing.B) {
				items := make([]goworker.Item, size)
				for i, job := range benchJobs(size, "a") {
					items[i] = goworker.Item{Job: job, Options: kind.opts}
				}
				b.ReportAllocs()
				for b.Loop() {
					if _, err := client.EnqueueMany(context.Background(), items...); err != nil {
						b.Fatal(err)
					}
					b.StopTimer()
					server.Do(b, "FLUSHALL")
					b.StartTimer()
				}
				b.ReportMetric(float64(b.N)*float64(size)/b.Elapsed().Seconds(), "jobs/s")
			})
		}
	}
}

// BenchmarkEnqueueOne is one job a call, one call after the other: without a context that can end, and with a
// deadline.
func BenchmarkEnqueueOne(b *testing.B) {
	server := redistest.Start(b)
	client := benchDaemon(b, server).Client()
	job := benchJobs(1, "a")[0]
	until, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	for name, ctx := range map[string]context.Context{"background": context.Background(), "deadline": until} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := client.Enqueue(ctx, job); err != nil {
					b.Fatal(err)
				}
			}
		})
		server.Do(b, "FLUSHALL")
	}
}
