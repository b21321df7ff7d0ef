package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/operations"
)

// restAfter is how long a runner goes without a step that changes jobs before it renews its lease by one that does not.
const restAfter = operations.Lease / 4

// stepTries is how often a page is read again of which no job could be changed because all had moved, and how often a step
// is tried again whose answer did not come.
const stepTries = 5

func newOperationID() string { return strings.ToLower(payload.NewID()[:10]) }

// Run runs an operation, or runs it on, and yields how it stands after each step. It returns when there are no more jobs, or with
// the error that ends it. A loop that breaks leaves the operation to be run on, as does a context that ends.
//
// If its brake stops the operation, the last one that it yields is OperationStopped, and Why says why. Run goes on with it then too.
func (o *Operations) Run(ctx context.Context, id string) iter.Seq2[Operation, error] {
	return o.drive(ctx, id, nil, false)
}

// Undo takes back what an operation did, as far as it can, and yields how it stands after each step. It stops an operation that
// has not ended, unless another program runs it. Like Run it can be broken off, and called again.
//
// Jobs that were removed go back to the head of their queue or lane in their order, to their failure list, or to their time. Jobs that
// were moved, delayed, run or retried go back if they still wait; the others are counted in Gone. A cancel is lifted. What is
// known of a job that ended as cancelled stays: Ended counts these.
func (o *Operations) Undo(ctx context.Context, id string) iter.Seq2[Operation, error] {
	return o.drive(ctx, id, nil, true)
}

// drive runs an operation, shard by shard.
func (o *Operations) drive(ctx context.Context, id string, jobs []Entry, undo bool) iter.Seq2[Operation, error] {
	return func(yield func(Operation, error) bool) {
		if err := o.in.usable(); err != nil {
			yield(Operation{ID: id}, err)
			return
		}
		before, err := o.Get(ctx, id)
		if err != nil {
			yield(before, err)
			return
		}
		ran, over := false, error(nil)
	shards:
		for _, one := range o.in.all() {
			r := &runner{Inspector: one, id: id, runner: payload.NewID(), plan: before.Plan, undo: undo, size: operations.StepJobs}
			r.given, r.knows = o.given(before.Plan, jobs, one), len(jobs) > 0
			r.stepped = func() bool {
				op, err := o.Get(ctx, id)
				return yield(op, err)
			}
			switch err := r.run(ctx); {
			case err == nil:
				if ran = true; r.brake.stops != "" { // the other shards wait until it is run on
					break shards
				}
			case errors.Is(err, errBroken):
				return
			case errors.Is(err, operations.ErrNone) && o.in.several(), errors.Is(err, operations.ErrOver):
				over = err
			default:
				if o.in.several() {
					err = one.about(err)
				}
				op, _ := o.Get(context.WithoutCancel(ctx), id)
				op.ID = id
				yield(op, prefix.Of(err))
				return
			}
		}
		op, err := o.Get(ctx, id)
		if err == nil && !ran && over != nil {
			err = prefix.Of(over)
		}
		yield(op, err)
	}
}

// errBroken ends a run whose caller broke off.
var errBroken = errors.New("the caller broke off")

// runner runs an operation on one Redis.
type runner struct {
	*Inspector
	id, runner string
	plan       Plan
	undo       bool
	stepped    func() bool // after each step; false: the caller breaks off
	given      []Entry
	knows      bool // which jobs were given

	step   int64
	cursor string
	size   int // jobs of the next step
	last   time.Time
	next   time.Time // by the pace
	brake  brake
}

// run acquires the operation, runs it, and releases it.
func (r *runner) run(ctx context.Context) error {
	if err := r.with(ctx, func(s operations.Store, c redis.Conn) error { return s.Acquire(c, r.id, r.runner, r.undo) }); err != nil {
		if ctx.Err() != nil { // Redis may have written the lease, although its answer did not come
			release, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
			defer cancel()
			_ = r.release(release, "", "")
		}
		return prefix.Errorf("operation %s: %w", r.id, err)
	}
	state, why, err := r.all(ctx)
	release, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	switch { // where the answer to a step was lost, only the list in the bin says which jobs it ended
	case err == nil:
		if err = r.announce(ctx); err != nil {
			state, why = "", ""
		}
	case errors.Is(err, operations.ErrStopped), refusedByRedis(err):
		_ = r.announce(release) // what is left ends when the operation is run on or taken back
	}
	switch {
	case errors.Is(err, operations.ErrStopped), errors.Is(err, operations.ErrLost), errors.Is(err, operations.ErrNone):
		return err
	case refusedByRedis(err):
		state, why = OperationStopped, err.Error()
	}
	released := r.release(release, state, why)
	if errors.Is(released, operations.ErrOver) { // an operator stopped it after its last step
		released = nil
	}
	if err == nil && state != "" {
		err = r.concluded(release, why)
	}
	return cmp.Or(err, released)
}

