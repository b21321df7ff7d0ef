package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// Start enters the fleet and starts to renew the lease. It returns the error of a server that
// cannot serve this process at all; one that is loading its data it waits for. The sessions'
// contexts have the values of ctx and do not end with it.
func (l *Lease) Start(ctx context.Context) error {
	l.parent = context.WithoutCancel(ctx)
	if err := l.join(ctx); err != nil {
		l.line.Close()
		l.registrar.end()
		return err
	}
	_ = l.line.Do(ctx, func(c redis.Conn) error {
		if policy := l.base.Store.Evicts(c); policy != "" {
			l.base.Log.Warn("Redis deletes keys when its memory is full, and with them jobs; set its maxmemory-policy to noeviction", "policy", policy)
		}
		return nil
	})
	l.line.Limit = part.ReplyWithin // a connection that swallows everything must not cost the lease
	l.reaper.loop.Start(ctx)
	l.registrar.loop.Start(ctx)
	l.loop.Start(ctx)
	return nil
}

// join checks the server and enters the fleet, again and again while the server asks to wait.
func (l *Lease) join(ctx context.Context) error {
	var retry part.Backoff
	for {
		err := l.line.Do(ctx, func(c redis.Conn) error {
			return l.base.Store.Check(c, l.config.Process(true).ID)
		})
		if err == nil {
			err = l.enterWhole(ctx)
		}
		if err == nil {
			l.base.Outages.OK("lease")
			return nil
		}
		if conn.Classify(err) != conn.KindWait {
			return l.nameKey(ctx, err)
		}
		l.base.Outages.Fail("lease", err)
		timer := l.base.Clock.NewTimer(retry.Next())
		select {
		case <-ctx.Done():
			timer.Stop()
			return context.Cause(ctx)
		case <-timer.C():
		}
	}
}

// nameKey returns an error that names the key, if Redis refused one because of its type.
func (l *Lease) nameKey(ctx context.Context, err error) error {
	_ = l.line.Do(ctx, func(c redis.Conn) error {
		err = l.base.Store.NameKey(c, err)
		return nil
	})
	return err
}

// enterWhole is enter, except that it may take enterGrace after ctx has ended. A process that
// had entered half would stay in the fleet after it has ended.
func (l *Lease) enterWhole(ctx context.Context) error {
	whole, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() {
		timer := l.base.Clock.NewTimer(enterGrace)
		defer timer.Stop()
		select {
		case <-timer.C():
			cancel()
		case <-whole.Done():
		}
	})()
	return l.enter(whole)
}

// enter begins a session under a new identity.
func (l *Lease) enter(ctx context.Context) error {
	var session *Session
	var unsent error
	entered := l.base.Clock.Now()
	err := l.line.Do(ctx, func(c redis.Conn) error {
		now, err := l.base.Store.Now(c)
		if err != nil {
			return err
		}
		l.Saw(now)
		p := l.registrar.identity(false)
		err = l.base.Store.Enter(c, p, LeasePeriod, now)
		if errors.Is(err, resque.ErrTaken) {
			p = l.registrar.identity(true)
			err = l.base.Store.Enter(c, p, LeasePeriod, now)
		}
		if err != nil {
			if conn.Classify(err) == conn.KindConn { // Redis may have let the process in all the same
				l.former = append(l.former, p.ID)
			}
			return err
		}
		unsent = l.base.Store.Register(c, p.ID, p.WorkerIDs(), p.Started, now)
		if unsent != nil && conn.Classify(unsent) != conn.KindWait && !out(unsent) {
			return errors.Join(unsent, l.withdraw(c, p)) // or its ids would stay taken
		}
		// Where Redis is out of memory the process works, and registers as soon as there is room. Where it stood still
		// and is out of the fleet already, the next renewal says so.
		session = newSession(l.parent, p, l.Clock)
		session.renew = l.loop.Wake
		return nil
	})
	if err != nil {
		return err
	}
	l.beaten = l.base.Clock.Now()
	if unsent != nil {
		l.beaten = time.Time{}
	}
	l.held.Store(entered.UnixNano())
	if l.session.Swap(session) != nil {
		l.base.Log.Info("in the fleet again", "process", session.Process.ID)
	}
	l.registrar.loop.Wake() // the workers may have changed meanwhile
	return nil
}

// out reports whether an error says that the process is not in the fleet any more.
func out(err error) bool { return errors.Is(err, resque.ErrReaped) || errors.Is(err, resque.ErrGone) }

// withdraw takes an identity out of the fleet whose workers could not be registered. A key of
// another type, which refused the workers, holds none of them: so it may refuse their removal.
func (l *Lease) withdraw(c redis.Conn, p resque.Process) error {
	err := l.base.Store.Unregister(c, p.WorkerIDs())
	if err == nil || conn.Classify(err) == conn.KindWrongType {
		_, err = l.base.Store.Leave(c, p.ID)
	}
	if err != nil {
		l.former = append(l.former, p.ID)
	}
	return err
}

// Stop leaves the fleet. It unregisters the workers and gives up the lease. If the record still
// has jobs that could not be requeued, it keeps the lease: then another process finds this one
// dead and takes them. It also removes the process's former identities.
func (l *Lease) Stop(ctx context.Context) error {
	l.loop.Stop(ctx)
	session := l.Session()
	session.end(l.config.Shutdown) // first, because the reaper may be waiting for Redis
	l.registrar.loop.Stop(ctx)
	l.reaper.loop.Stop(ctx)
	defer l.line.Close()
	if err := Unload(ctx, &l.cargo, l.riders(), func(ctx context.Context) error {
		_, err := l.renew(ctx, session.Process.ID, session.Process.ID) // no more needs to be known of the fleet
		return err
	}); err != nil {
		l.base.Log.Debug("what this process counted last was not written at the stop", "error", err)
	}
	err := l.line.Do(ctx, func(c redis.Conn) error {
		err := errors.Join(l.Heir.Leaving(c), l.leave(c, session.Record()))
		for len(l.former) > 0 && err == nil {
			if err = l.bury(c, l.former[0]); err == nil {
				l.former = l.former[1:]
			}
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("leaving the fleet, from which another process removes this one in about %s: %w", LeasePeriod, err)
	}
	return nil
}

func (l *Lease) leave(c redis.Conn, p resque.Process) error {
	if err := l.base.Store.Unregister(c, p.WorkerIDs()); err != nil {
		return err // keep the lease: without one no process would remove the workers
	}
	_, err := l.base.Store.Leave(c, p.ID)
	return err
}

// bury takes a former identity of this process out of the fleet, unless another process has done
// so. It reads the worker ids from the record: without a record they may belong to another
// process by now.
func (l *Lease) bury(c redis.Conn, id string) error {
	p, err := l.base.Store.ReadProcess(c, id)
	if err != nil {
		return err
	}
	return errors.Join(l.Heir.Died(c, id), l.leave(c, p))
}
