package gateway

import (
	"math/rand/v2"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// mostYield is how long a server waits at most before it asks for what Redis has notified of.
const mostYield = 32 * time.Millisecond

// yielding has a server ask a little later for what Redis notifies of, if it came too late before. A push wakes each server
// that has waiters, and one of them gets the job: after k times in a row that it got nothing a server waits for a random time of
// up to 2^k ms, and lets others go first. Otherwise Redis would serve all servers for each push. Who is at the helm has it.
type yielding struct {
	clock  clock.Clock
	missed int             // how many notifications in a row brought nothing
	queues map[string]bool // that have changed, and are asked then
	until  time.Time       // zero: nothing waits
}

// heard takes queues that have changed.
func (y *yielding) heard(queues []string) {
	if len(queues) == 0 {
		return
	}
	if y.queues == nil {
		y.queues = make(map[string]bool)
	}
	for _, q := range queues {
		y.queues[q] = true
	}
	if y.until.IsZero() {
		y.until = y.clock.Now()
		if y.missed > 0 {
			y.until = y.until.Add(rand.N(min(mostYield, time.Millisecond<<min(y.missed, 10))))
		}
	}
}

// due returns the queues to ask now.
func (y *yielding) due() map[string]bool {
	if y.until.IsZero() || y.clock.Now().Before(y.until) {
		return nil
	}
	due := y.queues
	y.queues, y.until = nil, time.Time{}
	return due
}

// left returns how long nothing is to be asked; less than zero: nothing waits.
func (y *yielding) left() time.Duration {
	if y.until.IsZero() {
		return -1
	}
	return max(0, clock.Until(y.clock, y.until))
}

// took is called with how many jobs a turn has brought that was woken.
func (y *yielding) took(jobs int) {
	if jobs > 0 {
		y.missed = 0
		return
	}
	y.missed++
}
