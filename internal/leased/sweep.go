package leased

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
	"github.com/goworker/goworker/internal/resque/leases"
)

const (
	// overdue is how late a lease must be for a process to help that does not lead.
	overdue = 1500 * time.Millisecond

	// lookEvery is how often a process that leads looks while there are leases: a renewal of its own lease says every two
	// seconds when the first one ends, and clients make new ones meanwhile, of a second at least.
	lookEvery = 900 * time.Millisecond

	// aloneEvery is how often a server looks, whether or not it knows of a lease.
	aloneEvery = 5 * time.Second

	// againEvery is how often a daemon that leads looks although there are no leases: another program may have removed them,
	// and not the jobs.
	againEvery = time.Minute

	// askedAhead is how long before that look a renewal may ask whether there is something to look for. It is longer than two
	// renewals take.
	askedAhead = 5 * time.Second

	// settlesIn is how long a process that has just begun to look ends nothing: if Redis's clock has jumped ahead just before,
	// only the other processes know.
	settlesIn = 800 * time.Millisecond

	// trimEvery is how often a page of the marks of jobs that went back is trimmed.
	trimEvery = time.Minute

	// refusedFor is for how long a lease is put off whose job Redis refused to put back.
	refusedFor = 30 * time.Second

	// quiet bounds how often the sweep looks.
	quiet = 10 * time.Millisecond

	// stopWithin is how long a turn may go on that has begun at the stop.
	stopWithin = 2 * time.Second

	// planAhead bounds planned: a time beyond it would not fit.
	planAhead = time.Hour
)

// Sweep ends jobs whose leases have run out. Any process may do so: a commit changes nothing if the lease is another one by
// then, so what several processes do at a time is done once. Servers look at the ends of the leases that they know. Of
// daemons only the leader does, so that leases end where no server runs. Other daemons help with leases that are overdue.
//
// After a jump of Redis's clock it ends nothing at once: a lease that was given before keeps its time.
type Sweep struct {
	// Alone says that no renewal of a lease calls Answered: the sweep looks by itself. It is set before Start.
	Alone bool

	// Do lends a connection for a look; nil: the sweep has its own. It is set before Start.
	Do func(ctx context.Context, f func(redis.Conn) error) error

	// Ended is called with each job whose lease ran out and that this process has ended. It is set before Start; nil: nothing
	// counts them.
	Ended func(leases.Job, Result)

	base  part.Base
	ender *Ender
	store leases.Store
	loop  *part.Loop

	leads   atomic.Bool  // Answered writes it, the sweep reads it
	none    atomic.Bool  // the last renewal found no leases
	poked   atomic.Bool  // a turn is wanted
	planned atomic.Int64 // when the next turn is, in nanoseconds: both write it
	jumped  atomic.Int64 // how far Redis's clock has jumped ahead, in nanoseconds, until that is noted

	jumps jumps // renewals and looks compare the clocks

	// of the loop's goroutine
	line   conn.Line
	saw    time.Time // the first look
	cursor string    // where the trimming goes on
	trimAt time.Time
	said   logging.Once
}

// NewSweep returns a sweep that ends jobs by this Ender.
func NewSweep(b part.Base, e *Ender) *Sweep {
	s := &Sweep{base: b, ender: e, store: leases.New(b.Store), line: b.Line(0), cursor: "0"}
	s.planned.Store(math.MaxInt64)
	s.loop = part.NewLoop(b, "leases", s.turn)
	s.loop.End, s.loop.Grace, s.loop.Quiet = s.line.Close, stopWithin, quiet
	return s
}

// Start starts the sweep.
func (s *Sweep) Start(ctx context.Context) error {
	if s.Alone {
		s.leads.Store(true)
	}
	s.loop.Start(ctx)
	return nil
}

// Stop stops the sweep and waits until it has ended.
func (s *Sweep) Stop(ctx context.Context) error {
	s.loop.Stop(ctx)
	return nil
}

// Given is called when this process has given a lease that ends after this time. It is safe for concurrent use.
func (s *Sweep) Given(after time.Duration) {
	if s.plan(s.base.Clock.Now().Add(min(after, planAhead))) {
		s.loop.Wake()
	}
}

