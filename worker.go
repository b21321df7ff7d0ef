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
}

// workers are the goroutines that run jobs, one a slot.
type workers struct {
	d     *Daemon
	slots []workerSlot
	wg    sync.WaitGroup
}

func newWorkers(d *Daemon) *workers {
	return &workers{d: d, slots: make([]workerSlot, d.config.concurrency)}
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
	done := make(chan struct{})
	go func() {
		w.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	case <-w.d.poller.left():
	}
	return nil
}

// work is one worker. A handler that ends its goroutine costs its job, and the
// slot goes on in another goroutine.
func (w *workers) work(n int) {
	s := &w.slots[n]
	running := false
	defer func() {
		if running {
			w.end(n, s.task.Load(), nil, ErrGoexit)
			go w.work(n)
			return
		}
		w.wg.Done()
	}()
	for t := range w.d.poller.jobs {
		t.started = time.Now()
		s.task.Store(t)
		w.d.records.notice()
		running = true
		d, err := w.run(n, t)
		running = false
		w.end(n, t, d, err)
	}
}

// run runs one job and returns its error, and what is known about the job even if
// it could not be run.
func (w *workers) run(n int, t *task) (*Delivery, error) {
	payload, err := resque.ParsePayload(t.Payload)
	if err != nil {
		return nil, err
	}
	d, err := w.d.registry.prepare(t.Queue, t.Payload, payload)
	d.Worker, d.Recovered, d.ReservedAt = t.session.workers[n], t.deaths, t.reserved
	if err != nil {
		w.d.hooks.failed(t.session.ctx, d, err)
		return d, err
	}
	ctx := t.session.jobs.Load().ctx
	w.d.hooks.started(ctx, d)
	err = d.perform(ctx)
	if err != nil && ctx.Err() != nil {
		err = &cancelledError{cause: context.Cause(ctx), err: err}
	}
	if err != nil {
		w.d.hooks.failed(ctx, d, err)
	} else {
		w.d.hooks.succeeded(ctx, d)
	}
	return d, err
}

// cancelledError is what a handler returned after its context was cancelled.
type cancelledError struct{ cause, err error }

func (e *cancelledError) Error() string { return fmt.Sprintf("%v: %v", e.cause, e.err) }
func (e *cancelledError) Unwrap() []error {
	return []error{e.err, e.cause}
}

// end hands in what became of a job.
func (w *workers) end(n int, t *task, d *Delivery, err error) {
	s := &w.slots[n]
	ran := time.Since(t.started)
	o := outcome{task: t, ran: ran}
	switch {
	case err == nil:
		s.processed.Add(1)
	case errors.Is(err, ErrShutdown) && isContextError(err):
		o.back = true
	default:
		s.processed.Add(1)
		s.failed.Add(1)
		o.record = w.failure(n, t, err).Encode()
	}
	s.task.Store(nil)
	w.log(t, d, ran, err, o.back)
	w.d.poller.finish(o)
	if s.told.Load() {
		w.d.records.hurry()
	}
}

func isContextError(err error) bool {
	return errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

func (w *workers) failure(n int, t *task, err error) resque.Failure {
	exception, text, trace := describe(err)
	f := resque.Failure{
		FailedAt:  resque.FailedAt(time.Now()),
		Payload:   t.Payload,
		Exception: exception,
		Error:     text,
		Backtrace: trace,
		Worker:    t.session.workers[n],
		Queue:     t.Queue,
	}
	if errors.Is(err, ErrCancelled) {
		f.Exception = "Resque::DirtyExit" // as when Ruby's worker kills its child on USR1
	}
	if bad := (*resque.PayloadError)(nil); errors.As(err, &bad) {
		f.Payload = resque.InvalidPayload(t.Payload)
	}
	return f
}

func (w *workers) log(t *task, d *Delivery, ran time.Duration, err error, back bool) {
	level, message := slog.LevelDebug, "job done"
	switch {
	case back:
		level, message = slog.LevelInfo, "job interrupted; it goes back to its queue"
	case err != nil:
		level, message = slog.LevelError, "job failed"
	}
	ctx := context.Background()
	if !w.d.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{slog.String("queue", t.Queue), slog.Duration("duration", ran)}
	if d != nil {
		attrs = append(attrs, slog.String("class", d.Class), slog.String("worker", d.Worker))
		if d.ID != "" {
			attrs = append(attrs, slog.String("id", d.ID))
		}
	}
	if err != nil {
		attrs = append(attrs, slog.String("exception", exceptionName(err)), slog.String("error", fmt.Sprint(err)))
	}
	w.d.log.LogAttrs(ctx, level, message, attrs...)
}
