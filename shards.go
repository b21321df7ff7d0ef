package goworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/gate"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/recurring"
	"github.com/goworker/goworker/internal/roster"
	"github.com/goworker/goworker/internal/sdnotify"
	"github.com/goworker/goworker/internal/setting"
	"github.com/goworker/goworker/internal/share"
	"github.com/goworker/goworker/internal/sig"
)

// Shard is one Redis of several and the queues that lie there.
type Shard struct {
	// URI says where it is, as WorkerSettings.URI does. It must be given.
	URI string

	// Queues lists its queues in the grammar of WorkerSettings.QueuesString, with
	// weights, patterns and exclusions. The workers take jobs from these, and Enqueue
	// finds the shard of a queue by them. At least one is needed.
	Queues []string
}

// Shards is a worker for queues that lie on several Redises. It has a Daemon for each.
// They share the handlers and the workers: at most WorkerSettings.Concurrency jobs run
// at once on all shards. A shard that alone has work gets all workers. Several that
// have more work than there are workers get the same number each. The failures and
// statistics of a Redis are those of its Daemon.
//
// A Redis that is away stops only its own queues.
//
// All methods are safe for concurrent use.
type Shards struct {
	settings WorkerSettings
	shards   []Shard
	daemons  []*Daemon
	members  []*part.Member // by shard; Name and Run are set once, Outages by each run, with mu
	handlers *registry      // of all daemons
	gate     *gate.Gate     // of all daemons
	own      *endpoint      // of the configuration file alone
	held     setting.Held   // the file, for the daemons
	lives    atomic.Pointer[sdnotify.Judge]
	hooks    hookList // Ready and Shutdown, once for all; the daemons have the others

	mu      sync.Mutex
	ready   bool // Init was called and Close was not
	closed  bool // Close was called and Init was not
	routes  queues.Routes
	team    *roster.Team // of the current run; nil: there is none
	config  config
	log     *slog.Logger
	flush   func()
	common  *control.Common
	parts   []part.Part
	paused  bool
	running bool
	crew    *part.Crew   // of the current run, or the last one; nil: there was none
	stop    *part.Budget // the time of the stop of the current run; nil: there is none
}

// redises are those of all shards.
func (s *Shards) redises() (all []access.Redis) {
	for _, d := range s.daemons {
		all = append(all, lender{d.endpoint})
	}
	return all
}

// NewShards returns the worker of several Redises. The settings are those of a
// Daemon; their URI, QueuesString and Queues must be empty. They are checked by
// Init, Run and Work, which return an error that names what is wrong.
func NewShards(settings WorkerSettings, shards ...Shard) *Shards {
	s := &Shards{settings: settings, shards: slices.Clone(shards), handlers: newRegistry(), gate: new(gate.Gate)}
	s.hooks.fail = func(hook string, value any, stack []byte) {
		s.log.Error("a hook panicked", "hook", hook, "panic", fmt.Sprint(value), "stack", string(stack))
	}
	provideComplete(s.handlers, s.redises)
	provideStart(s.handlers, s.Client)
	s.own = newEndpoint(settings, s.handlers)
	for i := range s.shards {
		d := New(s.settingsOf(i))
		if d.registry, d.gate, d.file = s.handlers, s.gate, &s.held; i > 0 {
			d.maxRSS = s.daemons[0].maxRSS
		}
		d.whole = func() (*Client, int) { return s.Client(), i }
		d.lies = func(list queues.Spec) error { return s.lies(i, list) }
		d.AddPart(s.beganPart(i))
		s.daemons = append(s.daemons, d)
		s.members = append(s.members, &part.Member{Name: "shard " + s.name(i), Run: d.Run})
	}
	return s
}

func (s *Shards) settingsOf(i int) WorkerSettings {
	settings := s.settings
	settings.URI, settings.Queues, settings.QueuesString = s.shards[i].URI, s.shards[i].Queues, ""
	return settings
}

// name returns the name of a shard in errors and log lines.
func (s *Shards) name(i int) string { return conn.RedactURI(s.shards[i].URI) }

// Daemons returns the daemon of each shard, in the order in which they were given. It
// is for failures, queues, workers and statistics, of which each Redis has its own.
// Only Run and Work run them.
func (s *Shards) Daemons() []*Daemon { return slices.Clone(s.daemons) }

