package goworker

import (
	"fmt"
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/stuck"
)

// registry knows what was registered: the classes with their handlers and options. It is safe for
// concurrent use. Every job reads it and hardly anything writes it, so readers take no lock: a writer
// replaces the whole map.
type registry struct {
	// useNumber is the settings' UseNumber, for all classes.
	useNumber atomic.Bool

	// enqueues is whether a class was ever registered with an option for jobs that are enqueued.
	enqueues atomic.Bool

	// stuck are the jobs that run past their time limits.
	stuck stuck.Jobs

	// limits are those of all classes and queues.
	limits *limits.Table

	classes atomic.Pointer[map[string]*outcome.Class]

	write      sync.Mutex   // held while classes is replaced
	middleware []Middleware // of all classes; guarded by write
}

func newRegistry() *registry {
	r := new(registry)
	r.classes.Store(new(map[string]*outcome.Class))
	r.limits = limits.NewTable(r)
	return r
}

// entry is what runs the jobs of one class. It never changes once it is in the map.
type entry struct {
	options options
	bare    Handler       // without any middleware
	wrapped Handler       // what runs
	retry   *retry.Policy // nil: failed jobs are not retried
}

// register makes fn the handler of class, in place of the one it had. It panics
// on a mistake in the program: an empty class, nil, or a function of a form that
// is not allowed.
func (r *registry) register(class string, fn any, opts []Option) {
	if class == "" {
		panic("goworker: Register needs a class name: the \"class\" its jobs are enqueued with, such as \"SendEmail\"")
	}
	h, err := compile(fn)
	if err != nil {
		panic(fmt.Sprintf("goworker: Register(%q): %s", class, err))
	}
	e := &entry{bare: h}
	for _, opt := range opts {
		if opt == nil {
			panic(fmt.Sprintf("goworker: Register(%q): a nil Option was given; leave it out", class))
		}
		opt.register(&e.options)
	}
	e.options.add(e.options.enqueue.first)
	e.options.add(e.options.checkLimits())
	e.options.add(limits.Repeated(e.options.limits))
	if err := e.options.first; err != nil {
		panic(fmt.Sprintf("goworker: Register(%q): %s", class, err))
	}
	for _, mw := range e.options.middleware {
		mustMiddleware(mw, fmt.Sprintf("Register(%q)", class))
	}

	r.write.Lock()
	defer r.write.Unlock()
	if e.options.enqueue.given() {
		r.enqueues.Store(true)
	}
	if e.options.retry != nil {
		e.retry = e.options.retry.policy()
	}
	e.wrapped = r.wrap(e)
	next := maps.Clone(*r.classes.Load())
	if next == nil {
		next = make(map[string]*outcome.Class)
	}
	next[class] = e.class(class)
	r.classes.Store(&next)
	if len(e.options.limits) > 0 {
		r.limits.ClassHasLimits()
	}
}

// class is the entry as the seam knows it, with the options of features.
func (e *entry) class(name string) *outcome.Class {
	c := &outcome.Class{Name: name, Handler: e}
	o := e.options
	if e.retry != nil {
		outcome.Put(c, e.retry)
	}
	if len(o.limits) > 0 {
		outcome.Put(c, limits.Named(name, o.limits))
	}
	if o.onExpired != nil {
		outcome.Put(c, expiry.OnExpired{Handler: &entry{options: o, wrapped: o.onExpired, retry: e.retry}})
	}
	for _, put := range o.more {
		put(c)
	}
	return c
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
		next[name] = e.class(name)
	}
	r.classes.Store(&next)
}

func (r *registry) wrap(e *entry) Handler {
	return chain(chain(e.bare, e.options.middleware), r.middleware)
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

// delivery is what the program's handler, middleware and hooks see of a job.
func (r *registry) delivery(j *outcome.Job) *Delivery {
	if d, ok := j.View.(*Delivery); ok {
		return d
	}
	d := &Delivery{
		Queue: j.Queue, Class: j.Name, ID: j.ID, Attempt: j.Attempt, Args: j.Args, raw: j.Payload,
		Worker: j.Worker, Recovered: j.Found, ReservedAt: j.ReservedAt, stuck: &r.stuck,
	}
	if e, ok := j.Handler.(*entry); ok {
		d.RetriesLeft = e.retry.Left(j.Attempt)
		d.useNumber = e.options.useNumber || r.useNumber.Load()
		d.run(e)
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
	d.handler, d.timeout, d.limit = e.wrapped, e.options.timeout, 0
	return d, nil
}
