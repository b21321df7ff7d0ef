package goworker

import (
	"context"
	"encoding/json"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
)

type (
	// Workflows are the workflows of a Client's Redis, or shards: to list, read and change them; see inspect.Workflows.
	Workflows = inspect.Workflows
	// WorkflowInfo is what is known of a workflow; see inspect.WorkflowInfo.
	WorkflowInfo = inspect.WorkflowInfo
	// WorkflowCounts are the steps of a workflow by what has become of them; see inspect.WorkflowCounts.
	WorkflowCounts = inspect.WorkflowCounts
	// WorkflowFilter chooses workflows; see inspect.WorkflowFilter.
	WorkflowFilter = inspect.WorkflowFilter
	// WorkflowError is the error of a workflow that failed; see inspect.WorkflowError.
	WorkflowError = inspect.WorkflowError
	// StepInfo is what is known of a step; see inspect.StepInfo.
	StepInfo = inspect.StepInfo
	// StepFilter chooses steps; see inspect.StepFilter.
	StepFilter = inspect.StepFilter
	// StepState is what has become of a step; see inspect.StepState.
	StepState = inspect.StepState
)

// The states of a step.
const (
	StepWaiting = inspect.StepWaiting
	StepSent    = inspect.StepSent
	StepOutside = inspect.StepOutside
	StepDone    = inspect.StepDone
	StepFailed  = inspect.StepFailed
	StepNotRun  = inspect.StepNotRun
)

var (
	// ErrNoWorkflow is returned for a workflow of which Redis keeps nothing.
	ErrNoWorkflow = inspect.ErrNoWorkflow
	// ErrWorkflowEnded is returned for a change that comes too late. The error says how the workflow ended.
	ErrWorkflowEnded = inspect.ErrWorkflowEnded
	// ErrWorkflowGoesOn is returned by Forget of a workflow that has not ended, or of which steps have not.
	ErrWorkflowGoesOn = inspect.ErrWorkflowGoesOn
	// ErrNothingToRetry is returned by Workflows.Retry of a workflow in which nothing has failed.
	ErrNothingToRetry = inspect.ErrNothingToRetry
	// ErrWorkflowHeld is returned by Workflows.Retry while another workflow runs under the same unique name.
	ErrWorkflowHeld = inspect.ErrWorkflowHeld
	// ErrNoStep is returned for a step that the workflow does not have.
	ErrNoStep = inspect.ErrNoStep
	// ErrStepWaits is returned by Workflows.MarkDone and Skip of a step that was not sent yet.
	ErrStepWaits = inspect.ErrStepWaits
	// ErrStepEnded is returned by Workflows.MarkDone and Skip of a step that is done.
	ErrStepEnded = inspect.ErrStepEnded
	// ErrToken is returned by Complete for a token that no step has.
	ErrToken = inspect.ErrToken
)

// Workflows returns what lists, reads and changes workflows, of all shards if there are several.
func (c *Client) Workflows() *Workflows { return c.Inspect().Workflows() }

// Complete ends an External step by its token: as done, with this result. The token is the last argument of the step's job. A
// second call with it changes nothing and is no error. The error matches ErrToken if no step has the token.
//
// Programs without goworker enqueue a job of the class CompleteClass in place of it.
func (c *Client) Complete(ctx context.Context, token string, result any) error {
	return c.Workflows().Complete(ctx, token, result)
}

// CompleteError is Complete of a step that has failed, with the text of its error.
func (c *Client) CompleteError(ctx context.Context, token, text string) error {
	return c.Workflows().CompleteError(ctx, token, text)
}

// CompleteClass is a class that every Daemon knows. Its jobs do what Client.Complete does, for programs in any language: the
// arguments are the token and the result, or the token, null and the text of an error. A job fails if no step
// has the token.
const CompleteClass = "goworker.Complete"

// completeRetries is how often a reply is tried again that Redis does not take: for some days.
const completeRetries = 25

// provideComplete makes the daemons of a registry know CompleteClass. The step may lie on any of these Redises.
func provideComplete(r *registry, redises func() []access.Redis) {
	r.provide(CompleteClass, func(ctx context.Context, token string, result json.RawMessage, failed ...*string) error {
		w := inspect.New(redises()...).Workflows()
		for _, text := range failed {
			if text != nil {
				return w.CompleteError(ctx, token, *text)
			}
		}
		return w.Complete(ctx, token, result)
	}, Retry(completeRetries, NoRetryOn(inspect.ErrToken)))
}
