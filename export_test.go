package goworker

import (
	"context"
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/inflight"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/recurring"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/watch"
)

// This file is what external tests see of the inside. Each name is one thing that a
// test does to a daemon or asks of it.

const (
	ActiveJobWrapper = args.ActiveJobWrapper
	HeartbeatEvery   = fleet.HeartbeatEvery
	HeldPayloads     = inflight.HeldPayloads
	MaxErrorText     = failure.MaxText
	MostLeft         = watch.MostPassed
	ScanEvery        = fleet.ScanEvery
)

var (
	NewLogger = logging.New
	RedactURI = conn.RedactURI
)

// InitToEnqueue makes the daemon ready to enqueue only.
func InitToEnqueue(d *Daemon) error {
	_, err := d.init(false)
	return err
}

// AddFeature gives the daemon a feature that is in no list, from the next run on.
func AddFeature(d *Daemon, feature func(outcome.Deps) outcome.Feature) {
	d.features = append(d.features, feature)
}

// ClassOption gives a class an option of such a feature.
func ClassOption[T any](value T) Option {
	return option(func(o *options) { outcome.Put(o.class, value) })
}

// Observe has f called for every end, from the next run on.
func Observe(d *Daemon, f func(*outcome.Job, *outcome.Outcome)) {
	d.AddPart(Part{Name: "observer", Start: func(context.Context) error {
		d.workers.set.Observe(func(_ context.Context, j *outcome.Job, o *outcome.Outcome) { f(j, o) })
		return nil
	}})
}

// InFleet is the id of the daemon's process, or "" before it has one.
func InFleet(d *Daemon) string {
	if s := d.session(); s != nil {
		return s.Process.ID
	}
	return ""
}

// WorkerIDs are the ids of the daemon's workers.
func WorkerIDs(d *Daemon) []string { return d.session().Record().WorkerIDs() }

// Ended is closed when the daemon's poller has ended.
func Ended(d *Daemon) <-chan struct{} { return d.currentPoller().ended }

// HurryLease renews the lease now.
func HurryLease(d *Daemon) { d.lease.Wake() }

// SeeTime makes the daemon take a time for Redis's, and its recurring schedules look at it.
func SeeTime(d *Daemon, at time.Time) {
	d.lease.Saw(at)
	d.ticker.Wake()
}

// PumpNow makes the daemon look for delayed jobs that are due.
func PumpNow(d *Daemon) { d.pump.Poke() }

// LeadPump makes the daemon believe that it pumps for the whole fleet, and look for delayed jobs.
func LeadPump(d *Daemon) { d.pump.Answered(true, resque.Due{}) }

// HoldMasterLock takes resque-scheduler's lock as a part of the daemon does.
func HoldMasterLock(d *Daemon, c redis.Conn, part string) (held bool, err error) {
	held, _, err = d.lock.Hold(c, part)
	return held, err
}

// askPoller runs a function in the poller's goroutine and waits for it.
func askPoller(d *Daemon, f func(p *poller)) {
	p, done := d.currentPoller(), make(chan struct{})
	p.ask(func() { f(p); close(done) })
	<-done
}

// Load is how many jobs the daemon's record holds, and how many workers are busy.
func Load(d *Daemon) (held, busy int) {
	askPoller(d, func(p *poller) { held, busy = p.record.Held(), p.slots.Busy() })
	return held, busy
}

// Turn waits for a turn of the poller.
func Turn(d *Daemon) { askPoller(d, func(*poller) {}) }

// KnowsPaused reports whether the daemon has seen that a queue is paused.
func KnowsPaused(d *Daemon, queue string) (paused bool) {
	askPoller(d, func(p *poller) { paused = p.source.(*watch.Order).Lanes().Paused(queue) })
	return paused
}

// SortedQueues is how many queues the daemon knows to be sorted into lanes.
func SortedQueues(d *Daemon) (n int) {
	askPoller(d, func(p *poller) { n = p.source.(*watch.Order).Lanes().Len() })
	return n
}

// ProveLink makes the poller prove its connections with its next exchange.
func ProveLink(d *Daemon) {
	askPoller(d, func(p *poller) {
		if l := p.keeper.Link(); l != nil {
			l.Unprove()
		}
	})
}

// SortAs moves a job of a queue of one daemon into the lane that another's limits say.
func SortAs(d, other *Daemon, c redis.Conn, queue string, payload []byte) (left int, err error) {
	lane := other.registry.limits.Lanes(queue, [][]byte{payload})[0]
	if lane.Shared == "" {
		return 0, errors.New("the job has no limits")
	}
	left, _, err = d.store.Sort(c, queue, [][]byte{payload}, []resque.Lane{lane}, resque.Next{})
	return left, err
}

// TimingHash is what Redis holds of a schedule's timing.
func TimingHash(r Recurring) (string, error) {
	r.Queue = "q"
	s, err := recurring.Check("s", r.internal())
	if err != nil {
		return "", err
	}
	return s.TimingHash(), nil
}

// Interrupted reports whether a job that returns the error goes back to its queue.
func Interrupted(err error) bool { return failure.Interrupted(err) }
