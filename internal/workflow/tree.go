package workflow

// A compiler builds the parts of a workflow, which point to each other, and then numbers them.
type compiler struct {
	o      Options
	into   Into // the numbers begin here
	adds   bool // to an open batch
	encode Encoder
	secret func() string

	steps  map[*Step]*step
	order  []*step // all steps and handlers in the tree's order
	empty  map[*Node]bool
	names  map[string]*step
	opened *Node // the group that stays open; nil: none
	open   *join // its join
	plain  *step // as a plain member of that join would be

	first    []*step
	joins    []*join
	scopes   []*scope
	branches []*branch
	handlers []*step
	result   *value
}

// step is a step or a handler.
type step struct {
	*Step
	ordinal int // from 1 on, in the tree's order: for sentences
	number  int // of its letter
	joins   []*join
	branch  *branch // that counts for it; nil: its own letter does
	as      *branch // under whose number its result is kept; nil: its own
	scope   *scope
	borne   byte
	mode    byte // of its template
	handler bool
	takes   []*value
	sent    *join // that sends it; nil: it is sent first, or is a handler
	kept    byte
}

// keptAs is the number under which its result is kept.
func (s *step) keptAs() int {
	if s.as != nil {
		return s.as.number
	}
	return s.number
}

type branch struct {
	number int
	bears  bool // what waits goes on after a failure, which is then under its number
}

type scope struct {
	number  int
	up      *scope
	handler *step // nil: none, it only bears
	borne   byte
}

type join struct {
	number int
	left   int
	bad    int
	kind   byte
	sends  []*step
	inner  []*join // of a graph: those of its steps
	up     *join
	letter *branch // that it reports to; nil: none, or it is in a graph
	borne  byte
	over   *step
	hint   string
	hinted bool
}

// value is what a node gives to what follows it: the result of a step, or a list.
type value struct {
	step    *step
	items   []*value // of a list
	rest    *step    // of the list of an open group, to which pieces are added: a member; nil: it is no such list
	collect bool
	stands  *branch // a failure under its number counts in place of the list
	needed  bool    // the results in it are kept
}

// slot is where the end of a node counts.
type slot struct {
	join   *join
	branch *branch // nil: a step counts by its own letter
	as     *branch // under whose number the result is kept
	borne  byte
}

const unborne = '-'

func (c *compiler) newJoin(kind byte, at slot) *join {
	j := &join{number: c.into.Join + len(c.joins), kind: kind, up: at.join, letter: at.branch, borne: at.borne}
	c.joins = append(c.joins, j)
	return j
}

func (c *compiler) newBranch(bears bool) *branch {
	b := &branch{bears: bears}
	c.branches = append(c.branches, b)
	return b
}

func (c *compiler) newScope(around *scope, handler *step, borne byte) *scope {
	s := &scope{number: c.into.Scope + len(c.scopes), up: around, handler: handler, borne: borne}
	c.scopes = append(c.scopes, s)
	return s
}

func (c *compiler) newHandler(s *Step, mode byte) *step {
	h := c.steps[s]
	h.handler, h.mode, h.borne, h.kept = true, mode, unborne, '0'
	c.handlers = append(c.handlers, h)
	return h
}

// around makes the scopes of a node's error handlers. The first handler is the innermost. The outermost bears what the node's
// own fate bears, so its handlers run. A group's scope that bears is inside its handlers: see group.
func (c *compiler) around(n *Node, around *scope) *scope {
	borne := n.ownFate()
	for i := len(n.OnError) - 1; i >= 0; i-- {
		around = c.newScope(around, c.newHandler(n.OnError[i], 'e'), borne)
		borne = unborne
	}
	if borne != unborne {
		around = c.newScope(around, nil, borne)
	}
	return around
}

func (f Fate) letter() byte {
	switch f {
	case Collects:
		return 'c'
	case Ignores:
		return 'i'
	}
	return unborne
}

// root builds the whole workflow in join 0.
func (c *compiler) root(n *Node) {
	at := slot{borne: unborne}
	j := c.newJoin('j', at)
	if len(n.OnError) == 0 {
		c.into.Scope = 1 // 0 is the workflow's own
	}
	if c.empty[n] {
		c.result = c.constant(n)
		if k := len(n.OnComplete); k > 0 {
			j.over = c.newHandler(n.OnComplete[k-1], 'n')
		}
		return
	}
	overs := n.OnComplete
	scope := c.around(n, nil)
	if k := len(overs); k > 0 && (n.Kind != Group || k > 1) {
		j.over = c.newHandler(overs[k-1], 'n')
		overs = overs[:k-1]
	} else if n.Kind == Group {
		c.first, c.result = c.group(n, j, overs, scope, nil)
		return
	}
	j.left = 1
	at = slot{join: j, borne: n.ownFate()}
	c.first, c.result = c.placed(n, at, overs, scope, nil)
}

