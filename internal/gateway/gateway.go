package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/feature/events"
	"github.com/goworker/goworker/internal/feature/webhook"
	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
	"github.com/goworker/goworker/internal/taker"
)

const (
	// stopWithin is how long Stop lets calls go on. A second of its five is for closing the connections.
	stopWithin = 4 * time.Second

	// silentFor is how long a turn may take, or Redis be away, before Healthy says that Redis does not answer.
	silentFor = 10 * time.Second

	// owner is the name under which outages are reported.
	owner = "http server"
)

// Options are the settings of a Gateway.
type Options struct {
	// Server names this server among those of the same Redis. "": a random name.
	Server string

	// Version is shown to operators.
	Version string

	// Classes are those whose jobs have their names in the history. Of all others the history knows the queue only, because any
	// client may invent classes.
	Classes []string
}

// Stats are the numbers of a Gateway since it was made.
type Stats struct {
	Waiters   int   // asks that wait now
	Turns     int64 // of the desk that Redis has answered
	Lost      int64 // turns whose answer did not come
	Published int64 // jobs
	Reserved  int64 // jobs that were given to consumers
	Acked     int64
	Released  int64 // jobs that went back without a try, because their client had gone or the answer was lost
	Retried   int64 // nacks after which the job runs again
	RanOut    int64 // leases that ran out, after which the job runs again
	Filed     int64 // dead letters, by nacks, by fails and by leases that ran out
	Expired   int64 // jobs that were found expired when they were taken
	Searches  int64

	LastTurn  time.Time     // when Redis answered the latest turn; zero: none yet
	TurnTook  time.Duration // how long Redis took for it
	Tracking  bool          // Redis notifies the desk of queues
	AwaySince time.Time     // since when Redis does not answer; zero: it does
}

// Gateway serves the clients of one Redis.
type Gateway struct {
	n        *neighbor.Neighbor
	o        Options
	store    leases.Store
	count    counts
	desk     *desk
	pub      *publisher
	closer   *closer
	ender    *leased.Ender
	sweep    *leased.Sweep
	taker    *taker.Taker
	events   *events.Events    // nil: the program hears no listeners
	webhooks *webhook.Webhooks // nil: and of no webhooks
	reserved reserved
	search   searches
	releases releases
	classes  *classes
	pusher   producer.Client
	address  string // where clients reach this server; "": it is not known

	ctx    context.Context // of the connections; ends when Stop is over
	cancel context.CancelFunc

	mu      sync.Mutex
	started bool
	calls   int           // that talk to Redis
	idle    chan struct{} // closed when a stop waits for no call any more
	closed  bool          // no call is begun any more
}

