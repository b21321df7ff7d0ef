package goworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/setting"
	"github.com/goworker/goworker/internal/stuck"
)

// Handler runs the jobs of a class. Most programs register plain functions (see
// Register). A Handler is for code that needs the Delivery itself, such as middleware.
// Many workers call it at the same time.
//
// The context carries the Delivery, ends at the class's Timeout, and is cancelled
// when the job must give way, as at a forced shutdown. An error or a panic makes
// the job a failure.
type Handler interface {
	Perform(ctx context.Context, d *Delivery) error
}

// HandlerFunc makes a function a Handler.
type HandlerFunc func(ctx context.Context, d *Delivery) error

// Perform calls f.
func (f HandlerFunc) Perform(ctx context.Context, d *Delivery) error { return f(ctx, d) }

// allowedForms ends every error about a function.
const allowedForms = "allowed are func(queue string, args ...interface{}) error, " +
	"func([ctx context.Context,] arguments…) with no result, error, or (result, error), " +
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

// Option is a setting of one class, given to Register: OnQueue, Retry, ResqueRetry,
// Timeout, Isolated, Unique, ExpireAfter, OnExpired, FairBy, MaxRunning, RateLimit,
// WithMiddleware and UseNumber.
//
// One rule holds for the options of every call, and for the options of an option. These
// are mistakes of the program: a value out of its range, an option given twice, and two
// that contradict each other. Register and LimitQueue, which return no error, panic.
// Their text names the class or queue, the option, its value and what is allowed.
// Functions that return an error return that text. For settings and flags, Init, Run and
// Work return it.
//
// Options that add up may be repeated: WithMiddleware, limits, RetryOn, RetryIf, NoRetryOn,
// NoRetryIf, and ChildEnv for several variables. An option of EnqueueWith goes before
// that of the class, and a flag before its setting: these are not given twice. Of a flag
// that stands twice on the command line the last counts.
type Option interface{ register(*options) }

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
	instead Handler
	limit   time.Duration // of instead: after it and StuckAfter the run is stuck; 0: never
}

