package goworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

// Daemon is a background worker: it takes jobs from the queues its settings name
// and runs them with the functions registered for their classes. The functions of
// this package are a Daemon's methods on a default one; several run side by side
// in one process, on the same Redis or on others.
//
// All methods are safe for concurrent use.
type Daemon struct {
	command  *commandLine // of the default daemon only
	registry registry
	hooks    hookList
	session  atomic.Pointer[session]

	mu         sync.Mutex
	settings   WorkerSettings
	configured bool // SetSettings was called
	openers    map[string]Opener
	parts      []Part
	client     *client // what talks to Redis; nil before Init and after Close
	running    *run

	// Of the current run, written before its goroutines start.
	config  config
	log     *slog.Logger
	store   resque.Store
	dialer  Dialer
	outages *outages
	base    context.Context
	poller  *poller
	workers *workers
	records *records
	lease   *lease
}

// client is what Init makes and Close closes.
type client struct {
	config config
	log    *slog.Logger
	flush  func()
	store  resque.Store
	dialer Dialer
	pool   *pool
}

// run is one call of Run.
type run struct {
	hard   chan struct{} // closed: stop at once
	once   sync.Once
	poller *poller // nil until it is made; guarded by Daemon.mu
}

// New returns a Daemon with the given settings. They are checked by Init, Run and
// Work, which return an error that names what is wrong.
func New(settings WorkerSettings) *Daemon {
	d := &Daemon{settings: settings, configured: true}
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
// Run or Work; until then a daemon that was initialized keeps those it has.
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
	d.parts = append(d.parts, p)
}

// RegisterDialer makes the daemon reach URIs of a scheme by way of another package,
// or of one of the program's own:
//
//	d.RegisterDialer("embedded", embedded.Open)
func (d *Daemon) RegisterDialer(scheme string, open Opener) {
	d.mu.Lock()
	defer d.mu.Unlock()
	openers := maps.Clone(d.openers)
	if openers == nil {
		openers = make(map[string]Opener)
	}
	openers[strings.ToLower(scheme)] = open
	d.openers = openers
}

// Init checks the settings and makes ready what talks to Redis, without dialing
// it. Work and Run call it; a program calls it itself to use GetConn before, or to
// learn of a mistake early. Called again it does nothing but take in settings that
// were replaced since.
func (d *Daemon) Init() error {
	_, err := d.init(true)
	return err
}

