package resque

import (
	"slices"
	"strings"
)

// This file sends ends with an exchange. Ends of the same shape are a group: the same rows, with as many keys and
// arguments. Redis is sent once what is equal in all jobs of a group, and for each job the rest.

// exchangeScript is an exchange, and exchangeEnds one with parts/ends.lua at the line of the verbs. Its first line is its own,
// by which a reader of Redis's log knows it.
var (
	exchangeScript = script("exchange")
	exchangeEnds   = newEndsScript()
)

func newEndsScript() *rowScript {
	return newRows(func() string {
		text := strings.Replace(readParts("exchange"), verbsMark, readParts("parts/ends"), 1)
		return "-- An exchange with ends of jobs that have effects.\n" + text
	})
}

// groupsBack is how many groups an end is compared with. The shapes of ends are few.
const groupsBack = 8

// endGroup is ends of the same shape.
type endGroup struct {
	counts Counts
	width  int       // rows of each
	rows   []*Effect // of each, in their order: hard ones first
	equal  [][]bool  // for each of the width rows, whether a key or argument is equal in all
}

// parted is the ends of an exchange by the script that commits them. Either all of them go with it or none: what several
// write under one key stays in their order.
type parted struct {
	apart  []Ended // by commit.lua, before the exchange
	groups []endGroup
	jobs   []groupedEnd // of the groups, in the order of their ends
	verbs  []*Verb      // of the groups
	run    bool         // the jobs are a run: see parts/ends.lua
}

// groupedEnd is one end of a group.
type groupedEnd struct {
	ticket int64
	group  int // counted from 0
}

// part says how ends go to Redis.
func (p *parted) part(ended []Ended) {
	*p = parted{}
	if len(ended) == 0 {
		return
	}
	for i := range ended {
		if !ended[i].joins() {
			p.apart = ended
			return
		}
	}
	p.jobs = make([]groupedEnd, len(ended))
	var rows []*Effect
	for i := range ended {
		e := &ended[i]
		rows = e.ordered(rows[:0])
		if e.Bytes != nil {
			pushed(rows, e.Bytes)
		}
		p.verbs = addVerbs(p.verbs, e.Effects)
		at := p.group(e.Counts, rows)
		p.jobs[i] = groupedEnd{e.Ticket, at}
		p.groups[at].rows = append(p.groups[at].rows, rows...)
	}
	for i := range p.groups {
		p.groups[i].compare()
	}
	p.verbs = distinct(p.verbs) // a server that does not know the script has it named twice
	p.run = len(p.groups) == 1 && p.groups[0].runs()
}

// members are the commands that take any number of members, and how many arguments each of those has.
var members = map[string]int{"ZADD": 2, "SREM": 1, "HDEL": 1, "RPUSH": 1}

// mostRun is how many jobs a run has at most: Lua passes no more than 8,000 values to a function.
const mostRun = 2000

// runs reports whether the jobs of a group can be a run. Of a command all arguments are sent for each job then, equal or not, but for names of slots.
func (g *endGroup) runs() bool {
	if g.width != 1 || len(g.rows) == 1 || len(g.rows) > mostRun {
		return false
	}
	row, equal := g.rows[0], g.equal[0]
	verb := strings.TrimPrefix(row.verb, "~")
	switch {
	case row.file != nil:
		return row.file.many()
	case members[verb] != len(row.args) || !equal[0] && verb != "SREM" && verb != "HDEL":
		return false
	}
	for i, a := range row.args {
		_, own := a.(ownSlot)
		equal[1+i] = equal[1+i] && own
	}
	return true
}

// joins reports whether parts/ends.lua can commit the end: it knows no guards, and the ticket is in the process's record.
func (e *Ended) joins() bool {
	for i := range e.Effects {
		if e.Effects[i].verb[0] == '?' {
			return false
		}
	}
	return e.Place == ""
}

// pushed has rows push bytes in place of the record's.
func pushed(rows []*Effect, bytes []byte) {
	for i, row := range rows {
		if own := row.pushes(bytes); own.verb != row.verb {
			rows[i] = &own
		}
	}
}

