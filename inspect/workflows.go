package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"path"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

var (
	// ErrNoWorkflow is returned for a workflow of which Redis keeps nothing.
	ErrNoWorkflow = workflows.ErrNoWorkflow
	// ErrWorkflowEnded is returned for a change that comes too late. The error says how the workflow ended.
	ErrWorkflowEnded = workflows.ErrOver
	// ErrWorkflowGoesOn is returned by Forget of a workflow that has not ended, or of which steps have not.
	ErrWorkflowGoesOn = prefix.New("the workflow goes on; cancel it, or wait until its steps have ended")
	// ErrNothingToRetry is returned by Retry of a workflow in which nothing has failed.
	ErrNothingToRetry = workflows.ErrNothing
	// ErrWorkflowHeld is returned by Retry of a workflow while another one runs under the same unique name.
	ErrWorkflowHeld = workflows.ErrHeld
	// ErrNoStep is returned for a step that the workflow does not have.
	ErrNoStep = workflows.ErrNoStep
	// ErrStepWaits is returned by MarkDone and Skip of a step that was not sent yet.
	ErrStepWaits = workflows.ErrWaits
	// ErrStepEnded is returned by MarkDone and Skip of a step that is done.
	ErrStepEnded = workflows.ErrLate
	// ErrToken is returned by Complete for a token that no step has.
	ErrToken = workflows.ErrToken
)

// Workflows are the workflows of one Redis, or of several, the shards. It holds no data: each call asks Redis. It is safe
// for concurrent use. Changes are recorded as those of an Inspector; see By.
type Workflows struct{ in *Inspector }

// Workflows returns the workflows.
func (i *Inspector) Workflows() *Workflows { return &Workflows{i} }

// Get returns what is known of a workflow, with the counts of its steps as they are now. It reads a byte for each
// step. The error matches ErrNoWorkflow if nothing is known.
func (w *Workflows) Get(ctx context.Context, id string) (WorkflowInfo, error) {
	return ofOne(w.in, "reading", id, func(one *Inspector) (WorkflowInfo, error) {
		return query(ctx, one, func(s resque.Store, c redis.Conn) (WorkflowInfo, error) {
			got, err := workflows.New(s).Read(c, id)
			return infoOf(got), err
		})
	})
}

// List walks through the workflows that fit, in no order. Those that have not ended, and most that have failed, expired or
// were cancelled, are found by an index. Those that are done are looked for among all keys of Redis, as Results does, so
// a filter with another State is cheap. One that begins or ends meanwhile may be missing or come twice.
//
// It ends with the context. Over shards it walks through one after the other. An error ends the walk of that shard, and the
// walk goes on with the next one.
func (w *Workflows) List(ctx context.Context, f WorkflowFilter) iter.Seq2[WorkflowInfo, error] {
	return func(yield func(WorkflowInfo, error) bool) {
		if err := f.check(); err != nil {
			yield(WorkflowInfo{}, err)
			return
		}
		left := f.Limit
		for _, one := range w.in.all() {
			err := one.workflows(ctx, f, func(i WorkflowInfo) bool {
				if !yield(i, nil) {
					return false
				}
				left--
				return left != 0
			})
			if err == errStopped {
				return
			}
			if err != nil {
				if w.in.several() {
					err = one.about(err)
				}
				if !yield(WorkflowInfo{}, prefix.Of(err)) || ctx.Err() != nil {
					return
				}
			}
		}
	}
}

func (f WorkflowFilter) check() error {
	if f.Limit < 0 {
		return fmt.Errorf("goworker: the limit of workflows is %d; give a positive one, or 0 for all", f.Limit)
	}
	if _, err := path.Match(f.Name, ""); err != nil {
		return fmt.Errorf("goworker: %q is no pattern of names: %w", f.Name, err)
	}
	return nil
}

func (f WorkflowFilter) fits(w WorkflowInfo) bool {
	if f.State != "" && f.State != w.State || f.Paused && !w.Paused || f.Stalled && w.Stalled == "" || f.Open && !w.Open {
		return false
	}
	for name, value := range f.Meta {
		if has, ok := w.Meta[name]; !ok || has != value {
			return false
		}
	}
	if f.Name == "" {
		return true
	}
	fits, _ := path.Match(f.Name, w.Name)
	return fits
}

// workflows walks through those of one Redis.
func (i *Inspector) workflows(ctx context.Context, f WorkflowFilter, take func(WorkflowInfo) bool) error {
	seen := make(map[string]bool) // a walk may find one twice
	walks := []func(s workflows.Store, c redis.Conn, cursor string) (workflows.Listed, error){workflows.Store.ListIndexed}
	if f.State == "" || f.State == StateDone {
		walks = append(walks, workflows.Store.ListDone)
	}
	for _, walk := range walks {
		for cursor := "0"; ; {
			var found []workflows.Workflow
			err := i.do(ctx, func(s resque.Store, c redis.Conn) error {
				until := clock.System.Now().Add(pageTime)
				for range pageSteps {
					page, err := walk(workflows.New(s), c, cursor)
					if err != nil {
						return err
					}
					found, cursor = append(found, page.Found...), page.Next
					if cursor == "0" || len(found) >= MaxPage || clock.System.Now().After(until) {
						break
					}
				}
				return nil
			})
			for _, one := range found {
				info := infoOf(one)
				if !f.fits(info) || seen[info.ID] {
					continue
				}
				seen[info.ID] = true
				if !take(info) {
					return errStopped
				}
			}
			if err != nil {
				return err
			}
			if cursor == "0" {
				break
			}
		}
	}
	return nil
}