// init makes the client. Programs that only enqueue need no queues, and have a
// command line of their own.
func (d *Daemon) init(work bool) (*client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	settings := d.settings
	if d.command != nil && (d.client == nil || work) {
		if err := d.command.parse(os.Args[1:], d.configured || !work); err != nil {
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
	if old := d.client; old != nil && old.config.client() == c.client() {
		again := *old // it may have been made without the queues; others read the old one
		again.config = c
		d.client = &again
		return d.client, nil
	} else if old != nil { // the settings were replaced since
		d.client = nil
		old.close()
	}
	dialer, err := newDialer(context.Background(), c.client().dial, d.openers)
	if err != nil {
		return nil, err
	}
	log, flush := c.logger, func() {}
	if log == nil {
		log, flush = newLogger(c.logLevel, c.logFormat, os.Stdout)
	}
	d.client = &client{
		config: c, log: log, flush: flush, store: resque.New(c.namespace),
		dialer: dialer, pool: newPool(dialer, c.connections),
	}
	return d.client, nil
}

// Close closes the connections. It does not wait for those that GetConn has lent:
// they are closed when they are put back. The daemon can be initialized again.
func (d *Daemon) Close() {
	d.mu.Lock()
	c := d.client
	d.client = nil
	d.mu.Unlock()
	if c != nil {
		c.close()
	}
}

func (c *client) close() {
	c.pool.close()
	if err := closeDialer(c.dialer); err != nil {
		c.log.Warn("closing the way to Redis", "error", err)
	}
	c.flush()
}

// Namespace returns the prefix of all keys, its colon included.
func (d *Daemon) Namespace() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != nil {
		return d.client.config.namespace
	}
	settings := d.settings
	if d.command != nil {
		settings = d.command.apply(settings)
	}
	return resque.New(settings.Namespace).Namespace()
}

// GetConn borrows a connection for the program's own use; give it back with
// PutConn. Connections (by default 2) are shared by all borrowers and Enqueue, but
// not by the daemon's own work. With all of them lent out it waits a while and
// then returns an error.
func (d *Daemon) GetConn() (*RedisConn, error) {
	c, err := d.init(false)
	if err != nil {
		return nil, err
	}
	return c.pool.get(context.Background())
}

// PutConn gives a connection back. A broken one is thrown away; giving one back
// twice does nothing.
func (d *Daemon) PutConn(conn *RedisConn) {
	putBack(conn)
}

// withConn runs f on a connection of the pool.
func (d *Daemon) withConn(f func(s resque.Store, c redis.Conn) error) error {
	client, err := d.init(false)
	if err != nil {
		return err
	}
	conn, err := client.pool.get(context.Background())
	if err != nil {
		return err
	}
	defer putBack(conn)
	return f(client.store, conn.Conn)
}

// Enqueue pushes a job to the tail of its queue, as Resque.enqueue does, and
// returns every error Redis gives. It needs no queues in the settings, and makes
// the connections when it is first called.
func (d *Daemon) Enqueue(job *Job) error {
	if job == nil || job.Queue == "" || job.Payload.Class == "" {
		return errors.New("goworker: Enqueue needs a job with a queue and a class")
	}
	return d.withConn(func(s resque.Store, c redis.Conn) error {
		payload, err := resque.EncodePayload(job.Payload.Class, job.Payload.Args, d.style())
		if err != nil {
			return fmt.Errorf("goworker: enqueueing %s: %w", job.Payload.Class, err)
		}
		return s.Push(c, job.Queue, payload)
	})
}

func (d *Daemon) style() resque.Style {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == nil {
		return resque.Plain
	}
	return d.client.config.style
}

// Run works until the context is cancelled, or all queues are empty where the
// settings ask to exit then. It then takes no more jobs, waits for those that run,
// at most for the shutdown timeout, and returns.
//
// Jobs still running at the timeout have their contexts cancelled. Two seconds
// later what has returned is committed, the rest goes back to its queue, and Run
// returns a *ShutdownError that names it. Those handlers still run: unlike Work,
// Run does not end the program, but its caller should.
//
// An unreachable Redis is an error at the start only; afterwards it is waited for.
func (d *Daemon) Run(ctx context.Context) error {
	c, err := d.init(true)
	if err != nil {
		return err
	}
	r := &run{hard: make(chan struct{})}
	d.mu.Lock()
	if d.running != nil {
		d.mu.Unlock()
		return ErrRunning
	}
	d.running = r
	extra := slices.Clone(d.parts)
	d.prepare(ctx, c)
	r.poller = d.poller
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.running = nil
		d.mu.Unlock()
	}()

	parts, err := d.sortedParts(extra, r)
	if err != nil {
		return fmt.Errorf("goworker: %w", err)
	}
	if started, err := startParts(ctx, parts); err != nil {
		ctx, cancel := d.stopContext()
		defer cancel()
		return fmt.Errorf("goworker: %w", errors.Join(err, stopParts(ctx, started)))
	}
	select {
	case <-ctx.Done():
	case <-d.poller.ended:
	}
	d.log.Info("stopping: taking no more jobs")
	d.hooks.shutdown()
	stopCtx, cancel := d.stopContext()
	defer cancel()
	err = stopParts(stopCtx, parts)
	if err != nil {
		d.log.Error("stopped", "error", err)
	} else {
		d.log.Info("stopped")
	}
	c.flush()
	return err
}

// prepare makes what belongs to one run. The mutex is held, so that nobody asks
// for the poller of the run before.
func (d *Daemon) prepare(ctx context.Context, c *client) {
	d.config, d.log, d.store, d.dialer = c.config, c.log, c.store, c.dialer
	d.registry.useNumber.Store(c.config.useNumber)
	if every, ok := pollInterval(c.dialer); ok {
		d.config.tracking = false
		d.config.interval = min(d.config.interval, every)
	}
	d.outages = &outages{log: c.log}
	d.base = context.WithoutCancel(ctx)
	d.poller, d.records, d.lease = newPoller(d), newRecords(d), newLease(d)
	d.workers = newWorkers(d, d.poller, d.records)
}

// stopContext bounds the stop of all parts, where the jobs' time is bounded.
func (d *Daemon) stopContext() (context.Context, context.CancelFunc) {
	if d.config.shutdownTimeout == 0 {
		return context.WithCancel(d.base)
	}
	return context.WithTimeout(d.base, d.config.shutdownTimeout+cancelGrace+commitGrace+leaveGrace)
}

