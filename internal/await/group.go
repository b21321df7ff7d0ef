package await

import (
	"context"
	"iter"

	"github.com/goworker/goworker/inspect"
)

// Group waits for the jobs of several Redises: one of them knows each job.
type Group struct {
	Watchers []*Watcher
	// About names a Redis in an error. It is not called if there is only one.
	About func(n int, err error) error
}

// Wait is Watcher.Wait of the Redis that knows the job.
func (g Group) Wait(ctx context.Context, id string) (inspect.Status, error) {
	_, s, err := g.first(ctx, func(ctx context.Context, w *Watcher) (inspect.Status, error) { return w.Wait(ctx, id) })
	return s, err
}

// Watch is Watcher.Watch of the Redis that knows the job.
func (g Group) Watch(ctx context.Context, id string) iter.Seq2[inspect.Status, error] {
	if len(g.Watchers) == 1 {
		return g.Watchers[0].Watch(ctx, id)
	}
	return func(yield func(inspect.Status, error) bool) {
		w, _, err := g.first(ctx, func(ctx context.Context, w *Watcher) (inspect.Status, error) { return w.Now(ctx, id) })
		if err != nil {
			yield(inspect.Status{}, err)
			return
		}
		w.Watch(ctx, id)(yield)
	}
}

// first asks all Redises at the same time, and returns the first answer that came without an error.
func (g Group) first(ctx context.Context, ask func(context.Context, *Watcher) (inspect.Status, error)) (*Watcher, inspect.Status, error) {
	if len(g.Watchers) == 1 {
		s, err := ask(ctx, g.Watchers[0])
		return g.Watchers[0], s, err
	}
	type reply struct {
		n      int
		status inspect.Status
		err    error
	}
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	replies := make(chan reply, len(g.Watchers))
	for n, w := range g.Watchers {
		go func() {
			s, err := ask(asking, w)
			replies <- reply{n, s, err}
		}()
	}
	errs := make([]error, len(g.Watchers))
	for range g.Watchers {
		r := <-replies
		if r.err == nil {
			return g.Watchers[r.n], r.status, nil
		}
		errs[r.n] = r.err
	}
	_, err := inspect.Known(make([]inspect.Status, len(errs)), errs, g.About)
	return nil, inspect.Status{}, err
}
