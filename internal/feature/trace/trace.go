// Package trace lets the program's tracing take part in a job that runs: it hears what becomes of the job, and leaves word for the job's
// next run and for the steps of its workflow that follow. Tracing asks for it while the job runs, so other jobs have nothing of it.
package trace

import (
	"context"
	"time"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/httpjob"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// name is the feature's.
const name = "trace"

// The metadata of a job that ran before: the traceparents of its first run, and of its last one if that is another.
const (
	FirstRun = "traceparent.first"
	LastRun  = "traceparent.last"
)

// room is how many bytes of a payload the next run has to itself: its attempt, its error, its id.
const room = 2 << 10

// End is what became of a run.
type End struct {
	State     string // as in the events
	Err       error  // why, unless it is done
	Exception string // of Err, as in the failure record
	Failure   string // the id of the failure record; "": there is none
	At        time.Time
}

// Run is one run of a job. The goroutine of its handler uses it.
type Run struct {
	outcome.None
	*deps
	job  *outcome.Job
	span Span // nil: none follows the run
}

// Span is what follows a run. The job's goroutine calls it.
type Span interface {
	// Traceparent returns the name of the run for others, "" if they cannot find it.
	Traceparent() string

	// End is called once, when it is decided what becomes of the job, before Redis has it.
	End(e End)
}

// deps are what all runs have.
type deps struct {
	outcome.Deps
	server string
}

// Server is the host and port of the job's Redis, or the path of its socket; "": unknown.
func (r *Run) Server() string { return r.server }

// New makes the feature.
func New(d outcome.Deps) outcome.Feature {
	all := &deps{d, conn.Address(d.Dialer)}
	return outcome.Feature{Name: name, Join: func(j *outcome.Job) outcome.Policy { return &Run{deps: all, job: j} }}
}

// Begin returns the run whose handler ctx belongs to. It is nil outside a daemon, and in the child process of an isolated job.
func Begin(ctx context.Context) *Run {
	r, _ := outcome.Join(ctx, name).(*Run)
	return r
}

// Payload returns the job's payload; nil: there is none. raw returns its bytes, which are read where no worker has read them.
func (r *Run) Payload(raw func() []byte) *payload.Payload {
	if r != nil {
		return &r.job.Parsed
	}
	p, err := payload.Parse(raw())
	if err != nil {
		return nil
	}
	return &p
}

// Follow has a span follow the run. The steps of a workflow that follow the job get its traceparent, and so does the next run of the job,
// unless resque-scheduler's schedule has a place for it, or its metadata or payload has no room. The log line and the hooks of the end
// have the values of ctx.
func (r *Run) Follow(ctx context.Context, s Span) {
	r.span = s
	r.job.Show(ctx)
	if r.job.Parsed.Field(workflows.After) != nil {
		r.job.Trace = s.Traceparent()
	}
}

// Continue adds the metadata of the next run.
func (r *Run) Continue(j *outcome.Job) {
	if r.span == nil {
		return
	}
	if text := r.span.Traceparent(); text != "" {
		if f, ok := next(j, text, r.Settings.MaxPayload); ok {
			j.Fields = append(j.Fields, f)
		}
	}
}

// next returns the metadata of the next run.
func next(j *outcome.Job, traceparent string, most int) (f payload.Field, ok bool) {
	raw, size := j.Parsed.Field(httpjob.MetaField), max(len(j.Payload), len(j.Parsed.Text))
	switch {
	case raw == nil && j.Reroute != nil:
		return f, false
	case raw == nil:
		raw = []byte("{}")
	case raw[0] != '{': // another program's
		return f, false
	}
	key := FirstRun
	all := httpjob.Meta(&j.Parsed)
	if all[FirstRun] != "" {
		key = LastRun
	}
	text, err := payload.SetFields(raw, payload.TextField(key, traceparent))
	if err != nil || len(text) > payload.MaxMetaBytes || size+len(text)+room > most {
		return f, false
	}
	if _, has := all[key]; !has && len(all) >= payload.MaxMetaKeys {
		return f, false
	}
	return payload.Field{Name: httpjob.MetaField, Value: text}, true
}

// Settle says what becomes of the job. A panic of the program's tracing costs nothing but its span.
func (r *Run) Settle(_ *outcome.Job, o *outcome.Outcome) {
	if r.span == nil {
		return
	}
	e := End{State: o.State.String(), Err: o.Err, At: o.At}
	if o.Err != nil {
		e.Exception = failure.Exception(o.Err, r.Exceptions)
	}
	if o.Failure != nil {
		e.Failure = o.Failure.String()
	}
	defer func() {
		if v := recover(); v != nil {
			r.Log.Error("tracing panicked at the end of a job; its span is lost", "panic", v)
		}
	}()
	r.span.End(e)
}
