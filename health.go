package goworker

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/limits"
	"github.com/goworker/goworker/internal/gate"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/record"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
	"github.com/goworker/goworker/internal/sdnotify"
)

// This file is how a daemon is, for probes and people, the gate that the program puts before its jobs, and
// what package goworkertest does with daemons.

// Health is how a daemon is at this moment. A probe of liveness asks Live, one of readiness asks Ready.
type Health struct {
	// Running: Run or Work was called and has not returned.
	Running bool

	// Live is false if the daemon does not run, or if its poller or the loop of its lease has hung for a
	// minute longer than the settings let Redis take: only a restart helps then. An outage of Redis leaves it
	// true.
	Live bool

	// Ready: the daemon takes jobs. It is connected to Redis, holds its lease, and neither pauses nor stops.
	Ready bool

	// Stopping: the daemon takes no more jobs and waits for those that run.
	Stopping bool

	// Reasons says, a sentence each, what keeps the daemon from being Ready or Live, and what else needs
	// attention. For shards each begins with the shard's URI.
	Reasons []string

	// LastExchange is when Redis last answered an exchange, in which the daemon takes and commits jobs; zero:
	// it has not yet. An idle daemon has one each PollInterval or each 20 s, whichever is longer. For shards it is the one that is longest ago.
	LastExchange time.Time
	// ExchangeAge is how long ago that was; 0: there was none.
	ExchangeAge time.Duration

	// LeaseHeld: other processes know that this one is alive. The daemon renews its lease each two seconds.
	LeaseHeld bool
	// LeaseAge is how long ago the lease was last renewed; 0: it was never taken. After 8 s other
	// processes take over this one's jobs.
	LeaseAge time.Duration

	// AwaySince is when the outage of Redis began that is not over; zero: there is none.
	AwaySince time.Time

	// PausedByProgram: Pause was called, or the signal USR2 came.
	PausedByProgram bool
	// PausedByOperator: remote control has paused this process. Resume and CONT do not end that.
	PausedByOperator bool
	// PausedByFleet: the key pause-all-workers pauses all workers of the fleet.
	PausedByFleet bool
	// PausedByGate: the function of SetGate has returned an error, or has not answered yet.
	PausedByGate bool
	// GateReason is the text of that error.
	GateReason string
}

// healthWait bounds how long Health waits for the poller, which may wait for Redis.
const healthWait = 100 * time.Millisecond

// Health returns how the daemon is. It asks Redis nothing and returns within about 100 ms.
func (d *Daemon) Health() Health { return Health(d.report()) }

func (d *Daemon) report() health.Report {
	d.mu.Lock()
	s := health.Signs{Begun: d.poller != nil, Running: d.running != nil}
	p, pulse, lease, c, crew := d.poller, d.pulse, d.lease, d.config, d.crew
	d.mu.Unlock()
	if !s.Begun {
		return s.Report()
	}
	_, s.LastExchange = p.keeper.Exchanges()
	select {
	case <-p.ended:
		s.Ended = true
	default:
		if s.Running {
			s.Poller = pulse.Take(healthWait)
		}
		s.Down = crew.Down()
		if s.Started = crew.Started(); s.Started {
			s.Lease = lease.Owed()
		}
	}
	s.Now = clock.System.Now() // after the wait
	s.Limits = c.ConnectTimeout + c.ReadTimeout + c.WriteTimeout
	s.Loops = health.Standing(crew.Loops(), s.Limits)
	s.Renewed, s.Silent = lease.Renewed(), lease.Silent(s.Now)
	s.AwaySince, s.Gate = p.Outages.State().Since, d.gate.State()
	return s.Report()
}

// Health returns how the shards are together: they are Ready if one of them is, since a Redis that is away
// stops only its own queues. The rest is the worst of them. Daemons()[i].Health() is that of one shard. It
// takes about 100 ms for each shard at most.
func (s *Shards) Health() Health {
	s.mu.Lock()
	sum := health.Report{Running: s.running, Live: s.running}
	away := make([]time.Time, len(s.members))
	for i, m := range s.members {
		if s.running {
			away[i] = m.Outages.State().Since
		}
	}
	s.mu.Unlock()
	if !sum.Running {
		sum.Say("the shards do not run: call Run or Work")
		return Health(sum)
	}
	for i, d := range s.daemons {
		sum.Merge(d.report(), s.name(i), away[i], i == 0)
	}
	return Health(sum)
}

