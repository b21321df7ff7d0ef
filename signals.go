package goworker

import (
	"context"
	"errors"
	"os"
	"os/signal"

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
//	QUIT, TERM, INT   take no more jobs, finish, stop; the second one stops at once
//	USR1              cancel the running jobs; they are failures
//	USR2, CONT        pause, resume
//
// It returns a context that ends with the first signal to stop.
func handleSignals(parent context.Context, on Controlled) (ctx context.Context, undo func()) {
	ctx, cancel := context.WithCancel(parent)
	// Room for a burst: a signal that finds no room is lost.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, sig.All()...)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case s := <-signals:
				onSignal(on, s, ctx.Err() != nil, cancel)
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

func onSignal(on Controlled, s os.Signal, stopping bool, stop func()) {
	switch s {
	case sig.Cancel:
		on.CancelJobs()
	case sig.Pause:
		on.Pause()
	case sig.Resume:
		on.Resume()
	default:
		if stopping {
			on.StopNow()
		}
		stop()
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
			d.Close()
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

// leftRunning reports whether handlers still run after a stop. Only the end of the
// program ends them.
func leftRunning(err error) bool {
	var stuck *ShutdownError
	return errors.As(err, &stuck) && len(stuck.Unfinished) > 0
}
