package goworker

import (
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/autoscale"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/control"
	"github.com/goworker/goworker/internal/depth"
	"github.com/goworker/goworker/internal/feature/aggregate"
	"github.com/goworker/goworker/internal/feature/cancel"
	"github.com/goworker/goworker/internal/feature/cursor"
	"github.com/goworker/goworker/internal/feature/events"
	"github.com/goworker/goworker/internal/feature/expiry"
	"github.com/goworker/goworker/internal/feature/failed"
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/feature/meta"
	"github.com/goworker/goworker/internal/feature/phpstatus"
	"github.com/goworker/goworker/internal/feature/priority"
	"github.com/goworker/goworker/internal/feature/queued"
	"github.com/goworker/goworker/internal/feature/resqueretry"
	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/feature/retry"
	"github.com/goworker/goworker/internal/feature/timelimit"
	"github.com/goworker/goworker/internal/feature/trace"
	"github.com/goworker/goworker/internal/feature/tries"
	"github.com/goworker/goworker/internal/feature/unique"
	"github.com/goworker/goworker/internal/feature/unknown"
	"github.com/goworker/goworker/internal/feature/webhook"
	"github.com/goworker/goworker/internal/feature/workflow"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/flush"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/lanes"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/ownqueue"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/record"
	"github.com/goworker/goworker/internal/resque"
	wire "github.com/goworker/goworker/internal/resque/control"
	eventswire "github.com/goworker/goworker/internal/resque/events"
	webhookwire "github.com/goworker/goworker/internal/resque/webhook"
	"github.com/goworker/goworker/internal/roster"
	"github.com/goworker/goworker/internal/rule"
	"github.com/goworker/goworker/internal/scheduler"
	"github.com/goworker/goworker/internal/sdnotify"
	"github.com/goworker/goworker/internal/sweep"
	"github.com/goworker/goworker/internal/watch"
)

// run is one call of Run.
type run struct {
	stop   *part.Budget // the time of its stop
	crew   *part.Crew   // its parts
	began  time.Time
	poller *poller // nil until it is made; guarded by Daemon.mu
}

// Run works until the context is cancelled or, with ExitOnComplete, until all queues
// are empty. It then takes no more jobs, waits for those that run, at most for the
// shutdown timeout, and returns.
//
// At the timeout, Run cancels the contexts of the jobs that still run. Two seconds
// later it commits those that have returned and requeues the rest, which its
// *ShutdownError names. Their handlers still run: unlike Work, Run does not end the
// program, but its caller should. StopTime says how long the whole stop takes at most.
//
// An unreachable Redis is an error at the start only. Later the daemon waits for it.
//
// When a part has failed for good, Run stops in the same way and returns a *PartError; see Part.
//
// Run leaves the daemon open: Close it after its last use.
func (d *Daemon) Run(ctx context.Context) error {
	c, err := d.init(true)
	if err != nil {
		return err
	}
	return d.runWith(ctx, c)
}

