package workflow

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// mostBytes is how many bytes a plan has that is in memory as a whole.
const mostBytes = 256 << 20

func newCompiler(o Options, encode Encoder, secret func() string) *compiler {
	return &compiler{o: o, encode: encode, secret: secret,
		steps: map[*Step]*step{}, empty: map[*Node]bool{}, names: map[string]*step{}}
}

func compile(n *Node, o Options, encode Encoder, secret func() string) (*workflows.Plan, error) {
	if err := checkID(o.ID); err != nil {
		return nil, err
	}
	c := newCompiler(o, encode, secret)
	v := survey{c, map[*Node]bool{}}
	if err := v.walk(n, 0, true); err != nil {
		return nil, err
	}
	if o.Open && c.opened == nil {
		return nil, errors.New("it stays open, but its first stage is no group to which steps can be added")
	}
	c.root(n)
	if c.result != nil {
		c.result.keep(nil)
		if depth := c.result.depth(); depth > mostLists {
			return nil, fmt.Errorf("the workflow's result is lists in lists, %d levels of them, and at most %d can be read", depth, mostLists)
		}
	}
	letters := c.number()
	if len(letters) > mostSteps {
		return nil, fmt.Errorf("the workflow has more than %d steps, branches and handlers; stream the members of its first group with GroupSeq", mostSteps)
	}
	p := &workflows.Plan{ID: o.ID, Name: o.Name, Letters: letters, Deadline: o.Deadline, Keep: o.Keep, Lock: o.Lock, Open: c.open != nil}
	if c.open != nil {
		p.OpenJoin = c.open.number
	}
	if len(o.Meta) > 0 {
		p.Meta, _ = json.Marshal(o.Meta) // a map of texts
	}
	c.fields(p)
	if err := c.write(p); err != nil {
		return nil, err
	}
	return p, nil
}

// number gives all letters their numbers: first the steps that are sent first, then what each join sends, then branches and
// handlers. It returns the letters.
func (c *compiler) number() []byte {
	letters := make([]byte, 0, len(c.order)+len(c.branches))
	next := func(letter byte) int {
		letters = append(letters, letter)
		return c.into.Letter + len(letters) - 1
	}
	for _, s := range c.first {
		if s.External != 0 {
			s.number = next(workflows.Outside)
		} else {
			s.number = next(workflows.Sent)
		}
	}
	for _, j := range c.joins {
		for _, s := range j.sends {
			s.number = next(workflows.Waits)
		}
	}
	for _, b := range c.branches {
		b.number = next(workflows.GoesOn)
	}
	for _, h := range c.handlers {
		h.number = next(workflows.Armed)
	}
	return letters
}

func put(p *workflows.Plan, name string, value any) { p.Fields = append(p.Fields, name, value) }

// fields writes what belongs to the whole workflow.
func (c *compiler) fields(p *workflows.Plan) {
	if c.o.RunRest {
		put(p, "rest", "1")
	}
	if c.o.CancelRunning {
		put(p, "cancels", "1")
	}
	if c.open != nil {
		put(p, "into", c.place(c.plain).String())
	}
	if c.result != nil {
		put(p, "result", "v "+c.of([]*value{c.result}))
	}
}

// write writes joins, scopes, names and steps.
func (c *compiler) write(p *workflows.Plan) error {
	for _, j := range c.joins {
		put(p, "j"+strconv.Itoa(j.number), j.String())
	}
	if c.open != nil && !c.adds && c.into.Scope > 0 {
		put(p, "p0", "- - -") // its number is the workflow's own also where no handler has it
	}
	for _, s := range c.scopes {
		put(p, "p"+strconv.Itoa(s.number), s.String())
	}
	for _, s := range c.order {
		if s.Name == "" || s.number < 0 { // a handler of an empty node is not in the workflow
			continue
		}
		text := strconv.Itoa(s.number)
		if s.keptAs() != s.number {
			text += " " + strconv.Itoa(s.keptAs())
		}
		put(p, "n:"+s.Name, text)
	}
	size := 0
	add := func(s *step) error {
		n, err := c.step(p, s)
		if err != nil {
			return err
		}
		if size += n; size > mostBytes {
			return fmt.Errorf("its jobs have more than %d MiB; stream the members of its first group with GroupSeq, or pass what is large by reference",
				mostBytes>>20)
		}
		return nil
	}
	for _, s := range c.first {
		if err := add(s); err != nil {
			return err
		}
	}
	for _, j := range c.joins {
		for _, s := range j.sends {
			if err := add(s); err != nil {
				return err
			}
		}
	}
	for _, h := range c.handlers {
		if err := add(h); err != nil {
			return err
		}
	}
	return nil
}

