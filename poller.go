package goworker

import (
	"context"
	"runtime"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/health"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/share"
	"github.com/goworker/goworker/internal/watch"
)

// poller is the only goroutine that talks to the queues. Each turn it does one exchange with Redis.
// The exchange commits the outcomes of jobs that ended, and reserves at most one job for each idle
// worker. While handlers are shorter than a round trip, it prefetches one more for each worker.
//
// All fields belong to the poller's goroutine, except the channels and the inbox.
type poller struct {
	part.Base
	lease  lease            // of this process
	source source           // from which jobs come
	keeper *link.Keeper     // keeps the poller connected
	record *inflight.Record // mirrors the in-flight record of this process in Redis
	share  *share.Share     // of the workers, which several daemons may have in common
	pool   *share.Pool      // of these daemons; nil: this daemon has its workers for itself
	pace   watch.Pace       // whether to prefetch
	said   logging.Once

	jobs   chan *inflight.Task // to the workers. Unbuffered: a job leaves the poller when a worker takes it
	signal chan struct{}       // holds one value: sent by poke and by the link, received by the poller
	inbox  inbox
	slots  inflight.Slots // of the jobs that workers have

	sent   *resque.Exchange // under way; nil: none is
	sentAt time.Time
	spare  *resque.Exchange // that was not sent; the next one takes its memory. nil: there is none

	stage    stage
	complete bool // there are no more jobs, and the settings ask to end then
	held     hold // why this process takes no jobs although it could; 0: it takes them
	fenced   bool // the lease is not held: nothing may be reserved until it is
	reaped   bool // other processes have this one's jobs: the poller sends nothing until another session
	resyncs  bool // the poller must read the record back before it sends anything
	lost     bool // Redis lost all data of this process, which must first register again
	alarm    alarm
	ending
}

// stage is how far the poller is on its way to the end.
type stage int

const (
	working  stage = iota
	closing        // reserve no more, and go on
	quitting       // reserve no more; end when all is committed
	forced         // jobs that still ran went back; end when that is committed, or there is no Redis
	hopeless       // end at once, without delivering what waits
)

// hold is a set of reasons for which this process takes no jobs. They come and go one by one.
type hold uint8

const (
	byProgram  hold = 1 << iota // Daemon.Pause
	byGate                      // Daemon.SetGate
	byOperator                  // the command pause
)

// lease is the process's place in the fleet. Its methods are safe for concurrent use.
type lease interface {
	// Session returns the present session, which holds the lease or has lost it.
	Session() *fleet.Session

	// Silent reports whether the lease was not renewed for so long that other processes may have
	// taken this one's jobs.
	Silent(now time.Time) bool

	// Now returns the time by Redis's clock.
	Now() time.Time

	// Wake has the lease renewed now.
	Wake()

	// RegisterAgain has the workers registered now.
	RegisterAgain()
}

// source decides which queues and lanes the poller asks for jobs. The poller's goroutine calls it.
type source interface {
	// Tick is called each turn, before the others. It acts on times that have come, and reports
	// whether the fleet is paused, as far as is known.
	Tick(now time.Time) (paused bool)

	// Hungry reports whether Plan would ask for jobs now. commits says whether the next exchange
	// commits.
	Hungry(now time.Time, commits bool) bool

	// Plan adds to an exchange the requests for jobs: want jobs at most, of which idle may start at
	// once. The exchange already holds its commits.
	Plan(x *resque.Exchange, want, idle int, now time.Time)

	// Answered takes the answer to an exchange. It reports whether the process is to end because
	// there are no more jobs.
	Answered(x *resque.Exchange, r resque.Exchanged, now time.Time) (complete bool)

	// Ended is called when a job has ended or goes back, and once more when Redis has committed that.
	Ended(j *outcome.Job, end *outcome.Commit, committed bool)

	// Connected is called for each new connection. tracking says whether Redis notifies of
	// changes on it.
	Connected(tracking bool)

	// Changed takes the names that Redis reported as changed; all: anything may have changed.
	Changed(names []string, all bool)

	// Read reads what else the source has Redis watch, if it may have changed. It returns an error of
	// the connection, on which no exchange is under way.
	Read(c redis.Conn, now time.Time) error

	// Next returns when the poller must turn again if nothing happens before. taking says whether
	// more jobs could start now.
	Next(taking bool) time.Time

	// Paused reports whether the fleet is paused, as far as is known.
	Paused() bool

	// Stop is called when the poller ends.
	Stop()
}

