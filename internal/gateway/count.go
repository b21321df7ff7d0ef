package gateway

import (
	"sync"
	"sync/atomic"
	"time"
)

// counts are the numbers behind Stats.
type counts struct {
	turns, lost, published, reserved, acked, released, retried, ranOut, filed, expired, searches atomic.Int64

	mu    sync.Mutex
	last  time.Time
	took  time.Duration
	track bool
	away  time.Time
	why   error // why Redis does not answer
}

// turn counts a turn that Redis has answered.
func (c *counts) turn(at time.Time, took time.Duration) {
	c.turns.Add(1)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last, c.took = at, took
}

// connected notes a connection.
func (c *counts) connected(tracks bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.track, c.away, c.why = tracks, time.Time{}, nil
}

// failed notes that Redis does not answer.
func (c *counts) failed(at time.Time, why error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away.IsZero() {
		c.away = at
	}
	c.why = why
}
