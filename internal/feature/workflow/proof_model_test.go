package workflow_test

import (
	"fmt"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/workflow"
)

// model is a workflow as the program wrote it, and what has become of it: a letter for each step and handler. It
// knows no joins. What may be sent follows from what lies in front of it in the tree.
type model struct {
	id    string
	root  *vertex
	steps []*member // by number; nil: a branch
	rest  bool      // RunRest
	batch *vertex   // the group to which members are added; nil: it is no batch
	open  bool      // that was not closed

	deadline bool // it has one

	state  string
	paused bool
	late   bool // a step has ended since it was done: only its letter says so
	forgot bool // it was removed
}

// vertex is a node of the tree.
type vertex struct {
	node   *workflow.Node
	up     *vertex
	kids   []*vertex
	one    *member   // of OneStep
	errs   []*member // its error handlers
	overs  []*member // its handlers of completion
	batch  bool      // members are added to it
	passed bool      // it ended well and what follows was sent: nothing inside counts any more
}

// member is a step or a handler.
type member struct {
	step    *workflow.Step
	at      *vertex
	handler bool
	number  int
	place   workflows.Place
	letter  byte

	values  []string // of its handler; JSON
	several bool
	failed  bool   // once, at least
	outside bool   // of an External step: its job has ended, and it waits for its token
	args    string // it was sent with
	extra   int    // copies of its job beside the one that its letter stands for: retried by id
	called  int    // by which step's failure an error handler was called
}

// status is what has become of a vertex.
type status byte

const (
	waits   status = iota // nothing of it was sent
	goes                  // some of it was sent and has not ended, or will be sent
	well                  // it ended, and what follows may be sent
	badly                 // it ended, and something failed that nothing inside bears
	stopped               // it ended because the workflow was halted
)

func (s status) String() string {
	return [...]string{"waits", "goes on", "well", "badly", "stopped"}[s]
}

func newModel(id string, root *workflow.Node, o workflow.Options) *model {
	m := &model{id: id, rest: o.RunRest, open: o.Open, deadline: o.Deadline > 0, state: workflows.StateRunning}
	m.root = m.vertex(root, nil)
	if o.Open {
		m.batch = m.root
		for m.batch.node.Kind == workflow.Chain {
			m.batch = m.batch.kids[0]
		}
		m.batch.batch = true
	}
	return m
}

func (m *model) vertex(n *workflow.Node, up *vertex) *vertex {
	v := &vertex{node: n, up: up}
	add := func(s *workflow.Step, handler bool) *member {
		return &member{step: s, at: v, handler: handler, number: -1, called: -1}
	}
	if n.Kind == workflow.OneStep {
		v.one = add(n.Step, false)
	}
	for _, s := range n.OnError {
		v.errs = append(v.errs, add(s, true))
	}
	for _, s := range n.OnComplete {
		v.overs = append(v.overs, add(s, true))
	}
	for _, kid := range n.Nodes {
		v.kids = append(v.kids, m.vertex(kid, v))
	}
	return v
}

// each calls f for all vertices, the outer ones first.
func (v *vertex) each(f func(*vertex)) {
	f(v)
	for _, kid := range v.kids {
		kid.each(f)
	}
}

// members yields the steps and the handlers of a vertex itself.
func (v *vertex) members() (all []*member) {
	if v.one != nil {
		all = append(all, v.one)
	}
	return append(append(all, v.errs...), v.overs...)
}

// inside yields the steps of a vertex, at any depth.
func (v *vertex) inside() (all []*member) {
	v.each(func(v *vertex) {
		if v.one != nil {
			all = append(all, v.one)
		}
	})
	return all
}

// has reports whether a step is inside.
func (v *vertex) has(s *member) bool { return slices.Contains(v.inside(), s) }

// empty reports whether no step is inside.
func (v *vertex) empty() bool {
	steps := 0
	v.each(func(v *vertex) {
		if v.one != nil || v.batch {
			steps++
		}
	})
	return steps == 0
}

