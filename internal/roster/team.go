package roster

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/share"
)

// Team are the rosters of shards, which share their workers. Its methods are safe for concurrent use.
type Team struct {
	Pool  *share.Pool
	Usual atomic.Int64 // how many jobs run at a time as the settings say

	resizing sync.Mutex // held by one Resize at a time

	mu      sync.Mutex
	members []*Roster // of the runs under way
	lapse   *control.Lapse[int]
}

// Shared is the pool of the shards; nil: there is one Redis, and t is nil.
func (t *Team) Shared() *share.Pool {
	if t == nil {
		return nil
	}
	return t.Pool
}

// Workers returns how many jobs are to run at a time on all shards together.
func (t *Team) Workers() int { return t.Pool.Tokens() }

// join adds the roster of a run that begins. Its lease was made with the number of workers that the pool had then.
func (t *Team) join(r *Roster) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lapse == nil {
		t.lapse = r.lapse
	}
	r.lapse = t.lapse
	t.members = append(t.members, r)
	want(r, t.Workers())
}

// leave removes the roster of a run that has ended, and reports whether it was the last.
func (t *Team) leave(r *Roster) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.members = slices.DeleteFunc(t.members, func(m *Roster) bool { return m == r })
	return len(t.members) == 0
}

// want makes a lease change its workers when it can, and does not wait.
func want(r *Roster, n int) {
	if r.Lease.Wanted().Workers == n {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = r.Lease.Change(ctx, func(w *fleet.Wanted) { w.Workers = n })
}

// Resize changes how many jobs run at a time on all shards together. With a smaller number no further job starts until few enough run.
// It waits for the shards that are in their fleets. Another shard takes the number when it joins its fleet.
func (t *Team) Resize(ctx context.Context, n int) (Change[int], error) {
	c, err := t.change(ctx, n)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.lapse != nil && (err == nil || ctx.Err() != nil) {
		t.lapse.Stop()
	}
	return c, err
}

func (t *Team) change(ctx context.Context, n int) (Change[int], error) {
	if err := check(n); err != nil {
		return Change[int]{}, err
	}
	t.resizing.Lock()
	defer t.resizing.Unlock()
	c := Change[int]{From: t.Workers(), To: n, Settings: int(t.Usual.Load())}
	t.mu.Lock()
	t.Pool.Resize(n)
	members := slices.Clone(t.members)
	for _, r := range members {
		want(r, n) // at once, so that no shard waits for another
	}
	t.mu.Unlock()
	var errs []error
	for _, r := range members {
		if r.Lease.Session() == nil {
			continue
		}
		switch one, err := r.resize(ctx, n); {
		case err == nil:
			c.Busy = append(c.Busy, one.Busy...)
		case !errors.Is(err, fleet.ErrStopped):
			errs = append(errs, err)
		}
	}
	return c, errors.Join(errs...)
}
