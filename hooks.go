package goworker

import (
	"context"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
)

// Hooks are functions a Daemon calls around jobs and at its own end. Any of them may be
// nil. They run in the worker's goroutine, so a slow one slows its worker. A panic is
// logged and has no other effect. The context is the job's, at its end with the values of a trace.
//
// Middleware can do all this and change the outcome too. A hook only watches, but it
// also sees jobs that never reached a handler: an unknown class, arguments that do not
// fit.
type Hooks struct {
	// Start is called before a job's handler.
	Start func(ctx context.Context, d *Delivery)

	// Success is called when the handler has returned nil; d.Result is set.
	Success func(ctx context.Context, d *Delivery)

	// Failure is called for a job that is filed as failed, with the handler's error or
	// the reason why it was not called. A payload that is no job has no Delivery and is
	// only logged and filed.
	Failure func(ctx context.Context, d *Delivery, err error)

	// Expired is called for a job that is dropped because its time is over; see
	// ExpireAfter.
	Expired func(ctx context.Context, d *Delivery)

	// Retry is called in place of Failure for a job that runs again. at is the earliest
	// time for that, by Redis's clock; see the option Retry.
	Retry func(ctx context.Context, d *Delivery, err error, at time.Time)

	// Snooze is called for a job whose handler returned Snooze, with that error. at is as in
	// Retry.
	Snooze func(ctx context.Context, d *Delivery, err error, at time.Time)

	// Discard is called in place of Failure for a job whose handler returned Discard.
	Discard func(ctx context.Context, d *Delivery, err error)

	// Ready is called once in each run, when all parts run; jobs may run already. It has a
	// goroutine of its own. Shutdown is not called before it has returned, unless it takes
	// longer than Shutdown may.
	Ready func()

	// Shutdown is called once in each run, when the daemon stops taking jobs. Those that
	// run go on meanwhile. It stops as a part that requires the workers does; see
	// Part.Stop for how long it may take.
	Shutdown func()
}

// hookList is all hooks of a daemon. Adding replaces the list, so that the workers
// read it without a lock.
type hookList struct {
	mu   sync.Mutex
	all  atomic.Pointer[[]Hooks]
	fail func(hook string, value any, stack []byte)
}

func (l *hookList) add(h Hooks) {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := append(slices.Clone(l.list()), h)
	l.all.Store(&all)
}

func (l *hookList) list() []Hooks {
	if all := l.all.Load(); all != nil {
		return *all
	}
	return nil
}

func (l *hookList) started(ctx context.Context, d *Delivery) {
	for _, h := range l.list() {
		if h.Start != nil {
			l.call("Start", func() { h.Start(NewContext(ctx, d), d) })
		}
	}
}

// ended calls the hook for the end of a job. A job that is requeued unchanged has none.
func (l *hookList) ended(ctx context.Context, d *Delivery, o *outcome.Outcome) {
	ctx = NewContext(ctx, d)
	for _, h := range l.list() {
		switch {
		case o.State == outcome.Done && h.Success != nil:
			l.call("Success", func() { h.Success(ctx, d) })
		case o.State == outcome.Failed && h.Failure != nil:
			l.call("Failure", func() { h.Failure(ctx, d, o.Err) })
		case o.State == outcome.Expired && h.Expired != nil:
			l.call("Expired", func() { h.Expired(ctx, d) })
		case o.State == outcome.Retried && h.Retry != nil:
			l.call("Retry", func() { h.Retry(ctx, d, o.Err, o.At) })
		case o.State == outcome.Snoozed && h.Snooze != nil:
			l.call("Snooze", func() { h.Snooze(ctx, d, o.Err, o.At) })
		case o.State == outcome.Discarded && h.Discard != nil:
			l.call("Discard", func() { h.Discard(ctx, d, o.Err) })
		}
	}
}

// part returns the part that calls the hooks for a run. It is the last one: it starts when all others run.
func (l *hookList) part() part.Part {
	ready := make(chan struct{})
	return part.Part{
		Name: "hook Shutdown", Unseen: true,
		Start: func(context.Context) error {
			go func() {
				defer close(ready)
				l.each("Ready", func(h Hooks) func() { return h.Ready })
			}()
			return nil
		},
		Stop: func(ctx context.Context) error {
			select {
			case <-ready:
			case <-ctx.Done():
			}
			l.each("Shutdown", func(h Hooks) func() { return h.Shutdown })
			return nil
		},
	}
}

func (l *hookList) each(name string, hook func(Hooks) func()) {
	for _, h := range l.list() {
		if f := hook(h); f != nil {
			l.call(name, f)
		}
	}
}

func (l *hookList) call(name string, hook func()) {
	defer func() {
		if v := recover(); v != nil {
			l.fail(name, v, debug.Stack())
		}
	}()
	hook()
}
