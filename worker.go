package goworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// workerSlot is one worker: what Resque's tools know under one worker id.
type workerSlot struct {
	task      atomic.Pointer[task] // the job in hand; written by the worker, read by the records
	processed atomic.Int64
	failed    atomic.Int64
	told      atomic.Bool // the records have written worker:<id> for the job in hand
	delivery  *Delivery   // of the job in hand; for its worker only
}

// workers are the goroutines that run jobs, one a slot.
//
// A handler that was left behind ends when it likes, perhaps during the daemon's
// next run: what belongs to one run is therefore kept here and not asked of d.
type workers struct {
	d       *Daemon
	logger  *slog.Logger
	poller  *poller
	records *records
	lease   *lease
	counter retryCounter
	slots   []workerSlot
	wg      sync.WaitGroup
}

func newWorkers(d *Daemon, p *poller, r *records) *workers {
	return &workers{
		d: d, logger: d.log, poller: p, records: r, lease: d.lease,
		counter: newRetryCounter(d), slots: make([]workerSlot, d.config.concurrency),
	}
}

func (w *workers) start(context.Context) error {
	for n := range w.slots {
		w.wg.Add(1)
		go w.work(n)
	}
	return nil
}

// stop waits for the workers. The poller has closed their channel; those whose
// handlers did not end are left behind.
func (w *workers) stop(ctx context.Context) error {
	defer w.counter.close()
	done := make(chan struct{})
	go func() {
		w.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	case <-w.poller.left():
	}
	return nil
}

// work is one worker. A handler that ends its goroutine costs its job, and the
// slot goes on in another goroutine.
func (w *workers) work(n int) {
	s := &w.slots[n]
	running := false
	defer func() {
		if !running {
			w.wg.Done()
			return
		}
		t, d := s.task.Load(), s.delivery
		var instead *settlement
		defer func() {
			w.end(n, t, d, instead, ErrGoexit)
			go w.work(n)
		}()
		instead, _ = w.again(t.session.jobs.Load().ctx, n, t, d, ErrGoexit)
	}()
	for t := range w.poller.jobs {
		t.started = time.Now()
		s.task.Store(t)
		w.records.notice()
		running = true
		d, instead, err := w.run(n, t)
		running = false
		w.end(n, t, d, instead, err)
	}
}

// run runs one job and returns its error, and what is known about the job even if
// it could not be run. A settlement instead means that it was not to run here or now, or
// that it failed and is not filed as failed.
func (w *workers) run(n int, t *task) (d *Delivery, instead *settlement, err error) {
	w.slots[n].delivery = nil
	if err := checkSize(t.Payload, w.d.config.maxPayload); err != nil {
		return nil, nil, err
	}
	payload, err := resque.ParsePayload(t.Payload)
	if err != nil {
		return nil, nil, err
	}
	d, err = w.d.registry.prepare(t.Queue, t.Payload, payload)
	d.Worker, d.Recovered, d.ReservedAt = t.session.workers[n], t.deaths, t.reserved
	d.workers = w
	w.slots[n].delivery = d
	if instead := w.admit(t, d, err); instead != nil {
		return d, instead, nil
	}
	if err != nil {
		w.d.hooks.failed(t.session.ctx, d, err)
		return d, nil, err
	}
	ctx := t.session.jobs.Load().ctx
	if d.retry != nil && d.retry.ruby != nil {
		if err := w.count(ctx, d); err != nil {
			if !interrupted(err) {
				w.d.hooks.failed(ctx, d, err)
			}
			return d, nil, err
		}
	}
	w.d.hooks.started(ctx, d)
	d.called = true
	err = d.perform(ctx)
	if err != nil && ctx.Err() != nil {
		err = &cancelledError{cause: context.Cause(ctx), err: err}
	}
	if err != nil {
		instead, err = w.again(ctx, n, t, d, err)
		return d, instead, err
	}
	w.d.hooks.succeeded(ctx, d)
	return d, nil, nil
}

// cancelledError is what a handler returned after its context was cancelled.
type cancelledError struct{ cause, err error }

func (e *cancelledError) Error() string { return fmt.Sprintf("%v: %v", e.cause, e.err) }
func (e *cancelledError) Unwrap() []error {
	return []error{e.err, e.cause}
}

