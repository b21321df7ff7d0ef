package tokens

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

// pieces is how many pieces a window's units are given in: a server asks Redis at most so often a window while
// its token has units.
const pieces = 50

// rate is what a token has of one of its limits here: units of the present window, which this server has taken from Redis in a
// piece and spends without asking. Units that are not spent when the window ends are gone.
type rate struct {
	of      string
	lock    chan struct{} // holds one value while a request changes the fields below, or asks Redis for more
	waiting atomic.Int64  // requests that want the lock

	units int64
	ends  time.Time // when the window ends, at the latest; zero: none is known
	none  bool      // Redis has no more units of this window
}

func newRate(of string) rate { return rate{of: of, lock: make(chan struct{}, 1)} }

// Spend spends one read of the token's window, or one write. It returns false, and how long the window lasts, if the window
// has no more. Give gives the unit back, once: a request that had nothing of it is not to count.
func (t *Token) Spend(ctx context.Context, write bool, c clock.Clock, do Do) (ok bool, rest time.Duration, give func(), err error) {
	l := t.Record().Limits
	if l == nil {
		return true, 0, func() {}, nil
	}
	r, limit := &t.reads, l.Read
	if write {
		r, limit = &t.writes, l.Write
	}
	if limit <= 0 {
		return true, 0, func() {}, nil
	}
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	select {
	case r.lock <- struct{}{}:
	case <-ctx.Done():
		return false, 0, nil, ctx.Err()
	}
	defer func() { <-r.lock }()
	if now := c.Now(); !now.Before(r.ends) {
		r.units, r.none = 0, false
	}
	if r.units == 0 && !r.none {
		if err := r.take(ctx, t.Digest, limit, time.Duration(l.Interval)*time.Second, c, do); err != nil {
			return false, 0, nil, err
		}
	}
	if r.units == 0 {
		return false, max(clock.Until(c, r.ends), 0), nil, nil
	}
	r.units--
	window, given := r.ends, new(atomic.Bool)
	return true, 0, func() {
		if given.Swap(true) {
			return
		}
		r.lock <- struct{}{}
		if r.ends.Equal(window) && c.Now().Before(window) {
			r.units++
		}
		<-r.lock
	}, nil
}

// take gets a piece of the window from Redis. The window ends here no later than there: it is counted from before the
// question.
func (r *rate) take(ctx context.Context, digest string, limit int64, window time.Duration, c clock.Clock, do Do) error {
	asked := c.Now()
	want := max(limit/pieces, min(r.waiting.Load(), limit), 1)
	return do(ctx, func(s resque.Store, conn redis.Conn) error {
		units, rest, err := leases.Store{Store: s}.TakeUnits(conn, digest, r.of, want, limit, window)
		if err == nil {
			r.units, r.none, r.ends = units, units == 0, asked.Add(rest)
		}
		return err
	})
}

// Enter counts a waiter of the token, or a listener to events. It returns false if there are as many as may be.
func (t *Token) Enter(listener bool, most int64) (leave func(), ok bool) {
	count := &t.waiters
	if listener {
		count = &t.listeners
	}
	if count.Add(1) > most {
		count.Add(-1)
		return nil, false
	}
	return func() { count.Add(-1) }, true
}
