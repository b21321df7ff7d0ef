package gateway

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/leased"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/leases"
)

const (
	// closeMost is how many ends are committed at a time.
	closeMost = 256

	// closeWithin is how long it is tried to commit ends. After that their leases run out, and the sweep ends them.
	closeWithin = 10 * time.Second
)

// closer commits the ends of jobs that no client has: what was found expired, done or cancelled when it was taken, and
// what goes back because its client has gone. Its goroutine, run, does that beside the desk.
type closer struct {
	g      *Gateway
	signal chan struct{}
	quit   chan struct{}
	done   chan struct{}

	mu      sync.Mutex
	ends    []leased.End
	stopped bool
}

func newCloser(g *Gateway) *closer {
	return &closer{g: g, signal: make(chan struct{}, 1), quit: make(chan struct{}), done: make(chan struct{})}
}

// end has jobs ended, in their order. It does not wait.
func (c *closer) end(ends ...leased.End) {
	if len(ends) == 0 {
		return
	}
	c.mu.Lock()
	c.ends = append(c.ends, ends...)
	c.mu.Unlock()
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

func (c *closer) take() []leased.End {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := min(len(c.ends), closeMost)
	ends := append([]leased.End(nil), c.ends[:n]...)
	c.ends = drop(c.ends, n)
	return ends
}

// run commits ends until stop is called and none is left.
func (c *closer) run() {
	defer close(c.done)
	for {
		if ends := c.take(); len(ends) > 0 {
			c.commit(ends)
			continue
		}
		select {
		case <-c.signal:
		case <-c.quit:
			if ends := c.take(); len(ends) > 0 {
				c.commit(ends)
				continue
			}
			return
		}
	}
}

// stop has run end. It does not wait for that.
func (c *closer) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped {
		c.stopped = true
		close(c.quit)
	}
}

// commit commits ends. A job whose lease has changed is left alone, so that an end can be committed twice.
func (c *closer) commit(ends []leased.End) {
	ctx, cancel := context.WithTimeout(c.g.ctx, closeWithin)
	defer cancel()
	var retry part.Backoff
	for {
		err := c.g.n.Do(ctx, func(_ resque.Store, conn redis.Conn) error {
			results, err := c.g.ender.End(ctx, conn, ends)
			c.count(ends, results)
			ends = ends[len(results):]
			return err
		})
		if err == nil {
			return
		}
		timer := c.g.n.Clock.NewTimer(retry.Next())
		select {
		case <-timer.C():
		case <-c.quit: // one attempt after a stop is enough: the leases run out
			timer.Stop()
			return
		case <-ctx.Done():
			timer.Stop()
			c.g.n.Log.Warn("jobs that were taken for clients could not be given back; their leases run out", "jobs", len(ends), "error", err)
			return
		}
	}
}

func (c *closer) count(ends []leased.End, results []leased.Result) {
	for i, r := range results {
		switch {
		case r.Err != nil:
			c.g.n.Log.Error("a job that was taken for a client could not be ended; its lease runs out", "queue", ends[i].Queue, "error", r.Err)
		case !r.Ended:
		case r.State == outcome.Expired:
			c.g.count.expired.Add(1)
		case r.State == outcome.Returned:
			c.g.count.released.Add(1)
		}
	}
}

// unseen puts jobs back that a turn has reserved whose answer was lost.
func (g *Gateway) unseen(ctx context.Context, jobs []leases.Job) error {
	ctx, cancel := context.WithTimeout(ctx, part.ReplyWithin)
	defer cancel()
	return g.n.Do(ctx, func(_ resque.Store, c redis.Conn) error {
		held, err := g.store.Held(c, jobs)
		if err != nil {
			return err
		}
		var ends []leased.End
		for _, j := range slices.Backward(held) { // the last first, so that they keep their order at the head
			ends = append(ends, endOf(j, leased.Unseen))
		}
		_, err = g.ender.End(ctx, c, ends)
		return err
	})
}
