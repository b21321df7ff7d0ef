package goworker

import (
	"fmt"
	"time"
)

// RetryIn is returned by a handler whose job is to run again after d, whatever its
// class's Retry says about this error and about the wait. It counts as a retry like any
// other: when there are none left the job is filed as failed. A class without Retry has
// DefaultRetries for this. Zero or less puts the job behind the others of its queue at
// once.
//
// err says why, for the log and the failure record, and may be nil. Like Discard and
// Fail it may be wrapped, as with %w, joined, panicked with, or returned by middleware;
// of several the outermost counts.
func RetryIn(d time.Duration, err error) error { return &wish{kind: wishRetry, wait: d, err: err} }

// Discard is returned by a handler whose job is to be dropped: it is neither retried nor
// filed as failed, but logged and counted as processed. err says why and may be nil.
func Discard(err error) error { return &wish{kind: wishDiscard, err: err} }

// Fail is returned by a handler whose job is to be filed as failed without a retry. err
// says why and may be nil.
func Fail(err error) error { return &wish{kind: wishFail, err: err} }

// wish is an error by which a handler says what is to become of its job.
type wish struct {
	kind wishKind
	wait time.Duration
	err  error
}

type wishKind int

const (
	wishNone wishKind = iota
	wishRetry
	wishDiscard
	wishFail
)

func (w *wish) Error() string {
	switch {
	case w.err != nil:
		return w.err.Error()
	case w.kind == wishRetry:
		return fmt.Sprintf("the handler asked to run again in %s", w.wait)
	case w.kind == wishDiscard:
		return "the handler discarded the job"
	}
	return "the handler gave the job up"
}

func (w *wish) Unwrap() error { return w.err }

// wished finds the outermost wish in an error, and the wait that the error, or one it
// wraps, asks for by a method RetryAfter; zero if none does. A wish's wait is its own.
//
// It calls methods of the program's errors, and those of a nil *T in an error panic.
func wished(err error) (found wish, after time.Duration) {
	defer func() { _ = recover() }()
	walkErrors(err, func(e error) bool {
		if w, ok := e.(*wish); ok {
			found = *w
			return true
		}
		return false
	})
	walkErrors(err, func(e error) bool {
		if e, ok := e.(interface{ RetryAfter() time.Duration }); ok {
			after = e.RetryAfter()
		}
		return after > 0
	})
	return found, max(after, 0)
}