// Register makes handler run the jobs of a class on all shards; see Daemon.Register.
func (s *Shards) Register(class string, handler any, opts ...Option) {
	s.handlers.register(class, handler, opts)
}

// Use adds middleware around the handlers of all classes; see Daemon.Use.
func (s *Shards) Use(middleware ...Middleware) { s.handlers.use(middleware...) }

// UseEnqueue adds middleware around the calls that enqueue; see Daemon.UseEnqueue.
func (s *Shards) UseEnqueue(middleware ...EnqueueMiddleware) { s.handlers.around.add(middleware...) }

// AddHooks adds functions that are called around jobs; see Daemon.AddHooks. Ready and
// Shutdown are called once in each run, for all shards.
func (s *Shards) AddHooks(h Hooks) {
	s.hooks.add(Hooks{Ready: h.Ready, Shutdown: h.Shutdown})
	h.Ready, h.Shutdown = nil, nil
	s.each(func(d *Daemon) { d.AddHooks(h) })
}

// AddPart adds a part that starts before the work on all shards and stops after it. If
// it requires "workers" or "poller", it is the other way round; see Part.
func (s *Shards) AddPart(p Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, p.internal())
}

// AddVerb adds something that operators can ask the program to do; see Daemon.AddVerb. It is done once, over however many Redises the
// command comes.
func (s *Shards) AddVerb(v Verb) { s.each(func(d *Daemon) { d.AddVerb(v) }) }

// RegisterDialer makes all shards dial URIs of a scheme with another package; see
// Daemon.RegisterDialer.
func (s *Shards) RegisterDialer(scheme string, open Opener) {
	s.each(func(d *Daemon) { d.RegisterDialer(scheme, open) })
}

// Init checks the settings and prepares the connections to the Redises, without dialing
// them. All methods that need it call it. A program calls it itself to learn of a
// mistake early, or to use the shards again after Close.
func (s *Shards) Init() error { return s.init(true) }

// init reopens closed shards only with again.
func (s *Shards) init(again bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed && !again:
		return ErrClosed
	case s.ready:
		return nil
	}
	if s.own.file != nil {
		file, err := s.own.file.Read("")
		if err != nil {
			return prefix.Of(err)
		}
		if s.held.Store(file); file != nil {
			file.Accept(false)
		}
	}
	routes, config, err := s.check()
	if err != nil {
		return err
	}
	log, level, flush := config.log()
	for i, d := range s.daemons {
		settings := s.settingsOf(i)
		settings.Logger = log.With("shard", s.name(i))
		d.SetSettings(settings)
		if err := d.Init(); err != nil {
			if s.closed {
				s.each((*Daemon).Close)
			}
			return s.about(i, err)
		}
	}
	s.routes, s.config, s.log, s.flush, s.ready, s.closed = routes, config, log, flush, true, false
	s.common = control.NewCommon(clock.System, level, len(s.daemons))
	return nil
}

// check looks for mistakes in the settings.
func (s *Shards) check() (queues.Routes, config, error) {
	if len(s.shards) == 0 {
		return nil, config{}, errors.New("goworker: there are no shards; give NewShards at least one")
	}
	if s.settings.URI != "" || s.settings.QueuesString != "" || len(s.settings.Queues) > 0 {
		return nil, config{}, errors.New("goworker: the settings of shards hold a URI or queues; give them with each Shard")
	}
	if s.settings.ConcurrencyMax > 0 {
		return nil, config{}, errors.New("goworker: the settings of shards hold a ConcurrencyMax; the number of workers that shards share does not change by itself: set Concurrency (-concurrency=25)")
	}
	var routes queues.Routes
	var c config // of the last shard: they differ in their URI and queues only
	for i, shard := range s.shards {
		if shard.URI == "" {
			return nil, config{}, fmt.Errorf("goworker: shard %d of %d has no URI; say where its Redis is", i+1, len(s.shards))
		}
		var err error
		if c, err = s.daemons[i].resolve(s.settingsOf(i), true); err != nil {
			return nil, config{}, s.about(i, err)
		}
		if routes, err = routes.Add(s.name(i), c.queues, shard.Queues); err != nil {
			return nil, config{}, prefix.Of(err)
		}
	}
	return routes, c, nil
}

