package goworker

import (
	"fmt"
	"time"

	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/outcome"
)

// Option is a setting of one class, given to Register: Timeout, UseNumber, With, Retry,
// Isolated, OnExpired, ExpireAfter, Unique, Fair, and a Limit such as Concurrency.
//
// One rule holds for the options of every call, and for the options that an option has: a
// value that is out of its range, an option that is given twice, and two that contradict
// each other are mistakes of the program. Register and LimitQueue, which return no error,
// panic with a sentence that names the class or queue, the option, its value and what is
// allowed. Functions that return an error return that sentence. For settings and flags
// Init, Run and Work do.
//
// What adds up may be repeated: With, limits, RetryOn, RetryIf, NoRetryOn, NoRetryIf, and
// ChildEnv for several variables. An option of EnqueueWith goes before the one of the
// class, and a flag before the setting: these are not given twice. Of a flag that stands
// twice on the command line the last counts.
type Option interface{ register(*options) }

// option is an Option that is a function.
type option func(*options)

func (o option) register(to *options) { o(to) }

type options struct {
	mistakes
	timeout    time.Duration
	isolation  *isolation // nil: jobs run in this process
	useNumber  bool
	middleware []Middleware
	onExpired  Handler
	enqueue    enqueueOptions // of every job of the class that is enqueued here
	retry      *retryPolicy
	limits     []limits.Limit
	more       []func(*outcome.Class) // options of other features put themselves
}

// Timeout gives each run of the class this long: then its context ends with
// context.DeadlineExceeded. A handler that does not look at its context is not
// stopped: after StuckAfter it is one of the Stuck, and Isolated can end it. Returning
// the context's error makes the run a failure that names the timeout. 0, the default, is
// no limit; it must not be negative.
func Timeout(d time.Duration) Option {
	return option(func(o *options) {
		o.once("how long a run may take", fmt.Sprintf("Timeout(%s)", d))
		if d < 0 {
			o.wrong("Timeout(%s): it must be positive, or 0 for no limit", d)
		}
		o.timeout = d
	})
}

// UseNumber decodes numbers into interface{} values as json.Number instead of
// float64 for this class, so that integers above 2^53 keep all their digits.
// Typed parameters need no such help: an int64 is exact either way.
// WorkerSettings.UseNumber does the same for every class.
func UseNumber() Option {
	return option(func(o *options) {
		o.once("how numbers are decoded", "UseNumber")
		o.useNumber = true
	})
}

// With wraps the class's handler in middleware, the first outermost. Middleware
// for all classes runs outside of it. Given more than once, the later ones run
// inside the earlier.
func With(mw ...Middleware) Option {
	return option(func(o *options) { o.middleware = append(o.middleware, mw...) })
}
