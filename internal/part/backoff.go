package part

import (
	"math/rand/v2"
	"time"
)

// Backoff waits longer after each failure, with jitter, so that a fleet does not return to a Redis
// that restarts all at once. The zero value is ready. It is for one goroutine.
type Backoff struct{ failures int }

const (
	backoffFirst = 50 * time.Millisecond

	// BackoffMost is the longest wait.
	BackoffMost = 1 * time.Second
)

// Next returns how long to wait after one more failure: from half of d up to d. d is 50 ms after
// the first failure, twice as much after each further one, and BackoffMost at most.
func (b *Backoff) Next() time.Duration {
	d := BackoffMost
	if b.failures < 5 {
		d = min(BackoffMost, backoffFirst<<b.failures)
	}
	b.failures++
	return d/2 + rand.N(d/2)
}

// Attempt returns how long to wait before an attempt: zero before the first one, and then the
// result of Next.
func (b *Backoff) Attempt() time.Duration {
	if b.failures == 0 {
		b.failures = 1
		return 0
	}
	return b.Next()
}

// Reset is called after a success.
func (b *Backoff) Reset() { b.failures = 0 }
