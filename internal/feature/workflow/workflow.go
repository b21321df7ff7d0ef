// Package workflow makes a job with a place in a workflow one of its steps: its end moves the workflow on, in the
// commit that ends the job. A step of a halted workflow does not run. Handlers find the workflow by their context.
package workflow

import (
	"encoding/json"
	"sync/atomic"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Fields of a step's payload beside its place.
const (
	External = "external" // true: it ends by its token, not with its job
	Named    = "step"     // the name by which later steps read its result; a text
)

// Step is the option that makes a job a step.
type Step struct {
	Place    string // the field's value: workflows.Place as text
	Name     string // "": none
	External bool
}

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	f := &feature{deps: d, store: workflows.New(d.Store)}
	return outcome.Feature{
		Name:  "workflow",
		Field: workflows.Field,
		Drops: true,
		Open:  f.open,
		Watch: []outcome.Watched{{Key: f.store.HaltedKey().String(), Read: f.read}},
	}
}

// NewMark makes the feature that writes the fields of a step. It comes last: a payload that is too large to be read is
// read from its end.
func NewMark(outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "workflow's fields", Enqueue: enqueue}
}

// enqueue writes the fields of a step into its payload.
func enqueue(p *outcome.Push) error {
	s, ok := outcome.Get[Step](p.Options)
	if !ok {
		return nil
	}
	if s.Name != "" {
		p.Fields = append(p.Fields, payload.TextField(Named, s.Name))
	}
	if p.Traced { // arrive.lua fills it: it stands right before the place
		p.Fields = append(p.Fields, payload.TextField(workflows.After, ""))
	}
	p.Fields = append(p.Fields, payload.TextField(workflows.Field, s.Place))
	if s.External {
		p.Fields = append(p.Fields, payload.Field{Name: External, Value: []byte("true")})
	}
	return nil
}

// feature is what all steps share.
type feature struct {
	deps   outcome.Deps
	store  workflows.Store
	halted atomic.Pointer[halted] // nil: no workflow is halted. Written by read, in the poller's goroutine
	warned atomic.Bool            // of a place that cannot be read
}

// open returns the policy of a step. A job whose place or id cannot be read is a plain one: nothing waits for it.
func (f *feature) open(j *outcome.Job) outcome.Policy {
	at, ok := placeOf(j)
	if !ok {
		if f.deps.Log != nil && !f.warned.Swap(true) {
			f.deps.Log.Warn("a job has a place in a workflow that cannot be read; it runs as a plain job, and later ones are not logged",
				"id", j.Parsed.ID, "class", j.Name, "queue", j.Queue, "place", string(j.Parsed.Field(workflows.Field)))
		}
		return nil
	}
	s := &step{feature: f, at: at}
	if s.wanted() {
		j.Keep = true
	}
	return s
}

// position is where a step stands.
type position struct {
	workflow string
	number   int
	text     string // the field's value
	place    workflows.Place
	external bool
}

// placeOf reads where a job stands in a workflow.
func placeOf(j *outcome.Job) (at position, ok bool) {
	raw := j.Parsed.Field(workflows.Field)
	if raw == nil {
		return at, false
	}
	var text string // the decoder would have all of at on the heap, also for jobs that are no steps
	if json.Unmarshal(raw, &text) != nil {
		return at, false
	}
	at.text = text
	if at.place, ok = workflows.ParsePlace(at.text); !ok {
		return at, false
	}
	at.external = string(j.Parsed.Field(External)) == "true"
	at.workflow, at.number, ok = workflows.SplitID(j.Parsed.ID)
	return at, ok
}

// handler reports whether the job is a handler of the workflow: nothing waits for it, and it runs although the workflow
// is halted.
func (at *position) handler() bool { return at.place.Joins == "" }

// name returns the name of a step, "" if it has none.
func name(j *outcome.Job) (name string) {
	_ = json.Unmarshal(j.Parsed.Field(Named), &name)
	return name
}
