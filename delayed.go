package goworker

import (
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/resque"
)

// EnqueueAt enqueues a job at a time, as resque-scheduler's enqueue_at does: it waits
// in Redis, where Ruby's tools see it and may cancel it, and some process of the fleet,
// a daemon or a Ruby scheduler, moves it to its queue. A time that is not after now, by
// this machine's clock, is Enqueue.
//
// Daemons move it at the millisecond by Redis's clock. A Ruby scheduler, where there
// is one, looks each five seconds and knows whole seconds only, so what it sees is the
// time rounded up to one. Nobody moves it before its time.
//
// When the connection breaks before Redis has answered, it is unknown whether the job
// is delayed.
//
// A job whose class was registered here with an option for jobs that are enqueued, such
// as Unique, is enqueued as by EnqueueWith and At.
func (d *Daemon) EnqueueAt(t time.Time, job *Job) error {
	if d.registry.told(job) {
		_, err := d.EnqueueWith(job, At(t))
		return err
	}
	return d.EnqueueAllAt(t, job)
}

// EnqueueIn is EnqueueAt after a duration, from now on.
func (d *Daemon) EnqueueIn(in time.Duration, job *Job) error {
	return d.EnqueueAt(clock.System.Now().Add(in), job)
}

// EnqueueAllAt delays any number of jobs, for any queues, to one time: all of them or,
// with an error, none, as EnqueueAll. They are moved in the order given here. Jobs whose
// class was registered here with an option for jobs that are enqueued are refused.
func (d *Daemon) EnqueueAllAt(t time.Time, jobs ...*Job) error {
	if len(jobs) == 0 {
		return d.usable()
	}
	client, err := d.init(false)
	if err != nil {
		return err
	}
	for i, job := range jobs {
		if d.registry.told(job) {
			return unsent(fmt.Errorf("enqueueing %s: %w", job.Payload.Class, errToldAmongMany), i, len(jobs))
		}
	}
	bulk, err := d.encodeJobs(client.config, jobs)
	if err != nil {
		return err
	}
	if !t.After(clock.System.Now()) {
		return client.push(bulk)
	}
	return client.send(func(c redis.Conn) error { return client.store.Delay(c, bulk, t) })
}

// At makes EnqueueWith enqueue the job at a time. It waits in a schedule that only
// daemons know, since Ruby's scheduler would drop the job's id and what else it is told;
// see EnqueueAt for how exact that is. Of jobs for one millisecond the order is open.
// A time that is not after now enqueues at once.
func At(t time.Time) EnqueueOption { return due(t, fmt.Sprintf("At(%s)", t.Format(time.RFC3339Nano))) }

// In is At after a duration, from now on. Zero or less enqueues at once.
func In(d time.Duration) EnqueueOption {
	return due(clock.System.Now().Add(d), fmt.Sprintf("In(%s)", d))
}

func due(t time.Time, option string) EnqueueOption {
	return enqueueOption(func(o *enqueueOptions) {
		o.once("when the job is due", option)
		o.at = t
	})
}

// put enqueues what EnqueueWith has collected, now or at its time.
func (c *client) put(bulk *resque.Bulk, at time.Time) error {
	if !at.After(clock.System.Now()) {
		return c.push(bulk)
	}
	return c.send(func(conn redis.Conn) error { return c.store.Schedule(conn, bulk, at) })
}
