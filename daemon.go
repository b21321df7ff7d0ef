package goworker

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/autoscale"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/feature/events"
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/feature/webhook"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/flush"
	"github.com/goworker/goworker/internal/gate"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/ownqueue"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/record"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/roster"
	"github.com/goworker/goworker/internal/rule"
	"github.com/goworker/goworker/internal/scheduler"
	"github.com/goworker/goworker/internal/sdnotify"
	"github.com/goworker/goworker/internal/sweep"
)

// Daemon is a background worker: it takes jobs from the queues its settings name and
// runs them with the functions registered for their classes. The functions of this
// package are the methods of a default Daemon. Several run side by side in one process,
// on the same Redis or on others.
//
// All methods are safe for concurrent use.
type Daemon struct {
	*endpoint
	team   *roster.Team            // of the shards with which it shares the workers; nil: all are its own
	lies   func(queues.Spec) error // see roster.Config
	group  *part.Budget            // of the stop of all shards; nil: this daemon is none of several
	quit   func(bool)              // ends the run of all shards, at once if true; nil: this daemon is none of several
	common *control.Common         // of all shards; nil: this daemon is none of several
	whole  reach                   // of all shards; nil: this daemon is none of several
	hooks  hookList
	lives  atomic.Pointer[sdnotify.Judge] // see SetWatchdog

	recurring scheduler.Table
	tally     *health.Tally
	gate      *gate.Gate
	maxRSS    *atomic.Int64 // of the settings, or as the configuration file has changed it; of all shards

	// Guarded by the endpoint's mutex.
	parts   []part.Part
	verbs   []Verb
	running *run
	crew    *part.Crew // of the current run, or the last one; nil: there was none

	// Of the current run, written before its goroutines start.
	config  config
	applied config // config, as the configuration file has changed it meanwhile; guarded by the endpoint's mutex
	log     *slog.Logger
	store   resque.Store
	dialer  conn.Dialer
	outages *logging.Outages
	base    context.Context
	poller  *poller
	pulse   *health.Pulse[health.Poller]
	workers *workers
	lease   *fleet.Lease
	lock    *scheduler.Lock
	pump    *scheduler.Pump
	ticker  *scheduler.Ticker
	sweep   *sweep.Sweep
	flusher *flush.Flusher
	leases  *leased.Sweep
	guard   *ownqueue.Guard
	scale   *autoscale.Scaler
	roster  *roster.Roster
	history *record.History
	rules   *rule.Keeper
	limits  *limits.Table // of the current run, with the rules of this Redis
	events  *events.Events
	webhook *webhook.Webhooks
	control *control.Control
}

// New returns a Daemon with the given settings. They are checked by Init, Run and
// Work, which return an error that names what is wrong.
func New(settings WorkerSettings) *Daemon {
	d := &Daemon{endpoint: newEndpoint(settings, newRegistry()), tally: health.NewTally(clock.System), gate: new(gate.Gate), maxRSS: new(atomic.Int64)}
	d.hooks.fail = d.hookPanicked
	provideComplete(d.registry, func() []access.Redis { return []access.Redis{lender{d.endpoint}} })
	provideStart(d.registry, d.Client)
	return d
}

func newDefault() *Daemon {
	d := New(WorkerSettings{})
	d.configured = false
	d.command = defaultCommandLine()
	return d
}

// SetSettings replaces all settings. Flags given on the command line still win, and a
// field that is zero keeps its default. They take effect at the next Init, Run or Work.
// Until then an initialized daemon keeps its settings, and a closed one stays closed.
func (d *Daemon) SetSettings(settings WorkerSettings) { d.set(settings) }

