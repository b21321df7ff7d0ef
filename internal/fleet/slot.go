package fleet

import (
	"sync/atomic"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// Slot is one worker, as Resque's tools know it under one worker id. Its methods are for the
// goroutine of that worker, except for Busy.
type Slot struct {
	status *Status

	// The worker writes these, and the status writer reads them.
	job       atomic.Pointer[outcome.Job] // nil: the worker is idle
	processed atomic.Int64
	failed    atomic.Int64

	named atomic.Bool // worker:<id> names the job; the status writer writes it, the worker reads it
}

// Begin says that the worker runs a job from now on. The status writer reads what was set before: where
// the job came from, its bytes, its process, and when it was started.
func (s *Slot) Begin(j *outcome.Job) {
	s.job.Store(j)
	s.status.begun()
}

// Busy reports whether the worker has a job. It is safe for concurrent use.
func (s *Slot) Busy() bool { return s.job.Load() != nil }

// End says that the worker has ended its job, and how the job counts.
func (s *Slot) End(counts resque.Counts) {
	if counts != resque.CountsNothing {
		s.processed.Add(1)
	}
	if counts == resque.CountsFailed {
		s.failed.Add(1)
	}
	s.job.Store(nil)
	if s.named.Load() {
		s.status.loop.Wake()
	}
}