func (s *Shards) about(i int, err error) error {
	return prefix.Errorf("shard %s: %w", s.name(i), err)
}

// Client returns the Client of all shards. It enqueues each job on the shard of its queue.
func (s *Shards) Client() *Client {
	c := &Client{routes: s.table, registry: s.handlers}
	for i, d := range s.daemons {
		c.redises = append(c.redises, d.endpoint)
		c.names = append(c.names, s.name(i))
	}
	return c
}

// Inspect returns what answers questions about all shards: that of their Client.
func (s *Shards) Inspect() *inspect.Inspector { return s.Client().Inspect() }

// Close closes the connections to all shards, and their Daemons. From then on every
// method that returns an error returns ErrClosed, until Init, Run or Work; see
// Daemon.Close.
func (s *Shards) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.each((*Daemon).Close)
	if s.ready {
		s.flush()
	}
	s.ready, s.closed = false, true
}

// Run works on all shards until the context is cancelled or, with ExitOnComplete, until
// all queues are empty. See Daemon.Run for how it stops.
//
// An unreachable Redis is tried again until it answers, at the start too, and the other
// shards work meanwhile. A mistake that will not pass ends the run of all shards: a
// wrong setting or password, a certificate that is not trusted, a Redis that is too old
// or lacks a permission.
//
// The error joins those of the shards, each naming its own.
func (s *Shards) Run(ctx context.Context) error { return prefix.Of(errors.Join(s.run(ctx)...)) }

func (s *Shards) run(ctx context.Context) []error {
	if err := s.Init(); err != nil {
		return []error{err}
	}
	s.mu.Lock()
	added := slices.Clone(s.parts)
	s.mu.Unlock()
	if err := serveChild(ctx, added, s.daemons...); err != nil {
		return []error{err}
	}
	s.mu.Lock()
	if s.running {
		s.mu.Unlock()
		return []error{ErrRunning}
	}
	if err := s.handlers.ready(s.config, s.log); err != nil {
		s.mu.Unlock()
		return []error{err}
	}
	s.running = true
	config := s.config
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	team, stop := &roster.Team{Pool: share.NewPool(config.Concurrency)}, config.stopBudget(part.OfGroup, nil)
	team.Usual.Store(int64(config.Concurrency))
	for i, d := range s.daemons {
		d.team, d.group, d.common, d.quit = team, stop, s.common, func(now bool) { quit(); s.cutIf(now) }
		s.members[i].Outages = logging.NewOutages(s.log.With("shard", s.name(i)), clock.System)
	}
	s.stop, s.team, s.crew = stop, team, part.NewCrew(clock.System, s.log)
	s.routes, _, _ = s.check() // the lists of a run before may have changed
	crew := s.crew
	crew.Heard = func(name string, err error, final bool) {
		s.each(func(d *Daemon) { d.note(name, err, final) })
	}
	s.gate.Log(s.log)
	added = config.weighed(added, s.log, s.daemons[0].maxRSS, func(rss int64) { s.each(func(d *Daemon) { d.noteMaxRSS(rss) }); quit() })
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running, s.paused, s.stop, s.team = false, false, nil, nil
		s.mu.Unlock()
	}()

	base := context.WithoutCancel(ctx)
	group := part.NewGroup(clock.System, s.members, conn.MayPass, func(err error) bool { return errors.As(err, new(*PartError)) })
	parts, err := part.Arrange(part.Work, map[string]part.Steps{"poller": {
		Start: func(context.Context) error { group.Start(base); return nil },
		Stop:  func(context.Context) error { group.Stop(); return nil },
	}}, added)
	if err != nil {
		return []error{prefix.Of(err)}
	}
	systemd := teller(s.log, stop, s.told)
	defer systemd.End()
	left, broken, stopErr := crew.Run(ctx, stop, append(parts, s.hooks.part()), func(ctx context.Context) {
		systemd.Ready()
		select {
		case <-ctx.Done():
		case <-group.Failed:
		case <-group.Ended:
		}
	})
	if stopErr = withParts(stopErr, left); stopErr != nil {
		s.log.Error("stopped", "error", stopErr)
	}
	errs := []error{prefix.Of(partError(broken)), stopErr}
	if crew.Started() && !slices.Contains(left, "poller") { // else the shards still write their errors
		errs = append(errs, group.Errs...)
	}
	return errs
}

