package failure

import (
	"context"
	"errors"
	"fmt"
	"reflect"
)

// Why the context of a job was cancelled. The root package documents them.
var (
	ErrLeaseLost = errors.New("goworker: the lease was lost, the job was given to another process")
	ErrShutdown  = errors.New("goworker: shutting down")
	ErrCancelled = errors.New("goworker: the job was cancelled")

	// ErrUnwanted is the cause of a job that was cancelled by itself, by its id or its ticket. What its handler
	// returns then is dropped. After CancelJobs, whose cause is ErrCancelled itself, it is a failure.
	ErrUnwanted = fmt.Errorf("%w by its id or ticket", ErrCancelled)

	// ErrNotHeld is no cause: it is the error of what only the run may do that still holds its job.
	ErrNotHeld = errors.New("goworker: the job is no longer held by this run: another process has it, or it has ended")

	// ErrHalted is the cause of a step whose workflow was cancelled, has expired, or has failed. What its handler
	// returns then is dropped.
	ErrHalted = fmt.Errorf("%w because its workflow was halted", ErrCancelled)
)

// ErrGoexit is the failure of a job whose handler ended its goroutine.
var ErrGoexit = errors.New("goworker: the handler ended its goroutine with runtime.Goexit instead of returning; return an error to fail the job")

// Cancelled is what a handler returned after its context was cancelled.
type Cancelled struct {
	Cause error // of the context
	Err   error // of the handler
}

func (e *Cancelled) Error() string {
	if Is(e.Err, e.Cause) { // the handler has returned context.Cause, perhaps with a text of its own
		return fmt.Sprint(e.Err)
	}
	return fmt.Sprintf("%v: %v", e.Cause, e.Err)
}

// Unwrap returns both.
func (e *Cancelled) Unwrap() []error { return []error{e.Err, e.Cause} }

// Exception makes failure records look through the error.
func (e *Cancelled) Exception() string { return "" }

// Interrupted reports whether a stop, or the loss of the lease, cut a handler short:
// its job goes back, unless a reaper has put it back before. The handler has returned the context's error
// or its cause.
func Interrupted(err error) bool {
	if c, ok := err.(*Cancelled); ok && Is(c.Err, ErrShutdown) {
		return true
	}
	return Is(err, ErrShutdown) && isContextError(err) || Is(err, ErrLeaseLost) || Is(err, ErrNotHeld)
}

func isContextError(err error) bool {
	return Is(err, context.Canceled) || Is(err, context.DeadlineExceeded)
}

// Is is errors.Is for what handlers return: a panic of the program's errors is no match.
func Is(err, target error) (yes bool) {
	defer func() { _ = recover() }()
	return Matches(err, target)
}

// Matches is errors.Is, except that it ends: among the first maxMatched errors there is no match.
// It looks at outer errors first, so that an error that unwraps for ever hides none beside it.
func Matches(err, target error) bool {
	compares := target != nil && reflect.TypeOf(target).Comparable()
	return Any(err, func(e error) bool {
		if compares && e == target {
			return true
		}
		is, ok := e.(interface{ Is(error) bool })
		return ok && is.Is(target)
	}) || err == nil && target == nil
}

// maxMatched bounds the search for a match. It is more than a program joins.
const maxMatched = 10_000

// Any reports whether a test holds for an error or one that it wraps. It tests outer errors first.
func Any(err error, test func(error) bool) bool {
	var few [8]error // most errors wrap fewer
	queue := append(few[:0], err)
	for i := 0; i < len(queue) && i < maxMatched; i++ {
		e := queue[i]
		if e == nil {
			continue
		}
		if test(e) {
			return true
		}
		switch u := e.(type) {
		case interface{ Unwrap() error }:
			queue = append(queue, u.Unwrap())
		case interface{ Unwrap() []error }:
			queue = append(queue, u.Unwrap()...)
		}
	}
	return false
}

// As reports whether an error, or one that it wraps, has the type T, as errors.As does.
func As[T error](err error) bool {
	var target T
	return Any(err, func(e error) bool {
		if _, is := e.(T); is {
			return true
		}
		as, ok := e.(interface{ As(any) bool })
		return ok && as.As(&target)
	})
}
