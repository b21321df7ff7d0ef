package goworker

import (
	"slices"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// This file is what the poller does about lanes: when it asks them, and which queues it has
// sorted.

// askPolicy adds to the exchange, where it is due, the question which queues are paused
// and which are sorted. Nothing else is asked then: it must be known before.
func (p *poller) askPolicy(x *resque.Exchange) bool {
	l := &p.watch.lanes
	if !l.unread && l.read {
		return false
	}
	x.Policy, x.Tell, x.Again = true, p.link.Wake != nil, l.told
	if l.sorts() {
		var err error
		if l.numbers, err = p.d.registry.limits.Numbers(); err != nil { // by what was registered since the start
			p.sayOnce("limits", "two numbers for one limit; the first holds", "error", err)
		}
		x.Limits = l.numbers
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
		p.share.Reserve(l.want)
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

// sortFrom has a queue sorted from now on: a worker found a job in it that belongs into a lane.
func (p *poller) sortFrom(lane resque.Lane) {
	if q := p.watch.lanes.queues[lane.Queue]; q == nil || !q.sorted {
		p.log.Info("sorting the jobs of a queue by their limits", "queue", lane.Queue)
	}
	p.watch.lanes.misplaced(lane)
}

// sortQueues tells the sorter which queues are its. A queue of which jobs are still to be given
// back is not yet: those must come to stand before what the sorter finds there.
func (p *poller) sortQueues() {
	l := &p.watch.lanes
	waits := func(queue string) bool {
		return slices.ContainsFunc(p.misplaced, func(o ended) bool { return o.task.Queue == queue })
	}
	var names []string
	if len(l.queues) > 0 && l.sorts() {
		for _, q := range p.watch.queues {
			if s := l.queues[q.Name]; s != nil && s.sorted && !waits(q.Name) {
				names = append(names, q.Name)
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
		p.sorter.check(p.session.Process.ID, stuck)
	}
	if gone := p.watch.lanes.gone; len(gone) > 0 {
		p.watch.lanes.gone = nil
		p.sorter.forget(gone)
	}
	if unsorted {
		p.sorter.hurry()
	}
}

// lanesMissing has lanes looked for that nothing names any more.
func (p *poller) lanesMissing() {
	if lost := p.watch.lanes.lost; len(lost) > 0 {
		p.watch.lanes.lost = nil
		p.sorter.lookFor(lost)
	}
}

// sortChanged wakes the sorter when a queue that is sorted has filled.
func (p *poller) sortChanged(changed []string, all bool) {
	if all || slices.ContainsFunc(changed, func(name string) bool { return p.watch.lanes.queues[name] != nil }) {
		p.sorter.watched.Store(false)
		p.sorter.hurry()
	}
}
