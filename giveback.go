package goworker

import (
	"cmp"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/outcome"
)

// This file is how jobs go back to where they came from: those that no worker took, those
// whose handlers did not end in time, and those that belong into lanes.

// giveBackIdle returns what was reserved ahead when it may not wait here: the
// process pauses or stops, or the workers turned out to be slow.
func (p *poller) giveBackIdle(now time.Time, paused bool) {
	stop := p.quitting || paused || p.selfPause
	if !stop && (len(p.ahead) == 0 || p.busy < p.slots() || !p.pace.Waited(now, p.ahead[0].ReservedAt)) {
		return
	}
	back := p.ahead
	p.ahead = nil
	if stop {
		back = append(back, p.suspects.giveUp()...)
	}
	p.back(back, false)
}

// giveBackRunning returns jobs whose handlers did not end in time. The handlers
// may still be running; what they hand in later is dropped.
func (p *poller) giveBackRunning() {
	p.quitting = true
	p.collect()
	p.pending, p.misplaced = append(p.pending, p.misplaced...), nil
	waiting := make(map[*task]bool)
	for _, o := range slices.Concat(p.pending, p.sentOut, p.refused) {
		waiting[o.task] = true
	}
	for _, t := range slices.Concat(p.ahead, p.suspects.waiting) {
		waiting[t] = true
	}
	var running []*task
	for _, t := range p.held {
		if !waiting[t] {
			t.abandoned = true
			p.abandoned = append(p.abandoned, t)
			running = append(running, t)
		}
	}
	p.back(running, true)
}

// back queues jobs to be given back, the last reserved first: each goes in front
// of those before it, also where one exchange cannot carry them all. Started says that their
// handlers were called.
func (p *poller) back(tasks []*task, started bool) {
	slices.SortFunc(tasks, func(a, b *task) int { return cmp.Compare(b.Ticket, a.Ticket) })
	for _, t := range tasks {
		p.suspects.ended(t)
		p.pending = append(p.pending, p.returned(t, started))
	}
}

// returned is the outcome of a job that goes back to the head of its queue or lane.
func (p *poller) returned(t *task, started bool) ended {
	j := &outcome.Job{Reserved: t.Reserved, Process: t.Process, Worker: t.Worker, Started: started}
	return newOutcome(t, p.set.End(j, outcome.Returned, nil))
}

// giveBackMisplaced puts jobs that workers found to belong into lanes there, in their order,
// and what else this process holds of their queues back into these. To keep the order it waits
// until workers have looked at all jobs of these queues that they have.
func (p *poller) giveBackMisplaced() {
	if len(p.misplaced) == 0 {
		return
	}
	queues := make(map[string]bool)
	for _, o := range p.misplaced {
		queues[o.task.Queue] = true
	}
	unsorted := func(t *task) bool { return queues[t.Queue] && t.unsorted() }
	for _, t := range p.ahead {
		if unsorted(t) {
			t.looked.Store(true)
			p.suspects.ended(t)
			p.misplaced = append(p.misplaced, p.returned(t, false))
		}
	}
	p.ahead = slices.DeleteFunc(p.ahead, unsorted)
	p.looking.Store(true) // before the look at what they have looked at
	for _, t := range p.held {
		if unsorted(t) && !t.looked.Load() && !p.suspects.waits(t) {
			return
		}
	}
	p.looking.Store(false)
	p.pending, p.misplaced = append(p.pending, p.misplaced...), nil
}
