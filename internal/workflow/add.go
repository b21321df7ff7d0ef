package workflow

import (
	"fmt"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Into says where Add puts nodes: the numbers that were reserved, and the join that is open. Members of an open workflow find
// the rest in the field into: see ParseInto.
type Into struct {
	Workflow            string
	Letter, Join, Scope int    // the first numbers that are free
	Open                int    // the join of the batch
	OpenScope           string // the scope of the batch's members, "" for none
	Fate                Fate
	Keep                bool   // the members' results are kept
	Queue               string // hint: the queue of what follows
	Now                 time.Time
}

// ParseInto reads the field into of an open workflow's hash: the place that a member has. The caller adds the id, the numbers
// and the time.
func ParseInto(text string) (Into, error) {
	p, ok := workflows.ParsePlace(text)
	open, err := strconv.Atoi(p.Joins)
	if !ok || err != nil {
		return Into{}, fmt.Errorf("the workflow's field into is damaged: %q", text)
	}
	into := Into{Open: open, OpenScope: p.Scope, Keep: p.Kept == "1", Queue: p.Queue}
	switch p.Borne {
	case "c":
		into.Fate = Collects
	case "i":
		into.Fate = Ignores
	}
	return into, nil
}

// Add compiles nodes that join an open batch. A node without steps adds nothing. Needs says how many numbers they need.
func Add(nodes []*Node, into Into, encode Encoder) (*workflows.Plan, error) {
	return add(nodes, into, encode, payload.NewID)
}

func add(nodes []*Node, into Into, encode Encoder, secret func() string) (*workflows.Plan, error) {
	c, members, err := added(nodes, into, encode, secret)
	if err != nil {
		return nil, err
	}
	p := &workflows.Plan{ID: into.Workflow, Letters: c.number(), Members: members}
	if len(c.result.items) > 0 {
		put(p, "list", c.of(c.result.items))
	}
	if err := c.write(p); err != nil {
		return nil, err
	}
	return p, nil
}

// added builds the nodes as members of the open join.
func added(nodes []*Node, into Into, encode Encoder, secret func() string) (c *compiler, members int, err error) {
	c = newCompiler(Options{ID: into.Workflow}, encode, secret)
	c.into, c.adds = into, true
	var around *scope
	if into.OpenScope != "" {
		number, err := strconv.Atoi(into.OpenScope)
		if err != nil {
			return nil, 0, fmt.Errorf("the scope of a batch's members is %q, which is no number", into.OpenScope)
		}
		around = &scope{number: number}
	}
	j := &join{number: into.Open, hint: into.Queue, hinted: true}
	v := survey{c, map[*Node]bool{}}
	for _, n := range nodes {
		if err := v.walk(n, 0, false); err != nil {
			return nil, 0, err
		}
	}
	c.result = &value{}
	for _, n := range nodes {
		if c.empty[n] {
			if into.Keep {
				c.result.items = append(c.result.items, c.constant(n))
			}
			continue
		}
		first, out := c.member(n, slot{join: j, borne: into.Fate.letter()}, around, nil)
		c.first = append(c.first, first...)
		members++
		if into.Keep {
			out.keep(nil)
			c.result.items = append(c.result.items, out)
		}
	}
	return c, members, nil
}

// Needs returns how many letters, joins and scopes Add needs for nodes. Of nodes that Add refuses it returns none.
func Needs(nodes []*Node) (letters, joins, scopes int) {
	c, _, err := added(nodes, Into{}, nil, nil)
	if err != nil {
		return 0, 0, 0
	}
	return len(c.number()), len(c.joins), len(c.scopes)
}