// ordered appends the rows in the order in which they are written.
func (e *Ended) ordered(rows []*Effect) []*Effect {
	if len(e.Effects) == 1 {
		return append(rows, &e.Effects[0])
	}
	for order := range orders {
		for i := range e.Effects {
			if e.Effects[i].order() == order {
				rows = append(rows, &e.Effects[i])
			}
		}
	}
	return rows
}

// group returns which group an end with these rows belongs to. It adds one if there is none.
func (p *parted) group(counts Counts, rows []*Effect) int {
	for i := len(p.groups) - 1; i >= max(0, len(p.groups)-groupsBack); i-- {
		if g := &p.groups[i]; g.counts == counts && g.width == len(rows) && slices.EqualFunc(g.rows[:g.width], rows, (*Effect).shaped) {
			return i
		}
	}
	p.groups = append(p.groups, endGroup{counts: counts, width: len(rows)})
	return len(p.groups) - 1
}

// shaped reports whether two effects differ in nothing but names of keys and values.
func (e *Effect) shaped(o *Effect) bool {
	return e == o || e.verb == o.verb && len(e.args) == len(o.args) &&
		slices.EqualFunc(e.keys, o.keys, func(a, b Key) bool { return a.kind == b.kind })
}

// compare finds out what is equal in all jobs of the group.
func (g *endGroup) compare() {
	g.equal = make([][]bool, g.width)
	for r, first := range g.rows[:g.width] {
		equal := make([]bool, len(first.keys)+len(first.args))
		for c := range equal {
			equal[c] = true
			for i := r + g.width; i < len(g.rows) && equal[c]; i += g.width {
				if g.rows[i] == first {
					continue
				}
				if n := len(first.keys); c < n {
					equal[c] = first.keys[c].name == g.rows[i].keys[c].name
				} else {
					equal[c] = sameArg(first.args[c-n], g.rows[i].args[c-n])
				}
			}
		}
		g.equal[r] = equal
	}
}

// sameArg reports whether two arguments are certainly sent as the same text. Of the names of slots that is what stands before the ticket.
func sameArg(a, b any) bool {
	switch a := a.(type) {
	case string:
		b, ok := b.(string)
		return ok && a == b
	case int:
		b, ok := b.(int)
		return ok && a == b
	case int64:
		b, ok := b.(int64)
		return ok && a == b
	case ownSlot:
		b, ok := b.(ownSlot)
		return ok && a == b
	case KeyList:
		b, ok := b.(KeyList)
		return ok && slices.Equal(a, b)
	case WrittenKeys:
		b, ok := b.(WrittenKeys)
		return ok && slices.Equal(a, b)
	}
	return false
}

// size is about how many keys and arguments the groups take.
func (p *parted) size() (keys, args int) {
	if len(p.groups) > 0 {
		keys, args = 1, 4+2*len(p.jobs)
	}
	for i := range p.groups {
		g := &p.groups[i]
		args += 2
		for r, first := range g.rows[:g.width] {
			args += 3
			for c, equal := range g.equal[r] {
				n := len(g.rows) / g.width
				if equal {
					n = 1
				}
				if args += n; c < len(first.keys) {
					keys += n
				}
			}
		}
	}
	return keys, args
}

// endsCall writes the ends of an exchange into its call.
type endsCall struct {
	Call
	numbers map[string]int // of the keys that are equal in a group or in a KeyList
	moving  []any          // the keys that vary, in their order
}

// ends adds the groups: their arguments now, and the keys that vary by varying, behind all other keys. It returns where the
// number of the first of those stands in argv.
func (s Store) ends(c *endsCall, p *parted) (first int) {
	c.Arg(c.Key(s.stat("failed")), 0, len(p.groups))
	first = len(c.argv) - 2
	for i := range p.groups {
		c.heading(&p.groups[i])
	}
	if p.run {
		c.runs(&p.groups[0], p.jobs)
		return first
	}
	c.Arg(len(p.jobs))
	next := make([]int, len(p.groups)) // the rows of which job of the group
	for _, j := range p.jobs {
		if len(p.groups) > 1 {
			c.Arg(j.group + 1)
		}
		c.Arg(j.ticket)
		g, from := &p.groups[j.group], next[j.group]
		next[j.group] += g.width
		c.job(g, g.rows[from:from+g.width], j.ticket)
	}
	return first
}

