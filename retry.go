package goworker

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/outcome"
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
		outcome.Put(o.class, p.policy())
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

// What the fields of Exponential are when they are zero.
const (
	DefaultRetryBase   = 10 * time.Second
	DefaultRetryFactor = 2.0
	DefaultRetryMax    = time.Hour
	DefaultRetryJitter = 0.2
)

// NoJitter is a Jitter of zero.
const NoJitter = -1

// Exponential waits longer before each retry. After the n-th run a job waits
//
//	min(Max, Base · Factor^(n−1)) · (1 − Jitter · r), r random in [0, 1)
//
// so by default 10 s, 20 s, 40 s, … an hour, each up to a fifth less: that jobs which
// failed together do not come back together. Fields that are zero have their defaults.
type Exponential struct {
	Base   time.Duration
	Factor float64       // at least 1
	Max    time.Duration // at least Base, which it is by default where that is longer
	Jitter float64       // at most 1, which is anything from nothing to the whole wait; NoJitter: none
}

func (e Exponential) retry(p *retryPolicy) error {
	e.Base = orDefault(e.Base, DefaultRetryBase)
	e.Factor = orDefault(e.Factor, DefaultRetryFactor)
	e.Max = min(orDefault(e.Max, max(DefaultRetryMax, e.Base)), longestWait)
	e.Jitter = orDefault(e.Jitter, DefaultRetryJitter)
	if e.Jitter == NoJitter {
		e.Jitter = 0
	}
	switch {
	case e.Base < 0 || e.Max < 0:
		return fmt.Errorf("Exponential{Base: %s, Max: %s}: neither may be negative", e.Base, e.Max)
	case e.Max < min(e.Base, longestWait):
		return fmt.Errorf("Exponential{Base: %s, Max: %s}: Max is shorter than the first wait", e.Base, e.Max)
	case !(e.Factor >= 1) || math.IsInf(e.Factor, 0):
		return fmt.Errorf("Exponential{Factor: %v}: it must be at least 1", e.Factor)
	case !(e.Jitter >= 0 && e.Jitter <= 1):
		return fmt.Errorf("Exponential{Jitter: %v}: it must be at most 1 and not negative, or NoJitter", e.Jitter)
	}
	return p.wait("Exponential", func(attempt int, _ error) time.Duration {
		wait := min(float64(e.Max), float64(e.Base)*math.Pow(e.Factor, float64(attempt-1)))
		return time.Duration(wait * (1 - e.Jitter*rand.Float64()))
	})
}

func orDefault[T comparable](v, otherwise T) T {
	var zero T
	if v == zero {
		return otherwise
	}
	return v
}

// Fibonacci waits 1, 2, 3, 5, 8, … Units before the retries, as Machinery does with
// Units of a second.
type Fibonacci struct {
	Unit time.Duration // zero: a second
	Max  time.Duration // zero: no limit
}

func (f Fibonacci) retry(p *retryPolicy) error {
	f.Unit = orDefault(f.Unit, time.Second)
	f.Max = min(orDefault(f.Max, longestWait), longestWait)
	switch {
	case f.Unit < 0 || f.Max < 0:
		return fmt.Errorf("Fibonacci{Unit: %s, Max: %s}: neither may be negative", f.Unit, f.Max)
	case f.Max < min(f.Unit, longestWait):
		return fmt.Errorf("Fibonacci{Unit: %s, Max: %s}: Max is shorter than the first wait", f.Unit, f.Max)
	}
	return p.wait("Fibonacci", func(attempt int, _ error) time.Duration {
		a, b := 1.0, 2.0
		for n := 1; n < attempt && a*float64(f.Unit) < float64(f.Max); n++ {
			a, b = b, a+b
		}
		return time.Duration(min(a*float64(f.Unit), float64(f.Max)))
	})
}

// Delays are how long a job waits before its first retry, its second, and so on; the
// last one holds for all that follow. A single one is the same wait each time. Zero
// puts the job behind the others of its queue at once; none may be negative.
type Delays []time.Duration

// ResqueDelays are the delays of resque-retry's ExponentialBackoff: none, a minute, ten
// minutes, one hour, three, six. Its limit is 6 retries.
func ResqueDelays() Delays {
	return Delays{0, time.Minute, 10 * time.Minute, time.Hour, 3 * time.Hour, 6 * time.Hour}
}

func (d Delays) retry(p *retryPolicy) error {
	if len(d) == 0 {
		return errors.New("Delays{}: at least one is needed; Delays{0} does not wait")
	}
	d = slices.Clone(d)
	for _, wait := range d {
		if wait < 0 {
			return fmt.Errorf("the wait %s in Delays%v is negative; 0 does not wait", wait, d)
		}
	}
	return p.wait("Delays", func(attempt int, _ error) time.Duration { return d[min(attempt, len(d))-1] })
}

// DelayFunc says how long a job waits after its attempt-th run, the first being 1, ended
// with err. Zero or less puts it behind the others of its queue at once. It is called by
// many workers at the same time.
type DelayFunc func(attempt int, err error) time.Duration

func (f DelayFunc) retry(p *retryPolicy) error {
	if f == nil {
		return errors.New("a nil DelayFunc was given; leave it out")
	}
	return p.wait("DelayFunc", f)
}

func (p *retryPolicy) wait(option string, f DelayFunc) error {
	p.once("how long to wait", option)
	p.delay = f
	return nil
}

// longestWait is far away, and safe to be added to a time.
const longestWait = retry.Longest

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

// ResqueRetry makes Retry count as the Ruby plugin resque-retry does, so that Ruby and
// Go may run the same jobs in turns and neither retries more often than was agreed. Give
// Retry the limit and the delays that the Ruby class has:
//
//	goworker.Retry(6, goworker.ResqueDelays(), goworker.ResqueRetry{})
//
// The count is then not in the job's payload but in resque-retry's key of its class and
// arguments, which all equal jobs share. A retried run counts as processed and failed.
// Its job waits, for whole seconds, in resque-scheduler's schedule, where either
// scheduler finds it; a job that has more than class and arguments waits in goworker's
// own. A run's beginning costs a round trip to Redis, which runs that begin at the same
// time share.
type ResqueRetry struct {
	// Ruby34 is for applications on Ruby 3.4 or newer. There the key of jobs with a hash
	// among their arguments differs.
	Ruby34 bool

	// NoFailureKey leaves no record of a retried failure. By default its record is kept
	// while the job waits, where resque-retry's MultipleWithRetrySuppression keeps it and
	// resque-web's tab of retries shows it.
	NoFailureKey bool

	// ExpireAfter is the Ruby class's expire_retry_key_after, in whole seconds; a fraction
	// counts as one more. The count of a job that is to be retried expires that long after
	// the job is due again, so that the count of a job that never comes to its end does not
	// stay for ever. It must be longer than a job that is due waits for a worker and runs:
	// a count that has expired begins at 0 again. 0 sets no expiry and leaves one that Ruby
	// has set. A negative one makes Retry panic.
	ExpireAfter time.Duration
}

func (r ResqueRetry) retry(p *retryPolicy) error {
	p.once("how retries are counted", "ResqueRetry")
	if r.ExpireAfter < 0 {
		return fmt.Errorf("ResqueRetry's ExpireAfter is %s; give a time that is not negative, or leave it out", r.ExpireAfter)
	}
	p.ruby = &r
	return nil
}
