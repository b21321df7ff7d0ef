package goworker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// workerSlot is one worker. It is for the worker's goroutine.
type workerSlot struct {
	*fleet.Slot
	task     *task     // the job in hand
	delivery *Delivery // of the job in hand; nil: it was not opened
}

// workers are the goroutines that run jobs, one a slot.
//
// A handler that was left behind ends when it likes, perhaps during the daemon's
// next run: what belongs to one run is therefore kept here and not asked of d.
type workers struct {
	d       *Daemon
	logger  *slog.Logger
	poller  *poller
	lease   *fleet.Lease
	counter retryCounter
	slots   []workerSlot
	wg      sync.WaitGroup
}

func newWorkers(d *Daemon, p *poller) *workers {
	w := &workers{
		d: d, logger: d.log, poller: p, lease: d.lease,
		counter: newRetryCounter(d), slots: make([]workerSlot, d.config.Concurrency),
	}
	for n := range w.slots {
		w.slots[n].Slot = d.lease.Status.Slot(n)
	}
	return w
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
		t, d := s.task, s.delivery
		var instead *ending
		defer func() {
			w.end(n, t, d, instead, ErrGoexit)
			go w.work(n)
		}()
		instead, _ = w.again(t.Session.Jobs(), n, t, d, ErrGoexit)
	}()
	for t := range w.poller.jobs {
		t.Started = time.Now()
		s.task = t
		s.Begin(&t.Job)
		running = true
		d, instead, err := w.run(n, t)
		running = false
		w.end(n, t, d, instead, err)
	}
}

// ending is an outcome and what the log says of it.
type ending struct {
	outcome
	level   slog.Level
	message string
	attrs   []slog.Attr
}

// run runs one job and returns its error, and what is known about the job even if
// it could not be run. An ending instead means that it was not to run here or now, or
// that it failed and is not filed as failed.
func (w *workers) run(n int, t *task) (d *Delivery, instead *ending, err error) {
	w.slots[n].delivery = nil
	d, err = w.open(n, t)
	instead = w.look(t, d, err)
	if w.poller.looking.Load() {
		w.poller.poke()
	}
	if instead != nil || d == nil {
		return d, instead, err
	}
	w.slots[n].delivery = d
	if instead := w.admit(t, d, err); instead != nil {
		return d, instead, nil
	}
	if err != nil {
		w.d.hooks.failed(t.Session.Context(), d, err)
		return d, nil, err
	}
	ctx := t.Session.Jobs()
	if d.retry != nil && d.retry.ruby != nil {
		if err := w.count(ctx, d); err != nil {
			if !failure.Interrupted(err) {
				w.d.hooks.failed(ctx, d, err)
			}
			return d, nil, err
		}
	}
	w.d.hooks.started(ctx, d)
	d.called = true
	err = d.perform(ctx)
	if err != nil && ctx.Err() != nil {
		err = &failure.Cancelled{Cause: context.Cause(ctx), Err: err}
	}
	if err != nil {
		instead, err = w.again(ctx, n, t, d, err)
		return d, instead, err
	}
	w.d.hooks.succeeded(ctx, d)
	return d, nil, nil
}

// open parses a job and finds its handler. d is nil for what is no job.
func (w *workers) open(n int, t *task) (d *Delivery, err error) {
	if err := checkSize(t.Payload, w.d.config.MaxPayload); err != nil {
		return nil, err
	}
	payload, err := payload.Parse(t.Payload)
	if err != nil {
		return nil, err
	}
	if payload.PHP != nil {
		t.php.Store(payload.PHP)
	}
	d, err = w.d.registry.prepare(t.Queue, t.Payload, payload)
	d.Worker, d.Recovered, d.ReservedAt = t.Session.Workers[n], t.deaths.Count, t.reserved
	d.workers = w
	return d, err
}

// look sends a job into its lane that lay in its queue although it has limits: this is how a
// process learns that the queue holds such jobs. It returns nil for any other.
func (w *workers) look(t *task, d *Delivery, err error) *ending {
	if w.d.registry.limited.Load() && t.unsorted() {
		if lane, held := w.d.registry.laneFor(t.Queue, d, err); held && (t.Lane == nil || lane != *t.Lane) {
			o := outcome{task: t, back: true, misplaced: true, lane: &lane,
				Ended: resque.Ended{Ticket: t.Ticket, Effects: w.d.store.ToLane(t.Reserved, lane)}}
			o.giveBack(w.d.store, resque.End{})
			return &ending{outcome: o, level: slog.LevelDebug, message: "job waits for its limits"}
		}
	}
	t.looked.Store(true)
	return nil
}

