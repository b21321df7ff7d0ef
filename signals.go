package goworker

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// signalled is what signals act on.
type signalled interface {
	Pause()
	Resume()
	CancelJobs()
	stopNow()
}

// handleSignals does what a Resque worker does on signals, until it is undone:
//
//	QUIT, TERM, INT   take no more jobs, finish, stop; the second one stops at once
//	USR1              cancel the running jobs; they are failures
//	USR2, CONT        pause, resume
//
// It returns a context that ends with the first signal to stop.
func handleSignals(parent context.Context, on signalled) (ctx context.Context, undo func()) {
	ctx, cancel := context.WithCancel(parent)
	// Room for a burst: a signal that finds no room is lost.
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGQUIT, syscall.SIGTERM, syscall.SIGINT)
	if sigCancel != nil {
		signal.Notify(signals, sigCancel, sigPause, sigResume)
	}
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

func onSignal(on signalled, s os.Signal, stopping bool, stop func()) {
	switch s {
	case sigCancel:
		on.CancelJobs()
	case sigPause:
		on.Pause()
	case sigResume:
		on.Resume()
	default:
		if stopping {
			on.stopNow()
		}
		stop()
	}
}

// Work runs the daemon until a signal stops it, or all queues are empty where the
// settings ask to exit then, and closes it. See Run for how it stops; when jobs are
// still running two seconds after the shutdown timeout, Work ends the program with
// status 1, because nothing else can stop them.
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
	if c.config.signals {
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

// leftRunning tells whether handlers still run after a stop, which nothing but the
// end of the program ends.
func leftRunning(err error) bool {
	var stuck *ShutdownError
	return errors.As(err, &stuck) && len(stuck.Unfinished) > 0
}
