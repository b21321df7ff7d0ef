package goworker

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/rule"
	"github.com/goworker/goworker/internal/stuck"
)

// workers are the goroutines that run jobs. Each runs any job, on the slot that the poller gave to it. They
// only grow: where fewer jobs run, goroutines wait.
//
// A handler that was left behind may end at any time, perhaps during the daemon's next run. So the
// state of one run is kept here and not in the daemon.
type workers struct {
	part.Base
	identity string // of the daemon, for the children of isolated jobs
	reach    any    // of the daemon, for handlers; nil: there is none
	children *isolate.Keeper
	registry *registry
	rules    *rule.Table // of this Redis
	hooks    *hookList
	set      *outcome.Set
	dispatch dispatcher
	status   *fleet.Status
	limit    atomic.Int64 // of the jobs that run at a time
	started  int          // how many goroutines there are; the poller's goroutine writes it once they run
	wg       sync.WaitGroup
}

// dispatcher gives jobs to the workers and takes what became of them. Its methods are safe for
// concurrent use.
type dispatcher interface {
	// tasks returns the channel on which jobs come. It is closed when no more come.
	tasks() <-chan *inflight.Task

	// admitted is called before the handler of a job.
	admitted(t *inflight.Task)

	// finish is called with what became of a job.
	finish(t *inflight.Task, o *outcome.Outcome)

	// left is closed when the dispatcher has ended while handlers still ran.
	left() <-chan struct{}
}

// hand is what one goroutine of the workers has.
type hand struct {
	task    *inflight.Task  // the job in hand
	outcome outcome.Outcome // of that job
	perform outcome.Handler // calls its handler
	records logging.Records // its line in the log
}

func newWorkers(b part.Base, c config, r *registry, rules *rule.Table, h *hookList, set *outcome.Set, p dispatcher, status *fleet.Status) *workers {
	w := &workers{Base: b, identity: c.identity(), registry: r, rules: rules, hooks: h, set: set, dispatch: p, status: status, children: isolate.NewKeeper()}
	w.limit.Store(int64(c.Concurrency))
	return w
}

func (w *workers) start(context.Context) error {
	w.grow(int(w.limit.Load()))
	return nil
}

// grow starts goroutines until so many jobs can run at a time.
func (w *workers) grow(n int) {
	w.status.Grow(n)
	for ; w.started < n; w.started++ {
		h := new(hand)
		h.perform = func(ctx context.Context, j *outcome.Job) error { return w.perform(ctx, h.task) }
		w.wg.Add(1)
		go w.work(h)
	}
}

// resize has so many jobs run at a time. The poller's goroutine calls it.
func (w *workers) resize(n int) {
	w.grow(n)
	w.limit.Store(int64(n))
}

// stop waits for the workers. The poller has closed their channel; those whose handlers did not end are
// left behind.
func (w *workers) stop(ctx context.Context) error {
	defer w.set.Close()
	defer w.children.Close()
	done := make(chan struct{})
	go func() {
		w.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
	case <-w.dispatch.left():
	}
	return nil
}

// present returns how many jobs may run at a time.
func (w *workers) present() int { return int(w.limit.Load()) }

// running returns how many workers have a job.
func (w *workers) running() int { return w.status.Busy() }

func (w *workers) info() any {
	return fmt.Sprintf("%d workers, %d busy, %d stuck", w.limit.Load(), w.running(), len(w.registry.stuck.List()))
}

// work runs jobs. A handler that ends its goroutine costs its job, and another goroutine goes on.
func (w *workers) work(h *hand) {
	defer w.Catch("workers")
	running := false
	defer func() {
		if !running {
			w.wg.Done()
			return
		}
		t, decided := h.task, false
		defer func() {
			if !decided { // a function of the program ended the goroutine once more
				w.set.Abort(&t.Job, ErrGoexit, &h.outcome)
			}
			w.end(h, t)
			go w.work(h)
		}()
		w.set.Fail(t.Session.Jobs(), &t.Job, ErrGoexit, &h.outcome)
		decided = true
	}()
	for t := range w.dispatch.tasks() {
		t.Worker, t.StartedAt = t.Session.Worker(t.Slot), w.Clock.Now()
		h.task = t
		w.status.Slot(t.Slot).Begin(&t.Job)
		running = true
		w.set.Run(t.Session.Jobs(), &t.Job, h.perform, &h.outcome)
		running = false
		w.end(h, t)
	}
}

