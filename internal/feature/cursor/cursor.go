// Package cursor keeps what a long job leaves for its next run: how far it is, and what it has done once. A handler asks for
// it while it runs, so other jobs have nothing of it.
//
// What a running job leaves is written under a guard that ends with its commit, and the rest of it is a row of the commit. So
// a run that has lost its job writes nothing, and a run that ends loses nothing.
package cursor

import (
	"context"
	_ "embed"
	"errors"
	"slices"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque"
)

// Field is the field of a payload whose job had a cursor in an earlier run. It is true. A run that does not ask for the
// cursor then still keeps it, or ends it.
const Field = "cursor"

// name is the feature's.
const name = "cursor"

// MaxValue is how many bytes a value has at most, as JSON.
const MaxValue = 64 << 10

// MaxName is how many bytes the name of a block has at most.
const MaxName = 128

//go:embed cursor.lua
var endLua string

var endVerb = resque.NewVerb(name, endLua)

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	w := newWriter(d)
	return outcome.Feature{
		Name:  name,
		Field: Field,
		Open: func(j *outcome.Job) outcome.Policy {
			if j.ID == "" || string(j.Parsed.Field(Field)) != "true" { // another program's
				return nil
			}
			return newPolicy(d, w, j)
		},
		Join: func(j *outcome.Job) outcome.Policy {
			if j.ID == "" {
				return nil
			}
			j.Fields = append(j.Fields, payload.Field{Name: Field, Value: []byte("true")})
			return newPolicy(d, w, j)
		},
		Close: w.Close,
	}
}

// policy is the cursor of one job.
type policy struct {
	outcome.None
	deps outcome.Deps
	run  *Run
}

func newPolicy(d outcome.Deps, w *writer, j *outcome.Job) *policy {
	return &policy{deps: d, run: newRun(w, j)}
}

// Wrap lets the handler find the run.
func (p *policy) Wrap(next outcome.Handler) outcome.Handler {
	return func(ctx context.Context, j *outcome.Job) error { return next(with(ctx, p.run), j) }
}

// Settle writes what is not written yet, and says how long the cursor stays. The job of a done run has no next one.
//
// The row is soft: a cursor that cannot be written must not keep a job from ending.
func (p *policy) Settle(j *outcome.Job, o *outcome.Outcome) {
	left := p.run.end()
	if (o.State == outcome.Returned || o.State == outcome.Passed) && !o.Started {
		return
	}
	args := []any{""}
	if o.State != outcome.Done {
		args[0] = p.ttl(o)
		for _, field := range left.fields() {
			args = append(args, field, []byte(left[field]))
		}
	}
	o.Effects = append(o.Effects, endVerb.Effect([]resque.Key{p.deps.Store.CursorKey(j.ID)}, args...).Soft())
}

// ttl is how long the cursor of a job stays that is not done, in ms.
func (p *policy) ttl(o *outcome.Outcome) int64 {
	ttl := resque.CursorTTL
	if at := o.Next.At; o.Next.Place != outcome.Nowhere && !at.IsZero() {
		ttl += max(0, at.Sub(p.deps.Time.Now()).Round(time.Millisecond))
	}
	return ttl.Milliseconds()
}

type runKey struct{}

func with(ctx context.Context, r *Run) context.Context { return context.WithValue(ctx, runKey{}, r) }

// Errors of Of.
var (
	ErrNoJob = errors.New("there is no job here; give it the context that the handler got, or one derived from it")
	ErrNoID  = errors.New("the job has no id under which it could be kept; enqueue it with one, as by WithID, WithResult or any other option of a job")
)

// Of returns what the job leaves whose handler ctx belongs to. run is a context that ends with the run.
func Of(ctx, run context.Context) (*Run, error) {
	r, _ := ctx.Value(runKey{}).(*Run)
	if r == nil {
		j := outcome.JobOf(ctx)
		switch {
		case j == nil:
			return nil, ErrNoJob
		case j.ID == "":
			return nil, ErrNoID
		}
		p, _ := outcome.Join(ctx, name).(*policy)
		if p == nil {
			return nil, failure.ErrNotHeld
		}
		r = p.run
	}
	if r.id == "" {
		return nil, ErrNoID
	}
	r.watch(run)
	return r, nil
}

// values are what is to be written, by their fields.
type values map[string][]byte

// fields returns the fields in a fixed order.
func (v values) fields() []string {
	fields := make([]string, 0, len(v))
	for field := range v {
		fields = append(fields, field)
	}
	slices.Sort(fields)
	return fields
}
