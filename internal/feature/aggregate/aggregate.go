// Package aggregate gathers jobs of one key until their number or their time is reached. Then one job with the list of
// their arguments runs in their place.
//
// An item is a plain job of any program. When a worker takes it, Admit ends it: its arguments go into its group in the
// same step as its ticket goes. So an item is in its queue, in the record of a process, or in its group.
package aggregate

import (
	"context"
	"encoding/json"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/groups"
)

// The defaults, and the largest values.
const (
	DefaultCount = 100
	DefaultWait  = 5 * time.Second
	DefaultBytes = 1 << 20

	MostCount = 100_000
	MostWait  = 24 * time.Hour
)

// Of is the option of a class whose jobs are gathered. It does not change once the class is in use.
type Of struct {
	Keys  []int // which arguments are the key, in their order
	Count int
	Wait  time.Duration
	Quiet time.Duration // 0: off
	Bytes int           // of the payload of a group's job

	// Fits reports whether the class's handler can take the arguments of a group; nil: it takes any.
	Fits func(args []json.RawMessage) bool

	// Misfit returns the error of a job with fewer arguments than the key needs.
	Misfit func(class string, want, found int) error
}

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	return outcome.Feature{
		Name: "aggregate",
		Bind: func(c *outcome.Class) outcome.Policy {
			of, ok := outcome.Get[*Of](c)
			if !ok {
				return nil
			}
			limit := of.Bytes
			if d.Settings.MaxPayload > 0 {
				limit = min(limit, d.Settings.MaxPayload)
			}
			return &policy{deps: d, store: groups.New(d.Store), of: of, limit: limit}
		},
	}
}

type policy struct {
	outcome.None
	deps  outcome.Deps
	store groups.Store
	of    *Of
	limit int // bytes of the payload of a group's job
}

// Admit adds an item to its group. An item that cannot be merged runs here and now, as a group of one.
func (p *policy) Admit(_ context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	if j.Err != nil || p.of.whole(j) {
		return o, false
	}
	if want := p.of.least(); len(j.Args) < want {
		j.Err = p.of.Misfit(j.Name, want, len(j.Args))
		return o, false
	}
	if p.deps.Due == nil || !p.of.merges(j) {
		j.Args = p.of.alone(j.Args)
		return o, false
	}
	i, fits := p.item(j)
	if !fits {
		j.Args = p.of.alone(j.Args)
		return o, false
	}
	o.State, o.Effects = outcome.Gathered, []resque.Effect{p.store.Gather(i)}
	p.deps.Due(p.of.Wait)
	return o, true
}

// item returns the job as an item of its group, unless it is too long for one.
func (p *policy) item(j *outcome.Job) (i *groups.Item, fits bool) {
	plain, err := payload.Encode(j.Name, nil, payload.Plain)
	if err != nil {
		return nil, false
	}
	keys := p.of.keys(j.Args)
	head := append(append(plain[:len(plain)-len("]}")], keys...), '[')
	rest := p.of.rest(j.Args)
	i = &groups.Item{
		Group: groups.ID(j.Queue, j.Name, append(canonical(p.of, j.Args), shape(len(j.Args)-len(p.of.Keys)))),
		Queue: j.Queue, Job: payload.NewID(), Head: head, JSON: rest,
		Most: p.of.Count, Bytes: p.limit - len(head) - groups.Tail, Wait: p.of.Wait, Quiet: p.of.Quiet,
	}
	return i, len(rest)+1 <= i.Bytes
}
