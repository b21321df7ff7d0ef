package jobs

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkEnqueueUnique is one job a call, from eight goroutines, as BenchmarkEnqueue: with
// an id only, with a lock of its own, and refused. It reports the memory of a lock
// beside the job's own.
func BenchmarkEnqueueUnique(b *testing.B) {
	server := redistest.Start(b)
	d := benchDaemon(b, server)
	var next atomic.Int64
	one := func() *goworker.Job {
		return &goworker.Job{Queue: "a", Payload: goworker.Payload{Class: "SendEmail", Args: []any{fmt.Sprintf("user%012d@example.com", next.Add(1)), strings.Repeat("x", 70)}}}
	}
	with := func(opts ...goworker.EnqueueOption) func() error {
		return func() error { _, err := d.EnqueueWith(one(), opts...); return err }
	}
	refused := new(goworker.DuplicateError)
	taken := &goworker.Job{Queue: "a", Payload: goworker.Payload{Class: "SendEmail", Args: []any{"taken", strings.Repeat("x", 70)}}}
	for _, bench := range []struct {
		name string
		once func() error
	}{
		{"plain", func() error { return d.Enqueue(one()) }},
		{"id", with()},
		{"unique", with(goworker.Unique())},
		{"expiring", with(goworker.ExpireAfter(1 << 40))},
		{"refused", func() error {
			if _, err := d.EnqueueWith(taken, goworker.Unique()); err != nil && !errors.As(err, &refused) {
				return err
			}
			return nil
		}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			before := usedMemory(b, server)
			b.SetParallelism(4) // times GOMAXPROCS
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := bench.once(); err != nil {
						b.Error(err)
						return
					}
				}
			})
			b.ReportMetric(float64(usedMemory(b, server)-before)/float64(b.N), "Redis-B/op")
		})
		server.Do(b, "FLUSHALL")
	}
}

func usedMemory(b *testing.B, server *redistest.Server) int {
	b.Helper()
	_, rest, _ := strings.Cut(server.Text(b, "INFO", "memory"), "used_memory:")
	digits, _, _ := strings.Cut(rest, "\r")
	n, err := strconv.Atoi(digits)
	if err != nil {
		b.Fatal(err)
	}
	return n
}

// BenchmarkRunUnique is one run of a job on a real Redis, by the lock it has.
func BenchmarkRunUnique(b *testing.B) {
	for _, bench := range []struct {
		name string
		opts []goworker.EnqueueOption
	}{
		{"id", nil},
		{"done", []goworker.EnqueueOption{goworker.Unique()}},
		{"start", []goworker.EnqueueOption{goworker.Unique(goworker.UntilStart())}},
		{"expired", []goworker.EnqueueOption{daemontest.Past()}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := redistest.Start(b)
			d := goworker.New(goworker.WorkerSettings{
				URI: server.URI(), QueuesString: "work", Concurrency: 25, Connections: 25, ExitOnComplete: true, Logger: daemontest.Quiet, DisableSignals: true,
			})
			defer d.Close()
			d.Register("Try", func(_ context.Context, n int) error { return nil })
			for i := range b.N {
				job := &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Try", Args: []any{i}}}
				if _, err := d.EnqueueWith(job, bench.opts...); err != nil {
					b.Fatal(err)
				}
			}
			b.ResetTimer()
			if err := d.Run(b.Context()); err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "runs/s")
		})
	}
}
