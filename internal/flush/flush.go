// Package flush makes jobs of groups of jobs whose time has come.
package flush

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/groups"
)

const (
	// page is how many groups one call makes jobs of.
	page = 16

	// grace is how late a group must be for the process that gathered to make a job of it, if it does not lead.
	grace = 20 * time.Millisecond

	// slack is how much later than an item was seen its group may begin: that is at the item's commit, by Redis's clock.
	slack = time.Second

	// overdue is how late a group must be for any process to help.
	overdue = 500 * time.Millisecond

	// back is by how much Redis's clock must have gone back for all groups to be looked at.
	back = 500 * time.Millisecond

	// quiet bounds how often the index is read.
	quiet = 10 * time.Millisecond

	// stopWithin is how long a turn may go on that has begun when the daemon stops.
	stopWithin = 2 * time.Second

	// planAhead bounds planned: a time beyond it would not fit.
	planAhead = 365 * 24 * time.Hour
)

// Flusher is the part of a daemon that makes jobs of groups at their times. Any process may: what several processes try is
// done once. The leader does it, at the times that the index says: the pump's connection and the renewals of the lease
// report them. A process that has gathered knows that a group of its is due at a time, and looks a little later, since the
// leader may have died. Other processes help with groups that are overdue.
type Flusher struct {
	base  part.Base
	store groups.Store
	loop  *part.Loop

	leads   atomic.Bool  // the lease writes it, the flusher reads it
	poked   atomic.Bool  // a turn is wanted
	behind  atomic.Bool  // Redis's clock went back: all groups are to be looked at
	planned atomic.Int64 // when the next turn is, in nanoseconds: the flusher and Gathered write it
	until   atomic.Int64 // a group that this process has gathered may be due until then, in nanoseconds

	// of the lease's goroutine
	seen  time.Time // Redis's time at the last renewal
	local time.Time // and ours

	// of the loop's goroutine
	line conn.Line
	said logging.Once
}

// New returns a flusher of a daemon.
func New(b part.Base) *Flusher {
	f := &Flusher{base: b, store: groups.New(b.Store), line: b.Line(0)}
	f.planned.Store(math.MaxInt64)
	f.loop = part.NewLoop(b, "groups", f.turn)
	f.loop.End, f.loop.Grace, f.loop.Quiet = f.line.Close, stopWithin, quiet
	return f
}

// Start starts the flusher.
func (f *Flusher) Start(ctx context.Context) error {
	f.loop.Start(ctx)
	return nil
}

// Stop stops the flusher and waits until it has ended.
func (f *Flusher) Stop(ctx context.Context) error {
	f.loop.Stop(ctx)
	return nil
}

// Gathered is called for each item that this process gathers: its group is due after this time at the latest. It is safe
// for concurrent use.
func (f *Flusher) Gathered(within time.Duration) {
	at := f.base.Clock.Now().Add(within + grace)
	raise(&f.until, at.Add(slack).UnixNano())
	if lower(&f.planned, at.UnixNano()) {
		f.loop.Wake()
	}
}

func raise(to *atomic.Int64, at int64) {
	for was := to.Load(); was < at && !to.CompareAndSwap(was, at); was = to.Load() {
	}
}

// lower reports whether it has set an earlier time.
func lower(to *atomic.Int64, at int64) bool {
	for was := to.Load(); at < was; was = to.Load() {
		if to.CompareAndSwap(was, at) {
			return true
		}
	}
	return false
}

// Answered is called after each renewal of the lease: with whether this process leads the fleet, and when groups are due.
func (f *Flusher) Answered(leads bool, due resque.Due) {
	now := f.base.Clock.Now()
	if !f.seen.IsZero() && due.Now.Sub(f.seen) < now.Sub(f.local)-back {
		f.behind.Store(true)
	}
	f.seen, f.local = due.Now, now
	changed := f.leads.Swap(leads) != leads
	switch {
	case leads && (changed || f.behind.Load()):
		f.poke()
	case leads:
		f.Seen(due)
	case due.Groups <= -overdue:
		// The processes of a fleet do not come all at once.
		f.base.Clock.AfterFunc(rand.N(time.Second), f.poke)
	}
}

// Seen is called when this process has read when groups are due.
func (f *Flusher) Seen(due resque.Due) {
	if !f.leads.Load() || due.Groups == resque.Never {
		return
	}
	if lower(&f.planned, f.base.Clock.Now().Add(min(due.Groups, planAhead)).UnixNano()) {
		f.loop.Wake()
	}
}

func (f *Flusher) poke() {
	f.poked.Store(true)
	f.loop.Wake()
}

// turn makes jobs of the groups that are due, if it is time, and returns how long there is nothing to do. A process that
// neither leads nor has gathered has no connection.
func (f *Flusher) turn(ctx context.Context) (wait time.Duration, err error) {
	poked := f.poked.Swap(false)
	now := f.base.Clock.Now()
	if left := f.planned.Load() - now.UnixNano(); !poked && left > 0 {
		return f.wait(left), nil
	}
	f.planned.Store(math.MaxInt64) // Gathered and Seen may set it again meanwhile
	wait = resque.Never
	err = f.line.Do(ctx, func(c redis.Conn) (err error) {
		wait, err = f.Step(c)
		return err
	})
	if err != nil {
		f.poked.Store(true) // the turn is still to be taken
		return 0, err
	}
	now = f.base.Clock.Now()
	switch {
	case wait == resque.Never:
	case f.leads.Load():
		lower(&f.planned, now.Add(min(wait, planAhead)).UnixNano())
	case now.Add(min(wait, planAhead)).UnixNano() <= f.until.Load():
		lower(&f.planned, now.Add(wait+grace).UnixNano())
	}
	at := f.planned.Load()
	if at == math.MaxInt64 {
		f.line.Close()
	}
	return f.wait(at - now.UnixNano()), nil
}

// wait is how long the loop rests for so many nanoseconds.
func (f *Flusher) wait(left int64) time.Duration {
	if left > int64(planAhead) {
		return part.Never
	}
	return max(time.Duration(left), 0)
}

// Step makes jobs of all groups that are due, on a connection of the caller's, and returns how long it is until the next
// one is due; resque.Never: there is none.
func (f *Flusher) Step(c redis.Conn) (wait time.Duration, err error) {
	if f.behind.Swap(false) {
		if err := f.all(c); err != nil {
			f.behind.Store(true)
			return 0, err
		}
	}
	for {
		_, ids, next, err := f.store.Due(c, page)
		if err != nil || len(ids) == 0 {
			return next, err
		}
		if err := f.flush(c, ids); err != nil {
			return 0, err
		}
		if f.loop.Stopping() {
			return 0, nil
		}
	}
}

// all looks at every group: one that began in the future is flushed, or it would wait until the clock is there again.
func (f *Flusher) all(c redis.Conn) error {
	const most = 1000
	var all []string
	for from := 0; ; from += most {
		ids, err := f.store.All(c, from, most)
		if err != nil {
			return err
		}
		if all = append(all, ids...); len(ids) < most {
			break
		}
	}
	for len(all) > 0 {
		n := min(page, len(all))
		if err := f.flush(c, all[:n]); err != nil {
			return err
		}
		all = all[n:]
	}
	return nil
}

func (f *Flusher) flush(c redis.Conn, ids []string) error {
	all, err := f.store.Flush(c, false, ids)
	for _, g := range all {
		if g.Err == nil {
			f.said.Over(g.ID)
		} else if f.said.News(g.ID, g.Err.Error()) {
			f.base.Log.Warn("a group of jobs waits until a key is repaired", "group", g.ID, "error", g.Err)
		}
	}
	return err
}
