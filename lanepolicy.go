package goworker

import (
	"slices"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// This file is which queues are sorted, and into which lanes: by what the fleet says, by
// the limits of this process, and by the jobs it has met.

// add makes a queue one whose lanes are asked.
func (l *lanes) add(name string) *laneQueue {
	q := l.queues[name]
	if q == nil {
		q = &laneQueue{name: name, look: true, sorted: l.registry.limits.Limits(name)}
		l.queues[name] = q
	}
	return q
}

// work says which queues this process works on. What the fleet has sorted of others is
// none of its business.
func (l *lanes) work(queues []queues.Queue) {
	l.works = make(map[string]bool, len(queues))
	for _, q := range queues {
		l.works[q.Name] = true
	}
	l.resolve()
}

// asked takes note that the policy is asked for: from what is noted before, the answer
// cannot be without it.
func (l *lanes) asked() {
	for _, q := range l.queues {
		for _, g := range q.groups {
			g.fresh = false
		}
	}
}

// resolve has a look at the queues that this process works on and that are sorted, by what
// the fleet or LimitQueue says, and at no others.
func (l *lanes) resolve() {
	agreed := make(map[resque.Lanes]bool, len(l.policy))
	for _, lanes := range l.policy {
		if l.works[lanes.Queue] {
			agreed[lanes] = true
			l.group(lanes)
		}
	}
	for name := range l.works {
		if l.registry.limits.Limits(name) {
			l.add(name)
		}
	}
	for name, q := range l.queues {
		q.groups = slices.DeleteFunc(q.groups, func(g *laneGroup) bool {
			if g.agreed && !agreed[g.Lanes] {
				l.missing(g.Lanes, q.known(g.Lanes)...)
			}
			g.agreed = agreed[g.Lanes]
			return !g.agreed && !g.fresh
		})
		limited := l.registry.limits.Limits(name)
		q.sorted = limited || slices.ContainsFunc(q.groups, func(g *laneGroup) bool { return g.ours })
		if !l.works[name] || len(q.groups) == 0 && !limited {
			delete(l.queues, name)
		}
	}
}

// agreed takes the policy as it was read.
func (l *lanes) agreed(p *resque.Policy) {
	l.read, l.told = true, l.told || !p.Untold
	clear(l.paused)
	for _, name := range p.Paused {
		l.paused[name] = true
	}
	if p.NoLanes {
		return // what was agreed on before is better than nothing
	}
	l.policy = p.Lanes
	l.resolve()
}

// missing notes lanes that the fleet named and names no more. Those that are empty were
// forgotten as they should be; where others still have jobs, a key was removed.
func (l *lanes) missing(set resque.Lanes, of ...resque.Lane) {
	if l.lost == nil {
		l.lost = make(map[resque.Lanes][]resque.Lane)
	}
	l.lost[set] = append(l.lost[set], of...)
}

// sorted takes note that this process moves jobs into lanes.
func (l *lanes) sorted(name string, lanes []resque.Lane) {
	q := l.add(name)
	q.look, q.hit = true, true
	for i, lane := range lanes {
		if i == 0 || lane.Lanes() != lanes[i-1].Lanes() {
			l.note(lane)
		}
	}
}

// misplaced takes note of a job that has limits here and lay in its queue: jobs of this
// queue are to be sorted.
func (l *lanes) misplaced(lane resque.Lane) {
	l.sorted(lane.Queue, []resque.Lane{lane})
	l.group(lane.Lanes()).ours = true // the class may have been registered after the group was noted
	l.add(lane.Queue).sorted = true
}

// known are the lanes of a set that this process has seen lately.
func (q *laneQueue) known(set resque.Lanes) (lanes []resque.Lane) {
	for _, d := range q.due {
		if d.lane.Lanes() == set {
			lanes = append(lanes, d.lane)
		}
	}
	return lanes
}

// note takes note of a lane before the fleet may have told of it.
func (l *lanes) note(lane resque.Lane) { l.group(lane.Lanes()).fresh = true }

// group is one of a queue's groups of lanes, a new one perhaps.
func (l *lanes) group(lanes resque.Lanes) *laneGroup {
	q := l.add(lanes.Queue)
	for _, g := range q.groups {
		if g.Lanes == lanes {
			return g
		}
	}
	g := &laneGroup{Lanes: lanes, limits: limitTexts(resque.Lane{Queue: lanes.Queue, Shared: lanes.Shared}), ours: l.registry.limits.SortedBy(lanes)}
	q.groups = append(q.groups, g)
	q.look, q.sorted = true, q.sorted || g.ours
	return g
}
