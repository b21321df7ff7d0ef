package goworker

import (
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/workflow"
)

// StepOption is an EnqueueOption for steps of workflows alone:
//
//   - Named: later steps find its result by this name
//   - After: in a graph, it is sent after these
//   - Immutable: it takes no result
//   - Spread: it takes the results of a group as arguments side by side
//   - Inline: it takes results as values, however large the list
//   - Ignored: its failure stops nothing, and its result is null then
//   - External: another program ends it, with a token
//
// Given to a job that is not a step it is a mistake; see Option.
type StepOption struct {
	text string // as the program wrote it
	set  func(*stepOptions, *enqueueOptions)
}

func (s StepOption) enqueue(to *enqueueOptions) {
	step, is := to.step.(*stepOptions)
	if !is {
		to.Wrong("%s: it is for steps of workflows, and this job is none; give it to goworker.Step", s.text)
		return
	}
	s.set(step, to)
}

// stepOptions are what a job has as a step.
type stepOptions struct {
	workflow.Step
	ignored bool
	after   []string
}

// Named gives a step a name, by which later steps read its result with ResultOf, and by which failures name it. It must not be
// empty, and no other step of the workflow may have it.
func Named(name string) StepOption {
	return StepOption{fmt.Sprintf("Named(%q)", name), func(s *stepOptions, o *enqueueOptions) {
		o.Once("the step's name", fmt.Sprintf("Named(%q)", name))
		if name == "" {
			o.Wrong(`Named(""): the name of the step is empty; give one, or leave it out`)
		}
		s.Name, s.Keeps = name, true
	}}
}

// After says which steps of a graph must have ended well before this one is sent.
func After(names ...string) StepOption {
	return StepOption{fmt.Sprintf("After(%q)", names), func(s *stepOptions, _ *enqueueOptions) { s.after = append(s.after, names...) }}
}

// Immutable makes a step take no result: its arguments are what its job says.
func Immutable() StepOption {
	return StepOption{"Immutable()", func(s *stepOptions, o *enqueueOptions) {
		o.Once("the step takes no result", "Immutable()")
		s.Immutable = true
	}}
}

// Spread makes a step take the results of the group before it as arguments side by side, not as one list.
func Spread() StepOption {
	return StepOption{"Spread()", func(s *stepOptions, o *enqueueOptions) {
		o.Once("how the step takes results", "Spread()")
		s.Spread = true
	}}
}

// Inline makes a step take results as values in its arguments, however large their list. A step that goworker does not run
// needs it: without it a list of more than 512 results, or of a batch, is a reference that only goworker reads.
func Inline() StepOption {
	return StepOption{"Inline()", func(s *stepOptions, o *enqueueOptions) {
		o.Once("how the step is given results", "Inline()")
		s.Inline = true
	}}
}

// Ignored makes the failure of a step stop nothing: what waits for it goes on, and its result is null. It is Node.Ignore as an
// option.
func Ignored() StepOption {
	return StepOption{"Ignored()", func(s *stepOptions, o *enqueueOptions) {
		o.Once("what the step's failure means", "Ignored()")
		s.ignored = true
	}}
}

// DefaultExternal is how long an External step may take that does not say it.
const DefaultExternal = 7 * 24 * time.Hour

// External makes a step end when its token comes back, and not with its job. The token is added as the last argument. The
// program that ran the job, in any language, enqueues {"class":"goworker.Complete","args":[token, result]}, or
// [token, null, "error"], to a queue that goworker works; or a Go program calls Client.Complete. If no token comes within this time
// after the step was sent, the step has failed. Zero is DefaultExternal; it must not be negative.
func External(within time.Duration) StepOption {
	return StepOption{fmt.Sprintf("External(%s)", within), func(s *stepOptions, o *enqueueOptions) {
		o.Once("how another program ends the step", fmt.Sprintf("External(%s)", within))
		if within < 0 {
			o.Wrong("External(%s): it must be positive, or 0 for %s", within, DefaultExternal)
		}
		if s.External = within; within == 0 {
			s.External = DefaultExternal
		}
	}}
}

var (
	errStepID     = errors.New("WithID: the id of a step is that of its workflow and its number; give WithID to Start, and read a step's id from the receipt")
	errStepUnique = errors.New("Unique: a step that is refused would stop its workflow; leave it out, or make the whole workflow unique with UniqueAs")
	errStepRuby   = errors.New("ResqueScheduler: its schedule has no place for what makes a job a step; leave it out")
)

// check returns why the options cannot be those of a step. It also says what does not stand in the payload: what counts
// from when the step is sent.
func (s *stepOptions) check(o *enqueueOptions, p *outcome.Push) error {
	_, locked := outcome.Get[unique.Options](p.Options)
	switch {
	case p.ID != "":
		return errStepID
	case locked:
		return errStepUnique
	case o.resque:
		return errStepRuby
	}
	outcome.Put(p.Options, unique.Options{}) // a step of a unique class takes no lock
	job := &producer.StepJob{Delay: max(o.in, 0)}
	if limit, _ := outcome.Option[expiry.Limit](p); limit.After > 0 {
		job.Expires = limit.After
		outcome.Put(p.Options, expiry.Limit{})
	}
	if o.in != 0 { // ProcessIn
		p.At = time.Time{}
	}
	p.In = 0
	job.Push = *p
	s.Job = job
	return nil
}
