package goworker

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/feature/meta"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/feature/timelimit"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/rule"
	"github.com/goworker/goworker/internal/setting"
	"github.com/goworker/goworker/internal/stuck"
	"github.com/goworker/goworker/internal/trial"
)

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

	// file is the configuration file that the daemon goes by; nil: there is none.
	file atomic.Pointer[setting.Content]

	// trial is the test that has the daemon or client in hand; nil: none has. It is set before use.
	trial *trial.Trial

	classes atomic.Pointer[map[string]*outcome.Class]

	// provided are classes of goworker's own. They are not among All: a program without a handler has none all the same. A
	// class that the program registers under such a name goes before it. It does not change once the registry is in use.
	provided map[string]*outcome.Class

	write      sync.Mutex               // held while classes is replaced; guards what follows
	middleware []Middleware             // of all classes
	over       map[string]setting.Class // of the configuration file
	replaced   []string                 // classes that were registered again since the last run began

	around enqueueChain
	rooms  sync.Pool // of calls that enqueue, a *room each

	scheduled sync.Map // of the names of recurring workflows, a workflowSchedule each
	functions sync.Map // of the code of the program's functions, a *function each
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
	bare    Handler        // without any middleware
	wrapped Handler        // with all middleware; the workers call it
	retry   *retry.Policy  // nil: failed jobs are not retried
	said    *outcome.Class // as registered, where the configuration file lays options over that; nil: it never did
}

// register makes fn the handler of a class and replaces its former one. It panics on a
// mistake in the program: an empty class, nil, or a function of a form that is not
// allowed.
func (r *registry) register(class string, fn any, opts []Option) {
	r.add(class, fn, opts, fmt.Sprintf("Register(%q)", class))
}

// add is register for a call of another name.
func (r *registry) add(class string, fn any, opts []Option, call string) {
	e := newEntry(class, fn, opts, call)
	r.write.Lock()
	defer r.write.Unlock()
	e.wrapped = r.wrap(e)
	was := r.All()[class]
	if err := r.put(r.laid(e.class)); err != nil {
		panic(fmt.Sprintf("goworker: %s: %s", call, err))
	}
	if was != nil && was.Handler != nil && !slices.Contains(r.replaced, class) {
		r.replaced = append(r.replaced, class)
	}
	if _, limited := outcome.Get[limits.Of](e.class); limited {
		r.limits.ClassHasLimits()
	}
}

// put adds a class and its aliases. The caller holds write.
func (r *registry) put(class *outcome.Class) error {
	next := maps.Clone(r.All())
	if next == nil {
		next = make(map[string]*outcome.Class)
	}
	if err := put(next, class); err != nil {
		return err
	}
	r.classes.Store(&next)
	return nil
}

// aliases are the other names of a class.
type aliases []string

// put adds a class to a map of all, in place of the one that had its name, with its aliases. The map is not in use yet.
func put(all map[string]*outcome.Class, class *outcome.Class) error {
	was := all[class.Name]
	if was != nil && was.Name != class.Name {
		return fmt.Errorf("the name %s is an Alias of class %s; leave it out there, or register nothing under it", class.Name, was.Name)
	}
	names, _ := outcome.Get[aliases](class)
	for _, name := range names {
		if of := all[name]; of != nil && of != was {
			what := "a class of its own"
			if of.Name != name {
				what = "an Alias of class " + of.Name
			}
			return fmt.Errorf("Alias(%q): the name is %s; leave it out in one place", name, what)
		}
	}
	if was != nil {
		before, _ := outcome.Get[aliases](was)
		for _, name := range before {
			delete(all, name)
		}
	}
	all[class.Name] = class
	for _, name := range names {
		all[name] = class
	}
	return nil
}

// newEntry returns the entry of a class, without its middleware. It panics on a mistake, with the name of the call.
func newEntry(class string, fn any, opts []Option, call string) *entry {
	h, err := compile(fn)
	if err != nil {
		panic(fmt.Sprintf("goworker: %s: %s", call, err))
	}
	e := &entry{bare: h, options: *newOptions(class, opts, call)}
	e.retry, _ = outcome.Get[*retry.Policy](e.class)
	if err := e.gathers(); err != nil {
		panic(fmt.Sprintf("goworker: Register(%q): %s", class, err))
	}
	e.class.Handler = e
	return e
}

