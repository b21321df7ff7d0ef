package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
)

// State is what has become of a job so far.
type State string

// The states of a job. The first four are those of a job that is not over.
const (
	StatePending   State = "pending"   // it waits: in a queue, in a lane or for its time
	StateRunning   State = "running"   // a worker runs it, for 100 ms at least
	StateRetrying  State = "retrying"  // it failed and waits for its next try
	StateSnoozed   State = "snoozed"   // it asked to run again
	StateDone      State = "done"      // its handler returned no error
	StateFailed    State = "failed"    // it is among the failures, and may be retried by hand
	StateDiscarded State = "discarded" // it failed and was dropped
	StateExpired   State = "expired"   // no worker took it in time
	StateCancelled State = "cancelled" // an operator or the program cancelled it
)

// Over reports whether a job in this state has ended.
func (s State) Over() bool { return resque.Over(string(s)) }

// Status is what has become of a job that was enqueued WithResult, or of a workflow. Times are those of Redis's clock. A
// time that is zero has not come, or is unknown.
type Status struct {
	ID       string
	State    State
	Was      State // the state in which it was cancelled
	Class    string
	Queue    string
	Enqueued time.Time
	Due      time.Time     // of a delayed job, or of the next try
	TTL      time.Duration // how long Redis keeps the Status after the end

	// Of the latest run. Attempt is 0 before the first one.
	Attempt int
	Process string
	Worker  string
	Began   time.Time

	Ended      time.Time       // only once the job is over
	Result     json.RawMessage // only of a done job whose handler returned a value
	ResultLeft string          // why the result was not kept; "": it was, or there is none
	Exception  string          // of the latest run that failed, as failure records name it
	Error      string          // its text

	Tries    []Try         // the last 20 runs that failed, and the one that succeeded; the oldest first
	Progress *ProgressInfo // nil: the job says nothing about it

	OfWorkflow bool           // it is that of a workflow, which has no class, queue and tries
	Name       string         // of a workflow that has one
	Failure    *WorkflowError // of a workflow that failed
}

// Workflow returns the name of a workflow, "" if it has none; ok is false for a job. Workflows().Get also counts its steps.
func (s Status) Workflow() (name string, ok bool) { return s.Name, s.OfWorkflow }

// Try is one run of a job that has ended.
type Try struct {
	Attempt   int
	State     State // "done", or why it was not: besides the states also "interrupted" and "lost", of a dead process
	Began     time.Time
	Ended     time.Time
	Process   string
	Worker    string
	Exception string
	Error     string
}

// ProgressInfo is how far a job says that it is.
type ProgressInfo struct {
	Done, Total int64
	Note        string
	At          time.Time // when the job said so
}

// StatusOf returns what a document says. It is for the packages of this module.
func StatusOf(d resque.Document) Status {
	s := Status{
		ID: d.ID, State: State(d.State), Was: State(d.Was), Class: d.Class, Queue: d.Queue, Enqueued: d.Enqueued, Due: d.Due, TTL: d.TTL,
		Attempt: d.Attempt, Process: d.Process, Worker: d.Worker, Began: d.Began, Ended: d.Ended,
		ResultLeft: d.Left, Exception: d.Exception, Error: d.Error,
	}
	if d.Result != "" {
		s.Result = json.RawMessage(d.Result)
	}
	for _, t := range d.Tries {
		s.Tries = append(s.Tries, Try{
			Attempt: t.Attempt, State: State(t.State), Began: t.Began, Ended: t.Ended,
			Process: t.Process, Worker: t.Worker, Exception: t.Exception, Error: t.Error,
		})
	}
	if s.OfWorkflow = d.Workflow != ""; s.OfWorkflow {
		if d.Workflow != "-" {
			s.Name = d.Workflow
		}
		if why := workflowError(s.ID, s.Name, d.Error); why != nil {
			s.Exception, s.Error, s.Failure = why.Exception, why.Message, why
		}
		return s
	}
	if s.State == StateDone { // Redis has this run once, in the fields above
		s.Tries = append(s.Tries, Try{
			Attempt: s.Attempt, State: StateDone, Began: s.Began, Ended: s.Ended, Process: s.Process, Worker: s.Worker,
		})
	}
	s.Progress = progressOf(d.Progress)
	return s
}

// ProgressOf reads a progress as Redis has it; nil: it is none. It is for the packages of this module.
func ProgressOf(text string) *ProgressInfo { return progressOf(resque.ProgressOf(text)) }

