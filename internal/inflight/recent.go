package inflight

import "github.com/goworker/goworker/internal/resque"

// recentEnds are the latest ends with effects that Redis has committed. A server that takes over
// may lag behind by a second or two, and then shows their jobs again. They are packed, behind each other in one ring of
// bytes: each job with effects comes by here, and the garbage collector has nothing to visit.
type recentEnds struct {
	ring      []recentEnd
	first, n  int   // the oldest one, and how many there are
	forgotten int64 // the highest ticket among those that were dropped

	text       []byte // the packed ends, round about
	from, size int    // where the oldest one begins, and how many bytes all have
	packed     []byte // room for one
}

type recentEnd struct {
	ticket int64
	size   int // in bytes, packed
}

const (
	recentMost  = 4096
	recentBytes = 4 << 20
)

// add keeps an end.
func (r *recentEnds) add(e resque.Ended) {
	r.packed = e.Pack(r.packed[:0])
	size := len(r.packed)
	for r.n == recentMost || r.n > 0 && r.size+size > recentBytes {
		r.drop()
	}
	if size > recentBytes {
		r.forgotten = max(r.forgotten, e.Ticket)
		r.packed = nil
		return
	}
	if r.n == len(r.ring) {
		grown := make([]recentEnd, min(recentMost, max(64, 2*r.n)))
		copy(grown[copy(grown, r.ring[r.first:]):], r.ring[:r.first])
		r.ring, r.first = grown, 0
	}
	if need := r.size + size; need > len(r.text) {
		grown := make([]byte, min(recentBytes, max(64<<10, 2*need)))
		r.read(grown[:0], r.from, r.size)
		r.text, r.from = grown, 0
	}
	at := (r.from + r.size) % len(r.text)
	copy(r.text, r.packed[copy(r.text[at:], r.packed):])
	r.ring[(r.first+r.n)%len(r.ring)] = recentEnd{e.Ticket, size}
	r.n, r.size = r.n+1, r.size+size
}

func (r *recentEnds) drop() {
	oldest := r.ring[r.first]
	r.forgotten = max(r.forgotten, oldest.ticket)
	r.first, r.n = (r.first+1)%len(r.ring), r.n-1
	r.from, r.size = (r.from+oldest.size)%len(r.text), r.size-oldest.size
}

// read appends so many bytes of the ring to dst.
func (r *recentEnds) read(dst []byte, from, size int) []byte {
	to := min(from+size, len(r.text))
	dst = append(dst, r.text[from:to]...)
	return append(dst, r.text[:size-(to-from)]...)
}

// of returns the last end with a ticket.
func (r *recentEnds) of(ticket int64) (e resque.Ended, ok bool) {
	for i, behind := r.n-1, 0; i >= 0; i-- {
		end := r.ring[(r.first+i)%len(r.ring)]
		if behind += end.size; end.ticket == ticket {
			return resque.Unpack(r.read(nil, (r.from+r.size-behind)%len(r.text), end.size)), true
		}
	}
	return e, false
}