// release ends the running, if this runner has it. state is what the operation is from then on; "": it stands.
func (r *runner) release(ctx context.Context, state OperationState, why string) error {
	return r.with(ctx, func(s operations.Store, c redis.Conn) error { return s.Release(c, r.id, r.runner, string(state), why) })
}

// refusedByRedis reports whether an error is Redis's answer, so that to try again changes nothing.
func refusedByRedis(err error) bool {
	var refused redis.Error
	return errors.As(err, &refused) && !strings.HasPrefix(string(refused), "LOADING") && !strings.HasPrefix(string(refused), "NOSCRIPT")
}

func (r *runner) with(ctx context.Context, do func(s operations.Store, c redis.Conn) error) error {
	return r.do(ctx, func(s resque.Store, c redis.Conn) error { return do(operations.New(s), c) })
}

// store makes calls.
func (r *runner) store(ctx context.Context) (operations.Store, error) {
	return query(ctx, r.Inspector, func(s resque.Store, _ redis.Conn) (operations.Store, error) { return operations.New(s), nil })
}

// all runs all steps. state is what the operation is from then on; "": it stands.
func (r *runner) all(ctx context.Context) (state OperationState, why string, err error) {
	record, err := r.read(ctx)
	if err != nil {
		return "", "", err
	}
	if err := r.announce(ctx); err != nil {
		return "", "", err
	}
	state = OperationDone
	switch {
	case r.undo:
		state, err = OperationUndone, r.takeBack(ctx, record)
	case r.plan.Verb == ClearQueue || r.plan.Verb == ForgetQueue:
		err = r.clear(ctx)
	case r.knows:
		err = r.hand(ctx, r.given)
	case record.Fields[givenField] != "":
		did := record.Number("done") + record.Number("refused")
		if given := record.Number(givenField); did < given {
			why = fmt.Sprintf("the program that changed %d given jobs has ended after %d of them; find the others and change them", given, did)
		}
	case record.Fields[maskedField] != "" && r.mask == nil:
		err = ErrMasked
	default:
		why, err = r.walkAll(ctx, record)
	}
	switch {
	case err != nil:
		return "", "", err
	case why != "":
		return OperationStopped, why, nil
	}
	return state, "", nil
}

// read reads the record, and where the runner is in it.
func (r *runner) read(ctx context.Context) (record operations.Record, err error) {
	err = r.with(ctx, func(s operations.Store, c redis.Conn) error {
		records, err := s.Read(c, r.id)
		if err == nil && len(records) == 0 {
			err = operations.ErrNone
		}
		if err == nil {
			record = records[0]
		}
		return err
	})
	switch {
	case err != nil:
		return record, err
	case record.Fields["runner"] != r.runner || !record.Leased:
		return record, cmp.Or(map[bool]error{true: operations.ErrStopped}[record.Fields["state"] == string(OperationStopped)], operations.ErrLost)
	}
	r.step, r.cursor, r.last = record.Number("step"), record.Fields["cursor"], clock.System.Now()
	return record, nil
}

// moving is where the walk of a move is that goes from the head of a whole queue.
const moving = "head"

// walkAll changes all jobs that the query finds. A move of a whole queue takes its jobs from the head, so that they keep their order.
func (r *runner) walkAll(ctx context.Context, record operations.Record) (why string, err error) {
	r.brake.begin(ctx, r, record)
	q, cursor := r.plan.Query, r.cursor
	if whole := q.Queue != "" && len(q.Where) == 0 && q.Class == "" && q.ID == "" && q.Ref == ""; r.plan.Verb == MoveTo && whole && slices.Contains(q.Places, Queued) {
		if cursor == "" || cursor == moving {
			if why, err = r.walkHead(ctx, q.Queue); why != "" || err != nil {
				return why, err
			}
			cursor = ""
		}
		if q.Places = slices.DeleteFunc(slices.Clone(q.Places), func(p Place) bool { return p == Queued }); len(q.Places) == 0 {
			return "", nil
		}
	}
	for {
		page, err := r.find(ctx, q, false, cursor)
		if err == nil {
			err = r.page(ctx, page, cursor)
		}
		if err != nil {
			return "", err
		}
		if why = r.brake.stops; why != "" || page.Next == "" {
			return why, nil
		}
		cursor = page.Next
	}
}

