package goworker

import (
	"errors"
	"log/slog"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// This file is how jobs of classes that have no handler here are left to others, where
// the settings say so: each goes to the tail of its queue, and once the poller has come
// round to the first of them again the queue rests, so that a queue of nothing else is
// looked through once an interval. In a queue that is sorted such jobs have lanes of
// their own, which rest.

// mostLeft is how many jobs of a queue are put to its tail in an interval. In a longer
// queue of jobs that nobody knows the others move up by so many each interval.
const mostLeft = 1000

// leave leaves a job of an unknown class to processes that know it: at the tail of its queue,
// or in the lane that leftIn says.
func (w *workers) leave(t *task, d *Delivery, err error) *ending {
	var unknown *UnknownClassError
	if !w.d.config.leaveUnknown || !errors.As(err, &unknown) {
		return nil
	}
	o := outcome{task: t, left: true, Ended: resque.Ended{Ticket: t.Ticket, Effects: w.d.store.Tail(t.Reserved)}}
	if t.Lane != nil {
		lane := w.d.registry.leftIn(t, d, err)
		o.lane, o.Effects = &lane, w.d.store.ToLane(t.Reserved, lane)
	}
	o.giveBack(w.d.store, resque.End{})
	return &ending{outcome: o, level: slog.LevelDebug, message: "job left to others; it goes to the tail of its queue"}
}

// leftIn returns the lane to which a job of an unknown class goes back: the lane it came from
// if another process sorted it knowing its class, else a lane of that class alone, so that it
// blocks no other jobs.
func (r *registry) leftIn(t *task, d *Delivery, err error) resque.Lane {
	if lane, _ := r.laneFor(t.Queue, d, err); lane.Known() == *t.Lane {
		return lane
	}
	return *t.Lane
}

// rounds are the queues that jobs were left in lately. It belongs to the poller's
// goroutine.
type rounds map[string]*round

// round is one way through a queue: from the first job that was left in it until that
// job would come again.
type round struct {
	until time.Time // the interval it belongs to
	left  int       // jobs put to the tail
	ahead int       // jobs that stood before the first of these, less what we took since; −1: not known yet
}

// leftOne takes note that a job of a queue is about to be put to its tail. Until Redis
// has told how long the queue is, it is not asked for more.
func (r rounds) leftOne(queue string, now time.Time, interval time.Duration) {
	q := r[queue]
	if q == nil || !now.Before(q.until) {
		q = &round{until: now.Add(interval), ahead: -1}
		r[queue] = q
	}
	q.left++
}

// unmeasured are the queues whose length is to be asked for.
func (r rounds) unmeasured() (queues []string) {
	for queue, q := range r {
		if q.ahead < 0 {
			queues = append(queues, queue)
		}
	}
	return queues
}

func (r rounds) measured(queue string, size int) {
	if q := r[queue]; q != nil && q.ahead < 0 {
		q.ahead = max(0, size)
	}
}

// took takes note of jobs that were reserved from a queue.
func (r rounds) took(queue string, n int) {
	if q := r[queue]; q != nil && q.ahead > 0 {
		q.ahead = max(0, q.ahead-n)
	}
}

// resting reports whether a queue is not to be asked now.
func (r rounds) resting(queue string, now time.Time) bool {
	q := r[queue]
	return q != nil && now.Before(q.until) && (q.ahead <= 0 || q.left >= mostLeft)
}

// seen reports whether all jobs of a queue were looked at, and what stays is left to
// others.
func (r rounds) seen(queue string) bool {
	q := r[queue]
	return q != nil && q.ahead == 0
}

// tick forgets rounds whose interval is over.
func (r rounds) tick(now time.Time) {
	for queue, q := range r {
		if !now.Before(q.until) {
			delete(r, queue)
		}
	}
}

// over is when the first of the intervals is over; zero if there is none.
func (r rounds) over() (at time.Time) {
	for _, q := range r {
		if at.IsZero() || q.until.Before(at) {
			at = q.until
		}
	}
	return at
}

// leftToOthers lets the queue or lane rest from which a job is left to others.
func (p *poller) leftToOthers(o outcome) {
	if o.lane == nil {
		p.watch.rounds.leftOne(o.task.Queue, time.Now(), p.watch.interval)
	} else {
		p.watch.lanes.Skip(*o.lane, time.Now().Add(p.watch.interval))
	}
	about := "left " + o.task.Queue
	if p.logged[about] == "" {
		p.logged[about] = "yes"
		p.log.Info("jobs of classes that have no handler here are left to others; their queue rests for an interval", "queue", o.task.Queue)
	}
}

// sizesAsked takes the answer to what unmeasured asked for.
func (w *watch) sizesAsked(x *resque.Exchange, r resque.Exchanged) {
	for i, queue := range x.Sizes {
		if i < len(r.Sizes) {
			w.rounds.measured(queue, r.Sizes[i])
		}
	}
}
