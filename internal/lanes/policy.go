package lanes

import (
	"slices"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// This file is which queues are sorted, and into which lanes. The fleet's policy says so, and so
// do the limits of this process and the jobs it has met.

// AskPolicy adds to the exchange, if the policy is not known, the question which queues are paused
// and which are sorted. The exchange must then ask for no jobs: the policy says from where.
func (l *Lanes) AskPolicy(x *resque.Exchange) bool {
	if !l.ask && l.known {
		return false
	}
	x.Policy, x.TrackPolicy, x.Registered = true, l.tracking, l.sent
	if l.classes.Any() {
		var err error
		// LimitQueue may have been called since the start.
		if l.numbers, err = l.classes.Numbers(); err != nil && l.said.News("numbers", err.Error()) {
			l.base.Log.Error("two numbers for one limit; the first holds", "error", err)
		}
		x.Limits = l.numbers
	}
	l.ask = false
	l.requested()
	return true
}

// requested is called when the policy is requested. Groups noted before this moment must be in
// the answer; those noted later may be missing from it.
func (l *Lanes) requested() {
	for _, q := range l.queues {
		for _, g := range q.groups {
			g.fresh = false
		}
	}
}

// agree takes the policy as Redis answered.
func (l *Lanes) agree(p *resque.Policy) {
	l.known, l.sent = true, l.sent || !p.NumbersRefused
	clear(l.paused)
	for _, name := range p.Paused {
		l.paused[name] = false
	}
	if p.NoLanes {
		return // the last policy is better than none
	}
	l.policy = p.Lanes
	l.resolve()
}

// Work sets the queues that this process works on. Lanes of others do not concern it.
func (l *Lanes) Work(all []queues.Queue) {
	l.works = make(map[string]bool, len(all))
	for _, q := range all {
		l.works[q.Name] = true
	}
	l.resolve()
}

// resolve keeps the queues of this process that have lanes: by the policy, by LimitQueue, or
// by groups that the policy cannot name yet.
func (l *Lanes) resolve() {
	agreed := make(map[resque.Lanes]bool, len(l.policy))
	for _, lanes := range l.policy {
		if l.works[lanes.Queue] {
			agreed[lanes] = true
			l.group(lanes)
		}
	}
	for name := range l.works {
		if l.classes.Limits(name) {
			l.add(name)
		}
	}
	for name, q := range l.queues {
		q.groups = slices.DeleteFunc(q.groups, func(g *group) bool {
			if g.agreed && !agreed[g.Lanes] {
				l.missing(g.Lanes, q.seen(g.Lanes)...)
			}
			g.agreed = agreed[g.Lanes]
			return !g.agreed && !g.fresh
		})
		limited := l.classes.Limits(name)
		q.sorted = limited || slices.ContainsFunc(q.groups, func(g *group) bool { return g.ours })
		if !l.works[name] || len(q.groups) == 0 && !limited {
			delete(l.queues, name)
		}
	}
}

// resort is resolve after the limits of this process have changed. A queue that was sorted by a rule of operators alone is not sorted when
// the rule is gone: then its jobs are taken from the queue itself.
func (l *Lanes) resort() {
	for _, q := range l.queues {
		for _, g := range q.groups {
			g.ours = l.classes.SortedBy(g.Lanes)
		}
		q.look = true
	}
	l.resolve()
}

// missing notes lanes that the policy named and names no more. The sorter looks whether they have
// jobs: then a key was removed. Empty ones were forgotten as they should be.
func (l *Lanes) missing(set resque.Lanes, of ...resque.Lane) {
	if l.lost == nil {
		l.lost = make(map[resque.Lanes][]resque.Lane)
	}
	l.lost[set] = append(l.lost[set], of...)
}

// seen returns the lanes of a set that the last look found.
func (q *queue) seen(set resque.Lanes) (lanes []resque.Lane) {
	for _, d := range q.due {
		if d.lane.Lanes() == set {
			lanes = append(lanes, d.lane)
		}
	}
	return lanes
}

// note adds the group of a lane that the policy may not name yet.
func (l *Lanes) note(lane resque.Lane) { l.group(lane.Lanes()).fresh = true }

// add returns a queue that has lanes, and makes it one.
func (l *Lanes) add(name string) *queue {
	q := l.queues[name]
	if q == nil {
		q = &queue{name: name, look: true, sorted: l.classes.Limits(name)}
		l.queues[name] = q
	}
	return q
}

// group returns one of a queue's groups of lanes, and adds it if it is new.
func (l *Lanes) group(lanes resque.Lanes) *group {
	q := l.add(lanes.Queue)
	for _, g := range q.groups {
		if g.Lanes == lanes {
			return g
		}
	}
	g := &group{Lanes: lanes, limits: resque.Lane{Queue: lanes.Queue, Shared: lanes.Shared}.LimitTexts(), ours: l.classes.SortedBy(lanes)}
	q.groups = append(q.groups, g)
	q.look, q.sorted = true, q.sorted || g.ours
	return g
}
