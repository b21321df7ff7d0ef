package depth

import (
	"bytes"
	"crypto/sha256"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

const (
	// largeHead is how many bytes the head of a queue has at most that is read again and again, and largeRests how long
	// the heads of the queue are left alone otherwise.
	largeHead  = 16 << 10
	largeRests = time.Minute
)

// queue is one that is followed.
type queue struct {
	odometer
	heard        bool // how many were taken and are there, with the last renewal
	taken, there int64
	busy         time.Time // when it last had a job
	written      resque.Depth

	// Where others take from it, too.
	jobs       [][]byte          // the first ones, with the last renewal
	head       [sha256.Size]byte // the job that was seen at the head last
	headLength int64             // how many jobs there were then
	since      time.Time         // since when; zero: it was not seen there
	restsUntil time.Time
}

// observe takes what was heard.
func (q *queue) observe(now time.Time, counted bool) {
	if !counted {
		q.odometer = odometer{} // how many the others took is not known
	} else {
		q.since = time.Time{}
	}
	q.look(now, q.taken, q.there)
	if q.length > 0 {
		q.busy = now
	} else {
		q.since = time.Time{}
	}
}

// rest has the head left alone for some time: its jobs are large.
func (q *queue) rest(now time.Time) { q.restsUntil, q.since = now.Add(largeRests), time.Time{} }

// sawHead takes the first jobs. The one at the head is the one that was there before if it has the same bytes, and the next one
// has others: many jobs of the same bytes may come and go. Then there are not fewer jobs than before either.
func (q *queue) sawHead(now time.Time) {
	jobs := q.jobs
	q.jobs = nil
	if len(jobs) == 0 {
		q.since = time.Time{}
		return
	}
	if len(jobs[0]) > largeHead || len(jobs) > 1 && len(jobs[1]) > largeHead {
		q.rest(now)
		return
	}
	digest := sha256.Sum256(jobs[0])
	if q.since.IsZero() || digest != q.head || q.length < q.headLength || len(jobs) > 1 && bytes.Equal(jobs[0], jobs[1]) {
		q.since = now
	}
	q.head, q.headLength = digest, q.length
}

// depth is what is known of the queue.
func (q *queue) depth(counted bool) resque.Depth {
	d := resque.Depth{At: q.looked, Length: q.length, Pushed: q.top, Removed: q.removed, In: -1, Out: -1}
	switch {
	case q.length == 0:
		d.Method = resque.AgeCounted
		if !counted {
			d.Method = resque.AgeUnknown
		}
	case counted:
		d.Method = resque.AgeCounted
		var known bool
		if d.Oldest, known = q.oldest(); !known {
			d.Method = resque.AgeSeen
		}
		d.Trail = q.trail()
	case !q.since.IsZero():
		d.Method, d.Oldest = resque.AgeSeen, q.since
	}
	if counted {
		d.In, d.Out = q.rates()
	}
	return d
}

// news reports whether something has changed since it was written.
func (q *queue) news(d resque.Depth) bool {
	w := q.written
	return d.At.Sub(w.At) >= rewrites || d.Length != w.Length || d.Pushed != w.Pushed || d.Method != w.Method ||
		!d.Oldest.Equal(w.Oldest) || d.In != w.In || d.Out != w.Out
}
