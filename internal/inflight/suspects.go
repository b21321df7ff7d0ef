package inflight

import (
	"cmp"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
)

// suspects are the jobs of this process that were found in dead processes. One of them may kill
// this process too. So they start one at a time. Each is on trial for a while, and the process's
// record names it before a worker gets it. See internal/resque/deaths.go for the rules.
type suspects struct {
	waiting  []*Task   // reserved, for their trials: the shortest first, then the most suspicious
	chosen   *Task     // goes on trial once the record says so
	trial    *Task     // on trial
	until    time.Time // when that trial is over
	past     []*Task   // run on after their trials
	stuck    time.Time // since when some of waiting wait and no worker is free; zero: none does
	recorded string    // what the record says of them
	upTo     int64     // the record says this ticket, and all before it, may be with workers
}

// upToAhead is how many tickets ahead the record says that jobs may be with workers. There are no such jobs yet, and those to come
// need no word of their own in the exchange that reserves them.
const upToAhead = 10_000

func (s *suspects) add(t *Task) {
	s.waiting = append(s.waiting, t)
	slices.SortStableFunc(s.waiting, func(a, b *Task) int {
		return cmp.Or(cmp.Compare(a.suspicion().Level, b.suspicion().Level), cmp.Compare(b.suspicion().Charged, a.suspicion().Charged))
	})
}

// idle reports whether no suspect waits or is on trial.
func (s *suspects) idle() bool { return len(s.waiting) == 0 && s.chosen == nil && s.trial == nil }

// ready reports whether a suspect waits for nothing but a worker.
func (s *suspects) ready() bool { return s.chosen != nil || s.trial == nil && len(s.waiting) > 0 }

// advance ends a trial whose time is over, and chooses the next suspect if a worker is free.
func (s *suspects) advance(now time.Time, free bool) {
	if s.trial != nil && !now.Before(s.until) {
		s.past = append(s.past, s.trial)
		s.trial = nil
	}
	if s.trial == nil && s.chosen == nil && free && len(s.waiting) > 0 {
		s.chosen, s.waiting = s.waiting[0], s.waiting[1:]
	}
}

// begin starts the trial of the suspect that was chosen, now that the record says so. It
// returns nil if none was.
func (s *suspects) begin(now time.Time) *Task {
	t := s.chosen
	if t == nil {
		return nil
	}
	s.chosen, s.trial = nil, t
	s.until = now.Add(t.suspicion().Trial(len(s.waiting)))
	return t
}

// ended forgets a job that ended or goes back to its queue.
func (s *suspects) ended(t *Task) {
	if s.trial == t {
		s.trial = nil
	}
	s.past = slices.DeleteFunc(s.past, func(p *Task) bool { return p == t })
}

// waits reports whether the job waits for its trial.
func (s *suspects) waits(t *Task) bool { return s.chosen == t || slices.Contains(s.waiting, t) }

// suspectPatience is how long suspects wait for their trials while no worker is free. While a long trial is under way a process takes them
// again as soon as a worker is free, so it is much longer than a job that is only prefetched may wait.
const suspectPatience = time.Second

// leave returns when the waiting ones are to go back, as Record.SuspectsLeave says.
func (s *suspects) leave(free bool, c clock.Clock) time.Time {
	switch {
	case free || len(s.waiting) == 0:
		s.stuck = time.Time{}
		return s.stuck
	case s.stuck.IsZero():
		s.stuck = c.Now()
	}
	return s.stuck.Add(suspectPatience)
}

// giveUp returns the suspects that no worker has, and forgets them.
func (s *suspects) giveUp() []*Task {
	back := s.waiting
	if s.chosen != nil {
		back = append(back, s.chosen)
	}
	s.waiting, s.chosen = nil, nil
	return back
}

// drop forgets the suspects that no worker has and for which leaves returns true.
func (s *suspects) drop(leaves func(t *Task) bool) {
	s.waiting = slices.DeleteFunc(slices.Clone(s.waiting), leaves)
	if s.chosen != nil && leaves(s.chosen) {
		s.chosen = nil
	}
}

// handedOut says which jobs up to a ticket are with workers, and what a death would say of the
// suspects among them.
func (s *suspects) handedOut(upTo int64) resque.HandedOut {
	h := resque.HandedOut{UpTo: upTo, Held: ticketsOf(s.waiting), Past: ticketsOf(s.past)}
	trial := cmp.Or(s.trial, s.chosen)
	switch {
	case trial == nil:
	case len(s.past) > 0 && trial.suspicion().Level == 0:
		h.Past = append(h.Past, trial.Ticket) // too short to distinguish it from the others
	case trial.suspicion().Level == 1 || trial.suspicion().Charged > 0:
		h.Trial, h.Past = trial.Ticket, nil // that one of the others killed the process just then would be a chance
	default:
		h.Trial = trial.Ticket
	}
	return h
}

// record returns what the record is to say of the jobs up to a ticket. It returns "" if the record says so already: it
// covers the ticket, and the suspects are as they were recorded.
func (s *suspects) record(upTo int64) string {
	now := ""
	if len(s.waiting)+len(s.past) > 0 || s.trial != nil || s.chosen != nil {
		now = s.handedOut(0).String()
	}
	if upTo <= s.upTo && s.chosen == nil && now == s.recorded {
		return ""
	}
	s.recorded, s.upTo = now, upTo+upToAhead
	return s.handedOut(s.upTo).String()
}

// forget makes the next exchange record the suspects again: what the record says is not known.
func (s *suspects) forget() { s.upTo = -1 }

// over returns when the trial is over; zero if none is under way.
func (s *suspects) over() time.Time {
	if s.trial == nil {
		return time.Time{}
	}
	return s.until
}

func ticketsOf(tasks []*Task) []int64 {
	tickets := make([]int64, len(tasks))
	for i, t := range tasks {
		tickets[i] = t.Ticket
	}
	return tickets
}
