// Package watch decides from where the poller asks for jobs, and when: from the queues, from the
// lanes of sorted queues, and not from queues that it skips for a while.
package watch

import (
	"slices"
	"time"

	"github.com/goworker/goworker/internal/lanes"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// Order is the poller's source of jobs. It asks queues and lanes in the order of a list, which may change: see Work.
// It belongs to the poller's goroutine.
type Order struct {
	Queues
	base     part.Base
	lanes    *lanes.Lanes
	skip     skipList
	wakeups  wakeups
	exits    bool
	waits    func(queue string) bool // see Options
	closed   func(queue string) bool // see Options
	took     func(string, int)       // see Options
	leave    func(works func(queue string) bool)
	changes  []change // to come, in their order
	keys     keys
	sentries sentries
	ride     Ride
	run      func(func()) // see Options
	said     logging.Once
}

// List is which queues an Order asks, and how.
type List struct {
	Queues queues.Spec
	Order  string // in which they are asked, as queues.Strict

	// Closed reports whether a queue is not to be asked now, nor its lanes; nil: none is. When that changes, Changed is
	// called with the queue.
	Closed func(queue string) bool
}

// Options is what an Order needs to know of the settings, and of others.
type Options struct {
	List
	Interval time.Duration // between looks at all queues

	// Exits says that the process is to end once all queues are empty.
	Exits bool

	// Peers returns how many processes there are.
	Peers func() int

	// Program is which jobs the process can run: processes with the same text and the same queues call each other.
	Program string

	// Waits reports whether jobs of a queue are still to be put into lanes by the poller. Nothing
	// else sorts the queue meanwhile.
	Waits func(queue string) bool

	// Leave has the jobs go back that this process holds ahead and whose queues it works no more.
	Leave func(works func(queue string) bool)

	// Took is called with how many jobs were taken from a queue; negative: they went back. nil: nothing is to count them.
	// Jobs that are put into lanes have left their queue.
	Took func(queue string, n int)

	// Run has the poller's goroutine run a function.
	Run func(func())

	// Watched are the keys that features watch. Busy reports whether a worker has a job.
	Watched []outcome.Watched
	Busy    func() bool
}

// New returns a source that takes from queues and from lanes.
func New(b part.Base, l *lanes.Lanes, o Options) *Order {
	s := &Order{
		Queues: newQueues(o.Queues, o.Order, o.Interval),
		base:   b, lanes: l, skip: make(skipList), waits: o.Waits, closed: o.Closed, exits: o.Exits, took: o.Took, leave: o.Leave, run: o.Run,
		sentries: sentries{peers: o.Peers, program: o.Program},
		keys:     newKeys(b, o.Watched, o.Busy, o.Interval),
	}
	s.ride.order = s
	if s.took == nil {
		s.took = func(string, int) {}
	}
	l.Took = s.took
	s.wakeups = wakeups{clock: b.Clock, peers: func() int {
		if s.posts() {
			return resque.MostSentries
		}
		return o.Peers()
	}}
	s.sentries.crewOf(o.Queues)
	s.forget()
	return s
}

// change is a list that is to be worked, and what is called when it is.
type change struct {
	List
	done func()
}

// Work has the Order ask the queues of another list, and calls done when it does. That is in a Tick: between two exchanges,
// when all is known that Redis has reserved for this process. No job of a queue that the list has not is taken, or started,
// after that.
func (o *Order) Work(l List, done func()) { o.changes = append(o.changes, change{l, done}) }

// relist makes the changes that are to come.
func (o *Order) relist() {
	for _, c := range o.changes {
		o.closed = c.Closed
		o.Queues.relist(c.Queues, c.Order)
		o.sentries.crewOf(c.Queues)
		o.forget()
		o.leave(c.Queues.Works)
		c.done()
	}
	o.changes = nil
}

// Lanes returns the lanes that the Order asks.
func (o *Order) Lanes() *lanes.Lanes { return o.lanes }

// Stop stops what the source has started.
func (o *Order) Stop() { o.lanes.Stop() }

// Connected is called when there is a new connection, and says whether Redis notifies of changes
// on it. The next look is a full one.
func (o *Order) Connected(tracking bool) {
	o.tracking, o.keys.tracking = tracking, tracking
	o.sentries.watched = false
	o.forget()
}

// forget makes the next look a full one.
func (o *Order) forget() {
	o.Queues.forget()
	o.withdraw()
	o.sentries.claimed = time.Time{}
	o.wakeups.stop()
	o.wakeups.empty = 0
	o.keys.forget()
	o.lanes.Forget(o.tracking)
	o.lanes.Work(o.all)
}

// Tick is called each turn, before the others. It acts on times that have come, and reports whether
// the fleet is paused, as far as is known.
func (o *Order) Tick(now time.Time) (paused bool) {
	if len(o.changes) > 0 {
		o.relist()
	}
	if o.waiting && !o.posts() {
		o.unpost()
	}
	if !o.wakeups.waits(now) {
		o.wakeups.stop()
	}
	o.skip.tick(now)
	if o.lanes.Tick(now) {
		o.wakeups.stop() // that is no push, for which others may go first
	}
	if o.tick(now) {
		o.lanes.Interval()
	}
	o.lanes.Sort(o.all, o.waits)
	return o.paused
}

// Changed takes the names of what Redis reported as changed; all: anything may have changed, and
// the next look is a full one.
func (o *Order) Changed(names []string, all bool) {
	if all {
		o.forget()
		return
	}
	names, wakes := o.lanes.Changed(o.keys.changed(names))
	for _, name := range names {
		if name == resque.Called {
			o.called()
			continue
		}
		wakes = o.filled(name) || wakes
	}
	if wakes {
		o.wakeups.wake()
	}
}

// Plan adds to the exchange what it asks for: want jobs at most, of which idle may start at once.
// The exchange holds already what it commits.
func (o *Order) Plan(x *resque.Exchange, want, idle int, now time.Time) {
	if o.unpause(); want > 0 && !o.paused && !o.lanes.AskPolicy(x) {
		o.ask(x, want, min(want, idle), now)
	}
	o.lanes.Sorting(x)
	x.Sizes = o.skip.unmeasured()
	o.post(x, want, now)
}

// ask asks the queues themselves or the lanes of one, whichever is first in the order that was
// planned. So lanes have their part by strict order as by weight. Jobs from lanes are prefetched only
// where their limits have room for many more: elsewhere they would hold slots while they wait.
func (o *Order) ask(x *resque.Exchange, want, idle int, now time.Time) {
	if o.wakeups.waits(now) {
		return
	}
	var source func(name string) (open, raw bool)
	if len(o.skip) > 0 || o.lanes.Any() || o.closed != nil {
		source = func(name string) (open, raw bool) {
			if o.skip.skips(name, now) || o.isClosed(name) {
				return false, false
			}
			return o.lanes.Open(name, idle > 0)
		}
	}
	if x.Asks, x.List = o.plan(want, committing(x), source); len(x.Asks) > 0 || x.List {
		o.withdraw()
	}
	if len(x.Asks) > 0 && o.lanes.Len() > 0 {
		lanes := func(a resque.Ask) bool {
			_, raw := o.lanes.Open(a.Queue, idle > 0)
			return !raw
		}
		if at := slices.IndexFunc(x.Asks, lanes); at == 0 {
			x.Take, x.Asks = o.lanes.Take(x.Asks[0].Queue, want, want-max(idle, 0)), nil
		} else if at > 0 {
			x.Asks = x.Asks[:at]
		}
	}
	if len(x.Asks) > 0 {
		x.Want = want
	}
	x.Arm = (len(x.Asks) > 0 || x.List) && o.tracking && o.arming
}

func committing(x *resque.Exchange) bool { return len(x.Done)+len(x.Ended) > 0 }

// Hungry reports whether Plan would have something to ask now. Commits says whether the next
// exchange commits.
func (o *Order) Hungry(now time.Time, commits bool) bool {
	if o.paused && !o.recheckPause || o.wakeups.waits(now) {
		return false
	}
	return o.mayPlan(commits) || o.lanes.AskSoon() || slices.ContainsFunc(o.all, func(q queues.Queue) bool {
		open, raw := o.lanes.Open(q.Name, true)
		return open && (!raw || !o.empty[q.Name]) && !o.skip.skips(q.Name, now) && !o.isClosed(q.Name)
	})
}

func (o *Order) isClosed(queue string) bool { return o.closed != nil && o.closed(queue) }

// Answered takes the answer to an exchange. It reports whether the process is to end because all
// queues are empty.
func (o *Order) Answered(x *resque.Exchange, r resque.Exchanged, now time.Time) (complete bool) {
	o.skip.measured(x.Sizes, r.Sizes)
	o.lanes.Answered(x, r, now)
	if r.Taken != nil {
		o.asker.Took(x.Take.Queues[0], len(r.Jobs))
		o.wakeups.found(len(r.Jobs))
	} else {
		o.count(r.Jobs)
	}
	if o.answered(x, r) {
		o.lanes.Work(o.all)
	}
	if !r.Paused && x.Want > 0 {
		o.wakeups.found(len(r.Jobs))
		if len(o.skip) > 0 {
			for queue, n := range byQueue(r.Jobs) {
				o.skip.took(queue, n)
			}
		}
	}
	o.posted(x, r)
	o.keys.wrote(r.Wrote)
	for _, queue := range r.Filled {
		o.pushed(queue) // after what the answer says of it: it may have been filled later
		o.lanes.Pushed(queue)
	}
	return o.exits && o.drained()
}

// Ended is called when a job has ended or goes back, and once more when Redis has committed that.
func (o *Order) Ended(j *outcome.Job, end *outcome.Commit, committed bool) {
	switch {
	case committed:
		o.keys.committed(end.Effects)
		if j.Lane != nil {
			o.lanes.Released(*j.Lane, end.Started)
		}
		if end.Lane != nil {
			o.lanes.Filled(*end.Lane)
		} else if end.State == outcome.Returned {
			o.skip.returned(j.Queue)
			o.took(j.Queue, -1)
		}
	case end.State == outcome.Passed:
		o.passed(j, end)
	case end.Regroups(j):
		o.lanes.Found(*end.Lane)
	}
}

// count counts jobs that were taken from queues. Those of a queue come together.
func (o *Order) count(jobs []resque.Reserved) {
	for n := 0; len(jobs) > 0; jobs, n = jobs[n:], 0 {
		for n < len(jobs) && jobs[n].Queue == jobs[0].Queue {
			n++
		}
		o.took(jobs[0].Queue, n)
	}
}

// passed has the queue or the lane rest in which a job is left for processes that know its class.
func (o *Order) passed(j *outcome.Job, end *outcome.Commit) {
	now := o.base.Clock.Now()
	if lane := end.Lane; lane != nil {
		o.lanes.Skip(*lane, now.Add(o.interval))
	} else {
		o.skip.passed(j.Queue, now, o.interval)
	}
	if o.said.News(j.Queue, "") {
		o.base.Log.Info("jobs of classes that have no handler here are left to others; their queue rests for an interval", "queue", j.Queue)
	}
}

// drained reports whether every queue was found empty, or with jobs for other processes only.
// Redis must not have notified of a change since, and the fleet must not be paused.
func (o *Order) drained() bool {
	return o.listed && !o.paused && !slices.ContainsFunc(o.all, func(q queues.Queue) bool {
		empty, raw := o.lanes.Empty(q.Name)
		return !empty || raw && !o.empty[q.Name] && !o.skip.seen(q.Name)
	})
}

// Next returns when the poller must turn again if nothing happens before. Taking says whether jobs
// from lanes could start now.
func (o *Order) Next(taking bool) time.Time {
	o.offer()
	at := o.next
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	sooner(o.wakeups.until) // perhaps it has come since the last Tick, which has not seen it
	sooner(o.skip.next())
	sooner(o.keys.next())
	if taking && !o.paused {
		sooner(o.lanes.Next())
	}
	return at
}