// lay lays the options of a configuration file over those that the classes were registered with, in place of those laid before.
func (r *registry) lay(file *setting.Content) {
	r.write.Lock()
	defer r.write.Unlock()
	r.file.Store(file)
	if len(file.Classes)+len(r.over) == 0 {
		return
	}
	r.over = file.Classes
	next := make(map[string]*outcome.Class)
	for name, c := range r.All() {
		if name == c.Name { // an alias comes with its class
			if err := put(next, r.laid(c)); err != nil {
				panic("goworker: the configuration file: " + err.Error())
			}
		}
	}
	r.classes.Store(&next)
	r.limits.Changed()
}

// laid returns a class with what the configuration file says of it. The caller holds write.
func (r *registry) laid(c *outcome.Class) *outcome.Class {
	e, registered := c.Handler.(*entry)
	over, is := r.over[c.Name]
	if !registered || !is && e.said == nil {
		return c
	}
	said := cmp.Or(e.said, c)
	own := *said.Handler.(*entry)
	own.said, own.wrapped = said, e.wrapped
	own.class = said.With(&own)
	if over.Timeout != nil {
		if own.timeout = *over.Timeout; own.instead != nil {
			own.instead = own.instead.within(own.timeout, true)
		}
	}
	if over.Retries != nil {
		own.retry = retry.WithLimit(own.retry, *over.Retries)
		outcome.Put(own.class, own.retry)
	}
	if of, _ := outcome.Get[limits.Of](own.class); len(over.Limits) > 0 {
		outcome.Put(own.class, limits.Lay(c.Name, of, over.Limits))
		r.limits.ClassHasLimits()
	}
	return own.class
}

// provide makes fn the handler of a class of goworker's own. The program's middleware is not around it.
func (r *registry) provide(class string, fn any, opts ...Option) {
	e := newEntry(class, fn, opts, fmt.Sprintf("Register(%q)", class))
	e.wrapped = e.bare
	if r.provided == nil {
		r.provided = make(map[string]*outcome.Class)
	}
	r.provided[class] = e.class
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
		if class.Handler != nil && class.Name == name {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// known returns all names by which jobs reach a handler, sorted.
func (r *registry) known() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.All())), func(name string) bool { return r.Class(name).Handler == nil })
}

// newOptions returns a class with its options. It panics on a mistake in them, with the name of the call.
func newOptions(class string, opts []Option, call string) *options {
	o, err := optionsOf(class, opts)
	if err != nil {
		panic(fmt.Sprintf("goworker: %s: %s", call, err))
	}
	return o
}