// Register makes handler run the jobs of a class: those enqueued with exactly
// this name as "class", or ActiveJobs whose own class it is. It replaces a
// handler the class had. It may be called at any time, also while jobs run, and
// by several goroutines.
//
// The handler is a Handler, or a function of one of these forms:
//
//	func(queue string, args ...interface{}) error          // goworker's own
//	func([ctx context.Context,] arguments…) [error | (results…, error)]
//	func(ctx context.Context, job *Job) error
//	func(ctx context.Context, d *Delivery) error
//
// In the second, encoding/json decodes each of the job's arguments into its parameter,
// for each run again. A parameter may be a number, string, bool, struct, map, slice,
// pointer, json.RawMessage, interface{}, or a type that unmarshals itself. A variadic
// one takes the rest. So:
//   - null leaves a parameter at its zero value; a pointer parameter distinguishes the
//     two;
//   - an integer parameter is exact to its last bit and refuses 1.5 and 1.0;
//   - a []byte is read from base64;
//   - a time.Time takes RFC 3339 and, as the parameter itself, "2006-01-02".
//
// For PHP, whose jobs have one argument, a function without parameters also takes
// [null], and a struct or map parameter also takes [].
//
// A job whose arguments do not fit fails with an *ArgumentError, one that panics
// with a *PanicError; a returned error fails it. A result goes to middleware as
// Delivery.Result, several as a list.
//
// Register panics if class is empty or handler is nil or none of the above, with a text
// that says what is allowed. It is a mistake in the program, not in a job.
func (d *Daemon) Register(class string, handler any, opts ...Option) {
	d.registry.register(class, handler, opts)
}

// Use adds middleware around the handlers of all classes, those registered later
// too. The first one added is the outermost.
func (d *Daemon) Use(middleware ...Middleware) { d.registry.use(middleware...) }

// UseEnqueue adds middleware around the calls that enqueue: those of the daemon, of its Client
// and of its Shards. The first one added is the outermost.
func (d *Daemon) UseEnqueue(middleware ...EnqueueMiddleware) { d.registry.around.add(middleware...) }

// AddHooks adds functions that are called around jobs, after those added before.
func (d *Daemon) AddHooks(h Hooks) { d.hooks.add(h) }

// AddPart adds a part that starts and stops with the daemon, from the next run on.
func (d *Daemon) AddPart(p Part) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.parts = append(d.parts, p.internal())
}

// AddVerb adds a verb, from the next run on. It panics if the verb has no name or no function. That is a mistake in the program.
func (d *Daemon) AddVerb(v Verb) {
	control.MustBeVerb(v.own())
	d.mu.Lock()
	defer d.mu.Unlock()
	d.verbs = append(d.verbs, v)
}

// Inspect returns what answers questions about queues, jobs, failures and workers: that of the daemon's Client.
func (d *Daemon) Inspect() *inspect.Inspector { return d.Client().Inspect() }

// present returns the roster of the current run.
func (d *Daemon) present() (*roster.Roster, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil || d.running.poller == nil {
		return nil, prefix.Of(errNotRunning)
	}
	return d.roster, nil
}

// SetConcurrency changes how many jobs run at the same time, until Run returns. The workers that other Resque
// tools see change with it. Fewer take effect at once: no job is interrupted, and Resized names those that run
// beyond the new number. More take effect when Redis has registered the workers. If ctx ends before, SetConcurrency returns
// its error, and the change is still made when Redis answers. n is from 1 to 4,096. For a daemon of Shards it is
// Shards.SetConcurrency. With ConcurrencyMax, n is both bounds from then on, until Run returns.
func (d *Daemon) SetConcurrency(ctx context.Context, n int) (Resized, error) {
	r, err := d.present()
	if err != nil {
		return Resized{}, err
	}
	return resized(r.Resize(ctx, n))
}

// SetQueues changes which queues the daemon works, until Run returns. lists are in the grammar of
// WorkerSettings.QueuesString. SetQueues refuses a list that the settings refuse, with the same error, and changes nothing.
//
// When SetQueues returns, no job of a queue that the list lacks starts any more: prefetched ones are back at the heads of
// their queues. Jobs that run go on. The workers that other Resque tools see have the new list in their ids, and
// a worker with a job the old list too until the job has ended. Order in the settings holds for each list.
//
// It waits for Redis. If ctx ends before, SetQueues returns its error, and the change is still made when Redis answers. It refuses
// a list while jobs run that began under eight former lists, if another process has registered its worker ids, or if a queue of
// it lies on another shard.
func (d *Daemon) SetQueues(ctx context.Context, lists ...string) (Relisted, error) {
	r, err := d.present()
	if err != nil {
		return Relisted{}, err
	}
	c, err := r.Set(ctx, lists...)
	return Relisted{From: c.From, To: c.To, Settings: c.Settings, Busy: busyWorkers(c.Busy)}, prefix.Of(err)
}

