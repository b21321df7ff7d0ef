// Package unknown leaves jobs of classes without a handler here to other processes, if the settings
// say so. Each goes to the tail of its queue, or into a lane of its class. Otherwise they fail, and the
// log warns of their classes.
//
// A job of an HTTP client that names no class is left in any case: a consumer that no process knows waits for it.
package unknown

import (
	"context"

	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// Lanes finds the lane of a job.
type Lanes interface {
	LaneOf(j *outcome.Job) (lane resque.Lane, held bool)
}

// New returns a maker of the feature.
func New(lanes Lanes) func(outcome.Deps) outcome.Feature {
	return func(d outcome.Deps) outcome.Feature {
		failing, leaving := newSeen(d.Clock, failing(d.Log)), newSeen(d.Clock, leaving(d.Log))
		open := func(j *outcome.Job) outcome.Policy {
			switch {
			case j.Class != nil || !j.Readable() || j.Dead || j.Place != "":
			case d.Settings.LeaveUnknown:
				return policy{lanes: lanes}
			case j.UnknownClass && j.Name == httpjob.DefaultClass:
				leaving.note(j.Queue)
				return policy{lanes: lanes}
			case j.UnknownClass:
				failing.note(j.Name)
			}
			return nil
		}
		return outcome.Feature{Name: "unknown", Open: open}
	}
}

type policy struct {
	outcome.None
	lanes Lanes
}

// Admit passes the job on. A malformed ActiveJob is not passed: no process can run it.
func (p policy) Admit(_ context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	if !j.UnknownClass {
		return o, false
	}
	o = outcome.Outcome{State: outcome.Passed, Err: j.Err}
	if j.Lane != nil {
		lane := p.lane(j)
		o.Next = outcome.Next{Place: outcome.Lane, Lane: &lane}
	}
	return o, true
}

// lane returns the lane to which a job of an unknown class goes back. If a process that knows the class
// sorted it, that is the lane it came from. Otherwise it is a lane of that class alone, so that it
// blocks no other jobs.
func (p policy) lane(j *outcome.Job) resque.Lane {
	if lane, _ := p.lanes.LaneOf(j); lane.Known() == *j.Lane {
		return lane
	}
	return *j.Lane
}
