package goworker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/scheduler"
	"github.com/goworker/goworker/internal/share"
)

// Daemon is a background worker: it takes jobs from the queues its settings name
// and runs them with the functions registered for their classes. The functions of
// this package are a Daemon's methods on a default one; several run side by side
// in one process, on the same Redis or on others.
//
// All methods are safe for concurrent use.
type Daemon struct {
	command  *commandLine // of the default daemon only
	budget   *share.Pool  // of workers, in common with other daemons; nil: all are its own
	registry *registry
	hooks    hookList

	recurring scheduler.Table

	mu         sync.Mutex
	settings   WorkerSettings
	configured bool // SetSettings was called
	openers    map[string]conn.Opener
	parts      []part.Part
	features   []func(outcome.Deps) outcome.Feature // before those of the list; only tests add some
	client     *client                              // what talks to Redis; nil before Init and after Close
	closed     bool                                 // Close was called, and Init, Run and Work were not since
	running    *run

	// Of the current run, written before its goroutines start.
	config  config
	log     *slog.Logger
	store   resque.Store
	dialer  conn.Dialer
	outages *logging.Outages
	base    context.Context
	poller  *poller
	workers *workers
	lease   *fleet.Lease
	lock    *scheduler.Lock
	pump    *scheduler.Pump
	ticker  *scheduler.Ticker
}

// client is what Init makes and Close closes.
type client struct {
	producer.Client
	config config
	log    *slog.Logger
	flush  func()
	dialer conn.Dialer
}

// New returns a Daemon with the given settings. They are checked by Init, Run and
// Work, which return an error that names what is wrong.
func New(settings WorkerSettings) *Daemon {
	d := &Daemon{settings: settings, configured: true, registry: newRegistry()}
	d.hooks.fail = d.hookPanicked
	return d
}

func newDefault() *Daemon {
	d := New(WorkerSettings{})
	d.configured = false
	d.command = defaultCommandLine()
	return d
}

// SetSettings replaces all settings. Flags given on the command line still win,
// and what is left at zero keeps its default. They take effect at the next Init,
// Run or Work; until then a daemon that was initialized keeps those it has, and one
// that was closed stays closed.
func (d *Daemon) SetSettings(settings WorkerSettings) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.settings, d.configured = settings, true
}

// Register makes handler run the jobs of a class: those enqueued with exactly
// this name as "class", or ActiveJobs whose own class it is. It replaces a
// handler the class had. It may be called at any time, also while jobs run, and
// by several goroutines.
//
// The handler is a Handler, or a function of one of these forms:
//
//	func(queue string, args ...interface{}) error          // goworker's own
//	func([ctx context.Context,] arguments…) [error | (result, error)]
//	func(ctx context.Context, job *Job) error
//	func(ctx context.Context, d *Delivery) error
//
// In the second, each of the job's arguments is decoded into its parameter as
// encoding/json does it, fresh for each run: a parameter may be a number, string,
// bool, struct, map, slice, pointer, json.RawMessage, interface{}, or anything
// that unmarshals itself; a variadic one takes what is left. So:
//   - null leaves a parameter at its zero value; use a pointer to tell them apart;
//   - an integer parameter is exact to its last bit and refuses 1.5 and 1.0;
//   - a []byte is read from base64;
//   - a time.Time takes RFC 3339 and, as the parameter itself, "2006-01-02".
//
// For PHP, whose jobs have one argument, a function without parameters also takes
// [null], and a struct or map parameter also takes [].
//
// A job whose arguments do not fit fails with an *ArgumentError, one that panics
// with a *PanicError; a returned error fails it. A result goes to middleware as
// Delivery.Result.
//
// Register panics, saying what is allowed, if class is empty or handler is nil or
// none of the above: it is a mistake in the program, not in a job.
func (d *Daemon) Register(class string, handler any, opts ...Option) {
	d.registry.register(class, handler, opts)
}

// Use adds middleware around the handlers of all classes, those registered later
// too. The first one added is the outermost.
func (d *Daemon) Use(middleware ...Middleware) { d.registry.use(middleware...) }