// end hands in what became of a job.
func (w *workers) end(n int, t *task, d *Delivery, instead *ending, err error) {
	s := &w.slots[n]
	ran := time.Since(t.Started)
	e := ending{level: slog.LevelDebug, message: "job done"}
	switch {
	case instead != nil:
		e = *instead
	case err == nil:
		e.outcome = w.ended(t, d, resque.Done)
	case failure.Interrupted(err):
		e.outcome = returned(w.d.store, t, d != nil && d.called)
		e.level, e.message = slog.LevelInfo, "job interrupted; it goes back to its queue"
	default:
		e.outcome = w.ended(t, d, resque.Failed)
		f, keep := w.failure(n, t, err)
		e.Counts = resque.CountsFailed
		e.Effects = append(e.Effects, w.d.store.FileFailure(t.Queue, f.Encode(), w.d.config.multiQueueFailures)...)
		if keep {
			e.Effects = append(e.Effects, w.d.store.Keep(t.Reserved))
		}
		e.level, e.message = slog.LevelError, "job failed"
	}
	e.ran, e.started = ran, d != nil && d.called
	s.End(e.Counts)
	s.task, s.delivery = nil, nil
	w.log(t, d, err, e)
	w.poller.finish(e.outcome)
}

// ended is the outcome of a job that comes to its end or, with resque.GoesOn, of one that is
// to run again. It gives back what the job holds.
func (w *workers) ended(t *task, d *Delivery, fate resque.Fate) outcome {
	o := outcome{task: t, Ended: resque.Ended{Ticket: t.Ticket, Counts: resque.CountsDone}}
	e := resque.End{Fate: fate, Found: t.deaths.Count > 0}
	if d != nil {
		e.Started = d.called
		if d.lock != nil {
			e.Lock, e.ID = d.lock.name, d.lock.id
		}
		if d.retry != nil && d.retry.ruby != nil {
			e.Retries = []resque.RetryKey{d.retry.ruby.key(d)}
		}
	}
	o.giveBack(w.d.store, e)
	return o
}

// failure is the record of a job that failed, and whether its payload is kept
// elsewhere because the record holds but an excerpt.
func (w *workers) failure(n int, t *task, err error) (f payload.Failure, keep bool) {
	exception, text, trace := failure.Describe(err, exceptionOf)
	f = payload.Failure{
		FailedAt:  payload.FailedAt(time.Now()),
		Payload:   t.Payload,
		Exception: exception,
		Error:     text,
		Backtrace: trace,
		Worker:    t.Session.Workers[n],
		Queue:     t.Queue,
	}
	if failure.Is(err, ErrCancelled) {
		f.Exception = "Resque::DirtyExit" // as when Ruby's worker kills its child on USR1
	}
	switch err.(type) {
	case *payload.SizeError:
		f.Payload, keep = payload.Excerpt(t.Payload), true
	case *payload.Error:
		f.Payload, keep = payload.Invalid(t.Payload), len(t.Payload) > payload.MaxInvalid
	}
	if keep {
		f.Error += "; " + w.d.store.KeptHint(t.Queue)
	}
	return f, keep
}

// checkSize refuses payloads that are too long.
func checkSize(raw []byte, most int) error {
	if len(raw) > most {
		return &payload.SizeError{Size: len(raw), Most: most}
	}
	return nil
}

func (w *workers) log(t *task, d *Delivery, err error, e ending) {
	ctx := context.Background()
	if !w.logger.Enabled(ctx, e.level) {
		return
	}
	name := func(key, text string) slog.Attr { return slog.String(key, logging.Shorten(text, logging.MaxText)) }
	attrs := []slog.Attr{name("queue", t.Queue), slog.Duration("duration", e.ran)}
	if d != nil {
		attrs = append(attrs, name("class", d.Class), slog.String("worker", d.Worker))
		if d.ID != "" {
			attrs = append(attrs, name("id", d.ID))
		}
	}
	if err != nil {
		attrs = append(attrs, slog.String("exception", failure.Exception(err, exceptionOf)), name("error", fmt.Sprint(err)))
	}
	w.logger.LogAttrs(ctx, e.level, e.message, append(attrs, e.attrs...)...)
}
