package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Complete ends a step that ends from outside, by its token: as done, with this result. A second call with the token changes
// nothing and is no error. The error matches ErrToken if no step has the token.
func (w *Workflows) Complete(ctx context.Context, token string, result any) error {
	value, err := json.Marshal(result)
	if err == nil && len(value) > workflows.MaxResult {
		err = fmt.Errorf("the result has %d bytes as JSON, but at most %d are passed on; give where it lies instead", len(value), workflows.MaxResult)
	}
	if err != nil {
		return prefix.Errorf("completing %s: %w", stepOfToken(token), err)
	}
	return w.complete(ctx, "Complete", token, workflows.Done, func(workflows.StepRead) []byte { return value })
}

// CompleteError is Complete of a step that has failed, with the text of its error. Retry sends it again, with the same
// token.
func (w *Workflows) CompleteError(ctx context.Context, token, text string) error {
	id, number, _, _ := workflows.SplitToken(token)
	return w.complete(ctx, "CompleteError", token, workflows.Failed, func(step workflows.StepRead) []byte {
		why := workflows.StepFailure{Step: number, ID: workflows.StepID(id, number), Queue: step.Queue, Name: step.Name, Exception: "ExternalError", Error: text,
			State: workflows.StateFailed, Attempt: 1}
		if p, err := payload.Parse(step.Payload); err == nil {
			why.Class = p.Class
		}
		return why.JSON()
	})
}

func (w *Workflows) complete(ctx context.Context, what, token string, to byte, value func(workflows.StepRead) []byte) error {
	id, number, _, ok := workflows.SplitToken(token)
	if !ok {
		return prefix.Errorf("completing a step: %w", ErrToken)
	}
	on := stepOfToken(token)
	_, err := ofOne(w.in, "completing a step of", id, func(one *Inspector) (struct{}, error) {
		done, err := query(ctx, one, func(s resque.Store, c redis.Conn) (workflows.Completed, error) {
			store := workflows.New(s)
			step, err := store.OneStep(c, id, number)
			if errors.Is(err, ErrNoStep) {
				return workflows.Completed{}, ErrToken
			} else if err != nil {
				return workflows.Completed{}, err
			}
			return store.Complete(c, token, to, value(step))
		})
		return struct{}{}, one.record(ctx, "Workflows."+what, on, once(done.Changed), err)
	})
	return err
}

// stepOfToken names the step of a token without the secret.
func stepOfToken(token string) string {
	id, number, _, ok := workflows.SplitToken(token)
	if !ok {
		return "a step"
	}
	return fmt.Sprintf("step %d of workflow %s", number, id)
}
