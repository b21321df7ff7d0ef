package watch

import (
	"maps"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// Queues is what the poller knows of the lists that queues are: which of them were found empty,
// and whether Redis notifies when they fill. A queue found empty is not asked again until Redis has
// notified that it has filled. Once an interval all are asked anyway; that look needs no new arming,
// since Redis watches a key until it changes. Where there is no tracking only the interval is left,
// and commits: each commit asks all queues, since it goes to Redis in any case.
//
// It belongs to the poller's goroutine.
type Queues struct {
	spec     queues.Spec
	asker    *queues.Asker
	interval time.Duration
	next     time.Time // the next look at all queues

	tracking bool            // Redis notifies of changes
	waiting  bool            // others of its crew are notified of pushes, and not this process
	all      []queues.Queue  // that the list stands for
	former   map[string]bool // were in a list before; Redis may still watch them
	empty    map[string]bool // found empty; with tracking, Redis watches them
	changed  map[string]bool // those that Redis reported while an exchange was under way
	void     bool            // any may have changed meanwhile: the exchange says nothing of empty queues

	full   bool // ask also those that were found empty
	few    bool // those asked last had enough jobs: ask only some
	short  bool // the last look got less than it wanted: arm the next one
	arming bool // arm the look that is planned now

	list          bool // the set of queues must be read
	listed        bool // it has been read since the last forget
	listUnwatched bool // Redis does not watch it

	paused         bool // by the key, for the whole fleet
	recheckPause   bool // see whether the pause is over
	pauseUnwatched bool // Redis does not watch the key

	some []queues.Queue // scratch of plan
	asks []resque.Ask   // scratch of plan
}

func newQueues(spec queues.Spec, order string, interval time.Duration) Queues {
	return Queues{spec: spec, asker: queues.NewAsker(order), interval: interval, changed: make(map[string]bool)}
}

// relist has another list of queues worked. forget must follow.
func (q *Queues) relist(spec queues.Spec, order string) {
	if order != q.asker.Order() {
		q.asker = queues.NewAsker(order)
	}
	if q.former == nil {
		q.former = make(map[string]bool)
	}
	names := make([]string, len(q.all))
	for i, queue := range q.all {
		names[i] = queue.Name
		q.former[queue.Name] = true
	}
	q.spec, q.all = spec, spec.Resolve(names) // of a list with patterns, these until the set of queues was read
	maps.DeleteFunc(q.former, func(name string, _ bool) bool { return spec.Works(name) })
}

// forget makes the next look a full one.
func (q *Queues) forget() {
	q.empty, q.void = make(map[string]bool), true
	q.short, q.few, q.waiting = true, false, false
	q.listUnwatched, q.pauseUnwatched, q.recheckPause = true, true, true
	q.list, q.listed = q.spec.Dynamic(), !q.spec.Dynamic()
	if !q.list {
		q.all = q.spec.Resolve(nil)
	}
}

// tick makes the next look a full one if the interval is over, and reports whether it is and the full look of the last
// interval was planned. Where a turn takes longer than the interval, what else is asked once an interval would else come before
// each look, and none would be made.
func (q *Queues) tick(now time.Time) (begins bool) {
	if now.Before(q.next) {
		return false
	}
	begins = !q.full
	if q.next = now.Add(q.interval); q.waiting {
		q.wait(now)
	}
	if !q.tracking {
		clear(q.empty)
	}
	q.full = true
	q.recheckPause = true
	q.list = q.spec.Dynamic()
	return begins
}

// wait has the process wait for its bell, and look at all queues at least each ClaimEvery.
func (q *Queues) wait(now time.Time) {
	q.waiting = true
	if at := now.Add(resque.ClaimEvery); at.Before(q.next) {
		q.next = at
	}
}

// rewatch has the process wait no more: it asks all queues, and arms the first look if that is wanted.
func (q *Queues) rewatch(arm bool) {
	q.waiting, q.short, q.few, q.void = false, arm, false, true
	clear(q.empty)
}

// Paused reports whether the fleet is paused, as far as is known.
func (q *Queues) Paused() bool { return q.paused }

// filled takes a name that Redis reported as changed, and reports whether there may now be
// something to take.
func (q *Queues) filled(name string) bool {
	switch name {
	case resque.PauseChanged:
		q.recheckPause, q.pauseUnwatched = true, true
	case resque.QueuesChanged:
		q.list, q.listUnwatched = true, true
	default:
		if q.former[name] || q.waiting {
			return false
		}
		delete(q.empty, name)
		q.changed[name] = true
		return true
	}
	return false
}

// pushed must be called for each queue this process pushes to. Tracking does not report our own
// writes, and stops watching the key after them.
func (q *Queues) pushed(name string) {
	delete(q.empty, name)
	q.listUnwatched = true // the name may have been put back into the set
}

// unpause ends the pause once, when it is time to see whether it is over. The next answer says
// whether it still holds.
func (q *Queues) unpause() {
	if q.paused && q.recheckPause {
		q.paused, q.recheckPause = false, false
	}
}

// mayPlan reports whether plan would have something to ask, but for the queues themselves.
func (q *Queues) mayPlan(committing bool) bool {
	return q.list || q.full && len(q.all) > 0 || committing && !q.tracking
}

// plan returns which queues to ask for n jobs, and whether to read the set of queues. Without
// tracking, an exchange that commits asks all of them. The slice is valid until the next call.
// Source says of each queue whether it may be asked at all, and whether as a list; nil: all may.
func (q *Queues) plan(n int, committing bool, source func(name string) (open, raw bool)) (asks []resque.Ask, list bool) {
	if committing && !q.tracking {
		clear(q.empty)
		q.list = q.spec.Dynamic()
	}
	some, unwatched := q.all, len(q.all)
	if len(q.empty) > 0 || source != nil {
		q.some, unwatched = q.some[:0], 0
		for _, queue := range q.all {
			open, raw := true, true
			if source != nil {
				open, raw = source(queue.Name)
			}
			switch {
			case open && !raw:
				q.some = append(q.some, queue)
			case raw && !q.empty[queue.Name]:
				unwatched++
				fallthrough
			case raw && q.full:
				q.some = append(q.some, queue)
			}
		}
		some = q.some
	}
	q.few = q.few && !q.full
	q.full, q.void = false, false
	clear(q.changed)
	list, q.list = q.list, false
	if len(some) > 0 || list {
		q.arming = q.short && (unwatched > 0 && !q.waiting || q.pauseUnwatched) || list && q.listUnwatched
		q.pauseUnwatched = q.pauseUnwatched && !q.arming
		q.listUnwatched = q.listUnwatched && !list
	}
	if len(some) == 0 {
		return nil, list
	}
	q.asks = q.asks[:0]
	for _, a := range q.asker.Plan(some, n, q.few) {
		q.asks = append(q.asks, resque.Ask{Queue: a.Queue, Quota: a.Quota})
	}
	return q.asks, list
}

// answered takes what an exchange found in the lists. It reports whether the queues that the list
// stands for are not those of before.
func (q *Queues) answered(x *resque.Exchange, r resque.Exchanged) (others bool) {
	if x.List && !r.Unlisted {
		q.listed = true
		if all := q.spec.Resolve(r.Queues); !slices.Equal(all, q.all) {
			q.all, others = all, true
		}
	}
	q.listUnwatched = q.listUnwatched || r.Unlisted
	if q.paused = r.Paused; r.Paused {
		q.short = true
		if q.tracking && !x.Arm {
			q.recheckPause, q.pauseUnwatched = true, true // an exchange that arms has Redis watch the key
		}
		return others
	}
	if x.Want == 0 {
		return others
	}
	q.short = len(r.Jobs) < x.Want
	q.few = !q.short
	for queue, n := range byQueue(r.Jobs) {
		q.asker.Took(queue, n)
		delete(q.empty, queue)
	}
	for _, name := range r.Empty {
		if !q.void && !q.changed[name] && (x.Arm || !q.tracking || q.waiting) {
			q.empty[name] = true
		}
	}
	return others
}

// byQueue yields each queue that gave jobs and how many, in the order of the answer. The jobs of a
// queue stand together.
func byQueue(jobs []resque.Reserved) func(yield func(queue string, n int) bool) {
	return func(yield func(queue string, n int) bool) {
		for i := 0; i < len(jobs); {
			queue, from := jobs[i].Queue, i
			for i < len(jobs) && jobs[i].Queue == queue {
				i++
			}
			if !yield(queue, i-from) {
				return
			}
		}
	}
}
