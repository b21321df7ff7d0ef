package goworker

import (
	"context"
	"errors"
	"os"
	"os/signal"
	"syscall"
)

// handleSignals does what a Resque worker does on signals, until it is undone:
//
//	QUIT, TERM, INT   take no more jobs, finish, stop; the second one stops at once
//	USR1              cancel the running jobs; they are failures
//	USR2, CONT        pause, resume
//
// It returns a context that ends with the first signal to stop.
func (d *Daemon) handleSignals(parent context.Context) (ctx context.Context, undo func()) {
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
				d.onSignal(s, ctx.Err() != nil, cancel)
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

func (d *Daemon) onSignal(s os.Signal, stopping bool, stop func()) {
	switch s {
	case sigCancel:
		d.CancelJobs()
	case sigPause:
		d.Pause()
	case sigResume:
		d.Resume()
	default:
		if stopping {
			d.stopNow()
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
		ctx, undo = d.handleSignals(ctx)
		defer undo()
	}
	err = d.Run(ctx)
	if stuck := (*ShutdownError)(nil); errors.As(err, &stuck) && len(stuck.Unfinished) > 0 {
		c.flush()
		os.Exit(1)
	}
	return err
}
