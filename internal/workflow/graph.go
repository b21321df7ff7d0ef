package workflow

// graph builds a graph. Its own join counts all of its steps. Each step with others before it has a join that sends it.
func (c *compiler) graph(n *Node, at slot, overs []*Step, scope *scope, in []*value) (first []*step, out *value) {
	g := c.newJoin('g', slot{join: at.join, branch: at.branch, borne: at.borne})
	g.bad = len(n.Nodes)
	if len(overs) > 0 {
		g.over = c.newHandler(overs[0], 'n')
	}
	joins, sinks := make([]*join, len(n.Nodes)), make([]bool, len(n.Nodes))
	for i := range n.Nodes {
		sinks[i] = true
		if len(n.After[i]) > 0 {
			joins[i] = c.newJoin('j', slot{join: g, borne: unborne})
			joins[i].left = len(n.After[i])
			g.inner = append(g.inner, joins[i])
		}
	}
	made := make([]*step, len(n.Nodes))
	for i, m := range n.Nodes {
		s := c.steps[m.Step]
		made[i], s.borne, s.scope = s, m.ownFate(), c.around(m, scope)
	}
	for i, after := range n.After {
		for _, before := range after {
			made[before].joins = append(made[before].joins, joins[i])
			sinks[before] = false
		}
	}
	out = &value{}
	for i, s := range made {
		s.joins = append(s.joins, g)
		if sinks[i] {
			out.items = append(out.items, &value{step: s})
		}
		if len(n.After[i]) == 0 {
			c.give(s, in)
			first = append(first, s)
			g.left++
		}
	}
	for i, after := range n.After {
		if len(after) == 0 {
			continue
		}
		var takes []*value
		for _, before := range after {
			takes = append(takes, &value{step: made[before]})
		}
		c.give(made[i], takes)
		c.follow(joins[i], []*step{made[i]}, takes)
	}
	if len(out.items) == 1 {
		out = out.items[0]
		out.step.standsFor(at.as)
	} else {
		out.stands = at.as
	}
	return first, out
}
