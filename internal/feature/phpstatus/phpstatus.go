// Package phpstatus keeps the status of jobs that php-resque enqueued, as its own workers do. The
// status of a job that begins to run is the status writer's.
package phpstatus

import (
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	p := policy{store: d.Store, time: d.Time}
	return outcome.Feature{
		Name:  "php-resque",
		Field: "queue_time",
		Open: func(j *outcome.Job) outcome.Policy {
			if j.Parsed.PHP == nil {
				return nil
			}
			return p
		},
	}
}

type policy struct {
	outcome.None
	store resque.Store
	time  outcome.Time
}

// Settle writes the status. A job that was discarded, has expired or was cancelled is complete.
// php-resque writes the same for a job that its hooks keep from being performed. A failed status
// would point to a failure record that does not exist.
func (p policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	status := payload.PHPComplete
	switch {
	case o.State == outcome.Failed:
		status = payload.PHPFailed
	case !o.State.Over():
		status = payload.PHPWaiting
	}
	o.Effects = append(o.Effects, p.store.PHPStatus(j.Parsed.PHP, status, o.State.Over(), p.time.Now()))
}