// newPoller returns a poller without a source. With a pool it shares its workers.
func newPoller(b part.Base, c config, l lease, ends inflight.Ends, pool *share.Pool) *poller {
	signal := make(chan struct{}, 1)
	return &poller{
		Base: b, lease: l, pool: pool, share: share.Alone(c.Concurrency),
		keeper: link.NewKeeper(b, !c.DisableTracking, c.PollInterval, signal),
		record: inflight.New(ends, c.MaxPayload),
		pace:   watch.Pace{Allowed: !c.DisableLookAhead},
		jobs:   make(chan *inflight.Task),
		signal: signal,
		ending: newEnding(),
		alarm:  alarm{timer: b.Clock.NewTimer(part.Never)},
	}
}

// inbox keeps ended jobs and functions of other goroutines for the poller.
type inbox struct {
	mu       sync.Mutex
	finished []inflight.End // by workers
	asked    []func()       // to be run by the poller's goroutine

	spare []inflight.End // of the poller: the other of two buffers that take turns as finished
}

// take empties the inbox. What was finished is valid until the next call.
func (i *inbox) take() (finished []inflight.End, asked []func()) {
	i.mu.Lock()
	defer i.mu.Unlock()
	finished, asked = i.finished, i.asked
	i.finished, i.asked = i.spare[:0], nil
	return finished, asked
}

// finish gives the poller the outcome of a job. A worker calls it.
func (p *poller) finish(t *inflight.Task, o *outcome.Outcome) {
	p.inbox.mu.Lock()
	p.inbox.finished = append(p.inbox.finished, inflight.NewEnd(t, o))
	p.inbox.mu.Unlock()
	p.poke()
}

// ask makes the poller's goroutine run f.
func (p *poller) ask(f func()) {
	p.inbox.mu.Lock()
	p.inbox.asked = append(p.inbox.asked, f)
	p.inbox.mu.Unlock()
	p.poke()
}

// poke makes the poller turn.
func (p *poller) poke() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// admitted records that a job may run here and now. A worker calls it.
func (p *poller) admitted(t *inflight.Task) {
	t.Admitted()
	if p.record.Regrouping() {
		p.poke()
	}
}

// yields is how often the poller lets workers run before it goes to Redis. A turn of the scheduler
// costs a fraction of a microsecond, the way to Redis at least ten.
const yields = 4

