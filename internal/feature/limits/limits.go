package limits

import (
	"context"
	"log/slog"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/control"
)

// New returns a maker of the feature. It applies to the jobs of classes that have limits, to those from
// lanes, and to all jobs while a queue has limits.
func New(t *Table) func(outcome.Deps) outcome.Feature {
	return func(d outcome.Deps) outcome.Feature {
		p, rules := &policy{table: t, store: d.Store}, control.New(d.Store)
		if d.Time != nil {
			t.Rules.UseClock(d.Time.Now)
		}
		return outcome.Feature{
			Name:  "limits",
			Live:  t.Version,
			Watch: []outcome.Watched{{Key: rules.RulesKey().String(), Read: func(c redis.Conn) error { return t.Rules.Read(rules, c) }}},
			Open: func(j *outcome.Job) outcome.Policy {
				if j.Lane == nil && (j.Dead || !t.Any()) {
					return nil
				}
				return p
			},
			Bind: func(c *outcome.Class) outcome.Policy {
				if of, _ := outcome.Get[Of](c); c != nil && (len(of) > 0 || t.version.Load() > 0 || t.hasRules(c.Name)) {
					return p
				}
				return nil
			},
		}
	}
}

type policy struct {
	outcome.None
	table *Table
	store resque.Store
}

// Admit sends a job with limits into its lane if it came from its queue: this is how a process notices
// that the queue holds such jobs. It does the same for a job from the lane of an unknown class, and for one that waited in a lane
// before an operator gave its class a limit.
func (p *policy) Admit(_ context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	if j.Lane != nil && j.Lane.Known() == *j.Lane && !p.table.laterRuled(j) {
		return o, false
	}
	lane, held := p.table.LaneOf(j)
	if !held || j.Lane != nil && lane == *j.Lane {
		return o, false
	}
	return outcome.Outcome{
		State: outcome.Returned,
		Next:  outcome.Next{Place: outcome.Lane, Lane: &lane},
		Log:   outcome.Log{Level: slog.LevelDebug, Message: "job waits for its limits"},
	}, true
}

// Settle gives back the slots that a job from a lane holds and, if its handler was not called, the
// starts that rates have counted.
func (p *policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	if j.Lane != nil {
		o.Effects = p.store.LeaveLane(o.Effects, j.Process, j.Reserved, o.Started)
	}
}
