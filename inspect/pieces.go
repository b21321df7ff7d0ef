package inspect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/goworker/goworker/internal/prefix"
)

// Done is what one step of a change of many jobs did.
type Done struct {
	Looked  int    // jobs that were looked at
	Changed int    // jobs that were changed: at most 500
	Next    string // where the next step begins; "" only if there are no more

	// Refused says which keys Redis refused to read, because they have another type, and which jobs
	// could not be changed, and why.
	Refused []error
}

// RemoveWhere removes jobs that match, for good: at most 500. Call it again with the Next that it
// returned, until that is "". A query that names no queue, class, id or ref, and has no
// other condition about what the jobs are, is refused. Without Places
// it concerns delayed, queued and laned jobs; failed ones only if Places names them, running ones never.
//
// Each job is removed in one step with what belongs to it. Jobs that a worker takes meanwhile do not
// count. A step that an error ends has done a part. Go on from the Next of that step, which passes over
// no job. Over shards, one that does not answer is left out; the error names it.
func (i *Inspector) RemoveWhere(ctx context.Context, q Query, after string) (Done, error) {
	return i.where(ctx, "RemoveWhere", q, after, removal, func(Entry) bool { return true })
}

// MoveWhere is RemoveWhere for Move: it moves jobs that match to another queue.
func (i *Inspector) MoveWhere(ctx context.Context, q Query, queue, after string) (Done, error) {
	a, err := i.movement(queue)
	if err != nil {
		return Done{}, err
	}
	return i.where(ctx, "MoveWhere", q, after, a, func(e Entry) bool { return e.Queue != queue && unretried(e) })
}

// RunWhere is RemoveWhere for RunNow: it puts jobs that match to an end of their queues, delayed ones
// and, if Places names them, those in lanes and failed ones that have not been retried.
func (i *Inspector) RunWhere(ctx context.Context, q Query, to End, after string) (Done, error) {
	a, err := running(to)
	if err != nil {
		return Done{}, err
	}
	if q.Places == nil {
		q.Places = []Place{Delayed}
	}
	if slices.Contains(q.Places, Queued) {
		return Done{}, errors.New("goworker: RunWhere is for jobs that are delayed, in lanes or failed; those in queues run anyway, RunNow puts one to an end")
	}
	return i.where(ctx, "RunWhere", q, after, a, unretried)
}

// unretried reports whether the job has not failed, or has failed and was not retried since.
func unretried(e Entry) bool { return e.Failure == nil || e.Failure.RetriedAt == "" }

// where changes the jobs of one page.
func (i *Inspector) where(ctx context.Context, name string, q Query, after string, a action, wanted func(Entry) bool) (Done, error) {
	if err := i.usable(); err != nil {
		return Done{}, err
	}
	if !q.narrow() {
		return Done{}, fmt.Errorf("goworker: %s would change the jobs of all queues; set the query's Queue, Class, ID or Ref, or a condition about what the jobs are", name)
	}
	if q.Places == nil {
		q.Places = []Place{Delayed, Queued, InLane}
	}
	if slices.Contains(q.Places, Running) || slices.Contains(q.Places, Leased) {
		return Done{}, fmt.Errorf("goworker: %s cannot change running jobs; leave Running and Leased out of the query's Places", name)
	}
	page, err := i.Find(ctx, q, after, MaxPage)
	done := Done{Looked: page.Looked, Next: page.Next, Refused: page.Refused}
	a.name = name
	there, failed := i.act(ctx, a, slices.DeleteFunc(page.Jobs, func(e Entry) bool { return !wanted(e) }))
	done.Changed, _ = counted(there, nil)
	var fatal []error
	for _, one := range joined(failed) {
		var of *jobError
		switch {
		case errors.As(one, &of) && errors.Is(one, ErrNoJob): // a worker was faster
		case errors.As(one, &of):
			done.Refused = append(done.Refused, one)
		default:
			fatal = append(fatal, one)
		}
	}
	if len(fatal) > 0 { // jobs of this page may be unchanged, so the next step is this one again
		done.Next = cmp.Or(after, cursor{Question: q.question(false)}.String())
	}
	return done, errors.Join(append(fatal, err)...)
}

// joined are the errors that errors.Join joined.
func joined(err error) []error {
	if all, ok := err.(interface{ Unwrap() []error }); ok {
		return all.Unwrap()
	} else if err == nil {
		return nil
	}
	return []error{err}
}

// jobError is why one job was not changed.
type jobError struct {
	doing string
	job   string
	err   error
}

func (e *jobError) Error() string { return prefix.Errorf("%s %s: %w", e.doing, e.job, e.err).Error() }
func (e *jobError) Unwrap() error { return e.err }
