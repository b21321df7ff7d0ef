package goworker

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/delayed"
)

// pump moves delayed jobs that are due to their queues. Any process may do it, and
// what several do at a time is done once. To spare Redis one does it promptly: the
// leader, and whoever holds the schedulers' lock. That one knows when the next job is
// due and sleeps until then; Redis tells it of a sooner one. The others learn with
// each renewal of their leases what is due, and help where something is late.
//
// What resque-scheduler knows is moved only under its lock. The lock is held for as
// long as a turn takes: a Ruby scheduler that waits for it gets it in between, and
// from then on moves these jobs.
type pump struct {
	d      *Daemon
	steps  delayed.Pump
	link   *link.Link // nil while there is nothing to do
	dialed time.Time
	broken error         // of the link's subscription
	told   chan struct{} // there is something to take from the link
	pokes  chan struct{} // turn now
	stopC  chan struct{}
	ended  chan struct{}
	cancel context.CancelFunc
	ctx    context.Context // ends what waits for Redis, when stopping takes too long
	retry  part.Backoff
	warned map[string]bool
	behind string // who has the lock while jobs are late, as was said

	leads   atomic.Bool  // written by the lease
	next    atomic.Int64 // when the next turn is planned, in nanoseconds; read by the lease
	refused time.Time    // when somebody else had the lock
}

const (
	// lateOwn and latePlain are how late a job must be for a process to help that
	// does not pump promptly. Ruby's scheduler, if there is one, looks each 5 s.
	lateOwn   = 1500 * time.Millisecond
	latePlain = 10 * time.Second

	// lateElsewhere is how late jobs are that somebody else is to move, when the log
	// says so: a scheduler that works is not.
	lateElsewhere = 30 * time.Second

	// askAgain is how long a lock that somebody else has is left alone.
	askAgain = 5 * time.Second

	// lookAfter bounds how often jobs being delayed by others make the pump look.
	lookAfter = 10 * time.Millisecond

	// trackAgain is how often a server that could not tell is asked again whether it can.
	trackAgain = time.Minute

	// pumpPings is how often the pump's subscription is asked whether it lives: seldom,
	// since the lease's renewals also tell of jobs that are due.
	pumpPings = 30 * time.Second

	// pumpStop is how long a turn may take that has begun when the daemon stops.
	pumpStop = 2 * time.Second

	// pumpUser is this part as a user of the schedulers' lock.
	pumpUser = "pump"
)

func newPump(d *Daemon) *pump {
	p := &pump{
		d: d, told: make(chan struct{}, 1), pokes: make(chan struct{}, 1), stopC: make(chan struct{}), ended: make(chan struct{}),
		steps: delayed.Pump{Store: delayed.New(d.store), MultiQueue: d.config.multiQueueFailures}, warned: make(map[string]bool),
	}
	p.ctx, p.cancel = context.WithCancel(d.base)
	return p
}

func (p *pump) start(context.Context) error {
	p.steps.By = p.d.lease.Session().Workers[0]
	go p.run()
	return nil
}

func (p *pump) stop(ctx context.Context) error {
	close(p.stopC)
	select {
	case <-p.ended:
	case <-ctx.Done():
	case <-time.After(pumpStop):
	}
	p.cancel()
	<-p.ended
	return nil
}

// poke makes the pump turn now.
func (p *pump) poke() {
	select {
	case p.pokes <- struct{}{}:
	default:
	}
}

// pumpToo is told that a part of the daemon has taken the schedulers' lock: nobody else
// moves Ruby's delayed jobs now.
func (d *Daemon) pumpToo(user string) {
	if user != pumpUser {
		d.pump.poke()
	}
}

// observe takes what a renewal of the lease has shown.
func (p *pump) observe(leads bool, due resque.Due) {
	began := p.leads.Swap(leads) != leads
	due = p.ours(due)
	switch {
	case began:
		p.poke()
	case p.prompt():
		// Where Redis tells, the turn is planned already.
		if soonest := due.Sooner(); soonest < resque.Never && time.Now().Add(soonest).UnixNano() < p.next.Load()-int64(time.Second) {
			p.poke()
		}
	case p.late(due):
		// Not all of them at once.
		time.AfterFunc(rand.N(time.Second), p.poke)
	}
}

func (p *pump) late(due resque.Due) bool { return due.Own <= -lateOwn || due.Plain <= -latePlain }

// prompt reports whether it is for this process to move jobs at their times.
func (p *pump) prompt() bool { return p.leads.Load() || p.d.master.held() }

func (p *pump) run() {
	defer close(p.ended)
	defer p.shut()
	for wait, woken := time.Duration(0), false; ; {
		if p.prompt() || woken {
			wait = p.turnOrRetry()
		}
		if !p.prompt() { // until a renewal of the lease says otherwise
			p.shut()
			wait = resque.Never
		}
		p.next.Store(time.Now().Add(min(wait, time.Hour)).UnixNano())
		// Who delays many jobs makes Redis tell of each look that was before.
		pause := min(wait, lookAfter)
		if _, stopping := p.sleep(pause, false); stopping {
			return
		}
		var stopping bool
		if woken, stopping = p.sleep(wait-pause, true); stopping {
			return
		}
	}
}