// Timeout limits each run of the class: then its context ends with
// context.DeadlineExceeded. A handler that ignores its context is not stopped: after
// StuckAfter it is one of the Stuck, and only Isolated can end it. If the handler
// returns the context's error, the failure names the timeout. 0, the default, is no
// limit; it must not be negative.
func Timeout(d time.Duration) Option {
	return option(func(o *options) {
		o.Once("how long a run may take", fmt.Sprintf("Timeout(%s)", d))
		if d < 0 {
			o.Wrong("Timeout(%s): it must be positive, or 0 for no limit", d)
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

// registry holds the registered classes with their handlers and options. It is safe for concurrent
// use. Every job reads it and writes are rare, so readers take no lock: a writer replaces the whole
// map.
type registry struct {
	// useNumber is the settings' UseNumber, for all classes.
	useNumber atomic.Bool

	// stuck lists the jobs that run past their time limits.
	stuck stuck.Jobs

	// limits are those of all classes and queues.
	limits *limits.Table

	classes atomic.Pointer[map[string]*outcome.Class]

	write      sync.Mutex   // held while classes is replaced
	middleware []Middleware // of all classes; guarded by write

	// enqueueing is the middleware around the calls that enqueue; nil: none.
	enqueueing atomic.Pointer[[]EnqueueMiddleware]

	replaced []string // classes that were registered again since the last run began; guarded by write
}

func newRegistry() *registry {
	r := new(registry)
	r.classes.Store(new(map[string]*outcome.Class))
	r.limits = limits.NewTable(r)
	return r
}

// entry runs the jobs of one class. It never changes once it is in the map.
type entry struct {
	options
	bare    Handler       // without any middleware
	wrapped Handler       // with all middleware; the workers call it
	retry   *retry.Policy // nil: failed jobs are not retried
}

// register makes fn the handler of a class and replaces its former one. It panics on a
// mistake in the program: an empty class, nil, or a function of a form that is not
// allowed.
func (r *registry) register(class string, fn any, opts []Option) {
	h, err := compile(fn)
	if err != nil {
		panic(fmt.Sprintf("goworker: Register(%q): %s", class, err))
	}
	e := &entry{bare: h, options: *newOptions(class, opts, fmt.Sprintf("Register(%q)", class))}
	e.retry, _ = outcome.Get[*retry.Policy](e.class)
	e.class.Handler = e

	r.write.Lock()
	defer r.write.Unlock()
	e.wrapped = r.wrap(e)
	next := maps.Clone(*r.classes.Load())
	if next == nil {
		next = make(map[string]*outcome.Class)
	}
	if was := next[class]; was != nil && was.Handler != nil && !slices.Contains(r.replaced, class) {
		r.replaced = append(r.replaced, class)
	}
	next[class] = e.class
	r.classes.Store(&next)
	if _, limited := outcome.Get[limits.Of](e.class); limited {
		r.limits.ClassHasLimits()
	}
}

// ready returns an error if there is no handler, unless the settings allow it.
func (r *registry) ready(c config, log *slog.Logger) error {
	r.write.Lock()
	defer r.write.Unlock()
	for _, class := range r.replaced {
		log.Debug("a class was registered again, its last handler counts", "class", class)
	}
	r.replaced = nil
	if c.AllowNoHandlers || c.LeaveUnknown || len(r.handled()) > 0 {
		return nil
	}
	return errNoHandlers
}

var errNoHandlers = errors.New("goworker: no handler is registered with this daemon, so every job that it takes would fail; " +
	"call its Register first (goworker.Register is that of the default daemon), or set AllowNoHandlers if handlers are registered later")

// handled returns the names of the classes that have a handler, sorted.
func (r *registry) handled() (names []string) {
	for name, class := range r.All() {
		if class.Handler != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// newOptions returns a class with its options. It panics on a mistake in them, with the name of the call.
func newOptions(class string, opts []Option, call string) *options {
	if class == "" {
		panic("goworker: " + call + `: the class has no name; give it the "class" its jobs are enqueued with, such as "SendEmail"`)
	}
	o := &options{class: &outcome.Class{Name: class}}
	for _, opt := range opts {
		if opt == nil {
			panic(fmt.Sprintf("goworker: %s: a nil Option was given; leave it out", call))
		}
		opt.register(o)
	}
	if of, limited := outcome.Get[limits.Of](o.class); limited {
		outcome.Put(o.class, limits.Named(class, of))
		o.Add(limits.Repeated(of))
	}
	if o.check != nil {
		o.Add(o.check(o))
	}
	if o.First != nil {
		panic(fmt.Sprintf("goworker: %s: %s", call, o.First))
	}
	for _, mw := range o.middleware {
		mustMiddleware(mw, call)
	}
	return o
}

// declare makes the options of a class hold for its enqueued jobs, without a handler.
func (r *registry) declare(class *outcome.Class) {
	r.write.Lock()
	defer r.write.Unlock()
	next := maps.Clone(*r.classes.Load())
	if next == nil {
		next = make(map[string]*outcome.Class)
	}
	next[class.Name] = class
	r.classes.Store(&next)
}

// aroundEnqueue adds middleware around the calls that enqueue.
func (r *registry) aroundEnqueue(mw ...EnqueueMiddleware) {
	for _, m := range mw {
		if m == nil {
			panic("goworker: a nil EnqueueMiddleware was given; leave it out")
		}
	}
	r.write.Lock()
	defer r.write.Unlock()
	var all []EnqueueMiddleware
	if before := r.enqueueing.Load(); before != nil {
		all = *before
	}
	all = slices.Concat(all, mw)
	r.enqueueing.Store(&all)
}

// use adds middleware around every class, those registered later too.
func (r *registry) use(mw ...Middleware) {
	for _, m := range mw {
		mustMiddleware(m, "Use")
	}
	r.write.Lock()
	defer r.write.Unlock()
	r.middleware = append(r.middleware, mw...)
	next := make(map[string]*outcome.Class)
	for name, c := range *r.classes.Load() {
		e := *c.Handler.(*entry)
		e.wrapped = r.wrap(&e)
		e.class = c.With(&e)
		next[name] = e.class
	}
	r.classes.Store(&next)
}

func (r *registry) wrap(e *entry) Handler {
	return chain(chain(e.bare, e.middleware), r.middleware)
}

func mustMiddleware(mw Middleware, where string) {
	if mw == nil {
		panic("goworker: " + where + ": a nil Middleware was given; leave it out")
	}
}

// lookup returns the entry of a class, nil if it has none.
func (r *registry) lookup(class string) *entry {
	if c := r.Class(class); c != nil {
		return c.Handler.(*entry)
	}
	return nil
}

// Class returns the class of a name, nil if there is none.
func (r *registry) Class(name string) *outcome.Class { return (*r.classes.Load())[name] }

// All returns all classes by their names.
func (r *registry) All() map[string]*outcome.Class { return *r.classes.Load() }

// Unknown is the failure of a job whose class is not registered.
func (r *registry) Unknown(class string) error { return &UnknownClassError{Class: class} }

// Misfit is the failure of an ActiveJob whose wrapper makes no sense.
func (r *registry) Misfit(class string, e *args.Error) error { return argumentError(class, e) }

// Read reads a payload that lies in a queue and finds its class.
func (r *registry) Read(queue string, raw []byte) *outcome.Job {
	j := &outcome.Job{Reserved: resque.Reserved{Queue: queue, Payload: raw}}
	outcome.Read(j, r, math.MaxInt)
	return j
}

// delivery returns a job as the program's handler, middleware and hooks see it.
func (r *registry) delivery(j *outcome.Job) *Delivery {
	if d, ok := j.View.(*Delivery); ok {
		return d
	}
	d := &Delivery{
		Queue: j.Queue, Class: j.Name, ID: j.ID, Attempt: j.Attempt, Args: j.Args, raw: j.Payload,
		Worker: j.Worker, Recovered: j.Found, ReservedAt: j.ReservedAt, stuck: &r.stuck,
	}
	if j.Class != nil {
		e := j.Class.Handler.(*entry)
		d.RetriesLeft = e.retry.Left(j.Attempt)
		d.useNumber = e.useNumber || r.useNumber.Load()
		d.handler, d.timeout, d.limit = e.wrapped, e.timeout, e.timeout
		if h, ok := j.Handler.(Handler); ok { // a feature has put it there
			d.handler = h
		} else if e.instead != nil { // the child runs the handler, under its Timeout
			d.handler, d.timeout, d.limit = e.instead, 0, e.limit
		}
	}
	j.View = d
	return d
}

// isolated makes the Delivery of a job in its child process.
func (r *registry) isolated(job isolate.Request) (*Delivery, error) {
	j := r.Read(job.Queue, job.Payload)
	if j.Err != nil {
		return nil, j.Err
	}
	d, e := r.delivery(j), j.Handler.(*entry)
	d.ID, d.Attempt, d.RetriesLeft, d.Recovered = job.ID, job.Attempt, job.Retries, job.Recovered
	d.Worker, d.ReservedAt, d.useNumber = job.Worker, job.ReservedAt, job.UseNumber
	d.handler, d.timeout, d.limit = e.wrapped, e.timeout, 0
	return d, nil
}
