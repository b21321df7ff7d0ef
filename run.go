package goworker

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/payload"
)

// run is one call of Run.
type run struct {
	hard   chan struct{} // closed: stop at once
	once   sync.Once
	poller *poller // nil until it is made; guarded by Daemon.mu
}

// Run works until the context is cancelled, or all queues are empty where the
// settings ask to exit then. It then takes no more jobs, waits for those that run,
// at most for the shutdown timeout, and returns.
//
// Jobs still running at the timeout have their contexts cancelled. Two seconds
// later what has returned is committed, the rest goes back to its queue, and Run
// returns a *ShutdownError that names it. Those handlers still run: unlike Work,
// Run does not end the program, but its caller should.
//
// An unreachable Redis is an error at the start only; afterwards it is waited for.
//
// Run leaves the daemon open: Close it when it is needed no more.
func (d *Daemon) Run(ctx context.Context) error {
	c, err := d.init(true)
	if err != nil {
		return err
	}
	d.mu.Lock()
	extra := slices.Clone(d.parts)
	d.mu.Unlock()
	if err := serveChild(ctx, extra, d); err != nil {
		return err
	}
	r := &run{hard: make(chan struct{})}
	d.mu.Lock()
	if d.running != nil {
		d.mu.Unlock()
		return ErrRunning
	}
	d.running = r
	d.prepare(ctx, c)
	r.poller = d.poller
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.running = nil
		d.mu.Unlock()
	}()

	parts, err := d.sortedParts(extra, r)
	if err != nil {
		return fmt.Errorf("goworker: %w", err)
	}
	if started, err := startParts(ctx, parts); err != nil {
		if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
			err = nil // told to stop before it began
		}
		ctx, cancel := d.stopContext()
		defer cancel()
		if err = errors.Join(err, stopParts(ctx, started)); err != nil {
			err = fmt.Errorf("goworker: %w", err)
		}
		return err
	}
	select {
	case <-ctx.Done():
	case <-d.poller.ended:
	}
	d.log.Info("stopping: taking no more jobs")
	d.hooks.shutdown()
	stopCtx, cancel := d.stopContext()
	defer cancel()
	err = stopParts(stopCtx, parts)
	if err != nil {
		d.log.Error("stopped", "error", err)
	} else {
		d.log.Info("stopped")
	}
	c.flush()
	return err
}

// prepare makes what belongs to one run. The mutex is held, so that nobody asks
// for the poller of the run before.
func (d *Daemon) prepare(ctx context.Context, c *client) {
	d.config, d.log, d.store, d.dialer = c.config, c.log, c.store, c.dialer
	d.registry.useNumber.Store(c.config.useNumber)
	if every, ok := conn.PollInterval(c.dialer); ok {
		d.config.tracking = false
		d.config.interval = min(d.config.interval, every)
	}
	d.outages = logging.NewOutages(c.log, clock.System)
	d.base = context.WithoutCancel(ctx)
	d.poller, d.records, d.lease = newPoller(d), newRecords(d), newLease(d)
	d.workers = newWorkers(d, d.poller, d.records)
	d.master = newMasterLock(d.config, d.store, func() string { return d.session.Load().process.ID }, d.pumpToo)
	d.pump, d.ticker = newPump(d), newTicker(d)
}

// stopContext bounds the stop of all parts, where the jobs' time is bounded.
func (d *Daemon) stopContext() (context.Context, context.CancelFunc) {
	if d.config.shutdownTimeout == 0 {
		return context.WithCancel(d.base)
	}
	return context.WithTimeout(d.base, d.config.shutdownTimeout+cancelGrace+commitGrace+leaveGrace)
}

// sortedParts are the daemon's own parts and those added to it, in the order in
// which they start.
func (d *Daemon) sortedParts(extra []Part, r *run) ([]Part, error) {
	own := []Part{
		{Name: "lease", Start: d.lease.start, Stop: d.lease.stop},
		{Name: "records", Requires: []string{"lease"}, Start: d.records.start, Stop: d.records.stop},
		{Name: "workers", Requires: []string{"records"}, Start: d.workers.start, Stop: d.workers.stop},
		{Name: "poller", Requires: []string{"workers"}, Start: func(ctx context.Context) error {
			go d.poller.run(d.base)
			return nil
		}, Stop: func(ctx context.Context) error { return d.poller.drain(d.config.shutdownTimeout, r.hard) }},
		{Name: "schedule", Requires: []string{"poller"}, Start: d.pump.start, Stop: d.pump.stop},
		{Name: "recurring", Requires: []string{"poller"}, Start: d.ticker.start, Stop: d.ticker.stop},
	}
	return arrangeParts(own, extra)
}

