package part

import (
	"context"
	"sync"
	"time"
)

// Gather collects what many goroutines want written, and writes it in one goroutine: at most one call of its function an
// interval. The goroutine starts with the first item, so a Gather that is never used has none. It is safe for
// concurrent use.
type Gather[T any] struct {
	base  Base
	name  string
	every time.Duration
	late  bool
	write func(ctx context.Context, items []T) (left []T, err error)

	mu     sync.Mutex
	loop   *Loop // nil before the first item
	closed bool
	busy   bool // the loop is about to write, or to look whether there is more
	fresh  bool // the loop first waits for what else comes
	items  []T
}

// NewGather returns a Gather with the name of its loop. After an error of write it calls it again later, with what write
// has left and what came meanwhile. If late is true the first item waits for the interval too, so that what comes with it is
// in the same call; if not, only the items that follow do.
func NewGather[T any](b Base, name string, every time.Duration, late bool, write func(ctx context.Context, items []T) (left []T, err error)) *Gather[T] {
	return &Gather[T]{base: b, name: name, every: every, late: late, write: write}
}

// Add has an item written. It returns at once. After Close it does nothing.
func (g *Gather[T]) Add(item T) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.items = append(g.items, item)
	if g.busy {
		return
	}
	g.busy, g.fresh = true, g.late
	if g.loop != nil {
		g.loop.Wake()
		return
	}
	g.loop = NewLoop(g.base, g.name, g.turn)
	g.loop.Patient = true
	g.loop.Start(context.Background()) // which takes a turn at once
}

// Close ends the goroutine. What is not written is for the caller.
func (g *Gather[T]) Close() {
	g.mu.Lock()
	g.closed = true
	loop := g.loop
	g.mu.Unlock()
	if loop != nil {
		loop.Stop(context.Background())
	}
}

// take returns what is to be written, and how long to wait then.
func (g *Gather[T]) take() (items []T, wait time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.fresh:
		g.fresh = false
		return nil, g.every
	case len(g.items) == 0:
		g.busy = false
		return nil, Never
	}
	items, g.items = g.items, nil
	return items, g.every
}

func (g *Gather[T]) turn(ctx context.Context) (wait time.Duration, err error) {
	items, wait := g.take()
	if len(items) == 0 {
		return wait, nil
	}
	left, err := g.write(ctx, items)
	if err == nil {
		return wait, nil
	}
	g.mu.Lock()
	g.items = append(left, g.items...)
	g.mu.Unlock()
	return 0, err
}
