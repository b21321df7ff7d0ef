package goworker

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/drain"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// ErrProcessesAlive is returned by DrainToResque while a process of goworker holds a lease: its jobs
// are its own. The error names the processes.
var ErrProcessesAlive = drain.ErrAlive

// DrainOption configures DrainToResque: DrainNow, DrainDryRun.
type DrainOption func(*drain.Config)

// DrainNow puts delayed jobs into their queues at once, for a fleet without resque-scheduler.
func DrainNow() DrainOption { return func(c *drain.Config) { c.Now = true } }

// DrainDryRun writes nothing and reports what a drain would do.
func DrainDryRun() DrainOption { return func(c *drain.Config) { c.DryRun = true } }

// DrainReport is what DrainToResque did, or with DrainDryRun would do.
type DrainReport struct {
	Dead     []string // the processes that were found dead
	Requeued int      // jobs of dead processes that went back to their queues or lanes
	Failed   int      // jobs of dead processes that became failures, see WorkerSettings.RecoverLimit

	Lanes   int // jobs that went from lanes to the heads of their queues
	Delayed int // delayed jobs that went to resque-scheduler's schedule
	Queued  int // delayed jobs that went to their queues: those that were due; with DrainNow all
	Kept    int // payloads that were kept and went to their queues

	Locks   int // locks of unique jobs that were released
	Removed int // other keys that were removed; none held a job

	// Dropped says, by the name of a field, how many of the Delayed jobs lost it, because
	// resque-scheduler keeps class, arguments and queue only: attempt, expires_at, id, unique….
	// Ignored says how many of the other jobs still have it, and Ruby passes over it.
	Dropped, Ignored map[string]int

	Left  []DrainLeft // what stays in goworker's keys
	Notes []string    // what Ruby does not do, each a sentence with what to do about it

	Alive     []string // the processes that hold leases; then there is an ErrProcessesAlive too
	StoppedAt string   // what the drain was doing when it ended with an error
}

// DrainLeft is something that DrainToResque left in a key of goworker.
type DrainLeft struct {
	Key  string // with the namespace
	Jobs int    // 0: it holds none, or they were not counted
	Why  string // and what to do about it
}

// String says in lines what was done, what delayed jobs lost, and what is left.
func (r DrainReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "dead processes: %d; their jobs back: %d, filed as failures: %d\n", len(r.Dead), r.Requeued, r.Failed)
	fmt.Fprintf(&b, "from lanes to their queues: %d\n", r.Lanes)
	fmt.Fprintf(&b, "delayed, to resque-scheduler: %d; to their queues: %d\n", r.Delayed, r.Queued)
	fmt.Fprintf(&b, "payloads that were kept, to their queues: %d\n", r.Kept)
	fmt.Fprintf(&b, "locks released: %d; other keys removed: %d\n", r.Locks, r.Removed)
	for _, name := range slices.Sorted(maps.Keys(r.Dropped)) {
		fmt.Fprintf(&b, "lost %s: %s\n", name, resque.Plural(r.Dropped[name], "delayed job"))
	}
	for _, l := range r.Left {
		fmt.Fprintf(&b, "left %s: %s: %s\n", l.Key, resque.Plural(l.Jobs, "job"), l.Why)
	}
	for _, process := range r.Alive {
		fmt.Fprintf(&b, "alive: %s\n", process)
	}
	for _, n := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", n)
	}
	return b.String()
}

// DrainToResque moves the jobs that only goworker understands into keys that Ruby reads: those of
// dead processes, of lanes, of goworker's own schedule and the payloads that were kept. Then it
// releases the locks of unique jobs and removes the keys that hold no job.
//
// It returns ErrProcessesAlive while another process of goworker is alive; stop all processes first.
// A process that was killed counts as dead 8 seconds later. It moves at most 500 jobs in one step,
// and each step proves that no process is alive. So if it ends with an error, or with the context,
// no job is lost or doubled, and the next call goes on. Its report is valid then too. It may be
// called again at any time, and a daemon may start again afterwards.
func (d *Daemon) DrainToResque(ctx context.Context, opts ...DrainOption) (DrainReport, error) {
	c, err := d.init(false)
	if err != nil {
		return DrainReport{}, err
	}
	return c.drainToResque(ctx, d.registry, opts...)
}

func (c *client) drainToResque(ctx context.Context, r *registry, opts ...DrainOption) (DrainReport, error) {
	set := outcome.New(outcome.Deps{
		Base: part.Base{Log: c.log, Outages: logging.NewOutages(c.log, clock.System), Store: c.Store, Dialer: c.dialer, Clock: clock.System},
		Time: clock.System, Exceptions: exceptionOf, Do: c.Pool.Do,
		Settings: outcome.Settings{MaxPayload: c.config.MaxPayload, MultiQueueFailures: c.config.multiQueueFailures},
	}, r, r.features()...)
	defer set.Close()
	config := drain.Config{
		Redis: c, Clock: clock.System, Ends: set, Style: c.config.style, RecoverLimit: c.config.RecoverLimit,
		LockPrefix: c.config.SchedulerLockPrefix, NodeScheduler: c.config.NodeScheduler,
	}
	for _, o := range opts {
		o(&config)
	}
	done, err := drain.Run(ctx, config)
	report := DrainReport{
		Dead: done.Dead, Requeued: done.Requeued, Failed: done.Failed,
		Lanes: done.Lanes, Delayed: done.Delayed, Queued: done.Queued, Kept: done.Kept,
		Locks: done.Locks, Removed: done.Removed, Dropped: done.Dropped, Ignored: done.Ignored,
		Notes: done.Notes, Alive: done.Alive, StoppedAt: done.StoppedAt,
	}
	for _, l := range done.Left {
		report.Left = append(report.Left, DrainLeft(l))
	}
	if err != nil && !errors.Is(err, ErrProcessesAlive) {
		err = fmt.Errorf("goworker: draining to Resque, at %s: %w; call DrainToResque again to go on", done.StoppedAt, err)
	}
	return report, err
}
