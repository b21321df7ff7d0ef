package inflight

import (
	"cmp"
	"slices"

	"github.com/goworker/goworker/internal/outcome"
)

// This file requeues jobs: those that no worker took, those whose handlers did not end in time,
// and those that belong into lanes.

// Requeue returns the jobs that wait for a worker, and if all is true the suspects that wait for
// their trials too.
func (r *Record) Requeue(all bool) {
	back := r.ahead
	r.ahead = nil
	if all {
		back = append(back, r.suspects.giveUp()...)
	}
	r.requeue(back, false)
}

// Withdraw returns the jobs that no worker has and whose queues this process works no more. No exchange is under way.
func (r *Record) Withdraw(works func(queue string) bool) {
	var back []*Task
	leaves := func(t *Task) bool {
		if works(t.Queue) {
			return false
		}
		back = append(back, t)
		return true
	}
	r.ahead = slices.DeleteFunc(slices.Clone(r.ahead), leaves)
	r.suspects.drop(leaves)
	r.requeue(back, false)
}

// Abandon returns the jobs whose handlers did not end in time. The handlers may still be running:
// their later outcomes are dropped.
func (r *Record) Abandon() {
	r.pending, r.misplaced = append(r.pending, r.misplaced...), nil
	ended := make(map[*Task]bool)
	for _, ends := range [][]End{r.pending, r.sent, r.refused} {
		for i := range ends {
			ended[ends[i].Task] = true
		}
	}
	for _, t := range slices.Concat(r.ahead, r.suspects.waiting) {
		ended[t] = true
	}
	var running []*Task
	for _, t := range r.held {
		if !ended[t] {
			t.abandoned = true
			r.abandoned = append(r.abandoned, t)
			running = append(running, t)
		}
	}
	r.requeue(running, true)
}

// requeue returns jobs to their queues or lanes, the last reserved first. Each goes in front of those
// before it, so the order holds even if one exchange cannot carry them all. Started says that their
// handlers were called.
func (r *Record) requeue(tasks []*Task, started bool) {
	slices.SortFunc(tasks, func(a, b *Task) int { return cmp.Compare(b.Ticket, a.Ticket) })
	for _, t := range tasks {
		r.suspects.ended(t)
		r.pending = append(r.pending, r.returned(t, started))
	}
}

// returned is the outcome of a job that goes back to the head of its queue or lane. Its task may be
// in the hands of a worker, which goes on to write it.
func (r *Record) returned(t *Task, started bool) End {
	j := &outcome.Job{Reserved: t.Reserved, Process: t.Process, Started: started}
	if t.admitted.Load() { // then it is safe to read what its worker has written before
		j.Worker, j.StartedAt = t.Worker, t.StartedAt
	}
	o := r.ends.End(j, outcome.Returned, nil)
	return NewEnd(t, &o)
}

// Regroup moves jobs that belong into other lanes there, in their order. The other jobs of their
// queues that this process holds go back into these queues. To keep the order it waits until
// workers have admitted or ended all jobs of these queues that they have.
func (r *Record) Regroup() {
	if len(r.misplaced) == 0 {
		return
	}
	queues := make(map[string]bool)
	for i := range r.misplaced {
		queues[r.misplaced[i].Task.Queue] = true
	}
	movable := func(t *Task) bool { return queues[t.Queue] && t.movable() }
	for _, t := range r.ahead {
		if movable(t) {
			t.admitted.Store(true)
			r.suspects.ended(t)
			r.misplaced = append(r.misplaced, r.returned(t, false))
		}
	}
	r.ahead = slices.DeleteFunc(r.ahead, movable)
	r.regrouping.Store(true) // before the look at what workers have admitted
	for _, t := range r.held {
		if movable(t) && !t.admitted.Load() && !r.suspects.waits(t) {
			return
		}
	}
	r.regrouping.Store(false)
	r.pending, r.misplaced = append(r.pending, r.misplaced...), nil
}

// Regroups reports whether jobs of a queue wait in Regroup.
func (r *Record) Regroups(queue string) bool {
	return slices.ContainsFunc(r.misplaced, func(e End) bool { return e.Task.Queue == queue })
}

// Regrouping reports whether Regroup waits for workers: they wake the poller then when they have
// admitted a job. It is safe for concurrent use.
func (r *Record) Regrouping() bool { return r.regrouping.Load() }
