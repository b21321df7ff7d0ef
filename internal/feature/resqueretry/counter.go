package resqueretry

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// readWithin bounds one attempt to read counts.
const readWithin = 2 * time.Second

// counter reads the counts of runs that begin. Those that ask while it waits for an answer share the
// next round trip.
type counter struct {
	part.Base

	mu      sync.Mutex
	waiting []*counting

	sending sync.Mutex
	line    conn.Line // guarded by sending
}

type counting struct {
	count *resque.RetryCount
	done  bool // guarded by counter.sending, as err
	err   error
}

func newCounter(d outcome.Deps) *counter { return &counter{Base: d.Base, line: d.Line(readWithin)} }

// read waits for an answer as long as the context lets it.
func (c *counter) read(ctx context.Context, r *resque.RetryCount) error {
	var retry part.Backoff
	for {
		err := c.try(ctx, r)
		if err == nil {
			c.Outages.OK("retries")
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.Outages.Fail("retries", err)
		timer := c.Clock.NewTimer(retry.Next())
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C():
		}
	}
}

func (c *counter) try(ctx context.Context, r *resque.RetryCount) error {
	mine := &counting{count: r}
	c.mu.Lock()
	c.waiting = append(c.waiting, mine)
	c.mu.Unlock()

	c.sending.Lock()
	defer c.sending.Unlock()
	if mine.done {
		return mine.err
	}
	c.mu.Lock()
	all := c.waiting
	c.waiting = nil
	c.mu.Unlock()
	counts := make([]*resque.RetryCount, len(all))
	for i, one := range all {
		counts[i] = one.count
	}
	err := c.line.Do(ctx, func(conn redis.Conn) error { return c.Store.ReadCounts(conn, counts) })
	for _, one := range all {
		one.done, one.err = true, err
	}
	return err
}

// Close closes the connection.
func (c *counter) Close() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.line.Close()
}
