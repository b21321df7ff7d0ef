package goworker

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"runtime"
	"slices"
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

	abandoned bool // it went back to its queue although its handler still runs
}

// outcome is what became of a task. Exactly one of the three holds: it is done,
// it failed with a record, or it goes back to its queue.
type outcome struct {
	task   *task
	record []byte // an encoded failure; nil: done
	back   bool
	ran    time.Duration
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

	watch  watch
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
	p.watch = newWatch(d.config)
	p.pace.allowed = d.config.lookAhead
	return p
}

// lingerTurns is how often the poller lets workers run before it goes to Redis. A
// turn costs a fraction of a microsecond, the way to Redis at least ten.
const lingerTurns = 4

// tasksTogether is how many tasks are allocated as one: enough to make little of the
// cost, and few enough that a long job does not keep many a finished one in memory.
const tasksTogether = 16

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
	if t.deaths > 0 && !o.back {
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
	if p.link == nil || p.fenced || len(p.ahead) == 0 || p.busy >= p.d.config.concurrency {
		return nil
	}
	return p.ahead[0]
}

func (p *poller) handed(t *task) {
	p.ahead = p.ahead[1:]
	p.busy++
}

// turn starts an exchange if there is a reason to and none is under way.
func (p *poller) turn(ctx context.Context) {
	if s := p.d.session.Load(); s != p.session {
		p.begin(s)
	}
	if p.sent != nil {
		return
	}
	if p.link == nil {
		p.relink(ctx)
		return
	}
	now := time.Now()
	if p.retell(ctx, now) {
		return
	}
	p.watch.tick(now)
	if !p.retryAt.IsZero() && !now.Before(p.retryAt) {
		p.pending, p.refused = append(p.refused, p.pending...), nil
		p.retryAt = time.Time{}
	}
	if p.complete && len(p.ahead)+len(p.suspects) == 0 && p.launch == nil {
		p.quitting = true
	}
	p.giveBackIdle(now)
	if len(p.ahead) > 0 && p.pace.ahead() && !p.quitting {
		return // they are about to be taken; one exchange then serves more
	}
	x := p.compose(now)
	if x == nil {
		return
	}
	p.sent, p.sentAt = x, now
	p.link.send(x)
}

// compose builds the next exchange, or returns nil if there is no need of one.
func (p *poller) compose(now time.Time) *resque.Exchange {
	if p.reaped || p.fenced && len(p.pending) == 0 {
		return nil
	}
	if p.paused && p.watch.recheck() {
		p.paused = false // and the answer says whether it still holds
	}
	x := &resque.Exchange{
		Process: p.session.process.ID, Epoch: p.epoch, Last: p.last,
		MultiQueue: p.d.config.multiQueueFailures,
	}
	idle := max(0, p.d.config.concurrency-p.busy)
	if want := p.wanted(idle); want > 0 {
		x.Asks, x.List = p.watch.plan(now, want, len(p.pending) > 0)
		if len(x.Asks) > 0 {
			x.Want = want
		}
		if len(x.Asks) > 0 || x.List {
			x.Arm = p.link.wake != nil && (p.watch.arm() || x.List)
		}
	}
	p.handIn(x)
	p.launchSuspect()
	back := p.heldTickets()
	if x.Want > 0 || p.launch != nil || back != p.heldBack {
		upTo := p.last + int64(idle-len(p.ahead))
		if idle < len(p.ahead) {
			upTo = p.ahead[idle].Ticket - 1
		}
		if p.launch != nil {
			upTo = max(upTo, p.launch.Ticket)
		}
		x.Handed = resque.Handed(upTo, p.heldList())
		p.heldBack = back
	}
	if x.Empty() && !p.link.prove() {
		return nil
	}
	return x
}

// wanted is how many jobs to reserve.
func (p *poller) wanted(idle int) int {
	if p.quitting || p.paused || p.selfPause || p.fenced || len(p.refused) >= resque.MaxExchangeJobs {
		return 0
	}
	n := p.d.config.concurrency
	want := idle - len(p.ahead)
	if p.pace.ahead() && len(p.suspects) == 0 && p.suspect == nil {
		want += n
	}
	if len(p.suspects) >= n {
		want = 0
	}
	return min(want, resque.MaxExchangeJobs)
}

