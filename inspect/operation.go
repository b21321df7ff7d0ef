package inspect

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/operations"
)

// Verb is what an operation does with each of its jobs.
type Verb string

const (
	Retry       Verb = "retry"        // failures: to their queues, and their records are marked
	Run         Verb = "run"          // delayed jobs, and failures: to an end of their queues
	MoveTo      Verb = "move"         // to the tail of another queue; delayed jobs keep their time. A whole queue keeps its order, what a search finds comes in pieces of 250
	Delay       Verb = "delay"        // waiting and delayed jobs: to a time
	Drop        Verb = "remove"       // into the bin
	Revoke      Verb = "cancel"       // wherever they are: they do not run, or end early. Jobs that wait without an id go into the bin
	ClearQueue  Verb = "clear"        // a queue, whole, with its lanes: into the bin
	ForgetQueue Verb = "remove queue" // as ClearQueue, and the name of the queue goes
)

// Plan says what an operation is to do.
type Plan struct {
	Verb  Verb
	Query Query   // which jobs. ClearQueue and ForgetQueue: only its Queue
	Jobs  []Entry `json:"-"` // these and no others, at most 250; the Query is then not used

	Queue string    // MoveTo: where to
	At    time.Time // Delay: until when
	To    End       // Run and Retry: which end of the queue; "": the tail

	Pace  float64 // jobs a second; 0: as fast as they go
	Brake Brake

	Expected int64 // how many jobs Count has counted, for those who look at the operation; 0: it is not known
}

// Brake says when an operation stops by itself. A zero field does not stop it. It stops between two steps, says why,
// and can be run on.
type Brake struct {
	Failed  float64       // Retry and Run: this share of the jobs that it has put back has failed again. It counts from 20 jobs on, and from 0 in each Run
	Slow    time.Duration // Redis works at a step for this long. Such a step makes the next one half as large; one of ten jobs stops the operation
	Waiting int64         // more jobs than this wait in a queue to which its jobs go
}

// brakeFrom is from how many jobs on a brake counts what has failed again.
const brakeFrom = 20

// OperationState is how far an operation is.
type OperationState string

const (
	OperationReady   OperationState = "ready"   // it was begun, and nothing has run it
	OperationRunning OperationState = "running" // a program runs it, or takes back what it did
	OperationStands  OperationState = "stands"  // the program that ran it has gone: Run or Undo goes on
	OperationStopped OperationState = "stopped" // by Stop, by its brake or because Redis refused a step: Why says which
	OperationDone    OperationState = "done"
	OperationUndone  OperationState = "undone" // what could be taken back was
)

// Operation is how an operation stands. Over shards it is the sum of theirs.
type Operation struct {
	ID    string
	Plan  Plan // without Jobs
	State OperationState
	Why   string // of a stop

	Who, Reason string // by whom it was begun, and why; see By
	Begun       time.Time
	Changed     time.Time // when its record was last written

	Looked  int64 // jobs that it has looked at
	Done    int64 // jobs that it has changed
	Refused int64 // jobs that it could not change, given jobs that were gone, and jobs that it has seen twice where another program went on; Refusal says why the last one
	Refusal string
	Ended   int64 // of Done: removed jobs with a lock, a step or a result. They ended as cancelled, and are not taken back
	Again   int64 // of Done: jobs that have failed again, as far as its brake has seen

	Given bool // it is of jobs that were chosen one by one, so its Plan has no Query for them

	Undoing bool  // it takes back what it did, or has
	Back    int64 // jobs that were taken back
	Gone    int64 // once it is undone: jobs that could not be taken back: removed ones that are no longer in the bin, and others that ran, run, or were changed since

	Binned  int64     // jobs of it in the bin
	BinEnds time.Time // until when they are kept; zero: there are none
}

var (
	// ErrNoOperation is returned for an id of which there is no operation: it is older than seven days, or its record was removed.
	ErrNoOperation = operations.ErrNone
	// ErrOperationBusy is returned for an operation that another program runs.
	ErrOperationBusy = operations.ErrBusy
	// ErrOperationsFull is returned when two operations run already: they share Redis with the workers.
	ErrOperationsFull = operations.ErrFull
	// ErrOperationOver is returned for an operation that has ended.
	ErrOperationOver = operations.ErrOver
	// ErrOperationStopped is returned by Run and Undo when an operator stopped the operation.
	ErrOperationStopped = operations.ErrStopped
	// ErrOperationLost is returned by Run and Undo when another program runs the operation now.
	ErrOperationLost = operations.ErrLost
)

