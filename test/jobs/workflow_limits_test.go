package jobs

import (
	"errors"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/payload"
)

// Limits, retries, expiry, priorities and unique classes hold for steps as for any job, and the workflow goes on.
func TestStepsAsAnyJob(t *testing.T) {
	t.Parallel()
	b, c := arithmetic(t)
	var running, most, tries atomic.Int64
	b.Daemon.Register("Slow", func(n int) (int, error) {
		now := running.Add(1)
		defer running.Add(-1)
		for seen := most.Load(); now > seen && !most.CompareAndSwap(seen, now); seen = most.Load() {
		}
		return n, nil
	}, goworker.MaxRunning(2))
	b.Daemon.Register("Flaky", func() (int, error) {
		if tries.Add(1) < 3 {
			return 0, errors.New("not yet")
		}
		return 5, nil
	}, goworker.Retry(5, goworker.Delays{10 * time.Millisecond}))
	b.Daemon.Register("Only", func(n int) (int, error) { return n, nil }, goworker.Unique())
	b.Daemon.Register("Total", func(all []int) (sum int, err error) {
		for _, n := range all {
			sum += n
		}
		return sum, nil
	})
	b.Start()

	var members []*goworker.Node
	for i := range 40 {
		members = append(members, goworker.Step(job("Slow", i)))
	}
	for range 2 { // two of a Unique class: as steps they take no lock
		members = append(members, goworker.Step(job("Only", 100)))
	}
	members = append(members, goworker.Step(job("Flaky")), goworker.Step(job("Add", 1), goworker.Priority(goworker.Urgent)))
	receipt, err := c.Start(t.Context(), goworker.Chord(goworker.Group(members...), goworker.Step(job("Total"), goworker.Priority(goworker.High))))
	if err != nil {
		t.Fatal(err)
	}
	if sum := await[int](t, c, receipt.ID); sum != 780+200+5+1 {
		t.Errorf("the sum is %d", sum)
	}
	if most.Load() > 2 || tries.Load() != 3 {
		t.Errorf("%d ran at a time, and %d tries", most.Load(), tries.Load())
	}

	receipt, err = c.Start(t.Context(), goworker.Chain(
		goworker.Step(job("Add", 1)),
		goworker.Step(goworker.NewJob("nobody", "Add", 1), goworker.ExpireAfter(time.Hour)),
	).OnError(goworker.NewJob("ops", "Alert"), goworker.ExpireAfter(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	b.Eventually("the step waits in its queue", func() bool { return b.Redis.Int(t, "LLEN", "resque:queue:nobody") == 1 })
	raw := b.Redis.Text(t, "LPOP", "resque:queue:nobody")
	p, err := payload.Parse([]byte(raw))
	if left := time.Until(time.UnixMilli(p.ExpiresAt)); err != nil || left < 50*time.Minute || left > time.Hour+time.Minute {
		t.Errorf("%s expires in %s, %v", raw, left, err)
	}
	past := strconv.FormatInt(p.ExpiresAt-2*time.Hour.Milliseconds(), 10)
	b.Push(strings.Replace(raw, strconv.FormatInt(p.ExpiresAt, 10), past, 1))
	var failed *goworker.WorkflowError
	if _, err := goworker.Await[int](t.Context(), c, receipt.ID); !errors.As(err, &failed) || failed.Class != "Add" {
		t.Errorf("the step that has expired: %v", err)
	}
}
