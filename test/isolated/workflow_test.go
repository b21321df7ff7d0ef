//go:build unix

package isolated

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker"
)

// registerSteps registers classes for workflows. Number and Keep run in the daemon.
func registerSteps(d worker, isolated func(...goworker.IsolatedOption) goworker.Option) {
	d.Register("Number", func(n int) (int, error) { return n, nil })
	d.Register("Two", func(n int) (int, string, error) { return n, "two", nil }, isolated())
	d.Register("Pair", func(a int, b string) (goworker.Args2[string, int], error) {
		return goworker.Args2[string, int]{A: b, B: a}, nil
	}, isolated())
	d.Register("Pages", func(ctx context.Context, numbers goworker.Results[int]) (string, error) {
		sum := 0
		for _, n := range numbers.All(ctx) {
			sum += n
		}
		return fmt.Sprintf("%d numbers, %d in all", numbers.Len(), sum), numbers.Err()
	}, isolated())
	d.Register("List", func(ctx context.Context, numbers []int) (string, error) {
		first, err := goworker.ResultOf[int](ctx, "first")
		return fmt.Sprintf("%d numbers, the first is %d, step %d", len(numbers), first, goworker.FromContext(ctx).Workflow.Step), err
	}, isolated())
	d.Register("Odd", func() (any, error) { return func() {}, nil }, isolated())
	d.Register("Waits", func(ctx context.Context) error {
		<-ctx.Done()
		return fmt.Errorf("it was stopped: %w", context.Cause(ctx))
	}, isolated(goworker.HardTimeout(time.Minute)))
}

func step(class string, args ...any) *goworker.Node {
	return goworker.Step(goworker.NewJob("work", class, args...))
}

// Results come from children and go to them, also several of one handler, and those that are read in pages.
func TestIsolatedSteps(t *testing.T) { inBoth(t, testIsolatedSteps) }

func testIsolatedSteps(t *testing.T, b *bundle) {
	client := b.daemon.Client()
	start := func(n *goworker.Node) string {
		t.Helper()
		r, err := client.Start(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	numbers := make([]*goworker.Node, 600)
	for i := range numbers {
		numbers[i] = step("Number", i)
	}
	numbers[0] = goworker.Step(goworker.NewJob("work", "Number", 0), goworker.Named("first"))
	for want, n := range map[string]*goworker.Node{
		"600 numbers, 179700 in all":            goworker.Chain(goworker.Group(numbers...), step("Pages")),
		"600 numbers, the first is 0, step 600": goworker.Chain(goworker.Group(numbers...), step("List")),
		"[two 7]":                               goworker.Chain(step("Two", 7), step("Pair")),
	} {
		got, err := goworker.Await[any](t.Context(), client, start(n))
		if err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
	}
	failed := start(goworker.Chain(step("Odd"), step("Number")))
	b.eventually("the workflow has failed", func() bool { return b.redis.Text(t, "HGET", "resque:go:wf:"+failed, "state") == "failed" })
	halted := start(goworker.Group(step("Waits"), step("Waits")))
	if err := client.Workflows().Cancel(t.Context(), halted); err != nil {
		t.Fatal(err)
	}
	b.eventually("its steps were stopped", func() bool { return b.redis.Text(t, "GET", "resque:go:wf-steps:"+halted) == "xx" })
}