// arrangeParts sorts a daemon's own parts, of which the third are the workers, with
// those added to it.
func arrangeParts(own, extra []Part) ([]Part, error) {
	all := append(slices.Clone(own), extra...)
	if _, err := sortParts(all); err != nil {
		return nil, err
	}
	all[2].Requires = append(all[2].Requires, outliving(all, "workers", "poller")...)
	return sortParts(all)
}

// Parts returns the names of the daemon's parts and those added to it, in the
// order in which they start.
func (d *Daemon) Parts() ([]string, error) {
	if err := d.usable(); err != nil {
		return nil, err
	}
	d.mu.Lock()
	extra := slices.Clone(d.parts)
	d.mu.Unlock()
	idle := &Daemon{}
	idle.poller, idle.workers, idle.records, idle.lease = &poller{}, &workers{}, &records{}, &lease{}
	parts, err := idle.sortedParts(extra, &run{})
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.Name
	}
	return names, err
}

// stopNow makes a Run that is stopping wait no longer for its jobs.
func (d *Daemon) stopNow() {
	d.mu.Lock()
	r := d.running
	d.mu.Unlock()
	if r != nil {
		r.once.Do(func() { close(r.hard) })
	}
}

// Pause makes the daemon take no more jobs until Resume. Jobs that run finish.
// Only this daemon pauses, and only its current run: without one it does nothing.
// See the key pause-all-workers for the whole fleet.
func (d *Daemon) Pause() { d.pause(true) }

// Resume ends Pause.
func (d *Daemon) Resume() { d.pause(false) }

func (d *Daemon) pause(paused bool) {
	if p := d.currentPoller(); p != nil {
		p.ask(func() {
			if p.selfPause != paused {
				p.log.Info("pause", "paused", paused)
			}
			p.selfPause = paused
			p.source.Changed(nil, true)
		})
	}
}

// CancelJobs cancels the contexts of the jobs that run now, with the cause
// ErrCancelled. What their handlers then return is filed as a failure.
func (d *Daemon) CancelJobs() {
	if s := d.session.Load(); s != nil && d.currentPoller() != nil {
		s.cancelJobs(ErrCancelled)
	}
}

// now is the time by Redis's clock while the daemon runs, and else by this machine's.
func (d *Daemon) now() time.Time {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		return time.Now()
	}
	return d.lease.redisTime(time.Now())
}

func (d *Daemon) currentPoller() *poller {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.running == nil {
		return nil
	}
	return d.running.poller
}

// After the contexts of running jobs are cancelled, how long they have to return,
// and how long what then is to be committed may take.
const (
	cancelGrace = 2 * time.Second
	commitGrace = 3 * time.Second

	// leaveGrace is what then is left to the parts below the workers.
	leaveGrace = 3 * time.Second
)

// drain stops the poller: no more jobs are taken, those that run may finish until
// the timeout (0: none) or until somebody asks for haste.
func (p *poller) drain(timeout time.Duration, hard <-chan struct{}) error {
	p.stop.Do(func() { close(p.quit) })
	var deadline <-chan time.Time
	if timeout > 0 {
		deadline = time.After(timeout)
	}
	select {
	case <-p.ended:
		return nil
	case <-deadline:
	case <-hard:
	}
	p.log.Warn("cancelling the jobs that still run")
	p.d.session.Load().stopJobs(ErrShutdown)
	if p.endsWithin(cancelGrace) {
		return nil
	}
	close(p.force)
	if !p.endsWithin(commitGrace) {
		p.ask(func() {
			if !p.forced { // it was waiting for Redis all the while
				p.forced = true
				p.giveBackRunning()
			}
			p.hopeless = true
		})
		<-p.ended
	}
	return p.leftovers()
}

func (p *poller) endsWithin(d time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(d):
		return false
	}
}

// leftovers says what could not be brought to an end. The poller has ended.
func (p *poller) leftovers() error {
	e := &ShutdownError{Undelivered: len(p.pending) + len(p.refused) + len(p.sentOut)}
	for _, t := range p.abandoned {
		class := "an invalid payload"
		if payload, err := payload.Parse(t.Payload); err == nil {
			class = payload.Class
		}
		e.Unfinished = append(e.Unfinished, fmt.Sprintf("%s of queue %s", class, t.Queue))
	}
	if n := p.busy - len(p.abandoned); n > 0 {
		e.Unfinished = append(e.Unfinished, fmt.Sprintf("%d that were given to other processes before", n))
	}
	if len(e.Unfinished)+e.Undelivered == 0 {
		return nil
	}
	return e
}
