package goworker

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
)

// ResqueRetry makes Retry count as the Ruby plugin resque-retry does, so that Ruby and
// Go may run the same jobs in turns and neither retries more often than was agreed. Give
// Retry the limit and the delays that the Ruby class has:
//
//	goworker.Retry(6, goworker.ResqueDelays(), goworker.ResqueRetry{})
//
// The count is then not in the job's payload but in resque-retry's key of its class and
// arguments, which all equal jobs share. A retried run counts as processed and failed.
// Its job waits, for whole seconds, in resque-scheduler's schedule, where either
// scheduler finds it; a job that has more than class and arguments waits in goworker's
// own. A run's beginning costs a round trip to Redis, which runs that begin at the same
// time share.
type ResqueRetry struct {
	// Ruby34 is for applications on Ruby 3.4 or newer. There the key of jobs with a hash
	// among their arguments differs.
	Ruby34 bool

	// NoFailureKey leaves no record of a retried failure. By default its record is kept
	// while the job waits, where resque-retry's MultipleWithRetrySuppression keeps it and
	// resque-web's tab of retries shows it.
	NoFailureKey bool

	// ExpireAfter is the Ruby class's expire_retry_key_after, in whole seconds; a fraction
	// counts as one more. The count of a job that is to be retried expires that long after
	// the job is due again, so that the count of a job that never comes to its end does not
	// stay for ever. It must be longer than a job that is due waits for a worker and runs:
	// a count that has expired begins at 0 again. 0 sets no expiry and leaves one that Ruby
	// has set. A negative one makes Retry panic.
	ExpireAfter time.Duration
}

func (r ResqueRetry) retry(p *retryPolicy) error {
	p.once("how retries are counted", "ResqueRetry")
	if r.ExpireAfter < 0 {
		return fmt.Errorf("ResqueRetry's ExpireAfter is %s; give a time that is not negative, or leave it out", r.ExpireAfter)
	}
	p.ruby = &r
	return nil
}

// key names the count of a job.
func (r ResqueRetry) key(d *Delivery) resque.RetryKey {
	return resque.NewRetryKey(d.Class, d.Args, r.Ruby34)
}

// count asks for a job's count as resque-retry has it, and waits for Redis where it is
// away. The error is that of the context, or says that the count is no count.
func (w *workers) count(ctx context.Context, d *Delivery) error {
	r := &resque.RetryCount{Key: d.retry.ruby.key(d)}
	if err := w.counter.read(ctx, r); err != nil {
		return &failure.Cancelled{Cause: context.Cause(ctx), Err: err}
	}
	if r.Err != nil {
		d.retry = nil // the job's end leaves alone what stands under the key
		return r.Err
	}
	d.count = r
	d.Attempt = r.Retries + 1
	d.RetriesLeft = d.retry.left(d.Attempt)
	return nil
}

// retryAsRuby adds to an outcome what resque-retry does in such a case.
func (w *workers) retryAsRuby(o *outcome, n int, d *Delivery, now, at time.Time, err error) {
	store, key, wait, t := w.d.store, d.count.Key, at.Sub(now), o.task
	o.Counts = resque.CountsFailed
	o.Effects = append(o.Effects, store.SetCount(key, d.count.Retries, wait, d.retry.ruby.ExpireAfter))
	if wait < time.Second { // Ruby knows no less
		w.requeue(o, d, t.Payload, now, now)
		return
	}
	if !d.retry.ruby.NoFailureKey {
		f, _ := w.failure(n, t, err)
		f.FailedAt = resque.FailedAtWithoutZone(time.Now())
		o.Effects = append(o.Effects, store.HoldFailure(key, f.Encode(), wait))
	}
	if delayed, plain := store.DelayPlain((millis(at)+999)/1000, t.Queue, t.Payload); plain {
		o.Effects = append(o.Effects, delayed...)
		return
	}
	w.requeue(o, d, nextAttempt(t.Payload), now, at)
}

// retryCounter reads the counts of runs that begin. Those that ask while it waits for an
// answer share the next round trip.
type retryCounter struct {
	store   resque.Store
	outages *logging.Outages

	mu      sync.Mutex
	waiting []*counting

	sending sync.Mutex
	line    conn.Line // guarded by sending
}

type counting struct {
	count *resque.RetryCount
	done  bool // guarded by sending, as err
	err   error
}

func newRetryCounter(d *Daemon) retryCounter {
	return retryCounter{store: d.store, outages: d.outages, line: conn.Line{Dialer: d.dialer, Limit: part.ReplyWithin}}
}

// read waits for an answer as long as the context lets it.
func (c *retryCounter) read(ctx context.Context, r *resque.RetryCount) error {
	var retry part.Backoff
	for {
		err := c.try(ctx, r)
		if err == nil {
			c.outages.OK("retries")
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.outages.Fail("retries", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retry.Next()):
		}
	}
}

func (c *retryCounter) try(ctx context.Context, r *resque.RetryCount) error {
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
	err := c.line.Do(ctx, func(conn redis.Conn) error { return c.store.ReadCounts(conn, counts) })
	for _, one := range all {
		one.done, one.err = true, err
	}
	return err
}

func (c *retryCounter) close() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.line.Close()
}
