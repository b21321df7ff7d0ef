package watch

import (
	"slices"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// rideAhead is how long before the next look a renewal of the lease looks in its place. Renewals come each two seconds.
	rideAhead = 2500 * time.Millisecond

	// mostRidden is how many queues a renewal looks at. Of more the poller asks by itself: a renewal is one step of Redis.
	mostRidden = 256
)

// Ride has renewals of the lease look at the queues once an interval while the poller rests, so that an idle process sends no exchange
// for that. Where a renewal finds anything, the poller looks at once. Its methods are called by the lease's goroutine.
type Ride struct {
	order *Order
	rest  atomic.Pointer[rest] // the poller's goroutine writes it; nil: the poller looks by itself
}

// rest is a time in which the poller has nothing to do until its next look unless Redis notifies it. It does not change.
type rest struct {
	at      time.Time      // the next look
	queues  []queues.Queue // all of them were found empty
	dynamic bool           // their list has patterns
	claim   time.Time      // from when on the next look also claims the seat of a sentry; zero: it does not
}

// Load has a renewal look at the queues if the poller rests and is about to look.
func (r *Ride) Load(c *resque.Cargo) {
	o, of := r.order, r.rest.Load()
	now := o.base.Clock.Now()
	if of == nil || c.Last || of.at.Sub(now) > rideAhead || !of.claim.IsZero() && now.After(of.claim) {
		return
	}
	names := make([]string, len(of.queues))
	for i, q := range of.queues {
		names[i] = q.Name
	}
	o.base.Store.ReadIdle(c, names, of.dynamic, func(idle bool, listed []string) {
		o.run(func() { o.rode(of, idle, listed, now) })
	})
}

// Answered is part of a fleet.Rider.
func (r *Ride) Answered(bool, resque.Due) {}

// Ride returns what the lease is to carry.
func (o *Order) Ride() *Ride { return &o.ride }

// offer says until when the poller rests, or that it does not. It is called when no exchange is under way.
func (o *Order) offer() {
	was := o.ride.rest.Load()
	switch rests := o.rests(); {
	case !rests:
		o.withdraw()
	case was == nil || !was.at.Equal(o.next):
		of := &rest{at: o.next, queues: o.all, dynamic: o.spec.Dynamic()}
		if claimed := o.sentries.claimed; !claimed.IsZero() {
			of.claim = claimed.Add(resque.ClaimEvery)
		}
		o.ride.rest.Store(of)
	}
}

// withdraw says that the poller does not rest. What a renewal has found then says nothing.
func (o *Order) withdraw() {
	if o.ride.rest.Load() != nil {
		o.ride.rest.Store(nil)
	}
}

// rests reports whether the next look can only find something of which Redis has not notified. A look that has Redis watch a key is one
// that the poller makes itself. So is one that claims a seat: no renewal looks once it is time for that, so it comes an interval later at most.
func (o *Order) rests() bool {
	n := len(o.all)
	switch {
	case n == 0 || n > mostRidden || len(o.empty) < n,
		o.interval < rideAhead || !o.tracking || o.full,
		!o.listed || o.spec.Dynamic() && (o.list || o.listUnwatched),
		o.paused || o.pauseUnwatched,
		o.closed != nil || len(o.skip) > 0 || !o.lanes.Quiet(),
		o.waiting && o.interval > resque.ClaimEvery: // the look comes for the claim
		return false
	}
	return !slices.ContainsFunc(o.all, func(q queues.Queue) bool { return !o.empty[q.Name] })
}

// rode takes what a renewal has found that was sent at this time. Where all is as it was when the poller went to rest, the next look comes an
// interval later. Where anything has changed it comes now.
func (o *Order) rode(of *rest, idle bool, listed []string, sent time.Time) {
	if o.ride.rest.Load() != of {
		return // it has looked since
	}
	if o.next = sent; idle && (!of.dynamic || slices.Equal(o.spec.Resolve(listed), o.all)) {
		o.next = sent.Add(o.interval)
	}
}
