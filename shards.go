package goworker

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"sync"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/queues"
)

// Shard is one Redis of several and the queues that lie there.
type Shard struct {
	// URI says where it is, as WorkerSettings.URI does. It must be given.
	URI string

	// Queues lists its queues in the grammar of WorkerSettings.QueuesString, with
	// weights, patterns and exclusions. They are what is worked there, and by them
	// Enqueue finds the shard of a queue. At least one is needed.
	Queues []string
}

// Shards is a worker for queues that lie on several Redises. It is made of a Daemon
// for each, which have the handlers and the workers in common: at most
// WorkerSettings.Concurrency jobs run at once, wherever they come from. A shard
// alone with work has all workers; several that have more work than there are
// workers get the same number each. What is in a Redis, such as failures and
// statistics, is asked of its Daemon.
//
// A Redis that is away stops only what lies there.
//
// All methods are safe for concurrent use.
type Shards struct {
	settings WorkerSettings
	shards   []Shard
	daemons  []*Daemon
	starts   []start   // by shard
	handlers *registry // of all daemons
	hooks    hookList  // Shutdown, which is one for all; the daemons have the others

	mu      sync.Mutex
	ready   bool // Init was called and Close was not
	closed  bool // Close was called and Init was not
	routes  []queues.Spec
	config  config
	log     *slog.Logger
	flush   func()
	parts   []Part
	paused  bool
	running bool
}

// NewShards returns the worker of several Redises. The settings are those of a
// Daemon; their URI, QueuesString and Queues must be empty. They are checked by
// Init, Run and Work, which return an error that names what is wrong.
func NewShards(settings WorkerSettings, shards ...Shard) *Shards {
	s := &Shards{settings: settings, shards: slices.Clone(shards), handlers: new(registry), starts: make([]start, len(shards))}
	s.hooks.fail = func(hook string, value any, stack []byte) {
		s.log.Error("a hook panicked", "hook", hook, "panic", fmt.Sprint(value), "stack", string(stack))
	}
	for i := range s.shards {
		d := New(s.settingsOf(i))
		d.registry = s.handlers
		d.AddPart(s.startPart(i))
		s.daemons = append(s.daemons, d)
	}
	return s
}

func (s *Shards) settingsOf(i int) WorkerSettings {
	settings := s.settings
	settings.URI, settings.Queues, settings.QueuesString = s.shards[i].URI, s.shards[i].Queues, ""
	return settings
}

// name is how errors and log lines call a shard.
func (s *Shards) name(i int) string { return conn.RedactURI(s.shards[i].URI) }

// Daemons returns the daemon of each shard, in the order in which they were given:
// for failures, queues, workers and statistics, which each Redis has of its own.
// They are run by Run and Work only.
func (s *Shards) Daemons() []*Daemon { return slices.Clone(s.daemons) }

// Register makes handler run the jobs of a class, whichever shard they lie on; see
// Daemon.Register.
func (s *Shards) Register(class string, handler any, opts ...Option) {
	s.handlers.register(class, handler, opts)
}

// Use adds middleware around the handlers of all classes; see Daemon.Use.
func (s *Shards) Use(middleware ...Middleware) { s.handlers.use(middleware...) }

// AddHooks adds functions to be called around jobs; see Daemon.AddHooks. Shutdown is
// called once a run of all shards.
func (s *Shards) AddHooks(h Hooks) {
	s.hooks.add(Hooks{Shutdown: h.Shutdown})
	h.Shutdown = nil
	for _, d := range s.daemons {
		d.AddHooks(h)
	}
}

// AddPart adds a part to be started before and stopped after the work on all shards,
// or, if it requires "workers" or "poller", the other way round; see Part.
func (s *Shards) AddPart(p Part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, p)
}

// RegisterDialer makes all shards reach URIs of a scheme by way of another package;
// see Daemon.RegisterDialer.
func (s *Shards) RegisterDialer(scheme string, open Opener) {
	for _, d := range s.daemons {
		d.RegisterDialer(scheme, open)
	}
}

// Init checks the settings and makes ready what talks to the Redises, without
// dialing them. Everything that needs it calls it; a program calls it itself to
// learn of a mistake early, or to use the shards again after Close.
func (s *Shards) Init() error { return s.init(true) }

// init opens what was closed only where it is asked to.
func (s *Shards) init(again bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.closed && !again:
		return ErrClosed
	case s.ready:
		return nil
	}
	routes, config, err := s.check()
	if err != nil {
		return err
	}
	log, flush := config.Logger, func() {}
	if log == nil {
		log, flush = logging.New(config.logLevel, config.LogFormat, os.Stdout)
	}
	for i, d := range s.daemons {
		settings := s.settingsOf(i)
		settings.Logger = log.With("shard", s.name(i))
		d.SetSettings(settings)
		if err := d.Init(); err != nil {
			if s.closed {
				s.closeDaemons()
			}
			return s.about(i, err)
		}
	}
	s.routes, s.config, s.log, s.flush, s.ready, s.closed = routes, config, log, flush, true, false
	return nil
}

// check looks for mistakes in the settings.
func (s *Shards) check() ([]queues.Spec, config, error) {
	if len(s.shards) == 0 {
		return nil, config{}, errors.New("goworker: there are no shards; give NewShards at least one")
	}
	if s.settings.URI != "" || s.settings.QueuesString != "" || len(s.settings.Queues) > 0 {
		return nil, config{}, errors.New("goworker: the settings of shards hold a URI or queues; give them with each Shard")
	}
	var routes []queues.Spec
	var first config
	owner := make(map[string]int) // of each queue that is named
	for i, shard := range s.shards {
		if shard.URI == "" {
			return nil, config{}, fmt.Errorf("goworker: shard %d of %d has no URI; say where its Redis is", i+1, len(s.shards))
		}
		c, err := s.settingsOf(i).config(true)
		if err != nil {
			return nil, config{}, s.about(i, err)
		}
		for _, p := range c.queues.Patterns {
			if queues.IsPattern(p.Name) {
				continue
			}
			if other, taken := owner[p.Name]; taken {
				return nil, config{}, fmt.Errorf("goworker: queue %q is named by two shards, %s and %s; a queue lies on one, so name it once",
					p.Name, s.name(other), s.name(i))
			}
			owner[p.Name] = i
		}
		routes = append(routes, c.queues)
		if i == 0 {
			first = c
		}
	}
	return routes, first, nil
}

func (s *Shards) about(i int, err error) error {
	return fmt.Errorf("goworker: shard %s: %w", s.name(i), err)
}

// Close closes the connections to all shards, and their Daemons. From then on every
// method that returns an error returns ErrClosed, until Init, Run or Work; see
// Daemon.Close.
func (s *Shards) Close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closeDaemons()
	if s.ready {
		s.flush()
	}
	s.ready, s.closed = false, true
}

func (s *Shards) closeDaemons() {
	for _, d := range s.daemons {
		d.Close()
	}
}
