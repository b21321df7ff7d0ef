package goworker

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/sig"
)

// Controlled can be controlled from outside while it works, by signals for instance: a
// Daemon or Shards.
type Controlled interface {
	Pause()      // take no more jobs
	Resume()     // end Pause
	CancelJobs() // cancel the contexts of the running jobs
	StopNow()    // while it stops: wait no longer for the running jobs
}

var _, _ Controlled = (*Daemon)(nil), (*Shards)(nil)

// handleSignals reacts to signals as a Resque worker does, until undo is called:
//
//	QUIT, TERM, INT   take no more jobs, finish, stop; a second one stops at once, unless
//	                  it comes within a second: some wrappers signal a process twice
//	USR1              cancel the running jobs; they are failures
//	USR2, CONT        pause, resume
//
// It returns a context that ends with the first signal to stop.
func handleSignals(parent context.Context, on Controlled) (ctx context.Context, undo func()) {
	ctx, cancel := context.WithCancel(parent)
	// Room for a burst: a signal that finds no room is lost.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, sig.All()...)
	r := receiver{on: on, stop: cancel, clock: clock.System}
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				r.receive(s)
			}
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(done)
		<-ended
		cancel()
	}
}

// sameSignal is how soon after the first signal to stop a second one is the same signal.
const sameSignal = time.Second

// receiver does what signals say.
type receiver struct {
	on    Controlled
	stop  func()
	clock clock.Clock
	first time.Time // when the first signal to stop came; zero: none did
}

func (r *receiver) receive(s os.Signal) {
	switch s {
	case sig.Cancel:
		r.on.CancelJobs()
	case sig.Pause:
		r.on.Pause()
	case sig.Resume:
		r.on.Resume()
	default:
		now := r.clock.Now()
		switch {
		case r.first.IsZero():
			r.first = now
			r.stop()
		case now.Sub(r.first) >= sameSignal:
			r.on.StopNow()
		}
	}
}

// Work runs the daemon until a signal stops it or, with ExitOnComplete, until all
// queues are empty. Then it closes the daemon. See Run for how it stops. If jobs still
// run two seconds after the shutdown timeout, Work ends the program with status 1,
// because there is no other way to stop them.
func (d *Daemon) Work() (err error) {
	c, err := d.init(true)
	if err != nil {
		return err
	}
	defer func() {
		if !errors.Is(err, ErrRunning) { // then the other run still needs it
			closeInTime(d.Close)
		}
	}()
	ctx := context.Background()
	if !c.config.DisableSignals {
		var undo func()
		ctx, undo = handleSignals(ctx, d)
		defer undo()
	}
	err = d.Run(ctx)
	if leftRunning(err) {
		c.flush()
		os.Exit(1)
	}
	return err
}

// closeInTime calls a Close, which may wait for a dialer of the program, and waits for it as long as a
// stop has time.
func closeInTime(closes func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		closes()
	}()
	timer := clock.System.NewTimer(part.CloseGrace)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C():
	}
}

// leftRunning reports whether handlers still run after a stop. Only the end of the
// program ends them.
func leftRunning(err error) bool {
	var stuck *ShutdownError
	return errors.As(err, &stuck) && len(stuck.Unfinished) > 0
}
