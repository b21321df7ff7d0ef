package events

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/events"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Seat is where Events take part in the ends of jobs. The features with which a client's servers end jobs are made once, while servers
// come and go: the last that came has the seat. A daemon's Events have a seat of their own. All methods are safe for concurrent use.
type Seat struct{ held atomic.Pointer[Events] }

// Take gives the seat to Events that have started.
func (s *Seat) Take(e *Events) { s.held.Store(e) }

// Leave leaves the seat empty, if these Events have it.
func (s *Seat) Leave(e *Events) { s.held.CompareAndSwap(e, nil) }

// Wants reports whether a listener asks those Events for all events.
func (s *Seat) Wants() bool {
	e := s.held.Load()
	return e != nil && e.Wants()
}

// Enqueued is that of those Events.
func (s *Seat) Enqueued(queue, class, id string) {
	if e := s.held.Load(); e != nil {
		e.Enqueued(queue, class, id)
	}
}

// Feature makes the feature of jobs that no worker of this process has. It is the last of the list.
func (s *Seat) Feature(outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "events", Bind: func(c *outcome.Class) outcome.Policy {
		if c == nil {
			return policy{seat: s}
		}
		return nil
	}}
}

// policy says how a job ended badly, and that a step of a workflow is done.
type policy struct {
	outcome.None
	seat *Seat
}

// wide also says that a job begins, and that it goes back. It is the policy of each class while a listener asks for all events.
type wide struct {
	policy
	e *Events
}

// Wrap says that the job begins.
func (w wide) Wrap(next outcome.Handler) outcome.Handler {
	return func(ctx context.Context, j *outcome.Job) error {
		if w.e.width.Load() == all {
			w.e.add(events.Started, of{queue: j.Queue, class: j.Name, id: j.ID, attempt: j.Attempt})
		}
		return next(ctx, j)
	}
}

// Settle also says that a job goes back which has begun.
func (w wide) Settle(j *outcome.Job, o *outcome.Outcome) {
	if o.State == outcome.Returned && j.Started && !j.Dead && j.Place == "" && w.e.Wants() {
		w.e.add(events.Returned, of{queue: j.Queue, class: j.Name, id: j.ID, attempt: j.Attempt, took: clock.Since(w.e.base.Clock, j.StartedAt)})
	}
	w.policy.Settle(j, o)
}

// Settle adds the event to the commit, so that it stands there with the end or not at all.
func (p policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	e := p.seat.held.Load()
	if e == nil || e.width.Load() == off {
		return
	}
	kind := lasting(j, o)
	if kind == "" {
		return
	}
	var took time.Duration
	if j.Started && !j.StartedAt.IsZero() { // not of a dead process, and of no client over HTTP
		took = clock.Since(e.base.Clock, j.StartedAt)
	}
	about := of{queue: j.Queue, class: j.Name, id: j.ID, attempt: j.Attempt, took: took}
	if !j.Opened() { // a reaper puts a job back without reading it, unless a worker had it
		if read, err := payload.Parse(j.Payload); err == nil {
			about.class, about.id, about.attempt = read.Class, read.ID, read.Attempt
		}
	}
	event := about.event(kind, e.config.Now())
	if event.Process = name(j.Process); j.Place != "" {
		event.Process = name(e.config.Process())
	}
	if o.Err != nil {
		event.Text = logging.Shorten(fmt.Sprint(o.Err), events.MostText)
	}
	o.Effects = append(o.Effects, e.store.End(event)...)
}

// lasting names the end of a job, if it is one that is written with the commit: a bad one, or that of a step.
func lasting(j *outcome.Job, o *outcome.Outcome) string {
	if o.State == outcome.Done && j.Parsed.Field(workflows.Field) != nil {
		return events.Step
	}
	return o.BadEnd(j)
}
