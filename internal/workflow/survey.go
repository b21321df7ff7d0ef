package workflow

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/resque/workflows"
)

const (
	mostSteps      = 1_000_000 // of a plan that is in memory as a whole
	mostDepth      = 100_000   // of nodes in nodes
	mostSuccessors = 15        // each is a join that a step's end changes
)

// checkID returns an error if a workflow may not have an id. The id is a part of keys, of its steps' ids, and of
// JSON that scripts write.
func checkID(id string) error {
	why := ""
	switch {
	case id == "":
		why = "it is empty"
	case len(id) > workflows.MaxID:
		why = fmt.Sprintf("it has %d bytes, and at most %d are allowed", len(id), workflows.MaxID)
	case !utf8.ValidString(id):
		why = "it is not UTF-8"
	}
	for _, r := range id {
		if why == "" && (strings.ContainsRune(`."\\`, r) || unicode.IsSpace(r) || unicode.IsControl(r)) {
			why = "it has " + fmt.Sprintf("%q", r) + ", and dots, quotation marks, backslashes, blanks and control characters are not allowed"
		}
	}
	if why != "" {
		return fmt.Errorf("a workflow cannot have the id %q: %s", id, why)
	}
	return nil
}

// survey walks over the tree once: it refuses what cannot be built, counts the steps and finds the nodes without any.
type survey struct {
	*compiler
	nodes map[*Node]bool
}

// walk returns whether a node has no steps. first: it belongs to the workflow's first stage.
func (v *survey) walk(n *Node, depth int, first bool) error {
	switch {
	case n == nil:
		return fmt.Errorf("a node %s is nil", v.where())
	case v.nodes[n]:
		return fmt.Errorf("%s is used twice in one workflow; make a node for each place", v.describe(n))
	case depth > mostDepth:
		return fmt.Errorf("the nodes %s are nested deeper than %d levels", v.where(), mostDepth)
	}
	v.nodes[n] = true
	if err := v.kind(n, depth, first); err != nil {
		return err
	}
	for _, handlers := range [][]*Step{n.OnError, n.OnComplete} {
		for _, h := range handlers {
			if err := v.add(h, "a handler"); err != nil {
				return err
			}
			if h.External != 0 {
				return fmt.Errorf("%s is a handler and External; nothing waits for a handler", v.steps[h])
			}
		}
	}
	return nil
}

func (v *survey) kind(n *Node, depth int, first bool) error {
	if n.Seq != nil && (n.Kind != Group || !first || len(n.Nodes) > 0) {
		return fmt.Errorf("a GroupSeq %s is not the first stage of the workflow; its members are added after the start", v.where())
	}
	if n.Fate == Collects && n.Kind != Group {
		return fmt.Errorf("%s has Collect, which is for groups", v.describe(n))
	}
	switch n.Kind {
	case OneStep:
		return v.add(n.Step, "a step")
	case Graph:
		return v.graph(n)
	case Chain:
		if len(n.Nodes) == 0 {
			return fmt.Errorf("a chain %s is empty", v.where())
		}
	case Group:
		if first && (n.Seq != nil || v.o.Open) {
			v.opened = n
		}
	}
	empty := n != v.opened
	for i, m := range n.Nodes {
		if err := v.walk(m, depth+1, first && n.Kind == Chain && i == 0); err != nil {
			return err
		}
		empty = empty && v.empty[m]
	}
	if empty {
		v.empty[n] = true
	}
	return nil
}

// add counts a step.
func (v *survey) add(s *Step, what string) error {
	switch {
	case s == nil:
		return fmt.Errorf("%s %s is nil", what, v.where())
	case v.steps[s] != nil:
		return fmt.Errorf("%s is used twice in one workflow; make a step for each place", v.steps[s])
	case len(v.order) >= mostSteps:
		return fmt.Errorf("the workflow has more than %d steps; stream the members of its first group with GroupSeq", mostSteps)
	}
	made := &step{Step: s, ordinal: len(v.order) + 1, number: -1, borne: unborne, kept: '0'}
	if s.Keeps || s.Name != "" {
		made.kept = '1'
	}
	v.steps[s] = made
	v.order = append(v.order, made)
	if s.Name == "" {
		return nil
	}
	if other := v.names[s.Name]; other != nil {
		return fmt.Errorf("%s and %s have one name, %q; results are read by names, so each needs its own", other, made, s.Name)
	}
	v.names[s.Name] = made
	return nil
}

