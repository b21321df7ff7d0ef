package workflow

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// maxError is how many bytes of an error's text a workflow keeps.
const maxError = 8 << 10

// step is the policy of one step.
type step struct {
	outcome.None
	*feature
	at position
}

// wanted reports whether something needs the step's result.
func (s *step) wanted() bool {
	return s.at.place.Kept != "" && s.at.place.Kept != "0" && !s.at.external && !s.at.handler()
}

// Admit ends a step of a halted workflow before it runs.
func (s *step) Admit(ctx context.Context, j *outcome.Job) (o outcome.Outcome, decided bool) {
	if s.at.handler() || !s.halted.Load().mayHave(s.at.workflow) || !s.asks(ctx) {
		return o, false
	}
	return notRun(failure.ErrHalted), true
}

func notRun(why error) outcome.Outcome {
	return outcome.Outcome{State: outcome.Cancelled, Err: why, Log: outcome.Log{Level: slog.LevelInfo, Message: "workflow halted; its step is dropped"}}
}

// Decide drops what the handler has returned whose context ended with its workflow.
func (s *step) Decide(_ context.Context, _ *outcome.Job, err error) (o outcome.Outcome, decided bool) {
	if failure.Is(err, failure.ErrHalted) {
		return notRun(err), true
	}
	return o, false
}

// Settle moves the workflow on. It comes before a failure is filed: a step without the result that another step needs
// has failed.
func (s *step) Settle(j *outcome.Job, o *outcome.Outcome) {
	if a, moves := s.arrival(j, o); moves {
		switch a.Letter {
		case workflows.Done:
			s.deps.Meter.Add(meter.StepDone, 1)
		case workflows.Failed:
			s.deps.Meter.Add(meter.StepFailed, 1)
		default:
			s.deps.Meter.Add(meter.StepNotRun, 1)
		}
		o.Effects = append(o.Effects, s.store.Arrive(&a))
	}
}

// arrival returns how the step has ended, and whether it has.
func (s *step) arrival(j *outcome.Job, o *outcome.Outcome) (a workflows.Arrival, moves bool) {
	a = workflows.Arrival{Workflow: s.at.workflow, Step: s.at.number, Place: s.at.text, Job: j.Reserved, Trace: s.trace(j), Halted: s.halted.Load().mayHave(s.at.workflow)}
	if o.State == outcome.Done {
		if s.at.external {
			return a, false // its token ends it
		}
		var err error
		if a.Value, err = s.value(j, o); err == nil {
			a.Letter = workflows.Done
			return a, true
		}
		o.State, o.Err, o.Log = outcome.Failed, err, outcome.Log{}
		if !o.Counted {
			o.Counts = resque.CountsFailed
		}
	}
	if !o.State.Over() {
		return a, false
	}
	a.Letter = workflows.Failed
	if o.State == outcome.Cancelled && failure.Is(o.Err, failure.ErrHalted) {
		a.Letter = workflows.NotRun
	}
	if !s.at.handler() {
		a.Value, a.Again = s.failure(j, o), s.again(j)
	}
	return a, true
}

// trace returns how the steps that follow find the run in a trace.
func (s *step) trace(j *outcome.Job) string {
	if j.Trace == "" && j.Parsed.Field(workflows.After) != nil {
		return workflows.Untraced
	}
	return j.Trace
}

// value returns the result as the workflow keeps it, nil if nothing needs it or if there is none. The error says why what
// needs it cannot have it.
func (s *step) value(j *outcome.Job, o *outcome.Outcome) ([]byte, error) {
	switch {
	case !s.wanted() || j.Value == nil:
		return nil, nil
	case o.ResultErr != nil:
		return nil, notJSON(o.ResultErr)
	case len(o.Result) > workflows.MaxResult:
		return nil, tooLarge(len(o.Result))
	case j.Several && len(o.Result) > 0 && o.Result[0] == '[':
		return append([]byte{'+'}, o.Result...), nil
	}
	return o.Result, nil
}

func notJSON(err error) error {
	return fmt.Errorf("the workflow needs the step's result, which cannot be written as JSON: %w", err)
}

func tooLarge(size int) error {
	return fmt.Errorf("the workflow needs the step's result, which has %d bytes as JSON, and at most %d are passed on; return where it lies instead", size, workflows.MaxResult)
}

// failure returns the failure of a step as JSON.
func (s *step) failure(j *outcome.Job, o *outcome.Outcome) []byte {
	f := workflows.StepFailure{
		Step: s.at.number, ID: j.Parsed.ID, Name: name(j), Class: j.Name, Queue: j.Queue, Attempt: j.Attempt, State: o.State.String(),
	}
	if o.Err != nil {
		record, _ := s.deps.Record(j, o.Err)
		f.Exception, f.Error = record.Exception, logging.Shorten(record.Error, maxError)
	}
	return f.JSON()
}

// again returns the template that sends the step once more: with all its attempts, and for as long as it takes.
func (s *step) again(j *outcome.Job) string {
	raw, err := payload.Without(j.Payload, "attempt", "retry_id", "expires_at")
	if err != nil {
		raw = j.Payload // it could not be read by its job either
	}
	letter := byte(workflows.Sent)
	if s.at.external {
		letter = workflows.Outside
	}
	return workflows.Again(letter, j.Queue, raw)
}
