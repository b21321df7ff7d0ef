package sig

import (
	"context"
	"os"
	"os/signal"
	"time"

	"github.com/goworker/goworker/internal/clock"
)

// Controlled is what signals control.
type Controlled interface {
	Pause()
	Resume()
	CancelJobs()
	StopNow()
}

// Handle reacts to signals as a Resque worker does, until undo is called:
//
//	QUIT, TERM, INT   take no more jobs, finish, stop; a second one stops at once, unless
//	                  it comes within a second: some wrappers signal a process twice
//	USR1              cancel the running jobs; they are failures
//	USR2, CONT        pause, resume
//	HUP               call reload, unless that is nil: then it is not caught
//
// It returns a context that ends with the first signal to stop. A reload waits for Redis, so it has a goroutine of its own; its
// context ends with the handling. One that comes meanwhile is done after it.
func Handle(parent context.Context, on Controlled, reload func(context.Context)) (ctx context.Context, undo func()) {
	ctx, cancel := context.WithCancel(parent)
	reloading, endReload := context.WithCancel(parent)
	// Room for a burst: a signal that finds no room is lost.
	signals, reloads := make(chan os.Signal, 16), make(chan os.Signal, 1)
	signal.Notify(signals, All()...)
	if reload != nil && Reload != nil {
		signal.Notify(reloads, Reload)
	}
	r := receiver{on: on, stop: cancel, clock: clock.System}
	ended := make(chan struct{}, 2)
	loop := func(of <-chan os.Signal, receive func(os.Signal)) {
		defer func() { ended <- struct{}{} }()
		for {
			select {
			case <-reloading.Done():
				return
			case s := <-of:
				receive(s)
			}
		}
	}
	go loop(signals, r.receive)
	go loop(reloads, func(os.Signal) { reload(reloading) })
	return ctx, func() {
		signal.Stop(signals)
		signal.Stop(reloads)
		endReload()
		<-ended
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
	case Cancel:
		r.on.CancelJobs()
	case Pause:
		r.on.Pause()
	case Resume:
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
