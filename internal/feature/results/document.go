package results

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/resque"
)

// pending is the state of a document whose job waits for its first run, or went back to its queue.
const pending = "pending"

// states are those of documents, by the outcome of the latest run. One that runs says "running": see note.lua.
var states = [outcome.States]string{
	outcome.Done: "done", outcome.Failed: "failed", outcome.Retried: "retrying", outcome.Snoozed: "snoozed", outcome.Returned: pending,
	outcome.Passed: pending, outcome.Discarded: "discarded", outcome.Expired: "expired", outcome.Cancelled: "cancelled",
}

// saidStates are the same as values, which each end takes.
var saidStates = func() (said [outcome.States]any) {
	for i, state := range states {
		said[i] = state
	}
	return said
}()

// The states of a try that no document has.
const (
	interrupted = "interrupted" // its process stopped, and the job went back to its queue
	lost        = "lost"        // its process died
)

// How much of an error's text is kept: of the latest run's, and of that of each try.
const (
	maxError    = 8 << 10
	maxTryError = 1 << 10
)

//go:embed result.lua
var resultLua string

var resultVerb = resque.NewVerb("result", resultLua)

// document is what becomes of one job.
type document struct {
	outcome.None
	deps *outcome.Deps
	name string // of the document
	ttl  int64  // ms, from the end
	at   int64  // when the run was admitted here, by Redis's clock, in ms; 0: it was not
	run  Run
	ctx  runContext // of the handler
}

// Admit notes when the run begins.
func (d *document) Admit(context.Context, *outcome.Job) (o outcome.Outcome, decided bool) {
	d.at = millis(d.deps.Time.Now())
	return o, false
}

// Wrap lets the handler find the run.
func (d *document) Wrap(next outcome.Handler) outcome.Handler {
	return func(ctx context.Context, j *outcome.Job) error {
		d.ctx = runContext{ctx, &d.run}
		return next(&d.ctx, j)
	}
}

// Running has it written that the job runs.
func (d *document) Running(j *outcome.Job) { d.run.running(d.began(j, nil)) }

// began adds the fields of a run, as far as they are known. Of a job of a dead process only the document may know
// when it began, and of one that goes back before its handler was called also by which worker.
func (d *document) began(j *outcome.Job, fields []any) []any {
	fields = append(fields, "attempt", j.Attempt, "process", j.Process, "queue", j.Queue) // an operator may have moved it
	if j.Worker != "" {
		fields = append(fields, "worker", j.Worker)
	}
	if at := d.beganAt(j); at != 0 {
		fields = append(fields, "began", at)
	}
	return fields
}

// beganAt is when the run began, by Redis's clock, in ms; 0: that is not known. What a stop abandons is settled by a
// policy that has not admitted it.
func (d *document) beganAt(j *outcome.Job) int64 {
	if d.at == 0 && !j.StartedAt.IsZero() {
		return millis(d.deps.Time.Now().Add(-clock.Since(d.deps.Clock, j.StartedAt)))
	}
	return d.at
}

// pendingTTL is the TTL of a document whose job is not over, in ms.
func (d *document) pendingTTL() int64 { return max(PendingTTL.Milliseconds(), d.ttl) }

// Settle writes how the run ended. A job that goes back without a run leaves no trace.
//
// The row is soft: where the key has become another program's, a document that cannot be written must not keep
// a job from ending. In any other case it is written in the same step as the ticket goes, as every row is.
func (d *document) Settle(j *outcome.Job, o *outcome.Outcome) {
	back := o.State == outcome.Returned || o.State == outcome.Passed
	if back && !o.Started {
		return
	}
	now := millis(d.deps.Time.Now())
	e := resque.EndOfDocument{Process: j.Process, State: saidStates[o.State], Over: o.State.Over()}
	e.Note = d.run.end()
	e.ID, e.Ticket, e.TTL = d.name, j.Ticket, d.ttl
	e.Headed, e.Begun = true, make([]any, resque.EndHead, resque.EndHead+16)
	if o.Started {
		e.Begun = d.began(j, e.Begun)
	} else {
		e.Begun = append(e.Begun, "queue", j.Queue)
	}
	var exception, text string
	if o.Err != nil {
		f, _ := d.deps.Record(j, o.Err)
		exception, text = f.Exception, f.Error
	}
	if o.Started && o.State != outcome.Done {
		e.Try = d.try(j, o, exception, text, now)
	}
	switch o.State {
	case outcome.Done:
		d.result(j, o, &e)
	case outcome.Failed, outcome.Discarded, outcome.Retried:
		e.Begun = append(e.Begun, "exception", exception, "error", logging.Shorten(text, maxError))
	}
	switch {
	case e.Over:
		e.Begun = append(e.Begun, "ended", now)
	case o.Next.Place == outcome.Schedule || o.Next.Place == outcome.RubySchedule:
		due := millis(o.Next.At)
		e.Begun = append(e.Begun, "due", due)
		e.TTL = d.pendingTTL() + max(0, due-now)
	default:
		e.TTL = d.pendingTTL()
	}
	o.Effects = append(o.Effects, resultVerb.Effect(d.deps.Store.DocumentKeys(e.ID, d.run.captures), e.Args()...).Soft())
}

// result adds what the handler returned, or why that is not kept.
func (d *document) result(j *outcome.Job, o *outcome.Outcome, e *resque.EndOfDocument) {
	var left string
	switch {
	case j.Value == nil: // the handler returned only an error
		return
	case o.ResultErr != nil:
		left = fmt.Sprintf("the result cannot be written as JSON: %v", o.ResultErr)
	case len(o.Result) > MaxResult:
		left = fmt.Sprintf("the result has %d bytes as JSON, and at most %d are kept; return where it lies instead", len(o.Result), MaxResult)
		o.Log.Attrs = append(o.Log.Attrs, slog.String("result", left))
	default:
		e.Begun = append(e.Begun, "result", []byte(o.Result))
		return
	}
	e.Begun = append(e.Begun, "left", logging.Shorten(left, maxError))
}

// try is a run as the document lists it.
type try struct {
	Attempt   int    `json:"attempt"`
	State     string `json:"state"`
	Began     int64  `json:"began,omitempty"`
	Ended     int64  `json:"ended"`
	Process   string `json:"process,omitempty"`
	Worker    string `json:"worker,omitempty"`
	Exception string `json:"exception,omitempty"`
	Error     string `json:"error,omitempty"`
}

// try returns the run as a try.
func (d *document) try(j *outcome.Job, o *outcome.Outcome, exception, text string, now int64) string {
	t := try{
		Attempt: j.Attempt, State: states[o.State], Began: d.beganAt(j), Ended: now, Process: j.Process, Worker: j.Worker,
		Exception: exception, Error: logging.Shorten(text, maxTryError),
	}
	switch {
	case j.Dead:
		t.State = lost
	case o.State == outcome.Returned || o.State == outcome.Passed:
		t.State = interrupted
	}
	encoded, _ := json.Marshal(t) // it has numbers and texts only
	return string(encoded)
}
