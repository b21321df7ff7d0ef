package goworker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
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

func (e *ShutdownError) Error() string {
	var parts []string
	if n := len(e.Unfinished); n > 0 {
		where := ""
		switch back := len(without(e.Unfinished, e.Remaining)); back {
		case 0:
		case n:
			where = " and went back to the queue"
		default:
			where = fmt.Sprintf(", of which %d went back to the queue", back)
		}
		parts = append(parts, fmt.Sprintf("%s did not stop in time%s: %s", count(n, "job"), where, some(e.Unfinished)))
	}
	if n := len(e.Remaining); n > 0 {
		verbs := [2]string{"stays", "runs"}
		if n > 1 {
			verbs = [2]string{"stay", "run"}
		}
		parts = append(parts, fmt.Sprintf("Redis confirmed no outcome of %s, which %s in %s and %s again when another process finds this one dead, in about %s: %s",
			count(n, "job"), verbs[0], e.Record, verbs[1], fleet.LeasePeriod, some(e.Remaining)))
	} else if e.Undelivered > 0 {
		parts = append(parts, fmt.Sprintf("Redis confirmed no outcome of %s; they run again", count(e.Undelivered, "job")))
	}
	if n := len(e.Parts); n > 0 {
		parts = append(parts, fmt.Sprintf("%s did not stop in time and may still run: %s", count(n, "part"), some(e.Parts)))
	}
	return "goworker: " + strings.Join(parts, "; ")
}

// count returns "1 job" or "2 jobs".
func count(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return fmt.Sprintf("%d %s", n, noun)
}

// some returns the first names of a list.
func some(names []string) string {
	if len(names) > 5 {
		names = append(slices.Clone(names[:5]), "…")
	}
	return strings.Join(names, ", ")
}

// without returns all names but those of others, each as often as it stands there.
func without(all, others []string) []string {
	left := slices.Clone(all)
	for _, name := range others {
		if i := slices.Index(left, name); i >= 0 {
			left = slices.Delete(left, i, i+1)
		}
	}
	return left
}

// withParts adds to the error of a stop the parts that were left behind.
func withParts(err error, left []string) error {
	if len(left) == 0 {
		return err
	}
	var e *ShutdownError
	if errors.As(err, &e) {
		e.Parts = append(e.Parts, left...)
		return err
	}
	return errors.Join(err, &ShutdownError{Parts: left})
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
		p.Log.Warn("waiting for Redis to take " + count(n, "outcome"))
	}
}

// leftovers returns an error for the jobs and outcomes that the poller left. One that has not ended still
// owns what it knows.
func (p *poller) leftovers(ended bool) error {
	if !ended {
		return &ShutdownError{Parts: []string{"poller"}}
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
