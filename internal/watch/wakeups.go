package watch

import (
	"math/rand/v2"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// wakeups backs off after empty wake-ups. A push wakes every process that Redis notifies, and one gets the
// job. A process that came too late several times in a row lets others go first. The more processes
// there are, the longer it waits. Otherwise Redis would serve all of them for each push.
type wakeups struct {
	clock clock.Clock
	peers func() int // how many processes there are

	woken bool      // Redis notified of something to take since the last answer
	empty int       // how many wake-ups in a row found nothing
	until time.Time // nothing is asked before
}

// The wait after k empty wake-ups in a row is random up to 2^k ms, and at most perPeer for each
// process of the fleet, within these bounds.
const (
	leastWait = 50 * time.Millisecond
	perPeer   = 4 * time.Millisecond
	mostWait  = 250 * time.Millisecond
)

// wake is called when Redis has notified of something to take.
func (w *wakeups) wake() {
	w.woken = true
	if w.empty > 0 && w.until.IsZero() {
		limit := min(max(leastWait, time.Duration(w.peers())*perPeer), mostWait)
		w.until = w.clock.Now().Add(rand.N(min(limit, time.Millisecond<<min(w.empty, 10))))
	}
}

// waits reports whether nothing may be asked now.
func (w *wakeups) waits(now time.Time) bool { return now.Before(w.until) }

// stop ends the wait.
func (w *wakeups) stop() { w.until = time.Time{} }

// found counts empty wake-ups, by how many jobs an exchange brought.
func (w *wakeups) found(jobs int) {
	switch {
	case jobs > 0:
		w.empty = 0
	case w.woken:
		w.empty++
	}
	w.woken = false
}
