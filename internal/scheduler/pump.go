package scheduler

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
)

// PumpConfig is what the pump needs of the settings.
type PumpConfig struct {
	Tracking     bool          // Redis may be asked to notify the pump of new jobs
	Interval     time.Duration // how often the pump looks where Redis cannot notify it
	MultiQueue   bool          // file failures as Resque's redis_multi_queue backend does
	LeaveDelayed bool          // leave the jobs that Ruby's tools see to Ruby's scheduler
}

// Pump moves delayed jobs that are due to their queues. Any process may do so: what several
// processes move at a time is moved once. To spare Redis, only the leader and the holder of the
// schedulers' lock move jobs at their times. They know when the next job is due and sleep until
// then. Redis notifies them of a sooner one. The other processes learn with each renewal of their
// leases what is due, and help where jobs are overdue.
//
// Jobs that resque-scheduler knows are moved only under its lock. The pump holds the lock for one
// turn. A Ruby scheduler that waits for the lock gets it between turns, and from then on moves
// these jobs.
type Pump struct {
	base   part.Base
	config PumpConfig
	lock   *Lock
	fleet  Fleet
	loop   *part.Loop

	// Seen gets what Redis answers whenever this pump asks what is due: on its connection Redis also watches the
	// index of workflows. It is set before Start; nil: nothing wants it.
	Seen func(due resque.Due)

	leads   atomic.Bool  // the lease writes it, the pump reads it
	poked   atomic.Bool  // a turn is wanted although nothing is planned
	planned atomic.Int64 // next in nanoseconds, for the lease: the pump writes it, the lease reads it

	// of the goroutine
	steps   delayed.Pump
	next    time.Time  // when the next turn is due
	link    *link.Link // nil while there is nothing to do
	dialed  time.Time
	broken  error     // why the link's subscription ended
	refused time.Time // when another scheduler had the lock
	said    logging.Once
}

const (
	// overdueOwn and overduePlain are how late a job must be for a process to help that does not
	// move jobs at their times. Ruby's scheduler, if there is one, looks each 5 s.
	overdueOwn   = 1500 * time.Millisecond
	overduePlain = 10 * time.Second

	// quiet bounds how often the pump looks because other programs delay jobs.
	quiet = 10 * time.Millisecond

	// trackAgain is how often the pump asks a server again that refused to track keys.
	trackAgain = time.Minute

	// pumpPings is how often the pump's subscription is asked whether it lives. It is seldom,
	// since the renewals of the lease report jobs that are due, too.
	pumpPings = 30 * time.Second

	// pumpStop is how long a turn may go on that has begun when the daemon stops.
	pumpStop = 2 * time.Second

	// planAhead bounds planned: a time beyond it would not fit.
	planAhead = time.Hour
)

// NewPump returns a pump that takes its turns under lock. While any part holds the lock, the pump
// moves jobs at their times.
func NewPump(b part.Base, c PumpConfig, lock *Lock, fleet Fleet) *Pump {
	p := &Pump{
		base: b, config: c, lock: lock, fleet: fleet,
		steps: delayed.Pump{Store: delayed.New(b.Store), MultiQueue: c.MultiQueue},
	}
	p.loop = part.NewLoop(b, "schedule", p.turn)
	p.loop.End, p.loop.Grace, p.loop.Quiet = p.shut, pumpStop, quiet
	lock.taken = p.lockTaken
	return p
}

// Start starts the pump. The process must be in the fleet.
func (p *Pump) Start(ctx context.Context) error {
	p.steps.By = p.fleet.Worker()
	p.loop.Start(ctx)
	return nil
}

// Stop stops the pump and waits until it has ended.
func (p *Pump) Stop(ctx context.Context) error {
	p.loop.Stop(ctx)
	return nil
}

// Poke has the pump take a turn now, also where another process leads.
func (p *Pump) Poke() {
	p.poked.Store(true)
	p.loop.Wake()
}

// lockTaken is called when a part of the daemon has taken the lock: from then on no Ruby scheduler
// moves delayed jobs.
func (p *Pump) lockTaken(user string) {
	if user != pumpUser {
		p.Poke()
	}
}

// Answered is called after each renewal of the lease: with whether this process leads the fleet,
// and when delayed jobs are due.
func (p *Pump) Answered(leads bool, due resque.Due) {
	changed := p.leads.Swap(leads) != leads
	due = p.ours(due)
	switch {
	case changed:
		p.Poke()
	case p.active():
		// Where Redis notifies the pump, the turn is planned already.
		soonest := due.Sooner()
		if soonest < resque.Never && p.base.Clock.Now().Add(soonest).UnixNano() < p.planned.Load()-int64(time.Second) {
			p.Poke()
		}
	case overdue(due):
		// The processes of a fleet do not come all at once.
		p.base.Clock.AfterFunc(rand.N(time.Second), p.Poke)
	}
}

// overdue reports whether jobs are so late that every process helps.
func overdue(due resque.Due) bool { return due.Own <= -overdueOwn || due.Plain <= -overduePlain }

// active reports whether this process moves jobs at their times.
func (p *Pump) active() bool { return p.leads.Load() || p.lock.Held() }

// ours drops from due what this daemon leaves to Ruby's scheduler.
func (p *Pump) ours(due resque.Due) resque.Due {
	if p.config.LeaveDelayed {
		due.Plain, due.Hints = resque.Never, resque.Never
	}
	return due
}

// turn takes a turn if it is time, and returns how long there is nothing to do. The loop also
// takes a turn when the link has proven that it lives. Then nothing has changed, and the pump goes
// on to wait for its planned turn.
func (p *Pump) turn(ctx context.Context) (wait time.Duration, err error) {
	changed := p.changed()
	woken := p.poked.Swap(false) || changed
	if p.active() && !woken {
		if left := clock.Until(p.base.Clock, p.next); left > 0 {
			return left, nil
		}
	}
	wait = resque.Never
	if p.active() || woken {
		if wait, err = p.moveDue(ctx); err != nil {
			p.shut()
			p.poked.Store(true) // the turn is still to be taken
			p.plan(0)
			return 0, err
		}
	}
	if !p.active() { // until Answered finds this process active, or jobs overdue
		p.shut()
		wait = resque.Never
	}
	p.plan(wait)
	return wait, nil
}

func (p *Pump) plan(wait time.Duration) {
	now := p.base.Clock.Now()
	p.next = now.Add(wait)
	p.planned.Store(now.Add(min(wait, planAhead)).UnixNano())
}

// changed reports whether Redis has notified the pump of a change, or the subscription has ended.
// If the connection is lost without a sign, the renewals of the lease still wake the pump.
func (p *Pump) changed() bool {
	if p.link == nil {
		return false
	}
	names, all, broken := p.link.Take()
	p.broken = broken
	return all || len(names) > 0 || broken != nil
}

// shut closes the connections.
func (p *Pump) shut() {
	if p.link == nil {
		return
	}
	p.link.Shut()
	p.link, p.broken = nil, nil
}

// connect opens the connections, again if they are not what is needed now.
func (p *Pump) connect(ctx context.Context) error {
	track := p.config.Tracking && p.active()
	if p.link != nil && p.link.Wake == nil && track && clock.Since(p.base.Clock, p.dialed) > trackAgain {
		p.shut() // Redis's user may have got the permission
	}
	if p.link != nil {
		return nil
	}
	p.dialed = p.base.Clock.Now()
	l, err := link.Dial(ctx, p.base.Of("schedule"), track, pumpPings, p.loop.Woken(), nil, nil)
	p.link = l
	return err
}
