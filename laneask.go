package goworker

import (
	"cmp"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// This file is what the poller asks of lanes, and what it makes of the answer.

// take asks for n jobs from the lanes of a queue or, where there is none to ask, looks at
// all queues that have changed.
func (l *lanes) take(name string, n int) *resque.Take {
	t := &resque.Take{Want: n, Numbers: l.numbers}
	asked := l.queues[name]
	l.lookAt(t, asked)
	for _, d := range asked.due {
		if len(t.Lanes) < mostTried && d.open(l) {
			t.Lanes = append(t.Lanes, d.lane)
		}
	}
	if len(t.Lanes) > 0 {
		return t
	}
	t.Arm = l.telling
	for _, q := range l.queues {
		if q != asked && q.look {
			l.lookAt(t, q)
		}
	}
	for name := range l.full {
		t.Limits = append(t.Limits, resque.ParseLimit(name))
	}
	return t
}

// lookAt asks which lanes of a queue to ask next: some more than are known to be held up
// each by itself.
func (l *lanes) lookAt(t *resque.Take, q *laneQueue) {
	q.hit = false
	t.Queues = append(t.Queues, q.name)
	for _, g := range q.groups {
		look := resque.Look{Lanes: g.Lanes, Show: 2 * t.Want}
		if !l.blocked(g.limits) {
			for _, d := range q.due {
				if d.lane.Shared == g.Shared && !d.open(l) {
					look.Show += 2
				}
			}
		}
		t.Look = append(t.Look, look)
	}
}

// answered takes what the lanes gave.
func (l *lanes) answered(t *resque.Take, r resque.Exchanged, now time.Time) {
	a := r.Taken
	after := func(at int64) time.Time { return now.Add(time.Duration(at-a.Now) * time.Microsecond) }
	for _, limit := range t.Limits {
		name := limit.String()
		delete(l.full, name) // if it is still used up it is told below
		if _, full := a.Full[name]; !full {
			delete(l.checks, name)
		}
	}
	for name, until := range a.Full {
		limit := resque.ParseLimit(name)
		switch {
		case until == 0:
			l.full[name] = fullLimit{now.Add(fullFor), t.Arm}
			l.stillFull(name, now)
		case !limit.Keyed || limit.Kind == resque.LimitStartsHere: // others put off the turn of their lane
			at := after(until)
			if soon := now.Add(fullFor); soon.Before(at) { // the numbers may change
				at = soon
			}
			l.full[name] = fullLimit{at, true}
		}
	}
	for i, name := range t.Queues {
		q := l.queues[name]
		// What this connection changes it is not told of, nor of what comes after.
		q.look, q.hit = q.hit || len(t.Lanes) > 0, false
		q.unsorted = a.Waiting[i]
		q.next = time.Time{}
	}
	for i, look := range t.Look {
		if a.Shown[i].Lanes == 0 {
			for _, lane := range l.queues[look.Queue].known(look.Lanes) {
				if !slices.Contains(t.Lanes, lane) { // this take has not emptied it
					l.missing(look.Lanes, lane)
				}
			}
		}
	}
	for _, name := range t.Queues {
		l.queues[name].due = l.queues[name].due[:0]
	}
	for i, look := range t.Look {
		l.shown(l.queues[look.Queue], l.group(look.Lanes), a.Shown[i], now, after)
	}
	for _, name := range t.Queues {
		slices.SortFunc(l.queues[name].due, func(a, b dueLane) int { return cmp.Compare(a.turn, b.turn) })
	}
	if len(t.Lanes) > 0 && len(r.Jobs) == 0 && len(a.Broken) > 0 {
		l.queues[t.Queues[0]].rest = now.Add(fullFor)
	}
}

// shown takes what a group of lanes is like.
func (l *lanes) shown(q *laneQueue, g *laneGroup, s resque.Shown, now time.Time, after func(int64) time.Time) {
	g.size = s.Lanes
	switch {
	case g.ours || s.Lanes > 0:
		g.idle = time.Time{}
	case g.idle.IsZero():
		g.idle = now
	case now.Sub(g.idle) >= forgetAfter:
		g.idle = now
		l.gone = append(l.gone, g.Lanes)
	}
	heldUp := !l.blocked(g.limits)
	for _, d := range s.Ready {
		lane := resque.Lane{Queue: g.Queue, Shared: g.Shared, Own: d.Own}
		due := dueLane{lane, limitTexts(lane), d.Turn}
		if heldUp = heldUp && !due.open(l); !l.left[lane].IsZero() {
			g.size--
		}
		q.due = append(q.due, due)
	}
	switch {
	case s.Next > 0:
		if at := after(s.Next); q.next.IsZero() || at.Before(q.next) {
			q.next = at
		}
	case heldUp && len(s.Ready) < s.Lanes: // each by itself: what is behind them?
		q.look = true
	}
}

// stillFull takes note that all slots of a limit are taken.
func (l *lanes) stillFull(name string, now time.Time) {
	c, ok := l.checks[name]
	switch {
	case !ok:
		c = slotCheck{now.Add(stuckAfter), stuckAfter}
	case !now.Before(c.at):
		l.stuck = append(l.stuck, name)
		c.wait = min(2*c.wait, stuckMost)
		c.at = now.Add(c.wait)
	}
	l.checks[name] = c
}

func limitTexts(lane resque.Lane) (texts []string) {
	for _, limit := range lane.Limits() {
		texts = append(texts, limit.String())
	}
	return texts
}
