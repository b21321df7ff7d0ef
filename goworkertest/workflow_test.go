package goworkertest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/goworkertest"
)

// sums is a daemon with classes for workflows, and what they said.
func sums(t *testing.T, opts ...goworkertest.RunnerOption) (r *goworkertest.Runner, said *[]string) {
	t.Helper()
	said = new([]string)
	d := goworker.New(goworker.WorkerSettings{})
	d.Register("Number", func(n int) (int, error) { return n, nil })
	d.Register("Sum", func(ctx context.Context, numbers goworker.Results[int]) (sum int, err error) {
		for _, n := range numbers.All(ctx) {
			sum += n
		}
		return sum, numbers.Err()
	})
	d.Register("Say", func(args ...any) error { *said = append(*said, fmt.Sprint(args...)); return nil })
	d.Register("Ask", func(token string) error { return nil })
	d.Register("Fails", func(n int) (int, error) { return n, errors.New("no luck") }, goworker.Retry(2, goworker.Delays{time.Minute}))
	d.Register("Alert", func(f goworker.StepFailure) error {
		*said = append(*said, fmt.Sprintf("step %d of class %s: %s", f.Step, f.Class, f.Error))
		return nil
	})
	return goworkertest.New(t, d, append(opts, goworkertest.Patience(2*time.Minute))...), said
}

func step(class string, args ...any) *goworker.Node {
	return goworker.Step(goworker.NewJob("work", class, args...))
}

func begin(t *testing.T, r *goworkertest.Runner, n *goworker.Node, opts ...goworker.WorkflowOption) string {
	t.Helper()
	receipt, err := r.Client().Start(t.Context(), n, opts...)
	if err != nil {
		t.Fatal(err)
	}
	return receipt.ID
}

// A whole workflow runs in one Drain: a group in the group of a chord, and the sum of all in order.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	r, said := sums(t)
	numbers := make([]*goworker.Node, 550) // more than are passed on as arguments
	for i := range numbers {
		numbers[i] = step("Number", i)
	}
	id := begin(t, r, goworker.Chain(goworker.Group(numbers...), step("Sum"), step("Say", "in all ")))
	if runs := r.Drain(); len(runs) != len(numbers)+2 {
		t.Errorf("%d runs", len(runs))
	}
	if want := []string{"in all 150975"}; !slices.Equal(*said, want) {
		t.Errorf("%q", *said)
	}
	state(t, r, id, goworker.StateDone)
}

// A step is retried by the Runner's clock. What follows waits for it, or its failure calls the handler.
func TestWorkflowFails(t *testing.T) {
	t.Parallel()
	r, said := sums(t)
	id := begin(t, r, goworker.Chain(step("Fails", 1), step("Say")).OnError(goworker.NewJob("work", "Alert")))
	r.Drain()
	if len(*said) != 0 {
		t.Errorf("%q", *said)
	}
	state(t, r, id, goworker.StateRunning)
	r.Advance(2 * time.Minute)
	if want := []string{"step 0 of class Fails: no luck"}; !slices.Equal(*said, want) {
		t.Errorf("%q", *said)
	}
	state(t, r, id, goworker.StateFailed)
	if failed := r.Failed(); len(failed) != 1 {
		t.Errorf("%d failures", len(failed))
	}
}

// A deadline holds by the Runner's clock, and what is sent by the sweep comes in the same Drain: here the rest of a
// large group. A workflow that is done is removed when its time is over.
func TestWorkflowsAreSwept(t *testing.T) {
	t.Parallel()
	r, said := sums(t)
	wait := goworker.Step(goworker.NewJob("work", "Number", 1), goworker.ProcessIn(2*time.Hour))
	late := begin(t, r, goworker.Chain(wait, step("Say", "too late")).OnError(goworker.NewJob("work", "Alert")), goworker.Deadline(time.Hour))
	many := make([]*goworker.Node, 300) // more than one call sends
	for i := range many {
		many[i] = step("Number", i)
	}
	done := begin(t, r, goworker.Chain(step("Say", "first"), goworker.Group(many...)), goworker.KeepFor(30*time.Minute))
	if runs := r.Drain(); len(runs) != len(many)+1 {
		t.Errorf("%d runs", len(runs))
	}
	state(t, r, done, goworker.StateDone)
	r.Advance(31 * time.Minute)
	if _, err := r.Client().Status(t.Context(), done); !errors.Is(err, goworker.ErrNoResult) {
		t.Error(err)
	}
	state(t, r, late, goworker.StateRunning)
	r.Advance(2 * time.Hour)
	if len(*said) != 2 || (*said)[0] != "first" {
		t.Errorf("%q", *said)
	}
	state(t, r, late, goworker.StateExpired)
}

// A step that another program runs fails when its time is over by the Runner's clock.
func TestExternalTimeIsOver(t *testing.T) {
	t.Parallel()
	r, said := sums(t)
	id := begin(t, r, goworker.Chain(goworker.Step(goworker.NewJob("work", "Ask"), goworker.External(time.Hour)), step("Say", "approved")).
		OnError(goworker.NewJob("work", "Alert")))
	r.Drain()
	state(t, r, id, goworker.StateRunning)
	r.Advance(2 * time.Hour)
	state(t, r, id, goworker.StateFailed)
	if len(*said) != 1 {
		t.Errorf("%q", *said)
	}
}