// Signs are the signs of life of a daemon's process, for probes: package health serves them over HTTP.
type Signs struct {
	Running  bool // Run or Work was called and has not returned
	Started  bool // all parts run, or the stop has begun since
	Stopping bool // the stop has begun

	// Poller and Lease say for how long the poller's loop and the one that renews the lease have owed a turn;
	// 0: they turn. Each may wait for Redis as long as Patience says. What is much longer hangs.
	Poller, Lease time.Duration
	Patience      time.Duration

	// Exchanged and Renewed say how long ago Redis last answered an exchange and a renewal of the lease;
	// negative: it has not yet.
	Exchanged, Renewed time.Duration
	LeaseHeld          bool // other processes know that this one is alive

	// AllStuck says for how long all workers have had a job that runs past its time limit; see StuckJobs.
	AllStuck time.Duration
}

// Signs returns the signs of life. It reads memory only and waits for nothing: neither for Redis, nor for the
// poller.
func (d *Daemon) Signs() Signs {
	d.mu.Lock()
	r, p, pulse, lease, workers := d.running, d.poller, d.pulse, d.lease, d.workers
	limits := d.config.ConnectTimeout + d.config.ReadTimeout + d.config.WriteTimeout
	d.mu.Unlock()
	s := Signs{Exchanged: -1, Renewed: -1, Patience: health.Patience(limits)}
	if r == nil {
		return s
	}
	now := clock.System.Now()
	s.Running, s.Started, s.Stopping = true, r.crew.Started(), !r.stop.Began().IsZero()
	if s.Started && !s.Stopping { // a stop has times of its own
		s.Poller, s.Lease = pulse.Owed(), lease.Owed()
	}
	if _, at := p.keeper.Exchanges(); !at.IsZero() {
		s.Exchanged = max(0, now.Sub(at))
	}
	if at := lease.Renewed(); !at.IsZero() {
		s.Renewed, s.LeaseHeld = max(0, now.Sub(at)), !lease.Silent(now)
	}
	s.AllStuck = d.registry.stuck.All(workers.present(), StuckAfter, now)
	return s
}

// Signs returns the signs of life of all shards together: of what hangs the longest time, and of what Redis
// answered the shortest. A shard whose Redis is away and which has not started does not count.
func (s *Shards) Signs() Signs {
	s.mu.Lock()
	running, crew, stop := s.running, s.crew, s.stop
	s.mu.Unlock()
	sum := Signs{Exchanged: -1, Renewed: -1}
	if !running {
		return sum
	}
	sum.Running, sum.Started, sum.Stopping = true, crew.Started(), !stop.Began().IsZero()
	soonest := func(a, b time.Duration) time.Duration {
		if a < 0 || b >= 0 && b < a {
			return b
		}
		return a
	}
	for _, d := range s.daemons {
		of := d.Signs()
		sum.Poller, sum.Lease, sum.Patience = max(sum.Poller, of.Poller), max(sum.Lease, of.Lease), max(sum.Patience, of.Patience)
		sum.Exchanged, sum.Renewed = soonest(sum.Exchanged, of.Exchanged), soonest(sum.Renewed, of.Renewed)
		sum.LeaseHeld, sum.AllStuck = sum.LeaseHeld || of.LeaseHeld, max(sum.AllStuck, of.AllStuck)
	}
	return sum
}

// SetWatchdog has a function decide by the signs of life whether systemd's watchdog gets one. The default, and nil, decide as
// package health does; health.Handler sets it by its options.
func (d *Daemon) SetWatchdog(lives func(Signs) bool) {
	d.lives.Store(&sdnotify.Judge{Of: judge(lives, d)})
}

// SetWatchdog sets what decides for the process of all shards; see Daemon.SetWatchdog.
func (s *Shards) SetWatchdog(lives func(Signs) bool) {
	s.lives.Store(&sdnotify.Judge{Of: judge(lives, s)})
}

// judge decides by the signs of a daemon, or of shards.
func judge(lives func(Signs) bool, of interface{ Signs() Signs }) func() bool {
	if lives == nil {
		lives = func(s Signs) bool {
			return health.Life{Poller: s.Poller, Lease: s.Lease, Patience: s.Patience, AllStuck: s.AllStuck}.Lives()
		}
	}
	return func() bool { return lives(of.Signs()) }
}

// told is how the daemon is, for systemd.
func (d *Daemon) told() sdnotify.State {
	n := d.Stats()
	return sdnotify.State{Busy: n.Busy, Workers: n.Workers, Live: d.lives.Load().Lives(judge(nil, d)), Reasons: d.Health().Reasons}
}

