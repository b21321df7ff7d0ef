package goworker

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// again decides what becomes of a job whose handler did not end well, and tells the
// hooks. Nil: it failed for good with the error returned, or was cut short by a stop
// and goes back to its queue. It is called in the worker's goroutine; d is nil for a
// payload that is no job.
func (w *workers) again(ctx context.Context, n int, t *task, d *Delivery, err error) (*ending, error) {
	if d == nil || failure.Interrupted(err) {
		return nil, err
	}
	wish, after := failure.Wished(err)
	if wish.Kind == failure.WishDiscard {
		w.d.hooks.discarded(ctx, d, err)
		return &ending{outcome: w.ended(t, d, resque.Dropped), level: slog.LevelWarn, message: "job discarded"}, err
	}
	wait, retry, err := d.retry.decide(d.Attempt, wish, after, err)
	if !retry {
		w.d.hooks.failed(ctx, d, err)
		return nil, err
	}
	s, at := w.retry(n, t, d, wait, err)
	w.d.hooks.retried(ctx, d, err, at)
	return s, err
}

// decide says whether a job whose attempt-th run failed is retried, and after
// which wait. It calls the program's functions: one that panics makes the job fail for
// good, with an error that says so. It may be called on nil, the policy of a class
// without Retry.
func (p *retryPolicy) decide(attempt int, wish failure.Wish, after time.Duration, failed error) (wait time.Duration, retry bool, err error) {
	err = failed
	defer func() {
		if v := recover(); v != nil {
			wait, retry, err = 0, false, fmt.Errorf("%w (deciding about a retry panicked: %v)", failed, v)
		}
	}()
	asked := wish.Kind == failure.WishRetry
	if p == nil && asked {
		p = &askedFor
	}
	if p == nil || wish.Kind == failure.WishFail || p.left(attempt) == 0 || !asked && !p.allows(err) {
		return 0, false, err
	}
	switch {
	case asked:
		wait = wish.Wait
	case after > 0:
		wait = after
	default:
		wait = p.delay(attempt, err)
	}
	return min(wait, longestWait), true, err
}

// retry makes the commit of a failed run whose job runs again after a wait: at the end
// of its queue, or in the schedule until then.
func (w *workers) retry(n int, t *task, d *Delivery, wait time.Duration, err error) (*ending, time.Time) {
	now := w.lease.Now()
	at := now.Add(max(wait, 0))
	e := &ending{
		outcome: w.ended(t, d, resque.GoesOn), level: slog.LevelWarn, message: "job failed; it is retried",
		attrs: []slog.Attr{slog.Int("attempt", d.Attempt), slog.Time("at", at)},
	}
	if d.count != nil {
		w.retryAsRuby(&e.outcome, n, d, now, at, err)
	} else {
		w.requeue(&e.outcome, d, nextAttempt(t.Payload), now, at)
	}
	return e, at
}

// requeue adds to an outcome that the job goes on with this payload, now or later, and with
// it the lock that it has.
func (w *workers) requeue(o *outcome, d *Delivery, payload []byte, now, at time.Time) {
	queue := o.task.Queue
	o.Effects = append(o.Effects, d.lock.moved(w.d.store, now, at, queue, payload)...)
	if at.After(now) {
		o.Effects = append(o.Effects, w.d.store.ScheduleAt(millis(at), queue, payload))
		return
	}
	o.Effects = append(o.Effects, w.d.store.PushTail(queue, payload)...)
}

// millis rounds up: nothing runs before its time.
func millis(t time.Time) int64 { return t.Add(time.Millisecond - 1).UnixMilli() }

// nextAttempt is the payload of a job's next run: its attempt counted, and with
// something that no other job's payload has, since the schedule takes equal ones for
// one. An id does not suffice where its producer gave it: nothing keeps him from
// pushing the same job twice.
func nextAttempt(raw []byte) []byte {
	p, err := payload.Parse(raw)
	if err != nil {
		return raw // it was parsed before it ran
	}
	fields := []payload.Field{payload.NumberField("attempt", int64(p.Attempt)+1)}
	switch {
	case p.ID == "":
		fields = append(fields, payload.TextField("id", payload.NewID()))
	case p.Attempt == 1:
		fields = append(fields, payload.TextField("retry_id", payload.NewID()))
	}
	next, err := payload.SetFields(raw, fields...)
	if err != nil {
		return raw
	}
	return next
}
