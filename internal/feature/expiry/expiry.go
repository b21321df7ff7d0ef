// Package expiry drops jobs whose time is over before they run.
package expiry

import (
	"context"
	"log/slog"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// OnExpired is the option of a class: the handler that runs in place of the class's for a job whose
// time is over. It is opaque here, as Job.Handler.
type OnExpired struct{ Handler any }

// Limit is the option of a job or a class that says until when the job may be started. The zero Limit is
// forever, also where the class has one.
type Limit struct {
	After time.Duration // from when the job is enqueued, or from when it is due
	At    time.Time     // or this time
}

// until returns the time for a job that may start at a time, in ms; 0 is forever.
func (l Limit) until(from time.Time) int64 {
	at := l.At
	if l.After > 0 {
		at = from.Add(l.After)
	}
	if at.IsZero() {
		return 0
	}
	return at.UnixMilli()
}

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	p := policy{store: d.Store, time: d.Time}
	return outcome.Feature{
		Name:    "expiry",
		Field:   "expires_at",
		Quiet:   true,
		Enqueue: p.enqueue,
		Open: func(j *outcome.Job) outcome.Policy {
			if j.Parsed.ExpiresAt == 0 {
				return nil
			}
			return p
		},
	}
}

type policy struct {
	outcome.None
	store resque.Store
	time  outcome.Time
}

// enqueue writes into the payload until when the job may be started.
func (p policy) enqueue(to *outcome.Push) error {
	limit, ok := outcome.Option[Limit](to)
	if !ok || limit == (Limit{}) {
		return nil
	}
	from := p.time.Now()
	if to.At.After(from) {
		from = to.At
	}
	to.ExpiresAt = limit.until(from)
	return nil
}

// over reports whether the job's time is over.
func (p policy) over(j *outcome.Job) bool { return p.time.Now().UnixMilli() >= j.Parsed.ExpiresAt }

// Admit drops a job whose time is over, unless its class has a handler for such jobs.
func (p policy) Admit(_ context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	if !p.over(j) {
		return o, false
	}
	if instead, ok := outcome.Get[OnExpired](j.Class); ok {
		j.Handler = instead.Handler
		return o, false
	}
	o = outcome.Outcome{State: outcome.Expired}
	o.Log.Attrs = []slog.Attr{slog.Time("expired_at", time.UnixMilli(j.Parsed.ExpiresAt))}
	return o, true
}

// Settle counts a job that was dropped.
func (p policy) Settle(_ *outcome.Job, o *outcome.Outcome) {
	if o.State == outcome.Expired {
		o.Effects = append(o.Effects, p.store.ExpiredCount())
	}
}