// run is the poller's loop. It ends after quit, or when there are no more jobs and the settings ask
// to exit then. It returns when every outcome is committed.
func (p *poller) run(ctx context.Context) {
	defer close(p.ended)
	defer close(p.jobs)
	defer func() {
		if p.slots.Busy() > 0 {
			close(p.leftBehind)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer p.halt()
	defer p.keeper.Stop()
	defer cancel()
	defer context.AfterFunc(p.halted, cancel)() // breaks a read from a silent Redis
	defer p.source.Stop()
	if p.pool != nil {
		p.share = p.pool.Join(p.share.Slots(), p.poke)
		defer p.share.Leave()
	}
	for {
		p.collect()
		p.yield()
		p.turn(ctx)
		if p.done() {
			return
		}
		next := p.dispatch()
		var jobs chan *inflight.Task
		if next != nil {
			jobs = p.jobs
		}
		p.alarm.set(p.Clock, p.wakeAt())
		select {
		case jobs <- next:
			p.dispatched(next)
		case <-p.signal:
		case r := <-p.keeper.Replies():
			p.answer(ctx, r)
		case d := <-p.keeper.Dialed():
			p.connected(ctx, d)
		case <-p.alarm.timer.C():
			p.alarm.at = time.Time{}
		}
	}
}

// done reports whether no worker has a job of this process, and no outcome waits. A forced stop
// does not wait for outcomes that cannot reach Redis.
func (p *poller) done() bool {
	switch {
	case p.stage == hopeless:
		return true
	case p.stage <= closing || p.sent != nil:
		return false
	case p.stage == forced && p.keeper.Link() == nil:
		return true
	}
	return p.record.Delivered() && (p.slots.Busy() == 0 || p.stage == forced)
}

// collect empties the inbox and takes the notifications of Redis.
func (p *poller) collect() {
	finished, asked := p.inbox.take()
	for i := range finished {
		e := &finished[i]
		p.slots.Free(e.Task.Slot)
		p.pace.Ran(e.Ran)
		if p.record.Ended(e) {
			p.source.Ended(&e.Task.Job, &e.Commit, false)
		} else {
			p.Meter.Add(meter.Duplicate, 1)
		}
	}
	clear(finished)
	p.inbox.spare = finished
	for _, f := range asked {
		f()
	}
	if l := p.keeper.Link(); l != nil && l.Wake != nil {
		changed, all, broken := l.Take()
		if broken != nil {
			p.keeper.Lose(broken)
			return
		}
		p.source.Changed(changed, all)
	}
}

// yield lets short handlers end before the next exchange, so that one exchange serves them all.
// They get a few turns of the Go scheduler. Prefetched jobs are dispatched first.
func (p *poller) yield() {
	for range yields {
		if p.sent != nil || p.slots.Busy() == 0 || p.record.Ahead() > 0 || !p.pace.Ahead() {
			return
		}
		runtime.Gosched()
		p.collect()
	}
}

// dispatch gives jobs to the workers that wait for one, and returns the next job to offer; nil if
// there is none. While handlers are short, more workers are about to wait. Letting them run first
// costs less than a wake-up by each.
func (p *poller) dispatch() *inflight.Task {
	if p.record.Ahead() == 0 || p.lease.Silent(p.Clock.Now()) {
		return nil // other processes may have taken these jobs by now
	}
	for turns := 0; ; {
		next := p.next()
		if next == nil {
			return nil
		}
		select {
		case p.jobs <- next:
			p.dispatched(next)
			turns = 0
			continue
		default:
		}
		if turns == yields || !p.pace.Ahead() {
			return next
		}
		turns++
		runtime.Gosched()
		p.collect()
	}
}

// next returns the job to offer to the workers; nil if there is none. No job starts during a stop.
func (p *poller) next() *inflight.Task {
	if p.stage > working || p.keeper.Link() == nil || p.fenced || p.slots.Busy() >= p.share.Slots() {
		return nil
	}
	t := p.record.Next()
	if t != nil {
		t.Slot = p.slots.Lowest()
	}
	return t
}

// dispatched is called when a worker has taken the job that was offered: t.
func (p *poller) dispatched(t *inflight.Task) {
	p.record.Dispatched()
	p.slots.Take(t.Slot)
	p.share.Begin()
}

// wakeAt is the next time at which the poller must turn by itself.
func (p *poller) wakeAt() time.Time {
	if p.sent != nil || p.keeper.Link() == nil {
		if p.sent != nil && p.share.Spare(p.slots.Busy()) {
			return p.overdue()
		}
		return time.Time{}
	}
	busy := p.slots.Busy() >= p.share.Slots()
	at := p.source.Next(p.mayReserve() && p.share.Slots()-p.slots.Busy() > p.record.Ahead())
	sooner := func(t time.Time) {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	sooner(p.record.RetryAt())
	if p.stage == working {
		sooner(p.keeper.RetrackAt())
	}
	if !p.fenced && !p.reaped {
		sooner(p.record.Trial())
	}
	if since := p.record.AheadSince(); busy && !since.IsZero() {
		sooner(since.Add(p.pace.Patience()))
	}
	sooner(p.record.SuspectsLeave(!busy, p.Clock))
	return at
}

// alarm is the time at which the poller turns by itself.
type alarm struct {
	timer clock.Timer
	at    time.Time // zero: the timer has fired, or was never set
}

// set arms the timer, unless it fires early enough already: it is armed far less often than the
// poller turns.
func (a *alarm) set(c clock.Clock, at time.Time) {
	if at.IsZero() || !a.at.IsZero() && !at.Before(a.at) {
		return
	}
	a.at = at
	a.timer.Reset(clock.Until(c, at))
}

// tasks returns the channel on which the workers get their jobs.
func (p *poller) tasks() <-chan *inflight.Task { return p.jobs }

// left is closed when the poller has ended with jobs still running.
func (p *poller) left() <-chan struct{} { return p.leftBehind }

// hold makes the poller take no more jobs for a reason, or no longer for it. It takes jobs again when no
// reason is left.
func (p *poller) hold(why hold, on bool) {
	p.ask(func() {
		if why != byGate && (p.held&why != 0) != on {
			p.Log.Info("pause", "paused", on)
		}
		if p.held &^= why; on {
			p.held |= why
		}
		p.source.Changed(nil, true)
	})
}

// state is how the poller is.
func (p *poller) state() health.Poller {
	return health.Poller{
		Connected: p.keeper.Link() != nil, Fenced: p.fenced, Stopping: p.stage > working,
		Held: p.held&byProgram != 0, Operated: p.held&byOperator != 0, Paused: p.source.Paused(),
	}
}

// quit makes the poller take no more jobs, and end when all outcomes are committed.
func (p *poller) quit() { p.stage = max(p.stage, quitting) }

// abandon requeues jobs whose handlers did not end in time. The handlers may still run; their
// later outcomes are dropped.
func (p *poller) abandon() {
	if p.stage >= forced {
		return
	}
	p.stage = forced
	p.collect()
	p.record.Abandon()
}
