package producer

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// BenchmarkEnqueue is many jobs in one call, with arguments of about a hundred bytes.
func BenchmarkEnqueue(b *testing.B) {
	server := redistest.Start(b)
	dialer, err := conn.NewDialer(context.Background(), conn.Config{URI: "unix://" + server.Socket()}, nil)
	if err != nil {
		b.Fatal(err)
	}
	c := &Client{Pool: conn.NewPool(dialer, 1), Store: resque.New("")}
	defer c.Pool.Close(nil)
	set := outcome.New(outcome.Deps{Base: part.Base{Store: c.Store, Clock: clock.System}, Time: clock.System}, nil, expiry.New, unique.New)
	class := &outcome.Class{Name: "SendEmail"}
	lock := new(outcome.Options)
	outcome.Put(lock, unique.Options{Hold: resque.HoldDone, Most: unique.AtMost})
	for _, bench := range []struct {
		name         string
		jobs, queues int
		id, unique   bool
	}{
		{"queues=1", 100_000, 1, false, false}, {"queues=10", 100_000, 10, false, false},
		{"ids,queues=1", 100_000, 1, true, false}, {"ids,queues=10", 100_000, 10, true, false},
		{"unique", 10_000, 1, false, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			jobs := bench.jobs
			args := make([][]any, jobs)
			for i := range args {
				args[i] = []any{fmt.Sprintf("user%06d@example.com", i), strings.Repeat("x", 70), i}
			}
			queues := make([]string, bench.queues)
			for i := range queues {
				queues[i] = fmt.Sprint("q", i)
			}
			b.ReportAllocs()
			for b.Loop() {
				call, p := c.NewCall(set, jobs), new(outcome.Push)
				for i := range jobs {
					*p = outcome.Push{Queue: queues[i%len(queues)], Name: "SendEmail", Class: class, Args: args[i]}
					if bench.id {
						p.MakeID()
					}
					if bench.unique {
						p.Options = lock
					}
					if err := call.Add(p); err != nil {
						b.Fatal(err)
					}
				}
				if _, err := c.Send(context.Background(), call); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				server.Do(b, "FLUSHALL")
				b.StartTimer()
			}
			b.ReportMetric(float64(b.N)*float64(jobs)/b.Elapsed().Seconds(), "jobs/s")
		})
	}
}
