package site

import (
	"context"
	"reflect"
)

// Held returns what a package of pages remembers of a fleet for as long as the dashboard runs. make makes it at its first use. There is
// one of each type, so the type is to be of that package.
func Held[T any](f *Fleet, make func() *T) *T {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := reflect.TypeFor[T]()
	if held, ok := f.held[key].(*T); ok {
		return held
	}
	held := make()
	f.held[key] = held
	return held
}

// Go runs something in the background until it returns. Its context ends when the dashboard stops, which then waits for it. It reports
// false, and runs nothing, if the dashboard stops already.
func (f *Fleet) Go(run func(ctx context.Context)) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.start(run)
}

// start is Go. mu is held.
func (f *Fleet) start(run func(ctx context.Context)) bool {
	if f.closed {
		return false
	}
	f.runs.Go(func() { run(f.life) })
	return true
}