// end hands in what became of a job.
func (w *workers) end(n int, t *task, d *Delivery, instead *settlement, err error) {
	s := &w.slots[n]
	ran := time.Since(t.started)
	o := outcome{task: t, ran: ran, settle: instead, unrun: d == nil || !d.called}
	switch {
	case instead != nil:
		if instead.counts != resque.CountsNothing {
			s.processed.Add(1)
		}
		if instead.counts == resque.CountsFailed {
			s.failed.Add(1)
		}
	case err == nil:
		s.processed.Add(1)
		if len(d.after) > 0 {
			o.settle = &settlement{counts: resque.CountsDone, effects: d.after}
		}
	case interrupted(err):
		o.back = true
	default:
		s.processed.Add(1)
		s.failed.Add(1)
		f, keep := w.failure(n, t, err)
		if o.record, o.keep = f.Encode(), keep; d != nil && len(d.after) > 0 && !keep {
			file := w.d.store.FileFailure(t.Queue, o.record, w.d.config.multiQueueFailures)
			o.settle = &settlement{counts: resque.CountsFailed, effects: append(d.after, file...), moved: true}
		}
	}
	s.task.Store(nil)
	s.delivery = nil
	w.log(t, d, ran, err, o)
	w.poller.finish(o)
	if s.told.Load() {
		w.records.hurry()
	}
}

// interrupted reports whether a handler was cut short by a stop: its job goes back.
func interrupted(err error) bool { return is(err, ErrShutdown) && isContextError(err) }

func isContextError(err error) bool {
	return is(err, context.Canceled) || is(err, context.DeadlineExceeded)
}

// is is errors.Is for what handlers return: it calls methods of the program's
// errors, and those of a nil *T in an error panic.
func is(err, target error) (yes bool) {
	defer func() { _ = recover() }()
	return errors.Is(err, target)
}

// failure is the record of a job that failed, and whether its payload is kept
// elsewhere because the record holds but an excerpt.
func (w *workers) failure(n int, t *task, err error) (f resque.Failure, keep bool) {
	exception, text, trace := describe(err)
	f = resque.Failure{
		FailedAt:  resque.FailedAt(time.Now()),
		Payload:   t.Payload,
		Exception: exception,
		Error:     text,
		Backtrace: trace,
		Worker:    t.session.workers[n],
		Queue:     t.Queue,
	}
	if is(err, ErrCancelled) {
		f.Exception = "Resque::DirtyExit" // as when Ruby's worker kills its child on USR1
	}
	switch err.(type) {
	case *resque.SizeError:
		f.Payload, keep = resque.Excerpt(t.Payload), true
	case *resque.PayloadError:
		f.Payload, keep = resque.InvalidPayload(t.Payload), len(t.Payload) > resque.MaxInvalid
	}
	if keep {
		f.Error += "; " + w.d.store.KeptHint(t.Queue)
	}
	return f, keep
}

// checkSize refuses payloads that are too long.
func checkSize(payload []byte, most int) error {
	if len(payload) > most {
		return &resque.SizeError{Size: len(payload), Most: most}
	}
	return nil
}

func (w *workers) log(t *task, d *Delivery, ran time.Duration, err error, o outcome) {
	level, message := slog.LevelDebug, "job done"
	switch {
	case o.settle != nil && o.settle.message != "":
		level, message = o.settle.level, o.settle.message
	case o.back:
		level, message = slog.LevelInfo, "job interrupted; it goes back to its queue"
	case err != nil:
		level, message = slog.LevelError, "job failed"
	}
	ctx := context.Background()
	if !w.logger.Enabled(ctx, level) {
		return
	}
	name := func(key, text string) slog.Attr { return slog.String(key, shorten(text, maxLogText)) }
	attrs := []slog.Attr{name("queue", t.Queue), slog.Duration("duration", ran)}
	if d != nil {
		attrs = append(attrs, name("class", d.Class), slog.String("worker", d.Worker))
		if d.ID != "" {
			attrs = append(attrs, name("id", d.ID))
		}
	}
	if err != nil {
		attrs = append(attrs, slog.String("exception", exceptionName(err)), name("error", fmt.Sprint(err)))
	}
	if o.settle != nil {
		attrs = append(attrs, o.settle.attrs...)
	}
	w.logger.LogAttrs(ctx, level, message, attrs...)
}