// place is where a step stands.
func (c *compiler) place(s *step) workflows.Place {
	p := workflows.Place{Kept: string(s.kept)}
	if s.handler {
		p.Kept = "0"
		return p
	}
	for i, j := range s.joins {
		if i > 0 {
			p.Joins += ","
		}
		p.Joins += strconv.Itoa(j.number)
	}
	if s.branch != nil {
		p.Letter = strconv.Itoa(s.branch.number)
	}
	if s.as != nil && s.as.number != s.number {
		p.Result = strconv.Itoa(s.as.number)
	}
	if s.scope != nil {
		p.Scope = strconv.Itoa(s.scope.number)
	}
	if s.borne != unborne {
		p.Borne = string(s.borne)
	}
	p.Queue = c.hint(s)
	return p
}

// hint is the queue of what is sent when a step ends: of what follows, or else of a handler.
func (c *compiler) hint(s *step) string {
	if q := s.joins[0].next(); q != "" {
		return q
	}
	for k := s.scope; k != nil; k = k.up {
		if k.handler != nil {
			return k.handler.Queue
		}
	}
	return ""
}

// next is the queue of what a join sends, or one around it.
func (j *join) next() string {
	var path []*join
	queue := ""
	for ; j != nil; j = j.up {
		if j.hinted {
			queue = j.hint
		} else if len(j.sends) > 0 {
			queue = j.sends[0].Queue
		} else if j.over != nil {
			queue = j.over.Queue
		} else {
			path = append(path, j)
			continue
		}
		break
	}
	for _, on := range path {
		on.hint, on.hinted = queue, true
	}
	return queue
}

// step encodes the job of a step, and returns the bytes that it takes.
func (c *compiler) step(p *workflows.Plan, s *step) (int, error) {
	place, token, secret := c.place(s), "", ""
	id := workflows.StepID(c.o.ID, s.number)
	if s.External != 0 {
		secret = c.secret()
		token = id + "." + secret
	}
	e, err := c.encode(s.Step, id, place, token)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s, err)
	}
	at, own, err := findPlaces(e.Payload, token != "")
	if err != nil {
		return 0, fmt.Errorf("%s: %w", s, err)
	}
	if err := c.check(s, own); err != nil {
		return 0, err
	}
	p.Hashes = append(p.Hashes, e.Hashes...)
	number := strconv.Itoa(s.number)
	if s.External != 0 {
		within := strconv.FormatInt(s.External.Milliseconds(), 10)
		put(p, "k"+number, secret+" "+within+" "+place.String())
	}
	if s.sent != nil || s.handler {
		text := c.template(s, e, at)
		put(p, "s"+number, text)
		return len(text), nil
	}
	due := e.At
	if due.IsZero() {
		due = c.now().Add(e.Delay)
	}
	job := workflows.Job{Step: s.number, Queue: e.Queue, Payload: c.finished(s, e, at, due), At: e.At, Delay: e.Delay, Priority: e.Priority}
	p.Jobs = append(p.Jobs, job)
	if s.External != 0 { // no job of goworker ends it, so none can say what sends it again
		e.Expires = 0
		put(p, "s"+number, workflows.Again(workflows.Outside, e.Queue, c.finished(s, e, at, due)))
		return 2 * len(job.Payload), nil
	}
	return len(job.Payload), nil
}

func (c *compiler) now() time.Time {
	if c.adds {
		return c.into.Now
	}
	return c.o.Now
}

// findPlaces finds where values and expires_at go in, and how many arguments the job has, -1 if they are not goworker's own list.
// The token of an External step stays the last argument.
func findPlaces(raw []byte, token bool) (at payload.Places, own int, err error) {
	job, err := payload.Parse(raw)
	if err != nil {
		return at, 0, err
	}
	inside, own := "", len(job.Args)
	if job.Class == args.ActiveJobWrapper {
		inside, own = "arguments", -1
	}
	at, err = payload.FindPlaces(raw, inside)
	if token {
		at.Args = at.Before
	}
	return at, own, err
}
