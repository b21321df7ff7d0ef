package goworker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// recordAfter is how long a job runs before worker:<id> says so. Most jobs end
	// before anybody could look; the in-flight record protects them all.
	recordAfter = 100 * time.Millisecond

	// statsEvery is how often the counts of each worker are written while jobs run.
	// The totals move with each commit.
	statsEvery = time.Second
)

// records tells Resque's tools what the workers do: worker:<id> for jobs that take
// a while, and stat:processed:<id> and stat:failed:<id>. One goroutine does it all,
// so that what is written about a worker is never older than what stands there.
type records struct {
	d      *Daemon
	line   conn.Line
	wake   chan struct{}
	asleep atomic.Bool
	redo   atomic.Bool // Redis forgot what was written
	stopCh chan struct{}
	ended  chan struct{}

	// of the goroutine
	session *session
	told    []*task // by slot: the job that worker:<id> speaks of
	counted []counts
	updated []int // the slots of the updates under way
	flushed time.Time
	rest    time.Time // after an error nothing is tried until then
}

type counts struct{ processed, failed int64 }

// unknown stands for whatever worker:<id> may speak of after a write failed.
var unknown = new(task)

func newRecords(d *Daemon) *records {
	return &records{
		d: d, line: conn.Line{Dialer: d.dialer, Limit: renewWithin},
		wake: make(chan struct{}, 1), stopCh: make(chan struct{}), ended: make(chan struct{}),
		told: make([]*task, d.config.Concurrency), counted: make([]counts, d.config.Concurrency),
	}
}

func (r *records) start(context.Context) error {
	go r.run()
	return nil
}

func (r *records) stop(context.Context) error {
	close(r.stopCh)
	<-r.ended
	return nil
}

// notice wakes the goroutine if it sleeps; workers call it on every job.
func (r *records) notice() {
	if r.asleep.Load() && r.asleep.CompareAndSwap(true, false) {
		r.hurry()
	}
}

// hurry has the goroutine look now.
func (r *records) hurry() {
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// again has everything written anew.
func (r *records) again() {
	r.redo.Store(true)
	r.hurry()
}

func (r *records) run() {
	defer close(r.ended)
	defer r.line.Close()
	tick := time.NewTicker(recordAfter)
	defer tick.Stop()
	for {
		r.asleep.Store(true) // before the look: who begins after it wakes us
		var next <-chan time.Time
		if idle := r.turn(); !idle {
			r.asleep.Store(false)
			next = tick.C
		}
		select {
		case <-next:
		case <-r.wake:
		case <-r.stopCh:
			return
		}
	}
}

// turn writes what changed and reports whether nothing is left to be told.
func (r *records) turn() (idle bool) {
	session := r.d.session.Load()
	if session != r.session {
		r.session = session
		clear(r.counted)
		for n := range r.told {
			r.told[n] = unknown // a dead process of the same name may have left something
		}
	}
	if r.redo.Swap(false) {
		for n := range r.told {
			r.told[n], r.counted[n] = unknown, counts{-1, -1}
		}
	}
	now := time.Now()
	if now.Before(r.rest) {
		return false
	}
	due := now.Sub(r.flushed) >= statsEvery
	updates, busy, stale := r.changes(session, now, due)
	if len(updates) > 0 {
		if err := r.line.Do(session.ctx, func(c redis.Conn) error { return r.d.store.UpdateWorkers(c, updates) }); err != nil {
			r.d.outages.Fail("records", err)
			for _, n := range r.updated {
				r.told[n], r.counted[n] = unknown, counts{-1, -1}
			}
			r.rest = now.Add(statsEvery)
			return false
		}
		r.d.outages.OK("records")
		if due {
			r.flushed = now
		}
	}
	return !busy && !stale
}

// changes collects what is to be written, whether a job runs, and whether counts
// have changed that were not due.
func (r *records) changes(session *session, now time.Time, countsDue bool) (updates []resque.WorkerUpdate, busy, stale bool) {
	r.updated = r.updated[:0]
	for n := range r.d.workers.slots {
		s := &r.d.workers.slots[n]
		u := resque.WorkerUpdate{ID: session.workers[n]}
		t := s.task.Load()
		if t != nil {
			busy = true
			if t.session != session {
				t = nil // of a life before this one
			}
		}
		switch {
		case t != nil && t != r.told[n] && now.Sub(t.started) >= recordAfter:
			s.told.Store(true)
			r.told[n] = t
			u.Work = &resque.Work{
				Worker: session.process.WorkerName(n), Queue: t.Queue, RunAt: t.started, Payload: t.Payload,
				Process: session.process.ID, Ticket: t.Ticket, Now: session.redisTime(now),
			}
		case t != r.told[n] && r.told[n] != nil:
			r.told[n] = nil
			s.told.Store(false)
			u.Idle = true
		}
		c := counts{processed: s.processed.Load(), failed: s.failed.Load()}
		if c != r.counted[n] {
			if countsDue {
				r.counted[n] = c
				u.Counts, u.Processed, u.Failed = true, c.processed, c.failed
			} else {
				stale = true
			}
		}
		if u.Work != nil || u.Idle || u.Counts {
			updates = append(updates, u)
			r.updated = append(r.updated, n)
		}
	}
	return updates, busy, stale
}
