package goworker

import (
	"errors"
	"log/slog"

	"github.com/goworker/goworker/internal/resque"
)

// This file is how jobs of classes that have no handler here are left to others, where
// the settings say so: each goes to the tail of its queue, and once the poller has come
// round to the first of them again the queue rests, so that a queue of nothing else is
// looked through once an interval. In a queue that is sorted such jobs have lanes of
// their own, which rest.

// leave leaves a job of an unknown class to processes that know it: at the tail of its queue,
// or in the lane that leftIn says.
func (w *workers) leave(t *task, d *Delivery, err error) *ending {
	var unknown *UnknownClassError
	if !w.d.config.LeaveUnknown || !errors.As(err, &unknown) {
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
