package goworker

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/prefix"
)

// This file is how many jobs run at the same time, changed while the daemon works.

// Resized is what became of a change of the concurrency.
type Resized struct {
	From int `json:"from"`
	To   int `json:"to"`

	// Settings is what WorkerSettings.Concurrency says, with which the next run begins.
	Settings int `json:"settings"`

	// Busy are the jobs that run on workers beyond To. They go on, and their workers are unregistered when
	// they have ended.
	Busy []BusyWorker `json:"busy,omitempty"`
}

// BusyWorker is a worker of this process and the job that it runs.
type BusyWorker struct {
	Worker string    `json:"worker"` // its id for other Resque tools
	Queue  string    `json:"queue"`
	Since  time.Time `json:"since"`
}

// maxConcurrency is how many workers a process may have: other processes must be able to unregister them all.
const maxConcurrency = 1 << 12

// errNotRunning is returned by what changes a run while there is none.
var errNotRunning = errors.New("the daemon does not run: call Run or Work first, or change the settings")

// errShared is returned where the workers are those of several daemons.
var errShared = errors.New("this daemon shares its workers with the other shards, whose number does not change while they run; set WorkerSettings.Concurrency")

// resize changes the number of workers of a run.
func resize(ctx context.Context, lease *fleet.Lease, n int) (Resized, error) {
	r := Resized{From: lease.Wanted().Workers, To: n}
	if err := lease.Change(ctx, func(w *fleet.Wanted) { w.Workers = n }); err != nil {
		return r, prefix.Errorf("changing the concurrency to %d: %w", n, err)
	}
	for _, j := range lease.Status.Beyond(n) {
		r.Busy = append(r.Busy, BusyWorker{Worker: j.Worker, Queue: j.Queue, Since: j.StartedAt})
	}
	return r, nil
}

// concurrencyVerb changes the concurrency as an operator says: "12", "+4" or "-4". More than the settings say
// needs the level full.
func concurrencyVerb(lease *fleet.Lease, settings int, shared bool) control.Verb {
	return control.Verb{Name: "concurrency", Level: control.On, Whole: true, Help: "changes how many jobs run at a time, until the process ends: N, +N or -N",
		Do: func(ctx context.Context, c *control.Call) (any, error) {
			var args struct {
				Workers string `json:"workers"`
			}
			if err := c.Decode(&args); err != nil {
				return nil, err
			}
			n, err := strconv.Atoi(args.Workers)
			if err == nil && strings.ContainsAny(args.Workers[:1], "+-") {
				n += lease.Wanted().Workers
			}
			switch {
			case shared:
				return nil, errShared
			case err != nil || n < 1 || n > maxConcurrency:
				return nil, fmt.Errorf("workers is %q: it must be a number from 1 to %d, or a change to one, as in +4", args.Workers, maxConcurrency)
			case n > settings:
				if err := c.Full(); err != nil {
					return nil, err
				}
			}
			r, err := resize(ctx, lease, n)
			r.Settings = settings
			return r, err
		}}
}
