// Package producer writes the jobs of a program into Redis.
package producer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// Client writes to one Redis on the connections of a pool. It is safe for concurrent use.
type Client struct {
	Pool    *conn.Pool
	Store   resque.Store
	Retries time.Duration // how long it retries while another server is about to take the writes
}

// Do runs f on a connection of the pool.
func (c *Client) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return c.Pool.Do(ctx, func(conn redis.Conn) error { return f(c.Store, conn) })
}

// Push pushes jobs to the tails of their queues. Send says how it retries.
func (c *Client) Push(b *resque.Bulk) error {
	return c.Send(func(conn redis.Conn) error { return c.Store.PushBulk(conn, b) })
}

// Put adds jobs to the schedule that only goworker knows, or pushes them if they are due.
func (c *Client) Put(b *resque.Bulk, at time.Time) error {
	if !at.After(clock.System.Now()) {
		return c.Push(b)
	}
	return c.Send(func(conn redis.Conn) error { return c.Store.Schedule(conn, b, at) })
}

// Delay adds jobs to resque-scheduler's schedule, or pushes them if they are due.
func (c *Client) Delay(b *resque.Bulk, at time.Time) error {
	if !at.After(clock.System.Now()) {
		return c.Push(b)
	}
	return c.Send(func(conn redis.Conn) error { return c.Store.Delay(conn, b, at) })
}

// Send runs f, which must do all or nothing, and retries it while Redis answers that another server
// takes the writes, now or soon. Such an answer means that nothing was written; a fail-over or a slot
// that moves is over in seconds. Send returns any other error at once: the jobs may have been written.
func (c *Client) Send(f func(redis.Conn) error) error {
	giveUp := clock.System.Now().Add(c.Retries)
	var retry part.Backoff
	for {
		err := c.Pool.Do(context.Background(), f)
		if err == nil || !conn.Elsewhere(err) {
			return prefix.Of(err)
		}
		wait := retry.Next()
		if clock.System.Now().Add(wait).After(giveUp) {
			return prefix.Of(err)
		}
		clock.Sleep(clock.System, wait)
	}
}

// Job is a job to be enqueued.
type Job struct {
	Queue, Class string
	Args         []any
}

// ErrNoJob is returned for a job without a queue or a class.
var ErrNoJob = errors.New("a job to be enqueued needs a queue and a class")

// Check returns ErrNoJob for a job without a queue or a class.
func (j Job) Check() error {
	if j.Queue == "" || j.Class == "" {
		return ErrNoJob
	}
	return nil
}

// Add encodes a job, with further fields, into a bulk.
func (j Job) Add(b *resque.Bulk, fields ...payload.Field) error {
	if err := j.Check(); err != nil {
		return err
	}
	return j.Wrap(b.Add(j.Queue, j.Class, j.Args, fields...))
}

// Wrap names the job's class in an error about it.
func (j Job) Wrap(err error) error {
	if err != nil {
		err = fmt.Errorf("enqueueing %s: %w", j.Class, err)
	}
	return err
}

// Unsent returns the error of a call that wrote nothing because of its i-th job.
func Unsent(err error, i, jobs int) error {
	if jobs > 1 {
		err = fmt.Errorf("job %d of %d: %w", i+1, jobs, err)
	}
	return prefix.Errorf("%w; nothing was enqueued", err)
}
