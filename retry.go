package goworker

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/feature/resqueretry"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/setting"
)

// DefaultRetries is how often a job is retried at most when its handler asks for it
// with RetryIn and its class has no Retry.
const DefaultRetries = retry.AskedLimit

// Retry makes failed jobs of a class run again, up to n times after the first run: n + 1
// runs in all, as with resque-retry's retry_limit. NoLimit retries for ever; no other
// number may be negative. Without this option a failed job is not retried.
//
// One option says how long a job waits: Exponential, Fibonacci, Delays or DelayFunc.
// Without one it is Exponential{}. Other options say which errors are retried: RetryOn,
// RetryIf, NoRetryOn, NoRetryIf. Without one all are. A panic is an error like any
// other.
//
// The job waits in Redis and costs no worker. Its payload gets an "attempt" and, if it
// has none, an "id", so that the count outlives the process. When it has failed n + 1
// times it is filed as failed, once, with its last error.
//
// Given with one job, the number holds for that job in place of its class's: Retry(0) is none.
// A payload has no place for a RetryOption, so one is an error there. The delays and conditions
// are those of the class, or those of a Retry without options if the class has no Retry.
func Retry(n int, opts ...RetryOption) JobOption {
	p := &retryPolicy{policy: retry.Policy{Limit: n}, bare: len(opts) == 0}
	for _, opt := range opts {
		if opt == nil {
			p.Wrong("a nil RetryOption was given; leave it out")
		} else {
			p.Add(opt.retry(p))
		}
	}
	if p.policy.Delay == nil {
		_ = Exponential{}.retry(p)
	}
	p.policy.Allows = p.choice.Allows
	return p
}

// limit adds the number to the options of a class or a job.
func (p *retryPolicy) limit(o *setting.Mistakes) (option string) {
	option = fmt.Sprintf("Retry(%d)", p.policy.Limit)
	o.Once("how often a failed job is retried", option)
	if p.policy.Limit < NoLimit {
		o.Wrong("%s: it must be a number of retries, or NoLimit (-1) to retry for ever", option)
	}
	return option
}

func (p *retryPolicy) register(o *options) {
	p.limit(&o.Mistakes)
	o.Take("Retry", p.Mistakes)
	outcome.Put(o.class, &p.policy)
	if p.ruby != nil {
		outcome.Put(o.class, *p.ruby)
	}
}

func (p *retryPolicy) enqueue(o *enqueueOptions) {
	o.named = true
	switch option := p.limit(&o.Mistakes); {
	case !p.bare:
		o.Wrong("%s: one job takes only the number; give delays, conditions and ResqueRetry to its class, with Register or Define", option)
	case p.policy.Limit > payload.MaxRuns:
		o.Wrong("%s: one job takes at most %d retries, or NoLimit", option, payload.MaxRuns)
	}
	outcome.Put(o.to, retry.Own(p.policy.Limit))
}

// RetryOption is a setting of Retry:
//
//   - Exponential, Fibonacci, Delays, ResqueDelays, DelayFunc: how long to wait before a run
//   - RetryOn, RetryIf, NoRetryOn, NoRetryIf: after which errors
//   - ResqueRetry: count the retries together with Ruby's resque-retry
//
// Mistakes are reported by Register; see Option.
type RetryOption interface{ retry(*retryPolicy) error }

// retryPolicy collects the options of one Retry, and is its JobOption. It does not change afterwards.
type retryPolicy struct {
	setting.Mistakes
	bare   bool              // without options
	ruby   *resqueretry.Rule // nil: the payload has the count
	policy retry.Policy
	choice retry.Choice
}

// retryOption is a RetryOption that is a function.
type retryOption func(*retryPolicy) error

func (o retryOption) retry(p *retryPolicy) error { return o(p) }

