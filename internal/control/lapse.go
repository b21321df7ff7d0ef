package control

import (
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Lapse is a change that ends by itself. What was there before all such changes comes back, unless something else has changed it
// meanwhile. It is safe for concurrent use.
type Lapse[T comparable] struct {
	clock clock.Clock

	mu     sync.Mutex
	before T           // what comes back
	to     T           // what the last change has made
	end    clock.Timer // of the last change; nil: there is none
	change int         // its number
}

// NewLapse returns a Lapse without a change.
func NewLapse[T comparable](c clock.Clock) *Lapse[T] { return &Lapse[T]{clock: c} }

// Before returns what comes back after a change of what is there now.
func (l *Lapse[T]) Before(now T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil || now != l.to {
		return now
	}
	return l.before
}

// Changed says that something was changed for a while, in place of the change before. At its end back is called, with what comes back and
// with what was made of it. back does not wait.
func (l *Lapse[T]) Changed(from, to T, lasts time.Duration, back func(before, to T)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil || from != l.to {
		l.before = from
	}
	l.stop()
	l.to = to
	change := l.change
	l.end = l.clock.AfterFunc(lasts, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.change == change {
			l.end = nil
			back(l.before, l.to)
		}
	})
}

// Stop says that what is there stays.
func (l *Lapse[T]) Stop() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

func (l *Lapse[T]) stop() {
	if l.end != nil {
		l.end.Stop()
		l.end = nil
	}
	l.change++
}
