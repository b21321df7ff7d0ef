package guard

import (
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// What each user may do, and each address.
const (
	ChangesASecond   = 20 // requests that change something
	ChangesAtOnce    = 40
	RevealsAMinute   = 60
	SearchesAtATime  = 2 // searches and operations together
	StreamsAtATime   = 16
	FailuresAMinute  = 5 // passwords and tokens that are wrong, of an address
	MaxBody          = 1 << 20
	refusalsInTheLog = time.Second // at most one for each address
)

// limits are the limits of a Guard.
type limits struct {
	changes, reveals, failures, logged *rate
	searches, streams                  *slots
}

func newLimits(c clock.Clock) limits {
	return limits{
		changes:  newRate(c, time.Second/ChangesASecond, ChangesAtOnce),
		reveals:  newRate(c, time.Minute/RevealsAMinute, RevealsAMinute),
		failures: newRate(c, time.Minute/FailuresAMinute, FailuresAMinute),
		logged:   newRate(c, refusalsInTheLog, 1),
		searches: newSlots(SearchesAtATime),
		streams:  newSlots(StreamsAtATime),
	}
}

// Reveal counts that a user has masked arguments shown. It returns false, and how long the user has to wait, where that was
// too often: RevealsAMinute.
func (g *Guard) Reveal(u User) (wait time.Duration, ok bool) { return g.limits.reveals.take(u.Name) }

// Search begins a search or an operation of a user, which ends with release. It returns false where the user has
// SearchesAtATime that run. release may be called several times, and by any goroutine.
func (g *Guard) Search(u User) (release func(), ok bool) { return g.limits.searches.take(u.Name) }

// Stream begins a stream of a user, which ends with release. It returns false where the user has StreamsAtATime that are
// open. release may be called several times, and by any goroutine.
func (g *Guard) Stream(u User) (release func(), ok bool) { return g.limits.streams.take(u.Name) }