func (v *survey) graph(n *Node) error {
	if len(n.Nodes) == 0 {
		return fmt.Errorf("a graph %s is empty", v.where())
	}
	if len(n.After) != len(n.Nodes) {
		return errors.New("a graph has another number of nodes than of lists of predecessors")
	}
	for _, m := range n.Nodes {
		if m != nil && m.Kind != OneStep {
			return fmt.Errorf("a graph %s has a node that is not one step", v.where())
		}
		if err := v.walk(m, 0, false); err != nil {
			return err
		}
		if len(m.OnComplete) > 0 {
			return fmt.Errorf("%s is in a graph and has OnComplete; give it to the graph", v.steps[m.Step])
		}
	}
	return v.edges(n)
}

// edges checks the edges of a graph: each names a node, once, no node has too many successors, and there is no cycle.
func (v *survey) edges(n *Node) error {
	successors, waits := make([][]int, len(n.Nodes)), make([]int, len(n.Nodes))
	name := func(i int) *step { return v.steps[n.Nodes[i].Step] }
	for i, after := range n.After {
		seen := make(map[int]bool, len(after))
		for _, b := range after {
			switch {
			case b < 0 || b >= len(n.Nodes):
				return fmt.Errorf("%s is after a step that its graph does not have", name(i))
			case seen[b]:
				return fmt.Errorf("%s is after %s twice", name(i), name(b))
			}
			seen[b] = true
			successors[b] = append(successors[b], i)
			if len(successors[b]) > mostSuccessors {
				return fmt.Errorf("%s has more than %d steps after it in its graph; put them behind one step between, or into a group", name(b), mostSuccessors)
			}
		}
		waits[i] = len(after)
	}
	var ready []int
	for i, w := range waits {
		if w == 0 {
			ready = append(ready, i)
		}
	}
	done := 0
	for ; len(ready) > 0; done++ {
		last := ready[len(ready)-1]
		ready = ready[:len(ready)-1]
		for _, i := range successors[last] {
			if waits[i]--; waits[i] == 0 {
				ready = append(ready, i)
			}
		}
	}
	if done == len(n.Nodes) {
		return nil
	}
	i := 0
	for waits[i] == 0 {
		i++
	}
	return fmt.Errorf("%s waits for itself: the steps before it in its graph make a cycle", v.inCycle(n, waits, i))
}

// inCycle returns a step of a cycle, from a node on that is in one or behind one.
func (v *survey) inCycle(n *Node, waits []int, i int) *step {
	seen := make([]bool, len(n.Nodes))
	for !seen[i] {
		seen[i] = true
		for _, b := range n.After[i] {
			if waits[b] > 0 {
				i = b
				break
			}
		}
	}
	return v.steps[n.Nodes[i].Step]
}

// String names a step in sentences.
func (s *step) String() string { return fmt.Sprintf("step %d (%s)", s.ordinal, s.Class) }

// where says where the walk is.
func (v *survey) where() string {
	if len(v.order) == 0 {
		return "at the beginning of the workflow"
	}
	return "behind " + v.order[len(v.order)-1].String()
}

// describe names a node in sentences.
func (v *survey) describe(n *Node) string {
	what := map[Kind]string{Chain: "the chain", Group: "the group", Graph: "the graph"}[n.Kind]
	for m := n; m != nil; m = m.Nodes[0] {
		if m.Kind == OneStep {
			if s := v.steps[m.Step]; s != nil && m == n {
				return s.String()
			} else if s != nil {
				return what + " that begins with " + s.String()
			}
			break
		}
		if len(m.Nodes) == 0 {
			break
		}
	}
	if n.Kind == OneStep && n.Step != nil {
		return (&step{Step: n.Step, ordinal: len(v.order) + 1}).String()
	}
	return what + " " + v.where()
}
