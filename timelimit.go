package goworker

import (
	"fmt"
	"time"
)

// HardTimeoutMargin is how long after its Timeout an isolated job is killed where its
// class has no HardTimeout.
const HardTimeoutMargin = 10 * time.Second

// TimeLimitError is the failure of an isolated job that was ended at its HardTimeout.
type TimeLimitError struct {
	// Class is the class the handler was found by.
	Class string
	// Limit is the HardTimeout.
	Limit time.Duration
	// Err is what the handler returned after its context was cancelled at the limit;
	// nil if it did not return and was killed.
	Err error

	trace []string
}

func (e *TimeLimitError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s reached its hard time limit of %s and was cancelled: %v", e.Class, e.Limit, e.Err)
	}
	return fmt.Sprintf("%s reached its hard time limit of %s and was killed; its work may be half done", e.Class, e.Limit)
}

// Backtrace returns where the handler was at the limit, as lines of the failure
// record; nothing if its process could not tell any more.
func (e *TimeLimitError) Backtrace() []string { return e.trace }

// checkLimits says what is wrong with the limits of a class. It fills in what follows
// from others.
func (o *options) checkLimits() error {
	i := o.isolation
	switch {
	case i == nil:
		return nil
	case i.limit > 0 && o.timeout > i.limit:
		return fmt.Errorf("its Timeout of %s is longer than its HardTimeout of %s, so its context would never end by it; give the Timeout less",
			o.timeout, i.limit)
	case i.limit == 0 && o.timeout > 0:
		i.limit = o.timeout + HardTimeoutMargin
	}
	return nil
}
