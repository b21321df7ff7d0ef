package jobs

import (
	"fmt"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// benchJobs are n jobs with arguments of about a hundred bytes.
func benchJobs(n int, queues ...string) []*goworker.Job {
	all := make([]*goworker.Job, n)
	for i := range all {
		all[i] = &goworker.Job{Queue: queues[i%len(queues)], Payload: goworker.Payload{Class: "SendEmail",
			Args: []any{fmt.Sprintf("user%06d@example.com", i), strings.Repeat("x", 70), i}}}
	}
	return all
}

func benchDaemon(b *testing.B, server *redistest.Server) *goworker.Daemon {
	d := goworker.New(goworker.WorkerSettings{URI: "unix://" + server.Socket(), Connections: 8})
	b.Cleanup(d.Close)
	return d
}

// emptied keeps Redis from filling up: each so many rounds it removes the queues.
func emptied(b *testing.B, server *redistest.Server, round int) {
	if round%200 == 199 {
		b.StopTimer()
		server.Do(b, "FLUSHALL")
		b.StartTimer()
	}
}

// BenchmarkEnqueueAll is jobs in batches of 1,000, beside a raw RPUSH of the same
// bytes, made ready beforehand, on a connection of the same pool.
func BenchmarkEnqueueAll(b *testing.B) {
	const batch = 1000
	rate := func(b *testing.B) { b.ReportMetric(float64(b.N)*batch/b.Elapsed().Seconds(), "jobs/s") }
	server := redistest.Start(b)
	b.Run("raw", func(b *testing.B) {
		d := benchDaemon(b, server)
		args := []any{"resque:queue:a"}
		for _, j := range benchJobs(batch, "a") {
			payload, err := payload.Encode(j.Payload.Class, j.Payload.Args, payload.Plain)
			if err != nil {
				b.Fatal(err)
			}
			args = append(args, payload)
		}
		b.ReportAllocs()
		for round := 0; b.Loop(); round++ {
			c, err := d.GetConn()
			if err == nil {
				_, err = c.Do("RPUSH", args...)
				d.PutConn(c)
			}
			if err != nil {
				b.Fatal(err)
			}
			emptied(b, server, round)
		}
		rate(b)
	})
	for _, queues := range [][]string{{"a"}, {"a", "b", "c"}} {
		b.Run(fmt.Sprintf("queues=%d", len(queues)), func(b *testing.B) {
			d := benchDaemon(b, server)
			jobs := benchJobs(batch, queues...)
			b.ReportAllocs()
			for round := 0; b.Loop(); round++ {
				if err := d.EnqueueAll(jobs...); err != nil {
					b.Fatal(err)
				}
				emptied(b, server, round)
			}
			rate(b)
		})
	}
}

// BenchmarkEnqueue is one job a call, from eight goroutines, beside a raw RPUSH of
// the same bytes through the same pool.
func BenchmarkEnqueue(b *testing.B) {
	server := redistest.Start(b)
	d := benchDaemon(b, server)
	job := benchJobs(1, "a")[0]
	payload, err := payload.Encode(job.Payload.Class, job.Payload.Args, payload.Plain)
	if err != nil {
		b.Fatal(err)
	}
	ways := map[string]func() error{
		"raw": func() error {
			c, err := d.GetConn()
			if err == nil {
				_, err = c.Do("RPUSH", "resque:queue:a", payload)
				d.PutConn(c)
			}
			return err
		},
		"Enqueue": func() error { return d.Enqueue(job) },
	}
	for _, name := range []string{"raw", "Enqueue"} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(4) // times GOMAXPROCS
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := ways[name](); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
		server.Do(b, "FLUSHALL")
	}
}
