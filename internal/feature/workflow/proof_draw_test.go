package workflow_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/goworker/goworker/internal/workflow"
)

// drawn is a random workflow: a tree of nodes, and how it starts.
type drawn struct {
	root    *workflow.Node
	options workflow.Options
}

// drawer draws nodes until it has no steps left.
type drawer struct {
	*rand.Rand
	left int // steps
}

func (d *drawer) one(in int) bool { return d.IntN(in) == 0 }

// draw draws a workflow of at most so many steps.
func draw(r *rand.Rand, steps int) drawn {
	d := &drawer{r, steps}
	w := drawn{options: workflow.Options{RunRest: d.one(4), CancelRunning: d.one(4)}}
	if d.one(3) {
		w.options.Deadline = time.Hour
	}
	if d.one(4) {
		w.options.Open = true
		w.root = d.batch()
		return w
	}
	if d.one(50) { // more than one call sends
		group := &workflow.Node{Kind: workflow.Group, Fate: workflow.Fate(d.IntN(3))}
		for range 130 + d.IntN(40) {
			group.Nodes = append(group.Nodes, d.oneStep(false))
		}
		w.root = &workflow.Node{Kind: workflow.Chain, Nodes: []*workflow.Node{d.oneStep(false), group, d.oneStep(true)}}
		return w
	}
	w.root = d.node(4, nil)
	if w.root.Kind == workflow.OneStep || d.one(3) {
		w.root = &workflow.Node{Kind: workflow.Chain, Nodes: []*workflow.Node{w.root, d.oneStep(true)}}
	}
	return w
}

// batch draws a group to which members will be added, and maybe what follows it.
func (d *drawer) batch() *workflow.Node {
	n := &workflow.Node{Kind: workflow.Group, Fate: workflow.Fate(max(0, d.IntN(5)-2))}
	for range d.IntN(3) {
		n.Nodes = append(n.Nodes, d.node(2, n))
	}
	for _, handlers := range []*[]*workflow.Step{&n.OnError, &n.OnComplete} {
		if d.one(2) {
			*handlers = append(*handlers, d.step())
		}
	}
	if d.one(2) {
		return n
	}
	return &workflow.Node{Kind: workflow.Chain, Nodes: []*workflow.Node{n, d.node(2, nil)}}
}

// node draws a node that may be so deep. It stands behind another one, or is the first.
func (d *drawer) node(depth int, in *workflow.Node) (n *workflow.Node) {
	switch k := d.IntN(10); {
	case depth == 0 || d.left <= 1 || k < 3:
		n = d.oneStep(true)
	case k < 6:
		n = &workflow.Node{Kind: workflow.Chain}
		for range 2 + d.IntN(3) {
			n.Nodes = append(n.Nodes, d.node(depth-1, n))
		}
	case k < 9:
		n = &workflow.Node{Kind: workflow.Group}
		if !d.one(12) {
			for range 1 + d.IntN(4) {
				n.Nodes = append(n.Nodes, d.node(depth-1, n))
			}
		}
		if d.one(3) {
			n.Fate = workflow.Fate(1 + d.IntN(2))
		}
	default:
		n = &workflow.Node{Kind: workflow.Graph}
		for i := range 2 + d.IntN(4) {
			var after []int
			for before := range i {
				if d.one(2) {
					after = append(after, before)
				}
			}
			n.Nodes, n.After = append(n.Nodes, d.oneStep(false)), append(n.After, after)
		}
	}
	if in != nil && in.Kind == workflow.Group && in.Fate == workflow.Fails && n.Kind != workflow.Group && n.Kind != workflow.Graph && d.one(8) {
		n.Fate = workflow.Ignores
	}
	if d.one(4) {
		n.OnError = append(n.OnError, d.step())
	}
	if d.one(12) {
		n.OnError = append(n.OnError, d.step())
	}
	if d.one(4) {
		n.OnComplete = append(n.OnComplete, d.step())
	}
	return n
}

func (d *drawer) oneStep(follows bool) *workflow.Node {
	s := d.step()
	s.Immutable = d.one(6)
	s.Spread = follows && !s.Immutable && d.one(4)
	if d.one(10) {
		s.External = time.Hour
	}
	d.left--
	return &workflow.Node{Kind: workflow.OneStep, Step: s}
}

// step draws a step or a handler.
func (d *drawer) step() *workflow.Step {
	how := &own{class: "Plain"}
	if d.one(4) {
		how.class = "Again"
	}
	switch d.IntN(12) {
	case 0:
		how.delay = time.Hour
	case 1:
		how.priority = 1 + d.IntN(9)
	case 2:
		how.expires = time.Hour
	}
	return &workflow.Step{Job: how, Class: how.class, Queue: queueNames[d.IntN(2)], Keeps: d.one(6)}
}

// own is the job of a step.
type own struct {
	class    string
	delay    time.Duration
	expires  time.Duration
	priority int
}

// text draws a tree, for what is wrong in it.
func text(n *workflow.Node) (s string) {
	list := func(name string) string {
		for i, kid := range n.Nodes {
			if i > 0 {
				name += ", "
			}
			name += text(kid)
			if n.Kind == workflow.Graph {
				name += fmt.Sprint(" after ", n.After[i])
			}
		}
		return name + ")"
	}
	switch n.Kind {
	case workflow.OneStep:
		s = n.Step.Class + "/" + n.Step.Queue
		for name, is := range map[string]bool{".Immutable": n.Step.Immutable, ".Spread": n.Step.Spread, ".External": n.Step.External > 0} {
			if is {
				s += name
			}
		}
	case workflow.Chain:
		s = list("Chain(")
	case workflow.Group:
		s = list("Group(")
	case workflow.Graph:
		s = list("Graph(")
	}
	s += [...]string{"", ".Collect", ".Ignore"}[n.Fate]
	for range n.OnError {
		s += ".OnError"
	}
	for range n.OnComplete {
		s += ".OnComplete"
	}
	return s
}
