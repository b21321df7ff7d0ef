// Package inflight mirrors the in-flight record of this process in Redis: the reserved jobs, the
// outcomes that Redis has not committed yet, and the jobs that workers have. It has no goroutine,
// no connection and no clock of its own.
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
	deaths  *resque.Deaths // how it was found in dead processes; nil: it was not

	// admitted is set once the job goes into no other lane, or its outcome is known. The worker and
	// the poller write it, and the poller reads it.
	admitted atomic.Bool

	abandoned bool // it went back to its queue although its handler still runs
}

// Admitted is called by the worker when the job may run: it goes into no other lane.
func (t *Task) Admitted() { t.admitted.Store(true) }

// movable reports whether the job may belong into another lane: it came from its queue, or from the
// lane of an unknown class.
func (t *Task) movable() bool { return t.Lane == nil || t.Lane.Known() != *t.Lane }

// suspicion is what is remembered of the job being found in dead processes.
func (t *Task) suspicion() resque.Deaths {
	if t.deaths == nil {
		return resque.Deaths{}
	}
	return *t.deaths
}

// End is a task and what became of it, until Redis has committed that.
type End struct {
	Task *Task
	outcome.Commit
}

// NewEnd returns the end of a task.
func NewEnd(t *Task, o *outcome.Outcome) End { return End{t, o.Commit(&t.Job)} }
