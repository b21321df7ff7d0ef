package goworker

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/goworker/goworker/internal/args"
	step "github.com/goworker/goworker/internal/feature/workflow"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/workflow"
)

var (
	errTwice   = errors.New("a node stands twice in the workflow; make one for each place")
	errNoStep  = errors.New("With: the node is several, and options are for steps; give With to its steps")
	errNilNode = errors.New("a node of the workflow is nil; leave it out")
	errNowhere = errors.New("no step of it says on which shard it lies; make it with the Client of a shard's Daemon")
	errLeftOut = errors.New("an EnqueueMiddleware left out a step, or added one; it may add options to steps, or return an error")
)

// tree makes nodes of internal/workflow of those of a program, for one workflow or for one piece that is added to it.
type tree struct {
	client *Client
	meta   metadata // of the whole workflow

	items   []Item // of the steps, in the order in which they are found
	next    int    // of the items, while nodes are built
	seen    map[*Node]bool
	order   []*Node // of these
	nodes   map[*workflow.Step]*Node
	ids     map[*Node]string       // of these, once they are encoded
	members iter.Seq2[Item, error] // of a GroupSeq; nil: there is none
	queues  map[string]bool        // of the steps

	find   func(queue string) (int, error) // the Redis of a queue; nil: there is one
	at     int                             // where the workflow lies
	first  *workflow.Step                  // whose queue says so, unless it is there already; nil: there is none yet
	number int                             // of that step
	lies   bool                            // it is there already
}

func newTree(c *Client, find func(string) (int, error), meta metadata) *tree {
	return &tree{
		client: c, find: find, meta: meta, seen: make(map[*Node]bool),
		nodes: make(map[*workflow.Step]*Node), ids: make(map[*Node]string), queues: make(map[string]bool),
	}
}

// pass calls f within the middleware, which gets the items and may change them.
func (t *tree) pass(ctx context.Context, f func(ctx context.Context) error) error {
	passed := false
	_, err := t.client.registry.around.enqueue(ctx, t.items, func(ctx context.Context, items []Item) ([]Receipt, error) {
		if len(items) != len(t.items) {
			return nil, prefix.Of(errLeftOut)
		}
		passed, t.items, t.next = true, items, 0
		err := f(ctx)
		if err != nil {
			return nil, err
		}
		receipts := make([]Receipt, len(items)) // the middleware sees the ids
		for i, n := range t.order {
			receipts[i].ID = t.ids[n]
		}
		return receipts, nil
	})
	if err == nil && !passed {
		err = prefix.Of(errLeftOut)
	}
	return err
}

// collect adds the items of a node to those of the tree.
func (t *tree) collect(nodes ...*Node) error {
	for _, n := range nodes {
		switch {
		case n == nil:
			return errNilNode
		case t.seen[n]:
			return errTwice
		}
		t.seen[n] = true
		if n.kind == workflow.OneStep {
			item, err := t.item(n)
			if err != nil {
				return fmt.Errorf("step %d: %w", len(t.items)+1, err)
			}
			t.items, t.order = append(t.items, t.with(item)), append(t.order, n)
		} else if len(n.item.Options) > 0 {
			return errNoStep
		}
		for _, inside := range [][]*Node{n.nodes, n.onError, n.onComplete} {
			if err := t.collect(inside...); err != nil {
				return err
			}
		}
	}
	return nil
}

// item returns the item of a step.
func (t *tree) item(n *Node) (Item, error) {
	if n.fn == nil {
		return n.item, nil
	}
	return t.client.funcItem(n)
}

// with returns an item with the metadata of the workflow.
func (t *tree) with(item Item) Item {
	if len(t.meta) > 0 {
		item.Options = append([]EnqueueOption{t.meta}, item.Options...)
	}
	return item
}

// build makes a node, in the order of collect, of the items as the middleware has left them.
func (t *tree) build(n *Node) (b *workflow.Node, after []string, err error) {
	b = &workflow.Node{Kind: n.kind, Fate: n.fate}
	if n.kind == workflow.OneStep {
		s, err := t.step()
		if err != nil {
			return nil, nil, err
		}
		if s.ignored {
			b.Fate = workflow.Ignores
		}
		b.Step, after = &s.Step, s.after
		t.nodes[b.Step] = n
	}
	befores := make([][]string, len(n.nodes))
	for i, of := range n.nodes {
		inside, before, err := t.build(of)
		if err != nil {
			return nil, nil, err
		}
		b.Nodes, befores[i] = append(b.Nodes, inside), before
	}
	if n.seq != nil {
		t.members, b.Seq = n.seq, func(func(*workflow.Step, error) bool) {} // they are added after the start
	}
	if n.kind == workflow.Graph {
		if b.After, err = n.order(b.Nodes, befores); err != nil {
			return nil, nil, err
		}
	} else if i := slices.IndexFunc(befores, func(before []string) bool { return len(before) > 0 }); i >= 0 {
		return nil, nil, misplaced(befores[i])
	}
	for _, h := range []struct {
		of []*Node
		to *[]*workflow.Step
	}{{n.onError, &b.OnError}, {n.onComplete, &b.OnComplete}} {
		for _, of := range h.of {
			inside, _, err := t.build(of)
			if err != nil {
				return nil, nil, err
			}
			*h.to = append(*h.to, inside.Step)
		}
	}
	return b, after, nil
}

