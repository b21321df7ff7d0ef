package goworker

import (
	"context"
	"log/slog"
	"runtime"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// task is a job on its way through this process: reserved, handed to a worker,
// finished, committed.
type task struct {
	resque.Reserved
	session  *session
	deaths   int // how often it was found running in a dead process
	reserved time.Time
	started  time.Time // set by the worker before anybody else looks

	was *resque.Lane // the lane it was taken from, where that was not its own; without limits: none

	abandoned bool // it went back to its queue although its handler still runs
}

// outcome is what became of a task. Exactly one of the four holds: it is done,
// it failed with a record, it goes back to its queue, or it is settled.
type outcome struct {
	task   *task
	record []byte // an encoded failure; nil: done
	keep   bool   // the record holds but an excerpt of the payload
	back   bool
	settle *settlement
	ran    time.Duration
	unrun  bool // its handler was not called
}

// settlement is an outcome that takes more than an exchange does by itself: what is to
// happen in Redis as one with the commit.
type settlement struct {
	counts  resque.Counts
	effects []resque.Effect
	left    bool // the job is left to others, who know its class
	moved   bool // the job goes on elsewhere or was filed as failed: it is not done

	to      string // the queue that gets the job again; "": none does now
	level   slog.Level
	message string // what the log says of it; "": that the job is done or failed
	attrs   []slog.Attr
}

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
	jobs    chan *task    // unbuffered: a job leaves the poller when a worker takes it
	signal  chan struct{} // something was finished, changed or asked for; holds one
	replies chan reply
	links   chan linked
	quit    chan struct{} // closed: reserve no more, end when all is committed
	force   chan struct{} // closed: give back what is still running
	ended   chan struct{} // closed when run returned
	stop    sync.Once

	// leftBehind is closed when jobs were given back whose handlers still run.
	leftBehind chan struct{}

	mu       sync.Mutex
	finished []outcome
	asked    []func() // run by the poller's goroutine

	collected []outcome // the other of two buffers that take turns as finished
	link      *link
	linking   bool
	retry     backoff
	session   *session
	epoch     int64
	last      int64           // highest ticket reserved
	held      map[int64]*task // everything in our record
	heldBytes int             // of its payloads
	undone    []int64         // the latest tickets that failed or went back
	ahead     []*task         // reserved, not yet with a worker, in order
	suspects  []*task         // likewise, but they run one at a time
	suspect   *task           // the one that runs
	launch    *task           // the one that may run once it is recorded as running
	busy      int             // workers with a task
	pending   []outcome       // to be handed in
	refused   []outcome       // likewise, but Redis would not take them; tried again at retryAt
	retryAt   time.Time
	forgive   []string
	sent      *resque.Exchange
	sentOut   []outcome // what the exchange under way hands in
	sentAt    time.Time
	heldBack  string // the suspects held back as the record has them
	fenced    bool
	restoring bool      // our record is not whole yet
	reaped    bool      // nothing more is sent until there is another session
	hopeless  bool      // told to end without delivering what is pending
	tellAgain time.Time // when to ask a server anew to tell of changes that would not
	untold    int       // how often it has been asked
	paused    bool      // by the key, for the whole fleet
	selfPause bool      // by a signal, for this process
	complete  bool      // all queues were empty once, and then the daemon is to end
	quitting  bool
	forced    bool
	abandoned []*task

	share    *share // of the workers, where several daemons have them together
	granted  int    // how many of them are ours now
	promised int    // of those: kept for jobs that were asked for and have not begun

	watch  watch
	sorter *sorter
	pace   pace
	logged map[string]string // what was already said about a key
	timer  *time.Timer
	timeAt time.Time
}

type linked struct {
	link *link
	err  error
}

func newPoller(d *Daemon) *poller {
	p := &poller{
		d: d, log: d.log, store: d.store,
		jobs:    make(chan *task),
		signal:  make(chan struct{}, 1),
		replies: make(chan reply, 1),
		links:   make(chan linked, 1),
		quit:    make(chan struct{}),
		force:   make(chan struct{}),
		ended:   make(chan struct{}),

		leftBehind: make(chan struct{}),
		held:       make(map[int64]*task),
		logged:     make(map[string]string),
		timer:      time.NewTimer(time.Hour),
	}
	p.watch = newWatch(d.config, d.registry, func() int { return d.lease.reaper.peers() })
	p.sorter = newSorter(p)
	p.pace.allowed = d.config.lookAhead
	return p
}

