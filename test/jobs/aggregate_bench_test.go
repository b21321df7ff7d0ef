package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkAggregate is an item in and its part of the job of its group, beside a plain job. Redis and the daemon share this
// machine.
func BenchmarkAggregate(b *testing.B) {
	for _, bench := range []struct {
		name string
		keys int
		opts []goworker.Option
	}{
		{"plain", 1, nil},
		{"1 key", 1, []goworker.Option{goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(100))}},
		{"1000 keys", 1000, []goworker.Option{goworker.Aggregate(goworker.KeyArgs(0), goworker.MaxCount(100), goworker.MaxWait(time.Second))}},
	} {
		b.Run(bench.name, func(b *testing.B) {
			server := redistest.Start(b)
			d := goworker.New(goworker.WorkerSettings{QueuesString: "work", Concurrency: 25, URI: server.URI(), Logger: slog.New(slog.DiscardHandler)})
			var done atomic.Int64
			over := make(chan struct{})
			count := func(n int) {
				if done.Add(int64(n)) == int64(b.N) {
					close(over)
				}
			}
			if bench.opts == nil {
				d.Register("Index", func(string, int) { count(1) })
			} else {
				d.Register("Index", func(_ string, ids []int) { count(len(ids)) }, bench.opts...)
			}
			c := server.Dial(b)
			for at := 0; at < b.N; {
				args := []any{"resque:queue:work"}
				for n := 0; n < 1000 && at < b.N; n++ {
					args = append(args, fmt.Sprintf(`{"class":"Index","args":["catalog %d",%d]}`, at%bench.keys, at))
					at++
				}
				if _, err := c.Do("RPUSH", args...); err != nil {
					b.Fatal(err)
				}
			}
			ctx, cancel := context.WithCancel(b.Context())
			ended := make(chan error, 1)
			b.ResetTimer()
			go func() { ended <- d.Run(ctx) }()
			<-over
			b.StopTimer()
			cancel()
			if err := <-ended; err != nil {
				b.Fatal(err)
			}
			d.Close()
		})
	}
}
