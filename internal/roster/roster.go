// Package roster changes the concurrency and the queues of a daemon while it runs. The next run begins with the settings.
package roster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/queues"
)

// MostWorkers is how many workers a process may have: other processes must be able to unregister them all.
const MostWorkers = 1 << 12

// List is which queues a daemon works, and in which order it asks them.
type List struct {
	queues.Spec
	Order string
}

// Config is what a Roster needs of the daemon.
type Config struct {
	Log     *slog.Logger
	Clock   clock.Clock
	Lease   *fleet.Lease
	Workers int    // of the settings
	Most    int    // of the settings, if the number of workers changes by itself
	List    List   // of the settings
	Order   string // that the settings give to every list; "": each list has its own

	// Work makes the poller adopt a list, and returns when it has.
	Work func(context.Context, List) error

	// Scale changes the number of workers by itself, if it is on. Fix makes it keep n, for lasts unless that is 0, and reports whether
	// it is on.
	Scale interface {
		On() bool
		Fix(n int, lasts time.Duration) bool
	}

	// Lies returns an error for a list with a queue that lies on another shard, and remembers the list; nil: there is one Redis.
	Lies func(queues.Spec) error

	// Team are the shards that share their workers; nil: there is one Redis.
	Team *Team
}

// Roster has the concurrency and the queues of one daemon. Its methods are safe for concurrent use.
type Roster struct {
	Config
	lapse *control.Lapse[int] // of the concurrency; in a team, the team's

	usual atomic.Int64 // how many jobs run at a time as the settings say; see Settle

	mu      sync.Mutex
	settled List // of the settings
	wanted  List
	present List // that the poller has adopted
}

// New returns the roster of a run that begins.
func New(c Config) *Roster {
	r := &Roster{Config: c, lapse: control.NewLapse[int](c.Clock), settled: c.List, wanted: c.List, present: c.List}
	r.usual.Store(int64(c.Workers))
	if c.Team != nil {
		c.Team.join(r)
	}
	return r
}

// Change is the result of a change.
type Change[T any] struct {
	From, To T

	// Settings is the value of the settings.
	Settings T

	// Fixed says that the number of workers has changed by itself so far, and no longer does.
	Fixed bool

	// Busy are the jobs that run on workers which the daemon no longer needs. They go on, and their workers are unregistered when they
	// have ended.
	Busy []*outcome.Job
}