// sends reports whether steps are sent: the workflow is neither halted nor held.
func (m *model) sends() bool { return !m.halted() && !m.held() }

func (m *model) halted() bool {
	switch m.state {
	case workflows.StateCancelled, workflows.StateExpired:
		return true
	case workflows.StateFailed:
		return !m.rest
	}
	return false
}

func (m *model) held() bool {
	return m.state == workflows.StateDone || m.state == workflows.StateRetrying || !m.halted() && m.paused
}

// borne returns the fate by which a failure of the vertex does not count for the vertex around it.
func (v *vertex) borne() workflow.Fate {
	if v.node.Kind != workflow.Group && v.node.Fate != workflow.Fails {
		return v.node.Fate // of a group it is the members' own
	}
	if v.up != nil && v.up.node.Kind == workflow.Group {
		return v.up.node.Fate
	}
	return workflow.Fails
}

// counts is the status of a vertex for the one around it.
func (m *model) counts(v *vertex, reached bool) status {
	s := m.status(v, reached)
	if s == badly && v.borne() != workflow.Fails {
		return well
	}
	return s
}

// status is what has become of a vertex. reached says that all in front of it has ended well.
func (m *model) status(v *vertex, reached bool) status {
	switch {
	case v.passed:
		return well
	case !reached:
		return waits
	}
	switch v.node.Kind {
	case workflow.OneStep:
		switch v.one.letter {
		case workflows.Sent, workflows.Outside:
			return goes
		case workflows.Done:
			return well
		case workflows.Failed:
			return badly
		case workflows.NotRun:
			return stopped
		}
		return waits
	case workflow.Chain:
		began, last := false, v.latest()
		for i, kid := range v.kids {
			s := m.counts(kid, true)
			if i < last {
				s = well
			}
			switch {
			case s == waits && began && m.halted():
				return stopped
			case s == waits && began:
				return goes
			case s != well:
				return s
			}
			began = began || !kid.empty()
		}
		return well
	case workflow.Graph:
		return m.ofGraph(v)
	}
	var all [stopped + 1]int
	members := 0
	for _, kid := range v.kids {
		if !kid.empty() {
			all[m.counts(kid, true)]++
			members++
		}
	}
	switch {
	case all[goes] > 0 || v.batch && m.open:
		return goes
	case all[waits] > 0 && all[waits] == members:
		return waits
	case all[waits] > 0:
		return goes
	case all[stopped] > 0:
		return stopped
	case all[badly] > 0:
		return badly
	}
	return well
}

func (m *model) ofGraph(v *vertex) status {
	var all [stopped + 1]int
	ready := 0
	for i, kid := range v.kids {
		r := m.ready(v, i)
		s := m.counts(kid, r)
		all[s]++
		if s == waits && r {
			ready++
		}
	}
	switch {
	case all[goes] > 0:
		return goes
	case all[waits] == len(v.kids) && len(v.kids) > 0:
		return waits
	case ready > 0 && !m.halted():
		return goes
	case ready > 0 || all[stopped] > 0:
		return stopped
	case all[badly] > 0:
		return badly
	}
	return well
}

// begun reports whether a step inside was sent.
func (v *vertex) begun() bool {
	return slices.ContainsFunc(v.inside(), func(s *member) bool { return s.letter != workflows.Waits })
}

// latest is the last part of a chain of which something was sent: all in front of it had ended well, and what becomes of
// it later does not count.
func (v *vertex) latest() int {
	for i := len(v.kids) - 1; i > 0; i-- {
		if v.kids[i].begun() {
			return i
		}
	}
	return 0
}

// ready reports whether all that a vertex of a graph comes after has ended well.
func (m *model) ready(v *vertex, i int) bool {
	if v.kids[i].begun() {
		return true
	}
	for _, before := range v.node.After[i] {
		if m.counts(v.kids[before], m.ready(v, before)) != well {
			return false
		}
	}
	return true
}

