package depth

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// bridgesEvery is how often a process says what its bridges do.
	bridgesEvery = 10 * time.Second

	// strangersFor is how long the ages of a queue are not counted after a worker of the other library had a task in hand: it takes
	// tasks and counts none.
	strangersFor = 10 * time.Minute
)

// Bridges are the queues of another library from which bridges of a process take tasks. They are no queues of Resque, so the keeper does
// not follow them: it may lack the permission for their keys. A bridge sees with each step how many tasks wait, and the
// process finds out itself how long they have. It is a rider of the lease.
type Bridges struct {
	base    part.Base
	process func() resque.Process

	mu  sync.Mutex
	all map[string]*bridged // by their names

	// of the goroutine of the lease
	said time.Time
	off  bool // Redis refuses to count
}

// bridged is one of these queues.
type bridged struct {
	odometer
	to        string
	delta     int64     // taken, and not yet said
	waiting   int64     // as of the last step
	strangers time.Time // when a worker of the other library had a task in hand last, by the machine's clock

	// of the goroutine of the lease
	heard        bool
	there, taken int64 // of one moment
	before       int64 // taken at the last look
}

// NewBridges returns Bridges of no queue. process is as whom the process is in the fleet.
func NewBridges(b part.Base, process func() resque.Process) *Bridges {
	return &Bridges{base: b, process: process, all: make(map[string]*bridged)}
}

// Step says what a step of a bridge did: how many tasks it took, how many wait behind it, and whether workers of the other
// library have tasks in hand. It is safe for concurrent use.
func (b *Bridges) Step(queue, to string, took, waiting int, strangers bool) {
	if b == nil { // no daemon runs
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	q := b.all[queue]
	if q == nil {
		if len(b.all) == resque.MostBridges {
			return
		}
		q = &bridged{}
		b.all[queue] = q
	}
	q.to, q.waiting = to, int64(waiting)
	q.delta += int64(took)
	if strangers {
		q.strangers = b.base.Clock.Now()
	}
}

// Load has the renewal add what was taken, read what all bridges took, and write what is known.
func (b *Bridges) Load(c *resque.Cargo) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.all) == 0 || b.off {
		return
	}
	names, took := slices.Sorted(maps.Keys(b.all)), make(map[string]int64)
	for _, name := range names {
		q := b.all[name]
		if q.delta != 0 {
			took[name] = q.delta
		}
		q.delta, q.there = 0, q.waiting
	}
	b.base.Store.AddTaken(c, took, b.refused)
	b.base.Store.ReadTakenOf(c, names, func(taken []int64) {
		b.mu.Lock()
		defer b.mu.Unlock()
		for i, name := range names {
			q := b.all[name]
			q.heard, q.taken = true, taken[i]
		}
	})
	if now := b.base.Clock.Now(); now.Sub(b.said) >= bridgesEvery || now.Before(b.said) {
		var all []resque.Bridge
		for _, name := range names {
			if q := b.all[name]; !q.looked.IsZero() {
				all = append(all, q.about(name, now))
			}
		}
		if len(all) > 0 {
			b.said = now
			resque.WriteBridges(c, b.base.Store.ProcessKey(b.process().ID), all)
		}
	}
}

// Answered takes the time of what was read.
func (b *Bridges) Answered(_ bool, due resque.Due) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, q := range b.all {
		if !q.heard {
			continue
		}
		q.heard = false
		if due.Now.Before(q.looked) || q.taken < q.before { // Redis's clock has jumped back, or Redis lost the count
			q.odometer = odometer{}
		}
		q.before = q.taken
		q.look(due.Now, q.taken, q.there)
	}
}

// about is what is known of the queue.
func (q *bridged) about(name string, now time.Time) resque.Bridge {
	r := resque.Bridge{Queue: name, To: q.to, At: q.looked.UnixMilli(), Waiting: q.length, Taken: q.taken}
	if !q.strangers.IsZero() && now.Sub(q.strangers) < strangersFor {
		return r
	}
	r.Method = resque.AgeCounted
	if oldest, counted := q.oldest(); !oldest.IsZero() {
		if r.Oldest = oldest.UnixMilli(); !counted {
			r.Method = resque.AgeSeen
		}
	}
	return r
}

func (b *Bridges) refused(err error) {
	if !b.off {
		b.off = true
		b.base.Log.Warn("how many tasks the bridges of this process take cannot be counted, so operators do not see it; tasks become jobs as before", "error", err)
	}
}
