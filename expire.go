package goworker

import (
	"context"
	"log/slog"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// Expiry is what ExpireAfter and ExpiresAt make: an Option and an EnqueueOption.
type Expiry struct {
	after time.Duration
	at    time.Time
}

// ExpireAfter gives a job so long, from when it is enqueued or, if it is enqueued for
// later, from when it is due. If its handler was not called by then, retries included, it
// is not called any more: the job is dropped and counted in FleetInfo.Expired, or handed
// to the function of OnExpired. A handler that runs is not cut short; see Timeout.
//
// Given to Register it holds for every job of the class that this daemon enqueues; given
// to EnqueueWith, for that job. Zero or less is no limit.
//
// The time stands in the payload, by Redis's clock where the daemon is running and by
// this machine's where it only enqueues; workers compare it with Redis's. Ruby's workers
// pass over it and run the job.
func ExpireAfter(d time.Duration) Expiry { return Expiry{after: d} }

// ExpiresAt is ExpireAfter with the time itself. The zero time is no limit.
func ExpiresAt(t time.Time) EnqueueOption { return Expiry{at: t} }

func (e Expiry) register(to *options) { to.enqueue = append(to.enqueue, e) }

func (e Expiry) enqueue(to *enqueueOptions) { to.expiry = e }

// fields are what the payload of a job gets that may start at a time.
func (e Expiry) fields(from time.Time) []resque.Field {
	at := e.at
	if e.after > 0 {
		at = from.Add(e.after)
	}
	if at.IsZero() {
		return nil
	}
	return []resque.Field{resque.ExpiresAt(at.UnixMilli())}
}

// OnExpired has a function run, in place of the class's handler and without its
// middleware, for jobs whose time is over. They are then jobs like any other: done with
// nil, failed with an error, and not counted as expired.
func OnExpired(f func(ctx context.Context, d *Delivery) error) Option {
	if f == nil {
		panic("goworker: OnExpired was given no function; leave it out")
	}
	return option(func(o *options) { o.onExpired = HandlerFunc(f) })
}

// expired drops a job whose time is over, or has it run otherwise.
func (w *workers) expired(t *task, d *Delivery) *settlement {
	if d.expires == 0 || w.lease.redisTime(t.started).UnixMilli() < d.expires {
		return nil
	}
	if e := w.d.registry.lookup(d.Class); e != nil && e.options.onExpired != nil {
		d.handler = e.options.onExpired
		return nil
	}
	w.d.hooks.expired(t.session.ctx, d)
	return &settlement{
		effects: append(d.lock.unlocked(w.d.store), w.d.store.ExpiredCount()),
		level:   slog.LevelInfo, message: "job expired; it is dropped",
		attrs: []slog.Attr{slog.Time("expired_at", time.UnixMilli(d.expires))},
	}
}
