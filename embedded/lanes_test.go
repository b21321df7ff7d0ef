package embedded_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
)

// Jobs of many lanes run: the scripts that sort them and take them do here what they do in Redis.
func TestLanes(t *testing.T) {
	t.Parallel()
	const keys, each = 60, 5
	tenant := goworker.ByArg(0)
	limits := map[string][]goworker.Option{
		"turns":           {goworker.FairBy(tenant)},
		"number":          {goworker.MaxRunning(3)},
		"number of a key": {goworker.MaxRunning(2, goworker.PerKey(tenant))},
		"rate of a key":   {goworker.RateLimit(1000, time.Second, goworker.PerKey(tenant))},
		"both":            {goworker.MaxRunning(3), goworker.RateLimit(10_000, time.Second, goworker.PerKey(tenant))},
	}
	for name, options := range limits {
		for _, workers := range []int{1, 20} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := goworker.New(goworker.WorkerSettings{URI: "embedded:", QueuesString: "q", Concurrency: workers, ExitOnComplete: true})
				defer d.Close()
				d.RegisterDialer("embedded", embedded.Open)
				var ran [keys]atomic.Int64
				d.Register("C", func(key int) { ran[key].Add(1) }, options...)
				d.LimitQueue("q")
				var items []goworker.Item
				for n := range keys * each {
					items = append(items, goworker.Item{Job: goworker.NewJob("q", "C", n%keys)})
				}
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				if _, err := d.Client().EnqueueMany(ctx, items...); err != nil {
					t.Fatal(err)
				}
				if err := d.Run(ctx); err != nil {
					t.Error(err)
				}
				for key := range ran {
					if n := ran[key].Load(); n != each {
						t.Errorf("%d of %d jobs of key %d ran", n, each, key)
					}
				}
			})
		}
	}
}
