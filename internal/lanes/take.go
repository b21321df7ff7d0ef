package lanes

import (
	"cmp"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// This file is what an exchange asks of lanes, and what the poller learns from the answer.

// Take returns the request for n jobs from the lanes of a queue, of which so many may be taken ahead. Where no
// lane may be asked, it looks at all queues that have changed instead.
func (l *Lanes) Take(name string, n, ahead int) *resque.Take {
	t := &resque.Take{Want: n, Ahead: ahead, Numbers: l.numbers}
	asked := l.queues[name]
	t.Largest = asked.largest
	l.lookAt(t, asked)
	if l.placing == "" && asked.sorted && asked.unsorted == 0 && l.sorter.sorts(name) {
		t.Heads = l.sorter.few(name)
	}
	for _, d := range asked.due {
		if len(t.Lanes) < min(mostTried, n+spareTried) && d.open(l) { // each has a job, as far as is known
			t.Lanes = append(t.Lanes, d.lane)
		}
	}
	if len(t.Lanes) > 0 {
		return t
	}
	t.Arm = l.tracking
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

// lookAt asks for the next lanes of a queue. It asks for two more for each lane known to be
// blocked by a limit of its own.
func (l *Lanes) lookAt(t *resque.Take, q *queue) {
	q.changed, q.put = false, q.put[:0]
	t.Queues = append(t.Queues, q.name)
	t.Turns = t.Turns || len(q.groups) > 1 || len(l.full)+len(l.skipped) > 0 // else the first lane is the first that may be asked
	for _, g := range q.groups {
		look := resque.Look{Lanes: g.Lanes, Show: t.Want + spareTried}
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

// Answered takes the answer to an exchange.
func (l *Lanes) Answered(x *resque.Exchange, r resque.Exchanged, now time.Time) {
	if r.Policy != nil {
		l.agree(r.Policy)
	}
	if x.Sorting != nil {
		l.placed(x.Sorting, r.Sorted)
	}
	if r.Taken != nil {
		l.taken(x.Take, r, now)
		if r.Late {
			l.lookBehind()
		}
		unsorted, watched := l.unsorted()
		l.sorter.looked(unsorted, watched)
		l.sorter.check(x.Process, l.stuck)
		l.sorter.forget(l.abandoned)
		l.stuck, l.abandoned = nil, nil
	}
	if len(l.lost) > 0 {
		l.sorter.lookFor(l.lost)
		l.lost = nil
	}
}

// lookBehind is called when the jobs that ended were committed behind the look. The look missed jobs
// that went into lanes and slots that came free, and Redis does not notify us of our own writes.
func (l *Lanes) lookBehind() {
	clear(l.full)
	l.lookAtAll()
}

// unsorted reports whether queues hold jobs that are to be sorted, and whether Redis notifies of
// the next such job.
func (l *Lanes) unsorted() (some, watched bool) {
	watched = l.tracking
	for _, q := range l.queues {
		some = some || q.sorted && q.unsorted > 0 && q.name != l.placing
		watched = watched && (!q.sorted || !q.look && q.unsorted == 0)
	}
	return some, watched
}

// taken takes the answer to a Take.
func (l *Lanes) taken(t *resque.Take, r resque.Exchanged, now time.Time) {
	a := r.Taken
	l.now = a.Now
	after := func(at int64) time.Time { return now.Add(time.Duration(at-a.Now) * time.Microsecond) }
	for _, limit := range t.Limits {
		name := limit.String()
		delete(l.full, name) // the answer names it again if it is still used up
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
		case !limit.Keyed || limit.Kind == resque.LimitStartsHere: // other rates put off the turn of their lane
			at := after(until)
			if soon := now.Add(fullFor); soon.Before(at) { // the numbers may change
				at = soon
			}
			l.full[name] = fullLimit{at, true}
		}
	}
	if t.Ahead > 0 {
		l.queues[t.Queues[0]].ample = len(r.Jobs) == t.Want
	}
	if len(r.Jobs) > 0 {
		l.queues[t.Queues[0]].took(r.Jobs)
	}
	for i, name := range t.Queues {
		q := l.queues[name]
		// Tracking does not report what this connection changes, and stops watching the key then.
		q.look, q.changed = q.changed || len(t.Lanes) > 0, false
		q.unsorted = a.Waiting[i]
		q.next = time.Time{}
	}
	if n := len(a.Heads); n > 0 && int64(n) == a.Waiting[0] {
		l.found(l.queues[t.Queues[0]], a.Heads)
	}
	for i, look := range t.Look {
		if a.Shown[i].Lanes == 0 {
			for _, lane := range l.queues[look.Queue].seen(look.Lanes) {
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
		q := l.queues[name]
		slices.SortFunc(q.due, func(a, b dueLane) int { return cmp.Compare(a.turn, b.turn) })
		for _, d := range q.put {
			q.offer(d, false)
		}
	}
	if len(t.Lanes) > 0 && len(r.Jobs) == 0 && len(a.Broken) > 0 {
		l.queues[t.Queues[0]].rest = now.Add(fullFor)
	}
}

// took learns how large the jobs of the queue are. A few small ones say little of the others.
func (q *queue) took(jobs []resque.Reserved) {
	if len(jobs) >= fewJobs {
		q.largest = 0
	}
	if len(jobs) >= fewJobs || q.largest > 0 {
		for i := range jobs {
			q.largest = max(q.largest, len(jobs[i].Payload))
		}
	}
}

// shown takes what a look found of a group.
func (l *Lanes) shown(q *queue, g *group, s resque.Shown, now time.Time, after func(int64) time.Time) {
	g.size, g.whole = s.Lanes, len(s.Ready) == s.Lanes
	switch {
	case g.ours || s.Lanes > 0:
		g.idle = time.Time{}
	case g.idle.IsZero():
		g.idle = now
	case now.Sub(g.idle) >= forgetAfter:
		g.idle = now
		l.abandoned = append(l.abandoned, g.Lanes)
	}
	blocked := !l.blocked(g.limits)
	texts := make([]string, 0, 2*len(s.Ready)) // one piece of memory for most of them
	for _, d := range s.Ready {
		lane, before := resque.Lane{Queue: g.Queue, Shared: g.Shared, Own: d.Own}, len(texts)
		texts = lane.AppendLimitTexts(texts)
		due := dueLane{lane, texts[before:len(texts):len(texts)], d.Turn}
		if blocked = blocked && !due.open(l); !l.skipped[lane].IsZero() {
			g.size--
		}
		q.due = append(q.due, due)
	}
	switch {
	case s.Next > 0:
		if at := after(s.Next); q.next.IsZero() || at.Before(q.next) {
			q.next = at
		}
	case blocked && len(s.Ready) < s.Lanes: // each lane by a limit of its own: look behind them
		q.look = true
	}
}

// stillFull is called when a look finds all slots of a limit taken.
func (l *Lanes) stillFull(name string, now time.Time) {
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