func (s *Shards) told() sdnotify.State {
	n := s.Stats()
	return sdnotify.State{Busy: n.Busy, Workers: n.Workers, Live: s.lives.Load().Lives(judge(nil, s)), Reasons: s.Health().Reasons}
}

// Stats is what a daemon has counted since its process started: in all its runs together. A job counts when
// its worker is done with it, also while its outcome waits for Redis. FleetInfo has the totals of the fleet.
type Stats struct {
	Since time.Time // when it began to count

	Workers int // how many jobs it runs at a time; 0: it does not run
	Busy    int // workers that have a job now

	Jobs    JobStats            // all
	Queues  map[string]JobStats // of each queue
	Classes map[string]JobStats // of each class that is registered

	Exchanges int64         // round trips in which jobs were taken and committed
	Outages   int64         // of Redis, the present one too
	Away      time.Duration // how long all outages took, the present one so far
}

// JobStats counts jobs by what became of them.
type JobStats struct {
	Done      int64
	Failed    int64 // for good
	Retried   int64 // run again after an error
	Snoozed   int64 // run again without using up an attempt
	Discarded int64 // given up by their handler
	Expired   int64 // not run, because their time was over
	Cancelled int64 // no longer wanted
	Gathered  int64 // not run, because they are a part of another job; see Aggregate
	Returned  int64 // back to their queue or lane as they were: at a stop, or to wait for a limit
	Passed    int64 // left to workers that know their class

	Runs    int64         // calls of handlers
	RunTime time.Duration // of all runs together, with their hooks
	Longest time.Duration // of one run
	Bytes   int64         // of the payloads
}

// Mean is how long a run takes on average; 0: there was none.
func (s JobStats) Mean() time.Duration {
	if s.Runs == 0 {
		return 0
	}
	return s.RunTime / time.Duration(s.Runs)
}

// Stats returns what the daemon has counted. It asks Redis nothing. The counters are not read at one moment:
// while jobs run, sums may differ by some jobs. Queues and Classes have at most some thousand rows: what a
// pattern takes from more queues is in Jobs only.
func (d *Daemon) Stats() Stats {
	d.mu.Lock()
	s := Stats{Since: d.tally.Since}
	if d.running != nil {
		s.Workers, s.Busy = d.lease.Wanted().Workers, d.lease.Status.Busy()
	}
	d.mu.Unlock()
	s.take(d.tally)
	return s
}

// Stats returns what all shards have counted together. Daemons()[i].Stats() is that of one shard.
func (s *Shards) Stats() Stats {
	var sum Stats
	tallies := make([]*health.Tally, len(s.daemons))
	for i, d := range s.daemons {
		of := d.Stats()
		if i == 0 || of.Since.Before(sum.Since) {
			sum.Since = of.Since
		}
		sum.Workers, sum.Busy = max(sum.Workers, of.Workers), sum.Busy+of.Busy // the workers are those of all
		tallies[i] = d.tally
	}
	sum.take(tallies...)
	return sum
}

// take takes the counters.
func (s *Stats) take(tallies ...*health.Tally) {
	c := health.Sum(tallies...)
	s.Jobs, s.Queues, s.Classes = JobStats(c.Total), make(map[string]JobStats), make(map[string]JobStats)
	for name, n := range c.Queues {
		s.Queues[name] = JobStats(n)
	}
	for name, n := range c.Classes {
		s.Classes[name] = JobStats(n)
	}
	s.Exchanges, s.Outages, s.Away = c.Exchanges, c.Outages, c.Away
}

// Measured is Client.Measured with what the daemon has counted of its jobs.
func (d *Daemon) Measured(add func(neighbor.Measured)) {
	add(neighbor.Measured{Meter: d.meter, Tally: d.tally})
}

// Measured is that of all shards.
func (s *Shards) Measured(add func(neighbor.Measured)) {
	for _, d := range s.daemons {
		d.Measured(add)
	}
}

// ClassInfo is a registered class.
type ClassInfo struct {
	// Name is the class, as payloads say it.
	Name string

	// Options are those with which it was registered, in words: "how long a run may take: Timeout(30s)".
	Options []string
}

// Classes returns the registered classes by their names, with their options.
func (d *Daemon) Classes() []ClassInfo { return d.registry.infos() }

// Classes returns the registered classes of all shards; see Daemon.Classes.
func (s *Shards) Classes() []ClassInfo { return s.handlers.infos() }

