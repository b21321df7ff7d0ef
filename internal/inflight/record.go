package inflight

import (
	"cmp"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// HeldPayloads is how many payloads of the largest size a process holds at most. Workers decode
// them, and the memory for a queue of large ones must not grow with the concurrency.
const HeldPayloads = 4

// tasksTogether is how many tasks are allocated as one: enough to make the cost small. They are so
// few that a long job does not keep many ended ones in memory.
const tasksTogether = 16

// Ends decides what becomes of a job that no worker ends.
type Ends interface {
	End(j *outcome.Job, state outcome.State, err error) outcome.Outcome
}

// Record is the mirror. It belongs to the poller's goroutine, except for Regrouping.
type Record struct {
	ends       Ends
	maxPayload int

	session   *fleet.Session  // the one whose record this is
	epoch     int64           // of the record; a request of an older one changes nothing
	last      int64           // the highest ticket reserved
	held      map[int64]*Task // everything in the record
	heldBytes int             // of its payloads

	ahead    []*Task  // reserved and not with a worker yet, in order
	suspects suspects // reserved too; they start one at a time

	apart    int     // from how many bytes on payloads may be in fields of their own, the least of this session; 0: none is
	spent    []int64 // tickets of jobs that have ended, whose payloads may still be in such fields
	spending int     // how many of these the exchange under way removes

	pending   []End     // to be handed in
	sent      []End     // committed by the exchange under way
	spare     []End     // room for the next pending ones
	refused   []End     // refused by Redis; committed again at retryAt
	retryAt   time.Time // zero: nothing was refused
	misplaced []End     // of jobs for other lanes; see Regroup
	recent    recentEnds
	abandoned []*Task // that went back to their queues although their handlers still run

	regrouping atomic.Bool // misplaced waits for workers; the poller writes it, workers read it
}

// New returns the mirror of no record; see Begin. A payload has maxPayload bytes at most.
func New(ends Ends, maxPayload int) *Record {
	return &Record{ends: ends, maxPayload: maxPayload, held: make(map[int64]*Task)}
}

// Begin begins the record of another session: at the start, or after the lease was lost. Other
// processes have the jobs of the old one. It returns how many outcomes are lost with it: of jobs that run elsewhere too.
func (r *Record) Begin(s *fleet.Session) (lost int) {
	lost = len(r.pending) + len(r.sent) + len(r.refused) + len(r.misplaced)
	r.session, r.epoch, r.last = s, 1, 0
	r.held, r.heldBytes, r.recent = make(map[int64]*Task), 0, recentEnds{}
	r.ahead, r.suspects = nil, suspects{}
	r.pending, r.sent, r.refused, r.misplaced = nil, nil, nil, nil
	r.apart, r.spent, r.spending = 0, nil, 0
	return lost
}

// Session returns the session whose record this is; nil before the first.
func (r *Record) Session() *fleet.Session { return r.session }

// Held returns how many jobs are in the record.
func (r *Record) Held() int { return len(r.held) }

// Ahead returns how many jobs wait for a worker.
func (r *Record) Ahead() int { return len(r.ahead) }

// Waiting returns the jobs that are held ahead, in order. It is valid until the next call of another method.
func (r *Record) Waiting() []*Task { return r.ahead }

// AheadSince returns since when the next job waits for a worker; zero if none waits.
func (r *Record) AheadSince() time.Time {
	if len(r.ahead) == 0 {
		return time.Time{}
	}
	return r.ahead[0].ReservedAt
}

// Pending returns how many outcomes wait to be handed in.
func (r *Record) Pending() int { return len(r.pending) }

func (r *Record) hold(t *Task) {
	r.held[t.Ticket] = t
	r.heldBytes += len(t.Payload)
}

func (r *Record) release(ticket int64) {
	if t := r.held[ticket]; t != nil {
		delete(r.held, ticket)
		r.heldBytes -= len(t.Payload)
	}
}

// Full reports whether no more jobs may be reserved: payloads take too much memory, or Redis
// refuses too many outcomes.
func (r *Record) Full() bool {
	return r.heldBytes >= HeldPayloads*r.maxPayload || len(r.refused) >= resque.MaxExchangeJobs
}

// Room returns how many jobs to reserve for slots workers, of which idle are free. Prefetch says
// that there may be one more for each worker.
func (r *Record) Room(slots, idle int, prefetch bool) int {
	if r.Full() || len(r.suspects.waiting) >= slots {
		return 0
	}
	n := idle - len(r.ahead)
	if prefetch && r.suspects.idle() {
		n += slots
	}
	return min(n, resque.MaxExchangeJobs)
}

// Received adds jobs that an exchange has reserved. Deaths are what is remembered of each; nil: of
// none. Unknown says that Redis did not answer that question: then all are suspects.
func (r *Record) Received(jobs []resque.Reserved, deaths []resque.Deaths, unknown bool, now time.Time) {
	var tasks []Task
	for i, j := range jobs {
		if len(tasks) == 0 {
			tasks = make([]Task, min(tasksTogether, len(jobs)-i))
		}
		t := &tasks[0]
		tasks = tasks[1:]
		t.Reserved, t.Process, t.Session, t.ReservedAt = j, r.session.Process.ID, r.session, now
		r.last = j.Ticket
		r.hold(t)
		if len(j.Payload) >= resque.ApartFrom {
			r.session.SawLarge()
		}
		if deaths != nil {
			t.deaths, t.Found = &deaths[i], deaths[i].Count
		}
		if t.Found > 0 || unknown {
			r.suspects.add(t)
		} else {
			r.ahead = append(r.ahead, t)
		}
	}
}

// Next returns the task to offer to the workers; nil if there is none.
func (r *Record) Next() *Task {
	if len(r.ahead) == 0 {
		return nil
	}
	return r.ahead[0]
}

// Dispatched is called when a worker has taken what Next returned.
func (r *Record) Dispatched() { r.ahead = r.ahead[1:] }

// Advance chooses the next suspect if a worker is free, and says in the exchange which jobs are
// with workers. What the exchange reserves may be with a worker before the next one can say so.
func (r *Record) Advance(x *resque.Exchange, free bool, now time.Time) {
	r.suspects.advance(now, free)
	x.Handed = r.suspects.record(r.last + int64(x.Reserves()))
}

// Recorded is called when Redis has written what Advance said. The suspect that was chosen may
// start now.
func (r *Record) Recorded(x *resque.Exchange, now time.Time) {
	if x.Handed == "" {
		return
	}
	if t := r.suspects.begin(now); t != nil {
		r.ahead = slices.Insert(r.ahead, 0, t)
	}
}

// SuspectWaits reports whether a suspect waits for nothing but a worker.
func (r *Record) SuspectWaits() bool { return r.suspects.ready() }

// SuspectsLeave returns when suspects that wait for their trials are to go back to their queues, since no worker has been free for so
// long; zero if none waits, or a worker is free. The clock is asked only where that begins.
func (r *Record) SuspectsLeave(free bool, c clock.Clock) time.Time { return r.suspects.leave(free, c) }

// Trial returns when the trial under way is over; zero if there is none.
func (r *Record) Trial() time.Time { return r.suspects.over() }

// Starting reports whether jobs wait to start, are on trial, or wait to be put into other lanes.
func (r *Record) Starting() bool { return len(r.ahead)+len(r.misplaced) > 0 || !r.suspects.idle() }

// Delivered reports whether no outcome waits for Redis, and no job for a worker.
func (r *Record) Delivered() bool {
	return len(r.pending)+len(r.refused)+len(r.misplaced)+len(r.ahead)+len(r.suspects.waiting) == 0
}

// Undelivered returns how many outcomes Redis has not committed.
func (r *Record) Undelivered() int { return len(r.pending) + len(r.refused) + len(r.sent) }

// Remaining returns the jobs of the record that Redis has not confirmed to be out of it, in their order.
func (r *Record) Remaining() []*Task {
	return slices.SortedFunc(maps.Values(r.held), func(a, b *Task) int { return cmp.Compare(a.Ticket, b.Ticket) })
}

// Abandoned returns the jobs that went back to their queues although their handlers still run.
func (r *Record) Abandoned() []*Task { return r.abandoned }