func (p *pump) turnOrRetry() (wait time.Duration) {
	wait, err := p.turn()
	if err != nil {
		p.d.outages.Fail("schedule", err)
		p.shut()
		return p.retry.Next()
	}
	p.d.outages.OK("schedule")
	p.retry.Reset()
	if p.link.Wake == nil {
		wait = min(wait, p.d.config.PollInterval)
	}
	return wait
}

// sleep waits for a time, for a change if it listens, or the stop of the daemon.
func (p *pump) sleep(wait time.Duration, listen bool) (woken, stopping bool) {
	timer := time.NewTimer(wait)
	defer timer.Stop()
	pokes, told := p.pokes, p.told
	if !listen {
		pokes, told = nil, nil
	}
	for {
		select {
		case <-p.stopC:
			return false, true
		case <-timer.C:
			return false, false
		case <-pokes:
			return true, false
		case <-told:
			if p.changed() {
				return true, false
			}
		}
	}
}

// changed reports whether Redis told of a change, or can tell no more. That it is time
// to prove the connection is none of our concern: if it tells no more without ending,
// the lease's renewals do.
func (p *pump) changed() bool {
	if p.link == nil {
		return false
	}
	names, all, broken := p.link.Take()
	p.broken = broken
	return all || len(names) > 0 || broken != nil
}

func (p *pump) stopping() bool {
	select {
	case <-p.stopC:
		return true
	default:
		return false
	}
}

// shut closes the connections.
func (p *pump) shut() {
	if p.link == nil {
		return
	}
	p.link.Shut()
	p.link, p.broken = nil, nil
}

// turn moves what is due and returns how long it is until there is more.
func (p *pump) turn() (wait time.Duration, err error) {
	if err := p.connect(); err != nil {
		return 0, err
	}
	stop := context.AfterFunc(p.ctx, func() { _ = p.link.Conn.Close() }) // reaches a read that waits
	defer stop()
	if err := p.broken; err != nil {
		return 0, fmt.Errorf("being told of delayed jobs: %w", err)
	}
	c := p.link.Conn
	defer func() {
		if lost := p.d.master.release(c, pumpUser); err == nil {
			err = lost
		}
	}()
	for {
		due, err := p.d.store.Due(c, p.link.Wake != nil)
		if err != nil {
			return 0, err
		}
		due = p.ours(due)
		if time.Since(p.refused) < askAgain {
			due.Plain, due.Hints = max(due.Plain, askAgain), max(due.Hints, askAgain)
		}
		if wait := due.Sooner(); wait > 0 || p.stopping() {
			return wait, nil
		}
		if due.Own <= 0 {
			err = p.move(func() (delayed.Moved, error) { return p.steps.Own(c) })
		}
		if err == nil && min(due.Plain, due.Hints) <= 0 {
			err = p.shared(c, due)
		}
		if err != nil {
			return 0, err
		}
	}
}

// ours is when that is due which is for this daemon to move.
func (p *pump) ours(due resque.Due) resque.Due {
	if p.d.config.LeaveDelayed {
		due.Plain, due.Hints = resque.Never, resque.Never
	}
	return due
}

// shared moves what Ruby's tools see, under their lock.
func (p *pump) shared(c redis.Conn, due resque.Due) error {
	master := p.d.master
	held, by, err := master.hold(c, pumpUser)
	if err != nil {
		return err
	}
	p.sayWhoIsLate(by, due)
	if !held {
		p.refused = time.Now()
		return p.steps.DropHints(c, due.Now)
	}
	err = p.move(func() (delayed.Moved, error) { return p.steps.Hints(c, master.lock(), due.Now) })
	if err == nil {
		err = p.move(func() (delayed.Moved, error) { return p.steps.Seconds(c, master.lock(), due.Now) })
	}
	return err
}

// sayWhoIsLate says once of each holder of the schedulers' lock that jobs wait for it.
func (p *pump) sayWhoIsLate(by string, due resque.Due) {
	if by == "" || due.Plain > -lateElsewhere {
		p.behind = ""
		return
	}
	if by != p.behind {
		p.behind = by
		p.d.log.Warn("delayed jobs are late, and whoever holds the schedulers' lock is to move them; if it is gone, wait until the lock runs out or remove its key",
			"holder", by, "key", p.d.master.lock().Key(), "late", -due.Plain)
	}
}

// move repeats a step until nothing more is due.
func (p *pump) move(step func() (delayed.Moved, error)) error {
	for {
		m, err := step()
		for _, failed := range m.Failed {
			p.d.log.Error("a delayed job was filed as failed", "error", failed)
		}
		for _, broken := range m.Broken {
			if !p.warned[broken.Key] {
				p.warned[broken.Key] = true
				p.d.log.Warn("delayed jobs have to wait until somebody repairs a key", "error", broken)
			}
		}
		if m.Lost {
			p.refused = time.Now()
		}
		if err != nil || !m.More || m.Lost || p.stopping() {
			return err
		}
	}
}

// connect makes the connections anew if they are not what is needed now.
func (p *pump) connect() error {
	track := !p.d.config.DisableTracking && p.prompt()
	if p.link != nil && p.link.Wake == nil && track && time.Since(p.dialed) > trackAgain {
		p.shut() // the user may have got the permission
	}
	if p.link != nil {
		return nil
	}
	p.dialed = time.Now()
	l, err := link.Dial(p.ctx, p.d.dialer, p.d.store, track, pumpPings, p.told, nil)
	p.link = l
	return err
}
