package goworker

import (
	"context"
	"errors"
	"os"

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
		ctx, undo = sig.Handle(ctx, d, c.config.hup(d.reload))
		defer undo()
	}
	err = d.runWith(ctx, c)
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
