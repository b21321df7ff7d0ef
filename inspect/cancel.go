package inspect

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// ErrUnknownJob is returned for a job that is nowhere: no job has the id, the process does not have the
// ticket, or the job that is to be lifted is not cancelled.
var ErrUnknownJob = prefix.New("no such job is known")

// ErrJobEnded is returned for a job that cannot be cancelled because it has ended. The error says how.
var ErrJobEnded = prefix.New("the job has ended")

// CancelOption is an option of Cancel: Force.
type CancelOption func(*cancelOptions)

type cancelOptions struct{ force bool }

// Force has Cancel look for nothing: the id counts as cancelled for 7 days, also if there is no such job
// yet. It is for jobs that no search finds, such as one that another program holds. The error of a job that
// has a document and has ended stays.
func Force() CancelOption { return func(o *cancelOptions) { o.force = true } }

// mostSought is about how many jobs Cancel looks at to find one without a document.
const mostSought = 1_000_000

// Cancel cancels the job with an id, wherever it is. One that waits ends when a worker takes it: it does not
// run, is not filed as failed, and gives back what it holds. The context of one that runs, in any process,
// ends within a second with the cause ErrCancelled, and what its handler then returns is dropped. A job that
// a worker takes in the milliseconds before its process hears of the cancel counts as running. The job
// stays cancelled if its process dies. A handler that returns nil all the same was done.
//
// A job that was enqueued without a result is searched for as Find does, which may take a second for each
// million jobs. Of more than about a million jobs Cancel gives up. The id is that of the
// payload, or the job id of an ActiveJob.
//
// The id of a workflow cancels the workflow; see Workflows.Cancel.
//
// The error is ErrUnknownJob if the job is nowhere, and ErrJobEnded if it has ended or failed.
// Then nothing was cancelled. A job that was cancelled before is no error.
//
// Over shards it asks all of them at the same time. A shard that does not answer is an error, unless
// another one has the job.
func (i *Inspector) Cancel(ctx context.Context, id string, opts ...CancelOption) error {
	var o cancelOptions
	for _, opt := range opts {
		if opt != nil {
			opt(&o)
		}
	}
	return i.byID(id, "cancelling", func(one *Inspector) error {
		if there, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) { return workflows.New(s).Exists(c, id) }); err != nil {
			return err
		} else if there {
			changed, err := one.halt(ctx, id)
			if errors.Is(err, ErrWorkflowEnded) {
				err = fmt.Errorf("%w: it is a workflow, and %w", ErrJobEnded, err)
			}
			return one.record(ctx, "Cancel", "workflow "+id, changed, err)
		}
		changed, err := one.cancel(ctx, id, o.force)
		return one.record(ctx, "Cancel", "job "+id, once(changed), err)
	})
}

// Lift takes the cancel of a job back that has not ended: it runs when its turn comes. It is too late for
// a job that runs, whose context has ended. The error is ErrUnknownJob if the job is not cancelled.
func (i *Inspector) Lift(ctx context.Context, id string) error {
	return i.byID(id, "lifting the cancel of", func(one *Inspector) error {
		lifted, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) { return s.LiftCancel(c, id) })
		if err == nil && !lifted {
			err = fmt.Errorf("%w: it is not cancelled, or has ended", ErrUnknownJob)
		}
		return one.record(ctx, "Lift", "job "+id, once(lifted), err)
	})
}

// CancelRunning is Cancel of the job that a process has under a ticket, for jobs without an id: Entry has
// both. If the process dies, the reaper drops the job in place of giving it back.
//
// The error is ErrUnknownJob if the process does not have the ticket.
func (i *Inspector) CancelRunning(ctx context.Context, process string, ticket int64) error {
	name := fmt.Sprintf("%d of process %s", ticket, process)
	return i.byID(name, "cancelling ticket", func(one *Inspector) error {
		there, err := query(ctx, one, func(s resque.Store, c redis.Conn) (bool, error) { return s.CancelTicket(c, process, ticket) })
		if err == nil && !there {
			err = fmt.Errorf("%w: the process does not have it any more", ErrUnknownJob)
		}
		return one.record(ctx, "CancelRunning", "ticket "+name, once(there), err)
	})
}

