package goworker

import (
	"time"

	"github.com/goworker/goworker/internal/failure"
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
func RetryIn(d time.Duration, err error) error {
	return &failure.Wish{Kind: failure.WishRetry, Wait: d, Err: err}
}

// Discard is returned by a handler whose job is to be dropped: it is neither retried nor
// filed as failed, but logged and counted as processed. err says why and may be nil.
func Discard(err error) error { return &failure.Wish{Kind: failure.WishDiscard, Err: err} }

// Fail is returned by a handler whose job is to be filed as failed without a retry. err
// says why and may be nil.
func Fail(err error) error { return &failure.Wish{Kind: failure.WishFail, Err: err} }
