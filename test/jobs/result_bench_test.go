package jobs

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkEnqueueResult is one job a call, from eight goroutines, as BenchmarkEnqueueUnique: plain, with an id only,
// and with a document.
func BenchmarkEnqueueResult(b *testing.B) {
	server := redistest.Start(b)
	d := benchDaemon(b, server)
	var next atomic.Int64
	for _, bench := range []struct {
		name string
		opts func() []goworker.EnqueueOption
	}{
		{"plain", func() []goworker.EnqueueOption { return nil }},
		{"id", func() []goworker.EnqueueOption {
			return []goworker.EnqueueOption{goworker.WithMeta(map[string]string{"a": "b"})}
		}},
		{"result", func() []goworker.EnqueueOption { return []goworker.EnqueueOption{goworker.WithResult(time.Hour)} }},
		{"chosen", func() []goworker.EnqueueOption {
			return []goworker.EnqueueOption{goworker.WithResult(time.Hour), goworker.WithID(fmt.Sprint("chosen", next.Add(1)))}
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			before := usedMemory(b, server)
			reportCPU := cpuUsed(b, server)
			b.SetParallelism(4) // times GOMAXPROCS
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					job := goworker.NewJob("a", "SendEmail", fmt.Sprintf("user%012d@example.com", next.Add(1)), strings.Repeat("x", 70))
					if _, err := d.EnqueueWith(job, bench.opts()...); err != nil {
						b.Error(err)
						return
					}
				}
			})
			reportCPU()
			b.ReportMetric(float64(usedMemory(b, server)-before)/float64(b.N), "Redis-B/op")
		})
		server.Do(b, "FLUSHALL")
	}
}

// BenchmarkEnqueueManyResult is one of a thousand jobs of a call.
func BenchmarkEnqueueManyResult(b *testing.B) {
	server := redistest.Start(b)
	d := benchDaemon(b, server)
	for _, bench := range []struct {
		name string
		opt  goworker.EnqueueOption
	}{
		{"id", goworker.WithMeta(map[string]string{"a": "b"})},
		{"result", goworker.WithResult(time.Hour)},
	} {
		b.Run(bench.name, func(b *testing.B) {
			items := make([]goworker.Item, 1000)
			for i := range items {
				job := goworker.NewJob("a", "SendEmail", fmt.Sprintf("user%012d@example.com", i), strings.Repeat("x", 70))
				items[i] = goworker.Item{Job: job, Options: []goworker.EnqueueOption{bench.opt}}
			}
			reportCPU := cpuUsed(b, server)
			b.ReportAllocs()
			b.ResetTimer()
			for left := b.N; left > 0; left -= len(items) {
				if _, err := d.Client().EnqueueMany(b.Context(), items[:min(left, len(items))]...); err != nil {
					b.Fatal(err)
				}
			}
			b.StopTimer()
			reportCPU()
		})
		server.Do(b, "FLUSHALL")
	}
}

// cpuUsed returns a function that reports the CPU time which Redis and this process have used since then, for each
// operation. On a machine with other work it says more than the time that went by.
func cpuUsed(b *testing.B, server *redistest.Server) func() {
	b.Helper()
	used := func() (redis, own float64) {
		info := server.Text(b, "INFO", "cpu")
		for _, field := range []string{"used_cpu_sys:", "used_cpu_user:"} {
			_, rest, _ := strings.Cut(info, field)
			seconds, _, _ := strings.Cut(rest, "\r")
			n, err := strconv.ParseFloat(seconds, 64)
			if err != nil {
				b.Fatal(err)
			}
			redis += n
		}
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return redis, time.Duration(usage.Utime.Nano() + usage.Stime.Nano()).Seconds()
	}
	redis, own := used()
	return func() {
		b.Helper()
		redisNow, ownNow := used()
		b.ReportMetric((redisNow-redis)*1e6/float64(b.N), "Redis-µs/op")
		b.ReportMetric((ownNow-own)*1e6/float64(b.N), "own-µs/op")
	}
}

// BenchmarkRunResult is one run of a job on a real Redis: with an id only, and with a document.
func BenchmarkRunResult(b *testing.B) {
	for _, bench := range []struct {
		name string
		opts []goworker.EnqueueOption
		does func(ctx context.Context, n int64) (int64, error)
	}{
		{"id", nil, func(_ context.Context, n int64) (int64, error) { return n, nil }},
		{"result", []goworker.EnqueueOption{goworker.WithResult(time.Hour)}, func(_ context.Context, n int64) (int64, error) { return n, nil }},
		{"progress", []goworker.EnqueueOption{goworker.WithResult(time.Hour)}, func(ctx context.Context, n int64) (int64, error) {
			goworker.Progress(ctx, n, n, "")
			return n, nil
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := redistest.Start(b)
			d := goworker.New(goworker.WorkerSettings{
				URI: server.URI(), QueuesString: "work", Concurrency: 25, Connections: 25, ExitOnComplete: true, Logger: daemontest.Quiet, DisableSignals: true,
			})
			defer d.Close()
			d.Register("Try", bench.does)
			var items []goworker.Item
			for i := range b.N {
				items = append(items, goworker.Item{Job: goworker.NewJob("work", "Try", i), Options: append(bench.opts, goworker.WithMeta(map[string]string{"a": "b"}))})
			}
			for len(items) > 0 {
				n := min(1000, len(items))
				if _, err := d.Client().EnqueueMany(b.Context(), items[:n]...); err != nil {
					b.Fatal(err)
				}
				items = items[n:]
			}
			reportCPU := cpuUsed(b, server)
			b.ReportAllocs()
			b.ResetTimer()
			if err := d.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			reportCPU()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}

// BenchmarkProgress is one call of Progress in a job with a document.
func BenchmarkProgress(b *testing.B) {
	server := redistest.Start(b)
	d := goworker.New(goworker.WorkerSettings{
		URI: server.URI(), QueuesString: "work", Concurrency: 1, ExitOnComplete: true, Logger: daemontest.Quiet, DisableSignals: true,
	})
	defer d.Close()
	d.Register("Say", func(ctx context.Context) {
		b.ReportAllocs()
		b.ResetTimer()
		for i := range b.N {
			goworker.Progress(ctx, int64(i), int64(b.N), "fetching")
		}
		b.StopTimer()
	})
	if _, err := d.EnqueueWith(goworker.NewJob("work", "Say"), goworker.WithResult(time.Hour)); err != nil {
		b.Fatal(err)
	}
	if err := d.Run(b.Context()); err != nil {
		b.Fatal(err)
	}
}
