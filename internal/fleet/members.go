package fleet

import (
	"slices"
	"sync/atomic"

	"github.com/goworker/goworker/internal/resque"
)

// members is the fleet as the last renewal of the lease has shown it. The lease's goroutine
// writes it; all may read it.
type members struct {
	leases atomic.Pointer[[]resque.Lease] // nil before the first renewal
	leads  atomic.Bool
}

// update replaces what is known of the fleet.
func (m *members) update(self string, leases []resque.Lease) {
	m.leases.Store(&leases)
	m.leads.Store(leader(leases) == self)
}

func (m *members) all() []resque.Lease {
	if leases := m.leases.Load(); leases != nil {
		return *leases
	}
	return nil
}

// Leads reports whether this process is the leader: the one that does what a single process of
// the fleet must do.
func (m *members) Leads() bool { return m.leads.Load() }

// Peers returns how many processes the fleet has.
func (m *members) Peers() int {
	if leases := m.leases.Load(); leases != nil {
		return len(*leases)
	}
	return 1
}

// Members returns the ids of the processes that live: at most the two thousand that a renewal reads. Before the first
// renewal there are none.
func (m *members) Members() (ids []string) {
	for _, l := range m.all() {
		if !l.Fenced() {
			ids = append(ids, l.Process)
		}
	}
	return ids
}

// Alive reports whether a process is alive. Before the first renewal every process is.
func (m *members) Alive(process string) bool {
	leases := m.leases.Load()
	return leases == nil || slices.ContainsFunc(*leases, func(l resque.Lease) bool { return l.Process == process && !l.Fenced() })
}

// leader returns the live process with the lowest id.
func leader(leases []resque.Lease) string {
	first := ""
	for _, l := range leases {
		if !l.Fenced() && (first == "" || l.Process < first) {
			first = l.Process
		}
	}
	return first
}
