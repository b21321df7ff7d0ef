package tracing_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/tracing"
)

// start starts a workflow.
func (b *bundle) start(ctx context.Context, n *goworker.Node, opts ...goworker.WorkflowOption) string {
	b.T.Helper()
	r, err := b.client.Start(ctx, n, opts...)
	if err != nil {
		b.T.Fatal(err)
	}
	return r.ID
}

func job(class string, args ...any) *goworker.Job { return goworker.NewJob("work", class, args...) }

func step(class string, args ...any) *goworker.Node { return goworker.Step(job(class, args...)) }

// TestWorkflow links each step to those that it follows: behind a chain, behind a group with a branch of several steps, as the handler
// of a failure, and behind all.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, class := range []string{"Begin", "A", "B1", "B2", "After", "Cleanup"} {
		b.Daemon.Register(class, func() {})
	}
	b.Daemon.Register("Gather", func(...any) {})
	b.Daemon.Register("Report", func(goworker.StepFailure) {})
	b.Daemon.Register("Breaks", func() error { return errors.New("no luck") })
	b.Start()
	ctx, span := b.provider.Tracer("rails").Start(t.Context(), "GET /orders")
	b.start(ctx, goworker.Chain(
		step("Begin"),
		goworker.Group(step("A"), goworker.Chain(step("B1"), step("B2"))).OnComplete(job("Cleanup")),
		step("Gather"), step("After"),
	))
	span.End()
	after := b.run("After", 1)
	cleanup := b.run("Cleanup", 1)
	send := b.span("the start of the workflow", func(s *stub) bool { return s.Name == "send work" })
	if send.Parent.SpanID() != span.SpanContext().SpanID() {
		t.Error("the start of the workflow is not in the trace of its request")
	}
	const start = "enqueued" // the span of the start is of several classes
	b.linked(b.run("Begin", 1), start)
	b.linked(b.run("A", 1), start, "follows Begin#1")
	b.linked(b.run("B1", 1), start, "follows Begin#1")
	b.linked(b.run("B2", 1), start, "follows B1#1")
	b.linked(b.run("Gather", 1), start, "follows A#1", "follows B2#1")
	b.linked(cleanup, start, "follows A#1", "follows B2#1")
	b.linked(after, start, "follows Gather#1")
	b.has(after, "goworker.workflow.id", value(&cleanup, "goworker.workflow.id"))

	b.spans.Reset()
	b.start(t.Context(), goworker.Group(step("A"), step("Breaks").OnError(job("Report"))))
	b.linked(b.run("Report", 1), start, "follows Breaks#1")
}

// TestWorkflowGraph links the steps of a graph.
func TestWorkflowGraph(t *testing.T) {
	t.Parallel()
	b := setup(t, tracing.Parent())
	for _, class := range []string{"Fetch", "Cut", "Dye", "Sew"} {
		b.Daemon.Register(class, func() {})
	}
	b.Daemon.Register("Sell", func() {})
	b.Start()
	g := goworker.NewGraph().
		Step("fetch", job("Fetch")).
		Step("cut", job("Cut"), goworker.After("fetch")).
		Step("dye", job("Dye"), goworker.After("fetch")).
		Step("sew", job("Sew"), goworker.After("cut", "dye"))
	b.start(t.Context(), goworker.Chain(g.Node(), step("Sell")))
	sell := b.run("Sell", 1)
	b.linked(b.run("Fetch", 1))
	b.linked(b.run("Cut", 1), "follows Fetch#1")
	b.linked(b.run("Dye", 1), "follows Fetch#1")
	b.linked(b.run("Sew", 1), "follows Cut#1", "follows Dye#1")
	if got := b.links(&sell); !slices.Contains(got, "follows Sew#1") {
		t.Errorf("what follows the graph links to %q", got)
	}
	if sell.SpanContext.TraceID() != b.run("Fetch", 1).SpanContext.TraceID() {
		t.Error("the steps are in two traces")
	}
}

// TestWorkflowBound links what follows a large group to MostAfter of its members, and no more is kept of it in Redis.
func TestWorkflowBound(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const members = workflows.MostAfter + 9
	b.Daemon.Register("Member", func(i int) (int, error) { return i, nil })
	b.Daemon.Register("Sum", func(all []int) {})
	b.Start()
	nodes := make([]*goworker.Node, members)
	for i := range nodes {
		nodes[i] = step("Member", i)
	}
	b.start(t.Context(), goworker.Chain(goworker.Group(nodes...), step("Sum")))
	sum := b.run("Sum", 1)
	seen := make(map[string]bool)
	for _, l := range sum.Links {
		if !l.SpanContext.IsValid() || seen[l.SpanContext.SpanID().String()] {
			t.Errorf("the link %v is no span, or is there twice", l)
		}
		seen[l.SpanContext.SpanID().String()] = true
	}
	if len(sum.Links) != 1+workflows.MostAfter {
		t.Errorf("what follows %d members has %d links", members, len(sum.Links))
	}
}

// TestWorkflowUntraced leaves a workflow as it was where nothing is traced, though its workers trace.
func TestWorkflowUntraced(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.Daemon.Register("Echo", func(map[string]any) {})
	plain, err := goworker.NewClient(b.Settings)
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	hostile := map[string]any{"after": "", "wf": "x", "n": `"after":"","wf":"`}
	echo := func() *goworker.Node { return step("Echo", hostile) }
	m := b.Redis.Monitor(t)
	if _, err := plain.Start(t.Context(), goworker.Chain(goworker.Group(echo(), echo()), echo())); err != nil {
		t.Fatal(err)
	}
	b.Start()
	runs := b.all("runs", 3, func(s *stub) bool { return value(s, "goworker.class") == "Echo" })
	for _, s := range runs {
		b.linked(s)
	}
	for _, command := range m.Inner() {
		if text := strings.Join(command, " "); strings.Contains(text, runs[0].SpanContext.SpanID().String()) {
			t.Errorf("Redis has the span in %s", text)
		}
	}
}
