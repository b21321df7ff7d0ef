// Package tries bounds how often a job runs, wherever it runs: the payload says how many tries the job has. A client that
// holds it over HTTP, or its lease, uses one up, and so does a worker whose handler fails. A worker that takes a job which
// went back from a client asks whether that client has acknowledged it since: then it does not run.
package tries

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/leases"
)

// Of is the option of one job: how many tries it has, 1 to payload.MaxRuns.
type Of int

// askWithin is how long a job waits at most for Redis to say whether a client has acknowledged it.
const askWithin = time.Second

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	store := leases.New(d.Store)
	return outcome.Feature{
		Name:    "tries",
		Field:   payload.TriesField,
		Quiet:   true,
		Enqueue: enqueue,
		Open: func(j *outcome.Job) outcome.Policy {
			if j.Parsed.Tries() > 1 && j.Attempt > 1 && j.Place == "" && !j.Dead {
				return &policy{deps: d, store: store}
			}
			return nil
		},
	}
}

// enqueue writes how many tries the job has. The first run is written too, so that the next ones change the payload in
// place. One try is what a job without the field has.
func enqueue(p *outcome.Push) error {
	n, ok := outcome.Get[Of](p.Options)
	switch {
	case !ok || n == 1:
		return nil
	case n < 1 || n > payload.MaxRuns:
		return fmt.Errorf("a job of class %s is to have %d tries; give it 1 to %d", p.Name, n, payload.MaxRuns)
	}
	p.Fields = append(p.Fields, payload.NumberField(payload.TriesField, int64(n)), payload.NumberField("attempt", 1))
	p.MakeID()
	return nil
}

type policy struct {
	outcome.None
	deps  outcome.Deps
	store leases.Store
	known bool // Redis knows that these bytes went back; another job of the id has a mark of its own
}

// Admit ends a job as done that a client has acknowledged after it went back. Where Redis does not answer the job runs: a
// second run is allowed, a lost one is not.
func (p *policy) Admit(ctx context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	if p.deps.Do == nil || j.Parsed.ID == "" {
		return o, false
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), askWithin)
	defer cancel()
	late := false
	err := p.deps.Do(ctx, func(c redis.Conn) error {
		what, err := p.store.Mark(c, leases.Place(j.Queue, j.Parsed.ID), j.Payload)
		p.known, late = err == nil && what != leases.Unknown, what == leases.Late
		return err
	})
	if err != nil && p.deps.Log != nil {
		p.deps.Log.Debug("a job runs although Redis did not say whether a client has acknowledged it", "id", j.Parsed.ID, "queue", j.Queue, "error", err)
	}
	if !late {
		return o, false
	}
	o.Log = outcome.Log{Level: slog.LevelInfo, Message: "job was acknowledged over HTTP after it went back; it is done"}
	return o, true
}

// Settle forgets that the job went back.
func (p *policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	if p.known && o.State.Over() {
		o.Effects = append(o.Effects, p.store.Forget(leases.Place(j.Queue, j.Parsed.ID)))
	}
}
