package control

import (
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Lapse is a temporary change. At its end the value from before the first of such changes returns, unless the value was changed otherwise
// meanwhile. Lapse is safe for concurrent use.
type Lapse[T comparable] struct {
	clock clock.Clock

	mu     sync.Mutex
	before T           // the value that returns
	to     T           // the value of the last change
	end    clock.Timer // of the last change; nil: there is none
	change int         // its number
}

// NewLapse returns a Lapse without a change.
func NewLapse[T comparable](c clock.Clock) *Lapse[T] { return &Lapse[T]{clock: c} }

// Before returns the value that would return after a change of the present value.
func (l *Lapse[T]) Before(now T) T {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.end == nil || now != l.to {
		return now
	}
	return l.before
}

// Changed notes a temporary change, which replaces the change before. At its end Lapse calls back with the value that returns and the
// value of the change. back must not block.
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

// Stop makes the present value permanent.
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
