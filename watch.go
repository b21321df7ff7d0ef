package goworker

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/lanes"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

// watch decides which queues the poller asks and when. A queue found empty is not
// asked again until Redis tells that it has filled; once an interval all are
// looked at anyway, which needs no new arming, since Redis watches a key until it
// changes. Where Redis cannot tell, the interval is all there is, and every commit
// looks at all queues, since it goes to Redis in any case.
//
// It belongs to the poller's goroutine.
type watch struct {
	spec     queues.Spec
	asker    *queues.Asker
	interval time.Duration
	peers    func() int // how many processes there are

	telling bool            // Redis tells
	list    bool            // the set of queues must be read
	listed  bool            // it has been read since the last forget
	queues  []queues.Queue  // what the list of queues comes to
	some    []queues.Queue  // scratch: those of them to ask
	asks    []resque.Ask    // scratch
	rounds  rounds          // queues that hold jobs for others
	empty   map[string]bool // found empty; where Redis tells, it watches them
	hit     map[string]bool // told of while an exchange was under way
	full    bool            // look also into those found empty
	few     bool            // those last asked had enough: ask only some
	short   bool            // the last look got less than it wanted: arm the next one
	arming  bool            // the look now planned should be armed
	lanes   *lanes.Lanes
	want    int // how many jobs may be taken from lanes now

	pauseUnseen bool      // Redis does not watch the pause, …
	listUnseen  bool      // … nor the set of queues
	repause     bool      // see whether the pause is over
	next        time.Time // the next full look
	vain        int       // wakes in a row that found nothing
	hold        time.Time // after such wakes, wait until then
	woken       bool
}

// The bounds of how long a process that woke in vain lets others go first.
const (
	leastHold   = 50 * time.Millisecond
	holdPerPeer = 4 * time.Millisecond
	mostHold    = 250 * time.Millisecond
)

func newWatch(c config, l *lanes.Lanes, peers func() int) watch {
	w := watch{peers: peers, lanes: l, spec: c.queues, asker: queues.NewAsker(c.order), interval: c.interval, hit: make(map[string]bool), rounds: make(rounds)}
	w.forget()
	return w
}

// forget makes the next look a full one.
func (w *watch) forget() {
	w.empty = make(map[string]bool)
	w.short, w.pauseUnseen, w.listUnseen = true, true, true
	w.repause = true
	w.few = false
	w.hold = time.Time{}
	w.vain = 0
	w.lanes.Forget(w.telling)
	w.list, w.listed = w.spec.Dynamic(), !w.spec.Dynamic()
	if !w.list {
		w.queues = w.spec.Resolve(nil)
	}
	w.lanes.Work(w.queues)
}

// remade tells that there is a new connection, and whether Redis tells on it.
func (w *watch) remade(telling bool) {
	w.telling = telling
	w.forget()
}

// tick makes the look a full one once an interval.
func (w *watch) tick(now time.Time) {
	if !now.Before(w.hold) {
		w.hold = time.Time{}
	}
	w.rounds.tick(now)
	if w.lanes.Tick(now) {
		w.hold = time.Time{} // that is no push, for which others may go first
	}
	if now.Before(w.next) {
		return
	}
	w.next = now.Add(w.interval)
	if !w.telling {
		clear(w.empty)
	}
	w.full = true
	w.repause = true
	w.list = w.spec.Dynamic()
	w.lanes.Interval()
}

// changed takes what Redis told.
func (w *watch) changed(names []string, all bool) {
	if all {
		w.forget()
		return
	}
	names, woken := w.lanes.Changed(names)
	for _, name := range names {
		switch name {
		case resque.PauseChanged:
			w.repause, w.pauseUnseen = true, true
		case resque.QueuesChanged:
			w.list, w.listUnseen = true, true
		default:
			delete(w.empty, name)
			w.hit[name] = true
			woken = true
		}
	}
	if woken {
		w.wake()
	}
}

// wake takes note that Redis told of something to take.
func (w *watch) wake() {
	w.woken = true
	if w.vain > 0 && w.hold.IsZero() {
		// A push wakes every idle process, and one of them gets the job. Those
		// that came too late again and again let others go first, for longer the
		// more there are: else Redis would serve all of them for each push.
		limit := min(max(leastHold, time.Duration(w.peers())*holdPerPeer), mostHold)
		w.hold = time.Now().Add(rand.N(min(limit, time.Millisecond<<min(w.vain, 10))))
	}
}

// recheck reports, once, that it is time to see whether the fleet is still paused.
func (w *watch) recheck() bool {
	again := w.repause
	w.repause = false
	return again
}

// arm reports whether the exchange now planned should ask to be told.
func (w *watch) arm() bool { return w.arming }