// walkHead moves the jobs of a queue from its head on: as many as there were when it began.
func (r *runner) walkHead(ctx context.Context, queue string) (why string, err error) {
	left, err := query(ctx, r.Inspector, func(s resque.Store, c redis.Conn) (int64, error) {
		return redis.Int64(c.Do("LLEN", s.KeyOfQueue(queue)))
	})
	for tries := 0; err == nil && left > 0; {
		var page Page
		if page, err = r.find(ctx, Query{Queue: queue, Places: []Place{Queued}}, true, ""); err != nil || len(page.Jobs) == 0 {
			break
		}
		if int64(len(page.Jobs)) > left { // what came since, or was refused before
			page.Jobs, page.Looked = page.Jobs[:left], int(left)
		}
		step := r.step
		switch err = r.page(ctx, page, moving); {
		case !errors.Is(err, errAgain):
			tries = 0
		case r.step != step: // the step was made
			tries, err = 0, nil
		default: // its jobs are still at the head
			if tries++; tries < stepTries {
				err = nil
			}
			continue
		}
		left -= int64(len(page.Jobs))
		if r.brake.stops != "" {
			return r.brake.stops, err
		}
	}
	return "", err
}

// find reads the next page: no more jobs than one step changes. It waits for the pace.
func (r *runner) find(ctx context.Context, q Query, ahead bool, cursor string) (page Page, err error) {
	if err := r.wait(ctx, cursor); err != nil {
		return page, err
	}
	size := r.size
	if r.plan.Pace > 0 && !r.undo {
		size = max(1, min(size, int(r.plan.Pace)))
	}
	err = r.again(ctx, func() error {
		page, err = r.walk(ctx, q, ahead, cursor, size)
		return err
	})
	if err == nil {
		err = r.kept(ctx, cursor)
	}
	return page, err
}

// again does something again that failed because Redis was away for a moment.
func (r *runner) again(ctx context.Context, do func() error) (err error) {
	for try := range stepTries {
		if try > 0 {
			if err := sleep(ctx, time.Duration(try)*200*time.Millisecond); err != nil {
				return err
			}
		}
		var away *operationError
		if err = do(); err == nil || refusedByRedis(err) || ctx.Err() != nil || errors.As(err, &away) {
			return err
		}
	}
	return err
}

// operationError is an error of the operation itself: that Redis was away is not its cause.
type operationError struct{ error }

func (e *operationError) Unwrap() error { return e.error }

func sleep(ctx context.Context, d time.Duration) error {
	t := clock.System.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-t.C():
		return nil
	}
}

// wait waits until the pace allows the next step, and keeps the lease meanwhile.
func (r *runner) wait(ctx context.Context, cursor string) error {
	for {
		left := r.next.Sub(clock.System.Now())
		if left <= 0 {
			return nil
		}
		if err := sleep(ctx, min(left, restAfter)); err != nil {
			return err
		}
		if err := r.kept(ctx, cursor); err != nil {
			return err
		}
	}
}

// kept renews the lease if the last step was long ago.
func (r *runner) kept(ctx context.Context, cursor string) error {
	if clock.System.Now().Sub(r.last) <= restAfter {
		return nil
	}
	return r.rest(ctx, cursor)
}

// rest renews the lease. If the answer is lost, the lease is still the runner's, and the next renewal or step extends it.
func (r *runner) rest(ctx context.Context, cursor string) error {
	_, err := r.make(ctx, operations.Rest, operations.Step{Cursor: cursor})
	if errors.Is(err, errAgain) {
		err = nil
	}
	return err
}

// keptBy is kept on a connection that the caller holds.
func (r *runner) keptBy(s resque.Store, c redis.Conn) error {
	if clock.System.Now().Sub(r.last) <= restAfter {
		return nil
	}
	_, err := operations.New(s).Do(c, operations.Rest, operations.Step{ID: r.id, Runner: r.runner, Number: r.step, Back: r.undo, Cursor: r.cursor})
	if err == nil {
		r.step, r.last = r.step+1, clock.System.Now()
	}
	return err
}

// make makes a step. One whose answer was lost was made, or is made again by the caller, who reads its jobs again.
func (r *runner) make(ctx context.Context, kind operations.Kind, step operations.Step) (out operations.Stepped, err error) {
	step.ID, step.Runner, step.Number, step.Back = r.id, r.runner, r.step, r.undo
	err = r.with(ctx, func(s operations.Store, c redis.Conn) error {
		out, err = s.Do(c, kind, step)
		return err
	})
	switch {
	case err == nil:
		r.step, r.last = r.step+1, clock.System.Now()
		return out, nil
	case errors.Is(err, operations.ErrLost), errors.Is(err, operations.ErrStopped):
		if _, why := r.read(ctx); errors.Is(why, operations.ErrNone) {
			err = why
		}
		return out, &operationError{err}
	case refusedByRedis(err) || ctx.Err() != nil:
		return out, err
	}
	away := err
	err = r.again(ctx, func() error {
		_, err := r.read(ctx)
		if errors.Is(err, operations.ErrLost) || errors.Is(err, operations.ErrStopped) || errors.Is(err, operations.ErrNone) {
			err = &operationError{err}
		}
		return err
	})
	if err != nil {
		return out, cmp.Or(err, away)
	}
	return out, errAgain
}

// errAgain says that it is unknown what a step did: its page is to be read again.
var errAgain = errors.New("redis was away")
