package goworkertest

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/outcome"
)

// State is what became of a job.
type State string

// The states of a job whose run has ended, or that was not run.
const (
	Done      State = "done"
	Failed    State = "failed"    // for good: it is among the failures
	Retried   State = "retried"   // it runs again, and an attempt is used up
	Snoozed   State = "snoozed"   // it runs again, and no attempt is used up
	Returned  State = "returned"  // it goes back to its queue as it was
	Passed    State = "passed"    // it is left to processes that know its class
	Discarded State = "discarded" // its handler gave it up
	Expired   State = "expired"   // its time was over, and it was not run
	Cancelled State = "cancelled" // it was no longer wanted
	Gathered  State = "gathered"  // it is a part of its group; see goworker.Aggregate
)

// Result is one run of one job, and what became of the job.
type Result struct {
	Queue   string
	Class   string // "": the payload is no job
	ID      string
	Args    []json.RawMessage
	Payload json.RawMessage // of this run
	Attempt int             // which run this was; the first is 1

	State State
	Err   error // why, unless it is Done
	Value any   // what the handler returned beside a nil error
	Ran   bool  // the handler was called

	At    time.Time       // by the clock of the test
	RunAt time.Time       // of Retried and Snoozed: when it runs again. Not after At: at once
	Next  json.RawMessage // of Retried and Snoozed: the payload of the next run, with its attempt

	// Log is what the daemon logged about this run, of Work only. Runner.Log has the log of a Runner.
	Log string

	// Cursor is how far the job said last that it is, by goworker.Cursor, of Work only; nil: it did not. That of a Runner is
	// in Redis, for the next run.
	Cursor json.RawMessage

	// These are of Work only, and of a job with goworker.WithResult. Progress is how far the job said last that it is;
	// nil: it did not say. Lines are the log lines that goworker.CaptureLogs keeps. Those of a Runner are in its
	// Client's Status and Logs.
	Progress *inspect.ProgressInfo
	Lines    []inspect.LogLine
}

func resultOf(j *outcome.Job, o *outcome.Outcome, now time.Time) *Result {
	r := &Result{
		Queue: j.Queue, Class: j.Name, ID: j.ID, Args: j.Args, Payload: j.Text(), Attempt: j.Attempt,
		State: State(o.State.String()), Err: o.Err, Ran: o.Started, At: now,
	}
	if o.State == outcome.Done {
		r.Value = j.Value
	}
	if r.State == Retried || r.State == Snoozed {
		r.RunAt, r.Next = o.At, o.Next.Payload
		if r.RunAt.IsZero() {
			r.RunAt = now
		}
	}
	return r
}

// Wait returns how long the job waits for its next run.
func (r *Result) Wait() time.Duration {
	if r.RunAt.IsZero() {
		return 0
	}
	return max(0, r.RunAt.Sub(r.At))
}

// RequireDone ends the test unless the job is done.
func (r *Result) RequireDone(t testing.TB) {
	t.Helper()
	r.RequireState(t, Done)
}

// RequireFailed ends the test unless the job has failed for good, with an error that is (errors.Is) target. With a nil
// target any error will do.
func (r *Result) RequireFailed(t testing.TB, target error) {
	t.Helper()
	r.RequireState(t, Failed)
	r.requireErr(t, target)
}

// RequireDiscarded ends the test unless the handler gave the job up, with an error that is target; nil: any.
func (r *Result) RequireDiscarded(t testing.TB, target error) {
	t.Helper()
	r.RequireState(t, Discarded)
	r.requireErr(t, target)
}

// RequireRetried ends the test unless the job is retried. With one wait that is how long it must wait, to the millisecond;
// with two it must wait at least the first and at most the second, as for waits with a random part:
//
//	result.RequireRetried(t, 8*time.Second, 10*time.Second) // goworker.Exponential{Base: 10 * time.Second}
func (r *Result) RequireRetried(t testing.TB, wait ...time.Duration) {
	t.Helper()
	r.RequireState(t, Retried)
	r.requireWait(t, wait)
}

// RequireSnoozed ends the test unless the job runs again without using up an attempt. The waits are those of RequireRetried.
func (r *Result) RequireSnoozed(t testing.TB, wait ...time.Duration) {
	t.Helper()
	r.RequireState(t, Snoozed)
	r.requireWait(t, wait)
}

// RequireState ends the test unless the job ended so.
func (r *Result) RequireState(t testing.TB, want State) {
	t.Helper()
	if r.State != want {
		t.Fatalf("goworkertest: %s, want %s", r, want)
	}
}

// RequireAttempt ends the test unless this was the n-th run of the job.
func (r *Result) RequireAttempt(t testing.TB, n int) {
	t.Helper()
	if r.Attempt != n {
		t.Fatalf("goworkertest: %s, want attempt %d", r, n)
	}
}

func (r *Result) requireErr(t testing.TB, target error) {
	t.Helper()
	if target != nil && !errors.Is(r.Err, target) {
		t.Fatalf("goworkertest: %s, want an error that is %q", r, target)
	}
}

func (r *Result) requireWait(t testing.TB, wait []time.Duration) {
	t.Helper()
	if len(wait) == 0 {
		return
	}
	if len(wait) > 2 {
		t.Fatalf("goworkertest: %d waits were given; give one for an exact wait, or a least and a most", len(wait))
	}
	least, most := wait[0], wait[len(wait)-1]
	if is := r.Wait(); is < least-time.Millisecond || is > most+time.Millisecond {
		want := least.String()
		if least != most {
			want = fmt.Sprintf("between %s and %s", least, most)
		}
		t.Fatalf("goworkertest: %s, want it to wait %s", r, want)
	}
}

// String is the result as messages of tests show it.
func (r *Result) String() string {
	s := fmt.Sprintf("%s of queue %s is %s at attempt %d", r.Class, r.Queue, r.State, r.Attempt)
	if r.Class == "" {
		s = fmt.Sprintf("text of queue %s that is no job is %s", r.Queue, r.State)
	}
	if !r.RunAt.IsZero() {
		s += fmt.Sprintf(" and runs again in %s", r.Wait())
	}
	if r.Err != nil {
		s += fmt.Sprintf(" (%v)", r.Err)
	}
	return s
}

// ValueOf returns the value that the handler returned. It ends the test if the job is not done, or its value is of another type.
func ValueOf[R any](t testing.TB, r *Result) R {
	t.Helper()
	r.RequireDone(t)
	value, ok := r.Value.(R)
	if !ok {
		t.Fatalf("goworkertest: the handler of %s returned a %T, not a %T", r.Class, r.Value, value)
	}
	return value
}
