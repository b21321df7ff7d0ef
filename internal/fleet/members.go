package fleet

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goworker/goworker/internal/resque"
)

// members is the fleet as the renewals of the lease have shown it. The lease's goroutine writes it; all may read it.
//
// A renewal does not read who is in the fleet while another process is known that lives and comes before this one: this one then
// neither leads nor is the keeper. So one process of a fleet reads all ids each time, two where releases are mixed, and the others do
// where they lose the process before them. Each renewal reads the leases of those that may be dead.
type members struct {
	ids   atomic.Pointer[[]string] // of those that live; nil: the last renewal did not read them
	count atomic.Int64             // of all; 0 before the first renewal
	leads atomic.Bool

	vigil vigil
}

// saw takes what a renewal has read.
func (m *members) saw(self string, r resque.Renewed) {
	m.count.Store(int64(r.Processes))
	if !r.All { // a process before this one lives
		m.leads.Store(false)
		m.ids.Store(nil)
		return
	}
	m.ids.Store(&r.Members)
	m.leads.Store(len(r.Members) > 0 && slices.Min(r.Members) == self)
}

// Leads reports whether this process is the leader: the one that does what a single process of
// the fleet must do. It has the lowest id of those that live.
func (m *members) Leads() bool { return m.leads.Load() }

// Peers returns how many processes the fleet has.
func (m *members) Peers() int { return int(max(1, m.count.Load())) }

// Members returns the ids of the processes that live, as the last renewal has read them: it reads them for the leader and the keeper. For
// others, and before the first renewal, there are none.
func (m *members) Members() []string {
	if ids := m.ids.Load(); ids != nil {
		return slices.Clone(*ids)
	}
	return nil
}

// Alive reports whether a process is alive. Of one that it is asked about for the first time it is not known, and then it is: the
// next renewals read it.
func (m *members) Alive(process string) bool { return m.vigil.alive(process) }

// mostWatched is how many processes a vigil watches: those that it was asked about last.
const mostWatched = 32

// vigil is a rider that finds out which processes live of a few that a part asks about. It is safe for concurrent use.
type vigil struct {
	store resque.Store

	mu      sync.Mutex
	watched []string // the last in front
	dead    map[string]bool
}

func (v *vigil) alive(process string) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if n := slices.Index(v.watched, process); n >= 0 {
		v.watched = slices.Delete(v.watched, n, n+1)
	}
	v.watched = slices.Insert(v.watched, 0, process)
	if len(v.watched) > mostWatched {
		delete(v.dead, v.watched[mostWatched])
		v.watched = v.watched[:mostWatched]
	}
	return !v.dead[process]
}

func (v *vigil) heard(process string, lives bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	switch {
	case !slices.Contains(v.watched, process):
	case lives:
		delete(v.dead, process)
	default:
		if v.dead == nil {
			v.dead = make(map[string]bool)
		}
		v.dead[process] = true
	}
}

// Load has a renewal read which of the processes live.
func (v *vigil) Load(c *resque.Cargo) {
	v.mu.Lock()
	watched := slices.Clone(v.watched)
	v.mu.Unlock()
	if len(watched) > 0 && !c.Last {
		v.store.ReadAlive(c, watched, v.heard)
	}
}

// Answered is part of a rider.
func (v *vigil) Answered(bool, resque.Due) {}