// beganPart returns the part that reports a daemon's start. At that time the daemon is
// registered in Redis and has not taken a job yet.
func (s *Shards) beganPart(i int) Part {
	return Part{Name: "shard", Requires: []string{"lease"}, Start: func(context.Context) error {
		s.members[i].Began()
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.paused {
			s.daemons[i].Pause()
		}
		return nil
	}}
}

// Work runs until a signal stops it or, with ExitOnComplete, until all queues are
// empty. Then it closes the connections. See Daemon.Work for the signals, and for when
// it ends the program.
func (s *Shards) Work() error {
	if err := s.Init(); err != nil {
		return err
	}
	ctx := context.Background()
	if !s.config.DisableSignals {
		var undo func()
		ctx, undo = sig.Handle(ctx, s, s.config.hup(s.reload))
		defer undo()
	}
	errs := s.run(ctx)
	if !slices.Contains(errs, ErrRunning) { // then the other run still needs them
		defer closeInTime(s.Close)
	}
	if slices.ContainsFunc(errs, leftRunning) {
		s.flush()
		os.Exit(1)
	}
	return prefix.Of(errors.Join(errs...))
}

// Pause makes all shards take no more jobs until Resume, also those that are
// unreachable now; see Daemon.Pause.
func (s *Shards) Pause() { s.pause(true) }

// Resume ends Pause.
func (s *Shards) Resume() { s.pause(false) }

func (s *Shards) pause(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused && s.running
	s.each(func(d *Daemon) { d.pause(paused) })
}

// CancelJobs cancels the contexts of the jobs that run now; see Daemon.CancelJobs.
func (s *Shards) CancelJobs() { s.each((*Daemon).CancelJobs) }

// StopNow makes a Run that stops wait no longer for its jobs; see Daemon.StopNow.
func (s *Shards) StopNow() {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop.Cut()
	}
	s.each((*Daemon).StopNow)
}

// cutIf is StopNow, if a command asks for that.
func (s *Shards) cutIf(now bool) {
	if now {
		s.StopNow()
	}
}

func (s *Shards) each(do func(*Daemon)) {
	for _, d := range s.daemons {
		do(d)
	}
}

// DaemonOf returns the daemon of the shard on which a queue lies: the one that names
// the queue, otherwise the first with a pattern for it. The error says which queues
// there are.
func (s *Shards) DaemonOf(queue string) (*Daemon, error) {
	routes, err := s.table()
	if err != nil {
		return nil, err
	}
	i, err := routes.Finder()(queue)
	if err != nil {
		return nil, prefix.Of(err)
	}
	return s.daemons[i], nil
}

// table returns the queues of each shard.
func (s *Shards) table() (queues.Routes, error) {
	if err := s.init(false); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.routes, nil
}

// SetConcurrency changes how many jobs run at the same time on all shards together, until Run returns; see
// Daemon.SetConcurrency. Where there are to be fewer, none starts until fewer run. It waits for the shards that are in their
// fleets. A shard whose Redis was not there at the start has the new number when it comes.
//
// The queues of a shard change by SetQueues of its Daemon. Jobs of a queue that was removed from it are still enqueued there.
func (s *Shards) SetConcurrency(ctx context.Context, n int) (Resized, error) {
	if err := s.init(false); err != nil {
		return Resized{}, err
	}
	s.mu.Lock()
	team := s.team
	s.mu.Unlock()
	if team == nil {
		return Resized{}, prefix.Of(errNotRunning)
	}
	return resized(team.Resize(ctx, n))
}

// lies has the queues of a list lie on a shard, from now on too.
func (s *Shards) lies(i int, list queues.Spec) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	routes, err := s.routes.Change(i, list)
	if err == nil {
		s.routes = routes
	}
	return err
}

// Schedule enqueues a job again and again, on the shard of its queue; see DaemonOf and
// Daemon.Schedule. That Daemon has the schedule, and the other methods for it.
func (s *Shards) Schedule(name string, r Recurring) error {
	if err := s.init(false); err != nil {
		return err
	}
	if _, err := recurring.Check(name, r.internal()); err != nil {
		return prefix.Of(err)
	}
	d, err := s.DaemonOf(r.Queue)
	if err != nil {
		return err
	}
	return d.Schedule(name, r)
}
