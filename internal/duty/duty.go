// Package duty decides which process of a fleet is its keeper: the one that has the duties which one process is to have and
// which older releases do not know. The leader, which recovers and prunes, may be of an older release.
package duty

import (
	"math/rand/v2"
	"slices"
	"sync/atomic"

	"github.com/goworker/goworker/internal/resque"
)

// mostReads is how many records of processes a renewal reads, and firstReads how many the first one does: in a fleet of one release each
// has the duties.
const (
	mostReads  = 50
	firstReads = 3
)

// Fleet is what a Keeper needs to know of the fleet.
type Fleet interface {
	// Self is the id of this process.
	Self() string

	// Members are the ids of the processes that live, this one among them, in any order. The Keeper asks only after a renewal that has
	// read them.
	Members() []string
}

// Keeper is a rider of the lease. It finds out whether this process is the keeper: the one with the smallest id among those
// whose records say that they have the duties. For a moment two processes may both be, or none.
//
// While it knows a process before this one that lives and has the duties, it needs to know no more of the fleet. It takes any of them:
// were it the same for all processes, all would read the fleet when that one dies.
type Keeper struct {
	store resque.Store
	least int // the duties of a process that may be the keeper: this number or a higher one
	fleet Fleet
	keeps atomic.Bool

	// of the lease's goroutine
	duties map[string]int // of processes whose records were read
	unread []string       // processes before this one whose records were not; those that are read next come first
	behind string         // a process before this one that has the duties; "": none is known
}

// New returns a Keeper of the duties that processes have whose records say this number or a higher one.
func New(s resque.Store, least int, f Fleet) *Keeper {
	return &Keeper{store: s, least: least, fleet: f, duties: make(map[string]int)}
}

// Keeps reports whether this process is the keeper. It is safe for concurrent use.
func (k *Keeper) Keeps() bool { return k.keeps.Load() }

// Behind returns a process before this one that has the duties; "": the next renewal is to read the members of the fleet. It is for
// the lease's goroutine, as Read and Forget are.
func (k *Keeper) Behind() string { return k.behind }

// Read is called after a renewal that has read the members of the fleet: the process before this one does not live, or none was known.
func (k *Keeper) Read() {
	self, members := k.fleet.Self(), k.fleet.Members()
	slices.Sort(members)
	before, known := slices.BinarySearch(members, self)
	for id := range k.duties {
		if _, lives := slices.BinarySearch(members[:before], id); !lives {
			delete(k.duties, id)
		}
	}
	k.unread = nil
	var able []string
	for _, id := range members[:before] {
		switch duties, read := k.duties[id]; {
		case !read:
			k.unread = append(k.unread, id)
		case duties >= k.least:
			able = append(able, id)
		}
	}
	k.behind = ""
	if len(able) > 0 {
		k.behind, k.unread = able[rand.IntN(len(able))], nil
	}
	rand.Shuffle(len(k.unread), func(i, j int) { k.unread[i], k.unread[j] = k.unread[j], k.unread[i] })
	k.keeps.Store(known && k.behind == "" && len(k.unread) == 0)
}

// Forget is called when this process has another id.
func (k *Keeper) Forget() { k.behind, k.unread = "", nil }

// Load has the renewal read the records that decide it. A process reads each once, and none once it knows one that has the duties.
func (k *Keeper) Load(c *resque.Cargo) {
	if c.Last {
		return
	}
	most := mostReads
	if len(k.duties) == 0 {
		most = firstReads
	}
	for _, id := range k.unread[:min(most, len(k.unread))] {
		k.store.ReadDuties(c, id, func(duties int) { k.duties[id] = duties })
	}
}

// Answered is part of a rider: Read decides whether this process is the keeper.
func (k *Keeper) Answered(bool, resque.Due) {}
