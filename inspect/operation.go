package inspect

import (
	"context"
	"errors"
	"iter"
	"time"
)

// Verb is what an operation does with each of its jobs.
type Verb string

const (
	Retry       Verb = "retry"        // failures: to their queues, and their records are marked
	Run         Verb = "run"          // delayed and laned jobs: to an end of their queues
	MoveTo      Verb = "move"         // to another queue
	Delay       Verb = "delay"        // waiting and delayed jobs: to a time
	Drop        Verb = "remove"       // into the bin
	Revoke      Verb = "cancel"       // by their ids, wherever they are: they do not run, or end early
	ClearQueue  Verb = "clear"        // a queue, whole: into the bin, in one step
	ForgetQueue Verb = "remove queue" // as ClearQueue, and the name of the queue goes
)

// Plan says what an operation is to do.
type Plan struct {
	Verb  Verb
	Query Query   // which jobs. ClearQueue and ForgetQueue: only its Queue
	Jobs  []Entry // these and no others, at most 250; the Query is then not used

	Queue string    // MoveTo: where to
	At    time.Time // Delay: until when
	To    End       // Run and Retry: which end of the queue; "": the tail

	Pace  float64 // jobs a second; 0: as fast as they go
	Brake Brake
}

// Brake says when an operation stops by itself. A zero field does not stop it. It stops between two steps, says why,
// and can be run again.
type Brake struct {
	Failed  float64       // Retry and Run: this share of the jobs that it has put back has failed again. It counts from 20 jobs on
	Slow    time.Duration // Redis works at a step for this long. A step that does is halved; one of ten jobs stops the operation
	Waiting int64         // more jobs than this wait in the queue where its jobs go
}

// OperationState is how far an operation is.
type OperationState string

const (
	OperationReady   OperationState = "ready"   // it was begun, and nothing runs it
	OperationRunning OperationState = "running" // a program runs it
	OperationStands  OperationState = "stands"  // the program that ran it has gone; Run goes on
	OperationStopped OperationState = "stopped" // by Stop, by its brake or by an error: Why says which; Run goes on
	OperationDone    OperationState = "done"
	OperationUndone  OperationState = "undone" // what could be taken back was
)

// Operation is how an operation stands.
type Operation struct {
	ID    string
	Plan  Plan // Jobs is nil
	State OperationState
	Why   string // of a stop

	Who     string // by whom it was begun; see By
	Begun   time.Time
	Changed time.Time // when its record was last written

	Expected int64 // jobs that were counted when it began; -1: they were not
	Looked   int64 // jobs that it has looked at
	Done     int64 // jobs that it has changed
	Refused  int64 // jobs that it could not change; Refusal says why the last one
	Refusal  string
	Ended    int64 // of Done: removed jobs with a lock, a step or a result, which are not taken back
	Again    int64 // of Done: jobs that have failed again, as far as its brake has seen

	Undoing bool  // it was asked to take back what it did
	Back    int64 // jobs that were taken back
	Gone    int64 // jobs that could not be: they ran, run, or were changed since

	Binned  int64     // jobs of it in the bin
	BinEnds time.Time // until when these are kept; zero: there are none
}

// Counted is what a plan would do.
type Counted struct {
	Jobs    int64
	More    bool    // there may be more: the count has looked at as much as it may
	Ended   int64   // Drop, ClearQueue, ForgetQueue: jobs with a lock, a step or a result. They end as cancelled, and undo does not bring them back
	Samples []Entry // the first three
}

// Operations are changes of many jobs that are made in steps, recorded in Redis, and can be stopped, run on by another
// program, and taken back for a day.
type Operations struct{ in *Inspector }

// Operations returns the operations.
func (i *Inspector) Operations() *Operations { return &Operations{in: i} }

// Count says what a plan would do now, and changes nothing.
func (o *Operations) Count(ctx context.Context, p Plan) (Counted, error) {
	return Counted{}, errUnfinished
}

// Start records an operation. It changes no job: Run does.
func (o *Operations) Start(ctx context.Context, p Plan) (Operation, error) {
	return Operation{}, errUnfinished
}

// Run runs an operation, or runs it on, and yields how it stands after each step.
func (o *Operations) Run(ctx context.Context, id string) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) { yield(Operation{}, errUnfinished) }
}

// Stop stops an operation between two steps, whichever program runs it.
func (o *Operations) Stop(ctx context.Context, id, why string) error { return errUnfinished }

// Undo takes back what an operation did, as far as it can, and yields how it stands after each step.
func (o *Operations) Undo(ctx context.Context, id string) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) { yield(Operation{}, errUnfinished) }
}

// Wait waits until an operation that another program runs has ended or stopped.
func (o *Operations) Wait(ctx context.Context, id string) (Operation, error) {
	return Operation{}, errUnfinished
}

// Get returns how an operation stands.
func (o *Operations) Get(ctx context.Context, id string) (Operation, error) {
	return Operation{}, errUnfinished
}

// List returns the operations of the last seven days, the newest first.
func (o *Operations) List(ctx context.Context) ([]Operation, error) { return nil, errUnfinished }

// Binned is a part of the bin: jobs that an operation removed from one place.
type Binned struct {
	Operation string
	Place     string // "queue mail", "failed", "a lane of queue mail", "delayed"
	Jobs      int64
	Ends      time.Time // until when they are kept
}

// Bin returns what is in the bin, of one operation, or of all for "".
func (o *Operations) Bin(ctx context.Context, id string) ([]Binned, error) { return nil, errUnfinished }

// EmptyBin removes the jobs of operations in the bin for good, and returns how many these were. Without ids it empties all.
func (o *Operations) EmptyBin(ctx context.Context, ids ...string) (int64, error) {
	return 0, errUnfinished
}

var errUnfinished = errors.New("goworker: this version does not know operations")
