package inflight

import (
	"slices"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// This file corrects the mirror after an answer was lost. The script may have run or not, so the
// poller reads the record back.

// NextEpoch returns an epoch that makes late requests of this one change nothing.
func (r *Record) NextEpoch() int64 {
	r.epoch++
	return r.epoch
}

// Unknown returns those of the tickets in the record that this process does not hold.
func (r *Record) Unknown(tickets []int64) []int64 {
	return slices.DeleteFunc(slices.Clone(tickets), func(t int64) bool { return r.held[t] != nil })
}

// Missing returns the jobs of this process whose tickets are not in the record, to be written into
// it again. It also returns the entries for those that workers have.
func (r *Record) Missing(tickets []int64) (jobs []resque.Reserved, handed string) {
	inRecord := ticketSet(tickets)
	for _, t := range r.held {
		if !inRecord[t.Ticket] {
			jobs = append(jobs, t.Reserved)
		}
	}
	return jobs, r.suspects.handedOut(r.last).String()
}

// Resynced takes the record as it was read back: its epoch and its tickets. Whole says that it was
// not removed meanwhile. Then an outcome whose ticket is gone was committed; else all outcomes are
// handed in.
func (r *Record) Resynced(epoch int64, tickets []int64, whole bool) {
	r.epoch = epoch
	r.suspects.forget()
	if whole {
		r.confirmGone(ticketSet(tickets))
	}
	r.spent = nil // reading back has removed the payloads of jobs that are not in the record. Those of others are needed again
}

// confirmGone ends the outcomes whose tickets are gone.
func (r *Record) confirmGone(inRecord map[int64]bool) {
	committed := func(e End) bool {
		if inRecord[e.Task.Ticket] {
			return false
		}
		r.over(&e)
		return true
	}
	r.pending = slices.DeleteFunc(r.pending, committed)
	r.refused = slices.DeleteFunc(r.refused, committed)
	r.misplaced = slices.DeleteFunc(r.misplaced, committed)
}

// Adopt takes over jobs of the record that this process does not hold. It returns those that it has
// never seen, which Received adds.
//
// A job that it has seen has ended, and the server that answers now was behind and does not know
// that. Such a job ends once more in the same way, effects included. Where the effects are not known
// any more, it runs again.
func (r *Record) Adopt(unknown []resque.Reserved) (fresh []resque.Reserved) {
	for _, j := range unknown {
		if j.Ticket > r.last {
			fresh = append(fresh, j)
			continue
		}
		t := &Task{Job: outcome.Job{Reserved: j, Process: r.session.Process.ID}, Session: r.session}
		r.hold(t)
		e := NewEnd(t, &outcome.Outcome{Started: true, Counts: resque.CountsDone})
		if end, ok := r.recent.of(j.Ticket); ok {
			e.Ended = end
		} else if j.Ticket <= r.recent.forgotten {
			e = r.returned(t, true)
		}
		r.pending = append(r.pending, e)
	}
	return fresh
}

func ticketSet(tickets []int64) map[int64]bool {
	set := make(map[int64]bool, len(tickets))
	for _, t := range tickets {
		set[t] = true
	}
	return set
}
