// Package failed files jobs that failed for good into Resque's failure list.
package failed

import (
	"log/slog"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/failures"
)

// New makes the feature. It applies to every job that did not end well.
func New(d outcome.Deps) outcome.Feature {
	return outcome.Feature{
		Name: "failed",
		Bind: func(c *outcome.Class) outcome.Policy {
			if c != nil {
				return nil
			}
			return policy{deps: d, names: new(failures.Namer)}
		},
	}
}

type policy struct {
	outcome.None
	deps  outcome.Deps
	names *failures.Namer
}

// Settle writes the failure record, and keeps the payload elsewhere where no record can hold it. The log
// line of the outcome names the record, so that one leads to the other.
func (p policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	if o.State != outcome.Failed {
		return
	}
	f, keep := p.deps.Record(j, o.Err)
	raw := f.Encode()
	multi := p.deps.Settings.MultiQueueFailures || j.Place != "" // a dead letter is of its queue, whatever the fleet's backend
	o.Effects = append(o.Effects, p.deps.Store.FileFailure(j.Queue, raw, multi)...)
	r := &record{p.names, f, raw}
	o.Failure, o.Log.Attrs = r, append(o.Log.Attrs, slog.Any("failure", r))
	if keep {
		o.Effects = append(o.Effects, p.deps.Store.Keep(j.Reserved))
	}
}

// record is a failure record, which the log names by its id. The id costs a digest or two, so it is made
// when a line is really written.
type record struct {
	names *failures.Namer
	payload.Failure
	raw []byte
}

// LogValue returns the record's id.
func (r *record) LogValue() slog.Value { return slog.StringValue(r.String()) }

// String is for loggers that resolve no values.
func (r *record) String() string { return r.names.ID(r.Failure, r.raw) }
