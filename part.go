package goworker

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/sdnotify"
	"github.com/goworker/goworker/internal/usage"
)

// Part is something a Daemon starts before it works and stops when it is done: a metrics
// server, a database pool. The daemon consists of parts too: "lease", "records", "workers", "gate" and "poller", each of which
// requires the one before it; "control", which requires "lease"; and "schedule", "recurring", "workflows", "groups", "leases",
// "guard", "history", "rules", "events" and "autoscale", which require "poller".
//
// Parts start in the order of what they require and stop in reverse. A part that
// does not require "workers" or "poller", itself or through others, starts before
// the workers and outlives every job.
type Part struct {
	// Name is the name by which other parts require this one. Errors name it too.
	Name string

	// Requires names the parts that must run before this one starts and until it
	// has stopped.
	Requires []string

	// Isolated makes the part also run in the child processes of isolated jobs (see
	// Isolated), around the handler: a database pool that handlers use, not a server.
	// There it requires only parts that are Isolated too.
	Isolated bool

	// Start returns once the part really runs; nil means that there is nothing to
	// start. If a later part fails to start, the daemon stops the parts that did.
	Start func(ctx context.Context) error

	// Stop returns once the part has really stopped; nil means that there is nothing to
	// stop. It is called once, and only after a Start that succeeded or where there is none. Its context ends a
	// little before the part's share of the time is over. A part whose Stop has not
	// returned then is left behind, and the *ShutdownError of Run names it.
	//
	// The parts that require the workers or the poller, and before them the hook
	// Shutdown, stop while the last jobs run: they share the shutdown timeout, or
	// DefaultShutdownTimeout if it is NoTimeout, and a second more to return when their
	// contexts have ended. The others stop after the jobs and share
	// two seconds, and what the jobs left of their time. One second is for the parts of
	// Shards, and one for those of its Daemons. The share of a part is what is left of
	// that time, divided by the number of parts that have yet to stop.
	Stop func(ctx context.Context) error

	// Run is in place of Start and Stop: it works until its context ends, and then returns
	// nil or the error of the context; another error is one of the stop. The stop of the
	// part ends the context and waits for Run as for a Stop. A
	// Run that returns before, panics or ends its goroutine has failed: see Restart.
	Run func(ctx context.Context) error

	// AwaitReady says that Run calls PartReady once the part really runs. The parts that
	// require it start then; without AwaitReady, as soon as Run was called.
	AwaitReady bool

	// Timeout is how long Start may take, or a Run until it is ready; zero means 30 s,
	// NoTimeout means without limit. Its context ends then. A part that does not start in
	// its time ends the run with an error that names it. A positive Timeout is also the
	// most that Stop gets of its share.
	Timeout time.Duration

	// Restart makes the daemon call a Run that has failed again after a while. The parts
	// that require this one go on meanwhile. Without it, and when Run has failed too
	// often, the daemon stops in order, as at a signal, and Run and Work return a
	// *PartError.
	Restart *Backoff

	// Info returns what the part says about itself, for PartStates and reports: a string, or
	// what encoding/json can encode. The daemon may call it at any time while the part runs.
	// PartStates leaves out an Info that takes longer than 100 ms.
	Info func() any
}

// Backoff says how often the Run of a part is called again, and when. A zero field means
// its default.
type Backoff struct {
	// Min is the wait before the first restart, by default a second. It doubles with each
	// restart within Within, up to Max, by default a minute. Up to a quarter is added at
	// random.
	Min, Max time.Duration

	// Most restarts may come within Within, by default 5 within 10 minutes. One failure
	// more is final.
	Most   int
	Within time.Duration
}

// internal returns the part as the package part has it.
func (p Part) internal() part.Part {
	return part.Part{
		Name: p.Name, Requires: p.Requires, Isolated: p.Isolated, Start: p.Start, Stop: p.Stop,
		Run: p.Run, AwaitReady: p.AwaitReady, Timeout: p.Timeout, Restart: (*part.Restart)(p.Restart), Info: p.Info,
	}
}

// PartReady says that a part is ready. Its Run calls it with its context; see
// Part.AwaitReady. A second call does nothing.
func PartReady(ctx context.Context) { part.Ready(ctx) }