// root makes a node that is in no other.
func (t *tree) root(n *Node) (*workflow.Node, error) {
	b, after, err := t.build(n)
	if err == nil && len(after) > 0 {
		err = misplaced(after)
	}
	return b, err
}

func misplaced(after []string) error {
	return fmt.Errorf("After(%q): it is for the steps of a Graph; elsewhere the order of the nodes says what is sent after what", after)
}

// order returns the places of the steps that each step of a graph is after.
func (n *Node) order(steps []*workflow.Node, befores [][]string) ([][]int, error) {
	after := make([][]int, len(n.names))
	for i, name := range n.names {
		if name == "" || slices.Index(n.names, name) < i {
			return nil, fmt.Errorf("two steps of the graph have the name %q, or it is empty; give each a name of its own", name)
		}
		if s := steps[i].Step; s.Name == "" {
			s.Name, s.Keeps = name, true
		}
		for _, before := range befores[i] {
			at := slices.Index(n.names, before)
			if at < 0 {
				return nil, fmt.Errorf("step %q of the graph is after %q, and no step has that name; the names are %q", name, before, n.names)
			}
			after[i] = append(after[i], at)
		}
	}
	return after, nil
}

// step makes a step of the next item.
func (t *tree) step() (*stepOptions, error) {
	item := &t.items[t.next]
	t.next++
	s, err := t.make(item)
	if err == nil {
		err = t.place(&s.Step)
	}
	if err != nil {
		class := "no job"
		if item.Job != nil {
			class = item.Job.Payload.Class
		}
		return nil, fmt.Errorf("step %d (%s): %w", t.next, class, err)
	}
	return s, nil
}

// make makes a step of an item.
func (t *tree) make(item *Item) (*stepOptions, error) {
	if item.Job == nil {
		return nil, producer.ErrNoJob
	}
	s, job := new(stepOptions), item.Job.Payload
	p := &outcome.Push{Queue: item.Job.Queue, Name: job.Class, Args: job.Args, Class: t.client.registry.Class(job.Class), View: item.Job}
	if err := pushWith(item.Options, p, new(enqueueOptions), s); err != nil {
		return nil, err
	}
	s.Class, s.Queue = p.Name, p.Queue
	typesOf(p.Class, &s.Step)
	return s, nil
}

// place returns an error for a step whose queue does not lie on the Redis of those before it.
func (t *tree) place(s *workflow.Step) error {
	t.queues[s.Queue] = true
	first := t.first == nil
	if first {
		t.first, t.number = s, t.next
	}
	if t.find == nil {
		return nil
	}
	at, err := t.find(s.Queue)
	switch {
	case err != nil:
		return err
	case t.lies && at != t.at:
		return fmt.Errorf("it is for queue %s on %s, and the batch lies on %s; all queues of a batch must lie on one Redis: "+
			"name them on one shard, or start a workflow from a member", s.Queue, t.client.names[at], t.client.names[t.at])
	case first && !t.lies:
		t.at = at
	case at != t.at:
		return fmt.Errorf("it is for queue %s on %s, step %d (%s) for queue %s on %s; all queues of a workflow must lie on one Redis: "+
			"name them on one shard, or start a second workflow from a step", s.Queue, t.client.names[at],
			t.number, t.first.Class, t.first.Queue, t.client.names[t.at])
	}
	return nil
}

// redis returns the client of the Redis on which the workflow lies, unless an older release works its queues, which old allows,
// or endangers them.
func (t *tree) redis(ctx context.Context, old bool) (*client, error) {
	if t.find != nil && t.first == nil && !t.lies {
		return nil, errNowhere
	}
	c, err := t.client.redises[t.at].init(false)
	if err == nil && !old {
		err = c.Releases.Check(ctx, &c.Client, t.queues)
	}
	for queue := range t.queues {
		if err == nil && queues.IsOwn(queue) {
			err = c.Releases.CheckOwn(ctx, &c.Client, queue)
		}
	}
	return c, err
}

// encoder returns what encodes the steps of the tree. It notes the ids of their nodes.
func (t *tree) encoder(c *client) workflow.Encoder {
	call := c.NewCall(c.set, 1)
	return func(s *workflow.Step, id string, place workflows.Place, token string) (workflow.Encoded, error) {
		t.ids[t.nodes[s]] = id
		outcome.Put(s.Job.(*producer.StepJob).Options, step.Step{Place: place.String(), Name: s.Name, External: s.External > 0})
		return call.EncodeStep(s, id, token)
	}
}

// typesOf gives a step the types of its class, where they are known here.
func typesOf(class *outcome.Class, s *workflow.Step) {
	if class == nil {
		return
	}
	if t, defined := outcome.Get[classTypes](class); defined {
		s.Known, s.Params, s.Results = true, spreadType(t.args), spreadType(t.result)
		return
	}
	if f, called := outcome.Get[*args.Function](class); called {
		s.Known = true
		s.Params, s.Variadic, s.Results = f.Types()
		return
	}
	e, _ := class.Handler.(*entry)
	if e == nil {
		return
	}
	if h, typed := e.bare.(typedHandler); typed {
		s.Known = true
		s.Params, s.Variadic, s.Results = h.Types()
	}
}

// spreadType returns the types that a type stands for: None is none, Args2 is two.
func spreadType(t reflect.Type) []reflect.Type {
	if !t.Implements(reflect.TypeFor[several]()) {
		return []reflect.Type{t}
	}
	types := make([]reflect.Type, t.NumField())
	for i := range types {
		types[i] = t.Field(i).Type
	}
	return types
}
