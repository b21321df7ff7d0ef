package producer

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// Bounds of what goes to Redis together.
const (
	mostTogether      = 256     // jobs
	mostTogetherBytes = 1 << 20 // of them
	mostOneBytes      = 64 << 10
)

const (
	// patience is how long Redis takes for a call at most while pushes wait for the call before theirs. Where it takes longer, as over
	// a slow link or while it stands still, further calls are made beside that one.
	patience = time.Millisecond
	// mostBeside is how many calls there are at the same time then. Each takes a connection of the pool.
	mostBeside = 4
)

// Coalescer has pushes of one job each go to Redis together. A push that finds no other under way is sent at once, by its own
// goroutine. Those that come meanwhile wait for the end of that one, and then go in one call. Each caller gets its own answer: if
// Redis refuses a call of several, each of them is sent alone.
//
// It has a goroutine only while pushes wait. All methods are safe for concurrent use.
type Coalescer struct {
	mu      sync.Mutex
	waiting []*rider  // in the order in which they came
	calls   int       // under way
	began   time.Time // the last of them
	slow    bool      // the last call that ended took longer than patience
	came    uint64    // riders, in all
	spare   *ride     // to be used again; nil: there is none
}

// rider is a push that goes with others. It is part of its call.
type rider struct {
	*Call
	client *Client
	place  uint64
	came   time.Time
	with   *ride      // nil: not sent
	done   chan error // has room for one: what Redis said, or errAlone
}

// ride is a call of several pushes. Its memory is used for one call after the other.
type ride struct {
	all  []*rider
	jobs resque.Together

	// Guarded by the mutex of the Coalescer.
	hear int        // callers that wait for the answer
	on   redis.Conn // nil: the call is over, or given up
	lost bool       // the last caller has left, and the connection is being closed
}

// joins reports whether a call may go with others.
func (c *Call) joins() bool { return c.bulk.Single() && c.bulk.Size() <= mostOneBytes }

// push pushes the job of a call, with others where others come too. left says that the context has ended before the answer came: the
// call is then the other goroutine's, which may still read it.
func (g *Coalescer) push(ctx context.Context, c *Client, call *Call) (left bool, err error) {
	r := g.enter(ctx, c, call)
	if r == nil {
		failed := true // also where a dialer panics
		defer func() { g.end(failed) }()
		err = c.push(ctx, call)
		failed = err != nil && !call.bulk.Done() && conn.Classify(err) == conn.KindConn
		return false, err
	}
	select {
	case err = <-r.done:
	case <-ctx.Done():
		if left, err = g.leave(ctx, r); left {
			return true, err
		}
	}
	if err == errAlone {
		err = c.push(ctx, call)
	}
	return false, err
}

// enter returns nil if the caller is to send the call now, and end is called after it.
func (g *Coalescer) enter(ctx context.Context, c *Client, call *Call) *rider {
	now := clock.System.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	beside := g.calls > 0 && g.calls < mostBeside && g.calls < c.Pool.Capacity() && (g.slow || now.Sub(g.began) > patience)
	if g.calls == 0 || beside && len(g.waiting) == 0 || ctx.Err() != nil {
		g.calls++
		g.began = now
		return nil
	}
	g.came++
	r := &call.rider
	if r.done == nil {
		r.done = make(chan error, 1)
	}
	r.Call, r.client, r.place, r.came, r.with = call, c, g.came, now, nil
	g.waiting = append(g.waiting, r)
	if beside {
		g.calls++
		g.began = now
		go g.run()
	}
	return r
}

// end is called when a call is over that a push has made for itself.
func (g *Coalescer) end(failed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.slow = clock.Since(clock.System, g.began) > patience
	switch {
	case failed: // those that wait need not wait for another attempt
		g.scatter(g.came, nil)
	case len(g.waiting) > 0:
		g.began = clock.System.Now()
		go g.run()
		return
	}
	g.calls--
}

// scatter sends away all pushes that wait: those up to a place with an error, the others to be sent alone. The caller holds the mutex.
func (g *Coalescer) scatter(upTo uint64, err error) {
	for _, r := range g.waiting {
		if err != nil && r.place <= upTo {
			r.done <- err
		} else {
			r.done <- errAlone
		}
	}
	clear(g.waiting)
	g.waiting = g.waiting[:0]
}

