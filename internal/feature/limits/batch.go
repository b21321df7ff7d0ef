package limits

import (
	"bytes"
	"encoding/json"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// This file finds the lanes of many jobs at once, as the sorter wants them. Most are of few classes and in a plain form: what is known of
// their class is looked up once, and only their arguments are read, where a limit has a key.

// Lanes returns the lane in which each of these jobs of a queue waits. Bytes that are no job have their queue's limits only. Jobs of a class
// that is not registered here have a lane of their class. So they block no other jobs when this process
// leaves them to others.
func (t *Table) Lanes(queue string, jobs [][]byte) []resque.Lane {
	lanes := make([]resque.Lane, len(jobs))
	b := batch{table: t, queue: queue, classes: make(map[string]*classLanes)}
	for i, raw := range jobs {
		lanes[i] = b.lane(raw)
	}
	return lanes
}

// Alike returns what all jobs are like that have the class of this one and its lane, whatever their arguments are. There are none where the job is
// not in the plain form, or where one of its limits has a key.
func (t *Table) Alike(queue string, raw []byte) (of resque.Alike, some bool) {
	name := plainClass(raw)
	if name == nil {
		return of, false
	}
	b := batch{table: t, queue: queue, classes: make(map[string]*classLanes)}
	c := b.class(name)
	if c.read || c.keyed > 0 {
		return of, false
	}
	return resque.Alike{Begin: raw[:len(classBegins)+len(name)+1], Lane: c.lane}, true
}

// Arguments of many jobs are in one piece of memory, while there is room for as many as most jobs have.
const (
	argsTogether = 512
	fewArgs      = 8
)

// keptLanes is how many lanes of a class are kept for the jobs behind, where one costs little: of many keys hardly any comes twice in a batch.
const keptLanes = 64

type batch struct {
	table   *Table
	queue   string
	classes map[string]*classLanes
	last    *classLanes // of the job before
	args    []json.RawMessage
}

// classLanes is what is known of the jobs of a class.
type classLanes struct {
	name   string
	read   bool // they must be read: the limits of each are its own
	keyed  int  // how many limits have a key
	limits []Limit
	lane   resque.Lane                  // of all of them, if no limit has a key
	lanes  map[string]resque.Lane       // by the key, if one has
	byKey  func(key string) resque.Lane // the lane by the key of the only limit; nil: there are several, or it has none
}

func (b *batch) lane(raw []byte) resque.Lane {
	name := plainClass(raw)
	if name == nil {
		return b.read(raw)
	}
	c := b.last
	if c == nil || c.name != string(name) {
		c = b.class(name)
		b.last = c
	}
	switch {
	case c.read:
		return b.read(raw)
	case c.keyed == 0: // bytes that begin as such a job does wait there too, whatever comes behind
		return c.lane
	}
	if cap(b.args)-len(b.args) < fewArgs { // full: a larger one would take the memory of both
		b.args = make([]json.RawMessage, 0, argsTogether)
	}
	before := len(b.args)
	all, ok := payload.PlainArgs(raw, b.args)
	if b.args = all; !ok {
		return b.read(raw)
	}
	args := all[before:len(all):len(all)] // the program's function may keep them
	if before == len(all) {
		args = nil
	}
	if c.keyed > 1 {
		lane, _ := c.on(b.queue, args)
		return lane
	}
	key := ""
	for _, l := range c.limits {
		if l.Key != nil {
			key = l.keyOf(args)
		}
	}
	lane, ok := c.lanes[key]
	switch {
	case ok:
		return lane
	case c.byKey != nil && key != "":
		if lane = c.byKey(shortKey(key)); len(c.lanes) >= keptLanes {
			return lane
		}
	default:
		lane, key = c.on(b.queue, args)
	}
	c.lanes[key] = lane
	return lane
}

func (b *batch) read(raw []byte) resque.Lane {
	lane, _ := b.table.LaneOf(b.table.classes.Read(b.queue, raw))
	return lane
}

// class looks up what is known of a class.
func (b *batch) class(name []byte) *classLanes {
	c := b.classes[string(name)]
	if c != nil {
		return c
	}
	c = &classLanes{name: string(name), lane: resque.Lane{Queue: b.queue}}
	b.classes[c.name] = c
	class := b.table.classes.All()[c.name]
	if class == nil {
		c.read = true
		return c
	}
	of, _ := outcome.Get[Of](class)
	ofQueue := b.table.ofQueue(b.queue)
	if _, exempts := outcome.Get[Exempt](class); exempts || b.table.hasRules(class.Name) {
		c.read = len(of)+len(ofQueue) > 0 || b.table.hasRules(class.Name)
		return c
	}
	c.limits = append(append(c.limits, ofQueue...), of...)
	for _, l := range c.limits {
		if l.Key != nil {
			c.keyed++
		}
	}
	switch {
	case c.keyed == 0:
		c.lane, _ = c.on(b.queue, nil)
	case c.keyed == 1:
		c.lanes = make(map[string]resque.Lane)
		if l := c.limits[0]; len(c.limits) == 1 {
			c.byKey = resque.KeyedLanes(b.queue, resque.Limit{Kind: l.Kind, Name: l.Name})
		}
	}
	return c
}

// on returns the lane of jobs of a class with such arguments, and the last key of a limit.
func (c *classLanes) on(queue string, args []json.RawMessage) (lane resque.Lane, key string) {
	var few [4]resque.Limit
	limits := few[:0]
	for _, l := range c.limits {
		limit, ok := l.on(args)
		if l.Key != nil {
			key = limit.Key
		}
		if ok {
			limit.Key = shortKey(limit.Key)
			limits = append(limits, limit)
		}
	}
	if len(limits) == 0 {
		return resque.Lane{Queue: queue}, key
	}
	return resque.NewLane(queue, limits...), key
}

// classBegins is what stands before the class of a payload in the plain form.
const classBegins = `{"class":"`

// plainClass is the class of a payload in the form that nearly all have: the class first, and nothing
// escaped. It is nil for any other form, which must be parsed.
func plainClass(raw []byte) []byte {
	rest, ok := bytes.CutPrefix(raw, []byte(classBegins))
	end := bytes.IndexByte(rest, '"')
	if !ok || end < 0 || bytes.IndexByte(raw, '\\') >= 0 || bytes.Contains(rest[end:], []byte(`"class"`)) {
		return nil // the last of several classes counts
	}
	return rest[:end:end]
}