// AddHooks adds functions to be called around jobs, after those added before.
func (d *Daemon) AddHooks(h Hooks) { d.hooks.add(h) }

// AddPart adds a part to be started and stopped with the daemon, from the next
// run on.
func (d *Daemon) AddPart(p Part) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parts = append(d.parts, part.Part(p))
}

// Init checks the settings, and that no limit has two numbers, and makes ready what
// talks to Redis, without dialing it. Work and Run call it; a program calls it itself to
// use GetConn before, or to learn of a mistake early. Called again it does nothing but
// take in settings that were replaced since. After Close it makes the daemon usable again.
func (d *Daemon) Init() error {
	_, err := d.init(true)
	return err
}

// init makes the client. Programs that only enqueue need no queues, and have a
// command line of their own. They do not open again what was closed: nobody would close
// it a second time.
func (d *Daemon) init(work bool) (*client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed && !work {
		return nil, ErrClosed
	}
	settings := d.settings
	if d.command != nil && (d.client == nil || work) {
		if err := d.command.Parse(os.Args[1:], d.configured || !work); err != nil {
			return nil, err
		}
		settings = d.command.apply(settings)
	}
	if d.client != nil && (!work || d.running != nil) {
		return d.client, nil
	}
	c, err := settings.config(work)
	if err != nil {
		return nil, err
	}
	if _, err := d.registry.limits.Numbers(); err != nil && work {
		return nil, fmt.Errorf("limits: %w", err)
	}
	if old := d.client; old != nil && old.config.sameClient(c) {
		again := *old // it may have been made without the queues; others read the old one
		again.config = c
		d.client = &again
		return d.client, nil
	} else if old != nil { // the settings were replaced since
		d.client = nil
		old.close(conn.ErrReplaced)
	}
	dialer, err := conn.NewDialer(context.Background(), c.dial(), d.openers)
	if err != nil {
		return nil, err
	}
	log, flush := c.log()
	d.client = &client{
		Client: producer.Client{Pool: conn.NewPool(dialer, c.Connections), Store: c.store(), Retries: c.dial().Options().ConnectTimeout},
		config: c, log: log, flush: flush, dialer: dialer,
	}
	d.closed = false
	return d.client, nil
}

// Close closes the connections. From then on every method that returns an error returns
// ErrClosed, also where the daemon was never used; only Init, Run and Work do not: they
// make it usable again. Methods without an error go on as before: Register and its like
// and SetSettings prepare the next run, Namespace and Stuck answer.
//
// Close waits for nobody. A call under way ends as it would or, if it waits for a
// connection, with ErrClosed. A connection that GetConn has lent stays usable until it is
// put back, and is closed then. Close does not stop a run: call it when Run has returned,
// as Work does, since handlers that use the daemon get ErrClosed too.
func (d *Daemon) Close() {
	d.mu.Lock()
	c := d.client
	d.client, d.closed = nil, true
	d.mu.Unlock()
	if c != nil {
		c.close(ErrClosed)
	}
}

// usable returns ErrClosed after Close. What a call was given is looked at later: whether
// the daemon is closed must not depend on it.
func (d *Daemon) usable() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return ErrClosed
	}
	return nil
}

// close ends the client. Calls that wait for one of its connections return why.
func (c *client) close(why error) {
	c.Pool.Close(why)
	if err := conn.CloseDialer(c.dialer); err != nil {
		c.log.Warn("closing the way to Redis", "error", err)
	}
	c.flush()
}

// Namespace returns the prefix of all keys, its colon included. It answers after Close too.
func (d *Daemon) Namespace() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != nil {
		return d.client.config.Namespace
	}
	settings := d.settings
	if d.command != nil {
		settings = d.command.apply(settings)
	}
	return resque.New(settings.Namespace).Namespace()
}

func (d *Daemon) hookPanicked(hook string, value any, stack []byte) {
	d.log.Error("a hook panicked", "hook", hook, "panic", fmt.Sprint(value), "stack", string(stack))
}