// heading adds what is equal in all jobs of a group.
func (c *endsCall) heading(g *endGroup) {
	c.Arg(string(g.counts), g.width)
	for r, row := range g.rows[:g.width] {
		n, equal := len(row.keys), g.equal[r]
		letters := make([]byte, n+len(equal))
		for i, k := range row.keys {
			letters[i] = k.kind
		}
		for i, same := range equal {
			letters[n+i] = 'v'
			if same {
				letters[n+i] = '='
			}
			if same && i >= n {
				if _, own := row.args[i-n].(ownSlot); own {
					letters[n+i] = '/'
				}
			}
		}
		c.Arg(row.verb, string(letters[:n]), string(letters[n:]))
		for i, same := range equal {
			switch {
			case !same:
			case i < n:
				c.Arg(c.number(row.keys[i].name))
			case letters[n+i] == '/':
				c.Arg(string(row.args[i-n].(ownSlot)))
			default:
				c.value(row.args[i-n], 0)
			}
		}
	}
}

// job adds what varies in one job of a group.
func (c *endsCall) job(g *endGroup, rows []*Effect, ticket int64) {
	for r, row := range rows {
		for i, same := range g.equal[r] {
			switch n := len(row.keys); {
			case same:
			case i < n:
				c.moving = append(c.moving, row.keys[i].name)
			default:
				c.value(row.args[i-n], ticket)
			}
		}
	}
}

// runs adds the jobs of a run: of a command job by job, of a verb place by place.
func (c *endsCall) runs(g *endGroup, jobs []groupedEnd) {
	c.Arg(-len(jobs))
	for _, j := range jobs {
		c.Arg(j.ticket)
	}
	if g.rows[0].file == nil {
		for i := range g.rows {
			c.job(g, g.rows[i:i+1], jobs[i].ticket)
		}
		return
	}
	n := len(g.rows[0].keys)
	for place, same := range g.equal[0] {
		for i, row := range g.rows {
			switch {
			case same:
			case place < n:
				c.moving = append(c.moving, row.keys[place].name)
			default:
				c.value(row.args[place-n], jobs[i].ticket)
			}
		}
	}
}

func (c *endsCall) value(a any, ticket int64) {
	switch keys := a.(type) {
	case ownSlot:
		a = keys.of(ticket)
	case KeyList:
		a = c.list(keys)
	case WrittenKeys:
		a = c.list(KeyList(keys))
	}
	c.argv = append(c.argv, a)
}

func (c *endsCall) list(keys KeyList) string {
	return keys.text(func(k Key) int { return c.number(k.name) })
}

// number returns the number of a key, which it adds if it is new.
func (c *endsCall) number(name string) int {
	n := c.numbers[name]
	if n == 0 {
		if c.numbers == nil {
			c.numbers = make(map[string]int)
		}
		n = c.Key(name)
		c.numbers[name] = n
	}
	return n
}

// varying adds the keys that vary, behind all others, and says at first where they begin.
func (c *endsCall) varying(first int) {
	c.argv[first] = len(c.keys) - c.before + 1
	c.keys = append(c.keys, c.moving...)
}

func (s Store) endedArgs(x *Exchange, script string) []any {
	return s.commitArgs(script, s.byProcess(x.Process, x.Epoch), x.parted.apart)
}

// script is the exchange's, with the verbs that it uses.
func (x *Exchange) script() *Script {
	switch {
	case x.brief != nil:
		return x.brief
	case x.sits():
		return seatedScript
	case len(x.parted.groups) == 0:
		return exchangeScript
	}
	return exchangeEnds.with(x.parted.verbs)
}

// ended adds the answer of commit.lua, or that part of the exchange's own, to that of the exchange.
func (s Store) ended(reply any, out *Exchanged) error {
	c, err := s.committed(reply)
	if err != nil {
		return err
	}
	out.Missing += c.missing
	out.Refused = append(out.Refused, c.refusals()...)
	out.Filled, out.Wrote = append(out.Filled, s.queueNames(c.filled)...), append(out.Wrote, c.filled...)
	return nil
}
