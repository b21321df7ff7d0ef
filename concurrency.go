package goworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/prefix"
)

// This file is how many jobs run at the same time, changed while the daemon works.

// Resized is what became of a change of the concurrency.
type Resized struct {
	From, To int

	// Settings is what WorkerSettings.Concurrency says, with which the next run begins.
	Settings int

	// Busy are the jobs that run on workers beyond To. They go on, and their workers are unregistered when
	// they have ended.
	Busy []BusyWorker
}

// BusyWorker is a worker of this process and the job that it runs.
type BusyWorker struct {
	Worker string // its id for other Resque tools
	Queue  string
	Since  time.Time
}

// maxConcurrency is how many workers a process may have: other processes must be able to unregister them all.
const maxConcurrency = 1 << 12

// errNotRunning is returned by what changes a run while there is none.
var errNotRunning = errors.New("the daemon does not run: call Run or Work first, or change the settings")

// SetConcurrency changes how many jobs run at the same time, until Run returns. The workers that other Resque
// tools see change with it. Fewer take effect at once: no job is interrupted, and Resized names those that run
// beyond the new number. More take effect when Redis has registered the workers. If ctx ends before, SetConcurrency returns
// its error, and the change is still made when Redis answers. n is from 1 to 4,096. For a daemon of Shards it returns an error.
func (d *Daemon) SetConcurrency(ctx context.Context, n int) (Resized, error) {
	if err := d.usable(); err != nil {
		return Resized{}, err
	}
	if n < 1 || n > maxConcurrency {
		return Resized{}, fmt.Errorf("goworker: the concurrency %d: it must be from 1 to %d", n, maxConcurrency)
	}
	d.mu.Lock()
	lease, settings, running, shared := d.lease, d.config.Concurrency, d.running, d.budget != nil
	d.mu.Unlock()
	switch {
	case running == nil || running.poller == nil:
		return Resized{}, prefix.Of(errNotRunning)
	case shared:
		return Resized{}, errors.New("goworker: this daemon shares its workers with the other shards, whose number does not change while they run; set WorkerSettings.Concurrency")
	}
	r := Resized{From: lease.Wanted().Workers, To: n, Settings: settings}
	if err := lease.Change(ctx, func(w *fleet.Wanted) { w.Workers = n }); err != nil {
		return r, prefix.Errorf("changing the concurrency to %d: %w", n, err)
	}
	for _, j := range lease.Status.Beyond(n) {
		r.Busy = append(r.Busy, BusyWorker{Worker: j.Worker, Queue: j.Queue, Since: j.StartedAt})
	}
	return r, nil
}