// lingerTurns is how often the poller lets workers run before it goes to Redis. A
// turn costs a fraction of a microsecond, the way to Redis at least ten.
const lingerTurns = 4

// finish is how a worker hands in an outcome.
func (p *poller) finish(o outcome) {
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
	defer p.sorter.stop()
	if b := p.d.budget; b != nil {
		p.share = b.join(p.poke)
		defer p.share.leave()
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
			l.link.shut()
		}
	}
	if p.link != nil {
		l := p.link
		p.link = nil
		l.shut()
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
	return len(p.pending)+len(p.refused)+len(p.ahead)+len(p.suspects) == 0 && (p.busy == 0 || p.forced)
}

// collect takes what workers and others have left for the poller.
func (p *poller) collect() {
	p.mu.Lock()
	finished, asked := p.finished, p.asked
	p.finished, p.asked = p.collected[:0], nil
	p.mu.Unlock()
	for _, o := range finished {
		p.busy--
		p.pace.ran(o.ran)
		p.settle(o)
	}
	clear(finished)
	p.collected = finished
	for _, f := range asked {
		f()
	}
	if p.link != nil && p.link.wake != nil {
		changed, all, broken := p.link.take()
		if broken != nil {
			p.lose(broken)
			return
		}
		p.sortChanged(changed, all)
		p.watch.changed(changed, all)
	}
}

// linger lets short handlers end before the next exchange, so that one serves
// them all: what was reserved ahead is handed out first, and then those that run
// get a few turns of the scheduler.
func (p *poller) linger() {
	for range lingerTurns {
		if p.sent != nil || p.busy == 0 || len(p.ahead) > 0 || !p.pace.ahead() {
			return
		}
		runtime.Gosched()
		p.collect()
	}
}

// settle queues an outcome for the next exchange, unless its job is no longer
// ours to settle: then it was given to somebody else, and counts there.
func (p *poller) settle(o outcome) {
	t := o.task
	if p.suspect == t {
		p.suspect = nil
	}
	if t.abandoned || t.session != p.session {
		return
	}
	left := o.settle != nil && o.settle.left
	if left {
		p.leftToOthers(t)
	}
	if t.deaths > 0 && !o.back && !left {
		p.forgive = append(p.forgive, resque.Digest(t.Payload))
	}
	p.pending = append(p.pending, o)
}

// handOut gives jobs to the workers that wait for one and returns the next to
// offer, if any. Where handlers are short more workers are about to wait, and
// letting them costs less than being woken by each.
func (p *poller) handOut() *task {
	if len(p.ahead) == 0 || p.d.lease.silent(time.Now()) {
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
		if turns == lingerTurns || !p.pace.ahead() {
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
	p.promised = max(0, p.promised-1)
}

// begin takes over a new session: at the start, or after the lease was lost. What
// the old one held is somebody else's now.
func (p *poller) begin(s *session) {
	p.session, p.epoch, p.last = s, 1, 0
	p.held, p.heldBytes, p.undone = make(map[int64]*task), 0, nil
	p.ahead, p.suspects, p.suspect, p.launch = nil, nil, nil, nil
	p.pending, p.refused, p.sentOut, p.forgive, p.heldBack = nil, nil, nil, nil, ""
	p.fenced, p.reaped, p.restoring = false, false, false
	p.watch.forget()
}

// wakeAt is the next time at which the poller must act by itself.
func (p *poller) wakeAt() time.Time {
	if p.sent != nil || p.link == nil {
		if p.share != nil && p.sent != nil && p.granted > p.busy {
			return p.overdue()
		}
		return time.Time{}
	}
	tellAgain := p.tellAgain
	if p.quitting {
		tellAgain = time.Time{}
	}
	at := p.watch.nextLook(p.retryAt, tellAgain, p.lanesAt())
	if len(p.ahead) > 0 && p.busy >= p.slots() {
		if give := p.ahead[0].reserved.Add(p.pace.patience()); at.IsZero() || give.Before(at) {
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

// leaseHeld is how the lease tells that it was renewed.
func (p *poller) leaseHeld(s *session) {
	p.ask(func() {
		if p.session == s {
			p.fenced = false
		}
	})
}

// left is closed when the poller has ended with jobs still running.
func (p *poller) left() <-chan struct{} { return p.leftBehind }