// walk calls f for each vertex and says whether all in front of it has ended well.
func (m *model) walk(v *vertex, reached bool, f func(v *vertex, reached bool)) {
	f(v, reached)
	last := v.latest()
	for i, kid := range v.kids {
		switch v.node.Kind {
		case workflow.Chain:
			m.walk(kid, reached, f)
			reached = reached && (i < last || m.counts(kid, true) == well)
		case workflow.Graph:
			m.walk(kid, reached && m.ready(v, i), f)
		default:
			m.walk(kid, reached, f)
		}
	}
}

// settle remembers what has ended well, once what follows is sent.
func (m *model) settle() {
	var done []*vertex
	m.walk(m.root, true, func(v *vertex, reached bool) {
		if reached && m.status(v, true) == well {
			done = append(done, v)
		}
	})
	for _, v := range done {
		v.passed = true
	}
}

// failures counts the steps that failed with nothing to bear it, and those that were not run.
func (m *model) failures() (bad, off int) {
	for _, s := range m.steps {
		switch {
		case s == nil || s.handler:
		case s.letter == workflows.Failed && m.fatal(s):
			bad++
		case s.letter == workflows.NotRun:
			off++
		}
	}
	return bad, off
}

// fatal reports whether nothing bears the failure of a step.
func (m *model) fatal(s *member) bool {
	for v := s.at; v != nil; v = v.up {
		if v.borne() != workflow.Fails {
			return false
		}
	}
	return true
}

// called are the error handlers that a failure calls, from the innermost vertex to the one that bears it.
func (m *model) called(s *member) (handlers []*member) {
	for v := s.at; v != nil; v = v.up {
		handlers = append(handlers, v.errs...)
		if v.borne() != workflow.Fails {
			break
		}
	}
	return handlers
}

// end is the end of a step's job, as it was committed.
type end struct {
	step    int
	to      byte
	values  []string
	several bool
}

// arrive moves the letter of a step whose end was committed. It returns the error handlers that this called, and
// whether the job goes back to its queue.
func (m *model) arrive(e end) (handlers []*member, back bool) {
	s := m.steps[e.step]
	if m.forgot {
		return nil, false
	}
	sent := s.letter == workflows.Sent || s.letter == workflows.Outside
	switch {
	case s.handler:
		if s.letter == workflows.Called {
			s.letter = workflows.Over
		}
		return nil, false
	case !sent && (e.to != workflows.Done || s.letter != workflows.Failed && s.letter != workflows.NotRun):
		return nil, false // it comes late
	case e.to == workflows.NotRun && !m.halted():
		return nil, true
	}
	s.letter = e.to
	switch e.to {
	case workflows.Done:
		s.values, s.several = e.values, e.several
	case workflows.Failed:
		s.failed = true
	}
	if m.state == workflows.StateDone {
		m.late = true
		return nil, false
	}
	bad, off := m.failures()
	switch {
	case e.to == workflows.Done && m.state == workflows.StateFailed && bad == 0 && off == 0:
		m.state = workflows.StateRunning
	case e.to == workflows.Done && m.state == workflows.StateFailed && bad == 0:
		m.state = workflows.StateRetrying
	case e.to == workflows.Failed:
		if m.fatal(s) && m.state == workflows.StateRunning {
			m.state = workflows.StateFailed
		}
		if m.state != workflows.StateCancelled && m.state != workflows.StateExpired {
			handlers = m.called(s)
		}
	}
	return handlers, false
}

// values are what a vertex hands on to what follows it in a chain.
func (m *model) values(v *vertex) []string {
	if m.status(v, true) == badly {
		return []string{"null"} // something bears it
	}
	switch v.node.Kind {
	case workflow.OneStep:
		return v.one.values
	case workflow.Chain:
		return m.values(v.kids[len(v.kids)-1])
	}
	if v.batch {
		return nil // of a batch without Results
	}
	if last := m.listed(v); v.node.Kind == workflow.Graph && len(last) == 1 {
		return m.values(last[0])
	}
	return []string{"[" + strings.Join(m.elements(v), ",") + "]"}
}

