package goworker

import (
	"maps"
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
	works    map[string]bool // the queues this process works on
	policy   []resque.Lanes  // what the fleet said last

	telling bool // Redis tells of changes
	unread  bool // the policy must be read
	read    bool // it was read since the last forget
	told    bool // Redis has the numbers of our limits
	want    int  // how many jobs may be taken from lanes now
	paused  map[string]bool
	queues  map[string]*laneQueue
	full    map[string]fullLimit
	left    map[resque.Lane]time.Time      // lanes of jobs that are left to others: until when
	checks  map[string]slotCheck           // of limits that each look has found used up
	stuck   []string                       // those whose check is due
	checked time.Time                      // when old checks were last dropped
	gone    []resque.Lanes                 // those to be forgotten by the fleet
	lost    map[resque.Lanes][]resque.Lane // those that nothing names any more: they may have jobs still
	numbers map[string]string              // of this process's limits, by Limit.Spec
	woken   bool                           // Redis told of a change
}

// fullLimit is a limit that is used up.
type fullLimit struct {
	until time.Time // when it is looked at again by itself
	armed bool      // nothing is to be known of it before that, or Redis tells
}

// slotCheck is when it is checked that those who hold a limit's slots still have jobs.
type slotCheck struct {
	at   time.Time
	wait time.Duration // before the next one
}

// laneQueue is a queue whose jobs are sorted, or wait in the lanes of who sorts them.
type laneQueue struct {
	name     string
	sorted   bool // by this process too: it has limits by which jobs are
	groups   []*laneGroup
	due      []dueLane
	look     bool      // something changed since it was last looked at
	hit      bool      // the same while a look was under way
	next     time.Time // when the turn of a lane comes by itself
	rest     time.Time // nothing is tried until then
	unsorted int64     // jobs that are not in a lane yet
}

// laneGroup are the lanes of a queue that share the same limits.
type laneGroup struct {
	resque.Lanes
	limits []string  // the shared ones, each as text
	size   int       // how many lanes there are, but for those that are left to others
	ours   bool      // a limit by which they are sorted holds in this process
	agreed bool      // the fleet has told of it
	fresh  bool      // noted since the fleet was last asked, which may not know it yet
	idle   time.Time // since when there is no lane, where they are not ours
}

// dueLane is a lane whose turn it is.
type dueLane struct {
	lane   resque.Lane
	limits []string // its own and those it shares, each as text
	turn   int64
}

const (
	// fullFor is how long a limit is taken to be used up, at most, if Redis tells nothing of it.
	fullFor = time.Second

	// A limit is used up for so long before the holders of its slots are checked, and
	// each time twice as long until the next check.
	stuckAfter = 2 * time.Second
	stuckMost  = time.Minute

	// forgetAfter is how long there was nothing in lanes that are not sorted into
	// here any more before the fleet forgets them. Where somebody else does sort into
	// them, as the old processes do in a rolling deploy, he says so anew.
	forgetAfter = time.Hour

	// mostTried bounds how many lanes are asked for jobs at once.
	mostTried = 256
)

func newLanes(r *registry) lanes {
	return lanes{registry: r, unread: true, paused: make(map[string]bool), queues: make(map[string]*laneQueue), full: make(map[string]fullLimit), left: make(map[resque.Lane]time.Time), checks: make(map[string]slotCheck)}
}