func progressOf(p *resque.DocumentProgress) *ProgressInfo {
	if p == nil {
		return nil
	}
	return &ProgressInfo{Done: p.Done, Total: p.Total, Note: p.Note, At: p.At}
}

// Over reports whether the job or workflow has ended. A failed workflow has, although steps of it may still run.
func (s Status) Over() bool { return s.State.Over() }

// Err returns the error with which the job ended: nil if it is done or not over, a *JobError if it
// failed or was discarded, and otherwise an error that matches ErrCancelled or ErrExpired. Of a workflow that failed it is a
// *WorkflowError.
func (s Status) Err() error {
	if s.OfWorkflow {
		return s.errOfWorkflow(workflowName(s.ID, s.Name))
	}
	switch s.State {
	case StateFailed, StateDiscarded:
		return &JobError{ID: s.ID, Class: s.Class, Queue: s.Queue, Exception: s.Exception, Message: s.Error, Attempt: s.Attempt, State: s.State}
	case StateCancelled:
		return prefix.Errorf("job %s of class %s in queue %s: %w", s.ID, s.Class, s.Queue, ErrCancelled)
	case StateExpired:
		return prefix.Errorf("job %s of class %s in queue %s: %w", s.ID, s.Class, s.Queue, ErrExpired)
	}
	return nil
}

func (s Status) errOfWorkflow(workflow string) error {
	switch s.State {
	case StateFailed:
		if s.Failure == nil { // its document is damaged
			return &WorkflowError{ID: s.ID, Name: s.Name, Message: s.Error}
		}
		return s.Failure
	case StateCancelled:
		return &endedError{"goworker: " + workflow + " was cancelled", ErrCancelled}
	case StateExpired:
		return &endedError{"goworker: the deadline of " + workflow + " has passed", ErrExpired}
	}
	return nil
}

// endedError is an error of a workflow that matches the one of jobs, whose text speaks of jobs.
type endedError struct {
	text string
	is   error
}

func (e *endedError) Error() string { return e.text }
func (e *endedError) Unwrap() error { return e.is }

// Decode decodes the job's result into what v points to. A job whose handler returned no value leaves it
// as it is. The error is that of Err, or says that the job is not over, why its result was not kept, or
// that it does not fit.
func (s Status) Decode(v any) error {
	switch err := s.Err(); {
	case err != nil:
		return err
	case !s.Over():
		return prefix.Errorf("%s is %s and has no result yet; wait for it", s.subject(), s.State)
	case s.ResultLeft != "":
		return prefix.Errorf("%s is done, and its result was not kept: %s", s.subject(), s.ResultLeft)
	case len(s.Result) == 0:
		return nil
	}
	if err := json.Unmarshal(s.Result, v); err != nil {
		return prefix.Errorf("the result of %s does not fit %s: %w", s.subject(), strings.TrimPrefix(fmt.Sprintf("%T", v), "*"), err)
	}
	return nil
}

// subject names what the Status is of.
func (s Status) subject() string {
	if s.OfWorkflow {
		return workflowName(s.ID, s.Name)
	}
	return fmt.Sprintf("job %s of class %s", s.ID, s.Class)
}

var (
	// ErrNoResult is returned for an id of which Redis keeps nothing.
	ErrNoResult = prefix.New("nothing is known about this job: its id is wrong, it was enqueued without WithResult, or the time of its result is over")
	// ErrExpired matches (errors.Is) the error of a job that no worker took in time, and of a workflow whose deadline has
	// passed.
	ErrExpired = prefix.New("no worker took the job before it expired")
	// ErrCancelled matches (errors.Is) the error of a job or workflow that was cancelled.
	ErrCancelled = failure.ErrCancelled
)

// JobError is the error of a job that failed or was discarded.
type JobError struct {
	ID, Class, Queue string
	Exception        string // as failure records name it
	Message          string // the text of its error
	Attempt          int    // of its last run
	State            State  // StateFailed or StateDiscarded
}

func (e *JobError) Error() string {
	ended := "failed"
	if e.State == StateDiscarded {
		ended = "was discarded"
	}
	text := fmt.Sprintf("goworker: job %s of class %s in queue %s %s", e.ID, e.Class, e.Queue, ended)
	if e.Attempt > 1 {
		text += fmt.Sprintf(" in attempt %d", e.Attempt)
	}
	for _, why := range []string{e.Exception, e.Message} {
		if why != "" {
			text += ": " + prefix.Bare(errors.New(why))
		}
	}
	return text
}
