package goworker

import (
	"errors"
	"fmt"
	"slices"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/feature/retry"
)

// DefaultRetries is how often a job is retried at most when its handler asks for it
// with RetryIn and its class has no Retry.
const DefaultRetries = retry.AskedLimit

// Retry lets the jobs of a class that fail run again, up to n times after the first
// run: n + 1 runs in all, as resque-retry's retry_limit counts. NoLimit retries for ever;
// no other number may be negative. Without this option a failed job is not retried.
//
// Options say how long a job waits (one of Exponential, Fibonacci, Delays, DelayFunc;
// Exponential{} if none is given) and which errors are retried (RetryOn, RetryIf,
// NoRetryOn, NoRetryIf; all if none is given). A panic is an error like any other.
//
// The job waits in Redis and costs no worker. Its payload gets an "attempt" and, if it
// has none, an "id", so that the count outlives the process. When it has failed n + 1
// times it is filed as failed, once, with its last error.
func Retry(n int, opts ...RetryOption) Option {
	name := fmt.Sprintf("Retry(%d)", n)
	p := &retryPolicy{limit: n}
	var wrong mistakes
	for _, opt := range opts {
		if opt == nil {
			wrong.wrong("a nil RetryOption was given; leave it out")
		} else {
			wrong.add(opt.retry(p))
		}
	}
	wrong.add(p.first)
	if p.delay == nil {
		_ = Exponential{}.retry(p)
	}
	return option(func(o *options) {
		o.once("how often a failed job is retried", name)
		if n < NoLimit {
			o.wrong("%s: it must be a number of retries, or NoLimit (-1) to retry for ever", name)
		}
		o.take("Retry", wrong)
		o.retry = p
	})
}

// RetryOption says when, or after which errors, the jobs of a class are retried; see
// Retry. Mistakes are reported by Register; see Option.
type RetryOption interface{ retry(*retryPolicy) error }

// retryPolicy is what Retry was told. It never changes.
type retryPolicy struct {
	mistakes
	limit int
	delay DelayFunc
	only  []func(error) bool // if any are given, one must say yes
	never []func(error) bool // none may say yes
	ruby  *ResqueRetry
}

// retryIf is a RetryOption that looks at the error.
type retryIf struct {
	test  func(error) bool
	never bool
}

// retryOn is a RetryOption that looks for errors.
type retryOn struct {
	errs  []error
	never bool
}

func (o retryOn) retry(p *retryPolicy) error {
	name := "RetryOn"
	if o.never {
		name = "NoRetryOn"
	}
	switch {
	case len(o.errs) == 0:
		return fmt.Errorf("%s was given no errors; leave it out", name)
	case slices.Contains(o.errs, nil):
		return fmt.Errorf("%s was given a nil error, which no job fails with; leave that out", name)
	}
	return retryIf{anyOf(slices.Clone(o.errs)), o.never}.retry(p)
}

func (o retryIf) retry(p *retryPolicy) error {
	switch {
	case o.test == nil:
		return errors.New("a nil function was given to choose errors; leave it out")
	case o.never:
		p.never = append(p.never, o.test)
	default:
		p.only = append(p.only, o.test)
	}
	return nil
}

// RetryOn retries only after errors that are (errors.Is) one of these. With several
// RetryOn and RetryIf, one that applies is enough.
func RetryOn(errs ...error) RetryOption { return retryOn{errs: errs} }

// RetryIf retries only after errors for which f returns true.
//
//	goworker.Retry(5, goworker.RetryIf(goworker.ErrorAs[net.Error]))
func RetryIf(f func(error) bool) RetryOption { return retryIf{test: f} }

// NoRetryOn files a job as failed, at once, after an error that is (errors.Is) one of
// these. It wins over RetryOn and RetryIf.
func NoRetryOn(errs ...error) RetryOption { return retryOn{errs: errs, never: true} }

// NoRetryIf files a job as failed, at once, after an error for which f returns true. It
// wins over RetryOn and RetryIf.
func NoRetryIf(f func(error) bool) RetryOption { return retryIf{test: f, never: true} }

// ErrorAs reports whether the error, or one it wraps, has the type T (errors.As). It is
// meant for RetryIf and NoRetryIf.
func ErrorAs[T error](err error) bool {
	var target T
	return failure.Any(err, func(e error) bool {
		if _, is := e.(T); is {
			return true
		}
		as, ok := e.(interface{ As(any) bool })
		return ok && as.As(&target)
	})
}

func anyOf(errs []error) func(error) bool {
	return func(err error) bool {
		for _, target := range errs {
			if failure.Matches(err, target) {
				return true
			}
		}
		return false
	}
}

// policy is the policy as the feature knows it.
func (p *retryPolicy) policy() *retry.Policy {
	policy := &retry.Policy{Limit: p.limit, Delay: p.delay, Allows: p.allows}
	if p.ruby != nil {
		policy.Ruby = &retry.Ruby{Ruby34: p.ruby.Ruby34, NoFailureKey: p.ruby.NoFailureKey, ExpireAfter: p.ruby.ExpireAfter}
	}
	return policy
}

// allows reports whether the policy retries after such an error.
func (p *retryPolicy) allows(err error) bool {
	for _, never := range p.never {
		if never(err) {
			return false
		}
	}
	for _, only := range p.only {
		if only(err) {
			return true
		}
	}
	return len(p.only) == 0
}