// Steps walks through the steps of a workflow that fit, by their numbers, as they are meanwhile. It reads a hundred at a
// time. The error matches ErrNoWorkflow if nothing is known of the workflow.
func (w *Workflows) Steps(ctx context.Context, id string, f StepFilter) iter.Seq2[StepInfo, error] {
	return func(yield func(StepInfo, error) bool) {
		letters := workflows.StepLetters
		if f.State != "" {
			letter, ok := stepLetters[f.State]
			if !ok {
				yield(StepInfo{}, fmt.Errorf("goworker: %q is no state of a step", f.State))
				return
			}
			letters = string(rune(letter))
		}
		if f.From < 0 {
			yield(StepInfo{}, fmt.Errorf("goworker: steps have no number %d", f.From))
			return
		}
		if f.Limit < 0 {
			yield(StepInfo{}, fmt.Errorf("goworker: the limit of steps is %d; give a positive one, or 0 for all", f.Limit))
			return
		}
		var names map[int]string
		one, err := ofOne(w.in, "reading", id, func(one *Inspector) (*Inspector, error) {
			return one, one.do(ctx, func(s resque.Store, c redis.Conn) (err error) {
				store := workflows.New(s)
				there, err := store.Exists(c, id)
				if err == nil && !there {
					return ErrNoWorkflow
				}
				if err == nil {
					names, err = store.Names(c, id)
				}
				return err
			})
		})
		left := f.Limit
		for next := f.From; err == nil && next >= 0; {
			var found []workflows.StepRead
			err = one.do(ctx, func(s resque.Store, c redis.Conn) (err error) {
				found, next, err = workflows.New(s).Steps(c, id, next, letters)
				return err
			})
			for _, step := range found {
				info := stepOf(id, step, names)
				if f.Class != "" && f.Class != info.Class {
					continue
				}
				if !yield(info, nil) {
					return
				}
				if left--; left == 0 {
					return
				}
			}
		}
		if err != nil {
			yield(StepInfo{}, prefix.Of(err))
		}
	}
}

// stepOf is a step as operators see it.
func stepOf(id string, step workflows.StepRead, names map[int]string) StepInfo {
	i := StepInfo{ID: workflows.StepID(id, step.Number), Number: step.Number, Name: names[step.Number], Queue: step.Queue}
	for state, letter := range stepLetters {
		if letter == step.Letter {
			i.State = state
		}
	}
	if p, err := payload.Parse(step.Payload); err == nil {
		i.Class, i.Args = p.Class, p.Args
	}
	switch i.State {
	case StepOutside:
		i.Since, i.Until = step.Since, step.Until
	case StepFailed:
		if i.Err = workflowError(id, "", step.Failure); i.Err != nil && i.Class == "" {
			i.Class, i.Queue = i.Err.Class, i.Err.Queue
		}
	case StepDone:
		if result := strings.TrimPrefix(step.Result, "+"); result != "" && result[0] != '!' {
			i.Result = json.RawMessage(result)
		}
	}
	return i
}

// change changes one workflow, on the shard that has it, and records that.
func (w *Workflows) change(what, doing, id string, do func(one *Inspector) (changed int64, err error)) error {
	return w.changeOf(what, doing, id, "workflow "+id, do)
}

func (w *Workflows) changeStep(what, doing, id, step string, do func(one *Inspector) (changed int64, err error)) error {
	return w.changeOf(what, doing, id, fmt.Sprintf("step %s of workflow %s", step, id), do)
}

func (w *Workflows) changeOf(what, doing, id, on string, do func(one *Inspector) (changed int64, err error)) error {
	_, err := ofOne(w.in, doing, id, func(one *Inspector) (struct{}, error) {
		changed, err := do(one)
		return struct{}{}, one.record(context.Background(), "Workflows."+what, on, changed, err)
	})
	return err
}

// ofOne asks all shards at the same time about one workflow, and returns the answer of the one that has it. If none has
// it, the error joins those of shards that did not answer.
func ofOne[T any](i *Inspector, doing, id string, ask func(one *Inspector) (T, error)) (answer T, err error) {
	if err := i.usable(); err != nil {
		return answer, err
	}
	if id == "" {
		return answer, prefix.Errorf("%s a workflow: it has no id; give it one", doing)
	}
	all := i.all()
	answers, errs := make([]T, len(all)), make([]error, len(all))
	var wg sync.WaitGroup
	for n, one := range all {
		wg.Go(func() { answers[n], errs[n] = ask(one) })
	}
	wg.Wait()
	var unknown error
	var away []error
	for n, one := range all {
		switch err := errs[n]; {
		case err == nil:
			return answers[n], nil
		case errors.Is(err, ErrNoWorkflow), errors.Is(err, ErrToken) && i.several():
			unknown = err
		case i.several() && !ofWorkflow(err):
			away = append(away, one.about(err))
		default:
			return answer, prefix.Errorf("%s workflow %s: %w", doing, id, err)
		}
	}
	return answer, prefix.Errorf("%s workflow %s: %w", doing, id, errors.Join(append(away, unknown)...))
}

// ofWorkflow reports whether an error is of the shard that has the workflow.
func ofWorkflow(err error) bool {
	for _, of := range []error{ErrWorkflowEnded, ErrWorkflowGoesOn, ErrNothingToRetry, ErrWorkflowHeld, ErrNoStep, ErrStepWaits, ErrStepEnded, workflows.ErrUnplaced} {
		if errors.Is(err, of) {
			return true
		}
	}
	return false
}