// plan reports whether it has set an earlier time for the next turn.
func (s *Sweep) plan(at time.Time) bool {
	for was := s.planned.Load(); at.UnixNano() < was; was = s.planned.Load() {
		if s.planned.CompareAndSwap(was, at.UnixNano()) {
			return true
		}
	}
	return false
}

func (s *Sweep) poke() {
	s.poked.Store(true)
	s.loop.Wake()
}

// Load has a renewal ask whether clients hold jobs, and whether there are marks of jobs that went back, when a leader is about to
// look although there are no leases. Where there are none, the look is put off: an idle daemon has no connection for it.
func (s *Sweep) Load(c *resque.Cargo) {
	now := s.base.Clock.Now()
	at := s.planned.Load()
	if !s.leads.Load() || !s.none.Load() || s.Alone || at-now.UnixNano() > int64(askedAhead) {
		return
	}
	s.store.ReadHeld(c, func() { s.planned.CompareAndSwap(at, now.Add(againEvery).UnixNano()) })
}

// Answered is called after each renewal of the lease: with whether this process leads the fleet, and when the first lease
// of a job ends. Without leases a leader looks each minute, or has a renewal ask: see Load. No other process asks for anything.
func (s *Sweep) Answered(leads bool, due resque.Due) {
	changed := s.leads.Swap(leads) != leads
	s.none.Store(due.Leases == resque.Never)
	if !due.Asked.IsZero() {
		if ahead := s.jumps.saw(due.Asked, s.base.Clock.Now(), due.Now); ahead > 0 && due.Leases != resque.Never {
			s.jumped.Store(int64(ahead))
			s.poke()
			return
		}
	}
	switch {
	case due.Leases == resque.Never:
		if leads && changed && s.plan(s.base.Clock.Now().Add(againEvery)) {
			s.loop.Wake()
		}
	case leads:
		if s.plan(s.base.Clock.Now().Add(min(max(due.Leases, 0), lookEvery))) {
			s.loop.Wake()
		}
	case changed:
		s.loop.Wake() // it closes its connection
	case due.Leases <= -overdue:
		// The processes of a fleet do not come all at once.
		s.base.Clock.AfterFunc(rand.N(time.Second), s.poke)
	}
}

// turn ends what has run out, if it is time, and returns how long there is nothing to do. A daemon without leases has no
// connection.
func (s *Sweep) turn(ctx context.Context) (wait time.Duration, err error) {
	leads, poked := s.leads.Load(), s.poked.Swap(false)
	now := s.base.Clock.Now()
	if left := s.planned.Load() - now.UnixNano(); !poked && left > 0 && !(s.Alone && s.saw.IsZero()) {
		if !leads {
			s.line.Close()
		}
		return s.waits(left), nil
	}
	s.planned.Store(math.MaxInt64) // Given and Answered may set it meanwhile
	do := s.Do
	if do == nil {
		do = s.line.Do
	}
	err = do(ctx, func(c redis.Conn) (err error) {
		wait, err = s.step(ctx, c)
		return err
	})
	if err != nil {
		s.poked.Store(true) // the turn is still to be taken
		return 0, err
	}
	switch {
	case s.Alone:
		wait = min(wait, aloneEvery)
	case wait == resque.Never || !leads:
		if s.line.Close(); leads {
			wait = againEvery
		}
	default:
		wait = min(wait, lookEvery)
	}
	if wait != resque.Never {
		s.plan(s.base.Clock.Now().Add(wait))
	}
	return s.waits(s.planned.Load() - s.base.Clock.Now().UnixNano()), nil
}

// waits is how long the loop waits until what is planned is due.
func (s *Sweep) waits(left int64) time.Duration {
	if left > int64(planAhead) {
		return part.Never
	}
	return max(time.Duration(left), 0)
}