// runWith is Run with what init has returned.
func (d *Daemon) runWith(ctx context.Context, c *client) error {
	d.mu.Lock()
	added := slices.Clone(d.parts)
	d.mu.Unlock()
	if err := serveChild(ctx, added, d); err != nil {
		return err
	}
	if err := d.registry.ready(c.config, c.log); err != nil {
		return err
	}
	key := c.config.controlKey()
	if key != nil {
		if _, err := key(); err != nil {
			return prefix.Of(err)
		}
	}
	layout := part.OfDaemon
	if d.group != nil {
		layout = part.OfMember
	}
	r := &run{stop: c.config.stopBudget(layout, d.group), crew: part.NewCrew(clock.System, c.log), began: clock.System.Now()}
	d.mu.Lock()
	if d.running != nil {
		d.mu.Unlock()
		return ErrRunning
	}
	d.running, d.crew = r, r.crew
	d.prepare(ctx, c)
	ctx, quit := context.WithCancel(ctx)
	defer quit()
	d.control = newControl(d.poller.Base, c.config, key, d.poller, d.lease, d.controlled(c, r, quit), d.verbs)
	d.control.Add(append(d.roster.Verbs(), d.scale.Verb(max(c.config.Concurrency, c.config.ConcurrencyMax), roster.MostWorkers))...)
	d.control.Hear(eventswire.EndsNotice, d.events.Ends)
	d.control.Hear(eventswire.AllNotice, d.events.All)
	d.control.HearAll(webhookwire.Notice, d.webhook.Heard)
	d.lease.Riders = append(d.lease.Riders, d.control)
	r.crew.Heard = d.history.PartFailed
	r.poller, d.fleet = d.poller, d.lease
	d.mu.Unlock()
	defer func() {
		d.roster.Leave()
		d.mu.Lock()
		d.running, d.fleet = nil, nil
		d.mu.Unlock()
	}()

	var systemd *sdnotify.Teller
	if d.group == nil {
		systemd = teller(c.log, r.stop, d.told)
		defer systemd.End()
		added = c.config.weighed(added, c.log, d.maxRSS, func(rss int64) { d.noteMaxRSS(rss); quit() })
	}
	parts, err := d.sortedParts(added, r)
	if err != nil {
		return prefix.Of(err)
	}
	over, closed := make(chan struct{}), make(chan struct{})
	go func() { // also while parts still start
		defer close(closed)
		select {
		case <-r.stop.Begun():
		case <-d.group.Begun():
		case <-over:
			return
		}
		d.poller.close()
	}()
	defer func() {
		close(over)
		<-closed
	}()
	left, broken, err := r.crew.Run(ctx, r.stop, append(parts, d.hooks.part()), func(ctx context.Context) {
		d.started(r)
		systemd.Ready()
		select {
		case <-ctx.Done():
		case <-d.poller.ended:
		case <-d.group.Begun():
		}
		r.stop.Begin()
		d.log.Info("stopping: taking no more jobs")
		d.poller.drain(r.stop, d.workers.running)
		select {
		case <-ctx.Done():
		case <-d.poller.ended:
		}
	})
	err = withParts(err, left)
	if broken != nil && !r.crew.Started() && ctx.Err() != nil && errors.Is(broken, context.Cause(ctx)) {
		broken = nil // the stop came before the start was over
	}
	if err = errors.Join(partError(broken), err); !r.crew.Started() {
		return prefix.Of(err)
	}
	took := []any{"took", clock.Since(clock.System, r.stop.Began()).Round(time.Millisecond), "parts", r.crew.Took(true)}
	if err != nil {
		d.log.Error("stopped", append(took, "error", err)...)
	} else {
		d.log.Info("stopped", took...)
	}
	c.flush()
	return prefix.Of(err)
}

// controlled is what operators may ask of a run, and what they may do to it.
func (d *Daemon) controlled(c *client, r *run, quit func()) control.Program {
	stop := d.quit
	if stop == nil {
		stop = func(now bool) {
			if quit(); now {
				r.stop.Cut()
			}
		}
	}
	return control.Program{
		Began: r.began, Workers: d.workers.present, Jobs: d.lease.Status.Jobs, Parts: r.crew.States, Common: cmp.Or(d.common, c.common), Stop: stop,
		Stats: d.counted, Classes: d.described, Settings: func() []wire.Setting { return d.holds().shown(d.roster.List()) }, Queues: func() wire.Queues { return queuesOf(d.roster.List(), d.report()) },
	}
}

// started says that all parts run, and what this process is.
func (d *Daemon) started(r *run) {
	p := d.lease.Process()
	d.log.Info("started", "process", p.ID, "version", p.Version, "workers", p.Concurrency, "queues", p.Queues,
		"classes", logging.List(d.registry.handled()), "namespace", d.config.Namespace, "redis", conn.RedactURI(d.config.URI),
		"took", clock.Since(clock.System, r.began).Round(time.Millisecond), "parts", r.crew.Took(false))
}