// leave takes away a push whose context has ended, unless its answer is there.
func (g *Coalescer) leave(ctx context.Context, r *rider) (left bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case err := <-r.done:
		return false, err
	default:
	}
	why := conn.Interrupted(ctx, clock.Since(clock.System, r.came), r.with != nil)
	if r.with == nil {
		g.waiting = slices.DeleteFunc(g.waiting, func(other *rider) bool { return other == r })
		return true, prefix.Of(why)
	}
	if r.with.hear--; r.with.hear == 0 && r.with.on != nil {
		go r.with.on.Close() // by TLS it may wait
		r.with.on, r.with.lost = nil, true
	}
	return true, unconfirmed{prefix.Of(r.bulk.About(why))}
}

// run makes calls of what waits, until nothing does.
func (g *Coalescer) run() {
	g.mu.Lock()
	with := g.spare
	g.spare = nil
	g.mu.Unlock()
	if with == nil {
		with = new(ride)
	}
	for {
		g.mu.Lock()
		if len(g.waiting) == 0 {
			g.calls--
			with.jobs.Reset(nil)
			g.spare = with
			g.mu.Unlock()
			return
		}
		c, upTo := g.waiting[0].client, g.came
		g.mu.Unlock()

		n := 0
		err := func() (err error) {
			defer func() {
				if n == 0 && recover() != nil { // the program's Dialer has: let it do so where each caller dials for itself
					err = errAlone
				}
			}()
			return c.Pool.Do(context.Background(), func(on redis.Conn) error {
				g.take(with, c.Types, on)
				n = len(with.all)
				defer g.over(with, on)
				return g.ride(on, c, with)
			})
		}()

		g.mu.Lock()
		g.slow = clock.Since(clock.System, g.began) > patience
		g.began = clock.System.Now()
		if n == 0 && err != nil {
			if err == errAlone || conn.Elsewhere(err) {
				err = nil // each of them waits for the other server, as long as its context lasts
			}
			g.scatter(upTo, prefix.Of(err))
		}
		several := n > 1 || len(g.waiting) > 0
		g.mu.Unlock()
		if several {
			runtime.Gosched() // those that have their answers may push again, and go in the next call
		}
	}
}

// take takes pushes off that go in one call on a connection.
func (g *Coalescer) take(with *ride, types *resque.Types, on redis.Conn) {
	with.jobs.Reset(types)
	with.all = with.all[:0]
	g.mu.Lock()
	defer g.mu.Unlock()
	bytes := 0
	rest := g.waiting[:0]
	for _, r := range g.waiting {
		if len(with.all) == mostTogether || bytes+r.bulk.Size() > mostTogetherBytes || !with.jobs.Add(&r.bulk) {
			rest = append(rest, r)
			continue
		}
		bytes += r.bulk.Size()
		r.with = with
		with.all = append(with.all, r)
	}
	clear(g.waiting[len(rest):])
	g.waiting = rest
	with.hear, with.on, with.lost = len(with.all), on, false
	g.began = clock.System.Now()
}

// over is called when a call is over, before its connection is given back. A connection that is being closed serves no other call.
func (g *Coalescer) over(with *ride, on redis.Conn) {
	g.mu.Lock()
	lost := with.lost
	with.on = nil
	g.mu.Unlock()
	clear(with.all)
	if lost {
		_ = on.Close()
	}
}

// ride pushes the jobs of several calls on a connection, and answers to their callers.
func (g *Coalescer) ride(on redis.Conn, c *Client, with *ride) (err error) {
	all := with.all
	if len(all) == 0 {
		return nil
	}
	for _, r := range all {
		if err := c.mayPush(on, r.Call); err != nil {
			g.answer(all, nil)
			return err
		}
	}
	errs, soft := c.Store.PushTogether(on, &with.jobs)
	if c.Soft != nil {
		for _, e := range soft {
			c.Soft(e)
		}
	}
	g.answer(all, errs)
	return nil
}

// answer answers to callers; without errs each is to be sent alone.
func (g *Coalescer) answer(all []*rider, errs []error) {
	for i, r := range all {
		err := errAlone
		if errs != nil {
			if err = prefix.Of(errs[i]); err != nil && !r.bulk.Done() && !r.bulk.InDoubt() {
				err = errAlone
			}
		}
		r.done <- err
	}
}

// errAlone tells a caller to send its call by itself: nothing of it was written.
var errAlone = prefix.New("the push is to be sent alone")