// Operations are changes of many jobs that are made in steps, recorded in Redis, and can be stopped, run on by another
// program, and taken back for a day.
//
// A step is one script. It changes at most 250 jobs, keeps what it takes away in the bin, and counts both in the operation's
// record. So a program may be killed at any time, and Run in any other one goes on: no job is changed twice.
// A runner that was silent for ten seconds has lost the operation. Two operations run at a time.
type Operations struct{ in *Inspector }

// Operations returns the operations.
func (i *Inspector) Operations() *Operations { return &Operations{in: i} }

// places are those where a verb looks for jobs if the query names none.
func (v Verb) places() []Place {
	switch v {
	case Retry:
		return []Place{Failed}
	case Run:
		return []Place{Delayed}
	case Revoke:
		return []Place{Delayed, Queued, InLane, Running}
	}
	return []Place{Delayed, Queued, InLane}
}

// PlanError says what is wrong with a Plan. Nothing was begun.
type PlanError struct{ text string }

func (e *PlanError) Error() string { return e.text }

// check returns the plan with what it leaves open, or what is wrong with it.
func (p Plan) check() (Plan, error) {
	wrong := func(format string, args ...any) (Plan, error) {
		return p, &PlanError{fmt.Sprintf("goworker: an operation %q "+format, append([]any{p.Verb}, args...)...)}
	}
	if !utf8.ValidString(p.Query.Queue) || !utf8.ValidString(p.Queue) {
		return wrong("cannot be recorded for a queue whose name is not UTF-8; RemoveQueue, or Move of given jobs, can change it")
	}
	allowed := []Place{Delayed, Queued, InLane, Failed}
	switch p.Verb {
	case ClearQueue, ForgetQueue:
		if p.Query.Queue == "" || len(p.Jobs) > 0 {
			return wrong("concerns a queue; set the Queue of its Query and no Jobs")
		}
		return p, nil
	case Retry:
		allowed = []Place{Failed}
	case Run:
		allowed = []Place{Delayed, Failed}
	case Delay:
		allowed = []Place{Delayed, Queued, InLane}
		if p.At.IsZero() {
			return wrong("needs a time; set At")
		}
	case MoveTo:
		if p.Queue == "" {
			return wrong("needs the queue to which the jobs go; set Queue")
		}
	case Revoke:
		allowed = []Place{Delayed, Queued, InLane, Running, Leased}
	case Drop:
	default:
		return wrong("is not known; there are retry, run, move, delay, remove, cancel, clear and remove queue")
	}
	if p.To != "" && p.To != Head && p.To != Tail {
		return wrong("puts jobs to %q, which is no end of a queue; use Head or Tail", p.To)
	}
	if p.Pace < 0 || math.IsNaN(p.Pace) || p.Brake.Failed < 0 || p.Brake.Failed > 1 || p.Brake.Slow < 0 || p.Brake.Waiting < 0 {
		return wrong("has a pace of %v and a brake of %+v; a pace is a number of jobs a second, and a share is from 0 to 1", p.Pace, p.Brake)
	}
	if len(p.Jobs) > operations.StepJobs {
		return wrong("of given jobs takes at most %d, not %d; choose them by a search", operations.StepJobs, len(p.Jobs))
	}
	for _, e := range p.Jobs {
		if !e.listed {
			return p, errNotFound
		}
		if !slices.Contains(allowed, e.Place) {
			return wrong("cannot change %s", e)
		}
	}
	if len(p.Jobs) > 0 {
		return p, nil
	}
	if p.Query.Places == nil {
		p.Query.Places = p.Verb.places()
	}
	for _, place := range p.Query.Places {
		if !slices.Contains(allowed, place) {
			return wrong("does not change jobs that are %s; leave these out", place)
		}
	}
	switch {
	case p.Query.narrow(), slices.Equal(p.Query.Places, []Place{Failed}), p.Verb != Revoke && slices.Equal(p.Query.Places, []Place{Delayed}), p.Verb == Revoke && p.Query.hangs():
	case p.Verb == Revoke:
		return wrong("would end the jobs of all queues; name a queue, class or id, or a condition about what the jobs are, or state:running and for:>5m for those that hang")
	default:
		return wrong("would change the jobs of all queues; name a queue, class or id, or a condition about what the jobs are")
	}
	return p, nil
}

// wants reports whether the plan concerns a job that its query has found.
func (p Plan) wants(e Entry) bool {
	switch p.Verb {
	case Retry, Run:
		return unretried(e)
	case MoveTo:
		return e.Queue != p.Queue && unretried(e)
	case Delay:
		return e.Place != Delayed || e.stamp() != Entry{At: p.At, Plain: e.Plain}.stamp()
	}
	return true
}

