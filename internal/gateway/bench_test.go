package gateway_test

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkPublish and BenchmarkReserveAck are what one request costs without HTTP: so many callers at a time, jobs of 100
// bytes, a Redis that writes nothing to disk.

func BenchmarkPublish(b *testing.B) {
	for _, callers := range []int{1, 50, 500} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			g := start(b, redistest.Start(b).URI())
			p := body("mail", strings.Repeat("x", 100))
			run(b, callers, func() { publish(b, g, p) })
		})
	}
}

func BenchmarkReserveAck(b *testing.B) {
	for _, callers := range []int{1, 50, 500} {
		b.Run(fmt.Sprint("callers=", callers), func(b *testing.B) {
			g := start(b, redistest.Start(b).URI())
			fill(b, g, b.N)
			run(b, callers, func() {
				jobs := reserve(b, g, 0, 1, "mail")
				if len(jobs) != 1 || ack(b, g, jobs[0]) != gateway.Acked {
					b.Error("a job was not reserved or not ended")
				}
			})
		})
	}
}

// BenchmarkPublishToWaiter is the way of a job to one of a thousand requests that wait for it.
func BenchmarkPublishToWaiter(b *testing.B) {
	g := start(b, redistest.Start(b).URI())
	got := make(chan time.Time)
	for range 1000 {
		go func() {
			for {
				jobs, err := g.Reserve(b.Context(), gateway.Ask{Queues: []string{"mail"}, TTR: time.Minute, Wait: time.Hour})
				if err != nil || len(jobs) == 0 { // the gateway stops
					return
				}
				got <- time.Now()
				_, _ = g.Ack(b.Context(), gateway.Ack{Queue: "mail", ID: jobs[0].ID})
			}
		}()
	}
	p := body("mail", strings.Repeat("x", 100))
	redistest.Eventually(b, time.Minute, "all wait", func() bool { return g.Stats().Waiters == 1000 })
	for b.Loop() {
		publish(b, g, p)
		<-got
	}
}

// BenchmarkPublishToServers is a push for which the clients of three servers wait: how many turns it costs, and how late the job
// comes.
func BenchmarkPublishToServers(b *testing.B) {
	uri := redistest.Start(b).URI()
	var all []*gateway.Gateway
	got := make(chan time.Time)
	for range 3 {
		g := start(b, uri)
		all = append(all, g)
		for range 100 {
			go func() {
				for {
					jobs, err := g.Reserve(b.Context(), gateway.Ask{Queues: []string{"mail"}, TTR: time.Minute, Wait: time.Hour})
					if err != nil || len(jobs) == 0 { // the gateway stops
						return
					}
					got <- time.Now()
					_, _ = g.Ack(b.Context(), gateway.Ack{Queue: "mail", ID: jobs[0].ID})
				}
			}()
		}
	}
	turns := func() (n int64) {
		for _, g := range all {
			n += g.Stats().Turns
		}
		return n
	}
	p := body("mail", strings.Repeat("x", 100))
	redistest.Eventually(b, time.Minute, "all wait", func() bool {
		waiting := 0
		for _, g := range all {
			waiting += g.Stats().Waiters
		}
		return waiting == 300
	})
	before, late := turns(), time.Duration(0)
	for b.Loop() {
		began := time.Now()
		publish(b, all[0], p)
		late += (<-got).Sub(began)
	}
	b.ReportMetric(float64(turns()-before)/float64(b.N), "turns/push")
	b.ReportMetric(float64(late.Microseconds())/float64(b.N), "µs/push")
}

func fill(b *testing.B, g *gateway.Gateway, n int) {
	p := body("mail", strings.Repeat("x", 100))
	for n > 0 {
		some := make([]gateway.Publication, min(n, 1000))
		for i := range some {
			some[i] = p
		}
		publish(b, g, some...)
		n -= len(some)
	}
}

// run calls f b.N times, from so many goroutines.
func run(b *testing.B, callers int, f func()) {
	b.ReportAllocs()
	b.ResetTimer()
	var left atomic.Int64
	left.Store(int64(b.N))
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				f()
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "jobs/s")
}
