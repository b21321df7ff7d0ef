package fleet

import (
	"errors"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// pruneEvery is how often the leader looks for dead workers of other programs.
const pruneEvery = time.Minute

// forgetEvery is how often it looks for counts of deaths that are old, which they are after a day.
const forgetEvery = 10 * time.Minute

// pruner removes dead workers of other programs, as a Ruby worker does when it starts. It is for
// the reaper's goroutine.
type pruner struct {
	base       part.Base
	multiQueue bool
	troubles   *troubles
	pruned     time.Time // the last time
	forgot     time.Time // when it last looked for old counts of deaths
}

// prune removes workers by Ruby's rules: those whose last heartbeat is more than 300 s old. It
// keeps workers that never sent one. It also keeps the workers of processes with leases, since a
// lease is better evidence. self is the worker id that takes Ruby's lock. now is a time that Redis said a moment ago: a worker is never found
// dead too early by it.
func (p *pruner) prune(c redis.Conn, self string, now time.Time) error {
	if clock.Since(p.base.Clock, p.pruned) < pruneEvery {
		return nil
	}
	store := p.base.Store
	if clock.Since(p.base.Clock, p.forgot) >= forgetEvery {
		if err := store.ForgetDeaths(c, now); err != nil {
			return err
		}
		p.forgot = p.base.Clock.Now()
	}
	expired, unreadable, err := store.Expired(c, now)
	if err != nil {
		return err
	}
	for _, id := range unreadable {
		p.troubles.report("reading the heartbeat of "+id, errors.New("it is no time; Ruby workers will fail to start until it is removed from workers:heartbeat"))
	}
	expired, err = p.foreign(c, expired)
	if err != nil {
		return err
	}
	p.pruned = p.base.Clock.Now()
	if len(expired) == 0 {
		return nil
	}
	if locked, err := store.LockPruning(c, self); err != nil || !locked {
		p.pruned = p.pruned.Add(renewEvery - pruneEvery) // another process prunes; look again soon
		return err
	}
	for _, w := range expired {
		pruned, err := store.Prune(c, w, now, p.multiQueue)
		if err != nil {
			return errors.Join(err, store.UnlockPruning(c, self))
		}
		if pruned {
			p.base.Log.Warn("a worker sent no heartbeat for 5 minutes and was removed", "worker", w.ID)
		}
	}
	return store.UnlockPruning(c, self)
}

// foreign leaves out the workers of processes that have or had a lease.
func (p *pruner) foreign(c redis.Conn, expired []resque.Expired) ([]resque.Expired, error) {
	if len(expired) == 0 {
		return nil, nil
	}
	leases, _, err := p.base.Store.Leases(c)
	if err != nil {
		return nil, err
	}
	var fleet []resque.Process
	for _, l := range leases {
		process, err := p.base.Store.ReadProcess(c, l.Process)
		if err != nil {
			return nil, err
		}
		fleet = append(fleet, process)
	}
	return slices.DeleteFunc(expired, func(w resque.Expired) bool {
		return slices.ContainsFunc(fleet, func(p resque.Process) bool { return p.Owns(w.ID) })
	}), nil
}
