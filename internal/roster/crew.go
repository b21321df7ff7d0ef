package roster

import (
	"context"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/watch"
)

// Crew is the poller of a run and its workers. It implements fleet.Slots.
type Crew struct {
	Ask   func(func())    // makes the poller's goroutine call a function
	Ended <-chan struct{} // closed when the poller has ended
	Grow  func(n int)     // makes jobs run on the slots below n; the poller's goroutine calls it
	Order *watch.Order    // by which the poller asks for jobs
	Freed func()          // called when a marked slot has no job any more

	// Only the poller's goroutine uses slots.
	Slots interface {
		Mark(freed func())
		Marked() map[int]bool
	}
}

// do makes the poller's goroutine call f, and waits until f calls done.
func (c Crew) do(ctx context.Context, f func(done func())) error {
	over := make(chan struct{})
	c.Ask(func() { f(func() { close(over) }) })
	select {
	case <-over:
		return nil
	case <-c.Ended:
		return fleet.ErrStopped
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Limit makes jobs run on the slots below n only.
func (c Crew) Limit(ctx context.Context, n int) error {
	return c.do(ctx, func(done func()) {
		c.Grow(n)
		done()
	})
}

// Work gives the poller another list of queues.
func (c Crew) Work(ctx context.Context, l watch.List) error {
	return c.do(ctx, func(done func()) { c.Order.Work(l, done) })
}

// Occupied returns the slots with jobs that began before the last call with mark.
func (c Crew) Occupied(ctx context.Context, mark bool) (slots map[int]bool, err error) {
	err = c.do(ctx, func(done func()) {
		if mark {
			c.Slots.Mark(c.Freed)
		}
		slots = c.Slots.Marked()
		done()
	})
	return slots, err
}
