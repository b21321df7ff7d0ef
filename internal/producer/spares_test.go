package producer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/redistest"
)

// enqueueFreed is Enqueue of one job or several, in a call that is used again after that.
func enqueueFreed(ctx context.Context, c *Client, set *outcome.Set, jobs ...outcome.Push) ([]Receipt, error) {
	call := c.NewCall(set, len(jobs))
	for i := range jobs {
		if err := call.Add(&jobs[i]); err != nil {
			return nil, err
		}
	}
	receipts, err := c.Send(ctx, call)
	receipts = slices.Clone(receipts)
	if err == nil {
		c.Free(call)
	}
	return receipts, err
}

// A call that is used again has nothing of the one before.
func TestCallsAreUsedAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, set := setup(t, s, 1)
	c.Coalescer = new(Coalescer)
	var spare *Call
	used := 0
	for i := range 200 {
		name, queue := fmt.Sprint("job", i), fmt.Sprint("q", i%2)
		jobs := []outcome.Push{{Queue: queue, Name: "C", Args: []any{name}}}
		id, lock, many := i%3 == 1, i%5 == 1, i%7 == 1
		if id {
			jobs[0].MakeID()
		}
		if lock {
			jobs[0].Options = options(locked("lock", false))
		}
		if i%4 == 3 {
			jobs[0].At = time.Now().Add(time.Hour)
		}
		if many {
			jobs = append(jobs, outcome.Push{Queue: "other", Name: "D"}, outcome.Push{Queue: queue, Name: "E"})
		}
		if probe := c.NewCall(set, 1); probe == spare {
			used++
		} else {
			spare = probe
		}
		c.Free(spare)
		receipts, err := enqueueFreed(t.Context(), c, set, jobs...)
		if err != nil || len(receipts) != len(jobs) {
			t.Fatalf("%s: %v, %v", name, receipts, err)
		}
		later := i%4 == 3
		held := lock && i > 1
		if first := receipts[0]; (first.ID != "") != (id || lock || later) || held != errors.As(first.Err, new(*Duplicate)) {
			t.Errorf("%s: %+v", name, first)
		}
		var all []string
		for _, jobs := range waiting(t, s) {
			all = append(all, jobs...)
		}
		n := strings.Count(strings.Join(all, "\n"), fmt.Sprintf(`"args":[%q]`, name))
		if want := map[bool]int{false: 1}[held]; n != want || many && len(all) != n+2 {
			t.Errorf("%s is %d times in %q", name, n, all)
		}
		if later != (s.Int(t, "ZCARD", "resque:go:schedule") == 1) && !held {
			t.Errorf("%s: the schedule", name)
		}
		for _, key := range []string{"resque:queue:q0", "resque:queue:q1", "resque:queue:other", "resque:go:schedule"} {
			s.Do(t, "DEL", key)
		}
	}
	if used == 0 {
		t.Error("no call was used again")
	}
}

// A plain job that follows one with a lock, in the memory of that one, is a plain job.
func TestPushesAreUsedAgain(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	c, set := setup(t, s, 1)
	p, call := new(outcome.Push), c.NewCall(set, 3)
	for i := range 3 {
		p.Reset()
		p.Queue, p.Name, p.Args = "q", "C", []any{i}
		if i != 1 {
			p.Options = options(locked(fmt.Sprint("lock", i), false))
		}
		if err := call.Add(p); err != nil {
			t.Fatal(err)
		}
	}
	receipts, err := c.Send(t.Context(), call)
	if err != nil || len(receipts) != 3 || receipts[0].ID == "" || receipts[1].ID != "" || receipts[2].ID == "" {
		t.Errorf("%+v, %v", receipts, err)
	}
	jobs := waiting(t, s)["q"]
	if len(jobs) != 3 || jobs[1] != `{"class":"C","args":[1]}` || !strings.Contains(jobs[2], `"args":[2]`) {
		t.Errorf("%q", jobs)
	}
}