// plan says which queues to ask for n jobs, and whether the set of queues is to be
// read. With a commit at hand a server that cannot tell is asked for all of them.
// The slice is good until the next call.
func (w *watch) plan(now time.Time, n int, committing bool) (asks []resque.Ask, list bool) {
	if now.Before(w.hold) {
		return nil, false
	}
	if committing && !w.telling {
		clear(w.empty)
		w.list = w.spec.Dynamic()
	}
	queues, unwatched := w.queues, len(w.queues)
	if len(w.empty)+len(w.rounds) > 0 || w.lanes.Any() {
		w.some, unwatched = w.some[:0], 0
		for _, q := range w.queues {
			if w.rounds.resting(q.Name, now) {
				continue
			}
			switch open, raw := w.lanes.Open(q.Name, w.want > 0); {
			case open && !raw:
				w.some = append(w.some, q)
			case raw && !w.empty[q.Name]:
				unwatched++
				fallthrough
			case raw && w.full:
				w.some = append(w.some, q)
			}
		}
		queues = w.some
	}
	w.few = w.few && !w.full
	w.full = false
	clear(w.hit)
	list, w.list = w.list, false
	if len(queues) > 0 || list {
		w.arming = w.short && (unwatched > 0 || w.pauseUnseen) || list && w.listUnseen
		w.pauseUnseen = w.pauseUnseen && !w.arming
		w.listUnseen = w.listUnseen && !list
	}
	if len(queues) == 0 {
		return nil, list
	}
	w.asks = w.asks[:0]
	for _, a := range w.asker.Plan(queues, n, w.few) {
		w.asks = append(w.asks, resque.Ask{Queue: a.Queue, Quota: a.Quota})
	}
	return w.asks, list
}

// hungry reports whether plan would say now that there is something to ask.
func (w *watch) hungry(now time.Time, committing bool) bool {
	return !now.Before(w.hold) && (w.list || w.lanes.AskSoon() || w.full && len(w.queues) > 0 || committing && !w.telling ||
		slices.ContainsFunc(w.queues, func(q queues.Queue) bool {
			open, raw := w.lanes.Open(q.Name, w.want > 0)
			return open && (!raw || !w.empty[q.Name]) && !w.rounds.resting(q.Name, now)
		}))
}

// answered takes what an exchange found.
func (w *watch) answered(x *resque.Exchange, r resque.Exchanged) {
	w.sizesAsked(x, r)
	w.lanes.Answered(x, r, time.Now())
	if r.Taken != nil {
		w.asker.Took(x.Take.Queues[0], len(r.Jobs))
		w.came(len(r.Jobs))
	}
	if x.List && !r.Unlisted {
		w.listed = true
		if queues := w.spec.Resolve(r.Queues); !slices.Equal(queues, w.queues) {
			w.queues = queues
			w.lanes.Work(queues)
		}
	}
	w.listUnseen = w.listUnseen || r.Unlisted
	if r.Paused {
		w.short = true
		if w.telling && !x.Arm {
			w.repause, w.pauseUnseen = true, true // once an arming exchange has read the key, it is watched
		}
		return
	}
	if x.Want == 0 {
		return
	}
	w.short = len(r.Jobs) < x.Want
	w.few = !w.short
	w.came(len(r.Jobs))
	for i := 0; i < len(r.Jobs); {
		queue, from := r.Jobs[i].Queue, i
		for i < len(r.Jobs) && r.Jobs[i].Queue == queue {
			i++
		}
		w.asker.Took(queue, i-from)
		w.rounds.took(queue, i-from)
		delete(w.empty, queue)
	}
	for _, name := range r.Empty {
		if !w.hit[name] && (x.Arm || !w.telling) {
			w.empty[name] = true
		}
	}
}

// came counts how often the process woke in vain.
func (w *watch) came(jobs int) {
	switch {
	case jobs > 0:
		w.vain = 0
	case w.woken:
		w.vain++
	}
	w.woken = false
}

// returned takes note that a job goes back to a queue by our own hand. Redis tells
// nobody of his own changes, and has forgotten thereafter that the queue was watched.
func (w *watch) returned(queue string) {
	delete(w.empty, queue)
	w.listUnseen = true // the name may have been put back into the set
}

// drained reports whether every queue there is was found empty, or with nothing but
// jobs for others, and Redis has told of nothing since.
func (w *watch) drained() bool {
	return w.listed && !slices.ContainsFunc(w.queues, func(q queues.Queue) bool {
		empty, raw := w.lanes.Empty(q.Name)
		return !empty || raw && !w.empty[q.Name] && !w.rounds.seen(q.Name)
	})
}

// nextLook is when the poller must turn again if nothing happens before. The others
// are zero once they were acted on.
func (w *watch) nextLook(others ...time.Time) time.Time {
	at := w.next
	if !w.hold.IsZero() && w.hold.Before(at) { // perhaps past since the tick, which has not seen it
		at = w.hold
	}
	if over := w.rounds.over(); !over.IsZero() && over.Before(at) {
		at = over
	}
	for _, t := range others {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	return at
}