// optionsOf returns a class with its options, or the first mistake in them.
func optionsOf(class string, opts []Option) (*options, error) {
	if class == "" {
		return nil, errors.New(`the class has no name; give it the "class" its jobs are enqueued with, such as "SendEmail"`)
	}
	o := &options{class: &outcome.Class{Name: class}}
	for _, opt := range opts {
		if opt == nil {
			return nil, errors.New("a nil Option was given; leave it out")
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
	o.Add(o.aggregated())
	if slices.ContainsFunc(o.middleware, func(mw Middleware) bool { return mw == nil }) {
		o.Add(errors.New("a nil Middleware was given; leave it out"))
	}
	return o, o.First
}

// declare makes the options of a class hold for its enqueued jobs, without a handler.
func (r *registry) declare(class *outcome.Class) error {
	r.write.Lock()
	defer r.write.Unlock()
	return r.put(class)
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
	for name, c := range r.All() {
		if name != c.Name {
			continue // an alias comes with its class
		}
		e := *c.Handler.(*entry)
		e.wrapped = r.wrap(&e)
		e.class = c.With(&e)
		if err := put(next, e.class); err != nil {
			panic("goworker: Use: " + err.Error())
		}
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

// Class returns the class of a name or an alias, nil if there is none.
func (r *registry) Class(name string) *outcome.Class {
	if c := (*r.classes.Load())[name]; c != nil {
		return c
	}
	return r.provided[name]
}

// All returns all classes by their names and their aliases.
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

// delivery returns a job as the program's handler, middleware and hooks see it. rules are those of operators on the job's Redis; nil: none
// hold.
func (r *registry) delivery(j *outcome.Job, rules *rule.Table) *Delivery {
	if d, ok := j.View.(*Delivery); ok {
		return d
	}
	d := &Delivery{
		Queue: j.Queue, Class: j.Name, ID: j.ID, Attempt: j.Attempt, Args: j.Args, raw: j.Text(),
		Worker: j.Worker, Recovered: j.Found, ReservedAt: j.ReservedAt, stuck: &r.stuck, file: r.file.Load(),
	}
	more := len(j.Parsed.Extra) > 0 // than class and arguments
	if more {
		d.Meta = meta.Of(j)
		d.Workflow = workflowStep(j, d.Meta)
	}
	if j.Class != nil {
		e := j.Class.Handler.(*entry)
		policy, limit, own, ruled := e.retry, e.timeout, false, false
		if rules != nil && rules.Any() {
			policy = retry.ByRule(rules, j.Class.Name, policy)
			if by, is := rules.Timeout(j.Class.Name); is {
				limit, own, ruled = by, true, true
			}
		}
		if more {
			policy = retry.Of(j, policy)
			if says, its := timelimit.Of(j); its {
				limit, own, ruled = says, true, false
			}
		}
		d.RetriesLeft = policy.Left(j.Attempt)
		d.useNumber = e.useNumber || r.useNumber.Load()
		d.handler, d.timeout, d.limit = e.handlerOf(d), limit, limit
		if h, ok := j.Handler.(Handler); ok { // a feature has put it there
			d.handler = h
		} else if e.instead != nil && r.trial == nil { // the child runs the handler, under its Timeout
			instead := e.instead
			if own {
				instead = instead.within(limit, ruled)
			}
			d.handler, d.timeout, d.limit = instead, 0, instead.Deadline()
		}
	}
	j.View = d
	return d
}

// timeLimit returns how long a run of the job may take, and whether the job's payload says so.
func (e *entry) timeLimit(j *outcome.Job) (limit time.Duration, own bool) {
	if limit, own = timelimit.Of(j); own {
		return limit, true
	}
	return e.timeout, false
}

// isolated makes the Delivery of a job in its child process.
func (r *registry) isolated(job isolate.Request) (*Delivery, *outcome.Job, error) {
	j := r.Read(job.Queue, job.Payload)
	if j.Err != nil {
		return nil, nil, j.Err
	}
	d, e := r.delivery(j, nil), j.Handler.(*entry)
	limit, _ := e.timeLimit(j)
	if job.Timeout != nil {
		limit = *job.Timeout
	}
	j.Process, j.Ticket, j.ID = job.Process, job.Ticket, job.ID
	d.ID, d.Attempt, d.RetriesLeft, d.Recovered = job.ID, job.Attempt, job.Retries, job.Recovered
	d.Worker, d.ReservedAt, d.useNumber = job.Worker, job.ReservedAt, job.UseNumber
	d.handler, d.timeout, d.limit = e.handlerOf(d), limit, 0
	return d, j, nil
}

// severalResults reports whether the value of a job's handler stands for several: a function with as many results, or one
// of the types Args2, Args3 and Args4. The result of an isolated job comes as JSON, so there the handler says it.
func (r *registry) severalResults(j *outcome.Job, value any) bool {
	if _, is := value.(several); is {
		return true
	}
	switch value.(type) {
	case []any, json.RawMessage:
	default:
		return false
	}
	if j.Class == nil {
		return false
	}
	defined, _ := outcome.Get[severalOf](j.Class)
	e, ok := j.Class.Handler.(*entry)
	if !ok || e.bare == nil {
		return bool(defined)
	}
	h, ok := e.bare.(typedHandler)
	_, isolated := value.(json.RawMessage)
	return ok && (h.Results() > 1 || isolated && (bool(defined) || h.Results() == 1 && h.Result(0).Implements(severalType)))
}
