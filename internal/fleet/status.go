package fleet

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// statusAfter is how long a job runs before worker:<id> names it. Most jobs end sooner than
	// anybody could look; the in-flight record protects them all.
	statusAfter = 100 * time.Millisecond

	// countsEvery is how often the counts of each worker are written while jobs run. Each commit
	// updates the totals.
	countsEvery = time.Second
)

// Status writes what Resque's tools read about the workers: worker:<id> for jobs that take a
// while, and stat:processed:<id> and stat:failed:<id>. One goroutine writes all of it, so that
// nothing newer is overwritten. It is a part that runs on a lease.
type Status struct {
	// Running, unless nil, is called once for each job that has run for 100 ms. It is set before
	// Start, is called in the status writer's goroutine and does not wait for Redis.
	Running func(*outcome.Job)

	base    part.Base
	loop    *part.Loop
	session func() *Session
	slots   []Slot
	idle    atomic.Bool // the loop sleeps until a job begins
	redo    atomic.Bool // Redis may have lost what was written

	// These are for the loop's goroutine.
	line    conn.Line
	current *Session
	ran     []*outcome.Job // by slot: the last job that Running was called for
	written []*outcome.Job // by slot: the job that worker:<id> names; nil: it is removed
	counted []counts       // by slot: what was written
	updated []int          // the slots of the updates under way
	flushed time.Time
}

type counts struct{ processed, failed int64 }

// unknown is the entry in written of a worker whose worker:<id> may name any job.
var unknown = new(outcome.Job)

func newStatus(b part.Base, workers int, session func() *Session) *Status {
	s := &Status{
		base: b, session: session, slots: make([]Slot, workers), line: b.Line(part.ReplyWithin),
		ran: make([]*outcome.Job, workers), written: make([]*outcome.Job, workers), counted: make([]counts, workers),
	}
	for n := range s.slots {
		s.slots[n].status = s
	}
	s.loop = part.NewLoop(b, "records", s.turn)
	s.loop.End, s.loop.Grace, s.loop.Patient = s.line.Close, part.Forever, true
	return s
}

// Slot returns a worker's slot.
func (s *Status) Slot(n int) *Slot { return &s.slots[n] }

// Busy returns how many workers have a job.
func (s *Status) Busy() (n int) {
	for i := range s.slots {
		if s.slots[i].job.Load() != nil {
			n++
		}
	}
	return n
}

// Jobs yields the jobs that workers have now. It is safe for concurrent use.
func (s *Status) Jobs(yield func(*outcome.Job) bool) {
	for i := range s.slots {
		if j := s.slots[i].job.Load(); j != nil && !yield(j) {
			return
		}
	}
}

// Start starts the status writer. The lease must run.
func (s *Status) Start(ctx context.Context) error {
	s.loop.Start(ctx)
	return nil
}

// Stop stops the status writer.
func (s *Status) Stop(ctx context.Context) error {
	s.loop.Stop(ctx)
	return nil
}

// begun wakes the loop if no job ran before. Workers call it for every job.
func (s *Status) begun() {
	if s.idle.Load() && s.idle.CompareAndSwap(true, false) {
		s.loop.Wake()
	}
}

// again has everything written again, because Redis may have lost it.
func (s *Status) again() {
	s.redo.Store(true)
	s.loop.Wake()
}

func (s *Status) turn(ctx context.Context) (wait time.Duration, err error) {
	s.idle.Store(true) // before the look: a job that begins after it wakes the loop
	busy, err := s.write(ctx)
	if err == nil && !busy {
		return part.Never, nil
	}
	s.idle.Store(false)
	return statusAfter, err
}

// write writes what has changed and reports whether to look again soon. It ends with ctx, and with the
// session.
func (s *Status) write(ctx context.Context) (busy bool, err error) {
	session := s.session()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(session.ctx, cancel)()
	if session != s.current {
		s.current = session
		clear(s.counted)
		for n := range s.written {
			s.written[n] = unknown // a dead process of the same name may have left something
		}
	}
	if s.redo.Swap(false) {
		for n := range s.written {
			s.rewrite(n)
		}
	}
	now := s.base.Clock.Now()
	due := now.Sub(s.flushed) >= countsEvery
	updates, busy := s.changes(session, now, due)
	if len(updates) == 0 {
		return busy, nil
	}
	err = s.line.Do(ctx, func(c redis.Conn) error { return s.base.Store.UpdateWorkers(c, updates) })
	if err != nil {
		for _, n := range s.updated {
			s.rewrite(n)
		}
		return true, err
	}
	if due {
		s.flushed = now
	}
	return busy, nil
}

// rewrite has all that is known of a worker written, whatever was written before.
func (s *Status) rewrite(n int) { s.written[n], s.counted[n] = unknown, counts{-1, -1} }

// changes collects what to write. It reports whether a job runs, or counts have changed that
// are not due.
func (s *Status) changes(session *Session, now time.Time, countsDue bool) (updates []resque.WorkerUpdate, busy bool) {
	s.updated = s.updated[:0]
	for n := range s.slots {
		slot := &s.slots[n]
		u := resque.WorkerUpdate{ID: session.Workers[n]}
		j := slot.job.Load()
		if j != nil {
			busy = true
			if j.Process != session.Process.ID {
				j = nil // its session has lost the lease: another process runs the job
			}
		}
		long := j != nil && now.Sub(j.StartedAt) >= statusAfter
		if !long {
			s.ran[n] = nil
		} else if s.ran[n] != j {
			s.ran[n] = j
			if s.Running != nil {
				s.Running(j)
			}
		}
		switch {
		case long && j != s.written[n]:
			slot.named.Store(true)
			s.written[n] = j
			u.Work = &resque.Work{
				Worker: session.Process.WorkerName(n), Queue: j.Queue, RunAt: j.StartedAt, Payload: j.Payload,
				Process: session.Process.ID, Ticket: j.Ticket, Now: session.clock.At(now),
			}
		case j != s.written[n] && s.written[n] != nil:
			s.written[n] = nil
			slot.named.Store(false)
			u.Idle = true
		}
		c := counts{processed: slot.processed.Load(), failed: slot.failed.Load()}
		if c != s.counted[n] {
			if countsDue {
				s.counted[n] = c
				u.Counts, u.Processed, u.Failed = true, c.processed, c.failed
			} else {
				busy = true
			}
		}
		if u.Work != nil || u.Idle || u.Counts {
			updates = append(updates, u)
			s.updated = append(s.updated, n)
		}
	}
	return updates, busy
}
