package goworker

import (
	"fmt"
	"maps"
	"sync"
	"sync/atomic"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/stuck"
)

// registry finds the handler of a class. The zero value is ready; it is safe for
// concurrent use. Every job reads it and hardly anything writes it, so readers
// take no lock: a writer replaces the whole map.
type registry struct {
	// useNumber is the settings' UseNumber, for all classes.
	useNumber atomic.Bool

	// tells is whether a class was ever registered with something for jobs that are
	// enqueued.
	tells atomic.Bool

	// stuck are the jobs that run past their time limits.
	stuck stuck.Jobs

	entries atomic.Pointer[map[string]*entry]

	limited     atomic.Bool // some class or queue has limits
	queueLimits atomic.Pointer[map[string][]Limit]

	write      sync.Mutex   // held while entries is replaced
	middleware []Middleware // of all classes; guarded by write
}

// entry is one registered class. It never changes once it is in the map.
type entry struct {
	options options
	bare    Handler // without any middleware
	wrapped Handler // what runs
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
	e.options.add(repeated(e.options.limits))
	if err := e.options.first; err != nil {
		panic(fmt.Sprintf("goworker: Register(%q): %s", class, err))
	}
	e.options.limits = nameLimits(class, e.options.limits)
	for _, mw := range e.options.middleware {
		mustMiddleware(mw, fmt.Sprintf("Register(%q)", class))
	}

	r.write.Lock()
	defer r.write.Unlock()
	if e.options.enqueue.given() {
		r.tells.Store(true)
	}
	e.wrapped = r.wrap(e)
	if len(e.options.limits) > 0 {
		r.limited.Store(true)
	}
	next := map[string]*entry{class: e}
	if old := r.entries.Load(); old != nil {
		next = maps.Clone(*old)
		next[class] = e
	}
	r.entries.Store(&next)
}

// use adds middleware around every class, those registered later too.
func (r *registry) use(mw ...Middleware) {
	for _, m := range mw {
		mustMiddleware(m, "Use")
	}
	r.write.Lock()
	defer r.write.Unlock()
	r.middleware = append(r.middleware, mw...)
	old := r.entries.Load()
	if old == nil {
		return
	}
	next := make(map[string]*entry, len(*old))
	for class, e := range *old {
		fresh := *e
		fresh.wrapped = r.wrap(e)
		next[class] = &fresh
	}
	r.entries.Store(&next)
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
	if m := r.entries.Load(); m != nil {
		return (*m)[class]
	}
	return nil
}

// prepare makes a payload taken from queue ready to run: it finds the handler and
// opens ActiveJob's wrapper. The Delivery is never nil: with an error it holds what is
// known about the job, for its log line and failure record. The error
// is an *UnknownClassError or, for a wrapper that makes no sense, an
// *ArgumentError. The caller adds Worker, Recovered and ReservedAt, and then calls
// perform. raw is kept and must not change any more.
func (r *registry) prepare(queue string, raw []byte, p payload.Payload) (*Delivery, error) {
	d, e, err := r.open(queue, raw, p)
	if err != nil {
		return d, err
	}
	if d.retry = e.options.retry; d.retry != nil {
		d.RetriesLeft = d.retry.left(d.Attempt)
	}
	d.useNumber = e.options.useNumber || r.useNumber.Load()
	d.stuck = &r.stuck
	if i := e.options.isolation; i != nil { // the handler and its Timeout are the child's
		d.handler, d.limit = i, i.Deadline()
	} else {
		d.handler, d.timeout, d.limit = e.wrapped, e.options.timeout, e.options.timeout
	}
	return d, nil
}

// open makes the Delivery of a payload and finds the entry of its class.
func (r *registry) open(queue string, raw []byte, p payload.Payload) (*Delivery, *entry, error) {
	d := &Delivery{Queue: queue, Class: p.Class, ID: p.ID, Attempt: p.Attempt, Args: p.Args, raw: raw, expires: p.ExpiresAt}
	if p.Unique != "" {
		d.lock = newJobLock(p)
	}
	e := r.lookup(p.Class)
	if e == nil && p.Class == args.ActiveJobWrapper {
		if err := d.openActiveJob(); err != nil {
			return d, nil, err
		}
		e = r.lookup(d.Class)
	}
	if e == nil {
		return d, nil, &UnknownClassError{Class: d.Class}
	}
	return d, e, nil
}

// isolated makes the Delivery of a job in its child process.
func (r *registry) isolated(job isolate.Request) (*Delivery, error) {
	payload, err := payload.Parse(job.Payload)
	if err != nil {
		return nil, err
	}
	d, e, err := r.open(job.Queue, job.Payload, payload)
	if err != nil {
		return nil, err
	}
	d.ID, d.Attempt, d.RetriesLeft, d.Recovered = job.ID, job.Attempt, job.Retries, job.Recovered
	d.Worker, d.ReservedAt, d.useNumber = job.Worker, job.ReservedAt, job.UseNumber
	d.handler, d.timeout = e.wrapped, e.options.timeout
	return d, nil
}

// openActiveJob turns the delivery of Rails' wrapper into that of the job inside.
// On an error the class is the inner one if it was found.
func (d *Delivery) openActiveJob() error {
	job, misfit := args.OpenActiveJob(d.Args)
	if job.Class != "" {
		d.Class, d.Args = job.Class, job.Args
		if job.ID != "" {
			d.ID = job.ID
		}
		if job.Executions > 0 && job.Executions <= payload.MaxRuns {
			d.Attempt += job.Executions
		}
	}
	if misfit != nil {
		return argumentError(d.Class, misfit)
	}
	return nil
}
