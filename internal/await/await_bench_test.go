package await

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkWait measures how long it takes from writing the end of a job until its waiter has it, while ten thousand wait:
// one end at a time, and twenty-five in a row as a commit writes them.
func BenchmarkWait(b *testing.B) {
	const waiters = 10_000
	for _, together := range []int{1, 25} {
		b.Run(fmt.Sprintf("together=%d", together), func(b *testing.B) {
			w := setup(b)
			c := w.Dial(b)
			key := func(i int) string { return w.s.KeyOfResult(fmt.Sprint(i)) }
			type waiter struct {
				i  int
				at time.Time
			}
			ended := make(chan waiter, waiters)
			begin := func(i int) {
				go func() {
					if _, err := w.w.Wait(context.Background(), fmt.Sprint(i)); err != nil && !errors.Is(err, errEnd) {
						b.Error(err)
					}
					ended <- waiter{i, time.Now()}
				}()
			}
			ready := func() {
				redistest.Eventually(b, patience, "all wait", func() bool { jobs, due := w.w.waiters(); return jobs == waiters && !due })
			}
			for i := range waiters {
				_ = c.Send("HSET", key(i), "state", "pending")
			}
			if _, err := c.Do(""); err != nil {
				b.Fatal(err)
			}
			for i := range waiters {
				begin(i)
			}
			ready()
			var took []time.Duration
			next := 0
			for b.Loop() {
				wrote := time.Now()
				for n := range together {
					_ = c.Send("HSET", key((next+n)%waiters), "state", "done", "result", `{"n":1}`)
				}
				if _, err := c.Do(""); err != nil {
					b.Fatal(err)
				}
				for range together {
					took = append(took, (<-ended).at.Sub(wrote))
				}
				b.StopTimer()
				for n := range together {
					_ = c.Send("HSET", key((next+n)%waiters), "state", "pending")
				}
				if _, err := c.Do(""); err != nil {
					b.Fatal(err)
				}
				for n := range together {
					begin((next + n) % waiters)
				}
				next += together
				ready()
				b.StartTimer()
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-µs")
			b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-µs")
			b.ReportMetric(float64(w.clients()), "connections")
		})
	}
}