// prepare makes the parts of one run. The caller holds the mutex, so that no other
// goroutine gets the poller of the run before.
func (d *Daemon) prepare(ctx context.Context, c *client) {
	d.config, d.applied, d.log, d.store, d.dialer = c.config, c.config, c.log, c.Store, c.dialer
	if d.team != nil {
		d.config.Concurrency = d.team.Workers() // perhaps it was changed while this shard was away
	}
	d.registry.useNumber.Store(c.config.UseNumber)
	for _, warning := range c.config.warnings() {
		c.log.Warn(warning)
	}
	if every, ok := conn.PollInterval(c.dialer); ok {
		d.config.DisableTracking = true
		d.config.PollInterval = min(d.config.PollInterval, every)
	}
	d.outages = logging.NewOutages(c.log, clock.System)
	d.outages.Heard = d.meter.Failed
	d.base = context.WithoutCancel(ctx)
	base := part.Base{Log: d.log, Outages: d.outages, Store: d.store, Dialer: d.dialer, Clock: clock.System, Meter: d.meter, Crashed: d.crew.Crashed, Loops: d.crew.Loops()}
	d.lease = newLease(base, d.config, d.registry)
	c.bridges.Store(depth.NewBridges(base, d.lease.Process))
	d.flusher = flush.New(base)
	process := func() string { return d.lease.Process().ID }
	d.webhook = webhook.New(base, webhook.Config{Now: d.lease.Now, Do: c.Pool.Do, Process: process})
	d.events = events.New(base, events.Config{Now: d.lease.Now, Process: process})
	c.heard.Take(d.events)
	d.limits = d.registry.limits.Beside()
	set := outcome.New(outcome.Deps{
		Base: d.registry.trial.Base(base), Time: d.registry.trial.Time(d.lease), Exceptions: exceptionOf, Do: c.Pool.Do, Running: d.lease.Status.Jobs,
		Due:      d.flusher.Gathered,
		Settings: outcome.Settings{MaxPayload: d.config.MaxPayload, MultiQueueFailures: d.config.multiQueueFailures, LeaveUnknown: d.config.LeaveUnknown, NoErrorInPayload: d.config.NoErrorInPayload},
	}, d.registry, slices.Concat(d.features, d.registry.features(d.limits), []func(outcome.Deps) outcome.Feature{d.webhook.Feature, d.events.Feature})...)
	d.poller = newPoller(base, d.config, d.lease, set, d.team.Shared())
	own := d.own(d.config.queues)
	d.guard = ownqueue.New(base, own, d.config.PollInterval, func(own []string) { d.poller.ask(func() { d.poller.source.Changed(own, false) }) })
	order := d.newSource(base, d.poller, d.guard.Closed(own), set.Watched())
	d.poller.source = order
	d.workers = newWorkers(base, d.config, d.registry, d.limits.Rules, &d.hooks, set, d.poller, d.lease.Status)
	d.workers.reach = reach(d.reached)
	d.scale = d.newScaler(base, d.config, d.poller, order.Backlog)
	set.Observe(d.workers.observe)
	set.Watch(d.tally.Ended)
	d.roster = d.newRoster(c.config, order)
	d.history = d.newHistory(base, c)
	d.rules = rule.NewKeeper(base, d.limits.Rules, rule.KeeperConfig{
		Keeps: d.lease.Keeps, Process: func() string { return d.lease.Process().ID }, Do: c.Pool.Do,
	})
	set.Watch(d.history.Ended)
	set.Watch(d.events.Ended)
	d.registry.trial.Watch(set)
	d.pulse = health.NewPulse(base.Clock, d.poller.ask, d.poller.state)
	d.tally.Begin(d.poller.keeper.Exchanges, d.outages.State)
	d.lease.Ends, d.lease.Status.Running = set, set.Running
	d.lock, d.pump, d.ticker = d.config.schedulers(base, &d.recurring, d.lease, d.lease)
	d.sweep = sweep.New(base, sweep.Config{})
	ender := leased.NewEnder(base, set, leased.Worker(d.config.Hostname, os.Getpid()))
	ender.Took, ender.Ended = d.lease.Took, d.history.Ended
	d.leases = leased.NewSweep(base, ender)
	d.pump.Seen = func(due resque.Due) { d.sweep.Seen(due); d.flusher.Seen(due) }
	d.lease.Owner, d.lease.Riders, d.lease.Heir = d.poller, []fleet.Rider{c.bridges.Load(), d.pump, d.sweep, d.flusher, d.leases, d.history, d.rules, d.scale, d.newRegistered(base), order.Ride()}, d.lock
}

// schedulers makes the parts that enqueue jobs when their time comes.
func (c config) schedulers(b part.Base, t *scheduler.Table, fleet scheduler.Fleet, redis scheduler.Clock) (*scheduler.Lock, *scheduler.Pump, *scheduler.Ticker) {
	lock := scheduler.NewLock(b, scheduler.LockConfig{Prefix: c.SchedulerLockPrefix, Node: c.NodeScheduler}, fleet)
	pump := scheduler.NewPump(b, scheduler.PumpConfig{
		Tracking: !c.DisableTracking, Interval: c.PollInterval, MultiQueue: c.multiQueueFailures, LeaveDelayed: c.LeaveDelayed,
	}, lock, fleet)
	return lock, pump, scheduler.NewTicker(b, scheduler.TickerConfig{
		Dynamic: c.DynamicSchedule, Environment: c.environment, Style: c.style, LeaveDelayed: c.LeaveDelayed,
	}, t, lock, fleet, redis)
}

