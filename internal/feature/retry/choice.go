package retry

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goworker/goworker/internal/failure"
)

// Choice chooses the errors after which a job is retried. The zero value chooses all.
type Choice struct {
	only  []func(error) bool // if there are any, one must return true
	never []func(error) bool // none may return true
}

// If adds a function that chooses errors: those that are retried or, with never, those that are not.
func (c *Choice) If(test func(error) bool, never bool) error {
	switch {
	case test == nil:
		return errors.New("a nil function was given to choose errors; leave it out")
	case never:
		c.never = append(c.never, test)
	default:
		c.only = append(c.only, test)
	}
	return nil
}

// On is If for errors that are (errors.Is) one of these.
func (c *Choice) On(errs []error, never bool) error {
	name := "RetryOn"
	if never {
		name = "NoRetryOn"
	}
	switch {
	case len(errs) == 0:
		return fmt.Errorf("%s was given no errors; leave it out", name)
	case slices.Contains(errs, nil):
		return fmt.Errorf("%s was given a nil error, which no job fails with; leave that out", name)
	}
	errs = slices.Clone(errs)
	return c.If(func(err error) bool {
		return slices.ContainsFunc(errs, func(target error) bool { return failure.Matches(err, target) })
	}, never)
}

// Allows reports whether the job is retried after an error.
func (c *Choice) Allows(err error) bool {
	yes := func(test func(error) bool) bool { return test(err) }
	return !slices.ContainsFunc(c.never, yes) && (len(c.only) == 0 || slices.ContainsFunc(c.only, yes))
}
