package outcome

import (
	"fmt"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/payload"
)

// Record returns the failure record of a job, and whether its payload is kept elsewhere because the
// record holds but an excerpt of it.
func (d Deps) Record(j *Job, err error) (f payload.Failure, keep bool) {
	f = payload.Failure{Payload: j.Payload, Worker: j.Worker, Queue: j.Queue}
	f.Exception, f.Error, f.Backtrace = failure.Describe(err, d.Exceptions)
	if j.Dead {
		f.FailedAt, f.Payload, f.Backtrace = payload.FailedAt(d.Time.Now()), payload.Safe(j.Payload), nil
		return f, false
	}
	f.FailedAt = payload.FailedAt(d.Clock.Now())
	if failure.Is(err, failure.ErrCancelled) {
		f.Exception = dirtyExit // as when Ruby's worker kills its child on USR1
	}
	switch err.(type) {
	case *payload.SizeError:
		f.Payload, keep = payload.Excerpt(j.Payload), true
	case *payload.Error:
		f.Payload, keep = payload.Invalid(j.Payload), len(j.Payload) > payload.MaxInvalid
	}
	if keep {
		f.Error += "; " + d.Store.KeptHint(j.Queue)
	}
	return f, keep
}

const dirtyExit = "Resque::DirtyExit"

// Poison is the failure of a job that was found in too many dead processes.
type Poison struct {
	Found int    // in how many
	Last  string // the last of them
}

func (e *Poison) Error() string {
	return fmt.Sprintf("The job was running in %d processes that died, the last of them %s; it is not run again by itself.", e.Found, e.Last)
}

// Exception is the name that Ruby has for it.
func (e *Poison) Exception() string { return dirtyExit }