// ownFate is how the end of the node counts where the node is a member. A group's fate is that of its members.
func (n *Node) ownFate() byte {
	if n.Kind == Group {
		return unborne
	}
	return n.Fate.letter()
}

// needsBranch reports whether a node is more than one letter.
func needsBranch(n *Node) bool { return n.Kind != OneStep || len(n.OnComplete) > 0 }

// node builds a member of a join.
func (c *compiler) node(n *Node, at slot, around *scope, in []*value) (first []*step, out *value) {
	if f := n.ownFate(); f != unborne {
		at.borne = f
	}
	return c.placed(n, at, n.OnComplete, c.around(n, around), in)
}

// placed builds a node whose scopes are made. Its handlers of completion are those of overs.
func (c *compiler) placed(n *Node, at slot, overs []*Step, scope *scope, in []*value) (first []*step, out *value) {
	inside := 0 // handlers in the node's own join
	if (n.Kind == Group || n.Kind == Graph) && len(overs) > 0 {
		inside = 1
	}
	for i := len(overs) - 1; i >= inside; i-- {
		if at.branch == nil {
			at.branch = c.newBranch(at.borne != unborne)
		}
		j := c.newJoin('j', at)
		j.left, j.over = 1, c.newHandler(overs[i], 'n')
		at = slot{join: j, as: at.as, borne: unborne}
	}
	overs = overs[:inside]
	if n.Kind != OneStep && at.branch == nil {
		at.branch = c.newBranch(at.borne != unborne)
	}
	switch n.Kind {
	case Chain:
		return c.chain(n, at, scope, in)
	case Graph:
		return c.graph(n, at, overs, scope, in)
	case Group:
		j := c.newJoin('j', at)
		first, out = c.group(n, j, overs, scope, in)
		if out != nil {
			out.stands = at.as
		}
		return first, out
	}
	s := c.steps[n.Step]
	s.joins, s.branch, s.scope, s.borne = []*join{at.join}, at.branch, scope, at.borne
	s.standsFor(at.as)
	c.give(s, in)
	return []*step{s}, &value{step: s}
}

// standsFor has the result of a step kept under a branch's number, so that a list of branches has numbers in a row, and the
// failure of a branch is in the result's place. A name is of the step: its result stays with it where it can.
func (s *step) standsFor(b *branch) {
	if b != nil && (b.bears || s.Name == "") {
		s.as = b
	}
}

// give sets what a step takes.
func (c *compiler) give(s *step, in []*value) {
	s.mode = 'n'
	if !s.Immutable && len(in) > 0 {
		s.mode, s.takes = 'v', in
	}
}

// group builds the members of a group in its join.
func (c *compiler) group(n *Node, j *join, overs []*Step, scope *scope, in []*value) (first []*step, out *value) {
	if len(overs) > 0 {
		j.over = c.newHandler(overs[0], 'n')
	}
	borne := n.Fate.letter()
	if borne != unborne {
		scope = c.newScope(scope, nil, borne)
	}
	members, branches := 0, false
	for _, m := range n.Nodes {
		if !c.empty[m] {
			members++
			branches = branches || needsBranch(m)
		}
	}
	j.left = members
	if n == c.opened {
		j.left++
		c.open = j
		c.plain = &step{Step: &Step{}, joins: []*join{j}, scope: scope, borne: borne, kept: '0'}
	}
	var row []*branch
	for _, m := range n.Nodes {
		if branches && !c.empty[m] {
			row = append(row, c.newBranch(borne != unborne || m.ownFate() != unborne))
		}
	}
	out = &value{collect: n.Fate == Collects, items: make([]*value, 0, len(n.Nodes))}
	if n.Seq != nil {
		out.rest = c.plain
	}
	for _, m := range n.Nodes {
		if c.empty[m] {
			out.items = append(out.items, c.constant(m))
			continue
		}
		at := slot{join: j, borne: borne}
		if branches {
			at.branch, row = row[0], row[1:]
		}
		f, v := c.member(m, at, scope, in)
		first = append(first, f...)
		out.items = append(out.items, v)
	}
	if n == c.opened && n.Seq == nil {
		return first, nil
	}
	return first, out
}

// member builds a member of a group. A list stands for its branch if a failure may be in its place.
func (c *compiler) member(n *Node, at slot, scope *scope, in []*value) (first []*step, out *value) {
	if at.branch == nil && needsBranch(n) {
		at.branch = c.newBranch(at.borne != unborne || n.ownFate() != unborne)
	}
	at.as = at.branch
	first, out = c.node(n, at, scope, in)
	if out.step == nil {
		out.stands = nil
		if at.branch != nil && at.branch.bears {
			out.stands = at.branch
		}
	}
	return first, out
}

// constant is the value of a node without steps.
func (c *compiler) constant(n *Node) *value {
	if n.Kind == Chain {
		return c.constant(n.Nodes[len(n.Nodes)-1])
	}
	v := &value{collect: n.Fate == Collects}
	for _, m := range n.Nodes {
		v.items = append(v.items, c.constant(m))
	}
	return v
}
