package goworker

import (
	"math/rand/v2"
	"time"
)

// backoff waits longer after each failure, with jitter, so that a fleet does not
// come back to a Redis that restarts as one.
type backoff struct{ failures int }

const (
	backoffFirst = 50 * time.Millisecond
	backoffMost  = 1 * time.Second
)

func (b *backoff) next() time.Duration {
	d := backoffMost
	if b.failures < 5 {
		d = min(backoffMost, backoffFirst<<b.failures)
	}
	b.failures++
	return d/2 + rand.N(d/2)
}

func (b *backoff) reset() { b.failures = 0 }
