package goworker

import (
	"context"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

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
// time share; a job killed with its process, or given back at a stop, is not counted
// twice.
type ResqueRetry struct {
	// Ruby34 is for applications on Ruby 3.4 or newer. There the key of jobs with a hash
	// among their arguments differs.
	Ruby34 bool

	// NoFailureKey leaves no record of a retried failure. By default its record is kept
	// while the job waits, where resque-retry's MultipleWithRetrySuppression keeps it and
	// resque-web's tab of retries shows it.
	NoFailureKey bool
}

func (r ResqueRetry) retry(p *retryPolicy) error {
	p.ruby = &r
	return nil
}

// count begins a run as resque-retry counts it, and waits for Redis where it is away.
// The error is that of the context, or says that the count is no count.
func (w *workers) count(ctx context.Context, t *task, d *Delivery) error {
	r := &resque.CountedRun{
		Key:   resque.NewRetryKey(d.Class, d.Args, d.retry.ruby.Ruby34),
		Again: t.deaths > 0,
	}
	if err := w.counter.count(ctx, r); err != nil {
		return &cancelledError{cause: context.Cause(ctx), err: err}
	}
	if r.Err != nil {
		return r.Err
	}
	d.count = r
	d.Attempt = r.Retries + 1
	d.RetriesLeft = d.retry.left(d.Attempt)
	d.after = append(d.after, w.d.store.DropCount(r.Key))
	return nil
}

// uncount takes a run back that a stop cut short. If Redis does not answer, it counts.
func (w *workers) uncount(d *Delivery) {
	if d.count == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), uncountWithin)
	defer cancel()
	if err := w.counter.uncount(ctx, d.count.Key); err != nil {
		w.logger.Warn("could not take back the count of a run that was interrupted; it counts as a retry", "class", d.Class, "error", err)
	}
}

// uncountWithin is less than what a stop leaves to handlers that were cancelled.
const uncountWithin = cancelGrace / 2

// retryAsRuby adds to a commit what resque-retry does in such a case.
func (w *workers) retryAsRuby(s *settlement, n int, t *task, d *Delivery, wait time.Duration, at time.Time, err error) {
	store, key := w.d.store, d.count.Key
	s.counts = resque.CountsFailed
	s.effects = []resque.Effect{store.KeepCount(key)}
	if wait < time.Second { // Ruby knows no less
		s.effects, s.to = append(s.effects, store.PushTail(t.Queue, t.Payload)...), t.Queue
		return
	}
	if !d.retry.ruby.NoFailureKey {
		f, _ := w.failure(n, t, err)
		f.FailedAt = resque.FailedAtWithoutZone(time.Now())
		s.effects = append(s.effects, store.HoldFailure(key, f.Encode(), wait))
	}
	delayed, plain := store.DelayPlain((millis(at)+999)/1000, t.Queue, t.Payload)
	if !plain {
		delayed = []resque.Effect{store.ScheduleAt(millis(at), t.Queue, nextAttempt(t.Payload))}
	}
	s.effects = append(s.effects, delayed...)
}

// runCounter asks Redis for the counts of runs that begin. Those that ask while it waits
// for an answer share the next round trip.
type runCounter struct {
	store   resque.Store
	outages *outages

	mu      sync.Mutex
	waiting []*counting

	sending sync.Mutex
	line    line // guarded by sending
}

type counting struct {
	run  *resque.CountedRun
	done bool // guarded by sending, as err
	err  error
}

func newRunCounter(d *Daemon) runCounter {
	return runCounter{store: d.store, outages: d.outages, line: line{dialer: d.dialer, limit: renewWithin}}
}

// count waits for an answer as long as the context lets it.
func (c *runCounter) count(ctx context.Context, r *resque.CountedRun) error {
	var retry backoff
	for {
		err := c.try(ctx, r)
		if err == nil {
			c.outages.ok("retries")
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.outages.fail("retries", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retry.next()):
		}
	}
}

func (c *runCounter) try(ctx context.Context, r *resque.CountedRun) error {
	mine := &counting{run: r}
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
	runs := make([]*resque.CountedRun, len(all))
	for i, one := range all {
		runs[i] = one.run
	}
	err := c.line.do(ctx, func(conn redis.Conn) error { return c.store.CountRuns(conn, runs) })
	for _, one := range all {
		one.done, one.err = true, err
	}
	return err
}

func (c *runCounter) uncount(ctx context.Context, key resque.RetryKey) error {
	c.sending.Lock()
	defer c.sending.Unlock()
	return c.line.do(ctx, func(conn redis.Conn) error { return c.store.UncountRun(conn, key) })
}

func (c *runCounter) close() {
	c.sending.Lock()
	defer c.sending.Unlock()
	c.line.close()
}
