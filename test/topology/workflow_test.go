package topology

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// runsWorkflows shows that every script of workflows runs on every shape, under the user's permissions and, in a Cluster,
// in one slot.
func runsWorkflows(t *testing.T, s shape, d *goworker.Daemon) {
	client, ctx := d.Client(), t.Context()
	tokens := make(chan string, 1)
	var mended atomic.Bool
	d.Register("One", func(...int) (int, error) { return 1, nil })
	d.Register("Sum", func(all []int) (sum int, err error) {
		for _, n := range all {
			sum += n
		}
		return sum, nil
	})
	d.Register("Ask", func(token string) { tokens <- token })
	d.Register("Mend", func() (int, error) {
		if !mended.Load() {
			return 0, errors.New("not yet")
		}
		return 2, nil
	})
	d.Register("Alert", func(goworker.StepFailure) {})
	start(t, d)
	step := func(class string, opts ...goworker.EnqueueOption) *goworker.Node {
		return goworker.Step(job(class), opts...)
	}
	begin := func(n *goworker.Node, opts ...goworker.WorkflowOption) string {
		t.Helper()
		receipt, err := client.Start(ctx, n, opts...)
		if err != nil {
			t.Fatal(err)
		}
		return receipt.ID
	}
	ends := func(what, id string, want int) {
		t.Helper()
		if got, err := goworker.Await[int](ctx, client, id); got != want || err != nil {
			t.Errorf("%s: %d, %v", what, got, err)
		}
	}
	is := func(id string, want goworker.JobState) {
		t.Helper()
		eventually(t, "workflow "+id+" is "+string(want), func() bool {
			status, err := client.Status(ctx, id)
			return err == nil && status.State == want
		})
	}

	members := make([]*goworker.Node, 200) // more than one script sends
	for i := range members {
		members[i] = step("One")
	}
	ends("a large group", begin(goworker.Chain(step("One"), goworker.Group(members...), step("Sum")), goworker.UniqueAs("large")), 200)

	batch, err := client.NewBatch(ctx, goworker.Batch{OnSuccess: step("Sum"), Results: true})
	if err == nil {
		err = batch.AddSeq(ctx, func(yield func(goworker.Item, error) bool) {
			for range 30 {
				if !yield(goworker.Item{Job: job("One")}, nil) {
					return
				}
			}
		})
	}
	if err == nil {
		err = errors.Join(batch.Add(ctx, goworker.Chain(step("One"), step("One"))), batch.Close(ctx))
	}
	if err != nil {
		t.Fatal(err)
	}
	ends("a batch", batch.ID(), 31)

	asks := begin(goworker.Chain(step("Ask", goworker.External(time.Hour)), step("One")))
	if err := client.Complete(ctx, <-tokens, 7); err != nil {
		t.Error(err)
	}
	ends("a token", asks, 1)

	fails := begin(goworker.Chain(step("Mend"), step("One")).OnError(job("Alert")))
	if _, err := client.Wait(ctx, fails); err != nil {
		t.Error(err)
	}
	is(fails, goworker.StateFailed)
	mended.Store(true)
	if err := client.Workflows().Retry(ctx, fails); err != nil {
		t.Error(err)
	}
	is(fails, goworker.StateDone)

	waits := begin(goworker.Chain(step("One", goworker.ProcessIn(time.Hour)), step("One")))
	if err := errors.Join(client.Workflows().Pause(ctx, waits), client.Workflows().Resume(ctx, waits), client.Workflows().Skip(ctx, waits, "0")); err != nil {
		t.Error(err)
	}
	ends("a step that is skipped", waits, 1)
	stopped := begin(goworker.Chain(step("One", goworker.ProcessIn(time.Hour)), step("One")))
	if err := client.Cancel(ctx, stopped); err != nil {
		t.Error(err)
	}
	is(stopped, goworker.StateCancelled)
	late := begin(goworker.Chain(step("One", goworker.ProcessIn(time.Hour)), step("One")), goworker.Deadline(200*time.Millisecond))
	is(late, goworker.StateExpired)
}