// New returns a Gateway that has not started.
func New(n *neighbor.Neighbor, o Options) *Gateway {
	if o.Server == "" {
		o.Server = newServer()
	}
	if n.NoHistory {
		o.Classes = nil
	}
	g := &Gateway{n: n, o: o, classes: newClasses(o.Classes), store: leases.New(n.Store), idle: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	g.ender = leased.NewEnder(n.Base, n.Features, leased.Worker(n.Host, os.Getpid()))
	g.sweep = leased.NewSweep(n.Base, g.ender)
	lend := func(ctx context.Context, f func(redis.Conn) error) error {
		return n.Do(ctx, func(_ resque.Store, c redis.Conn) error { return f(c) })
	}
	g.sweep.Alone, g.sweep.Do = true, lend
	g.sweep.Ended = g.sweptUp
	g.pusher = *n.Producer
	g.pusher.Buffer = nil // what is answered as published is in Redis
	g.pusher.Hearer = nil // publish says it
	d := newDesk(n.Clock)
	d.ctx, d.alone = g.ctx, g.alone
	d.server, d.texts, d.count = o.Server, n.Features.Marks(), &g.count
	d.saw, d.now, d.keyOf = g.saw, g.Now, n.Store.KeyOfQueue
	to := &dialer{n: n, store: g.store, signal: d.signal, count: &g.count}
	d.given = g.sweep.Given
	g.taker = taker.New(n.Base, n.Time, taker.Config{
		Taker:    leases.Taker{ID: o.Server, Host: n.Host, PID: os.Getpid(), Version: o.Version, Started: n.Clock.Now()},
		Tracking: n.Tracking, MultiQueue: n.MultiQueue, Do: lend, Now: g.about, NoHistory: n.NoHistory,
	}, g.hearing(lend)...)
	d.took, g.ender.Took = g.taker.Took, g.taker.Took
	d.finished = func(a Ack) {
		class := g.classes.done(a.Queue, a.ID)
		g.taker.History.Done(a.Queue, class)
		g.sayDone(a, class)
	}
	g.ender.Ended = func(j *outcome.Job, o *outcome.Outcome) {
		g.taker.History.EndedOf(g.classes.named[j.Parsed.Class], j, o)
		g.sayEnded(j, o)
	}
	d.dial, d.failed = to.dial, g.outage
	d.unseen = g.unseen
	g.desk = d
	g.closer = newCloser(g)
	d.ends = g.closer.end
	g.pub = newPublisher(g)
	return g
}

// ListensAt says where clients reach this server, for operators. It is called before Start.
func (g *Gateway) ListensAt(address string) { g.address = address }

// about says what operators see of this server.
func (g *Gateway) about(t *leases.Taker) {
	t.Address = g.address
	g.desk.about(t)
}

// Start connects and begins to serve. It returns an error if Redis cannot be reached.
func (g *Gateway) Start(ctx context.Context) error {
	if err := twice(func() error {
		return g.n.Do(ctx, func(s resque.Store, c redis.Conn) error {
			now, err := s.Now(c)
			if err == nil {
				g.saw(now.UnixMilli())
			}
			return err
		})
	}); err != nil {
		return fmt.Errorf("starting to serve clients: %w", err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.started || g.closed {
		return errors.New("the gateway was started before; make another")
	}
	if err := twice(func() error { return g.taker.Start(ctx) }); err != nil {
		return fmt.Errorf("starting to serve clients: %w", err)
	}
	g.started = true
	g.startEvents(ctx)
	_ = g.sweep.Start(ctx)
	go g.desk.run(g.ctx)
	go g.closer.run()
	go g.pub.run()
	return nil
}

// twice calls f once more if its connection broke: it may have been an old one.
func twice(f func() error) error {
	err := f()
	if conn.MustRedial(err) {
		err = f()
	}
	return err
}

// Drain ends all waits at once with no job, and gives no job any more. All other calls go on.
func (g *Gateway) Drain() { g.desk.drain() }

// Stop ends all waits at once with no job, lets the calls under way end, and closes the connections. It takes five
// seconds at most, and less if the context ends.
func (g *Gateway) Stop(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, stopWithin)
	defer cancel()
	defer context.AfterFunc(ctx, g.cancel)()
	g.desk.drain()
	g.mu.Lock()
	first := !g.closed
	if g.closed = true; first && g.calls == 0 {
		close(g.idle)
	}
	started := g.started
	g.mu.Unlock()
	select {
	case <-g.idle:
	case <-ctx.Done():
	}
	if started {
		_ = g.sweep.Stop(ctx)
		_ = g.taker.Stop(ctx)
	}
	g.desk.stop()
	g.pub.stop()
	if started {
		<-g.desk.done
		<-g.pub.done
	}
	g.closer.stop()
	if started {
		<-g.closer.done
		g.stopEvents(ctx)
	}
	if started && first {
		_ = g.n.Do(ctx, func(_ resque.Store, c redis.Conn) error { return g.store.Close(c, g.o.Server) })
	}
	g.cancel()
}

// sweptUp counts how a job has ended whose lease ran out.
func (g *Gateway) sweptUp(_ leases.Job, r leased.Result) {
	switch r.State {
	case outcome.Retried:
		g.count.ranOut.Add(1)
	case outcome.Failed:
		g.count.filed.Add(1)
	case outcome.Expired:
		g.count.expired.Add(1)
	}
}

// begin begins a call, unless Stop was called. The caller ends it.
func (g *Gateway) begin() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed || !g.started {
		return ErrStopping
	}
	g.calls++
	return nil
}

// alone reports whether the caller's call is the only one that does not wait for a job. Then it may talk to Redis in its
// own goroutine: where more come at a time, those goroutines that do nothing else send more at once.
func (g *Gateway) alone() bool {
	g.mu.Lock()
	calls := g.calls
	g.mu.Unlock()
	return calls == 1 || calls-g.desk.waiters() <= 1
}

func (g *Gateway) end() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.calls--; g.calls == 0 && g.closed {
		close(g.idle)
	}
}

// do runs f on a connection of the pool, as a call that Stop waits for.
func (g *Gateway) do(ctx context.Context, f func(c redis.Conn) error) error {
	if err := g.begin(); err != nil {
		return err
	}
	defer g.end()
	return g.n.Do(ctx, func(_ resque.Store, c redis.Conn) error { return f(c) })
}

// saw notes what Redis's clock says.
func (g *Gateway) saw(ms int64) { g.n.Time.Saw(time.UnixMilli(ms)) }

// outage notes why Redis does not answer the desk; nil: it does.
func (g *Gateway) outage(err error) {
	switch {
	case err == nil:
		g.n.Outages.OK(owner)
	case errors.Is(err, errRetrack), g.ctx.Err() != nil:
	default:
		g.count.failed(g.n.Clock.Now(), err)
		g.n.Outages.Fail(owner, err)
	}
}

// Now returns Redis's time in ms, as of the latest answer.
func (g *Gateway) Now() int64 { return g.n.Time.Now().UnixMilli() }

// Stats returns the numbers of this Gateway.
func (g *Gateway) Stats() Stats {
	c := &g.count
	s := Stats{
		Turns: c.turns.Load(), Lost: c.lost.Load(), Published: c.published.Load(), Reserved: c.reserved.Load(), Acked: c.acked.Load(),
		Released: c.released.Load(), Retried: c.retried.Load(), RanOut: c.ranOut.Load(), Filed: c.filed.Load(), Expired: c.expired.Load(), Searches: c.searches.Load(),
	}
	c.mu.Lock()
	s.LastTurn, s.TurnTook, s.Tracking, s.AwaySince = c.last, c.took, c.track, c.away
	c.mu.Unlock()
	s.Waiters = g.desk.waiters()
	return s
}

// Healthy returns why this server does not serve its clients; nil: it does, or Redis has been away for a moment only, which no
// restart of the server mends.
func (g *Gateway) Healthy() error {
	g.mu.Lock()
	serves := g.started && !g.closed
	g.mu.Unlock()
	if !serves {
		return ErrStopping
	}
	g.count.mu.Lock()
	why, away := g.count.why, g.count.away
	g.count.mu.Unlock()
	if why != nil && clock.Since(g.n.Clock, away) > silentFor {
		return fmt.Errorf("redis does not answer: %w", why)
	}
	if since := g.desk.silent(); since > silentFor {
		return fmt.Errorf("redis has not answered for %s", since.Round(time.Second))
	}
	return nil
}