// PartError is returned by Run and Work when a part has failed for good: its Run has
// ended or panicked, or its Start or Stop has panicked. The other parts have stopped in
// order. One of the daemon's own parts that fails has a bug; the outcomes that it has not
// sent to Redis are lost, and their jobs run again when another process finds this one dead.
type PartError struct {
	// Part is the name of the part, or of a loop of one of the daemon's own: "reaper".
	Part string

	// Err is what its Run returned, or the panic.
	Err error

	// Stack is the goroutine's whole stack at the panic, as debug.Stack prints it; nil:
	// there was none.
	Stack []byte
}

func (e *PartError) Error() string { return "goworker: " + (*part.Failure)(e).Error() }

// Unwrap returns Err.
func (e *PartError) Unwrap() error { return e.Err }

// partError returns the error of a run whose parts did not all start or go on.
func partError(err error) error {
	var failure *part.Failure
	if errors.As(err, &failure) {
		return (*PartError)(failure)
	}
	return err
}

// PartState is how a part is at one moment.
type PartState struct {
	Name string

	// State is "waiting" (to be started), "starting", "running", "restarting" (after a
	// failure, see Part.Restart), "stopping", "stopped" or "failed".
	State string

	Since     time.Time     // when it came into this state
	StartTook time.Duration // until it ran; 0: it does not yet
	StopTook  time.Duration
	Restarts  int      // in this run
	Err       error    // why it has failed or was restarted last; nil: it has not
	Requires  []string // the parts that started before it and stop after it, because it needs them
	Info      any      // what its Info has returned; nil: it has none, or it took longer than 100 ms
}

// PartStates returns how the parts are in the present run, in the order in which they
// start. Without one they are as at the end of the last, and before the first all wait.
// It asks Redis nothing, answers after Close too, and returns within about 100 ms.
func (d *Daemon) PartStates() []PartState {
	d.mu.Lock()
	crew, added := d.crew, slices.Clone(d.parts)
	d.mu.Unlock()
	return partStates(crew, part.Own, added)
}

// PartStates returns how the parts around the shards are; "poller" stands for all shards.
// Daemons()[i].PartStates() returns those of one shard.
func (s *Shards) PartStates() []PartState {
	s.mu.Lock()
	crew, added := s.crew, slices.Clone(s.parts)
	s.mu.Unlock()
	return partStates(crew, part.Work, added)
}

func partStates(crew *part.Crew, own, added []part.Part) (states []PartState) {
	if crew == nil {
		parts, err := part.Arrange(own, nil, added)
		if err != nil { // Parts and Run return it
			parts = slices.Concat(own, added)
		}
		crew = part.NewCrew(clock.System, nil)
		crew.Tend(parts)
	}
	for _, s := range crew.States() {
		states = append(states, PartState(s))
	}
	return states
}

// note has the log of the fleet say that a part around this daemon has failed.
func (d *Daemon) note(name string, err error, final bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running != nil {
		d.history.PartFailed(name, err, final)
	}
}

// weighed adds the part that watches the memory of the process, if MaxRSS asks for it.
func (c config) weighed(added []part.Part, log *slog.Logger, most *atomic.Int64, above func(rss int64)) []part.Part {
	if most.Store(int64(c.MaxRSS)); c.MaxRSS == 0 && c.file == nil {
		return added
	}
	return append(added, usage.Watch(clock.System, log, most, above))
}

// teller tells systemd of a run, if that has started this process.
func teller(log *slog.Logger, stop *part.Budget, look func() sdnotify.State) *sdnotify.Teller {
	return sdnotify.Begin(sdnotify.Config{Clock: clock.System, Log: log, Stops: stop.Begun(), StopTime: stop.Most(), Look: look})
}

// noteMaxRSS has the log of the fleet say why the process stops.
func (d *Daemon) noteMaxRSS(rss int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running != nil {
		d.history.AboveMaxRSS(rss, d.maxRSS.Load())
	}
}

// OnReady has a function called once in each run, when all parts run; see Hooks.Ready.
func (d *Daemon) OnReady(f func()) { d.AddHooks(Hooks{Ready: f}) }

// OnStopping has a function called once in each run, when the daemon stops taking jobs;
// see Hooks.Shutdown.
func (d *Daemon) OnStopping(f func()) { d.AddHooks(Hooks{Shutdown: f}) }

// OnReady has a function called once in each run; see Daemon.OnReady. A shard whose Redis
// is away may not have started then.
func (s *Shards) OnReady(f func()) { s.AddHooks(Hooks{Ready: f}) }

// OnStopping has a function called once in each run; see Daemon.OnStopping.
func (s *Shards) OnStopping(f func()) { s.AddHooks(Hooks{Shutdown: f}) }
