package goworker

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/share"
	"github.com/goworker/goworker/internal/watch"
)

// task is a job on its way through this process: reserved, handed to a worker, finished, committed.
type task struct {
	outcome.Job
	Session *fleet.Session // that reserved it

	// looked is set by a worker that knows that the job need not wait in a lane, and by the
	// poller once it has the outcome of one that must.
	looked atomic.Bool

	abandoned bool // it went back to its queue although its handler still runs
}

// ended is what became of a task.
type ended struct {
	task *task
	resque.Ended
	ran     time.Duration
	started bool // its handler was called

	back      bool         // it goes back to the head of its queue, or into its lane
	left      bool         // it is left to processes that know its class
	lane      *resque.Lane // where it waits now, if it goes into a lane
	misplaced bool         // it lay in its queue, and belongs into that lane
}

func newOutcome(t *task, o outcome.Outcome) ended {
	e := ended{
		task: t, Ended: o.Ended(t.Ticket), ran: o.Ran, started: o.Started,
		back: o.State == outcome.Returned, left: o.State == outcome.Passed, lane: o.Next.Lane,
	}
	e.misplaced = e.back && o.Next.Place == outcome.Lane && (t.Lane == nil || *t.Lane != *o.Next.Lane)
	return e
}

// unsorted reports whether the job may belong into another lane: it lay in its queue, or in the
// lane of a class that the process which sorted it did not know.
func (t *task) unsorted() bool { return t.Lane == nil || t.Lane.Known() != *t.Lane }

// plain reports whether an acknowledgement is all that the outcome takes.
func (o ended) plain() bool { return o.Counts == resque.CountsDone && len(o.Effects) == 0 }

// poller is the only goroutine that talks to the queues. Each turn it does one
// exchange with Redis: it hands in the outcomes of jobs that finished and takes
// at most as many new ones as there are idle workers, plus one a worker where
// handlers are shorter than the way to Redis.
//
// All fields below the mutex's own belong to the poller's goroutine.
type poller struct {
	d       *Daemon
	log     *slog.Logger
	store   resque.Store
	set     *outcome.Set
	jobs    chan *task    // unbuffered: a job leaves the poller when a worker takes it
	signal  chan struct{} // something was finished, changed or asked for; holds one
	replies chan link.Reply
	links   chan linked
	quit    chan struct{} // closed: reserve no more, end when all is committed
	force   chan struct{} // closed: give back what is still running
	ended   chan struct{} // closed when run returned
	stop    sync.Once

	// leftBehind is closed when jobs were given back whose handlers still run.
	leftBehind chan struct{}

	mu       sync.Mutex
	finished []ended
	asked    []func() // run by the poller's goroutine

	collected []ended // the other of two buffers that take turns as finished
	link      *link.Link
	linking   bool
	retry     part.Backoff
	session   *fleet.Session
	epoch     int64
	last      int64           // highest ticket reserved
	held      map[int64]*task // everything in our record
	heldBytes int             // of its payloads
	recent    recentEnds      // committed lately, with effects
	ahead     []*task         // reserved, not yet with a worker, in order
	suspects  suspects        // reserved too, but they start one at a time
	busy      int             // workers with a task
	pending   []ended         // to be handed in
	refused   []ended         // likewise, but Redis would not take them; tried again at retryAt
	retryAt   time.Time
	misplaced []ended     // found to belong into lanes; see giveBackMisplaced
	looking   atomic.Bool // misplaced waits for workers to look; read by them
	sent      *resque.Exchange
	sentOut   []ended // what the exchange under way hands in
	sentAt    time.Time
	fenced    bool
	resyncs   bool      // the record must be read back before anything else is sent
	lost      bool      // Redis lost what it knew of this process: it enters again before that
	reaped    bool      // nothing more is sent until there is another session
	hopeless  bool      // told to end without delivering what is pending
	tellAgain time.Time // when to ask a server anew to tell of changes that would not
	untold    int       // how often it has been asked
	selfPause bool      // by a signal, for this process
	complete  bool      // all queues were empty once, and then the daemon is to end
	quitting  bool
	forced    bool
	abandoned []*task

	share *share.Share // of the workers, which several daemons may have in common

	source source
	pace   watch.Pace
	logged map[string]string // what was already said about a key
	timer  *time.Timer
	timeAt time.Time
}

type linked struct {
	link *link.Link
	err  error
}

