package goworker

import (
	"errors"
	"fmt"
	"strings"

	"github.com/goworker/goworker/internal/resque"
)

// Causes of a job's context being cancelled, as context.Cause returns them.
var (
	// ErrLeaseLost: this process was silent for so long that others found it dead
	// and were given its jobs. What the handler does from here on is done twice.
	ErrLeaseLost = errors.New("goworker: the lease was lost, the job was given to another process")

	// ErrShutdown: the shutdown timeout has passed, or a second signal came. A job
	// that returns a context error now goes back to its queue.
	ErrShutdown = errors.New("goworker: shutting down")

	// ErrCancelled: somebody cancelled the running jobs (USR1). The job is a failure.
	ErrCancelled = errors.New("goworker: the job was cancelled")
)

// ErrTooFewReplicas is what an error of Enqueue is (errors.Is) when the job was
// pushed, but fewer replicas than WorkerSettings.WaitReplicas have told in time that
// they have it. Workers take the job; pushing it again doubles it.
var ErrTooFewReplicas = resque.ErrFewReplicas

// ErrClosed is what an error of a call after Close is (errors.Is): nothing was done. Only
// Init, Run and Work make a closed Daemon or Shards usable again. A call that was under
// way when Close was called may return it too.
var ErrClosed = errors.New("goworker: the daemon is closed; call Init to use it again")

// ErrRunning is returned by Run and Work while the daemon is running already.
var ErrRunning = errors.New("goworker: the daemon is running already")

// ShutdownError is returned by Run when it had to stop before the jobs did.
type ShutdownError struct {
	// Unfinished names the jobs whose handlers were still running. They went back
	// to their queues and will run again, although these handlers may yet finish.
	Unfinished []string

	// Undelivered is how many outcomes could not be brought to Redis. Their jobs
	// run again once another process finds this one dead.
	Undelivered int
}

func (e *ShutdownError) Error() string {
	var parts []string
	if n := len(e.Unfinished); n > 0 {
		names := e.Unfinished
		if n > 5 {
			names = append(append([]string(nil), names[:5]...), "…")
		}
		parts = append(parts, fmt.Sprintf("%d jobs did not stop in time and will run again: %s", n, strings.Join(names, ", ")))
	}
	if e.Undelivered > 0 {
		parts = append(parts, fmt.Sprintf("the outcomes of %d jobs could not be brought to Redis; they will run again", e.Undelivered))
	}
	return "goworker: " + strings.Join(parts, "; ")
}
