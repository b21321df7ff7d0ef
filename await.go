package goworker

import (
	"context"
	"encoding/json"
	"iter"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/await"
	step "github.com/goworker/goworker/internal/feature/workflow"
	"github.com/goworker/goworker/internal/prefix"
)

type (
	// Status is what has become of a job that was enqueued WithResult; see inspect.Status.
	Status = inspect.Status
	// JobState is what has become of a job so far; see inspect.State.
	JobState = inspect.State
	// JobError is the error of a job that failed or was discarded; see inspect.JobError.
	JobError = inspect.JobError
	// ResultFilter chooses jobs; see inspect.ResultFilter.
	ResultFilter = inspect.ResultFilter
	// LogLine is a captured line of a job's log; see inspect.LogLine.
	LogLine = inspect.LogLine
)

// The states of a job.
const (
	StatePending   = inspect.StatePending
	StateRunning   = inspect.StateRunning
	StateRetrying  = inspect.StateRetrying
	StateSnoozed   = inspect.StateSnoozed
	StateDone      = inspect.StateDone
	StateFailed    = inspect.StateFailed
	StateDiscarded = inspect.StateDiscarded
	StateExpired   = inspect.StateExpired
	StateCancelled = inspect.StateCancelled
)

var (
	// ErrNoResult matches (errors.Is) the error of a call about a job of which Redis keeps nothing: the id is unknown, the
	// job was enqueued without WithResult, or the time of its result is over.
	ErrNoResult = inspect.ErrNoResult

	// ErrExpired matches (errors.Is) the error of a job that no worker took in time; see ExpireAfter.
	ErrExpired = inspect.ErrExpired
)

// Waiter waits for jobs: a Client.
type Waiter interface {
	Wait(ctx context.Context, id string) (Status, error)
}

// Await waits until the job with this id is over, and returns its result as a T. The job must have been enqueued
// WithResult. If its handler returned no value, the result is the zero T; so it always is if T is None.
//
// The error is a *JobError for a job that failed or was discarded, or it matches ErrCancelled, ErrExpired or ErrNoResult.
// It says so if the result does not fit T or was too large to be kept. See Client.Wait for the rest.
func Await[T any](ctx context.Context, w Waiter, id string) (result T, err error) {
	s, err := w.Wait(ctx, id)
	if err != nil {
		return result, err
	}
	var into any = &result
	if _, none := into.(*None); none {
		return result, s.Err()
	}
	if err := s.Decode(into); err != nil {
		var zero T
		return zero, err
	}
	return result, nil
}

// Await waits until a job of the class is over, and returns its result; see the function Await.
func (c *Class[A, R]) Await(ctx context.Context, w Waiter, id string) (R, error) {
	return Await[R](ctx, w, id)
}

// Wait waits until the job with this id is over, and returns its Status then. Redis notifies the Client when the document of a
// job changes, so it knows within about a millisecond. All waits of a Client share two connections of their own, which are
// made by the first one and closed a minute after the last.
//
// The error matches ErrNoResult if Redis keeps nothing of the job, or stops to while Wait waits: it waits for no unknown
// id. The end of the context ends it at once, and Close with ErrClosed. If Redis cannot be reached at the beginning, that is
// the error; later Wait goes on when Redis is back.
//
// The result of a workflow that is a list of up to 64 MiB is read from its steps; a longer one is an error.
//
// Where Redis cannot notify its clients, or may not, Wait asks four times a second. Over shards each is asked.
func (c *Client) Wait(ctx context.Context, id string) (Status, error) {
	g, err := c.waits()
	if err != nil {
		return Status{}, err
	}
	s, err := g.Wait(ctx, id)
	if err == nil && s.OfWorkflow {
		s.Result, err = c.whole(ctx, s)
	}
	return s, err
}

// whole returns the result of a workflow. One that is a long list lies with its steps, and what stands for it is read.
func (c *Client) whole(ctx context.Context, s Status) (json.RawMessage, error) {
	id, values, ok := step.Reference(s.Result)
	if !ok || id != s.ID {
		return s.Result, nil
	}
	for _, e := range c.redises {
		one, err := e.init(false)
		if err != nil {
			return nil, err
		}
		result, there, err := one.WorkflowResult(ctx, id, values, step.MaxGiven)
		if there || err != nil {
			return result, prefix.Of(err)
		}
	}
	return nil, prefix.Errorf("the results of the steps of workflow %s: %w", id, ErrNoResult)
}

// Watch returns the Status of a job as it is, and again after each change of it or of its progress: at most ten a second,
// always the latest. It ends after the Status with which the job is over, or with an error, as Wait does.
func (c *Client) Watch(ctx context.Context, id string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		g, err := c.waits()
		if err != nil {
			yield(Status{}, err)
			return
		}
		g.Watch(ctx, id)(yield)
	}
}

// Status returns what has become of a job so far; see inspect.Inspector.Status.
func (c *Client) Status(ctx context.Context, id string) (Status, error) {
	return c.Inspect().Status(ctx, id)
}

// Results walks through the jobs of which something is known; see inspect.Inspector.Results.
func (c *Client) Results(ctx context.Context, f ResultFilter) iter.Seq2[Status, error] {
	return c.Inspect().Results(ctx, f)
}

// Forget removes what is known about a job; see inspect.Inspector.Forget.
func (c *Client) Forget(ctx context.Context, id string) error { return c.Inspect().Forget(ctx, id) }

// Logs returns the captured log lines of a job; see inspect.Inspector.JobLogs.
func (c *Client) Logs(ctx context.Context, id string) ([]LogLine, error) {
	return c.Inspect().JobLogs(ctx, id)
}

// waits returns what waits for jobs.
func (c *Client) waits() (await.Group, error) {
	g := await.Group{About: func(n int, err error) error { return prefix.Errorf("shard %s: %w", c.names[n], err) }}
	for _, e := range c.redises {
		one, err := e.init(false)
		if err != nil {
			return g, err
		}
		g.Watchers = append(g.Watchers, one.waits)
	}
	return g, nil
}
