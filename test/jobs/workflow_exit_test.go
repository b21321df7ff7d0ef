package jobs

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// With ExitOnComplete a daemon runs whole workflows: the queues are empty while a step runs, whose end sends the next
// one, and while a member of a batch is about to add others.
func TestExitAfterWorkflows(t *testing.T) {
	t.Parallel()
	for name, uri := range map[string]string{"server": redistest.Start(t).URI(), "embedded": "embedded:"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var ran []string // one worker
			d := goworker.New(goworker.WorkerSettings{URI: uri, Queues: []string{"low"}, Concurrency: 1, ExitOnComplete: true, Logger: daemontest.Quiet})
			defer d.Close()
			d.RegisterDialer("embedded", embedded.Open)
			asked := d.Client().Inspect()
			d.Register("Load", func(ctx context.Context, n int) error {
				return goworker.CurrentBatch(ctx).AddSeq(ctx, func(yield func(goworker.Item, error) bool) {
					for i := range n {
						if !yield(goworker.Item{Job: goworker.NewJob("low", "Say", fmt.Sprint("row ", i))}, nil) {
							return
						}
					}
				})
			})
			d.Register("Say", func(ctx context.Context, text string) error {
				ran = append(ran, text)
				for len(ran) == 1 { // until the daemon has found its queue empty
					if n, err := asked.QueueSize(ctx, "low"); err != nil || n == 0 {
						return err
					}
				}
				return nil
			})
			say := func(text string) *goworker.Node { return goworker.Step(goworker.NewJob("low", "Say", text)) }
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			if _, err := d.Client().Start(ctx, goworker.Chain(say("one"), say("two"), say("three"))); err != nil {
				t.Fatal(err)
			}
			if err := d.Run(ctx); err != nil {
				t.Fatal(err)
			}
			b, err := d.Client().NewBatch(ctx, goworker.Batch{OnSuccess: say("all rows")})
			if err == nil {
				err = b.Add(ctx, goworker.Step(goworker.NewJob("low", "Load", 50)))
			}
			if err == nil {
				err = b.Close(ctx)
			}
			if err == nil {
				err = d.Run(ctx)
			}
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range []string{"one", "two", "three", "row 0", "row 1", "row 49", "all rows"} {
				if !slices.Contains(ran, want) {
					t.Errorf("%q did not run, but %q", want, ran)
				}
			}
		})
	}
}
