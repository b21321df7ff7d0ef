package inspect_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// drawn is a graph as lines: "1 Sum after [0]".
func drawn(g inspect.WorkflowGraph) (lines []string) {
	for n, one := range g.Groups {
		line := strings.TrimSpace(fmt.Sprintf("%d %s %s", n, one.Class, one.Name))
		if one.Counts.Steps() > 1 {
			line += fmt.Sprintf(" ×%d", one.Counts.Steps())
		}
		if len(one.After) > 0 {
			line += fmt.Sprint(" after ", one.After)
		}
		lines = append(lines, line)
	}
	return lines
}

// A chord, a chain of joins within a group, and a graph are read from their joins and the places of their steps.
func TestWorkflowGraph(t *testing.T) {
	i, server, _ := setup(t)
	w, ctx := i.Workflows(), t.Context()
	started(t, server, "W")
	g, err := w.Graph(ctx, "W")
	want(t, "a chord", []string{"0 Part ×3", "1 Sum sum after [0]"}, drawn(g), err)
	if g.Partial {
		t.Error("the graph is partial")
	}
	template := func(n int, class, place string) string {
		return fmt.Sprintf(`s n - 0 0 0 0 1:q{"class":%q,"args":[],"wf":%q,"id":"G.%d"}`, class, place, n)
	}
	started(t, server, "G", func(p *workflows.Plan) { // A → C and A, B → D within a graph; then E
		p.Letters = []byte("sswwwb")
		p.Fields = []any{
			"j0", "1 0 0 j 0 0 - - - -", "j1", "2 4 0 g 2 2 0 5 - -", "j2", "1 0 0 j 2 1 1 + - -", "j3", "2 0 0 j 3 1 1 + - -", "j4", "1 0 0 j 4 1 0 5 - -",
			"s0", template(0, "A", "2,3,1 - - - - n q"), "s1", template(1, "B", "3,1 - - - - n q"), "s2", template(2, "C", "1 - - - - n q"), "s3", template(3, "D", "1 - - - - n q"), "s4", template(4, "E", "0 5 - - - n q"),
		}
		p.Fields[3] = "2 4 0 g 2 2 4 5 - -" // damaged: a join around it has a lower number
		p.Jobs = nil
	})
	g, err = w.Graph(ctx, "G")
	want(t, "a damaged graph", []string{"0 A", "1 B", "2 C after [0]", "3 D after [0 1]", "4 E"}, drawn(g), err)
	server.Do(t, "HSET", "resque:go:wf:G", "j1", "1 0 0 j 4 1 0 5 - -", "j4", "2 4 0 g 2 2 1 5 - -", "j2", "1 0 0 j 2 1 4 + - -", "j3", "2 0 0 j 3 1 4 + - -")
	for n, place := range []string{"2,3,4 - - - - n q", "3,4 - - - - n q", "4 - - - - n q", "4 - - - - n q"} {
		server.Do(t, "HSET", "resque:go:wf:G", fmt.Sprintf("s%d", n), template(n, string(rune('A'+n)), place))
	}
	g, err = w.Graph(ctx, "G")
	want(t, "a graph with a step behind it", []string{"0 A", "1 B", "2 C after [0]", "3 D after [0 1]", "4 E after [2 3]"}, drawn(g), err)
	want(t, "queues", []string{"q"}, g.Queues, nil)
	if _, err := w.Graph(ctx, "nowhere"); !errors.Is(err, inspect.ErrNoWorkflow) {
		t.Error(err)
	}
	server.Do(t, "HSET", "resque:go:wf:G", "j1", "x", "s1", "x")
	if _, err := w.Graph(ctx, "G"); err != nil {
		t.Error(err)
	}
}

// Of a large workflow the first steps are read, and the others are taken for their like.
func TestWorkflowGraphLarge(t *testing.T) {
	i, server, _ := setup(t)
	const members = 3000
	started(t, server, "W", func(p *workflows.Plan) {
		p.Letters = []byte(strings.Repeat("s", members) + "wb")
		p.Fields = []any{"j0", "1 0 0 j 0 0 - - - -", "j1", fmt.Sprintf("%d 0 0 j %d 1 0 %d - -", members, members, members+1), "i0", fmt.Sprintf("%d 1 - - - - n q", members),
			fmt.Sprintf("s%d", members), fmt.Sprintf(`s n - 0 0 0 0 1:q{"class":"Sum","args":[],"wf":"0 %d - - - 1 q","id":"W.%d"}`, members+1, members)}
		p.Jobs = p.Jobs[:1]
	})
	g, err := i.Workflows().Graph(t.Context(), "W")
	want(t, "the graph", []string{"0 ×3000", "1 Sum after [0]"}, drawn(g), err)
	if !g.Partial {
		t.Error("it is not partial")
	}
}

// A page has as many workflows as were asked for, and each is on one page.
func TestWorkflowPages(t *testing.T) {
	i, server, _ := setup(t)
	for n := range 23 {
		started(t, server, fmt.Sprintf("W%02d", n))
	}
	seen, after, pages := map[string]bool{}, "", 0
	for {
		page, err := i.Workflows().Page(t.Context(), inspect.WorkflowFilter{}, after, 5, inspect.Budget(time.Minute))
		if err != nil || len(page.Workflows) > 5 {
			t.Fatalf("%d, %v", len(page.Workflows), err)
		}
		for _, w := range page.Workflows {
			if seen[w.ID] {
				t.Errorf("%s comes twice", w.ID)
			}
			seen[w.ID] = true
			want(t, "counts", inspect.WorkflowCounts{Waiting: 1, Sent: 2, Outside: 1}, w.Counts, nil)
		}
		if pages++; page.Next == "" {
			break
		}
		after = page.Next
	}
	if len(seen) != 23 || pages < 5 {
		t.Errorf("%d workflows on %d pages", len(seen), pages)
	}
	page, err := i.Workflows().Page(t.Context(), inspect.WorkflowFilter{State: inspect.StateFailed}, "", 5)
	want(t, "none fits", inspect.WorkflowPage{}, page, err)
	for _, after := range []string{"x", "1.2", "9.0.0", "0.x.0", "0.0.-1"} {
		if _, err := i.Workflows().Page(t.Context(), inspect.WorkflowFilter{}, after, 5); !errors.Is(err, inspect.ErrCursor) {
			t.Errorf("%q: %v", after, err)
		}
	}
	if _, err := i.Workflows().Page(t.Context(), inspect.WorkflowFilter{}, "", 0); err == nil {
		t.Error("a page of none")
	}
	var from []int
	for s, err := range i.Workflows().Steps(t.Context(), "W01", inspect.StepFilter{From: 2}) {
		if err != nil {
			t.Fatal(err)
		}
		from = append(from, s.Number)
	}
	if diff := cmp.Diff([]int{2, 3}, from); diff != "" {
		t.Error(diff)
	}
}
