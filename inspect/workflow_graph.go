package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// WorkflowGraph is which steps of a workflow wait for which. Steps that stand alike are one group: those of a class that wait for the same
// others and have no names.
type WorkflowGraph struct {
	Groups []StepGroup // by their first steps
	Queues []string    // of the steps and handlers that were read, sorted

	// Partial says that the workflow is too large to be read as a whole, or that Redis keeps no templates of some of its steps. Their queues
	// are not known, and they are taken for the like of the steps that were sent with them.
	Partial bool
}

// StepGroup is a step, or several that stand alike.
type StepGroup struct {
	Name         string // of a single step; "": it has none
	Class, Queue string // "": Redis keeps no template
	First        int    // the number of its first step
	Counts       WorkflowCounts
	After        []int // the groups, as indexes, that have to end before
}

// Graph returns the graph of a workflow, as it is now. It reads at most 500 steps, 512 joins, and a MiB of their jobs. Its handlers are not
// in it. The error matches ErrNoWorkflow if nothing is known of the workflow.
func (w *Workflows) Graph(ctx context.Context, id string) (WorkflowGraph, error) {
	return ofOne(w.in, "reading", id, func(one *Inspector) (WorkflowGraph, error) {
		return query(ctx, one, func(s resque.Store, c redis.Conn) (WorkflowGraph, error) {
			store := workflows.New(s)
			if there, err := store.Exists(c, id); err != nil || !there {
				return WorkflowGraph{}, errors.Join(err, noneIf(!there && err == nil))
			}
			shape, err := store.ReadShape(c, id)
			var names map[int]string
			if err == nil && len(shape.Letters) <= mostNames {
				names, err = store.Names(c, id)
			}
			if err != nil {
				return WorkflowGraph{}, err
			}
			g := grouping{shape: shape, sender: shape.Senders(), names: names}
			return g.graph(), nil
		})
	})
}

// mostNames is how many steps a workflow may have for the names of its steps to be read with its graph.
const mostNames = 2000

// grouping makes a graph of a shape.
type grouping struct {
	shape  workflows.Shape
	sender func(step int) int
	names  map[int]string

	out    WorkflowGraph
	direct map[int][]int  // by join, the steps that it counts
	within map[int][]int  // by join, those that report to it
	steps  map[int]int    // by step, its group; -1: it is being looked for
	joins  map[int][]int  // by join, the groups that have to end before it sends; nil: it is being looked for
	groups map[string]int // by what makes steps alike
}

func (g *grouping) graph() WorkflowGraph {
	g.direct, g.within = make(map[int][]int), make(map[int][]int)
	g.steps, g.joins, g.groups = make(map[int]int), make(map[int][]int), make(map[string]int)
	g.out.Partial = g.shape.More
	queues := make(map[string]bool)
	for n := range g.shape.Letters {
		one, read := g.shape.Steps[n]
		if !read {
			continue
		}
		if one.Queue != "" {
			queues[one.Queue] = true
		} else {
			g.out.Partial = true
		}
		for _, j := range one.Joins {
			if !g.inside(one, j) {
				g.direct[j] = append(g.direct[j], n)
			}
		}
	}
	for queue := range queues {
		g.out.Queues = append(g.out.Queues, queue)
	}
	slices.Sort(g.out.Queues)
	for n, j := range g.shape.Joins {
		if j.Up >= 0 && j.Up < n && !j.Inner && (j.Graph || j.Count == 0) {
			g.within[j.Up] = append(g.within[j.Up], n)
		}
	}
	last := make(map[int]int) // by sender, the group of the step before
	for n, l := range g.shape.Letters {
		if strings.IndexByte(workflows.StepLetters, l) < 0 {
			continue
		}
		of := g.sender(n)
		_, read := g.shape.Steps[n]
		at, known := last[of]
		if read || !known {
			at = g.groupOf(n)
		}
		if last[of] = at; !read {
			g.out.Partial = true
		}
		countLetter(&g.out.Groups[at].Counts, l)
	}
	return g.out.sorted()
}

// inside reports whether a join of a step is the graph in which other steps wait for it: then its end is not the end of the graph.
func (g *grouping) inside(one workflows.Shaped, join int) bool {
	return slices.ContainsFunc(one.Joins, func(j int) bool {
		inner := g.shape.Joins[j]
		return inner.Inner && inner.Up == join
	})
}

// groupOf returns the group of a step, which is made after those that it waits for.
func (g *grouping) groupOf(n int) int {
	if at, known := g.steps[n]; known {
		return at
	}
	g.steps[n] = -1
	one := g.shape.Steps[n]
	var after []int
	if of := g.sender(n); of >= 0 {
		after = g.before(of)
	}
	key := fmt.Sprintf("%v %q %q %q", after, one.Class, one.Queue, g.names[n])
	at, known := g.groups[key]
	if !known {
		at = len(g.out.Groups)
		g.groups[key] = at
		g.out.Groups = append(g.out.Groups, StepGroup{Name: g.names[n], Class: one.Class, Queue: one.Queue, First: n, After: after})
	}
	g.out.Groups[at].First = min(g.out.Groups[at].First, n)
	g.steps[n] = at
	return at
}

// before are the groups that have to end before a join sends what it sends, sorted.
func (g *grouping) before(join int) (all []int) {
	if all, known := g.joins[join]; known {
		return all
	}
	g.joins[join] = nil
	for _, n := range g.direct[join] {
		if at := g.groupOf(n); at >= 0 { // below 0 the workflow is damaged and waits for itself
			all = append(all, at)
		}
	}
	for _, j := range g.within[join] {
		all = append(all, g.before(j)...)
	}
	slices.Sort(all)
	all = slices.Compact(all)
	g.joins[join] = all
	return all
}

func countLetter(n *WorkflowCounts, letter byte) {
	switch letter {
	case workflows.Waits:
		n.Waiting++
	case workflows.Sent:
		n.Sent++
	case workflows.Outside:
		n.Outside++
	case workflows.Done:
		n.Done++
	case workflows.Failed:
		n.Failed++
	case workflows.NotRun:
		n.NotRun++
	}
}

// sorted puts the groups into the order of their first steps.
func (g WorkflowGraph) sorted() WorkflowGraph {
	order := make([]int, len(g.Groups))
	for n := range order {
		order[n] = n
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(g.Groups[a].First, g.Groups[b].First) })
	to, groups := make([]int, len(order)), make([]StepGroup, len(order))
	for n, was := range order {
		to[was], groups[n] = n, g.Groups[was]
	}
	for n := range groups {
		after := make([]int, 0, len(groups[n].After))
		for _, was := range groups[n].After {
			after = append(after, to[was])
		}
		slices.Sort(after)
		groups[n].After = after
	}
	g.Groups = groups
	return g
}
