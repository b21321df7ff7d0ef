package goworker

import (
	"cmp"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// lanes is what the poller knows of the queues whose jobs are sorted into lanes, and of
// those that are paused. A sorted queue is not asked like the others: a sorter moves
// its jobs into lanes, and the poller takes from these. While no queue is sorted and
// none is paused it is empty, and nothing is sent because of it but one look at each
// connection.
//
// It belongs to the poller's goroutine.
type lanes struct {
	registry *registry

	telling bool // Redis tells of changes
	unread  bool // the policy must be read
	read    bool // it was read since the last forget
	told    bool // the numbers of our limits were told
	want    int  // how many jobs may be taken from lanes now
	paused  map[string]bool
	queues  map[string]*laneQueue
	full    map[string]time.Time // limits that are used up: when to look again
	since   map[string]time.Time // and since when each look has found them so
	stuck   []string             // those for which that is long
	woken   bool                 // Redis told of a change
}

// laneQueue is a queue whose jobs are sorted.
type laneQueue struct {
	name     string
	shared   []string // the limits that its lanes share, as text
	due      []dueLane
	look     bool      // something changed since it was last looked at
	hit      bool      // the same while a look was under way
	next     time.Time // when the turn of a lane comes by itself
	rest     time.Time // nothing is tried until then
	lanes    map[string]int
	unsorted int64 // jobs that are not in a lane yet
}

// dueLane is a lane whose turn it is.
type dueLane struct {
	lane   resque.Lane
	limits []string // its own and those it shares, as text
	turn   int64
}

const (
	// fullFor is how long a limit is taken to be used up if Redis tells nothing of it.
	fullFor = time.Second

	// stuckAfter is how long a limit is used up before it is checked that those who
	// hold its slots still have jobs.
	stuckAfter = 2 * time.Second

	// mostShown bounds how many lanes one look names.
	mostShown = 256
)

func newLanes(r *registry) lanes {
	l := lanes{registry: r, unread: true, paused: make(map[string]bool), queues: make(map[string]*laneQueue), full: make(map[string]time.Time), since: make(map[string]time.Time)}
	if m := r.queueLimits.Load(); m != nil {
		for name := range *m {
			l.add(name)
		}
	}
	return l
}

// sorts reports whether this process can tell the lane of a job.
func (l *lanes) sorts() bool { return l.registry.limited.Load() }

// any reports whether any queue is to be treated otherwise than by exchanges alone.
func (l *lanes) any() bool { return len(l.queues)+len(l.paused) > 0 }

// forget makes the next look a full one.
func (l *lanes) forget(telling bool) {
	l.telling, l.unread, l.read = telling, true, false
	l.lookAtAll()
}

func (l *lanes) lookAtAll() {
	clear(l.full)
	for _, q := range l.queues {
		q.look, q.hit = true, true
	}
}

// tick is a full look once an interval. Without being told it is all there is.
func (l *lanes) tick() {
	l.unread = l.unread || !l.telling
	for _, q := range l.queues {
		q.look = true
	}
}

// add makes a queue a sorted one.
func (l *lanes) add(name string) *laneQueue {
	q := l.queues[name]
	if q == nil {
		q = &laneQueue{name: name, look: true, lanes: make(map[string]int)}
		l.queues[name] = q
	}
	return q
}

// agreed takes the policy as it was read.
func (l *lanes) agreed(p *resque.Policy) {
	l.read, l.told = true, true
	clear(l.paused)
	for _, name := range p.Paused {
		l.paused[name] = true
	}
	for _, lanes := range p.Lanes {
		if q := l.add(lanes.Queue); !slices.Contains(q.shared, lanes.Shared) {
			q.shared = append(q.shared, lanes.Shared)
			q.look = true
		}
	}
}

// sorted takes note that this process has moved jobs into lanes.
func (l *lanes) sorted(name string, lanes []resque.Lane) {
	q := l.add(name)
	q.look, q.hit = true, true
	for _, lane := range lanes {
		if !slices.Contains(q.shared, lane.Shared) {
			q.shared = append(q.shared, lane.Shared)
		}
	}
}

// changed takes what Redis told, and returns what is not about lanes.
func (l *lanes) changed(changes []string) (others []string) {
	if len(changes) == 0 {
		return nil
	}
	return slices.DeleteFunc(changes, func(name string) bool {
		switch kind, what := resque.AboutLanes(name); kind {
		case resque.PolicyChanged:
			l.unread = true
		case resque.LaneChanged:
			if q := l.queues[what]; q != nil {
				q.look, q.hit, l.woken = true, true, true
			}
		case resque.SlotFreed:
			if _, ok := l.full[what]; ok {
				l.freed(what)
				l.woken = true
			}
		default:
			return false
		}
		return true
	})
}

// freed takes note that a limit is not used up any more.
func (l *lanes) freed(limit string) {
	delete(l.full, limit)
	for _, q := range l.queues {
		q.look, q.hit = true, true
	}
}

// blocked reports whether one of the limits is used up, and forgets of those whose time is over.
func (l *lanes) blocked(limits []string, now time.Time) bool {
	return slices.ContainsFunc(limits, func(name string) bool {
		until, ok := l.full[name]
		if ok && !now.Before(until) {
			l.freed(name)
			return false
		}
		return ok
	})
}

// ready reports whether there may be something to take from a queue's lanes.
func (l *lanes) ready(q *laneQueue, now time.Time) bool {
	if now.Before(q.rest) {
		return false
	}
	for name, until := range l.full {
		if !now.Before(until) {
			l.freed(name)
		}
	}
	return q.look || !q.next.IsZero() && !now.Before(q.next) ||
		slices.ContainsFunc(q.due, func(d dueLane) bool { return !l.blocked(d.limits, now) })
}

// open reports whether a queue may be asked, and whether it is asked itself, as those
// that are not sorted are, or its lanes.
func (l *lanes) open(name string, now time.Time) (open, raw bool) {
	q := l.queues[name]
	switch {
	case l.paused[name]:
		return false, false
	case q == nil:
		return true, true
	case l.want > 0 && l.ready(q, now):
		return true, false
	}
	raw = !l.sorts()
	return raw, raw
}

// nextLook is when a lane's turn comes, or a limit is looked at again. Zero: never by itself.
func (l *lanes) nextLook(now time.Time) (at time.Time) {
	sooner := func(t time.Time) {
		if t.After(now) && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, q := range l.queues {
		sooner(q.next)
		sooner(q.rest)
	}
	for _, until := range l.full {
		sooner(until)
	}
	return at
}

// take asks for n jobs from the lanes of a queue, and looks at all queues that have
// changed.
func (l *lanes) take(name string, n int, now time.Time) *resque.Take {
	t := &resque.Take{Want: n, Show: min(2*n+len(l.full), mostShown)}
	asked := l.queues[name]
	t.Queues = append(t.Queues, name)
	l.lookAt(t, asked)
	for _, d := range asked.due {
		if len(t.Lanes) < mostShown && !l.blocked(d.limits, now) {
			t.Lanes = append(t.Lanes, d.lane)
		}
	}
	if len(t.Lanes) > 0 {
		return t
	}
	// Nothing to take: look what has changed, and be told of what changes from here on.
	t.Arm = l.telling
	for _, q := range l.queues {
		if q != asked && q.look {
			t.Queues = append(t.Queues, q.name)
			l.lookAt(t, q)
		}
	}
	for name := range l.full {
		t.Limits = append(t.Limits, resque.ParseLimit(name))
	}
	return t
}

func (l *lanes) lookAt(t *resque.Take, q *laneQueue) {
	q.hit = false
	for _, shared := range q.shared {
		t.Look = append(t.Look, resque.Lanes{Queue: q.name, Shared: shared})
	}
}

// answered takes what the lanes gave.
func (l *lanes) answered(t *resque.Take, r resque.Exchanged, now time.Time) {
	a := r.Taken
	for _, limit := range t.Limits {
		name := limit.String()
		delete(l.full, name) // if it is still used up it is told below
		if _, full := a.Full[name]; !full {
			delete(l.since, name)
		}
	}
	after := func(at int64) time.Time { return now.Add(time.Duration(at-a.Now) * time.Microsecond) }
	for name, until := range a.Full {
		limit := resque.ParseLimit(name)
		switch {
		case until == 0:
			l.full[name] = now.Add(fullFor)
			if since, ok := l.since[name]; !ok {
				l.since[name] = now
			} else if now.Sub(since) >= stuckAfter {
				l.since[name] = now
				l.stuck = append(l.stuck, name)
			}
		case !limit.Keyed || limit.Kind == resque.LimitStartsHere:
			l.full[name] = after(until)
		}
	}
	for i, name := range t.Queues {
		q := l.queues[name]
		// What this connection changes it is not told of, nor of what comes after.
		q.look, q.hit = q.hit || len(t.Lanes) > 0, false
		q.unsorted = a.Waiting[i]
		q.due, q.next = q.due[:0], time.Time{}
	}
	for i, look := range t.Look {
		q, shown := l.queues[look.Queue], a.Shown[i]
		q.lanes[look.Shared] = shown.Lanes
		for _, d := range shown.Ready {
			lane := resque.Lane{Queue: look.Queue, Shared: look.Shared, Own: d.Own}
			q.due = append(q.due, dueLane{lane, limitTexts(lane), d.Turn})
		}
		if shown.Next > 0 {
			if at := after(shown.Next); q.next.IsZero() || at.Before(q.next) {
				q.next = at
			}
		}
	}
	for _, name := range t.Queues {
		slices.SortFunc(l.queues[name].due, func(a, b dueLane) int { return cmp.Compare(a.turn, b.turn) })
	}
	if len(t.Lanes) > 0 && len(r.Jobs) == 0 && len(r.Broken) > 0 {
		l.queues[t.Queues[0]].rest = now.Add(fullFor)
	}
}

func limitTexts(lane resque.Lane) (texts []string) {
	for _, limit := range lane.Limits() {
		texts = append(texts, limit.String())
	}
	return texts
}

// released takes note that a job from a lane has ended, or goes back. Redis tells
// nobody of his own changes.
func (l *lanes) released(lane resque.Lane, back bool) {
	for _, name := range limitTexts(lane) {
		delete(l.since, name)
		if _, full := l.full[name]; full {
			l.freed(name)
		}
	}
	if back {
		l.add(lane.Queue).look = true
	}
}

// unsorted reports whether jobs are left to be sorted, and whether Redis tells of the next.
func (l *lanes) unsorted() (some, watched bool) {
	watched = l.telling
	for _, q := range l.queues {
		some = some || q.unsorted > 0
		watched = watched && !q.look && q.unsorted == 0
	}
	return some, watched
}

// empty reports whether nothing waits in a queue's lanes, or to be sorted into them.
func (l *lanes) empty(q *laneQueue) bool {
	for _, n := range q.lanes {
		if n > 0 {
			return false
		}
	}
	return !q.look && q.unsorted == 0
}
