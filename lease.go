package goworker

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// leasePeriod is how long a process must be silent to be found dead. A job of a
	// killed process runs again after at most leasePeriod + 2·renewEvery, and the
	// time a free worker needs to take it: 12 s. A longer one forgives longer stalls.
	leasePeriod = 8 * time.Second

	// renewEvery is how often a lease is renewed, and everybody else's looked at.
	renewEvery = 2 * time.Second

	// renewalGap is how long all processes together may be silent before their renewals say
	// nothing about who is dead: Redis may have stood still.
	renewalGap = 2 * renewEvery

	// renewWithin bounds one attempt: a connection that swallows everything must not
	// cost the lease.
	renewWithin = 2 * time.Second

	// heartbeatEvery is how often the workers' heartbeats are sent, and their
	// registration is put back if somebody removed it. Ruby sends one each 60 s.
	heartbeatEvery = 20 * time.Second
)

// lease keeps this process in the fleet: its lease, which says that its jobs are
// in good hands, and the registration and heartbeats of its workers, which Ruby's
// tools read. It outlives the workers.
type lease struct {
	d      *Daemon
	line   conn.Line
	reaper *reaper
	now    chan struct{}
	stopCh chan struct{}
	ended  chan struct{}
	offset atomic.Int64 // Redis's clock less ours, in nanoseconds
	held   atomic.Int64 // when the lease was last renewed, by our clock, in nanoseconds
	lapsed atomic.Bool  // Redis lost what it knew of our workers, perhaps

	// of the goroutine
	entered time.Time // when the lease was first asked for
	beaten  time.Time // the last heartbeat; zero: the workers are to be registered
	retry   part.Backoff
	former  []string // identities of this process that may still be in the fleet; stop reads it, too
}

func newLease(d *Daemon) *lease {
	l := &lease{
		d: d, line: conn.Line{Dialer: d.dialer},
		now: make(chan struct{}, 1), stopCh: make(chan struct{}), ended: make(chan struct{}),
	}
	l.reaper = newReaper(d, l)
	return l
}

// hurry has the lease looked after now.
func (l *lease) hurry() {
	select {
	case l.now <- struct{}{}:
	default:
	}
}

// registerAgain has the workers registered now: Redis lost what it knew of this process.
func (l *lease) registerAgain() {
	l.lapsed.Store(true)
	l.hurry()
}

// redisTime is the time by Redis's clock, as of the last renewal.
func (l *lease) redisTime(now time.Time) time.Time {
	return now.Add(time.Duration(l.offset.Load()))
}

// silent reports whether the lease was not renewed for so long that others may have
// taken this process's jobs: it stood still, or Redis did.
func (l *lease) silent(now time.Time) bool {
	return now.UnixNano()-l.held.Load() >= int64(leasePeriod)
}

func (l *lease) sawTime(t time.Time) { l.offset.Store(int64(time.Until(t))) }

// start enters the fleet. A server that does not take us at all is an error at
// once; one that is loading its data is waited for.
func (l *lease) start(ctx context.Context) error {
	for {
		err := l.line.Do(ctx, func(c redis.Conn) error {
			return l.d.store.Check(c, newProcess(l.d.config, true).ID)
		})
		if err == nil {
			err = l.enterWhole(ctx)
		}
		if err == nil {
			break
		}
		if conn.Classify(err) != conn.KindWait {
			l.line.Close()
			return err
		}
		l.d.outages.Fail("lease", err)
		select {
		case <-ctx.Done():
			l.line.Close()
			return context.Cause(ctx)
		case <-time.After(l.retry.Next()):
		}
	}
	l.d.outages.OK("lease")
	_ = l.line.Do(ctx, func(c redis.Conn) error {
		if policy := l.d.store.Evicts(c); policy != "" {
			l.d.log.Warn("Redis deletes keys when its memory is full, and with them jobs; set its maxmemory-policy to noeviction", "policy", policy)
		}
		return nil
	})
	l.line.Limit = renewWithin
	l.reaper.start()
	go l.run()
	return nil
}

// enterWhole is enter that a stop does not break off at once: what entered half would be
// in the fleet, and nobody there to leave it.
func (l *lease) enterWhole(ctx context.Context) error {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		select {
		case <-time.After(leaveGrace):
			cancel()
		case <-whole.Done():
		}
	})()
	return l.enter(whole)
}

// stop leaves the fleet: the workers are unregistered, and the lease is given up
// unless there are jobs in the record that could not be brought back; then others
// will find this process dead and take them. The identities that it had before go too.
func (l *lease) stop(ctx context.Context) error {
	close(l.stopCh)
	<-l.ended
	session := l.d.session.Load()
	session.end(ErrShutdown) // before the reaper, which may be waiting for Redis
	l.reaper.stop()
	defer l.line.Close()
	return l.line.Do(ctx, func(c redis.Conn) error {
		err := errors.Join(l.d.lock.Leaving(c), l.leave(c, session.process))
		for len(l.former) > 0 && err == nil {
			if err = l.bury(c, l.former[0]); err == nil {
				l.former = l.former[1:]
			}
		}
		return err
	})
}

