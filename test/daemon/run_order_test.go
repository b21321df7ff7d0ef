package daemon

import (
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// In what order a daemon with one worker takes jobs that lie in three queues.
func TestOrderOfQueues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ queues, order, want string }{
		"strict":      {"a,b,c", "", "a a a b b b c c c"},
		"round-robin": {"a,b,c", goworker.OrderRoundRobin, "a b c a b c a b c"},
		"a pattern":   {"c,*", "", "c c c a a a b b b"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			d := goworker.New(goworker.WorkerSettings{
				URI: s.URI(), QueuesString: tc.queues, Order: tc.order, Concurrency: 1,
				ExitOnComplete: true, DisableLookAhead: true, Logger: daemontest.Quiet,
			})
			defer d.Close()
			var took []string
			d.Register("Take", func(queue string, args ...interface{}) error { took = append(took, queue); return nil })
			for _, queue := range []string{"a", "b", "c", "a", "b", "c", "a", "b", "c"} {
				if err := d.Enqueue(&goworker.Job{Queue: queue, Payload: goworker.Payload{Class: "Take", Args: nil}}); err != nil {
					t.Fatal(err)
				}
			}
			if err := d.Run(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(took, " "); got != tc.want {
				t.Errorf("took %s, want %s", got, tc.want)
			}
		})
	}
}