// handIn moves pending outcomes into the exchange, as many as one may carry.
func (p *poller) handIn(x *resque.Exchange) {
	n, size := 0, 0
	for _, o := range p.pending {
		if n == resque.MaxExchangeJobs || size > resque.MaxExchangeBytes {
			break
		}
		n++
		switch {
		case o.back:
			x.Back = append(x.Back, o.task.Reserved)
		case o.record != nil:
			size += len(o.record)
			x.Failed = append(x.Failed, resque.FailedJob{Ticket: o.task.Ticket, Queue: o.task.Queue, Record: o.record})
		default:
			x.Done = append(x.Done, o.task.Ticket)
		}
	}
	p.sentOut = p.pending[:n:n]
	p.pending = p.pending[n:]
	if len(p.pending) == 0 {
		p.pending = nil
	}
	x.Forgive, p.forgive = p.forgive, nil
}

// answer takes the reply to the exchange under way.
func (p *poller) answer(ctx context.Context, r reply) {
	x, out := p.sent, p.sentOut
	p.sent, p.sentOut = nil, nil
	if x.Process != p.session.process.ID { // sent in a life before this one
		if r.link == p.link && r.err != nil && !aboutRecord(r.err) {
			p.lose(r.err)
		}
		return
	}
	if r.link != p.link || r.err != nil {
		// The script may have run. Nothing of it is taken for granted: the record
		// is read back before anything else is sent.
		p.pending = append(out, p.pending...)
		p.forgive = append(p.forgive, x.Forgive...)
		if r.link == p.link {
			p.trouble(ctx, r.err)
		}
		return
	}
	p.d.outages.ok("poller")
	p.retry.reset()
	now := time.Now()
	p.pace.trip(now.Sub(p.sentAt))
	if r.Missing > 0 {
		p.sayOnce("lost", "Redis lost the records of jobs that were running; their outcomes are counted all the same", "process", p.session.process.ID)
	}
	if len(r.Broken) > 0 {
		p.complain(r.Broken)
	}
	refused := len(r.Broken) > 0 && len(x.Failed)+len(x.Back) > 0
	if !refused {
		p.confirm(out)
	}
	if p.launch != nil && x.Handed != "" {
		p.suspect, p.launch = p.launch, nil
		p.ahead = slices.Insert(p.ahead, 0, p.suspect)
	}
	p.paused = r.Paused
	if r.Fenced && !p.fenced {
		p.fenced = true
		p.d.lease.hurry()
	}
	p.receive(r.Exchanged, now)
	p.watch.answered(x, r.Exchanged)
	if p.d.config.exitOnComplete && !p.paused && p.watch.drained() {
		p.complete = true
	}
	if refused {
		p.setAside(ctx, out, now) // last, for it may lose the link
	}
}

func (p *poller) receive(r resque.Exchanged, now time.Time) {
	var deaths []resque.Deaths
	known := true
	if r.Suspects {
		deaths, known = p.deaths(r.Jobs, now)
	}
	var tasks []task
	for i, j := range r.Jobs {
		if len(tasks) == 0 {
			tasks = make([]task, min(tasksTogether, len(r.Jobs)-i))
		}
		t := &tasks[0]
		tasks = tasks[1:]
		t.Reserved, t.session, t.reserved = j, p.session, now
		p.last = j.Ticket
		p.held[j.Ticket] = t
		if deaths != nil {
			t.deaths = deaths[i].Count
		}
		if t.deaths >= suspectAfter || !known {
			p.suspects = append(p.suspects, t)
		} else {
			p.ahead = append(p.ahead, t)
		}
	}
}

// undoneKept is how many tickets that did not end well are remembered: a server that
// takes over may lag by a second or two.
const undoneKept = 4096

