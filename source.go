package goworker

import (
	"slices"
	"time"

	"github.com/goworker/goworker/internal/lanes"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/watch"
)

// source is where the poller's jobs come from. The poller's goroutine calls it.
type source interface {
	// Tick is called each turn, before the others. It acts on times that have come, and reports
	// whether the fleet is paused, as far as is known.
	Tick(now time.Time) (paused bool)

	// Hungry reports whether Plan would have something to ask now. Commits says whether the next
	// exchange commits.
	Hungry(now time.Time, commits bool) bool

	// Plan adds to an exchange, which holds already what it commits, what it asks for: want jobs at
	// most, of which idle may start at once.
	Plan(x *resque.Exchange, want, idle int, now time.Time)

	// Answered takes the answer to an exchange. It reports whether the process is to end because
	// there are no more jobs.
	Answered(x *resque.Exchange, r resque.Exchanged, now time.Time) (complete bool)

	// Ended is called when a job has ended or goes back, and once more when Redis has committed
	// that. It need not be called for a job that is done and has no effects.
	Ended(j *outcome.Job, end *outcome.Outcome, committed bool)

	// Connected is called when there is a new connection, and says whether Redis notifies of
	// changes on it.
	Connected(tracking bool)

	// Changed takes the names of what Redis reported as changed; all: anything may have changed.
	Changed(names []string, all bool)

	// Next returns when the poller must turn again if nothing happens before. Taking says whether
	// more jobs could start now.
	Next(taking bool) time.Time

	// Stop is called when the poller outcome.
	Stop()
}

// newSource makes the source of a poller.
func newSource(d *Daemon, base part.Base, p *poller) source {
	l := lanes.New(base, d.registry.limits, p.ask, d.lease.Sweep)
	return watch.New(base, l, watch.Options{
		Queues: d.config.queues, Order: d.config.Order, Interval: d.config.PollInterval, Exits: d.config.ExitOnComplete,
		Peers: d.lease.Peers,
		Waits: func(queue string) bool {
			return slices.ContainsFunc(p.misplaced, func(o ended) bool { return o.task.Queue == queue })
		},
	})
}

// tell tells the source of a job that ended or goes back.
func (p *poller) tell(o ended, committed bool) {
	if o.task.Lane == nil && o.lane == nil && !o.left {
		return
	}
	end := outcome.Outcome{Started: o.started, Next: outcome.Next{Lane: o.lane}}
	switch {
	case o.left:
		end.State = outcome.Passed
	case o.back:
		end.State = outcome.Returned
	}
	p.source.Ended(&o.task.Job, &end, committed)
}
