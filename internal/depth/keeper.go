package depth

import (
	"slices"
	"time"

	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// mostQueues is how many queues a keeper follows: those that it knew first.
	mostQueues = 512

	// mostLooks is how many of them a renewal looks at, and mostHeads at how many of their heads.
	mostLooks = 200
	mostHeads = 4

	// mostNames is how many names of queues it remembers, to see that one has gone.
	mostNames = 10 * mostQueues

	// pageSize is how many names a renewal reads at about: of queues, of workers, and of what was taken.
	pageSize = 200

	// each is how many renewals apart the keeper asks again what changes seldom.
	each = 5

	// rewrites is how old what is written of a queue becomes at most.
	rewrites = time.Minute

	// resumes is how long the keeper before may have been away: longer, and it is not known when jobs came meanwhile.
	resumes = 30 * time.Second

	// unused is how long a queue without a job is followed where others wait for its place.
	unused = 24 * time.Hour

	// longName is how long the name of a queue may be that is followed.
	longName = 128
)

// Fleet is what a Keeper needs to know of its fleet. Its methods are called by the goroutine of the lease.
type Fleet interface {
	// Keeps reports whether this process is the keeper, and Members are the ids of the processes that live.
	Keeps() bool
	Members() []string
}

// Keeper follows the queues of a fleet while this process is the keeper. It is a rider of the lease, and belongs to its
// goroutine.
type Keeper struct {
	base  part.Base
	fleet Fleet
	off   bool // Redis refuses what it writes
	watch *watch
}

// NewKeeper returns a Keeper that knows nothing.
func NewKeeper(b part.Base, f Fleet) *Keeper { return &Keeper{base: b, fleet: f} }

// Load has the renewal read what the keeper follows, and write what it has found out.
func (k *Keeper) Load(c *resque.Cargo) {
	if k.watch == nil || k.off || c.Last || !k.fleet.Keeps() {
		return
	}
	k.watch.load(c, k.base.Store, k.fleet.Members(), k.refused)
}

// Answered takes the time of the renewal: what was read with it is of this time.
func (k *Keeper) Answered(_ bool, due resque.Due) {
	switch {
	case k.off || !k.fleet.Keeps():
		k.watch = nil
	case k.watch == nil:
		k.watch = newWatch(due.Now)
	default:
		k.watch.answered(due.Now)
	}
}

func (k *Keeper) refused(err error) {
	if !k.off {
		k.off = true
		k.base.Log.Warn("how long the jobs of queues wait cannot be found out, so operators do not see it; jobs run as before", "error", err)
	}
}

// watch is what the keeper knows since it is the keeper.
type watch struct {
	now    time.Time // of the last renewal, by Redis's clock
	turn   int
	queues map[string]*queue
	order  []string // their names
	next   int      // which of them is looked at next
	others others

	names, own pages // of the queues
	taken      pages // of what was taken
	forgotten  []string
}

// pages is a scan that is repeated.
type pages struct {
	cursor string // "": to be begun
	found  []string
	whole  []string // what the last whole scan found, sorted
	done   bool     // there was one
}

// at is the cursor to go on with.
func (p *pages) at() string {
	if p.cursor == "" {
		return "0"
	}
	return p.cursor
}

// took takes a page, and keeps so many of its items.
func (p *pages) took(items []string, cursor string, most int) {
	p.found = append(p.found, items[:max(0, min(len(items), most-len(p.found)))]...)
	if p.cursor = cursor; cursor == "0" {
		slices.Sort(p.found)
		p.whole, p.done = slices.Compact(p.found), true
		p.cursor, p.found = "", nil
	}
}

func newWatch(now time.Time) *watch {
	return &watch{now: now, queues: make(map[string]*queue), others: newOthers()}
}

