package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Cancel cancels a workflow: nothing more of it is sent, and what was sent and has not begun does not run. The contexts of
// steps that run, in any process, end within a second with the cause ErrCancelled. OnComplete handlers are sent, OnError
// handlers are not. Retry takes it back. A workflow that was cancelled before is no error; the error matches ErrWorkflowEnded
// if it is done or has expired.
func (w *Workflows) Cancel(ctx context.Context, id string) error {
	return w.change("Cancel", "cancelling", id, func(one *Inspector) (int64, error) { return one.halt(ctx, id) })
}

func (i *Inspector) halt(ctx context.Context, id string) (int64, error) {
	was, err := query(ctx, i, func(s resque.Store, c redis.Conn) (string, error) { return workflows.New(s).Halt(c, id) })
	return once(err == nil && was != workflows.StateCancelled), err
}

// Pause keeps a workflow from sending what comes next, until Resume. Steps that were sent run. One that is paused stays so.
// The error matches ErrWorkflowEnded if it is done, cancelled or expired.
func (w *Workflows) Pause(ctx context.Context, id string) error {
	return w.change("Pause", "pausing", id, func(one *Inspector) (int64, error) {
		was, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) { return workflows.New(s).Hold(c, id, true) })
		return once(err == nil && !was), err
	})
}

// Resume ends Pause, and lets a workflow that stands still go on: steps that were lost are sent again. One that is neither
// stays as it is. The error matches ErrWorkflowEnded if it is done, cancelled or expired.
func (w *Workflows) Resume(ctx context.Context, id string) error {
	return w.change("Resume", "resuming", id, func(one *Inspector) (int64, error) {
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error {
			store := workflows.New(s)
			if _, err := store.Hold(c, id, false); err != nil {
				return err
			}
			_, err := store.Resend(c, id)
			return err
		})
		return once(err == nil), err
	})
}

// Forget removes a workflow that has ended, with all that is known about it. Those that wait for it get ErrNoResult, and its
// tokens end nothing any more. The error matches ErrWorkflowGoesOn if it is running or being retried, or if steps of it
// were sent and have not ended.
func (w *Workflows) Forget(ctx context.Context, id string) error {
	return w.change("Forget", "forgetting", id, func(one *Inspector) (int64, error) { return one.forget(ctx, id) })
}

func (i *Inspector) forget(ctx context.Context, id string) (int64, error) {
	err := i.do(ctx, func(s resque.Store, c redis.Conn) error {
		store := workflows.New(s)
		if there, err := store.Exists(c, id); err != nil || !there {
			return errors.Join(err, noneIf(!there && err == nil))
		}
		w, err := store.Read(c, id)
		if err == nil && w.Counts.Sent > 0 {
			return fmt.Errorf("%w: it is %s, and %d steps were sent and have not ended", ErrWorkflowGoesOn, w.State, w.Counts.Sent)
		}
		if err != nil {
			return err
		}
		state, err := store.ForgetWorkflow(c, id)
		switch {
		case err != nil:
		case state == "": // another operator was faster
			err = ErrNoWorkflow
		case !resque.Over(state):
			err = fmt.Errorf("%w: it is %s", ErrWorkflowGoesOn, state)
		}
		return err
	})
	return once(err == nil), err
}

// Retry runs again what keeps a workflow from being done: steps that failed with no Collect or Ignore to bear it, and those
// that were not run. Steps that are done stay so. A deadline begins again, and a handler is called once more at most. It also
// opens a workflow that was cancelled or has expired.
//
// It sends 500 steps at a time. If it is cut short, the daemons go on. The error matches ErrNothingToRetry or ErrWorkflowHeld.
func (w *Workflows) Retry(ctx context.Context, id string) error {
	return w.change("Retry", "retrying", id, func(one *Inspector) (sent int64, err error) {
		for begin := true; ; begin = false {
			piece, err := query(ctx, one, func(s resque.Store, c redis.Conn) (workflows.Piece, error) {
				return workflows.New(s).Retry(c, id, begin)
			})
			sent += int64(piece.Sent)
			if err != nil || piece.Over {
				return max(sent, once(err == nil)), err
			}
		}
	})
}

// Skip takes a step as done with null as its result, so that the workflow goes on without it; see MarkDone.
func (w *Workflows) Skip(ctx context.Context, id, step string) error {
	return w.mark(ctx, "Skip", id, step, []byte("null"))
}

// MarkDone takes a step as done: one that failed, was not run, or was sent. Without a result what follows gets none, as after a
// handler that returns no value; several stand side by side. The job of a sent step is cancelled, if it still waits or runs.
//
// The step is its id, its name, or its number. The error matches ErrNoStep, ErrStepEnded if it is done, and ErrStepWaits
// if it was not sent yet.
func (w *Workflows) MarkDone(ctx context.Context, id, step string, result ...any) error {
	value, err := encodeResult(result)
	if err != nil {
		return prefix.Errorf("marking step %s of workflow %s as done: %w", step, id, err)
	}
	return w.mark(ctx, "MarkDone", id, step, value)
}

// encodeResult returns the results of a step as its workflow keeps them.
func encodeResult(result []any) ([]byte, error) {
	switch len(result) {
	case 0:
		return nil, nil
	case 1:
		return json.Marshal(result[0])
	}
	list, err := json.Marshal(result)
	return append([]byte{'+'}, list...), err
}

func (w *Workflows) mark(ctx context.Context, what, id, step string, result []byte) error {
	return w.changeStep(what, "marking", id, step, func(one *Inspector) (int64, error) {
		number, err := one.step(ctx, id, step)
		if err != nil {
			return 0, err
		}
		err = one.do(ctx, func(s resque.Store, c redis.Conn) error {
			store := workflows.New(s)
			place, err := store.PlaceOfSent(c, id, number)
			if err != nil {
				return err
			}
			was, err := store.Mark(c, id, number, place, result)
			if err == nil && was == workflows.Sent {
				_, err = s.Cancel(c, workflows.StepID(id, number))
			}
			return err
		})
		return once(err == nil), err
	})
}

// step returns the number of a step by its id, its name, or its number.
func (i *Inspector) step(ctx context.Context, id, step string) (number int, err error) {
	if of, number, ok := workflows.SplitID(step); ok && of == id {
		return number, nil
	}
	number, err = query(ctx, i, func(s resque.Store, c redis.Conn) (int, error) {
		store := workflows.New(s)
		if there, err := store.Exists(c, id); err != nil || !there {
			return 0, errors.Join(err, noneIf(!there && err == nil))
		}
		return store.Named(c, id, step)
	})
	if n, no := strconv.Atoi(step); no == nil && errors.Is(err, ErrNoStep) {
		return n, nil
	}
	return number, err
}

func noneIf(none bool) error {
	if none {
		return ErrNoWorkflow
	}
	return nil
}
