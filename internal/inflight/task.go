// Package inflight mirrors the in-flight record that this process has in Redis: the jobs it has
// reserved, the outcomes that Redis has not committed yet, and which jobs are with workers. It has
// no goroutine, no connection and no clock of its own.
package inflight

import (
	"sync/atomic"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// Task is a job on its way through this process: reserved, handed to a worker, ended, committed.
type Task struct {
	outcome.Job
	Session *fleet.Session // that reserved it

	// admitted is set once the job goes into no other lane, or its outcome is known. The worker and
	// the poller write it, and the poller reads it.
	admitted atomic.Bool

	abandoned bool // it went back to its queue although its handler still runs
}

// Admitted is called by the worker when the job may run: it goes into no other lane.
func (t *Task) Admitted() { t.admitted.Store(true) }

// movable reports whether the job may belong into another lane: it lay in its queue, or in the lane
// of a class that the process which sorted it did not know.
func (t *Task) movable() bool { return t.Lane == nil || t.Lane.Known() != *t.Lane }

// End is a task and its outcome, until Redis has committed it.
type End struct {
	Task *Task
	outcome.Outcome

	again *resque.Ended // of a task that ended before, and ends once more in the same way
	bytes bool          // Redis has lost the payload, which the commit pushes
}

// row is the end as the commit takes it.
func (e *End) row() resque.Ended {
	if e.again != nil {
		return *e.again
	}
	row := e.Ended(e.Task.Ticket)
	if e.bytes {
		row.Bytes = e.Task.Payload
	}
	return row
}

// plain reports whether an acknowledgement is all that the end takes.
func (e *End) plain() bool { return e.again == nil && e.Plain() }