// StopNow makes a Run that stops wait no longer for its jobs, as a second signal does.
// Their contexts are cancelled now, not at the shutdown timeout. If it is called before
// the stop, it has its effect at the stop. Without a run it does nothing.
func (d *Daemon) StopNow() {
	d.mu.Lock()
	r := d.running
	d.mu.Unlock()
	if r != nil {
		r.stop.Cut()
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
		p.hold(byProgram, paused)
	}
}

// CancelJobs cancels the contexts of the jobs that run now, with the cause
// ErrCancelled. The errors that their handlers then return are filed as failures.
func (d *Daemon) CancelJobs() {
	if s := d.session(); s != nil && d.currentPoller() != nil {
		s.CancelJobs(ErrCancelled)
	}
}

// Client returns the Client of the daemon: on its connections, with the options of the
// classes registered here. It may be used at any time until Close, and inside handlers.
func (d *Daemon) Client() *Client {
	return &Client{redises: []*endpoint{d.endpoint}, registry: d.registry}
}

// reached is the reach of the daemon.
func (d *Daemon) reached() (*Client, int) {
	if d.whole != nil {
		return d.whole()
	}
	return d.Client(), 0
}

// RegisterDialer makes the daemon dial URIs of a scheme with another package, or with
// code of the program's own:
//
//	d.RegisterDialer("embedded", embedded.Open)
func (d *Daemon) RegisterDialer(scheme string, open Opener) {
	d.register(scheme, opener(open))
}

// Init checks the settings, and that no limit has two numbers. It prepares the connections
// to Redis and does not dial. Work and Run call it. A program calls it itself to use
// GetConn before them, or to learn of a mistake early. A second call only applies settings
// that were replaced since. After Close it makes the daemon usable again.
func (d *Daemon) Init() error {
	_, err := d.init(true)
	return err
}

// Close closes the connections. From then on every method that returns an error returns
// ErrClosed, also if the daemon was never used. Only Init, Run and Work make it usable
// again. Methods without an error go on as before: Register, SetSettings and the like
// prepare the next run, Namespace and Stuck answer.
//
// Close does not wait. A call that waits for a connection returns ErrClosed; any other
// call under way ends as usual. A connection of GetConn stays usable until PutConn, which
// closes it. Close does not stop a run. Call it when Run has returned, as Work does:
// handlers that use the daemon get ErrClosed too.
func (d *Daemon) Close() { d.close() }

// Namespace returns the prefix of all keys, its colon included. It answers after Close too.
func (d *Daemon) Namespace() string { return d.namespace() }

func (d *Daemon) hookPanicked(hook string, value any, stack []byte) {
	d.log.Error("a hook panicked", "hook", hook, "panic", fmt.Sprint(value), "stack", string(stack))
}

// GetConn borrows a connection for the program's own use; give it back with PutConn.
// All borrowers and Enqueue share the Connections (by default 2); the daemon's own work
// has others. If all are borrowed, it waits a while and then returns an error.
func (d *Daemon) GetConn() (*RedisConn, error) {
	c, err := d.init(false)
	if err != nil {
		return nil, err
	}
	lent, err := c.Pool.Get(context.Background())
	if err != nil {
		return nil, prefix.Of(err)
	}
	return &RedisConn{lent}, nil
}

// PutConn gives a connection back and closes a broken one. The second PutConn of a
// connection does nothing.
func (d *Daemon) PutConn(c *RedisConn) {
	if c != nil && c.Conn != nil {
		conn.PutBack(c.Conn)
	}
}

// withConn runs f on a connection of the pool.
func (d *Daemon) withConn(f func(s resque.Store, c redis.Conn) error) error {
	return lender{d.endpoint}.Do(context.Background(), f)
}