// byID changes one job on all shards at the same time. The change was made if it was on one.
func (i *Inspector) byID(name, doing string, change func(one *Inspector) error) error {
	if err := i.usable(); err != nil {
		return err
	}
	if name == "" {
		return prefix.Errorf("%s a job: it has no id; give it one", doing)
	}
	all := i.all()
	errs := make([]error, len(all))
	var wg sync.WaitGroup
	for n, one := range all {
		wg.Go(func() { errs[n] = change(one) })
	}
	wg.Wait()
	return mergeByID(i, name, doing, errs)
}

// mergeByID returns the error about one job, of the errors of all shards: none if one shard has made the
// change. Else what the shard says that knows the job. Else that all lack it, or that some do not answer.
func mergeByID(i *Inspector, name, doing string, errs []error) error {
	var ended, away, unknown []error
	for n, err := range errs {
		switch {
		case err == nil:
			return nil
		case errors.Is(err, ErrJobEnded):
			ended = append(ended, err)
		case errors.Is(err, ErrUnknownJob):
			unknown = append(unknown, err)
		case i.several():
			away = append(away, i.shards[n].about(err))
		default:
			away = append(away, err)
		}
	}
	switch {
	case len(ended) > 0:
		return &jobError{doing, name, ended[0]}
	case len(away) > 0 && len(unknown) > 0:
		return &jobError{doing, name, errors.Join(append(away, unknown[0])...)}
	case len(away) > 0:
		return &jobError{doing, name, errors.Join(away...)}
	}
	return &jobError{doing, name, unknown[0]}
}

// cancel cancels a job on one Redis. The entry comes first and the search behind it, so that no worker takes
// the job in between. changed says that the entry stays.
func (i *Inspector) cancel(ctx context.Context, id string, force bool) (changed bool, err error) {
	found, err := query(ctx, i, func(s resque.Store, c redis.Conn) (resque.Cancelled, error) { return s.Cancel(c, id) })
	switch {
	case err != nil:
		return false, err
	case found.Over:
		return false, fmt.Errorf("%w: %s", ErrJobEnded, found.State)
	case found.Known, found.State != "", force:
		return !found.Known, nil
	}
	why := i.seek(ctx, id)
	if why == nil {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), recordWithin)
	defer cancel()
	there, err := query(ctx, i, func(s resque.Store, c redis.Conn) (bool, error) { return s.ForgetCancel(c, id) })
	if err != nil {
		return true, fmt.Errorf("%w; and it stays cancelled, unless Lift is called: %w", why, err)
	}
	if !there { // the job has taken it along: it ended meanwhile
		return true, nil
	}
	return false, why
}

// seek looks for a job, and keeps its cancel for as long as the job may wait. It returns why it did not
// find it.
func (i *Inspector) seek(ctx context.Context, id string) error {
	looked, refused := 0, []error(nil)
	for after := ""; ; {
		page, err := i.Find(ctx, Query{ID: id, inner: true}, after, 1)
		if err != nil {
			return err
		}
		if len(page.Jobs) > 0 {
			return i.keep(ctx, page.Jobs[0], id)
		}
		refused = append(refused, page.Refused...)
		looked += page.Looked
		switch after = page.Next; {
		case after == "":
			return errors.Join(append(refused, fmt.Errorf("%w: no job waits or runs under this id; force the cancel if the job is still to come", ErrUnknownJob))...)
		case looked >= mostSought:
			return fmt.Errorf("%w: it is not among the first %d jobs, and there are more; force the cancel to make it without a search", ErrUnknownJob, looked)
		}
	}
}

// keep keeps the cancel of the job that was found until that is due. Of a failed one there is none.
func (i *Inspector) keep(ctx context.Context, job Entry, id string) error {
	switch job.Place {
	case Failed:
		return fmt.Errorf("%w: it has failed; remove or retry its record", ErrJobEnded)
	case Delayed:
		return i.do(ctx, func(s resque.Store, c redis.Conn) error { return s.KeepCancelled(c, id, job.At.Add(time.Second)) })
	}
	return nil
}
