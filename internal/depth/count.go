// Package depth finds out how long the jobs of queues wait. A Resque payload has no time. So processes count what they take
// from each queue, and one of them, the keeper, follows how many jobs each queue was given: those that were taken and those that
// are there. All goes with the renewals of leases, so it sends no command.
package depth

import (
	"sync"

	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

const (
	// mostNamed is how many queues a renewal counts.
	mostNamed = 256

	// mostUnsaid is how many are counted until a renewal says them. Others are not: a keeper does not follow that many.
	mostUnsaid = 2 * mostQueues
)

// Count counts what a process takes from queues. It is a rider of its lease. Took is safe for concurrent use.
type Count struct {
	base part.Base

	mu    sync.Mutex
	taken map[string]int64 // not yet written
	off   bool             // Redis refuses it
}

// NewCount returns a Count of nothing.
func NewCount(b part.Base) *Count { return &Count{base: b, taken: make(map[string]int64)} }

// Took counts n jobs that were taken from a queue; negative: they are back.
func (c *Count) Took(queue string, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, counted := c.taken[queue]; !c.off && (counted || len(c.taken) < mostUnsaid && len(queue) <= longName) {
		c.taken[queue] += int64(n)
	}
}

// Load has the renewal add what was taken since the last one.
func (c *Count) Load(cargo *resque.Cargo) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.taken) == 0 {
		return
	}
	said := make(map[string]int64)
	for queue, n := range c.taken {
		if len(said) == mostNamed && !cargo.Last {
			break
		}
		if delete(c.taken, queue); n != 0 {
			said[queue] = n
		}
	}
	c.base.Store.AddTaken(cargo, said, c.refused)
}

// Answered is for the interface.
func (c *Count) Answered(bool, resque.Due) {}

func (c *Count) refused(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.off {
		c.off, c.taken = true, make(map[string]int64)
		c.base.Log.Warn("how many jobs this process takes cannot be counted, so the ages of its queues are not known; jobs run as before", "error", err)
	}
}
