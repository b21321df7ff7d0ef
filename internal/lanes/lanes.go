// Package lanes chooses the lanes from which a poller takes jobs. A sorted queue has one lane for
// each set of limits and key. The package also knows which queues are paused. The poller takes
// jobs from the lanes of such a queue; a sorter moves jobs into them. While no queue is sorted and
// none is paused, all that is sent because of this package is one question at each connection.
package lanes

import (
	"maps"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// Classes is what lanes need to know of the classes and queues that have limits. Its methods are
// safe for concurrent use.
type Classes interface {
	// Lanes returns where each of these jobs of a queue waits.
	Lanes(queue string, jobs [][]byte) []resque.Lane

	// Alike returns what all jobs are like that have the class and the lane of one of a queue, if that can be said without reading them.
	Alike(queue string, job []byte) (of resque.Alike, some bool)

	// Limits reports whether the queue itself was given limits.
	Limits(queue string) bool

	// SortedBy reports whether a limit by which the lanes were sorted holds in this process.
	SortedBy(lanes resque.Lanes) bool

	// Numbers returns the numbers of all limits by Limit.Spec, and an error if a limit was
	// given two.
	Numbers() (map[string]string, error)

	// Any reports whether any class or queue has limits.
	Any() bool

	// Version changes whenever what Limits and SortedBy answer may change.
	Version() uint64

	// PauseOver reports whether the pause of a queue has an end, which has come. PauseLeft returns how long it lasts; 0: it has no
	// end, or it has come.
	PauseOver(queue string) bool
	PauseLeft(queue string) time.Duration
}

// Lanes is what the poller knows of sorted and paused queues. It belongs to the poller's goroutine.
type Lanes struct {
	// Took, if it is set before anything else, is called from any goroutine with how many jobs left a queue for lanes.
	Took func(queue string, n int)

	base    part.Base
	classes Classes
	sorter  *sorter
	said    logging.Once

	now     int64  // of Redis, in µs, as of the last answer to a take
	version uint64 // of the limits, when groups were last asked whether they are ours

	placing string          // the queue a few jobs of which the sorter finds lanes for; "": none
	few     *resque.Sorting // these jobs, to be moved by the next exchange; nil: there are none

	works  map[string]bool // the queues this process works on
	policy []resque.Lanes  // the lanes that the fleet has, as of the last answer

	tracking  bool                           // Redis notifies of changes
	ask       bool                           // the policy must be read
	known     bool                           // the policy was read since the last Forget
	sent      bool                           // Redis has the numbers of our limits
	numbers   map[string]string              // of this process's limits, by Limit.Spec
	paused    map[string]bool                // queues that are paused; true: Tick has seen the end of the pause
	queues    map[string]*queue              // those that have lanes
	full      map[string]fullLimit           // limits that are used up
	skipped   map[resque.Lane]time.Time      // lanes of jobs for other processes: until when
	checks    map[string]slotCheck           // of limits that each look has found used up
	stuck     []string                       // limits whose check is due
	checked   time.Time                      // when old checks were last dropped
	abandoned []resque.Lanes                 // lanes for the fleet to forget
	lost      map[resque.Lanes][]resque.Lane // lanes that no key names any more, though they may have jobs
}

// fullLimit is a limit that is used up.
type fullLimit struct {
	until   time.Time // when lanes try it again
	watched bool      // Redis notifies of its release, or it cannot be free before
}

// slotCheck is when the sorter checks that the holders of a limit's slots still have jobs.
type slotCheck struct {
	at   time.Time
	wait time.Duration // before the next check
}

// queue is a queue that has lanes, whether this process sorts it or another does.
type queue struct {
	name     string
	sorted   bool // this process sorts it too: it has limits of its jobs
	groups   []*group
	due      []dueLane // found by the last look, and those this process has put jobs into since
	put      []dueLane // of these, the ones that a look under way may not have found
	look     bool      // something changed since the last look
	changed  bool      // something changed while a look was under way
	next     time.Time // when the turn of another lane comes
	rest     time.Time // nothing is tried until then
	unsorted int64     // jobs that are in no lane yet
	largest  int       // how many bytes the largest of the jobs has that were taken last, of eight at least; 0: unknown
	ample    bool      // the last take gave jobs ahead, all that it asked for: limits are far from used up
}

// group are the lanes of a queue that share the same limits.
type group struct {
	resque.Lanes
	limits []string  // the shared ones, each as text
	size   int       // how many lanes it has, without the skipped ones
	whole  bool      // the last look has shown all of them
	ours   bool      // a limit by which it was sorted holds in this process
	agreed bool      // it is in the fleet's policy
	fresh  bool      // noted since the policy was requested: it may be missing from the answer
	idle   time.Time // since when it has no lane; zero while it has, or is ours
}

// dueLane is a lane whose turn it is.
type dueLane struct {
	lane   resque.Lane
	limits []string // its own and the shared ones, each as text
	turn   int64
}

const (
	// fullFor is the longest time until a limit that is used up is tried again.
	fullFor = time.Second

	// A limit is used up for stuckAfter before the holders of its slots are checked. The time
	// until the next check doubles, up to stuckMost.
	stuckAfter = 2 * time.Second
	stuckMost  = time.Minute

	// forgetAfter is how long lanes by which this process does not sort must have been empty
	// before the fleet forgets them. A process that still sorts by them, such as an old one in a
	// rolling deploy, names them again.
	forgetAfter = time.Hour

	// fewJobs is how many jobs say how those behind them are: how large, and whether they are alike. take.lua pops as many where nothing is known.
	fewJobs = 8

	// mostTried is how many lanes one exchange asks for jobs at most. Beyond the number of jobs that it wants, it asks
	// spareTried, because other processes may have emptied some.
	mostTried  = 256
	spareTried = 8
)

// New returns the lanes of a poller. The sorter calls run with functions that must run on the
// poller's goroutine. It calls namesLost when Redis had lost the names of lanes with jobs.
func New(b part.Base, c Classes, run func(func()), namesLost func()) *Lanes {
	l := &Lanes{
		base: b, classes: c, ask: true,
		paused: make(map[string]bool), queues: make(map[string]*queue), full: make(map[string]fullLimit),
		skipped: make(map[resque.Lane]time.Time), checks: make(map[string]slotCheck),
	}
	l.sorter = newSorter(b, c, namesLost, func(name string, lanes []resque.Lane) {
		run(func() { l.sorted(name, lanes) })
	}, func(few *resque.Sorting, lanes []resque.Lane) {
		run(func() { l.sortNext(few, lanes) })
	}, func(name string, n int) {
		if l.Took != nil {
			l.Took(name, n)
		}
	})
	return l
}

// Stop stops the sorter.
func (l *Lanes) Stop() { l.sorter.stop() }

// Any reports whether any queue has lanes or is paused.
func (l *Lanes) Any() bool { return len(l.queues)+len(l.paused) > 0 }

// Quiet reports whether a look of the interval has nothing to do for lanes: there are none, and the fleet knows the numbers of the limits.
func (l *Lanes) Quiet() bool { return !l.Any() && !l.ask && l.known && l.sent }

// Paused reports whether nothing is taken from a queue. A pause ends at its time, whether or not the fleet has noted that.
func (l *Lanes) Paused(name string) bool {
	_, paused := l.paused[name]
	return paused && !l.classes.PauseOver(name)
}

// Len returns how many queues have lanes.
func (l *Lanes) Len() int { return len(l.queues) }

// AskSoon reports whether the next exchange must ask for the policy.
func (l *Lanes) AskSoon() bool { return l.ask }

// Forget makes the next look a full one. Tracking says whether Redis notifies of changes.
func (l *Lanes) Forget(tracking bool) {
	l.tracking, l.ask, l.known = tracking, true, false
	l.placing, l.few = "", nil
	clear(l.full)
	l.lookAtAll()
	l.sorter.changed()
}

func (l *Lanes) lookAtAll() {
	for _, q := range l.queues {
		q.look, q.changed = true, true
	}
}

// Interval is a full look, once an interval. Without tracking there is no other.
func (l *Lanes) Interval() {
	l.ask = l.ask || !l.tracking || l.known && !l.sent
	for _, q := range l.queues {
		q.look = true
	}
}

// Changed takes the names that Redis reported as changed. It returns those that are not about
// lanes, and whether there may now be something to take.
func (l *Lanes) Changed(names []string) (others []string, wakes bool) {
	if len(names) == 0 {
		return nil, false
	}
	others = slices.DeleteFunc(names, func(name string) bool {
		switch kind, what := resque.AboutLanes(name); kind {
		case resque.PolicyChanged:
			l.ask = true
		case resque.LaneChanged:
			if q := l.queues[what]; q != nil {
				q.look, q.changed = true, true
				wakes = wakes || !l.closed(q)
			}
		case resque.SlotFreed:
			if _, full := l.full[what]; full {
				l.freed(what)
				wakes = true
			}
		default:
			if l.queues[name] != nil {
				l.sorter.changed()
			}
			return false
		}
		return true
	})
	return others, wakes
}

// freed updates the lanes when a limit is not used up any more.
func (l *Lanes) freed(limit string) {
	delete(l.full, limit)
	l.lookAtAll()
}

// Tick acts on the times that have come. It reports whether there may now be something to take.
func (l *Lanes) Tick(now time.Time) (some bool) {
	if v := l.classes.Version(); v != l.version {
		l.version, some = v, true
		for name := range l.full { // whose numbers may have changed
			l.freed(name)
		}
		l.resort()
	}
	for name, over := range l.paused {
		if is := l.classes.PauseOver(name); is != over {
			l.paused[name] = is
			some = some || is
		}
	}
	for name, f := range l.full {
		if !now.Before(f.until) {
			l.freed(name)
			some = true
		}
	}
	for lane, until := range l.skipped {
		if !now.Before(until) {
			delete(l.skipped, lane)
			some = true
		}
	}
	if now.Sub(l.checked) > stuckMost {
		l.checked = now
		// The check of a limit that is still used up was put off when its time came.
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

// Next returns the next time at which Tick has something to do; zero if there is none.
func (l *Lanes) Next() (at time.Time) {
	sooner := func(t time.Time) {
		if !t.IsZero() && (at.IsZero() || t.Before(at)) {
			at = t
		}
	}
	for name := range l.paused {
		if left := l.classes.PauseLeft(name); left > 0 {
			sooner(l.base.Clock.Now().Add(left))
		}
	}
	if len(l.queues) == 0 {
		return at
	}
	for _, q := range l.queues {
		sooner(q.next)
		sooner(q.rest)
	}
	for _, f := range l.full {
		sooner(f.until)
	}
	for _, until := range l.skipped {
		sooner(until)
	}
	return at
}

// Sort names the queues that the sorter sorts: those of the given ones that this process sorts.
// It leaves out a queue for which waits returns true. Jobs of such a queue are still to be
// requeued, and must come before those that the sorter finds there.
func (l *Lanes) Sort(all []queues.Queue, waits func(queue string) bool) {
	var names []string
	if len(l.queues) > 0 && l.classes.Any() {
		for _, q := range all {
			if s := l.queues[q.Name]; s != nil && s.sorted && !waits(q.Name) {
				names = append(names, q.Name)
			}
		}
	}
	l.sorter.sort(names)
}

// open reports whether a lane may be asked for jobs.
func (d *dueLane) open(l *Lanes) bool { return !l.blocked(d.limits) && l.skipped[d.lane].IsZero() }

// blocked reports whether one of the limits is used up.
func (l *Lanes) blocked(limits []string) bool {
	return slices.ContainsFunc(limits, func(name string) bool { _, full := l.full[name]; return full })
}

// closed reports whether every lane of the queue waits for a shared limit of whose release Redis
// will notify us.
func (l *Lanes) closed(q *queue) bool {
	return len(q.groups) > 0 && !slices.ContainsFunc(q.groups, func(g *group) bool {
		return !slices.ContainsFunc(g.limits, func(name string) bool { return l.full[name].watched })
	})
}

// ready reports whether there may be something to take from a queue's lanes.
func (l *Lanes) ready(q *queue) bool {
	return q.rest.IsZero() && !l.closed(q) &&
		(q.look || slices.ContainsFunc(q.due, func(d dueLane) bool { return d.open(l) }))
}

// Open reports whether a queue may be asked for jobs, and whether raw: the queue itself is asked,
// not its lanes. Idle says whether a worker is idle: without one, lanes are asked for jobs ahead only while their
// limits are far from used up.
func (l *Lanes) Open(name string, idle bool) (open, raw bool) {
	q := l.queues[name]
	switch {
	case l.Paused(name):
		return false, false
	case q == nil:
		return true, true
	case (idle || q.ample) && l.ready(q):
		return true, false
	}
	return !q.sorted, !q.sorted
}

// Due returns since when the turn of a lane of a queue has come from which jobs may be taken now, of the first such lane and by
// Redis's clock; zero: there is none, as far as is known.
func (l *Lanes) Due(name string) time.Time {
	if q := l.queues[name]; q != nil && !l.Paused(name) {
		for _, d := range q.due {
			if d.open(l) {
				return time.UnixMicro(d.turn)
			}
		}
	}
	return time.Time{}
}

// Empty reports whether, as far as is known, no job waits in a queue's lanes or waits to be
// sorted. It also reports whether the queue itself may hold jobs that stay there.
func (l *Lanes) Empty(name string) (empty, raw bool) {
	q := l.queues[name]
	if q == nil {
		return true, true
	}
	return l.empty(q), !q.sorted
}

func (l *Lanes) empty(q *queue) bool {
	for _, g := range q.groups {
		if g.size > 0 {
			return false
		}
	}
	return !q.look && (!q.sorted || q.unsorted == 0)
}

// Skip has nothing taken from a lane until then: its jobs are for other processes.
func (l *Lanes) Skip(lane resque.Lane, until time.Time) {
	l.skipped[lane] = until
	l.note(lane)
}

// Released updates the limits of a lane after one of its jobs ended or went back. A job that was
// not started gave back the starts that rates had counted. Tracking does not report our own writes
// and forgets the key after them. So if a group of the queue is not in the policy yet, the policy
// is read again.
func (l *Lanes) Released(lane resque.Lane, started bool) {
	for _, name := range lane.LimitTexts() {
		delete(l.checks, name)
		if _, full := l.full[name]; full {
			l.freed(name)
		}
	}
	if q := l.queues[lane.Queue]; q != nil {
		q.look = q.look || !started
		l.askIfUnnamed(q)
	}
}

// Filled must be called for each lane this process puts a job into. Tracking reports that to the
// other processes only.
func (l *Lanes) Filled(lane resque.Lane) {
	l.note(lane)
	q := l.queues[lane.Queue]
	q.look = true
	l.askIfUnnamed(q)
}

// Pushed is called for each queue this process pushes a job to. A sorted one is sorted again.
func (l *Lanes) Pushed(name string) {
	if l.queues[name] != nil {
		l.sorter.changed()
	}
}

// askIfUnnamed has the policy read again if a group of the queue is not in it.
func (l *Lanes) askIfUnnamed(q *queue) {
	l.ask = l.ask || slices.ContainsFunc(q.groups, func(g *group) bool { return !g.agreed })
}

// Found has a queue sorted from now on: a worker found a job in it that has limits here.
func (l *Lanes) Found(lane resque.Lane) {
	if q := l.queues[lane.Queue]; q == nil || !q.sorted {
		l.base.Log.Info("sorting the jobs of a queue by their limits", "queue", lane.Queue)
	}
	l.sorted(lane.Queue, []resque.Lane{lane})
	l.group(lane.Lanes()).ours = true // the class may have been registered after the group was noted
	l.add(lane.Queue).sorted = true
}

// sorted is called when this process has moved jobs into lanes, each of which is named once.
func (l *Lanes) sorted(name string, lanes []resque.Lane) {
	q := l.add(name)
	q.look, q.changed = true, true
	for i, lane := range lanes {
		if i == 0 || lane.Lanes() != lanes[i-1].Lanes() {
			l.note(lane)
		}
		if l.group(lane.Lanes()).whole {
			q.offer(dueLane{lane, lane.LimitTexts(), l.now}, true)
		}
	}
}

// offer has the next take ask a lane that no look has found yet, behind the others. A take that waits for a look
// would come one exchange later. Where a look shows only the first of many lanes, the lane waits for its turn instead.
func (q *queue) offer(d dueLane, put bool) {
	if len(q.due) >= mostTried || slices.ContainsFunc(q.due, func(of dueLane) bool { return of.lane == d.lane }) {
		return
	}
	q.due = append(q.due, d)
	if put {
		q.put = append(q.put, d)
	}
}
