package workflow_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/playtest"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/workflow"
)

// adder is what one adder has added, as it knows.
type adder struct {
	workflows.Adder
	has workflows.Added
}

// stepAdd has a client, or a step that runs, add nodes to the batch. The call may be lost before Redis hears it, or its
// answer: then it comes again.
func (w *world) stepAdd(s playtest.Step) bool {
	m := w.model
	if m.batch == nil || w.Calm || len(m.steps) > 60 {
		return false
	}
	who := workflows.Adder{Workflow: m.id, Step: -1}
	if r := w.Working(s.A); r != nil && s.C%2 == 0 {
		if j := parse(r.Payload); j.step >= 0 && !m.steps[j.step].handler {
			who.Name, who.Step = j.id, j.step
		}
	}
	text, err := redis.String(w.Do("HGET", w.store.WorkflowKey(m.id).String(), "into"), nil)
	w.Must(err)
	into, err := workflow.ParseInto(text)
	w.Must(err)
	who.Join = into.Open
	a := w.adders[who.Name]
	if a == nil {
		a = &adder{Adder: who}
		w.adders[who.Name] = a
	}

	d := &drawer{rand.New(rand.NewPCG(uint64(s.A), uint64(s.B))), 4}
	var nodes []*workflow.Node
	for range 1 + s.B%2 {
		nodes = append(nodes, d.node(2, m.batch.node))
	}
	fresh := newModel(m.id, &workflow.Node{Kind: workflow.Group, Nodes: nodes}, workflow.Options{})
	for _, one := range fresh.root.inside() {
		front := fresh.front(one)
		one.step.Spread = one.step.Spread && len(front) == 1 && fresh.spreads(front[0])
	}
	letters, joins, scopes := workflow.Needs(nodes)
	if letters == 0 {
		return false
	}
	has, err := w.store.Reserve(w.Conn, a.Adder, letters, joins, scopes)
	if w.addRefused(a, err) {
		return false
	}
	if again, err := w.store.Reserve(w.Conn, a.Adder, letters, joins, scopes); err != nil || again != has {
		playtest.Fatalf("letters reserved again are %+v and not %+v: %v", again, has, err)
	}
	if has.Count != a.has.Count {
		playtest.Fatalf("the adder has added %d, want %d", has.Count, a.has.Count)
	}
	w.check() // nothing was sent yet
	into.Workflow, into.Now, into.Letter, into.Join, into.Scope = m.id, w.Now, has.First, has.FirstJoin, has.FirstScope
	plan, err := workflow.Add(nodes, into, w.encode)
	w.Must(err)
	behind := workflows.Added{Count: has.Count + len(nodes), Hash: fmt.Sprintf("h%d-%d-%d", has.Count, s.A, s.B)}
	got, err := w.store.Add(w.Conn, a.Adder, has, behind, plan)
	if w.addRefused(a, err) {
		return false
	}
	if got.Count != behind.Count {
		playtest.Fatalf("after adding up to %d it has %d", behind.Count, got.Count)
	}
	a.has = behind
	for _, kid := range fresh.root.kids {
		kid.up = m.batch
	}
	m.batch.kids = append(m.batch.kids, fresh.root.kids...)
	m.batch.node.Nodes = append(m.batch.node.Nodes, nodes...)
	for _, kid := range fresh.root.kids {
		w.numbered(kid, has.First+letters)
	}
	for _, j := range plan.Jobs {
		one := m.steps[j.Step]
		if one.letter = workflows.Sent; one.step.External > 0 {
			one.letter = workflows.Outside
		}
		w.fresh = append(w.fresh, one)
	}
	w.tally.letters += letters
	w.check()
	if again, err := w.store.Add(w.Conn, a.Adder, has, behind, plan); err != nil || again.Count != behind.Count {
		playtest.Fatalf("a piece that comes again: %+v, %v", again, err)
	}
	other := behind
	other.Hash = "other"
	if has.Hash = "other"; has.Count > 0 {
		if again, err := w.store.Add(w.Conn, a.Adder, has, other, plan); !errors.Is(err, workflows.ErrChangedSequence) && again.Count != behind.Count {
			playtest.Fatalf("another sequence: %+v, %v", again, err)
		}
	}
	return true
}

// addRefused reports whether nothing is added, and compares why.
func (w *world) addRefused(a *adder, err error) bool {
	m := w.model
	if err != nil && len(w.Spoiled) > 0 && (w.Refusal(err) || strings.Contains(err.Error(), "WRONGTYPE")) {
		return true
	}
	var want error
	switch {
	case m.state == workflows.StateDone || m.state == workflows.StateCancelled || m.state == workflows.StateExpired:
		want = workflows.ErrEnded
	case a.Step >= 0 && m.steps[a.Step].letter != workflows.Sent && m.steps[a.Step].letter != workflows.Outside:
		want = workflows.ErrAdderEnded
	case a.Step < 0 && !m.open:
		want = workflows.ErrEnded
	}
	if want == nil && a.Step >= 0 && !m.open && errors.Is(err, workflows.ErrEnded) && (m.batch.passed || !m.batch.has(m.steps[a.Step])) {
		return true // a step behind the batch, or a late one
	}
	if want == nil {
		w.Must(err)
		return false
	}
	if !errors.Is(err, want) && !errors.Is(err, workflows.ErrEnded) {
		playtest.Fatalf("adding by %+v to a workflow that is %s: %v, want %v", a.Adder, m.state, err, want)
	}
	return true
}

// stepClose closes the batch.
func (w *world) stepClose(playtest.Step) bool {
	m := w.model
	if m.batch == nil {
		return false
	}
	state, err := w.store.Close(w.Conn, m.id)
	if err != nil && len(w.Spoiled) > 0 && (w.Refusal(err) || strings.Contains(err.Error(), "WRONGTYPE")) {
		return true
	}
	w.Must(err)
	m.open = false
	_ = state
	return true
}
