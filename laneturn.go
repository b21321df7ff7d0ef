package goworker

import (
	"slices"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// This file is what the poller does about lanes: when it asks them, and how a job that
// came from one ends.

// askPolicy adds to the exchange, where it is due, the question which queues are paused
// and which are sorted. Nothing else is asked then: it must be known before.
func (p *poller) askPolicy(x *resque.Exchange) bool {
	l := &p.watch.lanes
	if !l.unread && l.read {
		return false
	}
	x.Policy, x.Tell, x.Again = true, p.link.wake != nil, l.told
	if l.sorts() {
		var err error
		if x.Limits, err = p.d.registry.limitNumbers(); err != nil { // by what was registered since the start
			p.sayOnce("limits", "two numbers for one limit; the first holds", "error", err)
		}
	}
	l.unread = false
	l.asked()
	return true
}

// turnToLanes decides what is asked in this turn: the queues themselves or the lanes of
// one that is sorted, whichever is first in the order that was planned. So lanes have
// their part by strict order as by weight.
func (p *poller) turnToLanes(x *resque.Exchange) {
	l := &p.watch.lanes
	if len(l.queues) == 0 || len(x.Asks) == 0 {
		return
	}
	sorted := func(a resque.Ask) bool {
		_, raw := l.open(a.Queue)
		return !raw
	}
	if sorted(x.Asks[0]) {
		x.Take = l.take(x.Asks[0].Queue, l.want)
		x.Asks = nil
		p.promised = l.want
	} else if at := slices.IndexFunc(x.Asks, sorted); at > 0 {
		x.Asks = x.Asks[:at]
	}
}

// lanesAt is when the poller must turn again because of lanes. Zero: never by itself.
func (p *poller) lanesAt() time.Time {
	if len(p.watch.lanes.queues) == 0 || p.paused || !p.mayReserve() || p.slots()-p.busy <= len(p.ahead) {
		return time.Time{}
	}
	return p.watch.lanes.nextLook()
}

// misplaced reports whether a job that was taken from its queue should have been
// sorted: this is how a process learns that a queue holds such jobs. The job goes to the
// head of its lane, and from now on the queue is sorted. So do jobs that somebody sorted who
// did not know their class.
func (p *poller) misplaced(t *task) bool {
	if t.Lane != nil && t.Lane.Known() == *t.Lane {
		return false
	}
	lane, held := p.d.registry.lane(t.Queue, t.Payload)
	if !held || t.Lane != nil && lane == *t.Lane {
		return false
	}
	own := lane // only one that is kept is allocated
	if t.was, t.Lane = t.Lane, &own; t.was == nil {
		t.was = &resque.Lane{Queue: t.Queue}
	}
	if q := p.watch.lanes.queues[t.Queue]; q == nil || !q.sorted {
		p.log.Info("sorting the jobs of a queue by their limits", "queue", t.Queue)
	}
	p.watch.lanes.misplaced(lane)
	return true
}

// from is the lane that a job was taken from.
func (t *task) from() *resque.Lane {
	if t.was != nil {
		return t.was
	}
	return t.Lane
}

// fromLane makes an outcome of a job from a lane one that gives back the slots it held, and
// the starts it took if it was not run, and puts the job back into the lane and not into
// its queue.
func (p *poller) fromLane(o outcome) outcome {
	process, j := p.session.process.ID, o.task.Reserved
	free := p.store.Free(process, j)
	s := &settlement{effects: free}
	switch {
	case o.back:
		was := p.store.Free(process, resque.Reserved{Ticket: j.Ticket, Lane: o.task.was})
		s.effects, s.moved = append(was, p.store.BackToLane(process, j)...), true
	case o.settle != nil:
		*s = *o.settle
		s.effects = append(free[:len(free):len(free)], s.effects...)
	case len(free) == 0 && !o.unrun:
		return o
	case o.record != nil:
		s.counts, s.moved = resque.CountsFailed, true
		if o.keep {
			s.effects = append(s.effects, p.store.Keep(j))
		}
		s.effects = append(s.effects, p.store.FileFailure(j.Queue, o.record, p.d.config.multiQueueFailures)...)
	default:
		s.counts = resque.CountsDone
	}
	return outcome{task: o.task, settle: s, unrun: o.unrun}
}

// sortQueues tells the sorter which queues are its.
func (p *poller) sortQueues() {
	l := &p.watch.lanes
	var names []string
	if len(l.queues) > 0 && l.sorts() {
		for _, q := range p.watch.queues {
			if s := l.queues[q.name]; s != nil && s.sorted {
				names = append(names, q.name)
			}
		}
	}
	p.sorter.sort(names)
}

// lanesTaken takes note of what a look at the lanes says about unsorted jobs.
func (p *poller) lanesTaken() {
	unsorted, watched := p.watch.lanes.unsorted()
	p.sorter.watched.Store(watched)
	if stuck := p.watch.lanes.stuck; len(stuck) > 0 {
		p.watch.lanes.stuck = nil
		p.sorter.check(p.session.process.ID, stuck)
	}
	if gone := p.watch.lanes.gone; len(gone) > 0 {
		p.watch.lanes.gone = nil
		p.sorter.forget(gone)
	}
	if unsorted {
		p.sorter.hurry()
	}
}

// sortChanged wakes the sorter when a queue that is sorted has filled.
func (p *poller) sortChanged(changed []string, all bool) {
	if all || slices.ContainsFunc(changed, func(name string) bool { return p.watch.lanes.queues[name] != nil }) {
		p.sorter.watched.Store(false)
		p.sorter.hurry()
	}
}
