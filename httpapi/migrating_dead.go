package httpapi

import (
	"context"
	"errors"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
)

// deadList is the dead letters of a queue.
type deadList interface {
	Search(ctx context.Context, filter inspect.FailureFilter, after string, count int) (found []inspect.Failure, next string, err error)
	RetryID(ctx context.Context, ids ...string) (int, error)
	RetryStep(ctx context.Context, filter inspect.FailureFilter, after string) (inspect.Done, error)
	RemoveID(ctx context.Context, ids ...string) (int, error)
	RemoveStep(ctx context.Context, filter inspect.FailureFilter, after string) (inspect.Done, error)
}

// dead is the dead letters of one of Resque's queues.
func (p *pool) dead(queue string) deadList {
	list := p.client.Inspect().Failures().In(queue)
	if p.to == nil {
		return list
	}
	return &migratingDead{list, p.to.client.Inspect().Failures().In(queue)}
}

// results is the client that knows of a job's result. While a pool migrates that is the new one, unless the job was published before.
func (p *pool) results(ctx context.Context, place string) *goworker.Client {
	if p.to == nil {
		return p.client
	}
	if _, err := p.to.client.Status(ctx, place); errors.Is(err, inspect.ErrNoResult) {
		if _, err := p.client.Status(ctx, place); err == nil {
			return p.client
		}
	}
	return p.to.client
}

// migratingDead is the dead letters of a queue in a pool that migrates: those of the old one and then those of the new one.
type migratingDead struct{ old, new deadList }

func (m *migratingDead) of(isNew bool) deadList {
	if isNew {
		return m.new
	}
	return m.old
}

func (m *migratingDead) Search(ctx context.Context, filter inspect.FailureFilter, after string, count int) (found []inspect.Failure, next string, err error) {
	next, err = inTurn(after, func(isNew bool, after string) (next string, err error) {
		found, next, err = m.of(isNew).Search(ctx, filter, after, count)
		return next, err
	})
	return found, next, err
}

func (m *migratingDead) RetryStep(ctx context.Context, filter inspect.FailureFilter, after string) (inspect.Done, error) {
	return m.step(after, func(l deadList, after string) (inspect.Done, error) { return l.RetryStep(ctx, filter, after) })
}

func (m *migratingDead) RemoveStep(ctx context.Context, filter inspect.FailureFilter, after string) (inspect.Done, error) {
	return m.step(after, func(l deadList, after string) (inspect.Done, error) { return l.RemoveStep(ctx, filter, after) })
}

func (m *migratingDead) step(after string, f func(l deadList, after string) (inspect.Done, error)) (done inspect.Done, err error) {
	done.Next, err = inTurn(after, func(isNew bool, after string) (string, error) {
		done, err = f(m.of(isNew), after)
		return done.Next, err
	})
	return done, err
}

func (m *migratingDead) RetryID(ctx context.Context, ids ...string) (int, error) {
	return m.both(len(ids), func(l deadList) (int, error) { return l.RetryID(ctx, ids...) })
}

func (m *migratingDead) RemoveID(ctx context.Context, ids ...string) (int, error) {
	return m.both(len(ids), func(l deadList) (int, error) { return l.RemoveID(ctx, ids...) })
}

// both changes dead letters in both lists. Each is in one of them, so neither list misses those that the other one has.
func (m *migratingDead) both(want int, f func(l deadList) (int, error)) (changed int, err error) {
	for _, l := range []deadList{m.old, m.new} {
		n, wrong := f(l)
		if changed += n; wrong != nil && !errors.Is(wrong, inspect.ErrNoFailure) && !errors.Is(wrong, inspect.ErrRetried) {
			return changed, wrong
		}
		if wrong != nil && (err == nil || errors.Is(wrong, inspect.ErrRetried)) {
			err = wrong
		}
	}
	if changed == want {
		err = nil
	}
	return changed, err
}
