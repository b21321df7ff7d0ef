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
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// Client writes to one Redis on the connections of a pool. It is safe for concurrent use.
type Client struct {
	Pool       *conn.Pool
	Store      resque.Store
	Retries    time.Duration // how long it retries while another server is about to take the writes
	Style      payload.Style // how jobs are encoded
	MaxPayload int           // bytes; a job of more is refused; 0: resque.MaxPushBytes

	Coalescer *Coalescer // has pushes of one job go together; nil: each goes alone

	Types *resque.Types // has many plain jobs of one queue pushed without a script; nil: a script pushes them

	Spares *Spares // calls that are used again; nil: each call is a new one

	Buffer *Buffer     // keeps calls while Redis is away; nil: none does
	Clock  clock.Clock // of a test, by which jobs are for later; nil: the system's

	Releases *Releases // of the processes of the fleet; nil: they are not looked at

	Meter *meter.Meter // counts what is enqueued; nil: nothing does

	// Soft is called for each soft effect that Redis refused: its job was pushed. It may be nil.
	Soft func(resque.KeyError)

	// Hearer hears of the jobs that were pushed; nil: none does.
	Hearer Hearer

	// Sent is called after each call of which jobs were pushed, with these; nil: nothing keeps them.
	Sent func([]Sent)
}

// Hearer hears of jobs that were pushed. It does not wait.
type Hearer interface {
	Wants() bool // a call that begins while it is false is not heard of
	Enqueued(queue, class, id string)
}

// Do runs f on a connection of the pool.
func (c *Client) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	return c.Pool.Do(ctx, func(conn redis.Conn) error { return f(c.Store, conn) })
}

// send runs f, which must do all or nothing, and retries it while Redis answers that another server
// takes the writes, now or soon. Such an answer means that nothing was written; a fail-over or a slot
// that moves is over in seconds. send returns any other error at once: the jobs may have been written. It
// waits no longer than the context lasts.
func (c *Client) send(ctx context.Context, f func(redis.Conn) error) error {
	giveUp := clock.System.Now().Add(c.Retries)
	var retry part.Backoff
	var last error
	for {
		err := c.Pool.Do(ctx, f)
		switch {
		case err == nil:
			return nil
		case !conn.Elsewhere(err):
			if last != nil && ctx.Err() != nil {
				err = fmt.Errorf("%w; before that no server took the writes: %w", err, last)
			}
			return prefix.Of(err)
		}
		last = err
		wait := retry.Next()
		if clock.System.Now().Add(wait).After(giveUp) {
			return prefix.Of(err)
		}
		if !sleep(ctx, wait) {
			return fmt.Errorf("redis: the call's context ended while no server took the writes (%w): %w", conn.WhyEnded(ctx), err)
		}
	}
}

// sleep waits, and reports whether the context lasted that long.
func sleep(ctx context.Context, d time.Duration) bool {
	t := clock.System.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C():
		return true
	case <-ctx.Done():
		return false
	}
}

// ErrUnconfirmed is in the chain of an error after which jobs may be in their queues: the call was sent, and
// the connection or the context ended before Redis had answered.
var ErrUnconfirmed = prefix.New("Redis had the call and its answer did not come: the jobs may be in their queues")

// unconfirmed marks an error without changing what it says.
type unconfirmed struct{ error }

func (u unconfirmed) Unwrap() []error { return []error{u.error, ErrUnconfirmed} }

// Exception has failure tools see the error inside.
func (unconfirmed) Exception() string { return "" }

// Unconfirmed reports whether the jobs of a call with this error may be in their queues. Otherwise none is,
// unless the error is a *resque.ReplicasError: then all are.
func Unconfirmed(err error) bool { return errors.Is(err, ErrUnconfirmed) }

// Explain says of an error of a call without receipts whether its jobs may be in their queues.
func Explain(err error, jobs int) error {
	switch {
	case err == nil:
		return nil
	case !Unconfirmed(err):
		return prefix.Errorf("%w; nothing was enqueued", err)
	case jobs > 1:
		return prefix.Errorf("%w; the jobs may be in their queues", err)
	}
	return prefix.Errorf("%w; the job may be in its queue", err)
}

// ErrNoJob is returned for a job without a queue or a class.
var ErrNoJob = errors.New("a job to be enqueued needs a queue and a class")

// Unsent returns the error of a call that wrote nothing because of its i-th job.
func Unsent(err error, i, jobs int) error {
	if jobs > 1 {
		err = fmt.Errorf("job %d of %d: %w", i+1, jobs, err)
	}
	return prefix.Errorf("%w; nothing was enqueued", err)
}

// CheckMany returns the error of a call that wrote nothing because of so many jobs. It refuses them before they
// are encoded.
func CheckMany(jobs int) error {
	if err := resque.CheckPush(jobs); err != nil {
		return Unsent(err, 0, 1)
	}
	return nil
}

// About names the class of a job in an error about it.
func About(class string, err error) error { return fmt.Errorf("enqueueing %s: %w", class, err) }
