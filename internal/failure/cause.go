package failure

import (
	"context"
	"errors"
	"fmt"
)

// Why the context of a job was cancelled. The root package documents them.
var (
	ErrLeaseLost = errors.New("goworker: the lease was lost, the job was given to another process")
	ErrShutdown  = errors.New("goworker: shutting down")
	ErrCancelled = errors.New("goworker: the job was cancelled")
)

// ErrGoexit is the failure of a job whose handler ended its goroutine.
var ErrGoexit = errors.New("the handler ended its goroutine with runtime.Goexit instead of returning; return an error to fail the job")

// Cancelled is what a handler returned after its context was cancelled.
type Cancelled struct {
	Cause error // of the context
	Err   error // of the handler
}

func (e *Cancelled) Error() string { return fmt.Sprintf("%v: %v", e.Cause, e.Err) }

// Unwrap returns both.
func (e *Cancelled) Unwrap() []error { return []error{e.Err, e.Cause} }

// Exception makes failure records look through the error.
func (e *Cancelled) Exception() string { return "" }

// Interrupted reports whether a stop, or the loss of the lease, cut a handler short:
// its job goes back, unless a reaper has put it back before.
func Interrupted(err error) bool {
	return Is(err, ErrShutdown) && isContextError(err) || Is(err, ErrLeaseLost)
}

func isContextError(err error) bool {
	return Is(err, context.Canceled) || Is(err, context.DeadlineExceeded)
}

// Is is errors.Is for what handlers return: a panic of the program's errors is no match.
func Is(err, target error) (yes bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}