// RetryOn retries only after errors that are (errors.Is) one of these. With several
// RetryOn and RetryIf, one that applies is enough.
func RetryOn(errs ...error) RetryOption {
	return retryOption(func(p *retryPolicy) error {
		p.Note("which errors are retried", "RetryOn")
		return p.choice.On(errs, false)
	})
}

// RetryIf retries only after errors for which f returns true.
//
//	goworker.Retry(5, goworker.RetryIf(goworker.ErrorAs[net.Error]))
func RetryIf(f func(error) bool) RetryOption {
	return retryOption(func(p *retryPolicy) error {
		p.Note("which errors are retried", "RetryIf")
		return p.choice.If(f, false)
	})
}

// NoRetryOn files a job as failed, at once, after an error that is (errors.Is) one of
// these. It wins over RetryOn and RetryIf.
func NoRetryOn(errs ...error) RetryOption {
	return retryOption(func(p *retryPolicy) error {
		p.Note("which errors are not retried", "NoRetryOn")
		return p.choice.On(errs, true)
	})
}

// NoRetryIf files a job as failed, at once, after an error for which f returns true. It
// wins over RetryOn and RetryIf.
func NoRetryIf(f func(error) bool) RetryOption {
	return retryOption(func(p *retryPolicy) error {
		p.Note("which errors are not retried", "NoRetryIf")
		return p.choice.If(f, true)
	})
}

// ErrorAs reports whether the error, or one it wraps, has the type T (errors.As). It is
// meant for RetryIf and NoRetryIf.
func ErrorAs[T error](err error) bool { return failure.As[T](err) }

// The defaults of the fields of Exponential.
const (
	DefaultRetryBase   = retry.DefaultBase
	DefaultRetryFactor = retry.DefaultFactor
	DefaultRetryMax    = retry.DefaultMax
	DefaultRetryJitter = retry.DefaultJitter
)

// NoJitter is a Jitter of zero.
const NoJitter = retry.NoJitter

// Exponential waits longer before each retry. After the n-th run a job waits
//
//	min(Max, Base · Factor^(n−1)) · (1 − Jitter · r), r random in [0, 1)
//
// By default these are 10 s, 20 s, 40 s, … an hour, each up to a fifth less. The random
// part spreads the retries of jobs that failed together. Fields that are zero have their
// defaults.
type Exponential struct {
	Base   time.Duration
	Factor float64       // at least 1
	Max    time.Duration // at least Base, which is the default if it is longer
	Jitter float64       // at most 1, which is anything from nothing to the whole wait; NoJitter: none
}

func (e Exponential) retry(p *retryPolicy) error {
	e.Base = cmp.Or(e.Base, DefaultRetryBase)
	e.Factor = cmp.Or(e.Factor, DefaultRetryFactor)
	e.Max = cmp.Or(e.Max, max(DefaultRetryMax, e.Base))
	e.Jitter = cmp.Or(e.Jitter, DefaultRetryJitter)
	wait, err := retry.Exponential(e).Wait()
	return p.wait("Exponential", wait, err)
}

// Fibonacci waits 1, 2, 3, 5, 8, … Units before the retries, as Machinery does with
// Units of a second.
type Fibonacci struct {
	Unit time.Duration // zero: a second
	Max  time.Duration // zero: no limit
}

func (f Fibonacci) retry(p *retryPolicy) error {
	f.Unit = cmp.Or(f.Unit, time.Second)
	f.Max = cmp.Or(f.Max, retry.Longest)
	wait, err := retry.Fibonacci(f).Wait()
	return p.wait("Fibonacci", wait, err)
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
	wait, err := retry.Delays(d)
	return p.wait("Delays", wait, err)
}

// DelayFunc says how long a job waits after its attempt-th run, the first being 1, ended
// with err. Zero or less puts it behind the others of its queue at once. Many workers
// call it at the same time.
type DelayFunc func(attempt int, err error) time.Duration

func (f DelayFunc) retry(p *retryPolicy) error {
	if f == nil {
		return errors.New("a nil DelayFunc was given; leave it out")
	}
	return p.wait("DelayFunc", f, nil)
}

