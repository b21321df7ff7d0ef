package fleet

import (
	"cmp"
	"context"
	"slices"
	"sync"
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
	slots   atomic.Pointer[[]*Slot] // they only grow, and Grow alone replaces them
	idle    atomic.Bool             // the loop sleeps until a job begins
	redo    atomic.Bool             // Redis may have lost what was written
	writing sync.Mutex              // held while the loop reads the worker ids and writes

	// These are for the loop's goroutine.
	line    conn.Line
	current *Session
	shown   []shown // by slot
	updated []int   // the slots of the updates under way
	flushed time.Time
}

// shown is what Redis has of a slot.
type shown struct {
	ran     *outcome.Job // the last job that Running was called for
	written *outcome.Job // the job that worker:<id> names; nil: it is removed
	under   string       // the id there
	counted counts       // what was written
	worker  string       // of which id
}

type counts struct{ processed, failed int64 }

// unknown is the entry in written of a worker whose worker:<id> may name any job.
var unknown = new(outcome.Job)

func newStatus(b part.Base, workers int, session func() *Session) *Status {
	s := &Status{base: b, session: session, line: b.Line(part.ReplyWithin)}
	s.slots.Store(new([]*Slot))
	s.Grow(workers)
	s.loop = part.NewLoop(b, "records", s.turn)
	s.loop.End, s.loop.Grace, s.loop.Patient = s.line.Close, part.Forever, true
	return s
}

// Grow makes slots for so many workers. One goroutine calls it.
func (s *Status) Grow(workers int) {
	slots := *s.slots.Load()
	if more := workers - len(slots); more > 0 {
		fresh := make([]Slot, more)
		slots = slices.Clone(slots)
		for n := range fresh {
			fresh[n].status = s
			slots = append(slots, &fresh[n])
		}
		s.slots.Store(&slots)
	}
}

// Slot returns a worker's slot.
func (s *Status) Slot(n int) *Slot { return (*s.slots.Load())[n] }

// Busy returns how many workers have a job.
func (s *Status) Busy() (n int) {
	for range s.Jobs {
		n++
	}
	return n
}

// Jobs yields the jobs that workers have now. It is safe for concurrent use.
func (s *Status) Jobs(yield func(*outcome.Job) bool) {
	for _, slot := range *s.slots.Load() {
		if j := slot.job.Load(); j != nil && !yield(j) {
			return
		}
	}
}

// Beyond returns the jobs on the slots from n on.
func (s *Status) Beyond(n int) (jobs []*outcome.Job) {
	slots := *s.slots.Load()
	for _, slot := range slots[min(n, len(slots)):] {
		if j := slot.job.Load(); j != nil {
			jobs = append(jobs, j)
		}
	}
	return jobs
}

// settle returns when all that the status writer writes from now on goes by the present worker ids. It
// waits for Redis if the status writer does.
func (s *Status) settle() {
	s.writing.Lock()
	defer s.writing.Unlock()
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
	s.writing.Lock()
	defer s.writing.Unlock()
	session := s.session()
	if missing := len(*s.slots.Load()) - len(s.shown); missing > 0 {
		s.shown = append(s.shown, make([]shown, missing)...)
		for n := len(s.shown) - missing; n < len(s.shown); n++ {
			s.shown[n].written = unknown
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(session.ctx, cancel)()
	if session != s.current {
		s.current = session
		for n := range s.shown {
			// A dead process of the same name may have left something.
			s.shown[n].counted, s.shown[n].written, s.shown[n].under = counts{}, unknown, ""
		}
	}
	if s.redo.Swap(false) {
		for n := range s.shown {
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
func (s *Status) rewrite(n int) { s.shown[n].written, s.shown[n].counted = unknown, counts{-1, -1} }

// changes collects what to write. It reports whether a job runs, or counts have changed that
// are not due.
func (s *Status) changes(session *Session, now time.Time, countsDue bool) (updates []resque.WorkerUpdate, busy bool) {
	s.updated = s.updated[:0]
	slots, ids := *s.slots.Load(), session.names.Load().workers
	for n := range s.shown {
		slot, shown := slots[n], &s.shown[n]
		var id string // of the worker; "": it is not registered
		if n < len(ids) {
			id = ids[n]
		}
		j := slot.job.Load()
		if j != nil {
			busy = true
			if j.Process != session.Process.ID {
				j = nil // its session has lost the lease: another process runs the job
			}
		}
		long := j != nil && now.Sub(j.StartedAt) >= statusAfter
		if !long {
			shown.ran = nil
		} else if shown.ran != j {
			shown.ran = j
			if s.Running != nil {
				s.Running(j)
			}
		}
		u := resque.WorkerUpdate{ID: id}
		switch {
		case long && j != shown.written:
			slot.named.Store(true)
			shown.written, shown.under = j, cmp.Or(j.Worker, id)
			u.Work = &resque.Work{
				Worker: session.Process.WorkerName(n), Queue: j.Queue, RunAt: j.StartedAt, Payload: j.Payload,
				Process: session.Process.ID, Ticket: j.Ticket, Now: session.clock.At(now),
			}
		case j != shown.written && shown.written != nil:
			shown.written = nil
			slot.named.Store(false)
			u.Idle = true
		}
		if under := shown.under; under != "" && under != id && (u.Work != nil || u.Idle) { // the job began under another id
			updates = append(updates, resque.WorkerUpdate{ID: under, Work: u.Work, Idle: u.Idle})
			s.updated = append(s.updated, n)
			u.Work, u.Idle = nil, false
		}
		if shown.worker != id {
			shown.worker, shown.counted = id, counts{}
		}
		c := counts{processed: slot.processed.Load(), failed: slot.failed.Load()}
		if id != "" && c != shown.counted {
			if countsDue {
				shown.counted = c
				u.Counts, u.Processed, u.Failed = true, c.processed, c.failed
			} else {
				busy = true
			}
		}
		if id != "" && (u.Work != nil || u.Idle || u.Counts) {
			updates = append(updates, u)
			s.updated = append(s.updated, n)
		}
	}
	return updates, busy
}
