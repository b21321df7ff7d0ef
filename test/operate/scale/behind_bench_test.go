package scale

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// BenchmarkBehind measures how soon ten jobs of one tenant start that are behind a million no-op jobs of another, where tenants take turns
// and 25 workers run. Cold: all of them are in the queue when the process starts; it is the time from the first start of a job to that of
// the tenth. Sorted: the others are in their lane already when the ten are pushed; it is how many jobs start from then on until all ten have.
func BenchmarkBehind(b *testing.B) {
	var cold, sorted []float64
	for b.Loop() {
		soon, starts := behind(b, 1_000_000)
		cold, sorted = append(cold, soon.Seconds()), append(sorted, starts...)
	}
	slices.Sort(cold)
	slices.Sort(sorted)
	b.ReportMetric(cold[(len(cold)-1)/2], "cold-s")
	b.ReportMetric(sorted[(len(sorted)-1)/2], "sorted-starts")
	b.ReportMetric(sorted[(len(sorted)-1)*9/10], "sorted-p90-starts")
}

func behind(b *testing.B, many int) (cold time.Duration, sorted []float64) {
	b.Helper()
	server := redistest.Start(b)
	const fill = `for i = 1, ARGV[1] do redis.call('RPUSH', 'resque:queue:work', '{"class":"Turn","args":["many",' .. i .. ']}') end`
	const few = `for i = 1, 10 do redis.call('RPUSH', 'resque:queue:work', '{"class":"Turn","args":["' .. ARGV[1] .. '",' .. i .. ']}') end`
	for range many / 100_000 {
		server.Do(b, "EVAL", fill, 0, 100_000)
	}
	server.Do(b, "EVAL", few, 0, "few")

	d := goworker.New(goworker.WorkerSettings{
		URI: server.URI(), QueuesString: "work", Concurrency: 25, DisableSignals: true, Logger: slog.New(slog.DiscardHandler),
	})
	var starts, others atomic.Int64
	var began atomic.Pointer[time.Time]
	tenth := make(chan struct{}, 1)
	d.Register("Turn", func(tenant string, _ int) {
		if starts.Add(1) == 1 {
			now := time.Now()
			began.Store(&now)
		}
		if tenant != "many" && others.Add(1)%10 == 0 {
			tenth <- struct{}{}
		}
	}, goworker.FairBy(func(args []json.RawMessage) string { return string(args[0]) }))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	wait := func() {
		select {
		case <-tenth:
		case <-time.After(time.Minute):
			b.Fatal("ten jobs have not started in a minute")
		}
	}
	wait()
	cold = time.Since(*began.Load())
	for i := range 10 {
		before := starts.Load()
		server.Do(b, "EVAL", few, 0, fmt.Sprint("few", i))
		wait()
		sorted = append(sorted, float64(starts.Load()-before))
	}
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
	d.Close()
	return cold, sorted
}