func (p *poller) confirm(out []outcome) {
	for _, o := range out {
		delete(p.held, o.task.Ticket)
		if o.back || o.record != nil {
			p.undone = append(p.undone, o.task.Ticket)
		}
	}
	if n := len(p.undone); n > 2*undoneKept {
		p.undone = slices.Delete(p.undone, 0, n-undoneKept)
	}
}

// complain logs what Redis refused, once for each key and reason.
func (p *poller) complain(broken []resque.KeyError) {
	for _, e := range broken {
		p.sayOnce(e.Key, "Redis refuses a key; the others go on", "key", e.Key, "error", e.Reason)
	}
}

func (p *poller) sayOnce(about, message string, args ...any) {
	said := slog.AnyValue(args[len(args)-1]).String()
	if p.logged[about] == said {
		return
	}
	p.logged[about] = said
	p.log.Error(message, args...)
}

// giveBackIdle returns what was reserved ahead when it may not wait here: the
// process pauses or stops, or the workers turned out to be slow.
func (p *poller) giveBackIdle(now time.Time) {
	stop := p.quitting || p.paused || p.selfPause
	if !stop && (len(p.ahead) == 0 || p.busy < p.d.config.concurrency || !p.pace.waited(now, p.ahead[0].reserved)) {
		return
	}
	if slices.Contains(p.ahead, p.suspect) {
		p.suspect = nil
	}
	back := p.ahead
	p.ahead = nil
	if stop {
		if p.launch != nil {
			back = append(back, p.launch)
		}
		back = append(back, p.suspects...)
		p.suspects, p.launch = nil, nil
	}
	p.back(back)
}

// giveBackRunning returns jobs whose handlers did not end in time. The handlers
// may still be running; what they hand in later is dropped.
func (p *poller) giveBackRunning() {
	p.quitting = true
	p.collect()
	waiting := make(map[*task]bool)
	for _, o := range slices.Concat(p.pending, p.sentOut) {
		waiting[o.task] = true
	}
	for _, o := range p.refused {
		waiting[o.task] = true
	}
	for _, t := range p.ahead {
		waiting[t] = true
	}
	for _, t := range p.suspects {
		waiting[t] = true
	}
	var running []*task
	for _, t := range p.held {
		if !waiting[t] {
			t.abandoned = true
			p.abandoned = append(p.abandoned, t)
			running = append(running, t)
		}
	}
	p.back(running)
}

// back queues jobs to be given back, the last reserved first: each goes in front
// of those before it, also where one exchange cannot carry them all.
func (p *poller) back(tasks []*task) {
	slices.SortFunc(tasks, func(a, b *task) int { return cmp.Compare(b.Ticket, a.Ticket) })
	for _, t := range tasks {
		p.pending = append(p.pending, outcome{task: t, back: true})
	}
}

// begin takes over a new session: at the start, or after the lease was lost. What
// the old one held is somebody else's now.
func (p *poller) begin(s *session) {
	p.session, p.epoch, p.last = s, 1, 0
	p.held, p.undone = make(map[int64]*task), nil
	p.ahead, p.suspects, p.suspect, p.launch = nil, nil, nil, nil
	p.pending, p.refused, p.sentOut, p.forgive, p.heldBack = nil, nil, nil, nil, ""
	p.fenced, p.reaped, p.restoring = false, false, false
	p.watch.forget()
}

// wakeAt is the next time at which the poller must act by itself.
func (p *poller) wakeAt() time.Time {
	if p.sent != nil || p.link == nil {
		return time.Time{}
	}
	tellAgain := p.tellAgain
	if p.quitting {
		tellAgain = time.Time{}
	}
	at := p.watch.nextLook(p.retryAt, tellAgain)
	if len(p.ahead) > 0 && p.busy >= p.d.config.concurrency {
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

// aboutRecord tells whether an error is not about the way to Redis, but says what
// was found there instead of our record.
func aboutRecord(err error) bool {
	return errors.Is(err, resque.ErrReaped) || errors.Is(err, resque.ErrGone) || errors.Is(err, resque.ErrStale)
}