// elements are the results of the members of a group.
func (m *model) elements(v *vertex) (all []string) {
	for _, kid := range m.listed(v) {
		all = append(all, m.element(kid))
	}
	return all
}

// listed are the members of a group, or the last steps of a graph.
func (m *model) listed(v *vertex) []*vertex {
	if v.node.Kind == workflow.Group {
		return v.kids
	}
	var all []*vertex
	for i, kid := range v.kids {
		if !slices.ContainsFunc(v.node.After, func(before []int) bool { return slices.Contains(before, i) }) {
			all = append(all, kid)
		}
	}
	return all
}

// element is a vertex's result in the list of the vertex around it.
func (m *model) element(v *vertex) string {
	text := "null"
	switch all := m.values(v); {
	case m.status(v, true) == badly && v.borne() == workflow.Collects:
		return `{"error":` + m.why(v) + `}`
	case m.status(v, true) == badly || len(all) == 0:
	case m.isSeveral(v):
		text = "[" + strings.Join(all, ",") + "]"
	default:
		text = all[0]
	}
	if v.up.node.Kind == workflow.Group && v.up.node.Fate == workflow.Collects {
		return `{"result":` + text + `}`
	}
	return text
}

// isSeveral reports whether a vertex hands on several values.
func (m *model) isSeveral(v *vertex) bool {
	return m.last(v).one != nil && m.last(v).one.several
}

// why stands for the failure of a vertex: any that a step inside had.
func (m *model) why(v *vertex) string {
	var all []string
	for _, s := range v.inside() {
		if s.failed { // the latest one is kept, although its step may have succeeded since
			all = append(all, fmt.Sprint(s.number))
		}
	}
	return `"` + strings.Join(all, " ") + `"`
}

// before returns the arguments that a step gets behind its own, when it is sent.
func (m *model) before(s *member) (all []string) {
	if s.step.Immutable {
		return nil
	}
	for _, from := range m.front(s) {
		all = append(all, m.handed(s, from)...)
	}
	return all
}

// front are the vertices whose results a step gets.
func (m *model) front(s *member) (all []*vertex) {
	for v := s.at; !s.handler && v.up != nil; v = v.up {
		i := slices.Index(v.up.kids, v)
		switch v.up.node.Kind {
		case workflow.Chain:
			if i > 0 {
				return []*vertex{v.up.kids[i-1]}
			}
		case workflow.Graph:
			for _, before := range v.up.node.After[i] {
				all = append(all, v.up.kids[before])
			}
			if len(all) > 0 {
				return all
			}
		}
	}
	return nil
}

// last is what a vertex's values are of: the last of a chain, the one last step of a graph.
func (m *model) last(v *vertex) *vertex {
	for {
		switch {
		case v.node.Kind == workflow.Chain:
			v = v.kids[len(v.kids)-1]
		case v.node.Kind == workflow.Graph && len(m.listed(v)) == 1:
			v = m.listed(v)[0]
		default:
			return v
		}
	}
}

// spreads reports whether the values of a vertex may be given side by side: a list whose place no failure may take.
func (m *model) spreads(v *vertex) bool {
	for of := m.last(v); ; of = of.up {
		if of.one != nil || of.batch || of.node.Fate == workflow.Collects || of.borne() != workflow.Fails {
			return false
		}
		if of == v {
			return true
		}
	}
}

func (m *model) handed(s *member, from *vertex) []string {
	if from = m.last(from); s.step.Spread && from.one == nil {
		var all []string
		for _, kid := range m.listed(from) {
			all = append(all, m.values(kid)...)
		}
		return all
	}
	return m.values(from)
}