// newLease makes the part that keeps this process in the fleet.
func newLease(b part.Base, c config, r *registry) *fleet.Lease {
	limits, _ := r.limits.Numbers() // of two numbers for one the first counts
	return fleet.New(b, fleet.Config{
		Process: func(distinct bool) resque.Process {
			p := fleet.NewProcess(c.Hostname, c.queues.Label(), c.Concurrency, distinct)
			p.Name, p.Control, p.App = c.Name, c.Control, c.AppVersion
			p.Classes, p.Limits = resque.RecordText(r.known()), resque.RecordText(limits)
			return p
		},
		Workers:    c.Concurrency,
		MultiQueue: c.multiQueueFailures,
		Caps:       c.caps(),
		Lost:       ErrLeaseLost,
		Shutdown:   ErrShutdown,
	})
}

// newHistory makes the part that counts what becomes of the jobs, for the history of the fleet.
func (d *Daemon) newHistory(b part.Base, c *client) *record.History {
	h := record.New(b, record.Config{
		Off: d.config.History == HistoryOff, Now: d.lease.Now, Keeps: d.lease.Keeps, Process: d.lease.Process,
		Workers: d.config.Concurrency, Present: d.workers.present, Busy: d.workers.running, Stuck: d.registry.stuck.List, Scale: d.scale.Answer, Down: d.crew.Down, Exchanges: d.poller.keeper.Exchanges, Waited: d.tally.Waited, Do: c.Pool.Do,
	})
	d.lease.Buried = h.Lost
	return h
}

// newScaler makes the part that changes the number of workers by itself.
func (d *Daemon) newScaler(b part.Base, c config, p *poller, backlog autoscale.Backlog) *autoscale.Scaler {
	return autoscale.New(b, autoscale.Config{
		Bounds: c.bounds(), Shared: d.team != nil, Lease: d.lease,
		Present: d.workers.present, Jobs: d.lease.Status.Jobs, Counts: d.tally.Counts, Ask: p.ask, Backlog: backlog, Takes: func() bool { return p.keeper.Link() != nil && p.mayReserve() && !p.source.Paused() },
	})
}

// newRoster makes what changes the concurrency and the queues of a run. order is the one that its poller asks by.
func (d *Daemon) newRoster(c config, order *watch.Order) *roster.Roster {
	p, w := d.poller, d.workers
	at := roster.Crew{Ask: p.ask, Ended: p.ended, Order: order, Slots: &p.slots, Freed: d.lease.SlotFreed, Grow: func(n int) {
		w.resize(n)
		p.share.Resize(n)
	}}
	d.lease.Slots = at
	return roster.New(roster.Config{
		Log: d.log, Clock: d.poller.Clock, Lease: d.lease, Workers: c.Concurrency, Most: c.ConcurrencyMax, Scale: d.scale, List: roster.List{Spec: c.queues, Order: c.Order}, Order: c.ordered, Lies: d.lies, Team: d.team,
		Work: func(ctx context.Context, l roster.List) error {
			own := d.own(l.Spec)
			d.guard.Watch(own)
			return at.Work(ctx, watch.List{Queues: l.Spec, Order: l.Order, Closed: d.guard.Closed(own)})
		},
	})
}

// own returns goworker's own queues of a list. A test has no fleet to guard them against.
func (d *Daemon) own(list queues.Spec) []string {
	if d.registry.trial != nil {
		return nil
	}
	return list.Own()
}

// newSource returns the source of a poller, which also has Redis watch these keys.
func (d *Daemon) newSource(base part.Base, p *poller, closed func(string) bool, watched []outcome.Watched) *watch.Order {
	for _, w := range watched {
		p.keeper.Keys = append(p.keeper.Keys, w.Key)
	}
	l := lanes.New(base, d.registry.trial.Limits(d.limits), p.ask, d.lease.Sweep)
	return watch.New(base, l, watch.Options{
		List: watch.List{Queues: d.config.queues, Order: d.config.Order, Closed: closed}, Interval: d.config.PollInterval, Exits: d.config.ExitOnComplete,
		Took: d.lease.Took, Peers: d.lease.Peers, Program: strings.Join(d.registry.known(), "\n"), Waits: p.record.Regroups, Leave: p.record.Withdraw,
		Run: p.ask, Watched: watched, Busy: func() bool { return p.slots.Busy() > 0 },
	})
}