// perform calls the handler of a job.
func (w *workers) perform(ctx context.Context, t *inflight.Task) error {
	w.dispatch.admitted(t)
	d := w.registry.delivery(&t.Job, w.rules)
	d.logger, d.daemon, d.reach, d.children = w.Log, w.identity, w.reach, w.children
	w.hooks.started(ctx, d)
	err := d.perform(ctx)
	t.Value = d.value()
	t.Several = t.Value != nil && w.registry.severalResults(&t.Job, t.Value)
	return err
}

// observe calls the hooks for an outcome. Bytes that are no job have none.
func (w *workers) observe(ctx context.Context, j *outcome.Job, o *outcome.Outcome) {
	if !j.Dead && j.Readable() && len(w.hooks.list()) > 0 {
		w.hooks.ended(j.Shown(ctx), w.registry.delivery(j, w.rules), o)
	}
}

// end gives the poller the outcome of a job.
func (w *workers) end(h *hand, t *inflight.Task) {
	o := &h.outcome
	o.Ran = clock.Since(w.Clock, t.StartedAt)
	w.status.Slot(t.Slot).End(o.Counts)
	w.set.Ended(&t.Job, o)
	h.task = nil
	w.log(h, t, o)
	w.dispatch.finish(t, o)
}

func (w *workers) log(h *hand, t *inflight.Task, o *outcome.Outcome) {
	level, message := o.Line()
	if !w.Log.Enabled(context.Background(), level) {
		return
	}
	name := func(key, text string) slog.Attr { return slog.String(key, logging.Shorten(text, logging.MaxText)) }
	attrs := append(h.records.Room(), name("queue", t.Queue), slog.Duration("duration", o.Ran))
	if t.Readable() {
		attrs = append(attrs, name("class", t.Name), slog.String("worker", t.Worker))
		if t.ID != "" {
			attrs = append(attrs, name("id", t.ID))
		}
	}
	if o.Err != nil {
		attrs = append(attrs, slog.String("exception", failure.Exception(o.Err, exceptionOf)), name("error", fmt.Sprint(o.Err)))
	}
	h.records.Log(t.Shown(context.Background()), w.Log, level, message, append(attrs, o.Log.Attrs...))
}

// perform runs the job's handler. It always returns: a panic becomes a *PanicError. The
// caller, which owns the goroutine, deals with runtime.Goexit.
func (d *Delivery) perform(ctx context.Context) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = newPanicError(v)
		}
	}()
	if d.limit > 0 {
		defer d.watchStuck()()
	}
	if d.timeout > 0 {
		var cancel context.CancelFunc
		outer := ctx
		ctx, cancel = context.WithTimeout(outer, d.timeout)
		defer cancel()
		defer func() {
			// The text explains the class's own deadline only, not an outer one.
			if failure.Is(err, context.DeadlineExceeded) && ctx.Err() != nil && outer.Err() == nil {
				err = fmt.Errorf("%s ran longer than its timeout of %s: %w", d.Class, d.timeout, err)
			}
		}()
	}
	d.self = deliveryContext{Context: ctx, delivery: d}
	return d.handler.Perform(&d.self, d)
}

// watchStuck lists the job as stuck once it has run for too long. Its worker calls done at
// the end of the run.
func (d *Delivery) watchStuck() (done func()) {
	j := stuck.Job{Queue: d.Queue, Class: d.Class, ID: d.ID, Worker: d.Worker, Started: clock.System.Now(), Limit: d.limit}
	return d.stuck.Watch(j, StuckAfter, d.logger)
}
