package inspect

import (
	"context"
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

var (
	// ErrUnknownWorker is returned by RemoveWorker for a worker that is not registered.
	ErrUnknownWorker = prefix.New("no such worker is registered")
	// ErrWorkerAlive is returned by RemoveWorker for a worker that may live. The error says by what.
	ErrWorkerAlive = prefix.New("the worker may live")
)

// DeadWorker reports whether a registered worker is dead: Ruby's rule is a heartbeat of more than 300 seconds ago. A worker without a heartbeat is
// dead if no goworker process with a lease has it, and beaten is false then: a Ruby worker of Resque before 1.26 sends none, so look whether it
// runs. The error is ErrWorkerAlive or ErrUnknownWorker for any other.
func (i *Inspector) DeadWorker(ctx context.Context, id string) (beaten bool, err error) {
	if err := i.usable(); err != nil {
		return false, err
	}
	known := false
	err = i.each(func(one *Inspector) error {
		seen, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) {
			_, seen, err := s.DeadWorker(c, id)
			return seen, err
		})
		if errors.Is(err, resque.ErrNoWorker) {
			return nil
		}
		known, beaten = true, beaten || seen
		return workerError(id, err)
	})
	if err == nil && !known {
		err = prefix.Errorf("worker %s: %w", id, ErrUnknownWorker)
	}
	return beaten, err
}

// RemoveWorker removes a dead worker, as Ruby's workers prune theirs: a job that it had in hand is filed as a failure, a
// Resque::PruneDeadWorkerDirtyExit, and all that Ruby's tools know of the worker goes. The errors are those of DeadWorker. A worker that sends
// a heartbeat or begins a job meanwhile stays, and the error is ErrWorkerAlive.
//
// Over shards a goworker process registers its workers with each of them. The worker is removed from all, unless one of them finds it alive.
func (i *Inspector) RemoveWorker(ctx context.Context, id string) error {
	if _, err := i.DeadWorker(ctx, id); err != nil {
		return err
	}
	return i.each(func(one *Inspector) error {
		settings, err := one.redis.Settings()
		if err != nil {
			return err
		}
		removed, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) {
			w, _, err := s.DeadWorker(c, id)
			if err != nil {
				return false, err
			}
			removed, err := s.Prune(c, w, clock.System.Now(), settings.MultiQueue)
			if err == nil && !removed { // it lives, or another caller has removed it
				_, _, err = s.DeadWorker(c, id)
			}
			return removed, err
		})
		switch {
		case errors.Is(err, resque.ErrNoWorker):
			return nil // another shard has it, or another caller has removed it
		case err == nil && !removed:
			err = prefix.Errorf("worker %s: %w: it has just sent a heartbeat or begun a job", id, ErrWorkerAlive)
		}
		return one.record(ctx, "RemoveWorker", "worker "+id, once(removed), workerError(id, err))
	})
}

// workerError is an error about a worker that is not dead.
func workerError(id string, err error) error {
	if lives := (*resque.WorkerLives)(nil); errors.As(err, &lives) {
		return prefix.Errorf("worker %s: %w: %w", id, ErrWorkerAlive, lives)
	}
	return err
}