func (l *lease) leave(c redis.Conn, p resque.Process) error {
	if err := l.d.store.Unregister(c, p.WorkerIDs()); err != nil {
		return err // without a lease nobody would remove them; with one, others find it dead
	}
	_, err := l.d.store.Leave(c, p.ID)
	return err
}

// bury takes a former identity of this process out of the fleet, unless another process
// has done so. Its worker ids are read from its record: without one they may belong to
// another process by now.
func (l *lease) bury(c redis.Conn, id string) error {
	p, err := l.d.store.ReadProcess(c, id)
	if err != nil {
		return err
	}
	return errors.Join(l.d.lock.Died(c, id), l.leave(c, p))
}

// withdraw takes an identity out of the fleet whose workers could not be registered. A key
// of another type, which refused them, holds none of them: so it may refuse to remove them.
func (l *lease) withdraw(c redis.Conn, p resque.Process) error {
	err := l.d.store.Unregister(c, p.WorkerIDs())
	if err == nil || conn.Classify(err) == conn.KindWrongType {
		_, err = l.d.store.Leave(c, p.ID)
	}
	if err != nil {
		l.former = append(l.former, p.ID)
	}
	return err
}

// enter begins a session under a new identity.
func (l *lease) enter(ctx context.Context) error {
	var session *session
	var unsent error
	l.entered = time.Now()
	err := l.line.Do(ctx, func(c redis.Conn) error {
		now, err := l.d.store.Now(c)
		if err != nil {
			return err
		}
		l.sawTime(now)
		p := newProcess(l.d.config, false)
		err = l.d.store.Enter(c, p, leasePeriod, now)
		if errors.Is(err, resque.ErrTaken) {
			p = newProcess(l.d.config, true)
			err = l.d.store.Enter(c, p, leasePeriod, now)
		}
		if err != nil {
			if conn.Classify(err) == conn.KindConn { // Redis may have let it in all the same
				l.former = append(l.former, p.ID)
			}
			return err
		}
		if unsent = l.d.store.Register(c, p.WorkerIDs(), p.Started, now); unsent != nil && conn.Classify(unsent) != conn.KindWait {
			return errors.Join(unsent, l.withdraw(c, p)) // or its ids would stay taken
		}
		session = newSession(l.d.base, p, l.redisTime) // if out of memory: work it off, and register as soon as there is room
		return nil
	})
	if err != nil {
		return err
	}
	l.beaten = time.Now()
	if unsent != nil {
		l.beaten = time.Time{}
	}
	l.held.Store(l.entered.UnixNano())
	l.d.session.Store(session)
	l.d.log.Info("in the fleet", "process", session.process.ID, "workers", session.process.Concurrency, "queues", session.process.Queues)
	return nil
}

func (l *lease) run() {
	defer close(l.ended)
	for {
		wait := renewEvery
		if err := l.beat(); err != nil {
			l.d.outages.Fail("lease", err)
			wait = l.retry.Next()
		} else {
			l.d.outages.OK("lease")
			l.retry.Reset()
		}
		select {
		case <-time.After(wait):
		case <-l.now:
		case <-l.stopCh:
			return
		}
	}
}

// beat renews the lease and, when it is time, sends the heartbeats.
func (l *lease) beat() error {
	ctx := context.Background()
	session := l.d.session.Load()
	p := session.process
	asked := time.Now()
	var renewed resque.Renewed
	err := l.line.Do(ctx, func(c redis.Conn) (err error) {
		if renewed, err = l.d.store.Renew(c, p.ID, leasePeriod, renewalGap); err == nil {
			l.sawTime(renewed.Due.Now)
		}
		return err
	})
	switch {
	case errors.Is(err, resque.ErrReaped):
		return l.lost(session)
	case errors.Is(err, resque.ErrGone):
		l.beaten = time.Time{}
		l.reaper.sweep()
		l.d.poller.forgotten(session)
		return nil
	case err != nil:
		return err
	}
	l.held.Store(asked.UnixNano())
	l.reaper.observe(p.ID, renewed)
	l.d.pump.Answered(l.reaper.leads.Load(), renewed.Due)
	l.d.poller.leaseHeld(session)
	if l.lapsed.Swap(false) || l.line.Renewed() {
		l.beaten = time.Time{}
	}
	if asked.Sub(l.beaten) < heartbeatEvery {
		return nil
	}
	err = l.line.Do(ctx, func(c redis.Conn) error {
		if !l.beaten.IsZero() {
			if removed, err := l.d.store.Heartbeat(c, session.workers, renewed.Due.Now); removed == 0 {
				return err
			}
		}
		return l.d.store.Register(c, session.workers, p.Started, renewed.Due.Now)
	})
	l.beaten = asked
	if err != nil {
		l.beaten = time.Time{}
	}
	return err
}

// lost ends a session whose jobs were given to others, and begins another.
func (l *lease) lost(old *session) error {
	if old.ctx.Err() == nil {
		old.end(ErrLeaseLost)
		l.former = append(l.former, old.process.ID)
		l.d.log.Error("this process was silent for so long that others found it dead and took its jobs; "+
			"cancelling them here and starting again under a new identity", "process", old.process.ID)
	}
	if err := l.enter(context.Background()); err != nil {
		return fmt.Errorf("taking a new lease: %w", err)
	}
	l.d.records.again()
	l.d.poller.poke()
	return nil
}
