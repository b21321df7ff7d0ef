// Package sweep looks at the workflows of a namespace when their time has come. It sends what the commit of a step leaves to
// it, ends what will not end by itself, finds what stands still, and removes what has ended.
package sweep

import (
	"context"
	"math"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Config is how long the sweep waits. A zero is the default.
type Config struct {
	// Every is how often a workflow is looked at whose letters move; a minute.
	Every time.Duration
	// StallAfter is how long no letter of a workflow has moved until its sent steps are looked for; 10 minutes.
	StallAfter time.Duration
	// Again is how long it is between two passes of the search; a minute. What two passes do not find is lost.
	Again time.Duration
	// Idle is how long a batch may stay open without a member until the sweep names it; an hour.
	Idle time.Duration
}

const (
	// pageLooks is how many workflows are read in one round trip.
	pageLooks = 100

	// overdue is how late a look must be for a process to help that does not lead. It then takes a page.
	overdue = 10 * time.Second

	// quiet bounds how often the sweep asks which workflows are due.
	quiet = 10 * time.Millisecond

	// share is how many times as long as a look or a page of the search the sweep then rests. About half of that time is Redis's,
	// so both together take about a twentieth of it.
	share = 9

	// restMost bounds a rest: a machine that stood still is no busy Redis.
	restMost = time.Second

	// stopWithin is how long a turn may go on that has begun when the daemon stops.
	stopWithin = 2 * time.Second

	// planAhead bounds planned: a time beyond it would not fit.
	planAhead = 365 * 24 * time.Hour
)

// Sweep is the part of a daemon that looks at workflows. Any process may do so: each change is one step of Redis, so what
// several processes do at a time is done once. To spare Redis only the leader does, at the times that the index says. The
// pump's connection and the renewals of the lease report them. Other processes help with looks that are overdue.
//
// What users wait for is done at once: the rest of a large group is sent, a resumed workflow goes on, a deadline holds.
// After all else the sweep rests, and meanwhile looks only at workflows that became due since.
type Sweep struct {
	base   part.Base
	config Config
	store  workflows.Store
	loop   *part.Loop

	leads   atomic.Bool  // the lease writes it, the sweep reads it
	poked   atomic.Bool  // a turn is wanted
	planned atomic.Int64 // when the next turn is, in nanoseconds: the sweep writes it

	// of the goroutine
	line   conn.Line
	last   time.Time // Redis's time at the last look at the index
	rest   time.Time // until then only what became due since last is looked at
	search search
	said   logging.Once
}

// New returns a sweep of a daemon.
func New(b part.Base, c Config) *Sweep {
	for _, d := range []struct {
		field *time.Duration
		value time.Duration
	}{{&c.Every, time.Minute}, {&c.StallAfter, 10 * time.Minute}, {&c.Again, time.Minute}, {&c.Idle, time.Hour}} {
		if *d.field == 0 {
			*d.field = d.value
		}
	}
	s := &Sweep{base: b, config: c, store: workflows.New(b.Store), line: b.Line(0)}
	s.search = search{store: s.store, want: make(map[string]*still)}
	s.planned.Store(math.MaxInt64)
	s.loop = part.NewLoop(b, "workflows", s.turn)
	s.loop.End, s.loop.Grace, s.loop.Quiet = s.line.Close, stopWithin, quiet
	return s
}

// Start starts the sweep.
func (s *Sweep) Start(ctx context.Context) error {
	s.loop.Start(ctx)
	return nil
}

// Stop stops the sweep and waits until it has ended.
func (s *Sweep) Stop(ctx context.Context) error {
	s.loop.Stop(ctx)
	return nil
}

// Poke has the sweep look now, also where another process leads.
func (s *Sweep) Poke() {
	s.poked.Store(true)
	s.loop.Wake()
}

// Answered is called after each renewal of the lease: with whether this process leads the fleet, and when workflows are
// due.
func (s *Sweep) Answered(leads bool, due resque.Due) {
	changed := s.leads.Swap(leads) != leads
	switch {
	case leads && changed:
		s.Poke()
	case leads:
		s.Seen(due)
	case changed:
		s.loop.Wake()
	case due.Workflows <= -overdue:
		// The processes of a fleet do not come all at once.
		s.base.Clock.AfterFunc(rand.N(time.Second), s.Poke)
	}
}

// Seen is called when this process has read when workflows are due.
func (s *Sweep) Seen(due resque.Due) {
	if s.leads.Load() && due.Workflows < resque.Never && s.base.Clock.Now().Add(due.Workflows).UnixNano() < s.planned.Load() {
		s.Poke()
	}
}

// turn looks at the workflows that are due, and returns how long there is nothing to do. Without workflows it has no
// connection.
func (s *Sweep) turn(ctx context.Context) (wait time.Duration, err error) {
	leads, poked := s.leads.Load(), s.poked.Swap(false)
	wait = resque.Never
	if leads || poked {
		err = s.line.Do(ctx, func(c redis.Conn) (err error) {
			wait, err = s.step(c)
			return err
		})
	}
	switch {
	case err != nil:
		s.poked.Store(true) // the turn is still to be taken
		wait = 0
	case !leads:
		s.search.forget()
		wait = resque.Never
	}
	if wait == resque.Never {
		s.line.Close()
	}
	at := int64(math.MaxInt64)
	if wait != resque.Never {
		at = s.base.Clock.Now().Add(min(wait, planAhead)).UnixNano()
	}
	s.planned.Store(at)
	return wait, err
}

// step does one page of what is to be done, and returns how long it is until there is more.
func (s *Sweep) step(c redis.Conn) (wait time.Duration, err error) {
	var from time.Time
	resting := clock.Until(s.base.Clock, s.rest) > 0
	if resting {
		from = s.last
	}
	now, due, next, err := s.store.DueLooks(c, from, pageLooks)
	if err != nil {
		return 0, err
	}
	s.last = now
	switch {
	case len(due) > 0:
		err = s.looks(c, now, due)
		next = 0
	case resting:
	case s.search.due(now, s.config.Again) == 0:
		began := s.base.Clock.Now()
		err = s.seek(c, now)
		s.paused(began)
		next = 0
	default:
		next = min(next, s.search.due(now, s.config.Again))
	}
	if left := clock.Until(s.base.Clock, s.rest); resting || next == 0 {
		next = max(left, 0)
	}
	return next, err
}

// paused has the sweep rest after work that began at a time.
func (s *Sweep) paused(began time.Time) {
	s.rest = s.base.Clock.Now().Add(min(share*clock.Since(s.base.Clock, began), restMost))
}

// Step does what is due now, on a connection of the caller's, and returns when there is more; resque.Never: not before
// something changes. It is for a sweep that was not started.
func (s *Sweep) Step(c redis.Conn) (wait time.Duration, err error) {
	for range mostSteps {
		s.rest = time.Time{}
		if wait, err = s.step(c); wait > 0 && !s.rest.After(s.base.Clock.Now()) || err != nil {
			return wait, err
		}
	}
	return 0, nil
}

// mostSteps bounds the pages of a Step.
const mostSteps = 10_000