// sortedParts are the daemon's own parts and those added to it, in the order in
// which they start.
func (d *Daemon) sortedParts(extra []Part, r *run) ([]Part, error) {
	own := []Part{
		{Name: "lease", Start: d.lease.start, Stop: d.lease.stop},
		{Name: "records", Requires: []string{"lease"}, Start: d.records.start, Stop: d.records.stop},
		{Name: "workers", Requires: []string{"records"}, Start: d.workers.start, Stop: d.workers.stop},
		{Name: "poller", Requires: []string{"workers"}, Start: func(ctx context.Context) error {
			go d.poller.run(d.base)
			return nil
		}, Stop: func(ctx context.Context) error { return d.poller.drain(d.config.shutdownTimeout, r.hard) }},
	}
	all := append(slices.Clone(own), extra...)
	if _, err := sortParts(all); err != nil {
		return nil, err
	}
	all[2].Requires = append(all[2].Requires, outliving(all, "workers", "poller")...)
	return sortParts(all)
}

// Parts returns the names of the daemon's parts and those added to it, in the
// order in which they start.
func (d *Daemon) Parts() ([]string, error) {
	d.mu.Lock()
	extra := slices.Clone(d.parts)
	d.mu.Unlock()
	idle := &Daemon{}
	idle.poller, idle.workers, idle.records, idle.lease = &poller{}, &workers{}, &records{}, &lease{}
	parts, err := idle.sortedParts(extra, &run{})
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Name
	}
	return names, err
}

// stopNow makes a Run that is stopping wait no longer for its jobs.
func (d *Daemon) stopNow() {
	d.mu.Lock()
	r := d.running
	d.mu.Unlock()
	if r != nil {
		r.once.Do(func() { close(r.hard) })
	}
}

// Pause makes the daemon take no more jobs until Resume. Jobs that run finish.
// Only this daemon pauses, and only its current run: without one it does nothing.
// See the key pause-all-workers for the whole fleet.
func (d *Daemon) Pause() { d.pause(true) }

// Resume ends Pause.
func (d *Daemon) Resume() { d.pause(false) }

func (d *Daemon) pause(paused bool) {
	if p := d.currentPoller(); p != nil {
		p.ask(func() {
			if p.selfPause != paused {
				p.log.Info("pause", "paused", paused)
			}
			p.selfPause = paused
			p.watch.forget()
		})
	}
}

// CancelJobs cancels the contexts of the jobs that run now, with the cause
// ErrCancelled. What their handlers then return is filed as a failure.
func (d *Daemon) CancelJobs() {
	if s := d.session.Load(); s != nil && d.currentPoller() != nil {
		s.cancelJobs(ErrCancelled)
	}
}

func (d *Daemon) currentPoller() *poller {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		return nil
	}
	return d.running.poller
}

func (d *Daemon) hookPanicked(hook string, value any, stack []byte) {
	d.log.Error("a hook panicked", "hook", hook, "panic", fmt.Sprint(value), "stack", string(stack))
}

// After the contexts of running jobs are cancelled, how long they have to return,
// and how long what then is to be committed may take.
const (
	cancelGrace = 2 * time.Second
	commitGrace = 3 * time.Second

	// leaveGrace is what then is left to the parts below the workers.
	leaveGrace = 3 * time.Second
)

// drain stops the poller: no more jobs are taken, those that run may finish until
// the timeout (0: none) or until somebody asks for haste.
func (p *poller) drain(timeout time.Duration, hard <-chan struct{}) error {
	p.stop.Do(func() { close(p.quit) })
	var deadline <-chan time.Time
	if timeout > 0 {
		deadline = time.After(timeout)
	}
	select {
	case <-p.ended:
		return nil
	case <-deadline:
	case <-hard:
	}
	p.log.Warn("cancelling the jobs that still run")
	p.d.session.Load().stopJobs(ErrShutdown)
	if p.endsWithin(cancelGrace) {
		return nil
	}
	close(p.force)
	if !p.endsWithin(commitGrace) {
		p.ask(func() {
			if !p.forced { // it was waiting for Redis all the while
				p.forced = true
				p.giveBackRunning()
			}
			p.hopeless = true
		})
		<-p.ended
	}
	return p.leftovers()
}

func (p *poller) endsWithin(d time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(d):
		return false
	}
}

// leftovers says what could not be brought to an end. The poller has ended.
func (p *poller) leftovers() error {
	e := &ShutdownError{Undelivered: len(p.pending) + len(p.refused) + len(p.sentOut)}
	for _, t := range p.abandoned {
		class := "an invalid payload"
		if payload, err := resque.ParsePayload(t.Payload); err == nil {
			class = payload.Class
		}
		e.Unfinished = append(e.Unfinished, fmt.Sprintf("%s of queue %s", class, t.Queue))
	}
	if n := p.busy - len(p.abandoned); n > 0 {
		e.Unfinished = append(e.Unfinished, fmt.Sprintf("%d that were given to other processes before", n))
	}
	if len(e.Unfinished)+e.Undelivered == 0 {
		return nil
	}
	return e
}
