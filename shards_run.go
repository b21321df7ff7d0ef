package goworker

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
)

// shardsRun is one call of Run.
type shardsRun struct {
	shards *Shards
	stop   context.CancelFunc
	failed chan struct{} // closed: a shard cannot be started, and waiting will not help
	once   sync.Once
	wg     sync.WaitGroup
	errs   []error // by shard; to be read when all have ended
}

// Run works on all shards until the context is cancelled, or all queues are empty
// where the settings ask to exit then; see Daemon.Run for how it stops.
//
// A Redis that cannot be reached is tried again until it can, at the start too,
// and the other shards work meanwhile. What waiting will not mend ends the run of
// all: settings that make no sense, a wrong password, a certificate that is not
// trusted, a Redis that is too old or lacks a permission.
//
// The error joins those of the shards, each naming its own.
func (s *Shards) Run(ctx context.Context) error { return errors.Join(s.run(ctx)...) }

func (s *Shards) run(ctx context.Context) []error {
	if err := s.Init(); err != nil {
		return []error{err}
	}
	s.mu.Lock()
	extra := slices.Clone(s.parts)
	s.mu.Unlock()
	if err := serveChild(ctx, extra, s.daemons...); err != nil {
		return []error{err}
	}
	s.mu.Lock()
	if s.running {
		s.mu.Unlock()
		return []error{ErrRunning}
	}
	s.running = true
	config := s.config
	workers := newBudget(config.concurrency)
	for _, d := range s.daemons {
		d.budget = workers
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.running, s.paused = false, false
		s.mu.Unlock()
	}()

	base := context.WithoutCancel(ctx)
	r := &shardsRun{shards: s, failed: make(chan struct{}), errs: make([]error, len(s.daemons))}
	ended := make(chan struct{})
	parts, err := arrangeParts([]Part{
		{Name: "lease"},
		{Name: "records", Requires: []string{"lease"}},
		{Name: "workers", Requires: []string{"records"}},
		{Name: "poller", Requires: []string{"workers"}, Start: func(context.Context) error {
			r.start(base, ended)
			return nil
		}, Stop: func(context.Context) error {
			r.stop()
			<-ended
			return nil
		}},
	}, extra)
	if err != nil {
		return []error{fmt.Errorf("goworker: %w", err)}
	}
	stopContext := func() (context.Context, context.CancelFunc) {
		if config.shutdownTimeout == 0 {
			return context.WithCancel(base)
		}
		return context.WithTimeout(base, config.shutdownTimeout+cancelGrace+commitGrace+leaveGrace)
	}
	if started, err := startParts(ctx, parts); err != nil {
		stopCtx, cancel := stopContext()
		defer cancel()
		return []error{fmt.Errorf("goworker: %w", err), stopParts(stopCtx, started)}
	}
	select {
	case <-ctx.Done():
	case <-r.failed:
	case <-ended:
	}
	s.hooks.shutdown()
	stopCtx, cancel := stopContext()
	defer cancel()
	err = stopParts(stopCtx, parts)
	return append(r.errs, err)
}

// start runs the daemons, until stop is called or all have ended by themselves.
func (r *shardsRun) start(ctx context.Context, ended chan<- struct{}) {
	ctx, r.stop = context.WithCancel(ctx)
	for i := range r.shards.daemons {
		r.wg.Go(func() { r.errs[i] = r.keep(ctx, i) })
	}
	go func() {
		r.wg.Wait()
		r.stop()
		close(ended)
	}()
}

// keep runs the daemon of a shard, and if it cannot be started tries again.
func (r *shardsRun) keep(ctx context.Context, i int) error {
	s := r.shards
	start := &s.starts[i]
	start.trouble = logging.NewOutages(s.log.With("shard", s.name(i)), clock.System)
	var retry part.Backoff
	for {
		start.done.Store(false)
		err := s.daemons[i].Run(ctx)
		started := start.done.Load()
		switch {
		case err == nil, !started && ctx.Err() != nil:
			return nil
		case started:
			return fmt.Errorf("shard %s: %w", s.name(i), err)
		case !passes(err):
			r.once.Do(func() { close(r.failed) })
			return fmt.Errorf("shard %s: %w", s.name(i), err)
		}
		start.trouble.Fail("start", err)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retry.Next()):
		}
	}
}

// start is how far a shard's daemon has come.
type start struct {
	done    atomic.Bool // its Redis has let it in
	trouble *logging.Outages
}

// startPart is how a daemon tells that its Redis has let it in. It has not taken a
// job yet.
func (s *Shards) startPart(i int) Part {
	return Part{Name: "shard", Requires: []string{"lease"}, Start: func(context.Context) error {
		s.starts[i].done.Store(true)
		s.starts[i].trouble.OK("start")
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.paused {
			s.daemons[i].Pause()
		}
		return nil
	}}
}

// passes reports whether what kept a daemon from starting may pass by itself.
func passes(err error) bool {
	var untrusted *tls.CertificateVerificationError
	kind := conn.Classify(err)
	return (kind == conn.KindConn || kind == conn.KindWait) && !errors.As(err, &untrusted)
}

// Work runs until a signal stops it, or all queues are empty where the settings ask
// to exit then, and closes the connections; see Daemon.Work for the signals, and for
// when it ends the program.
func (s *Shards) Work() error {
	if err := s.Init(); err != nil {
		return err
	}
	ctx := context.Background()
	if s.config.signals {
		var undo func()
		ctx, undo = handleSignals(ctx, s)
		defer undo()
	}
	errs := s.run(ctx)
	if !slices.Contains(errs, ErrRunning) { // then the other run still needs them
		defer s.Close()
	}
	if slices.ContainsFunc(errs, leftRunning) {
		s.flush()
		os.Exit(1)
	}
	return errors.Join(errs...)
}

// Pause makes all shards take no more jobs until Resume; see Daemon.Pause. It holds
// for those that cannot be reached now too.
func (s *Shards) Pause() { s.pause(true) }

// Resume ends Pause.
func (s *Shards) Resume() { s.pause(false) }

func (s *Shards) pause(paused bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.paused = paused && s.running
	for _, d := range s.daemons {
		d.pause(paused)
	}
}

// CancelJobs cancels the contexts of the jobs that run now; see Daemon.CancelJobs.
func (s *Shards) CancelJobs() {
	for _, d := range s.daemons {
		d.CancelJobs()
	}
}

func (s *Shards) stopNow() {
	for _, d := range s.daemons {
		d.stopNow()
	}
}