func (p *retryPolicy) wait(option string, wait retry.Wait, err error) error {
	if err == nil {
		p.Once("how long to wait", option)
		p.policy.Delay = wait
	}
	return err
}

// RetryIn makes a handler's job run again after d: the handler returns it. It goes before
// what the class's Retry says about this error and about the wait. It counts as a retry
// like any other: when there are none left the job is filed as failed. A class without
// Retry has DefaultRetries for this. Zero or less puts the job behind the others of its
// queue at once.
//
// err says why, for the log and the failure record, and may be nil. Like Snooze, Discard
// and FailNow it may be wrapped, as with %w, joined, panicked with, or returned by middleware;
// of several the outermost counts.
func RetryIn(d time.Duration, err error) error {
	return &failure.Wish{Kind: failure.WishRetry, Wait: d, Err: err}
}

// Snooze makes a handler's job run again after d without using up an attempt: the handler
// returns it when what the job needs is not there yet. That is no failure, and works with and
// without Retry. The job counts as processed, and its unique lock stays. Zero or less puts it
// behind the others of its queue at once. Nothing ends a job that always snoozes but its
// expiry; see ExpireAfter.
//
// It may be wrapped as RetryIn may, for a reason in the log.
func Snooze(d time.Duration) error { return &failure.Wish{Kind: failure.WishSnooze, Wait: d} }

// Discard drops the job of a handler that returns it: the job is neither retried nor
// filed as failed, but logged and counted as processed. err says why and may be nil.
func Discard(err error) error { return &failure.Wish{Kind: failure.WishDiscard, Err: err} }

// FailNow files the job of a handler that returns it as failed, without a retry. err says why
// and may be nil.
func FailNow(err error) error { return &failure.Wish{Kind: failure.WishFail, Err: err} }

// ResqueRetry makes Retry count as the Ruby plugin resque-retry does. Then Ruby and Go may
// run the same jobs, and together they retry one no more often than the limit says. Give
// Retry the limit and the delays that the Ruby class has:
//
//	goworker.Retry(6, goworker.ResqueDelays(), goworker.ResqueRetry{})
//
// The count is then not in the job's payload but in resque-retry's key of its class and
// arguments, which all equal jobs share. A retried run counts as processed and failed.
// Its job waits, for whole seconds, in resque-scheduler's schedule, where either
// scheduler finds it. A job that has more than class and arguments waits in goworker's
// own schedule. The start of a run costs a round trip to Redis; runs that start at the
// same time share one.
type ResqueRetry struct {
	// Ruby34 is for applications on Ruby 3.4 or newer. There the key of jobs with a hash
	// among their arguments differs.
	Ruby34 bool

	// NoFailureKey leaves no record of a retried failure. By default its record is kept
	// while the job waits, where resque-retry's MultipleWithRetrySuppression keeps it and
	// resque-web's tab of retries shows it.
	NoFailureKey bool

	// ExpireAfter is the Ruby class's expire_retry_key_after, in whole seconds; a fraction
	// counts as one more. A count expires that long after its job is due again. Without an
	// expiry, the count of a job that never comes to its end stays for ever. It must be
	// longer than a job that is due waits for a worker and runs: a count that has expired
	// starts at 0 again. 0 sets no expiry and leaves one that Ruby has set. It must not be
	// negative.
	ExpireAfter time.Duration
}

func (r ResqueRetry) retry(p *retryPolicy) error {
	p.Once("how retries are counted", "ResqueRetry")
	if r.ExpireAfter < 0 {
		return fmt.Errorf("ResqueRetry's ExpireAfter is %s; give a time that is not negative, or leave it out", r.ExpireAfter)
	}
	p.ruby = &resqueretry.Rule{Ruby34: r.Ruby34, NoFailureKey: r.NoFailureKey, ExpireAfter: r.ExpireAfter}
	return nil
}
