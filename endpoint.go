package goworker

import (
	"context"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/await"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/depth"
	"github.com/goworker/goworker/internal/feature/events"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/setting"
)

// endpoint is one Redis as the program reaches it: the settings, the connections, and the
// classes whose options hold for enqueued jobs. A Daemon has one, and so has a Client that
// is no daemon's. It is safe for concurrent use.
type endpoint struct {
	command  *commandLine // only the default daemon has one
	registry *registry
	features []func(outcome.Deps) outcome.Feature // before those of the list; only tests add some
	meter    *meter.Meter

	mu         sync.Mutex
	settings   WorkerSettings
	configured bool         // SetSettings was called
	file       setting.File // the configuration file; nil: the program reads none
	openers    map[string]conn.Opener
	client     *client          // nil before init and after close
	closed     bool             // close was called, and init for work was not since
	fleet      outcome.Time     // the fleet's clock, while a daemon runs
	buffer     *producer.Buffer // of the last client; nil: the settings want none
}

// client talks to Redis. init makes it and close closes it.
type client struct {
	producer.Client
	config  config
	log     *slog.Logger
	common  *control.Common
	flush   func()
	dialer  conn.Dialer
	set     *outcome.Set // the features, for jobs that are enqueued
	waits   *await.Watcher
	settled func() settled                 // for packages above this one; made by the first call
	bridges *atomic.Pointer[depth.Bridges] // of the latest run of the daemon; nil: there was none
	heard   *events.Seat                   // of what says to listeners which jobs are enqueued: the latest run of the daemon has it
}

func newEndpoint(settings WorkerSettings, r *registry) *endpoint {
	return &endpoint{settings: settings, configured: true, registry: r, meter: meter.New()}
}

// set replaces the settings, for the next init.
func (e *endpoint) set(settings WorkerSettings) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.settings, e.configured = settings, true
}

// init makes the client. A call without work only enqueues: it needs no queues, and the
// command line is the program's own. Such a call does not reopen a closed endpoint, since
// the program would not close it a second time.
func (e *endpoint) init(work bool) (*client, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed && !work {
		return nil, ErrClosed
	}
	if e.command != nil && (e.client == nil || work) {
		if err := e.command.Parse(os.Args[1:], e.configured || !work); err != nil {
			return nil, err
		}
	}
	if e.client != nil && (!work || e.fleet != nil) {
		return e.client, nil
	}
	c, err := e.resolve(e.settings, work)
	if err != nil {
		return nil, err
	}
	if c.file != nil {
		c.file.Accept(false)
		e.registry.lay(c.file)
	}
	if _, err := e.registry.limits.Numbers(); err != nil && work {
		return nil, prefix.Of(err)
	}
	if old := e.client; old != nil && old.config.sameClient(c) {
		again := *old // it may have been made without the queues; other goroutines read the old one
		again.config, again.Style, again.MaxPayload = c, c.style, c.MaxPayload
		e.client = &again
		return e.client, nil
	} else if old != nil { // the settings were replaced since
		e.client = nil
		old.close(conn.ErrReplaced)
	}
	dialer, err := conn.NewDialer(context.Background(), c.dial(), e.openers)
	if err != nil {
		return nil, prefix.Of(err)
	}
	log, level, flush := c.log()
	heard := new(events.Seat)
	e.client = &client{
		Client: producer.Client{
			Pool: conn.NewPool(dialer, c.Connections), Store: c.store(), Retries: c.dial().Options().ConnectTimeout,
			Style: c.style, MaxPayload: c.MaxPayload, Clock: e.registry.trial.Frozen(), Sent: e.registry.trial.Recorder(), Coalescer: new(producer.Coalescer), Types: new(resque.Types), Spares: new(producer.Spares), Releases: new(producer.Releases), Hearer: heard, Meter: e.meter,
			Soft: func(k resque.KeyError) {
				log.Warn("a key was not written with a push", "key", k.Key, "error", k.Reason)
			},
		},
		config: c, log: log, common: control.NewCommon(clock.System, level, 1), flush: flush, dialer: dialer,
		bridges: new(atomic.Pointer[depth.Bridges]), heard: heard,
	}
	e.client.waits = await.New(e.client.base(), !c.DisableTracking)
	e.buffer = e.client.KeepsJobs(c.EnqueueBuffer, log, clock.System)
	e.client.set = outcome.New(outcome.Deps{
		Base: part.Base{Log: log, Store: e.client.Store, Dialer: dialer, Clock: e.registry.trial.Clock()}, Time: fleetTime{e}, Do: e.client.Pool.Do,
		Settings: outcome.Settings{Stamp: e.client.config.Stamp},
	}, e.registry, slices.Concat(e.features, e.registry.features(e.registry.limits))...)
	made, added := e.client, e.features
	made.settled = sync.OnceValue(func() settled { return made.newSettled(e.registry, added) })
	e.closed = false
	return e.client, nil
}

