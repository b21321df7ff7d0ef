package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// MaxGiven is how many bytes of results a step is given as arguments at most, if they are read for it.
const MaxGiven = 64 << 20

// Run is one run of a step, as its handler reaches it. It is safe for concurrent use.
type Run struct {
	Workflow string // the id
	Step     int
	Name     string // of the step, "": none
	Place    workflows.Place

	store workflows.Store
	do    Do
}

// Do runs f on a connection.
type Do func(ctx context.Context, f func(redis.Conn) error) error

type runKey struct{}

// Of returns the run of a step that a context belongs to, nil if there is none.
func Of(ctx context.Context) *Run {
	r, _ := ctx.Value(runKey{}).(*Run)
	return r
}

// Wrap lets the handler find its workflow.
func (s *step) Wrap(next outcome.Handler) outcome.Handler {
	return func(ctx context.Context, j *outcome.Job) error {
		return next(context.WithValue(ctx, runKey{}, newRun(j, &s.at, s.store, s.deps.Do)), j)
	}
}

func newRun(j *outcome.Job, at *position, store workflows.Store, do Do) *Run {
	return &Run{Workflow: at.workflow, Step: at.number, Name: name(j), Place: at.place, store: store, do: do}
}

// Remote returns the context for the handler of a step in its child process. That of any other job stays as it is.
func Remote(ctx context.Context, j *outcome.Job, store workflows.Store, do Do) context.Context {
	at, ok := placeOf(j)
	if !ok {
		return ctx
	}
	return context.WithValue(ctx, runKey{}, newRun(j, &at, store, do))
}

// Standing returns the workflow of a job and which step of it the job is; ok is false if it is none.
func Standing(j *outcome.Job) (workflow string, step int, stepName string, ok bool) {
	at, ok := placeOf(j)
	if !ok {
		return "", 0, "", false
	}
	return at.workflow, at.number, name(j), true
}

// Wanted reports whether something needs the result of a job: it is a step, and what follows takes it, or it is kept.
func Wanted(j *outcome.Job) bool {
	at, ok := placeOf(j)
	return ok && (&step{at: at}).wanted()
}

// Result encodes the result of an isolated step, which its workflow needs, in the child process.
func Result(value any) (json.RawMessage, error) {
	result, err := json.Marshal(value)
	switch {
	case err != nil:
		return nil, notJSON(err)
	case len(result) > workflows.MaxResult:
		return nil, tooLarge(len(result))
	}
	return result, nil
}

// referenceMark begins an argument that stands for results.
var referenceMark = []byte(`{"goworker":"`)

// Reference reads an argument that stands for results of a workflow.
func Reference(raw json.RawMessage) (workflow string, v workflows.Values, ok bool) {
	if !bytes.HasPrefix(raw, referenceMark) {
		return "", v, false
	}
	var fields map[string]string
	if json.Unmarshal(raw, &fields) != nil || len(fields) != 1 {
		return "", v, false
	}
	text := fields["goworker"]
	at := max(0, strings.LastIndexByte(text, '/')) // an id may have one, and what follows has none
	v, ok = workflows.ParseValues(strings.TrimPrefix(text[at:], "/"))
	return text[:at], v, ok && at > 0
}

// Fill puts results in the places of arguments that stand for them. Of those that are one list it leaves the ones that
// their parameter reads by itself. The list of arguments is as it was if there are none.
func (r *Run) Fill(ctx context.Context, args []json.RawMessage, reads func(i int) bool) ([]json.RawMessage, error) {
	var filled []json.RawMessage // nil: args are as they were
	left := MaxGiven
	for i, raw := range args {
		of, v, ok := Reference(raw)
		if ok = ok && of == r.Workflow; ok {
			at := i
			if filled != nil {
				at = len(filled)
			}
			_, list := v.OneList()
			ok = !list || !reads(at)
		}
		if !ok {
			if filled != nil {
				filled = append(filled, raw)
			}
			continue
		}
		if filled == nil {
			filled = append(make([]json.RawMessage, 0, len(args)), args[:i]...)
		}
		var values []json.RawMessage
		err := r.read(ctx, func(c redis.Conn) (err error) {
			values, err = r.store.ReadValues(c, r.Workflow, v, left)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, value := range values {
			left -= min(left, len(value))
		}
		filled = append(filled, values...)
	}
	if filled == nil {
		return args, nil
	}
	return filled, nil
}

// Page returns elements of results that are one list: so many at most, from one on.
func (r *Run) Page(ctx context.Context, v workflows.Values, from, count int) (page []json.RawMessage, err error) {
	err = r.read(ctx, func(c redis.Conn) (err error) {
		page, err = r.store.ReadResults(c, r.Workflow, v, from, count)
		return err
	})
	return page, err
}

// Result returns the result of the step with a name, nil if it has none.
func (r *Run) Result(ctx context.Context, name string) (result json.RawMessage, err error) {
	err = r.read(ctx, func(c redis.Conn) (err error) {
		result, err = r.store.ReadNamed(c, r.Workflow, name)
		return err
	})
	return result, err
}

var errNoRedis = errors.New("there is no Redis from which results could be read; run the workflow with a goworkertest.Runner")

// read runs f on a connection. In a test without Redis it is not run.
func (r *Run) read(ctx context.Context, f func(redis.Conn) error) error {
	ran := false
	err := r.do(ctx, func(c redis.Conn) error {
		ran = true
		return f(c)
	})
	if err == nil && !ran {
		return fmt.Errorf("workflow %s: %w", r.Workflow, errNoRedis)
	}
	return err
}
