package workflow

// chain builds a chain that counts by a branch letter. Its stages but the last have joins which send the next one and report to
// that letter.
func (c *compiler) chain(n *Node, at slot, scope *scope, in []*value) (first []*step, out *value) {
	stages, before, begun := c.stages(n), (*join)(nil), false
	for i, stage := range n.Nodes {
		var f []*step
		switch {
		case c.empty[stage]:
			in = []*value{c.constant(stage)}
			continue
		case i < stages:
			own := at
			own.as = nil
			j := c.newJoin('j', own)
			f, out = c.stage(stage, j, scope, in)
			c.follow(before, f, in)
			before = j
		default:
			last := at
			if fate := stage.ownFate(); fate != unborne && fate != at.borne {
				last = c.within(stage, at)
			}
			f, out = c.node(stage, last, scope, in)
			c.follow(before, f, in)
		}
		if !begun {
			first, begun = f, true
		}
		in = listed(out)
	}
	if c.empty[n.Nodes[len(n.Nodes)-1]] {
		out = in[0]
	}
	return first, out
}

// within makes a join for one member, so that what the member bears and what the join around it bears count apart.
func (c *compiler) within(n *Node, at slot) slot {
	j := c.newJoin('j', at)
	j.left = 1
	inner := slot{join: j, as: at.as, borne: unborne}
	if at.as == nil && needsBranch(n) {
		inner.branch = c.newBranch(true)
		inner.as = inner.branch
	}
	return inner
}

// stages returns the index of the last stage that has steps.
func (c *compiler) stages(n *Node) int {
	last := len(n.Nodes) - 1
	for last > 0 && c.empty[n.Nodes[last]] {
		last--
	}
	return last
}

func listed(v *value) []*value {
	if v == nil {
		return nil
	}
	return []*value{v}
}

// follow has a join send the first steps of what follows it.
func (c *compiler) follow(j *join, first []*step, in []*value) {
	if j == nil {
		return
	}
	j.sends = first
	taken := false
	for _, s := range first {
		s.sent = j
		taken = taken || s.mode == 'v'
	}
	if !taken {
		return
	}
	for _, v := range in {
		v.keep(j)
	}
}

// keep has the steps of a value keep their results. Only a result that the join takes in the call which ends its step need not
// outlive it.
func (v *value) keep(j *join) {
	if v.needed {
		return
	}
	if s := v.step; s != nil {
		if j != nil && s.joins[0] == j && (len(s.joins) == 1 || len(s.joins) == 2 && s.joins[1].kind == 'g') {
			s.keeps('n')
		} else {
			s.keeps('1')
		}
		return
	}
	v.needed = true
	if v.rest != nil {
		v.rest.keeps('1')
	}
	for _, i := range v.items {
		i.keep(nil)
	}
}

func (s *step) keeps(how byte) {
	if s.Known && len(s.Results) == 0 && s.External == 0 {
		return
	}
	if s.kept != '1' {
		s.kept = how
	}
}

// stage builds a node whose parts are the members of a join that sends what follows.
func (c *compiler) stage(n *Node, j *join, around *scope, in []*value) (first []*step, out *value) {
	plain := len(n.OnComplete) == 0
	switch {
	case n.Kind == Group && len(n.OnComplete) < 2:
		return c.group(n, j, n.OnComplete, c.around(n, around), in)
	case n.Kind == Chain && plain && n.Fate == Fails:
		return c.inline(n, j, c.around(n, around), in)
	}
	j.left = 1
	at := slot{join: j, borne: unborne}
	if n.ownFate() != unborne && needsBranch(n) {
		at.branch = c.newBranch(true)
		at.as = at.branch
	}
	return c.node(n, at, around, in)
}

// inline builds a chain as the stage of another: the last of its own stages has the given join.
func (c *compiler) inline(n *Node, j *join, scope *scope, in []*value) (first []*step, out *value) {
	stages, before, begun := c.stages(n), (*join)(nil), false
	for i, stage := range n.Nodes {
		if c.empty[stage] {
			in = []*value{c.constant(stage)}
			continue
		}
		own := j
		if i < stages {
			own = c.newJoin('j', slot{join: j.up, branch: j.letter, borne: j.borne})
		}
		f, v := c.stage(stage, own, scope, in)
		c.follow(before, f, in)
		before, out = own, v
		if !begun {
			first, begun = f, true
		}
		in = listed(out)
	}
	if c.empty[n.Nodes[len(n.Nodes)-1]] {
		out = in[0]
	}
	return first, out
}
