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

// Seat connects Events with the ends of jobs. A client makes the features with which its servers end jobs once, while servers start and
// stop: the server that started last has the seat. A daemon's Events have a seat of their own. All methods are safe for concurrent use.
type Seat struct{ held atomic.Pointer[Events] }

// Take gives the seat to Events that have started.
func (s *Seat) Take(e *Events) { s.held.Store(e) }

// Leave leaves the seat empty, if these Events have it.
func (s *Seat) Leave(e *Events) { s.held.CompareAndSwap(e, nil) }

// Wants reports whether a listener asks the Events in the seat for all events.
func (s *Seat) Wants() bool {
	e := s.held.Load()
	return e != nil && e.Wants()
}

// Enqueued calls Enqueued of the Events in the seat.
func (s *Seat) Enqueued(queue, class, id string) {
	if e := s.held.Load(); e != nil {
		e.Enqueued(queue, class, id)
	}
}

// Feature makes the feature for jobs that no worker of this process has. It must be the last of the list.
func (s *Seat) Feature(outcome.Deps) outcome.Feature {
	return outcome.Feature{Name: "events", Bind: func(c *outcome.Class) outcome.Policy {
		if c == nil {
			return policy{seat: s}
		}
		return nil
	}}
}

// policy adds the event of a bad end, or of a step of a workflow that is done.
type policy struct {
	outcome.None
	seat *Seat
}

// wide also adds the events of a job that starts and of one that is returned. It is the policy of each class while a listener asks for
// all events.
type wide struct {
	policy
	e *Events
}

// Wrap adds the event started.
func (w wide) Wrap(next outcome.Handler) outcome.Handler {
	return func(ctx context.Context, j *outcome.Job) error {
		if w.e.width.Load() == all {
			w.e.add(events.Started, of{queue: j.Queue, class: j.Name, id: j.ID, attempt: j.Attempt})
		}
		return next(ctx, j)
	}
}

// Settle also adds the event of a started job that is returned.
func (w wide) Settle(j *outcome.Job, o *outcome.Outcome) {
	if o.State == outcome.Returned && j.Started && !j.Dead && j.Place == "" && w.e.Wants() {
		w.e.add(events.Returned, of{queue: j.Queue, class: j.Name, id: j.ID, attempt: j.Attempt, took: clock.Since(w.e.base.Clock, j.StartedAt)})
	}
	w.policy.Settle(j, o)
}

// Settle adds the event to the commit, so Redis takes it with the end or not at all.
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
	if o.Failure != nil {
		event.Failure = o.Failure.String()
	}
	o.Effects = append(o.Effects, e.store.End(event)...)
}

// lasting names the end of a job if its event goes with the commit: a bad end, or that of a step.
func lasting(j *outcome.Job, o *outcome.Outcome) string {
	if o.State == outcome.Done && j.Parsed.Field(workflows.Field) != nil {
		return events.Step
	}
	return o.BadEnd(j)
}