// Start records an operation and returns it. It changes no job: Run does. Of a plan with Jobs it makes the change at once, in one
// step a place, because no other program could go on with it: the record does not say which jobs these are. If the program ends
// before, Run in another one stops the operation, and Why says how many were changed. Undo takes those back.
func (o *Operations) Start(ctx context.Context, p Plan) (Operation, error) {
	p, err := p.check()
	if err != nil {
		return Operation{}, err
	}
	if err := o.in.usable(); err != nil {
		return Operation{}, err
	}
	if p.Verb == ClearQueue || p.Verb == ForgetQueue {
		if err := o.in.known(ctx, "clearing", p.Query.Queue); err != nil {
			return Operation{}, err
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		return Operation{}, prefix.Errorf("recording an operation: %w", err)
	}
	id := newOperationID()
	fields := map[string]string{"plan": string(text), "who": o.in.who, "reason": o.in.why}
	if o.in.mask != nil && len(p.Jobs) == 0 && p.Query.masks() {
		fields[maskedField] = "1"
	}
	err = o.in.each(func(one *Inspector) error {
		if len(p.Jobs) > 0 {
			fields[givenField] = strconv.Itoa(len(o.given(p, p.Jobs, one)))
		}
		if err := one.intend(ctx, "Operations."+string(p.Verb), operationOn(id, p)); err != nil {
			return err
		}
		return one.do(ctx, func(s resque.Store, c redis.Conn) error {
			_, err := operations.New(s).Begin(c, id, fields)
			return err
		})
	})
	if err != nil {
		return Operation{}, prefix.Of(err)
	}
	if len(p.Jobs) > 0 {
		for op, err := range o.drive(ctx, id, p.Jobs, false) {
			if err != nil {
				return op, err
			}
		}
	}
	return o.Get(ctx, id)
}

// RefusalGone is the Refusal of given jobs that were no longer there: a worker had taken them, or another program.
const RefusalGone = "jobs are no longer where they were found"

// givenField is how many given jobs an operation is to change on a Redis. Only the program that began it knows which.
const givenField = "given"

// given are those of the given jobs that a plan is to change on a Redis.
func (o *Operations) given(p Plan, jobs []Entry, one *Inspector) []Entry {
	return slices.DeleteFunc(slices.Clone(jobs), func(e Entry) bool { return o.in.several() && e.shard != one.number || !p.wants(e) })
}

// operationOn says in the audit what an operation concerns.
func operationOn(id string, p Plan) string {
	of, _ := json.Marshal(p.Query)
	if len(p.Jobs) > 0 {
		of = fmt.Appendf(nil, "%d jobs, the last %s", len(p.Jobs), p.Jobs[len(p.Jobs)-1])
	}
	return fmt.Sprintf("operation %s: %s", id, of)
}

// Stop stops an operation between two steps, whichever program runs it. Run goes on with it.
func (o *Operations) Stop(ctx context.Context, id, why string) error {
	err := o.change(ctx, "stopping", id, func(s operations.Store, c redis.Conn) error {
		return s.Release(c, id, "", string(OperationStopped), cmp.Or(why, "an operator stopped it"))
	})
	if err != nil {
		return err
	}
	return o.in.each(func(one *Inspector) error { return one.record(ctx, "Operations.Stop", "operation "+id, 1, nil) })
}

// waitEvery is how often Wait looks.
const waitEvery = 250 * time.Millisecond

// Wait waits for an operation that another program runs, and returns how it stands when no program runs it any more.
func (o *Operations) Wait(ctx context.Context, id string) (op Operation, err error) {
	for {
		if op, err = o.Get(ctx, id); err != nil || op.State != OperationRunning {
			return op, err
		}
		if err := sleep(ctx, waitEvery); err != nil {
			return op, err
		}
	}
}

// change changes the record of an operation on each shard that has one which has not ended.
func (o *Operations) change(ctx context.Context, doing, id string, change func(s operations.Store, c redis.Conn) error) error {
	if err := o.in.usable(); err != nil {
		return err
	}
	var errs []error
	changed := false
	for _, one := range o.in.all() {
		err := one.do(ctx, func(s resque.Store, c redis.Conn) error { return change(operations.New(s), c) })
		changed = changed || err == nil
		if err != nil && o.in.several() {
			err = one.about(err)
		}
		errs = append(errs, err)
	}
	errs = slices.DeleteFunc(errs, func(err error) bool {
		return err == nil || changed && (errors.Is(err, operations.ErrNone) || errors.Is(err, operations.ErrOver))
	})
	if len(errs) == 0 {
		return nil
	}
	return prefix.Errorf("%s operation %s: %w", doing, id, errors.Join(errs...))
}

// Get returns how an operation stands.
func (o *Operations) Get(ctx context.Context, id string) (Operation, error) {
	all, err := o.read(ctx, func(s operations.Store, c redis.Conn) ([]operations.Record, error) { return s.Read(c, id) })
	if len(all) == 0 {
		return Operation{}, prefix.Errorf("operation %s: %w", id, cmp.Or(err, ErrNoOperation))
	}
	return all[0], err
}

// List returns the operations of the last seven days, at most 1,000, the newest first.
func (o *Operations) List(ctx context.Context) ([]Operation, error) {
	return o.read(ctx, func(s operations.Store, c redis.Conn) ([]operations.Record, error) {
		ids, err := s.IDs(c)
		if err != nil || len(ids) == 0 {
			return nil, err
		}
		return s.Read(c, ids...)
	})
}

// read reads operations and adds what they did on shards.
func (o *Operations) read(ctx context.Context, ask func(s operations.Store, c redis.Conn) ([]operations.Record, error)) (all []Operation, err error) {
	if err := o.in.usable(); err != nil {
		return nil, err
	}
	err = o.in.each(func(one *Inspector) error {
		records, err := query(ctx, one, func(s resque.Store, c redis.Conn) ([]operations.Record, error) { return ask(operations.New(s), c) })
		for _, r := range records {
			op := operationOf(r)
			if at := slices.IndexFunc(all, func(of Operation) bool { return of.ID == op.ID }); at >= 0 {
				all[at].add(op)
			} else {
				all = append(all, op)
			}
		}
		return err
	})
	slices.SortStableFunc(all, func(a, b Operation) int { return b.Begun.Compare(a.Begun) })
	return all, err
}

func operationOf(r operations.Record) Operation {
	op := Operation{
		ID: r.ID, State: OperationState(r.Fields["state"]), Why: r.Fields["why"], Who: r.Fields["who"], Reason: r.Fields["reason"],
		Begun: r.Time("begun"), Changed: r.Time("changed"),
		Looked: r.Number("looked"), Done: r.Number("done"), Refused: r.Number("refused"), Refusal: r.Fields["refusal"],
		Ended: r.Number("ended"), Again: r.Number("again"), Given: r.Fields[givenField] != "",
		Undoing: r.Fields["undoing"] != "", Back: r.Number("back"), BinEnds: r.Time("bin_ends"),
	}
	d := json.NewDecoder(bytes.NewReader([]byte(r.Fields["plan"])))
	d.UseNumber() // else large numbers among the arguments change
	_ = d.Decode(&op.Plan)
	if op.State == OperationRunning && !r.Leased {
		op.State = OperationStands
	}
	for name, n := range r.Bins() {
		if p, ok := operations.ParseName(name); ok && !p.Went {
			op.Binned += n
		}
	}
	if !op.BinEnds.After(r.Now) {
		op.Binned = 0
	}
	if op.Binned == 0 {
		op.BinEnds = time.Time{}
	}
	if op.State == OperationUndone {
		op.Gone = max(0, op.Done-op.Ended-op.Back)
	}
	return op
}

// add adds what an operation did on another shard. Its state is that of the shard which is least far.
func (op *Operation) add(of Operation) {
	order := []OperationState{OperationRunning, OperationStands, OperationStopped, OperationReady, OperationDone, OperationUndone}
	if slices.Index(order, of.State) < slices.Index(order, op.State) {
		op.State, op.Why = of.State, of.Why
	}
	op.Refusal, op.Undoing = cmp.Or(op.Refusal, of.Refusal), op.Undoing || of.Undoing
	op.Given = op.Given || of.Given
	for _, n := range [][2]*int64{{&op.Looked, &of.Looked}, {&op.Done, &of.Done}, {&op.Refused, &of.Refused}, {&op.Ended, &of.Ended}, {&op.Again, &of.Again},
		{&op.Back, &of.Back}, {&op.Gone, &of.Gone}, {&op.Binned, &of.Binned}} {
		*n[0] += *n[1]
	}
	if of.Changed.After(op.Changed) {
		op.Changed = of.Changed
	}
	if op.BinEnds.IsZero() || !of.BinEnds.IsZero() && of.BinEnds.Before(op.BinEnds) {
		op.BinEnds = of.BinEnds
	}
}