// load adds to a cargo what is written and read.
func (w *watch) load(c *resque.Cargo, s resque.Store, members []string, refused func(error)) {
	w.write(c, s, refused)
	seldom := w.turn%each == 0
	if w.turn == 0 {
		s.ReadDepths(c, w.resume)
	}
	w.turn++
	if seldom || w.names.cursor != "" {
		s.ReadNames(c, false, w.names.at(), pageSize, func(names []string, cursor string) { w.found(&w.names, names, cursor) }, refused)
	}
	if seldom || w.own.cursor != "" {
		s.ReadNames(c, true, w.own.at(), pageSize, func(names []string, cursor string) { w.found(&w.own, names, cursor) }, refused)
	}
	if seldom {
		s.ReadTakenNames(c, w.taken.at(), pageSize, w.heardTaken, refused)
	}
	w.others.load(c, s, members, seldom, w.now, refused)
	s.ReadTaken(c, w.pick(), w.heardLength)
	for _, name := range w.uncounted() {
		s.ReadHead(c, name, func(jobs [][]byte, large bool) {
			switch q := w.queues[name]; {
			case q == nil:
			case large:
				q.rest(w.now)
			default:
				q.jobs = jobs
			}
		})
	}
}

// resume takes what the keeper before has found out.
func (w *watch) resume(depths map[string]resque.Depth) {
	for name, d := range depths {
		if q := w.follow(name); q != nil && w.now.Sub(d.At) < resumes && d.Method == resque.AgeCounted {
			q.resume(d)
		}
	}
}

// follow returns a queue, which is followed from now on if there is room.
func (w *watch) follow(name string) *queue {
	q := w.queues[name]
	if q == nil && len(w.queues) < mostQueues && len(name) <= longName {
		q = &queue{busy: w.now}
		w.queues[name] = q
		w.order = append(w.order, name)
	}
	return q
}

// found takes a page of names of queues.
func (w *watch) found(p *pages, names []string, cursor string) {
	for _, name := range names {
		w.follow(name)
	}
	p.took(names, cursor, mostNames)
}

// pick returns which queues a renewal looks at: all, or so many in turn.
func (w *watch) pick() (names []string) {
	for range min(mostLooks, len(w.order)) {
		w.next %= len(w.order)
		names = append(names, w.order[w.next])
		w.next++
	}
	return names
}

// uncounted returns which queues' heads a renewal looks at.
func (w *watch) uncounted() (names []string) {
	for range len(w.order) {
		if len(names) == mostHeads {
			break
		}
		w.others.next %= len(w.order)
		name := w.order[w.others.next]
		w.others.next++
		if q := w.queues[name]; q.length > 0 && !w.others.countable(name) && !q.restsUntil.After(w.now) {
			names = append(names, name)
		}
	}
	return names
}

// heardTaken forgets what was taken from queues that are not followed, where there are many.
func (w *watch) heardTaken(names []string, all int, cursor string) {
	w.taken.took(nil, cursor, 0)
	if all <= 2*mostQueues {
		return
	}
	for _, name := range names {
		if w.queues[name] == nil {
			w.forgotten = append(w.forgotten, name)
		}
	}
}

// heardLength takes how many jobs a queue has, and how many were taken from it.
func (w *watch) heardLength(name string, taken, length int64) {
	if q := w.queues[name]; q != nil {
		q.heard, q.taken, q.there = true, taken, length
	}
}

// answered takes the time of what was read.
func (w *watch) answered(now time.Time) {
	w.now = now
	known, full := w.others.known(), len(w.queues) == mostQueues
	for name, q := range w.queues {
		if !known {
			q.heard, q.jobs = false, nil
			continue
		}
		if q.heard {
			q.observe(now, w.others.countable(name))
		}
		if q.jobs != nil {
			q.sawHead(now)
		}
		if full && now.Sub(q.busy) > unused || q.length == 0 && !w.exists(name) {
			delete(w.queues, name)
			w.forgotten = append(w.forgotten, name)
			w.order = slices.DeleteFunc(w.order, func(n string) bool { return n == name })
		}
	}
}

// exists reports whether a queue is there, as far as the last whole scans say.
func (w *watch) exists(name string) bool {
	for _, p := range []pages{w.names, w.own} {
		if _, there := slices.BinarySearch(p.whole, name); there || !p.done || len(p.whole) >= mostNames {
			return true
		}
	}
	return false
}

// write writes what has changed.
func (w *watch) write(c *resque.Cargo, s resque.Store, refused func(error)) {
	depths := make(map[string]resque.Depth)
	for name, q := range w.queues {
		if q.heard {
			q.heard = false
			if d := q.depth(w.others.countable(name)); q.news(d) {
				q.written = d
				depths[name] = d
			}
		}
	}
	s.WriteDepths(c, depths, w.forgotten, refused)
	w.forgotten = nil
}
