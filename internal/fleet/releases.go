package fleet

import (
	"slices"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

const (
	// releasesAgain is how long the releases of the fleet count as known. A process may come while another one goes.
	releasesAgain = time.Minute

	// releasesTogether is how many records a renewal reads at most.
	releasesTogether = 100
)

// releases is a rider that lets a session have large payloads in fields of their own while all processes that live know such records: see
// resque.KnowsApart. It looks once the session has had such a payload, each minute, and as soon as the number of processes changes. Then
// no payload gets a field of its own until the look is over: one renewal reads who lives, and the next ones, which follow at once, read what
// these know. A process never changes its release, so each record is read once. It is for the lease's goroutine.
type releases struct {
	lease *Lease

	fleet   int             // how many processes there were when the last look began
	looked  time.Time       // when the last look ended
	looking bool            // the ids are to be read
	members []string        // who lives, as the last look has found
	many    bool            // these are not all, or Redis refused to say it
	knows   map[string]bool // by id: whether its release knows such records
	heard   bool            // the last renewal has brought the look forward
}

// Load has the renewal read what the look lacks.
func (r *releases) Load(c *resque.Cargo) {
	l := r.lease
	s := l.Session()
	if c.Last || s == nil || !s.Large() {
		return
	}
	if n := l.Peers(); n != r.fleet {
		s.SetApart(0)
		r.fleet, r.looking = n, true
	}
	r.looking = r.looking || l.base.Clock.Now().Sub(r.looked) >= releasesAgain
	if r.looking {
		l.base.Store.ReadMembers(c, r.listed)
		return
	}
	for _, id := range r.unknown() {
		l.base.Store.ReadKnows(c, id, resque.KnowsApart, func(knows bool) { r.knows[id], r.heard = knows, true })
	}
}

// listed takes who lives.
func (r *releases) listed(ids []string, all bool) {
	r.looking, r.many, r.members, r.looked, r.heard = false, !all, ids, r.lease.base.Clock.Now(), true
	before := r.knows
	r.knows = make(map[string]bool, len(ids))
	for _, id := range ids {
		if knows, ok := before[id]; ok {
			r.knows[id] = knows
		}
	}
}

// unknown returns members whose releases are not known yet, as many as a renewal reads.
func (r *releases) unknown() (ids []string) {
	for _, id := range r.members {
		if _, ok := r.knows[id]; !ok && len(ids) < releasesTogether {
			ids = append(ids, id)
		}
	}
	return ids
}

// Answered lets the session have such fields, or not.
func (r *releases) Answered(bool, resque.Due) {
	s := r.lease.Session()
	if !s.Large() {
		return
	}
	from := resque.ApartFrom
	if r.many || r.lease.Peers() != r.fleet || slices.ContainsFunc(r.members, func(id string) bool { return !r.knows[id] }) || !slices.Contains(r.members, s.Process.ID) {
		from = 0
	}
	s.SetApart(from)
	if r.heard && len(r.unknown()) > 0 {
		r.lease.loop.Wake()
	}
	r.heard = false
}
