package goworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/payload"
)

// StopTime returns how long a stop takes at most with these settings, from the first
// signal until Work has returned or ended the program: ShutdownTimeout and eight
// seconds. By default that is 25 s. Whatever ends the program by force must wait longer.
//
// With a ShutdownTimeout of NoTimeout it returns NoTimeout: a stop then takes until the
// last job has ended, and nine seconds at most, or longer if parts of the program stop
// more slowly.
func StopTime(settings WorkerSettings) time.Duration {
	timeout := cmp.Or(settings.ShutdownTimeout, DefaultShutdownTimeout)
	if timeout < 0 {
		return NoTimeout
	}
	return timeout + part.Graces
}

// ShutdownError is returned by Run when it had to stop before the jobs did, before Redis
// had taken all outcomes, or before a part had stopped. It says what was left where.
type ShutdownError struct {
	// Unfinished names the jobs whose handlers were still running. They run again,
	// although these handlers may yet finish. They went back to their queues, unless
	// Remaining names them too.
	Unfinished []string

	// Undelivered is how many outcomes Redis did not confirm. Their jobs run again once
	// another process finds this one dead.
	Undelivered int

	// Remaining names the jobs that are in the in-flight record still: Redis confirmed
	// neither an outcome of theirs nor their return. They run again once another process
	// finds this one dead.
	Remaining []string

	// Record is the key of the in-flight record of this process.
	Record string

	// Parts names the parts that did not stop in their time. They may still run. "hook
	// Shutdown" is the hook of that name. A part of the daemon's own is among them only
	// if a Dialer of the program ignores its context.
	Parts []string
}

func (e *ShutdownError) Error() string { return "goworker: " + part.Left(*e).Text(fleet.LeasePeriod) }

// withParts adds to the error of a stop the parts that were left behind.
func withParts(err error, left []string) error {
	if len(left) == 0 {
		return err
	}
	behind := &ShutdownError{Parts: left}
	var e *ShutdownError
	if errors.As(err, &e) {
		e.Parts = append(e.Parts, left...)
		return errors.Join(err, errors.New(behind.Error())) // what wraps e has made its text from the parts that it had
	}
	return errors.Join(err, behind)
}

// stopBudget returns the time of one stop. Group is that of all shards; nil: there are none.
func (c config) stopBudget(l part.Layout, group *part.Budget) *part.Budget {
	return part.NewBudget(clock.System, c.ShutdownTimeout, DefaultShutdownTimeout, l, group)
}

// ending is how a poller ends.
type ending struct {
	ended      chan struct{}   // closed when the poller has returned
	leftBehind chan struct{}   // closed when it has returned and handlers still run
	quits      chan struct{}   // closed when it may return
	halted     context.Context // ends when it must return
	halt       context.CancelFunc
	drains     sync.Once
	drained    chan error // what it left; sent once
}

func newEnding() ending {
	halted, halt := context.WithCancel(context.Background())
	return ending{
		ended: make(chan struct{}), leftBehind: make(chan struct{}), quits: make(chan struct{}),
		halted: halted, halt: halt, drained: make(chan error, 1),
	}
}

// close makes the poller take no more jobs. It goes on until stop is called.
func (p *poller) close() { p.ask(func() { p.stage = max(p.stage, closing) }) }

// drain makes the poller take no more jobs, and return in time. The poller goes on until stop is called.
// Only the first call counts.
func (p *poller) drain(b *part.Budget, running func() int) {
	p.drains.Do(func() {
		go func() {
			p.drained <- p.leftovers(b.Drain(part.Drained{
				Close:   p.close,
				Quit:    p.quits,
				Ended:   p.ended,
				Running: running,
				Wait:    func() { p.ask(p.sayOutcomes) },
				Cancel: func(jobs int) {
					if jobs > 0 {
						p.Log.Warn("cancelling the jobs that still run", "jobs", jobs)
					}
					p.lease.Session().StopJobs(ErrShutdown)
				},
				Abandon: func() { p.ask(p.abandon) },
				Halt: func() {
					p.ask(func() { p.stage = hopeless })
					p.halt()
				},
			}))
		}()
	})
}

// stop waits until the poller has returned, and returns an error for what it left.
func (p *poller) stop(b *part.Budget, running func() int) error {
	p.drain(b, running)
	close(p.quits)
	p.ask(p.quit)
	return <-p.drained
}

func (p *poller) sayOutcomes() {
	if n := p.record.Undelivered(); n > 0 {
		p.Log.Warn("waiting for Redis to take " + part.Count(n, "outcome"))
	}
}

// leftovers returns an error for the jobs and outcomes that the poller left. One that has not ended still
// owns what it knows.
func (p *poller) leftovers(ended bool) error {
	if !ended {
		return pollerLeft{p}
	}
	e := &ShutdownError{Undelivered: p.record.Undelivered()}
	abandoned := p.record.Abandoned()
	e.Unfinished = jobNames(abandoned)
	if n := p.slots.Busy() - len(abandoned); n > 0 {
		e.Unfinished = append(e.Unfinished, fmt.Sprintf("%d that other processes had taken over", n))
	}
	if s := p.record.Session(); s != nil && !p.reaped {
		e.Remaining, e.Record = jobNames(p.record.Remaining()), p.Store.KeyOfInFlight(s.Process.ID)
	}
	if len(e.Unfinished)+len(e.Remaining)+e.Undelivered == 0 {
		return nil
	}
	return e
}

// pollerLeft is the error of a poller that did not return in its time.
type pollerLeft struct{ *poller }

func (pollerLeft) Error() string { return "the poller did not return in its time" }

// Later returns what the poller left, if it has returned meanwhile.
func (p pollerLeft) Later() error {
	select {
	case <-p.ended:
		return p.leftovers(true)
	default:
		return &ShutdownError{Parts: []string{"poller"}}
	}
}

// jobNames names jobs for a person.
func jobNames(tasks []*inflight.Task) (names []string) {
	for _, t := range tasks {
		class := "an invalid payload"
		if p, err := payload.Parse(t.Payload); err == nil {
			class = p.Class
		}
		names = append(names, fmt.Sprintf("%s of queue %s", class, t.Queue))
	}
	return names
}
