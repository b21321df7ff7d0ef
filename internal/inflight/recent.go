package inflight

import "github.com/goworker/goworker/internal/resque"

// recentEnds are the latest ends with effects that Redis has committed. A server that takes over
// may lag behind by a second or two, and then shows their jobs again.
type recentEnds struct {
	ring      []recentEnd
	first, n  int   // the oldest one, and how many there are
	size      int   // of all in bytes
	forgotten int64 // the highest ticket among those that were dropped
}

type recentEnd struct {
	resque.Ended
	size int // in bytes
}

const (
	recentMost  = 4096
	recentBytes = 4 << 20
)

// add keeps an end: each job with effects comes by here, so there is no map of them.
func (r *recentEnds) add(e resque.Ended) {
	if r.n == recentMost {
		r.drop()
	}
	if r.n == len(r.ring) {
		grown := make([]recentEnd, min(recentMost, max(64, 2*r.n)))
		copy(grown[copy(grown, r.ring[r.first:]):], r.ring[:r.first])
		r.ring, r.first = grown, 0
	}
	end := recentEnd{e, e.Size()}
	r.ring[(r.first+r.n)%len(r.ring)] = end
	r.n, r.size = r.n+1, r.size+end.size
	for r.size > recentBytes {
		r.drop()
	}
}

func (r *recentEnds) drop() {
	oldest := &r.ring[r.first]
	r.size -= oldest.size
	r.forgotten = max(r.forgotten, oldest.Ticket)
	*oldest = recentEnd{}
	r.first, r.n = (r.first+1)%len(r.ring), r.n-1
}

// of returns the last end with a ticket.
func (r *recentEnds) of(ticket int64) (e resque.Ended, ok bool) {
	for i := r.n - 1; i >= 0; i-- {
		if end := &r.ring[(r.first+i)%len(r.ring)]; end.Ticket == ticket {
			return end.Ended, true
		}
	}
	return e, false
}
