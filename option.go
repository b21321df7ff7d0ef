package goworker

import "time"

// Option is a setting of one class, given to Register.
type Option interface{ register(*options) }

// option is an Option that is a function.
type option func(*options)

func (o option) register(to *options) { o(to) }

type options struct {
	timeout    time.Duration
	isolation  *isolation // nil: jobs run in this process
	useNumber  bool
	middleware []Middleware
	onExpired  Handler
	enqueue    []EnqueueOption // of every job of the class that is enqueued here
	retry      *retryPolicy
	limits     []Limit
}

// Timeout gives each run of the class this long: then its context ends with
// context.DeadlineExceeded. A handler that does not look at its context is not
// stopped: after StuckAfter it is one of the Stuck, and Isolated can end it. Returning
// the context's error makes the run a failure that names the timeout. 0, the default,
// or less is no limit.
func Timeout(d time.Duration) Option {
	return option(func(o *options) { o.timeout = d })
}

// UseNumber decodes numbers into interface{} values as json.Number instead of
// float64 for this class, so that integers above 2^53 keep all their digits.
// Typed parameters need no such help: an int64 is exact either way.
// WorkerSettings.UseNumber does the same for every class.
func UseNumber() Option {
	return option(func(o *options) { o.useNumber = true })
}

// With wraps the class's handler in middleware, the first outermost. Middleware
// for all classes runs outside of it. Given more than once, the later ones run
// inside the earlier.
func With(mw ...Middleware) Option {
	return option(func(o *options) { o.middleware = append(o.middleware, mw...) })
}
