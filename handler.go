package goworker

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/feature/timelimit"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/setting"
)

// Handler runs the jobs of a class. Most programs register plain functions (see
// Register). A Handler is for code that needs the Delivery itself, such as middleware.
// Many workers call it at the same time.
//
// The context carries the Delivery, ends at the class's Timeout, and is cancelled
// when the job must give way, as at a forced shutdown. It ends when the handler has
// returned. An error or a panic makes the job a failure.
type Handler interface {
	Perform(ctx context.Context, d *Delivery) error
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, d *Delivery) error

// Perform calls f.
func (f HandlerFunc) Perform(ctx context.Context, d *Delivery) error { return f(ctx, d) }

// allowedForms ends every error about a function.
const allowedForms = "allowed are func(queue string, args ...interface{}) error, " +
	"func([ctx context.Context,] arguments…) with no result, error, or (results…, error), " +
	"func(ctx context.Context, job *Job) error, and a Handler"

var (
	queueForm    = reflect.TypeFor[queueFunc]()
	jobForm      = reflect.TypeFor[jobFunc]()
	deliveryForm = reflect.TypeFor[HandlerFunc]()
	jobType      = reflect.TypeFor[Job]()
	deliveryType = reflect.TypeFor[Delivery]()
)

// queueFunc is the form goworker has always had.
type queueFunc func(queue string, args ...interface{}) error

// Perform decodes the arguments and puts the queue's name before them.
func (f queueFunc) Perform(_ context.Context, d *Delivery) error {
	values, err := anyArgs(d)
	if err != nil {
		return err
	}
	return f(d.Queue, values...)
}

// jobFunc takes the whole job.
type jobFunc func(ctx context.Context, job *Job) error

// Perform passes a Job of its own, which the function may change.
func (f jobFunc) Perform(ctx context.Context, d *Delivery) error {
	values, err := anyArgs(d)
	if err != nil {
		return err
	}
	return f(ctx, &Job{Queue: d.Queue, Payload: Payload{Class: d.Class, Args: values}})
}

// anyArgs decodes all arguments into interface{} values.
func anyArgs(d *Delivery) ([]interface{}, error) {
	values, misfit := args.All(d.Args, d.useNumber)
	if misfit != nil {
		return nil, argumentError(d.Class, misfit)
	}
	return values, nil
}

// compile makes a Handler of a registered value. Everything that depends only on the
// function's type is decided here, once.
func compile(fn any) (Handler, error) {
	if fn == nil {
		return nil, errors.New("the handler is nil; " + allowedForms)
	}
	v := reflect.ValueOf(fn)
	if v.Kind() == reflect.Func && v.IsNil() {
		return nil, fmt.Errorf("the handler is a nil %s; %s", v.Type(), allowedForms)
	}
	if h, ok := fn.(Handler); ok {
		return h, nil
	}
	t := v.Type()
	if t.Kind() != reflect.Func {
		return nil, fmt.Errorf("the handler is a %s, not a function; %s", t, allowedForms)
	}
	for _, form := range []reflect.Type{queueForm, jobForm, deliveryForm} {
		if t.ConvertibleTo(form) {
			return v.Convert(form).Interface().(Handler), nil
		}
	}
	if t.NumIn() == 2 && !t.IsVariadic() && t.In(0).Kind() == reflect.String && t.In(1) == reflect.TypeFor[[]any]() {
		return nil, fmt.Errorf("the handler is a %s, which has no dots before its arguments: write func(queue string, args ...interface{}) error, "+
			"or take a context first if its jobs have two arguments, a text and a list", t)
	}
	return compileTyped(v)
}

// compileTyped handles functions whose parameters are the job's arguments.
func compileTyped(fn reflect.Value) (Handler, error) {
	f, err := args.Compile(fn, jobType, deliveryType)
	if err != nil {
		return nil, fmt.Errorf("%w; %s", err, allowedForms)
	}
	return typedHandler{f}, nil
}

// typedHandler calls a function with each argument decoded into its parameter.
type typedHandler struct{ *args.Function }

func (h typedHandler) Perform(ctx context.Context, d *Delivery) error {
	result, misfit, err := h.Call(ctx, d.Args, d.useNumber)
	if misfit != nil {
		return argumentError(d.Class, misfit)
	}
	if err == nil && h.HasResult() {
		d.Result = result
	}
	return err
}

