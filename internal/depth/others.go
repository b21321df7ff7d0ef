package depth

import (
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// workersPage is how many ids of workers a renewal reads at about.
	workersPage = 500

	// mostRecords is how many records a renewal reads.
	mostRecords = 50

	// mostLists is how many names and patterns of others' queues are looked at. More stand for all queues.
	mostLists = 1000
)

// others are those that take jobs and do not say how many: workers of other programs, and processes and servers of releases
// without the duties.
type others struct {
	next int // which queue's head is looked at next

	workers pages           // what workers of other programs ask
	records map[string]asks // of processes
	unread  bool            // not all are read
	takers  map[string]int  // servers to their duties; negative: not read
	leases  int             // jobs that clients hold
	heard   bool            // takers and leases are known
}

// asks is what a process says of itself.
type asks struct {
	lists  []string
	duties int
}

func newOthers() others {
	return others{records: make(map[string]asks), takers: make(map[string]int), unread: true}
}

// load reads who they are.
func (o *others) load(c *resque.Cargo, s resque.Store, members []string, seldom bool, now time.Time, refused func(error)) {
	if seldom || o.workers.cursor != "" {
		s.ReadForeign(c, o.workers.at(), workersPage, func(lists []string, cursor string) { o.workers.took(lists, cursor, mostLists+1) }, refused)
	}
	if seldom {
		s.ReadTakers(c, now, o.heardTakers)
	}
	slices.Sort(members)
	for id := range o.records {
		if _, lives := slices.BinarySearch(members, id); !lives {
			delete(o.records, id)
		}
	}
	reads := 0
	for _, id := range members {
		if _, known := o.records[id]; !known {
			if reads++; reads <= mostRecords {
				s.ReadAsks(c, id, func(lists []string, duties int) { o.records[id] = asks{lists, duties} })
			}
		}
	}
	o.unread = reads > mostRecords
	reads = 0
	for id, duties := range o.takers {
		if duties < 0 {
			if reads++; reads <= mostRecords {
				s.ReadTakerDuties(c, id, func(duties int) { o.takers[id] = duties })
			}
		}
	}
}

// heardTakers takes which servers have records.
func (o *others) heardTakers(leases int, takers []string) {
	known := o.takers
	o.leases, o.takers, o.heard = leases, make(map[string]int), true
	for _, id := range takers {
		o.takers[id] = -1
		if duties, ok := known[id]; ok {
			o.takers[id] = duties
		}
	}
}

// known reports whether all of them are known.
func (o *others) known() bool {
	for _, duties := range o.takers {
		if duties < 0 {
			return false
		}
	}
	return o.heard && o.workers.done && !o.unread
}

// countable reports whether all that take from a queue say how many they take.
func (o *others) countable(name string) bool {
	if len(o.workers.whole) > mostLists || o.leases > 0 && len(o.takers) == 0 {
		return false
	}
	for _, duties := range o.takers {
		if duties < resque.Duties { // it serves what its clients ask for
			return false
		}
	}
	for _, p := range o.records {
		if p.duties < resque.Duties && asksFor(p.lists, name) {
			return false
		}
	}
	return !asksFor(o.workers.whole, name)
}

// asksFor reports whether a list of names and patterns has a queue. Goworker's own queues no other program asks.
func asksFor(lists []string, name string) bool {
	return slices.ContainsFunc(lists, func(pattern string) bool {
		return pattern == name || strings.ContainsAny(pattern, "*?[{") && (pattern == "*" || queues.MatchGlob(pattern, name))
	})
}