// sorts reports whether this process can tell the lane of a job.
func (l *lanes) sorts() bool { return l.registry.limits.Any() }

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
	l.unread = l.unread || !l.telling || l.read && !l.told
	for _, q := range l.queues {
		q.look = true
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
				q.look, q.hit = true, true
				l.woken = l.woken || !l.closed(q)
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

// expire does what is to be done at times that have come, and reports whether one has at
// which something may be taken.
func (l *lanes) expire(now time.Time) (some bool) {
	for name, f := range l.full {
		if !now.Before(f.until) {
			l.freed(name)
			some = true
		}
	}
	for lane, until := range l.left {
		if !now.Before(until) {
			delete(l.left, lane)
			some = true
		}
	}
	if now.Sub(l.checked) > stuckMost {
		l.checked = now
		// Of a limit that is used up still, the check was put off when its time came.
		maps.DeleteFunc(l.checks, func(_ string, c slotCheck) bool { return now.After(c.at.Add(stuckMost)) })
	}
	for _, q := range l.queues {
		if !q.next.IsZero() && !now.Before(q.next) {
			q.look, q.next = true, time.Time{}
			some = true
		}
		if !now.Before(q.rest) {
			q.rest = time.Time{}
		}
	}
	return some
}

// leave has nothing taken from a lane until then: its jobs are left to others.
func (l *lanes) leave(lane resque.Lane, until time.Time) {
	l.left[lane] = until
	l.note(lane)
}

// open reports whether a lane may be asked for jobs.
func (d *dueLane) open(l *lanes) bool { return !l.blocked(d.limits) && l.left[d.lane].IsZero() }

// blocked reports whether one of the limits is used up.
func (l *lanes) blocked(limits []string) bool {
	return slices.ContainsFunc(limits, func(name string) bool { _, full := l.full[name]; return full })
}

// closed reports whether nothing can be taken from a queue until a limit that all its
// lanes share is free again, and nothing of it need be known before.
func (l *lanes) closed(q *laneQueue) bool {
	return len(q.groups) > 0 && !slices.ContainsFunc(q.groups, func(g *laneGroup) bool {
		return !slices.ContainsFunc(g.limits, func(name string) bool { return l.full[name].armed })
	})
}

// ready reports whether there may be something to take from a queue's lanes.
func (l *lanes) ready(q *laneQueue) bool {
	return q.rest.IsZero() && !l.closed(q) &&
		(q.look || slices.ContainsFunc(q.due, func(d dueLane) bool { return d.open(l) }))
}

// open reports whether a queue may be asked, and whether it is asked itself, as those
// that are not sorted are, or its lanes.
func (l *lanes) open(name string) (open, raw bool) {
	q := l.queues[name]
	switch {
	case l.paused[name]:
		return false, false
	case q == nil:
		return true, true
	case l.want > 0 && l.ready(q):
		return true, false
	}
	return !q.sorted, !q.sorted
}

// nextLook is when there is something for expire to do. Zero: never by itself.
func (l *lanes) nextLook() (at time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for _, q := range l.queues {
		sooner(q.next)
		sooner(q.rest)
	}
	for _, f := range l.full {
		sooner(f.until)
	}
	for _, until := range l.left {
		sooner(until)
	}
	return at
}

// released updates the limits of a lane after one of its jobs ended or went back. Unrun says
// that the job gave back the starts that rates had counted. Tracking does not report our own
// writes and forgets the key after them; so if one of the queue's groups is not in the policy
// yet, read the policy again.
func (l *lanes) released(lane resque.Lane, unrun bool) {
	for _, name := range limitTexts(lane) {
		delete(l.checks, name)
		if _, full := l.full[name]; full {
			l.freed(name)
		}
	}
	if q := l.queues[lane.Queue]; q != nil {
		q.look = q.look || unrun
		l.unread = l.unread || slices.ContainsFunc(q.groups, func(g *laneGroup) bool { return !g.agreed })
	}
}

// filled must be called for each lane this process puts a job into. Tracking reports it to the
// other processes only.
func (l *lanes) filled(lane resque.Lane) {
	l.note(lane)
	q := l.queues[lane.Queue]
	q.look = true
	l.unread = l.unread || slices.ContainsFunc(q.groups, func(g *laneGroup) bool { return !g.agreed })
}

// unsorted reports whether jobs are left to be sorted, and whether Redis tells of the next.
func (l *lanes) unsorted() (some, watched bool) {
	watched = l.telling
	for _, q := range l.queues {
		some = some || q.sorted && q.unsorted > 0
		watched = watched && (!q.sorted || !q.look && q.unsorted == 0)
	}
	return some, watched
}

// empty reports whether nothing waits in a queue's lanes, or to be sorted into them.
func (l *lanes) empty(q *laneQueue) bool {
	for _, g := range q.groups {
		if g.size > 0 {
			return false
		}
	}
	return !q.look && (!q.sorted || q.unsorted == 0)
}
