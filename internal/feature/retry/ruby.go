package retry

import (
	"context"
	"errors"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// ruby is a policy that counts as the Ruby plugin resque-retry does.
type ruby struct {
	policy
	counts *counter
}

// uncounted is the failure of a job whose count cannot be read. Its end leaves alone what stands under
// the key.
type uncounted struct{ error }

func (e uncounted) Unwrap() error { return e.error }

// Exception has failure records look through it.
func (e uncounted) Exception() string { return "" }

func (p ruby) key(j *outcome.Job) resque.RetryKey {
	return resque.NewRetryKey(j.Name, j.Args, p.policy.policy.Ruby.Ruby34)
}

// Admit asks for the job's count, and waits for Redis where it is away.
func (p ruby) Admit(ctx context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	if j.Err != nil {
		return o, false
	}
	r := &resque.RetryCount{Key: p.key(j)}
	if err := p.counts.read(ctx, r); err != nil {
		j.Err = &failure.Cancelled{Cause: context.Cause(ctx), Err: err}
	} else if r.Err != nil {
		j.Err = uncounted{r.Err}
	} else {
		j.Attempt = r.Retries + 1
	}
	return o, false
}

// Decide says where Ruby's scheduler finds the job. A job that waits for less than a second goes to the
// tail of its queue: Ruby knows no less.
func (p ruby) Decide(ctx context.Context, j *outcome.Job, err error) (o outcome.Outcome, decided bool) {
	o, decided = p.policy.Decide(ctx, j, err)
	if o.State == outcome.Retried {
		o.Counts, o.Counted = resque.CountsFailed, true
		if p.wait(&o) < time.Second {
			o.Next = outcome.Next{Place: outcome.Tail, Payload: j.Payload}
		} else {
			o.Next = outcome.Next{Place: outcome.RubySchedule}
		}
	}
	return o, decided
}

func (p ruby) wait(o *outcome.Outcome) time.Duration { return max(0, o.At.Sub(p.deps.Time.Now())) }

// Settle writes the count of a job that goes on, and drops that of one that is over.
func (p ruby) Settle(j *outcome.Job, o *outcome.Outcome) {
	rule, store := p.policy.policy.Ruby, p.deps.Store
	var unread uncounted
	switch {
	case o.State.Over():
		if !errors.As(j.Err, &unread) {
			o.Effects = append(o.Effects, store.DropCount(p.key(j), o.State != outcome.Done)...)
		}
	case o.State == outcome.Retried:
		key, wait := p.key(j), p.wait(o)
		o.Effects = append(o.Effects, store.SetCount(key, j.Attempt-1, wait, rule.ExpireAfter))
		if wait >= time.Second && !rule.NoFailureKey {
			f, _ := p.deps.Record(j, o.Err)
			f.FailedAt = resque.FailedAtWithoutZone(p.deps.Clock.Now())
			o.Effects = append(o.Effects, store.HoldFailure(key, f.Encode(), wait))
		}
	}
}
