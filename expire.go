package goworker

import (
	"context"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Expiry is what ExpireAfter and ExpiresAt make: an Option and an EnqueueOption.
type Expiry struct {
	after time.Duration
	at    time.Time
	fixed bool // ExpiresAt made it
}

// ExpireAfter gives a job so long, from when it is enqueued or, if it is enqueued for
// later, from when it is due. If its handler was not called by then, retries included, it
// is not called any more: the job is dropped and counted in FleetInfo.Expired, or handed
// to the function of OnExpired. A handler that runs is not cut short; see Timeout.
//
// Given to Register it holds for every job of the class that this daemon enqueues; given
// to EnqueueWith, for that job. Zero is no limit, also where the class has one; it must not
// be negative.
//
// The time stands in the payload, by Redis's clock where the daemon is running and by
// this machine's where it only enqueues; workers compare it with Redis's. Ruby's workers
// pass over it and run the job.
func ExpireAfter(d time.Duration) Expiry { return Expiry{after: d} }

// ExpiresAt is ExpireAfter with the time itself. The zero time is no limit. The two do not
// go together.
func ExpiresAt(t time.Time) EnqueueOption { return Expiry{at: t, fixed: true} }

func (e Expiry) register(to *options) { e.enqueue(&to.enqueue) }

func (e Expiry) enqueue(to *enqueueOptions) {
	option := fmt.Sprintf("ExpireAfter(%s)", e.after)
	if e.fixed {
		option = fmt.Sprintf("ExpiresAt(%s)", e.at.Format(time.RFC3339Nano))
	}
	to.once("when the job expires", option)
	if e.after < 0 {
		to.wrong("%s: it must be positive, or 0 for no limit; a time that may be over is for ExpiresAt", option)
	}
	to.expiry = e
}

// none reports whether the job has all the time it takes.
func (e Expiry) none() bool { return e.after == 0 && e.at.IsZero() }

// fields are what the payload of a job gets that may start at a time.
func (e Expiry) fields(from time.Time) []payload.Field {
	at := e.at
	if e.after > 0 {
		at = from.Add(e.after)
	}
	if at.IsZero() {
		return nil
	}
	return []payload.Field{resque.ExpiresAt(at.UnixMilli())}
}

// OnExpired has a function run, in place of the class's handler and without its
// middleware, for jobs whose time is over. They are then jobs like any other: done with
// nil, failed with an error, and not counted as expired.
func OnExpired(f func(ctx context.Context, d *Delivery) error) Option {
	return option(func(o *options) {
		o.once("what runs for expired jobs", "OnExpired")
		if f == nil {
			o.wrong("OnExpired was given no function; leave it out")
		}
		o.onExpired = HandlerFunc(f)
	})
}