// resolve returns the settings with those of the command line, the environment and the configuration file. The caller holds the mutex.
func (e *endpoint) resolve(settings WorkerSettings, work bool) (c config, err error) {
	return e.resolveFrom(e.file, settings, work)
}

func (e *endpoint) resolveFrom(f setting.File, settings WorkerSettings, work bool) (c config, err error) {
	from := setting.Sources{Getenv: os.Getenv, Given: e.command.given}
	if e.command != nil {
		settings = e.command.apply(settings)
	}
	var file *setting.Content
	if f != nil {
		if file, err = f.Read(e.command.file()); file != nil {
			from.File = file.Texts
		}
	}
	c, wrong := settings.configFrom(work && err == nil, from)
	c.file = file
	return c, prefix.Of(setting.Join(err, wrong))
}

// register makes URIs of a scheme known, from the next init on. A nil opener unregisters it.
func (e *endpoint) register(scheme string, open conn.Opener) {
	e.mu.Lock()
	defer e.mu.Unlock()
	openers := maps.Clone(e.openers)
	if openers == nil {
		openers = make(map[string]conn.Opener)
	}
	delete(openers, strings.ToLower(scheme))
	if open != nil {
		openers[strings.ToLower(scheme)] = open
	}
	e.openers = openers
}

// close closes the connections, until init for work. The buffer has most of a stop's last step to drain.
func (e *endpoint) close() {
	ctx, cancel := context.WithTimeout(context.Background(), part.CloseGrace*4/5)
	defer cancel()
	_ = e.closeWithin(ctx)
}

// closeWithin is close with another limit. It returns an error if jobs in the buffer are lost.
func (e *endpoint) closeWithin(ctx context.Context) (lost error) {
	e.mu.Lock()
	c := e.client
	e.client, e.closed = nil, true
	e.mu.Unlock()
	if c != nil {
		lost = c.Buffer.Close(ctx)
		c.close(ErrClosed)
	}
	return lost
}

// buffered counts the jobs of the buffer.
func (e *endpoint) buffered() producer.BufferStats {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.buffer.Stats()
}

// usable returns ErrClosed after close. A call asks it before it looks at its arguments:
// whether the daemon is closed must not depend on them.
func (e *endpoint) usable() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return ErrClosed
	}
	return nil
}

// close closes the client. Calls that wait for one of its connections return the error
// why.
func (c *client) close(why error) {
	c.Buffer.Drop()
	c.waits.Close(why)
	c.Pool.Close(why)
	if err := conn.CloseDialer(c.dialer); err != nil {
		c.log.Warn("closing the dialer failed", "error", err)
	}
	c.flush()
}

// namespace returns the prefix of all keys.
func (e *endpoint) namespace() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client != nil {
		return e.client.config.Namespace
	}
	c, _ := e.resolve(e.settings, false) // a mistake is an error of init
	return resque.New(c.Namespace).Namespace()
}

// now returns the time by Redis's clock while a daemon runs, and by this machine's clock
// otherwise.
func (e *endpoint) now() time.Time {
	e.mu.Lock()
	fleet := e.fleet
	e.mu.Unlock()
	if fleet == nil || e.registry.trial != nil {
		return e.registry.trial.Clock().Now()
	}
	return fleet.Now()
}

// fleetTime is now of an endpoint.
type fleetTime struct{ *endpoint }

func (f fleetTime) Now() time.Time { return f.now() }

// lender gives package inspect the connections of an endpoint.
type lender struct{ *endpoint }

func (l lender) Usable() error { return l.usable() }

func (l lender) Settings() (access.Settings, error) {
	client, err := l.init(false)
	if err != nil {
		return access.Settings{}, err
	}
	c := client.config
	return access.Settings{
		Style: c.style, MaxPayload: c.MaxPayload, MultiQueue: c.multiQueueFailures, Server: conn.RedactURI(c.URI),
	}, nil
}

func (l lender) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	client, err := l.init(false)
	if err != nil {
		return err
	}
	return prefix.Of(client.Do(ctx, f))
}

// Alone runs f on a connection that is not of the pool.
func (l lender) Alone(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	client, err := l.init(false)
	if err != nil {
		return err
	}
	line := conn.Line{Dialer: client.dialer}
	defer line.Close()
	return prefix.Of(line.Once(ctx, func(c redis.Conn) error { return f(client.Store, c) }))
}

// Pool lends from other connections than those of the endpoint.
func (l lender) Pool(connections int) (other access.Redis, end func(), err error) {
	client, err := l.init(false)
	if err != nil {
		return nil, nil, err
	}
	pool := conn.NewPool(client.dialer, connections)
	return pooled{l, client.Store, pool}, func() { pool.Close(ErrClosed) }, nil
}

// pooled is a lender with other connections.
type pooled struct {
	lender
	store resque.Store
	pool  *conn.Pool
}

func (p pooled) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return prefix.Of(p.pool.Do(ctx, func(c redis.Conn) error { return f(p.store, c) }))
}