// Option is a setting of one class, for Register, RegisterFunc, Function and Define:
//
//   - As: the name of a function's class
//   - Alias: other names of the class
//   - OnQueue: where its jobs are enqueued that name no queue
//   - Retry: run a failed job again; see RetryOption
//   - Timeout, Isolated: how long a run may take, and in a process of its own
//   - MaxRunning, RateLimit, FairBy: how many run at a time or start in a time; see Limit
//   - Unique: enqueue no second job while one holds the lock
//   - ExpireAfter, OnExpired: what becomes of a job that no worker took in time
//   - Priority, WithMeta, Stamp: the priority and metadata of its enqueued jobs, and when they were enqueued
//   - WithResult, CaptureLogs: keep what becomes of them, and their log lines
//   - Aggregate: make one job of many that come for one key; see AggregateOption
//   - WithMiddleware: code around its handler
//   - UseNumber: numbers with all their digits
//
// One rule holds for the options of every call, and for the options of an option. These
// are mistakes of the program: a value out of its range, an option given twice, and two
// that contradict each other. Register, RegisterFunc and LimitQueue, which return no error, panic.
// Their text names the class or queue, the option, its value and what is allowed.
// Functions that return an error return that text. For settings and flags, Init, Run and
// Work return it.
//
// Options that add up may be repeated: WithMiddleware, WithMeta, limits, RetryOn, RetryIf, NoRetryOn,
// NoRetryIf, and ChildEnv for several variables. An option of one job goes before
// that of its class, and a flag before its setting: these are not given twice. Of a flag
// that stands twice on the command line the last counts.
type Option interface{ register(*options) }

// JobOption is an Option that may also be given with one job, as an EnqueueOption:
//
//   - Retry, Timeout: for the run
//   - Unique, ExpireAfter, Priority, WithMeta, Stamp: for enqueueing
//   - WithResult, CaptureLogs: for what is kept of it
//
// What is given with the job goes before what its class has.
type JobOption interface {
	Option
	EnqueueOption
}

// option is an Option that is a function.
type option func(*options)

func (o option) register(to *options) { o(to) }

// options collects the options of one Register.
type options struct {
	setting.Mistakes
	class      *outcome.Class // has the options of the features
	timeout    time.Duration
	useNumber  bool
	middleware []Middleware

	// check returns what is wrong with options that are each right by themselves. It may be
	// nil.
	check func(*options) error

	// instead runs in place of the handler, which then runs in a child; nil: the handler runs
	// here.
	instead *isolation
}

// Timeout limits each run of the class: then its context ends with
// context.DeadlineExceeded. A handler that ignores its context is not stopped: after
// StuckAfter it is one of the StuckJobs, and only Isolated can end it. If the handler
// returns the context's error, the failure names the timeout. 0, the default, is no
// limit; it must not be negative.
//
// Given with one job it holds for that job's runs in place of its class's: Timeout(0) is no
// limit. An isolated job then has a HardTimeout that follows from it, unless the class was
// given one: that one ends the job in any case.
func Timeout(d time.Duration) JobOption { return runLimit(d) }

// runLimit is what Timeout makes.
type runLimit time.Duration

func (l runLimit) check(m *setting.Mistakes) {
	option := fmt.Sprintf("Timeout(%s)", time.Duration(l))
	m.Once("how long a run may take", option)
	if l < 0 {
		m.Wrong("%s: it must be positive, or 0 for no limit", option)
	}
}

func (l runLimit) register(o *options) {
	l.check(&o.Mistakes)
	o.timeout = time.Duration(l)
}

func (l runLimit) enqueue(o *enqueueOptions) {
	o.named = true
	l.check(&o.Mistakes)
	outcome.Put(o.to, timelimit.Limit(l))
}

// UseNumber decodes numbers into interface{} values as json.Number instead of
// float64 for this class, so that integers above 2^53 keep all their digits.
// Typed parameters need no such help: an int64 is exact either way.
// WorkerSettings.UseNumber does the same for every class.
func UseNumber() Option {
	return option(func(o *options) {
		o.Once("how numbers are decoded", "UseNumber")
		o.useNumber = true
	})
}

// WithMiddleware wraps the class's handler in middleware, the first outermost. Middleware for all
// classes runs outside of it. If WithMiddleware is given more than once, the later ones run
// inside the earlier.
func WithMiddleware(mw ...Middleware) Option {
	return option(func(o *options) {
		o.Note("which middleware it has of its own", "WithMiddleware")
		o.middleware = append(o.middleware, mw...)
	})
}

// Middleware wraps a handler in another, as in net/http:
//
//	func logged(next goworker.Handler) goworker.Handler {
//		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
//			start := time.Now()
//			err := next.Perform(ctx, d)
//			slog.InfoContext(ctx, "job", "class", d.Class, "took", time.Since(start), "err", err)
//			return err
//		})
//	}
//
// It is called once for each class, not once for each job. Many workers use the handler
// that it returns at the same time. Of several the first is the outermost. It wraps
// only classes that have a handler: a job of an unknown class fails without it. A panic
// of the handler unwinds through it.
type Middleware func(Handler) Handler

// chain wraps h so that mw[0] is the outermost.
func chain(h Handler, mw []Middleware) Handler {
	for i := len(mw) - 1; i >= 0; i-- {
		h = mw[i](h)
	}
	return h
}