func (r *registry) infos() []ClassInfo {
	all := r.All()
	infos := make([]ClassInfo, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if all[name].Name != name {
			continue // an alias
		}
		info := ClassInfo{Name: name, Options: all[name].Handler.(*entry).Given()}
		if of, ok := outcome.Get[*enqueueOptions](all[name]); ok {
			info.Options = append(info.Options, of.Given()...)
		}
		infos = append(infos, info)
	}
	return infos
}

// counted is what a daemon has counted, as it is answered.
func (d *Daemon) counted() control.Stats {
	s, h := health.Sum(d.tally), d.report()
	of := func(class string, j health.Jobs) control.Counts {
		return control.Counts{
			Done: j.Done, Failed: j.Failed, Retried: j.Retried, Cancelled: j.Cancelled, Expired: j.Expired, Discarded: j.Discarded,
			Runs: j.Runs, Mean: JobStats(j).Mean().Seconds(), Longest: j.Longest.Seconds(),
			P50: s.Quantile(class, 0.5).Seconds(), P95: s.Quantile(class, 0.95).Seconds(), P99: s.Quantile(class, 0.99).Seconds(),
		}
	}
	w := control.Stats{
		Exchanges: s.Exchanges, Exchange: h.ExchangeAge.Seconds(), Lease: h.LeaseAge.Seconds(), RTT: d.history.RTT().Seconds(), Outages: s.Outages, Away: s.Away.Seconds(),
		Autoscale: d.scale.Answer(), Jobs: of("", s.Total), Classes: make(map[string]control.Counts),
	}
	for name, c := range s.Classes {
		w.Classes[name] = of(name, c)
	}
	return w
}

// described are the registered classes, as they are answered.
func (d *Daemon) described() []control.Class {
	infos := d.Classes()
	classes := make([]control.Class, len(infos))
	for i, c := range infos {
		classes[i] = control.Class{Name: c.Name, Options: append([]string{}, c.Options...)}
	}
	return classes
}

// registered is what this program has registered, for operators who read Redis.
func (d *Daemon) registered() (r resque.Registered) {
	all := d.registry.All()
	for _, info := range d.registry.infos() {
		e := all[info.Name].Handler.(*entry)
		c := resque.RegisteredClass{Name: info.Name, Options: info.Options, Timeout: e.timeout.Milliseconds()}
		if e.retry != nil {
			c.Retries = e.retry.Limit
		}
		of, _ := outcome.Get[limits.Of](all[info.Name])
		for _, l := range of {
			c.Limits = append(c.Limits, resque.Limit{Kind: l.Kind, Name: l.Name}.Spec())
		}
		r.Classes = append(r.Classes, c)
	}
	own, _ := d.recurring.Own()
	for _, name := range slices.Sorted(maps.Keys(own)) {
		r.Schedules = append(r.Schedules, own[name].Record())
	}
	return r
}

// newRegistered makes the rider that writes it. A class that is registered later changes their number.
func (d *Daemon) newRegistered(b part.Base) *record.Registered {
	return record.NewRegistered(b, record.RegisteredConfig{
		Process: d.lease.Process, Now: d.lease.Now, Read: d.registered,
		Version: func() uint64 { return d.recurring.Version()<<32 | uint64(len(d.registry.All())) },
	})
}

// SetGate has a function asked whether the daemon may take jobs: before the first job, and then each
// second. While it returns an error the daemon takes none, and Health and one line of the log say why.
// Jobs that run go on. A queue of a service that is down, a full disk, a night without work are reasons.
//
// Until its first answer the gate is closed. A panic closes it. A call that takes longer than 5 s has its
// context ended and is reported; until it returns, the answer before holds. A second call never begins
// before. Pause and Resume are independent of the gate.
//
// SetGate may be called at any time; nil removes the gate.
func (d *Daemon) SetGate(open func(ctx context.Context) error) { d.gate.Set(open) }

// SetGate puts one gate before the jobs of all shards; see Daemon.SetGate. It replaces that of each Daemon.
func (s *Shards) SetGate(open func(ctx context.Context) error) { s.gate.Set(open) }

// gated returns the steps of the part that joins the gate before the poller takes jobs.
func (p *poller) gated(g *gate.Gate) part.Steps {
	var leave func()
	return part.Steps{
		Start: func(context.Context) error {
			leave = g.Join(p.Base, func(closed bool) { p.hold(byGate, closed) })
			return nil
		},
		Stop: func(context.Context) error { leave(); return nil },
	}
}