// features returns all features, in the order in which they admit, wrap, decide and settle. Cancel comes
// first: a cancelled job does not wait, and is not retried. The same holds for a step of a halted workflow; and a
// step whose result cannot be passed on must fail before its failure is filed. Limits come next, because a job that
// has to wait needs no other feature. Aggregate comes after all that may drop an item, and before what acts on a job
// that runs. Unique may release a job's lock, so it comes after all features that may keep a job from running.
// Results and cursors come last: they say where the job goes, and how long it waits.
func (r *registry) features(of *limits.Table) []func(outcome.Deps) outcome.Feature {
	return r.trial.Features([]func(outcome.Deps) outcome.Feature{
		cancel.New, workflow.New, limits.New(of), unknown.New(of), expiry.New, tries.New, aggregate.New, resqueretry.New, retry.Ruled(of.Rules), timelimit.New, phpstatus.New, unique.New, meta.New,
		priority.New, queued.New, failed.New, results.New, cursor.New, trace.New, workflow.NewMark,
	}, "limits")
}

// sortedParts returns the daemon's own parts and those added to it, in the order in
// which they start.
func (d *Daemon) sortedParts(added []part.Part, r *run) ([]part.Part, error) {
	steps := map[string]part.Steps{
		"lease":   {Start: d.lease.Start, Stop: d.lease.Stop, Info: d.lease.Info},
		"records": {Start: d.lease.Status.Start, Stop: d.lease.Status.Stop},
		"workers": {Start: d.workers.start, Stop: d.workers.stop, Info: d.workers.info},
		"gate":    d.poller.gated(d.gate),
		"poller": {
			Start: func(context.Context) error {
				go func() {
					defer d.poller.Catch("poller")
					d.poller.run(d.base)
				}()
				return nil
			},
			Stop: func(context.Context) error { return d.poller.stop(r.stop, d.workers.running) },
			Info: d.poller.keeper.Info,
		},
		"control":   {Start: d.control.Start, Stop: d.control.Stop},
		"schedule":  {Start: d.pump.Start, Stop: d.pump.Stop},
		"recurring": {Start: d.ticker.Start, Stop: d.ticker.Stop},
		"workflows": {Start: d.sweep.Start, Stop: d.sweep.Stop},
		"groups":    {Start: d.flusher.Start, Stop: d.flusher.Stop},
		"leases":    {Start: d.leases.Start, Stop: d.leases.Stop},
		"guard":     {Start: d.guard.Start, Stop: d.guard.Stop},
		"history":   {Start: d.history.Start, Stop: d.history.Stop},
		"rules":     {Start: d.rules.Start, Stop: d.rules.Stop},
		"events":    {Start: d.events.Start, Stop: d.events.Stop},
		"autoscale": {Start: d.scale.Start, Stop: d.scale.Stop, Info: d.scale.Info},
	}
	if d.registry.trial != nil { // the test takes their steps
		for _, timed := range []string{"schedule", "recurring", "workflows", "groups", "leases"} {
			steps[timed] = part.Steps{}
		}
	}
	return part.Arrange(part.Own, steps, added)
}

// Parts returns the names of the daemon's parts and those added to it, in the
// order in which they start.
func (d *Daemon) Parts() ([]string, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	added := slices.Clone(d.parts)
	d.mu.Unlock()
	parts, err := part.Arrange(part.Own, nil, added)
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Name
	}
	return names, prefix.Of(err)
}

// session returns the present session of the current run, or the last one of the run
// before.
func (d *Daemon) session() *fleet.Session {
	d.mu.Lock()
	lease := d.lease
	d.mu.Unlock()
	if lease == nil {
		return nil
	}
	return lease.Session()
}

func (d *Daemon) currentPoller() *poller {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		return nil
	}
	return d.running.poller
}

// serveChild runs the one job this process was started for, with the daemon it belongs
// to, and ends the process. In a process that is no child it does nothing.
func serveChild(ctx context.Context, parts []part.Part, daemons ...*Daemon) error {
	if !IsolatedChild() {
		return nil
	}
	programs := make([]isolate.Program, len(daemons))
	for i, d := range daemons {
		d.mu.Lock()
		programs[i] = program{d.client, d.registry, reach(d.reached), parts}
		d.mu.Unlock()
	}
	return isolate.Serve(ctx, isolate.Errors{Names: exceptionOf, Plain: plainError}, programs...)
}
