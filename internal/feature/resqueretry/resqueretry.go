// Package resqueretry counts the retries of jobs as the Ruby plugin resque-retry does: in keys that Ruby
// reads, and not in the payload. Whether a job is retried is decided elsewhere.
package resqueretry

import (
	"context"
	"errors"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// Rule is the option of a class whose retries are counted as resque-retry does.
type Rule struct {
	Ruby34       bool // hashes among the arguments are named as Ruby 3.4 does
	NoFailureKey bool // no record of a failure that is retried
	ExpireAfter  time.Duration
}

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	counts := newCounter(d)
	return outcome.Feature{
		Name:  "resque-retry",
		Close: counts.Close,
		Open: func(j *outcome.Job) outcome.Policy {
			if !j.Dead || !j.Readable() {
				return nil
			}
			return dead{deps: d}
		},
		Bind: func(c *outcome.Class) outcome.Policy {
			if rule, ok := outcome.Get[Rule](c); ok {
				return policy{deps: d, rule: rule, counts: counts}
			}
			return nil
		},
	}
}

type policy struct {
	outcome.None
	deps   outcome.Deps
	rule   Rule
	counts *counter
}

// uncounted is the failure of a job whose count cannot be read. Its end leaves alone what stands under
// the key.
type uncounted struct{ error }

func (e uncounted) Unwrap() error { return e.error }

// Exception has failure records look through it.
func (e uncounted) Exception() string { return "" }

func (p policy) key(j *outcome.Job) resque.RetryKey {
	return resque.NewRetryKey(j.Called(), j.Args, p.rule.Ruby34)
}

// Admit asks for the job's count, and waits for Redis where it is away.
func (p policy) Admit(ctx context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	if j.Err != nil {
		return o, false
	}
	r := &resque.RetryCount{Key: p.key(j)}
	if err := p.counts.read(ctx, r); err != nil {
		j.Err = &failure.Cancelled{Cause: context.Cause(ctx), Err: err}
	} else if r.Err != nil {
		j.Err = uncounted{r.Err}
	} else {
		j.Attempt, j.Reroute = r.Retries+1, p.reroute
	}
	return o, false
}

// reroute says where Ruby's scheduler finds a job that is retried. A job that waits for less than a
// second goes to the tail of its queue: Ruby knows no less.
func (p policy) reroute(j *outcome.Job, o *outcome.Outcome) {
	o.Counts, o.Counted = resque.CountsFailed, true
	o.Next = outcome.Next{Place: outcome.RubySchedule}
	if p.wait(o) < time.Second {
		o.Next = outcome.Next{Place: outcome.Tail, Payload: j.Payload}
	}
}

func (p policy) wait(o *outcome.Outcome) time.Duration { return max(0, o.At.Sub(p.deps.Time.Now())) }

// Settle writes the count of a job that goes on, and drops that of one that is over.
func (p policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	store := p.deps.Store
	var unread uncounted
	switch {
	case o.State.Over():
		if !errors.As(j.Err, &unread) {
			o.Effects = append(o.Effects, store.DropCount(p.key(j), o.State != outcome.Done)...)
		}
	case o.State == outcome.Retried:
		key, wait := p.key(j), p.wait(o)
		o.Effects = append(o.Effects, store.SetCount(key, j.Attempt-1, wait, p.rule.ExpireAfter))
		if o.Next.Place != outcome.Tail && !p.rule.NoFailureKey {
			f, _ := p.deps.Record(j, o.Err)
			f.FailedAt = resque.FailedAtWithoutZone(p.deps.Clock.Now())
			o.Effects = append(o.Effects, store.HoldFailure(key, f.Encode(), wait))
		}
	}
}
