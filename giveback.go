package goworker

import (
	"cmp"
	"slices"
	"time"
)

// This file is how jobs go back to the heads of their queues: those that no worker
// took, and those whose handlers did not end in time.

// giveBackIdle returns what was reserved ahead when it may not wait here: the
// process pauses or stops, or the workers turned out to be slow.
func (p *poller) giveBackIdle(now time.Time) {
	stop := p.quitting || p.paused || p.selfPause
	if !stop && (len(p.ahead) == 0 || p.busy < p.slots() || !p.pace.waited(now, p.ahead[0].reserved)) {
		return
	}
	if slices.Contains(p.ahead, p.suspect) {
		p.suspect = nil
	}
	back := p.ahead
	p.ahead = nil
	if stop {
		if p.launch != nil {
			back = append(back, p.launch)
		}
		back = append(back, p.suspects...)
		p.suspects, p.launch = nil, nil
	}
	p.back(back, true)
}

// giveBackRunning returns jobs whose handlers did not end in time. The handlers
// may still be running; what they hand in later is dropped.
func (p *poller) giveBackRunning() {
	p.quitting = true
	p.collect()
	waiting := make(map[*task]bool)
	for _, o := range slices.Concat(p.pending, p.sentOut) {
		waiting[o.task] = true
	}
	for _, o := range p.refused {
		waiting[o.task] = true
	}
	for _, t := range p.ahead {
		waiting[t] = true
	}
	for _, t := range p.suspects {
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
	p.back(running, false)
}

// back queues jobs to be given back, the last reserved first: each goes in front
// of those before it, also where one exchange cannot carry them all. Unrun says that no
// worker has seen them.
func (p *poller) back(tasks []*task, unrun bool) {
	slices.SortFunc(tasks, func(a, b *task) int { return cmp.Compare(b.Ticket, a.Ticket) })
	for _, t := range tasks {
		p.pending = append(p.pending, outcome{task: t, back: true, unrun: unrun})
	}
}