// Step does what is due now, on a connection of the caller's, and returns when there is more; resque.Never: there are no
// leases. It is for a sweep that was not started.
func (s *Sweep) Step(ctx context.Context, c redis.Conn) (wait time.Duration, err error) {
	s.saw = s.base.Clock.Now().Add(-settlesIn)
	return s.step(ctx, c)
}

// step ends the jobs whose leases have run out, and returns how long it is until the next one does.
func (s *Sweep) step(ctx context.Context, c redis.Conn) (time.Duration, error) {
	if err := s.noteJump(c); err != nil {
		return 0, err
	}
	for {
		now, first, jobs, err := s.look(c)
		if err != nil {
			return 0, err
		}
		if jobs == nil && s.jumped.Load() > 0 {
			return 0, s.noteJump(c)
		}
		if err := s.end(ctx, c, jobs); err != nil {
			return 0, err
		}
		if err := s.trim(c); err != nil {
			return 0, err
		}
		switch {
		case first == 0 && len(jobs) == 0:
			return resque.Never, nil
		case first == 0:
			return lookEvery, nil // a client may have made a new one
		case first > now || s.loop.Stopping():
			return time.Duration(first-now) * time.Millisecond, nil
		}
	}
}

// look reads what has run out. After a jump of Redis's clock it returns no jobs.
func (s *Sweep) look(c redis.Conn) (now, first int64, jobs []leases.Job, err error) {
	asked := s.base.Clock.Now()
	now, first, jobs, err = s.store.Expired(c, mostEnds)
	if err != nil {
		return 0, 0, nil, err
	}
	if s.saw.IsZero() {
		s.saw = asked
	}
	if asked.Sub(s.saw) < settlesIn && len(jobs) > 0 {
		jobs, first = nil, now+settlesIn.Milliseconds()
	}
	redis := time.UnixMilli(now)
	if ahead := s.jumps.saw(asked, s.base.Clock.Now(), redis); ahead > 0 {
		s.jumped.Store(int64(ahead))
		return now, first, nil, nil
	}
	return now, first, jobs, nil
}

// noteJump has all sweeps know that Redis's clock has jumped ahead, before any lease is ended by it.
func (s *Sweep) noteJump(c redis.Conn) error {
	ahead := time.Duration(s.jumped.Load())
	if ahead == 0 {
		return nil
	}
	if err := s.store.Jump(c, ahead); err != nil {
		return err
	}
	s.jumped.Store(0)
	s.base.Log.Warn("redis's clock has jumped ahead; leases of jobs that clients hold end so much later for as long", "ahead", ahead.Round(time.Millisecond))
	return nil
}

// end ends jobs whose leases have run out. Those that a client has acknowledged late are done. What Redis refuses is tried
// again later, and meanwhile does not keep the sweep from those behind it.
func (s *Sweep) end(ctx context.Context, c redis.Conn, jobs []leases.Job) error {
	ends := make([]End, len(jobs))
	for i, j := range jobs {
		ends[i] = End{Queue: j.Queue, ID: j.ID, Lease: j.Lease, Payload: j.Payload, Kind: Retried, Err: ErrLeaseEnded}
		if j.Fate == leases.Done {
			ends[i].Kind = Done
		}
	}
	results, err := s.ender.End(ctx, c, ends)
	for i, r := range results {
		if r.Ended && s.Ended != nil {
			s.Ended(jobs[i], r)
		}
		if r.Err == nil {
			continue
		}
		j := jobs[i]
		if s.said.News("lease "+r.Err.Error(), "") {
			s.base.Log.Warn("a job whose lease ran out cannot be put back until this is repaired", "queue", j.Queue, "id", j.ID, "error", r.Err)
		}
		if _, err := s.store.Touch(c, j.Queue, j.ID, j.Lease, refusedFor); err != nil {
			return err
		}
	}
	return err
}

// trim removes a page of old marks of jobs that went back, each minute.
func (s *Sweep) trim(c redis.Conn) (err error) {
	if clock.Until(s.base.Clock, s.trimAt) > 0 {
		return nil
	}
	s.trimAt = s.base.Clock.Now().Add(trimEvery)
	s.cursor, _, err = s.store.Trim(c, s.cursor)
	return err
}
