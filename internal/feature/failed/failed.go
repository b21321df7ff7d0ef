// Package failed files jobs that failed for good into Resque's failure list.
package failed

import (
	"github.com/goworker/goworker/internal/outcome"
)

// New makes the feature. It applies to every job that did not end well.
func New(d outcome.Deps) outcome.Feature {
	return outcome.Feature{
		Name: "failed",
		Bind: func(c *outcome.Class) outcome.Policy {
			if c != nil {
				return nil
			}
			return policy{deps: d}
		},
	}
}

type policy struct {
	outcome.None
	deps outcome.Deps
}

// Settle writes the failure record, and keeps the payload elsewhere where no record can hold it.
func (p policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	if o.State != outcome.Failed {
		return
	}
	record, keep := p.deps.Record(j, o.Err)
	o.Effects = append(o.Effects, p.deps.Store.FileFailure(j.Queue, record.Encode(), p.deps.Settings.MultiQueueFailures)...)
	if keep {
		o.Effects = append(o.Effects, p.deps.Store.Keep(j.Reserved))
	}
}