// Settle says what the settings are from now on: they have changed while the daemon runs.
func (r *Roster) Settle(workers int, list queues.Spec) {
	r.usual.Store(int64(workers))
	if r.Team != nil {
		r.Team.Usual.Store(int64(workers))
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled.Spec = list
}

// List returns the list that the poller works now.
func (r *Roster) List() List {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.present
}

// Resize changes how many jobs run at a time.
func (r *Roster) Resize(ctx context.Context, n int) (Change[int], error) {
	return r.ResizeFor(ctx, n, 0)
}

// ResizeFor is Resize for a while, unless lasts is 0. After it the former number returns, unless the number was changed meanwhile; or
// the number changes by itself again.
func (r *Roster) ResizeFor(ctx context.Context, n int, lasts time.Duration) (Change[int], error) {
	if err := check(n); err != nil {
		return Change[int]{}, err
	}
	fixed := r.Scale.Fix(n, lasts)
	c, err := r.change(ctx, n)
	c.Fixed = fixed
	switch {
	case err != nil && ctx.Err() == nil: // otherwise the daemon goes on trying
	case lasts == 0 || fixed:
		r.lapse.Stop()
	default:
		r.lapse.Changed(c.From, n, lasts, func(before, made int) {
			if r.workers() == made && !r.Scale.On() {
				go r.back(before)
			}
		})
	}
	return c, err
}

// back is the end of ResizeFor. It waits for Redis, or the end of the run.
func (r *Roster) back(n int) {
	if _, err := r.change(context.Background(), n); err != nil && !errors.Is(err, fleet.ErrStopped) {
		r.Log.Warn("the concurrency did not go back after its time", "to", n, "error", err)
	}
}

// Leave is called when the run has ended.
func (r *Roster) Leave() {
	if r.Team == nil || r.Team.leave(r) {
		r.lapse.Stop()
	}
}

func (r *Roster) change(ctx context.Context, n int) (Change[int], error) {
	if r.Team != nil {
		return r.Team.change(ctx, n)
	}
	if err := check(n); err != nil {
		return Change[int]{}, err
	}
	return r.resize(ctx, n)
}

func check(n int) error {
	if n < 1 || n > MostWorkers {
		return fmt.Errorf("the concurrency is %d: it must be from 1 to %d", n, MostWorkers)
	}
	return nil
}

func (r *Roster) resize(ctx context.Context, n int) (Change[int], error) {
	c := Change[int]{From: r.Lease.Wanted().Workers, To: n, Settings: int(r.usual.Load())}
	if err := r.Lease.Change(ctx, func(w *fleet.Wanted) { w.Workers, w.Why = n, "" }); err != nil {
		return c, fmt.Errorf("changing the concurrency to %d: %w", n, err)
	}
	c.Busy = r.Lease.Status.Beyond(n)
	return c, nil
}

// Set replaces the list.
func (r *Roster) Set(ctx context.Context, lists ...string) (Change[string], error) {
	return r.relist(ctx, func(queues.Spec) (queues.Spec, error) { return queues.Parse(lists) })
}

// Add adds entries to the list.
func (r *Roster) Add(ctx context.Context, lists ...string) (Change[string], error) {
	return r.relist(ctx, func(q queues.Spec) (queues.Spec, error) { return q.With(lists) })
}

// Remove removes entries from the list.
func (r *Roster) Remove(ctx context.Context, lists ...string) (Change[string], error) {
	return r.relist(ctx, func(q queues.Spec) (queues.Spec, error) { return q.Without(lists) })
}

func (r *Roster) relist(ctx context.Context, edit func(queues.Spec) (queues.Spec, error)) (Change[string], error) {
	r.mu.Lock()
	from := r.wanted
	spec, err := edit(from.Spec)
	if err == nil && r.Lies != nil {
		err = r.Lies(spec)
	}
	if err != nil {
		r.mu.Unlock()
		return Change[string]{}, err
	}
	r.wanted = List{spec, cmp.Or(r.Order, spec.Order())}
	c := Change[string]{From: from.String(), To: spec.String(), Settings: r.settled.String()}
	r.mu.Unlock()
	err = r.Lease.Change(ctx, func(w *fleet.Wanted) {
		r.mu.Lock()
		defer r.mu.Unlock()
		next := r.wanted // of two concurrent changes both callers get the later one
		w.Queues, w.Apply, w.Refused = next.Label(), func(ctx context.Context) error { return r.apply(ctx, next) }, r.refused
	})
	if err != nil {
		return c, fmt.Errorf("changing the queues to %s: %w", c.To, err)
	}
	for j := range r.Lease.Status.Jobs {
		if !strings.HasSuffix(j.Worker, ":"+spec.Label()) {
			c.Busy = append(c.Busy, j)
		}
	}
	return c, nil
}

// apply gives the poller a list under whose ids the workers are registered.
func (r *Roster) apply(ctx context.Context, next List) error {
	if err := r.Work(ctx, next); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if from := r.present.String(); from != next.String() {
		r.Log.Info("queues", "from", from, "to", next.String())
		if warning := next.Useless(next.Order); warning != "" {
			r.Log.Warn(warning)
		}
	}
	r.present = next
	return nil
}

// refused returns to the list that the poller works.
func (r *Roster) refused() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.wanted = r.present; r.Lies != nil {
		_ = r.Lies(r.present.Spec) // which lay here before
	}
}
