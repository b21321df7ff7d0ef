// Package duty decides which process of a fleet is its keeper: the one that has the duties which one process is to have and
// which older releases do not know. The leader, which recovers and prunes, may be of an older release.
package duty

import (
	"slices"
	"sync/atomic"

	"github.com/goworker/goworker/internal/resque"
)

// mostReads is how many records of processes a renewal reads.
const mostReads = 50

// Fleet is what a Keeper needs to know of the fleet.
type Fleet interface {
	// Self is the id of this process.
	Self() string

	// Members are the ids of the processes that live, this one among them, in any order.
	Members() []string
}

// Keeper is a rider of the lease. It finds out whether this process is the keeper: the one with the smallest id among those
// whose records say that they have the duties. For a moment two processes may both be, or none.
type Keeper struct {
	store resque.Store
	least int // the duties of a process that may be the keeper: this number or a higher one
	fleet Fleet
	keeps atomic.Bool

	// of the lease's goroutine
	duties map[string]int // of processes whose records were read
}

// New returns a Keeper of the duties that processes have whose records say this number or a higher one.
func New(s resque.Store, least int, f Fleet) *Keeper {
	return &Keeper{store: s, least: least, fleet: f, duties: make(map[string]int)}
}

// Keeps reports whether this process is the keeper. It is safe for concurrent use.
func (k *Keeper) Keeps() bool { return k.keeps.Load() }

// Load has the renewal read the records that decide it. A process reads each once, and none behind the first that has
// the duties.
func (k *Keeper) Load(c *resque.Cargo) {
	if c.Last {
		return
	}
	unread, _ := k.before()
	for _, id := range unread[:min(mostReads, len(unread))] {
		k.store.ReadDuties(c, id, func(duties int) { k.duties[id] = duties })
	}
}

// Answered decides again whether this process is the keeper.
func (k *Keeper) Answered(bool, resque.Due) {
	unread, first := k.before()
	k.keeps.Store(first && len(unread) == 0)
}

// before goes through the processes before this one, by their ids, up to the first that has the duties. It returns those
// whose records are unread, and whether none is known to have the duties.
func (k *Keeper) before() (unread []string, first bool) {
	self, members := k.fleet.Self(), k.fleet.Members()
	slices.Sort(members)
	for id := range k.duties {
		if _, lives := slices.BinarySearch(members, id); !lives {
			delete(k.duties, id)
		}
	}
	for _, id := range members {
		duties, read := k.duties[id]
		switch {
		case id >= self:
			return unread, true
		case !read:
			unread = append(unread, id)
		case duties >= k.least:
			return unread, false
		}
	}
	return unread, false // the fleet does not know this process
}
