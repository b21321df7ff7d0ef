package producer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
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
	c := &Client{Pool: conn.NewPool(dialer, 1), Store: resque.New(""), Types: new(resque.Types)}
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

// BenchmarkPush is one job a call, from so many goroutines, each call by itself or together with those that come meanwhile. Redis's
// time is that of its commands.
func BenchmarkPush(b *testing.B) {
	for _, kind := range []string{"plain", "id", "unique"} {
		for _, producers := range []int{1, 8, 100} {
			for _, together := range []bool{false, true} {
				b.Run(fmt.Sprintf("%s/producers=%d/together=%t", kind, producers, together), func(b *testing.B) {
					server := redistest.Start(b)
					c, set := setup(b, server, max(2, producers))
					if together {
						c.Coalescer = new(Coalescer)
					}
					class := &outcome.Class{Name: "SendEmail"}
					lock := options(func(o *outcome.Options) { outcome.Put(o, unique.Options{Hold: resque.HoldDone, Most: unique.AtMost}) })
					var next atomic.Int64
					push := func(p *outcome.Push) {
						i := next.Add(1)
						*p = outcome.Push{Queue: "q", Name: "SendEmail", Class: class, Args: []any{"user@example.com", strings.Repeat("x", 70), i}}
						switch kind {
						case "id":
							p.MakeID()
						case "unique":
							p.Options = lock
						}
						call := c.NewCall(set, 1)
						if err := call.Add(p); err != nil {
							b.Error(err)
						}
						if r, err := c.Send(context.Background(), call); err != nil || r[0].Err != nil {
							b.Error(r, err)
						}
					}
					var wg sync.WaitGroup
					for range producers { // connects
						wg.Go(func() { push(new(outcome.Push)) })
					}
					wg.Wait()
					server.Do(b, "CONFIG", "RESETSTAT")
					b.ReportAllocs()
					b.ResetTimer()
					var left atomic.Int64
					left.Store(int64(b.N))
					for range producers {
						wg.Go(func() {
							for p := new(outcome.Push); left.Add(-1) >= 0; {
								push(p)
							}
						})
					}
					wg.Wait()
					b.StopTimer()
					calls, usec := 0, 0
					for _, line := range strings.Fields(fmt.Sprintf("%s", server.Do(b, "INFO", "commandstats"))) {
						var n, us int
						if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,usec=%d,", &n, &us); err == nil {
							calls, usec = n, us
						}
					}
					b.ReportMetric(float64(usec)/float64(b.N), "redis-us/op")
					b.ReportMetric(float64(calls)/float64(b.N), "calls/op")
				})
			}
		}
	}
}
