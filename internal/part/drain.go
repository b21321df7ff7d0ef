package part

import (
	"time"

	"github.com/goworker/goworker/internal/clock"
)

const (
	// drainLook is how often Drain looks whether jobs still run.
	drainLook = 100 * time.Millisecond

	// restAfter is how long no job must have run before Drain says that only outcomes are left. The
	// way of a job from the poller to its worker is far shorter.
	restAfter = time.Second
)

// Drained are the jobs that a stop waits for, and the poller that has them. All functions are safe for concurrent use, and none waits.
type Drained struct {
	// Close takes no more jobs. The poller goes on until Quit is closed.
	Close func()

	// Quit is closed when the poller may return.
	Quit <-chan struct{}

	// Ended is closed when the poller has returned.
	Ended <-chan struct{}

	// Running returns how many jobs run.
	Running func() int

	// Wait is called once when no job runs any more and outcomes may wait for Redis.
	Wait func()

	// Cancel cancels the contexts of the jobs that still run, so many as is known.
	Cancel func(jobs int)

	// Abandon requeues jobs that have not returned. The poller returns when that is committed.
	Abandon func()

	// Halt makes the poller return now, whatever it waits for.
	Halt func()
}

// Drain waits until the poller has returned, and makes it return in time. It reports whether it did.
//
//  1. The poller takes no more jobs. Those that run have the shutdown timeout.
//  2. Their contexts are cancelled. They have CancelGrace to return.
//  3. The poller requeues the others. Redis has CommitGrace to take that and all outcomes.
//  4. The poller gives up.
//
// Without a timeout, the second step comes when no job has run for a second.
func (b *Budget) Drain(d Drained) (ended bool) {
	d.Close()
	if b.awaitJobs(&d) {
		return true
	}
	running := d.Running()
	if running == 0 && d.Wait != nil {
		d.Wait()
	}
	d.Cancel(running) // also without one: a job may be on its way to its worker
	if b.within(d.Ended, CancelGrace) {
		return true
	}
	d.Abandon()
	if b.within(d.Ended, CommitGrace) {
		return true
	}
	d.Halt()
	return b.within(d.Ended, haltGrace*4/5)
}

// awaitJobs waits until the poller has returned, and then reports true, or the time of the jobs is over.
func (b *Budget) awaitJobs(d *Drained) (ended bool) {
	var rests, quits time.Time // since when no job runs, and the poller may return
	look := b.clock.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-d.Ended:
			return true
		case <-b.cuts:
			return false
		case <-look.C():
		}
		now := b.clock.Now()
		at, limited := b.timeoutEnds()
		if quits.IsZero() && closed(d.Quit) {
			quits = now
		}
		switch {
		case limited && !now.Before(at):
			return false
		case d.Running() > 0:
			rests = time.Time{}
		case rests.IsZero():
			rests = now
		case now.Sub(rests) < restAfter:
		case !limited && !quits.IsZero() && now.Sub(quits) >= restAfter:
			return false
		case d.Wait != nil:
			d.Wait()
			d.Wait = nil
		}
		next := drainLook
		if limited {
			next = min(next, clock.Until(b.clock, at))
		}
		look.Reset(next)
	}
}

// within waits for the end of the poller, and reports whether it came in time.
func (b *Budget) within(ended <-chan struct{}, d time.Duration) bool {
	timer := b.clock.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ended:
		return true
	case <-timer.C():
		return closed(ended)
	}
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
