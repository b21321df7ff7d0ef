package goworker

import (
	"context"
	"log/slog"
	"slices"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/feature/cursor"
	"github.com/goworker/goworker/internal/feature/results"
	"github.com/goworker/goworker/internal/flush"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/sweep"
	"github.com/goworker/goworker/internal/trial"
)

// Trial gives package goworkertest a hold of daemons and clients. No program can name the type of its
// parameter: a program's tests import goworkertest.
func Trial(t *trial.Trial) tried { return tried{t} }

// tried is what package goworkertest does with daemons and clients.
type tried struct{ *trial.Trial }

// Client puts a Client into the trial.
func (x tried) Client() ClientOption {
	return clientOption(func(o *clientOptions) { o.endpoint.registry.trial = x.Trial })
}

// Daemon puts a daemon into the trial, with other settings. It must not have enqueued or run yet.
func (x tried) Daemon(d *Daemon, change func(*WorkerSettings), scheme string, open Opener) {
	d.RegisterDialer(scheme, open)
	d.mu.Lock()
	defer d.mu.Unlock()
	change(&d.settings)
	d.configured, d.command, d.registry.trial = true, nil, x.Trial
}

// Schedule returns the pump, the ticker, the sweep and the flusher of a daemon in the trial, to take their steps.
func (x tried) Schedule(d *Daemon) (*trial.Schedule, error) {
	c, err := d.init(true)
	if err != nil {
		return nil, err
	}
	base := x.Base(part.Base{Log: c.log, Outages: logging.NewOutages(c.log, clock.System), Store: c.Store, Dialer: c.dialer})
	_, pump, ticker := c.config.schedulers(base, &d.recurring, trial.Fleet{}, x.Trial)
	return &trial.Schedule{Pump: pump, Ticker: ticker, Sweep: sweep.New(base, trial.Sweeps()), Flusher: flush.New(base), Do: c.Do}, nil
}

// Encode returns the payload with which the daemon's Client would enqueue a job. It does not need Redis.
func (x tried) Encode(d *Daemon, item Item) (sent producer.Sent, err error) {
	c, err := d.trySettings()
	if err != nil {
		return sent, err
	}
	set := outcome.New(outcome.Deps{Base: x.Base(part.Base{Store: c.store()}), Time: x.Trial}, d.registry, x.Features(d.registry.features(d.registry.limits))...)
	defer set.Close()
	p := new(outcome.Push)
	if err := push(d.registry.Class, &item, p, new(enqueueOptions)); err != nil {
		return sent, prefix.Of(err)
	}
	call := producer.NewCall(set, c.style, c.MaxPayload, 1)
	call.Keep()
	if err := call.Add(p); err != nil {
		return sent, prefix.Of(err)
	}
	return call.Kept()[0], nil
}

// Run runs one job as a worker of the daemon does: it decodes it, asks the features, calls the handler in its
// middleware, decides what becomes of it, and calls the hooks. It does not need Redis, and writes nothing. The
// handler runs in the caller's goroutine. said is what a job with a document said of itself.
func (x tried) Run(ctx context.Context, d *Daemon, j *outcome.Job, log *slog.Logger) (o outcome.Outcome, said trial.Said, err error) {
	c, err := d.trySettings()
	if err != nil {
		return o, said, err
	}
	base := x.Base(part.Base{Log: log, Outages: logging.NewOutages(log, clock.System), Store: c.store()})
	set := outcome.New(outcome.Deps{
		Base: base, Time: x.Trial, Exceptions: exceptionOf, Do: func(context.Context, func(redis.Conn) error) error { return nil },
		Settings: outcome.Settings{MaxPayload: c.MaxPayload, MultiQueueFailures: c.multiQueueFailures, LeaveUnknown: c.LeaveUnknown, NoErrorInPayload: c.NoErrorInPayload},
	}, d.registry, x.Features(slices.Concat(d.features, d.registry.features(d.registry.limits)), "limits", "resque-retry")...)
	defer set.Close()
	d.registry.useNumber.Store(c.UseNumber)
	w := &workers{Base: base, identity: c.identity(), registry: d.registry, hooks: &d.hooks, set: set, dispatch: alone{}}
	set.Observe(w.observe)
	t := new(inflight.Task)
	t.Queue, t.Payload, t.Worker, t.Found, t.ReservedAt, t.StartedAt = j.Queue, j.Payload, j.Worker, j.Found, x.Now(), x.Now()
	began := clock.System.Now()
	set.Run(ctx, &t.Job, func(ctx context.Context, j *outcome.Job) error {
		if e, ok := j.Handler.(*entry); ok && e.instead != nil { // no child process runs the test's program
			d := w.registry.delivery(j, nil)
			d.handler, d.timeout, d.limit = e.handlerOf(d), e.timeout, 0
		}
		ctx, end := results.Local(ctx, j, x.Clock())
		defer func() { said.Progress, said.Lines = end() }()
		ctx, at := cursor.Local(ctx, j)
		defer func() { said.Cursor = at() }()
		return w.perform(ctx, t)
	}, &o)
	o.Ran = clock.Since(clock.System, began)
	w.log(new(hand), t, &o)
	j.Name, j.ID, j.Attempt, j.Args, j.Value, j.Started = t.Name, t.ID, t.Attempt, t.Args, t.Value, t.Started
	return o, said, nil
}

// trySettings returns the daemon's settings without a connection.
func (e *endpoint) trySettings() (config, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.resolve(e.settings, false)
}

// alone has no poller above it.
type alone struct{ dispatcher }

func (alone) admitted(*inflight.Task) {}