func newPoller(d *Daemon, base part.Base, set *outcome.Set) *poller {
	p := &poller{
		d: d, log: d.log, store: d.store, set: set,
		jobs:    make(chan *task),
		signal:  make(chan struct{}, 1),
		replies: make(chan link.Reply, 1),
		links:   make(chan linked, 1),
		quit:    make(chan struct{}),
		force:   make(chan struct{}),
		ended:   make(chan struct{}),

		leftBehind: make(chan struct{}),
		held:       make(map[int64]*task),
		logged:     make(map[string]string),
		timer:      time.NewTimer(time.Hour),
	}
	p.source = newSource(d, base, p)
	p.pace.Allowed = !d.config.DisableLookAhead
	p.share = share.Alone(d.config.Concurrency)
	return p
}

// lingerTurns is how often the poller lets workers run before it goes to Redis. A
// turn costs a fraction of a microsecond, the way to Redis at least ten.
const lingerTurns = 4

// finish is how a worker hands in an outcome.
func (p *poller) finish(o ended) {
	p.mu.Lock()
	p.finished = append(p.finished, o)
	p.mu.Unlock()
	p.poke()
}

// ask has f run by the poller's goroutine.
func (p *poller) ask(f func()) {
	p.mu.Lock()
	p.asked = append(p.asked, f)
	p.mu.Unlock()
	p.poke()
}

func (p *poller) poke() {
	select {
	case p.signal <- struct{}{}:
	default:
	}
}

// run is the poller's loop. It returns when it was told to quit, or found all
// queues empty where it was to exit then, and every outcome is committed.
func (p *poller) run(ctx context.Context) {
	defer close(p.ended)
	defer close(p.jobs)
	defer func() {
		if p.busy > 0 {
			close(p.leftBehind)
		}
	}()
	ctx, cancel := context.WithCancel(ctx)
	defer p.unlink()
	defer cancel()
	defer p.source.Stop()
	if b := p.d.budget; b != nil {
		p.share = b.Join(p.d.config.Concurrency, p.poke)
		defer p.share.Leave()
	}
	quit, force := p.quit, p.force
	for {
		p.collect()
		p.linger()
		p.turn(ctx)
		if p.done() {
			return
		}
		next := p.handOut()
		var jobs chan *task
		if next != nil {
			jobs = p.jobs
		}
		p.sleepUntil(p.wakeAt())
		select {
		case jobs <- next:
			p.handed(next)
		case <-p.signal:
		case r := <-p.replies:
			p.answer(ctx, r)
		case l := <-p.links:
			p.linkMade(ctx, l)
		case <-p.timer.C:
			p.timeAt = time.Time{}
		case <-quit:
			quit = nil
			p.quitting = true
		case <-force:
			force = nil
			p.forced = true
			p.giveBackRunning()
		}
	}
}

// unlink closes the connections, also those that are being made.
func (p *poller) unlink() {
	if p.linking {
		p.linking = false
		if l := <-p.links; l.err == nil {
			l.link.Shut()
		}
	}
	if p.link != nil {
		l := p.link
		p.link = nil
		l.Shut()
	}
}

// done reports whether nothing is left to be done: no worker has a task of ours
// and no outcome waits. A forced stop leaves at once what cannot be delivered.
func (p *poller) done() bool {
	if p.hopeless {
		return true
	}
	if !p.quitting || p.sent != nil {
		return false
	}
	if p.forced && p.link == nil {
		return true
	}
	return len(p.pending)+len(p.refused)+len(p.misplaced)+len(p.ahead)+len(p.suspects.waiting) == 0 && (p.busy == 0 || p.forced)
}

// collect takes what workers and others have left for the poller.
func (p *poller) collect() {
	p.mu.Lock()
	finished, asked := p.finished, p.asked
	p.finished, p.asked = p.collected[:0], nil
	p.mu.Unlock()
	for _, o := range finished {
		p.busy--
		p.pace.Ran(o.ran)
		p.settle(o)
	}
	clear(finished)
	p.collected = finished
	for _, f := range asked {
		f()
	}
	if p.link != nil && p.link.Wake != nil {
		changed, all, broken := p.link.Take()
		if broken != nil {
			p.lose(broken)
			return
		}
		p.source.Changed(changed, all)
	}
}

// linger lets short handlers end before the next exchange, so that one serves
// them all: what was reserved ahead is handed out first, and then those that run
// get a few turns of the scheduler.
func (p *poller) linger() {
	for range lingerTurns {
		if p.sent != nil || p.busy == 0 || len(p.ahead) > 0 || !p.pace.Ahead() {
			return
		}
		runtime.Gosched()
		p.collect()
	}
}

// settle queues an outcome for the next exchange, unless its job is no longer
// ours to settle: then it was given to somebody else, and counts there.
func (p *poller) settle(o ended) {
	t := o.task
	p.suspects.ended(t)
	if t.abandoned || t.Session != p.session {
		return
	}
	p.tell(o, false)
	if o.misplaced {
		t.looked.Store(true) // only now: until it is here, others of its queue wait for it
		p.misplaced = append(p.misplaced, o)
		return
	}
	p.pending = append(p.pending, o)
}

