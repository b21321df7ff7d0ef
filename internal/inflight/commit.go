package inflight

import (
	"cmp"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// This file is the way of an outcome from its worker to its commit.

// Ended takes what became of a task. It returns false if other processes have the job by now: then
// the outcome counts there, and not here.
func (r *Record) Ended(e *End) bool {
	t := e.Task
	r.suspects.ended(t)
	if t.abandoned || t.Session != r.session {
		return false
	}
	t.admitted.Store(true) // only now: until it is here, others of its queue wait for it
	if e.Regroups(&t.Job) {
		r.misplaced = append(r.misplaced, *e)
	} else {
		if r.pending == nil {
			r.pending, r.spare = r.spare, nil
		}
		r.pending = append(r.pending, *e)
	}
	return true
}

// HandIn moves pending outcomes into the exchange, as many as one may carry.
func (r *Record) HandIn(x *resque.Exchange) {
	x.Process, x.Epoch, x.Last = r.session.Process.ID, r.epoch, r.last
	if x.Apart = r.session.Apart(); x.Apart > 0 && (r.apart == 0 || x.Apart < r.apart) {
		r.apart = x.Apart
	}
	x.Spent, r.spending = append(x.Spent, r.spent...), len(r.spent)
	n, size := 0, 0
	var back []resque.Ended
	for i := range r.pending {
		if n == resque.MaxExchangeJobs || size > resque.MaxExchangeBytes {
			break
		}
		n++
		e := &r.pending[i]
		if e.Plain() {
			x.Done = append(x.Done, e.Task.Ticket)
			if r.large(e.Task) {
				x.Spent = append(x.Spent, e.Task.Ticket)
			}
			continue
		}
		if x.Ended == nil {
			x.Ended = make([]resque.Ended, 0, min(len(r.pending)-i, resque.MaxExchangeJobs))
		}
		size += e.Size()
		if e.State == outcome.Returned {
			back = append(back, e.Ended)
		} else {
			x.Ended = append(x.Ended, e.Ended)
		}
	}
	// Each goes in front of those before it, so the last reserved comes first.
	slices.SortFunc(back, func(a, b resque.Ended) int { return cmp.Compare(b.Ticket, a.Ticket) })
	x.Ended = append(x.Ended, back...)
	r.sent, r.pending = r.pending[:n:n], r.pending[n:]
	if len(r.pending) == 0 {
		r.pending = nil
	}
}

// Unanswered takes back what the exchange under way handed in: its script may have run or not.
func (r *Record) Unanswered() {
	r.pending, r.sent, r.spending = append(r.sent, r.pending...), nil, 0
}

// Confirm ends what the exchange under way handed in, and calls committed for each outcome. Those
// that Redis refused stay. They are handed in again: at once with their bytes if these were missing, and
// else after a second.
func (r *Record) Confirm(refused []resque.Refusal, now time.Time, committed func(*End)) {
	sent := r.sent
	r.sent = nil
	if r.spent = r.spent[r.spending:]; len(r.spent) == 0 {
		r.spent = nil
	}
	r.spending = 0
	ends := sent
	if len(refused) > 0 {
		ends = r.setAside(sent, refused, now)
	}
	for i := range ends {
		e := &ends[i]
		r.over(e)
		committed(e)
	}
	clear(sent)
	r.spare = sent[:0]
}

// over releases what was committed, and remembers its effects for a while.
func (r *Record) over(e *End) {
	r.release(e.Task.Ticket)
	if e.Plain() {
		return
	}
	r.recent.add(e.Ended)
	if r.large(e.Task) { // the job may have been left or refused, so its payload stays until it is known that it has ended
		r.spent = append(r.spent, e.Task.Ticket)
	}
}

// large reports whether the payload may be in a field of its own.
func (r *Record) large(t *Task) bool { return r.apart > 0 && len(t.Payload) >= r.apart }

// setAside keeps the outcomes that Redis refused, and returns the others.
func (r *Record) setAside(sent []End, refused []resque.Refusal, now time.Time) (others []End) {
	why := make(map[int64]resque.Refusal, len(refused))
	for _, f := range refused {
		why[f.Ticket] = f
	}
	for _, e := range sent {
		switch f, ok := why[e.Task.Ticket]; {
		case !ok:
			others = append(others, e)
		case f.NoBytes():
			e.Bytes = e.Task.Payload
			r.pending = append(r.pending, e)
		default:
			r.refused, r.retryAt = append(r.refused, e), now.Add(part.BackoffMost)
		}
	}
	return others
}

// Retry hands in again what Redis refused, if it is time.
func (r *Record) Retry(now time.Time) {
	if !r.retryAt.IsZero() && !now.Before(r.retryAt) {
		r.pending, r.refused = append(r.refused, r.pending...), nil
		r.retryAt = time.Time{}
	}
}

// RetryAt returns when Retry has something to do; zero if it has nothing.
func (r *Record) RetryAt() time.Time { return r.retryAt }
