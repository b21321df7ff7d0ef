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
	missing map[string]bool // processes and servers whose record was not there: it is read again each so often
	leases  int             // jobs that clients hold
	heard   bool            // takers and leases are known
}

// asks is what a process says of itself.
type asks struct {
	lists  []string
	duties int
}

func newOthers() others {
	return others{records: make(map[string]asks), takers: make(map[string]int), missing: make(map[string]bool), unread: true}
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
			delete(o.missing, id)
		}
	}
	reads := 0
	o.unread = false
	for _, id := range members {
		_, known := o.records[id]
		if known && !(seldom && o.missing[id]) {
			continue
		}
		if reads++; reads > mostRecords {
			o.unread = o.unread || !known
		} else {
			s.ReadAsks(c, id, func(lists []string, duties int, ok bool) {
				if o.missing[id] = !ok; !ok {
					lists = []string{"*"} // it may ask any
				}
				o.records[id] = asks{lists, duties}
			})
		}
	}
	reads = 0
	for id, duties := range o.takers {
		if duties >= 0 && !(seldom && o.missing[id]) {
			continue
		}
		if reads++; reads <= mostRecords {
			s.ReadTakerDuties(c, id, func(duties int, ok bool) { o.takers[id], o.missing[id] = duties, !ok })
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
		delete(known, id)
	}
	for id := range known { // it has gone
		delete(o.missing, id)
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