// handOut gives jobs to the workers that wait for one and returns the next to
// offer, if any. Where handlers are short more workers are about to wait, and
// letting them costs less than being woken by each.
func (p *poller) handOut() *task {
	if len(p.ahead) == 0 || p.d.lease.Silent(time.Now()) {
		return nil // what was reserved long ago may be somebody else's by now
	}
	for turns := 0; ; {
		next := p.next()
		if next == nil {
			return nil
		}
		select {
		case p.jobs <- next:
			p.handed(next)
			turns = 0
			continue
		default:
		}
		if turns == lingerTurns || !p.pace.Ahead() {
			return next
		}
		turns++
		runtime.Gosched()
		p.collect()
	}
}

// next is the task to offer to the workers, if any.
func (p *poller) next() *task {
	if p.link == nil || p.fenced || len(p.ahead) == 0 || p.busy >= p.slots() {
		return nil
	}
	return p.ahead[0]
}

func (p *poller) handed(t *task) {
	p.ahead = p.ahead[1:]
	p.busy++
	p.share.Begin()
}

// begin takes over a new session: at the start, or after the lease was lost. What
// the old one held is somebody else's now.
func (p *poller) begin(s *fleet.Session) {
	p.session, p.epoch, p.last = s, 1, 0
	p.held, p.heldBytes, p.recent = make(map[int64]*task), 0, recentEnds{}
	p.ahead, p.suspects = nil, suspects{}
	p.pending, p.refused, p.misplaced, p.sentOut = nil, nil, nil, nil
	p.fenced, p.reaped, p.resyncs, p.lost = false, false, false, false
	p.source.Changed(nil, true)
}

// wakeAt is the next time at which the poller must act by itself.
func (p *poller) wakeAt() time.Time {
	if p.sent != nil || p.link == nil {
		if p.sent != nil && p.share.Spare(p.busy) {
			return p.overdue()
		}
		return time.Time{}
	}
	tellAgain := p.tellAgain
	if p.quitting {
		tellAgain = time.Time{}
	}
	var trialOver time.Time
	if !p.fenced && !p.reaped {
		trialOver = p.suspects.wakeAt()
	}
	at := p.source.Next(p.mayReserve() && p.slots()-p.busy > len(p.ahead))
	for _, t := range []time.Time{p.retryAt, tellAgain, trialOver} {
		if !t.IsZero() && t.Before(at) {
			at = t
		}
	}
	if len(p.ahead) > 0 && p.busy >= p.slots() {
		if give := p.ahead[0].ReservedAt.Add(p.pace.Patience()); at.IsZero() || give.Before(at) {
			at = give
		}
	}
	return at
}

// sleepUntil arms the timer, leaving it alone where it already fires early enough:
// it is set far less often than the loop turns.
func (p *poller) sleepUntil(at time.Time) {
	if at.IsZero() || (!p.timeAt.IsZero() && !at.Before(p.timeAt)) {
		return
	}
	p.timeAt = at
	p.timer.Reset(time.Until(at))
}

// LeaseLost is called by the lease when another session has begun.
func (p *poller) LeaseLost(*fleet.Session) { p.poke() }

// LeaseHeld is called by the lease after each renewal.
func (p *poller) LeaseHeld(s *fleet.Session) {
	p.ask(func() {
		if p.session == s {
			p.fenced = false
		}
	})
}

// left is closed when the poller has ended with jobs still running.
func (p *poller) left() <-chan struct{} { return p.leftBehind }

// slots is how many jobs may run here now.
func (p *poller) slots() int { return p.share.Slots() }

// claim brings the poller's share of the workers up to date: it keeps tokens for the
// jobs that run and for those it has asked for. While there may be jobs in Redis, it
// wants all workers. It is called each turn.
func (p *poller) claim() {
	if !p.share.Shared() {
		return
	}
	now := time.Now()
	able := p.link != nil && !p.fenced && (p.sent == nil || now.Before(p.overdue()))
	if !able {
		p.share.Reserve(0) // others can use these workers meanwhile
		p.share.Acquire(p.busy, 0)
		return
	}
	if p.sent == nil {
		p.share.KeepReserved(len(p.ahead))
	}
	could := p.busy + len(p.ahead)
	if p.suspects.next() {
		could++
	}
	if p.mayReserve() && p.source.Hungry(now, len(p.pending) > 0) {
		could = p.d.config.Concurrency
	}
	p.share.Acquire(p.busy, could)
}

// overdue is when an exchange takes so long that Redis may stand still. Then the
// workers that are reserved for its jobs go to others.
func (p *poller) overdue() time.Time { return p.sentAt.Add(p.pace.Patience()) }
