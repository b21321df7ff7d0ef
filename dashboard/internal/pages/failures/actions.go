package failures

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/inspect/groups"
)

// page is the address of a failure's page below the prefix. Its id has no character that a path must hide.
func page(id string) string { return "/failures/" + id }

// noted tells the index that failures were retried.
func noted(ctx context.Context, a *site.Ask, ids ...string) {
	if x, _, err := index(ctx, a); err == nil { // else a later look finds out
		x.Retried(ids...)
	}
}

// permitted finds the failure of an action, and asks whether the user may do it.
func permitted(ctx context.Context, a *site.Ask, action string) (inspect.Failure, error) {
	f, err := find(ctx, a)
	if err != nil {
		return f, err
	}
	return f, a.Permit(action, guard.Target{Queue: f.Queue, Class: f.Class, ID: f.ID})
}

// retry puts the job of one failure back into its queue, unless that was done before.
func retry(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	f, err := permitted(ctx, a, "failure.retry")
	if err != nil {
		return site.Outcome{}, err
	}
	if f.RetriedAt != "" {
		return already(a, f)
	}
	if a.Flag("dry_run") {
		return site.Outcome{Said: fmt.Sprintf("The job would go to the tail of queue %s.", f.Queue)}, nil
	}
	said := fmt.Sprintf("The job waits at the tail of queue %s again.", f.Queue)
	op, err := a.By().Operations().Start(ctx, inspect.Plan{Verb: inspect.Retry, Jobs: a.In().FailedJobs(f)})
	switch {
	case full(err): // without a way back then
		if _, err = a.By().Failures().RetryID(ctx, f.ID); err != nil {
			return refusal(ctx, a, f, err)
		}
		noted(ctx, a, f.ID)
		return site.Outcome{Said: said + " Two operations run, so it cannot be taken back.", Done: 1}, nil
	case err != nil:
		return site.Outcome{}, err
	case op.Done == 0:
		return refusal(ctx, a, f, refusalOf(op))
	}
	noted(ctx, a, f.ID)
	return site.Outcome{Said: said, Done: 1, Operation: op.ID, Undo: true}, nil
}

// refusalOf is why an operation did nothing with its only failure.
func refusalOf(op inspect.Operation) error {
	if op.Refused == 0 || op.Refusal == inspect.RefusalGone {
		return inspect.ErrNoFailure
	}
	return site.Changed(nil, "nothing was done: %s", op.Refusal)
}

// refusal looks why a failure could not be retried: another user was faster, or it has gone.
func refusal(ctx context.Context, a *site.Ask, f inspect.Failure, err error) (site.Outcome, error) {
	if errors.Is(err, inspect.ErrRetried) || errors.Is(err, inspect.ErrNoFailure) {
		switch now, gone := find(ctx, a); {
		case gone != nil:
			return site.Outcome{}, gone
		case now.RetriedAt != "":
			noted(ctx, a, f.ID)
			return already(a, now)
		}
	}
	return site.Outcome{}, err
}

// already says that a failure was retried before. Nothing was done.
func already(a *site.Ask, f inspect.Failure) (site.Outcome, error) {
	if a.JSON() {
		return site.Outcome{}, fmt.Errorf("%w, at %s; failures/%s/again runs its job once more", inspect.ErrRetried, f.RetriedAt, f.ID)
	}
	return site.Outcome{Said: fmt.Sprintf("It was retried before, at %s, so nothing was done. If the job is to run once more, press Run once more.", f.RetriedAt), To: page(f.ID)}, nil
}

// sameTry returns an error if the failure was retried since the user saw it.
func sameTry(a *site.Ask, f inspect.Failure) error {
	if f.RetriedAt != a.Value("retried_at") {
		return site.Changed(f.RetriedAt, "it was retried at %s, after this page was made; look again", cmp.Or(f.RetriedAt, "another time"))
	}
	return nil
}

// again runs the job of a failure that was retried before once more.
func again(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	f, err := permitted(ctx, a, "failure.again")
	if err != nil {
		return site.Outcome{}, err
	}
	if err := sameTry(a, f); err != nil {
		return site.Outcome{}, err
	}
	if a.Flag("dry_run") {
		return site.Outcome{Said: fmt.Sprintf("The job would go to the tail of queue %s once more.", f.Queue)}, nil
	}
	if err := a.By().Failures().Retry(ctx, f); err != nil {
		return site.Outcome{}, changedMeanwhile(ctx, a, f, err)
	}
	noted(ctx, a, f.ID)
	return site.Outcome{Said: fmt.Sprintf("The job waits at the tail of queue %s once more.", f.Queue), Done: 1, To: page(f.ID)}, nil
}

// changedMeanwhile explains why a record was not where it was read: it has gone, or was retried.
func changedMeanwhile(ctx context.Context, a *site.Ask, f inspect.Failure, err error) error {
	if errors.Is(err, inspect.ErrNoFailure) || errors.Is(err, inspect.ErrNoJob) {
		now, gone := find(ctx, a)
		if gone != nil {
			return gone
		}
		if now.RetriedAt != f.RetriedAt {
			return site.Changed(now.RetriedAt, "it was retried at %s, while you pressed the button; look again", now.RetriedAt)
		}
	}
	return err
}

// remove puts the record of one failure into the bin.
func remove(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	f, err := permitted(ctx, a, "failure.remove")
	if err != nil {
		return site.Outcome{}, err
	}
	if a.Flag("dry_run") {
		return site.Outcome{Said: "The failure would be removed."}, nil
	}
	op, err := a.By().Operations().Start(ctx, inspect.Plan{Verb: inspect.Drop, Jobs: a.In().FailedJobs(f)})
	if err != nil {
		return site.Outcome{}, err
	}
	if op.Done == 0 {
		return site.Outcome{}, changedMeanwhile(ctx, a, f, refusalOf(op))
	}
	out := site.Outcome{Said: "The failure was removed. It is in the bin for a day.", Done: 1, Operation: op.ID, Undo: true}
	if a.Value("back") == page(f.ID) || a.Value("back") == "" {
		out.To = "/failures"
	}
	return out, nil
}

// chosen returns the failures with these ids, as the form has them.
func chosen(a *site.Ask) func(ctx context.Context, ids []string) ([]inspect.Entry, error) {
	return func(ctx context.Context, ids []string) ([]inspect.Entry, error) {
		x, _, err := index(ctx, a)
		if err != nil {
			return nil, err
		}
		found, err := x.Find(ctx, ids...)
		return a.In().FailedJobs(found...), err
	}
}

// failed are all failures that fit further conditions.
func failed(where ...inspect.Condition) inspect.Query {
	return inspect.Query{Places: []inspect.Place{inspect.Failed}, Where: where}
}

var unretried = inspect.Condition{Name: "retried", Not: true}

func retryMany(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	out, err := a.Bulk(ctx, site.Bulk{Verb: inspect.Retry, Doing: "Retry", Done: "retried", Query: failed(unretried), Find: chosen(a)})
	if err == nil && out.Done > 0 {
		noted(ctx, a, a.Values("ids")...)
	}
	return out, err
}

func removeMany(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	return a.Bulk(ctx, site.Bulk{Verb: inspect.Drop, Doing: "Remove", Done: "removed", Query: failed(), Find: chosen(a)})
}

// ofGroup are the failures of the page's group, of one queue if the form names it.
func ofGroup(ctx context.Context, a *site.Ask, action string, where ...inspect.Condition) (inspect.Query, error) {
	gid := a.Path("gid")
	x, _, err := index(ctx, a)
	if err != nil {
		return inspect.Query{}, err
	}
	g, found := groupBy(x, gid, seen(a))
	switch {
	case gid == groups.Others:
		return inspect.Query{}, site.Bad("these failures are of many kinds, for which there was no room; choose them by a search")
	case !found:
		return inspect.Query{}, site.Missing("there is no group %s of failures: all of them were removed, or it never was", gid)
	}
	queue := a.Value("queue")
	if queue == "" && !a.User.Whole() && len(g.Queues) == 1 {
		queue = g.Queues[0].Queue
	}
	if err := a.Permit(action, guard.Target{Queue: queue, Class: g.Class}); err != nil {
		return inspect.Query{}, err
	}
	q := failed(append(where, inspect.Condition{Name: "group", Value: gid})...)
	if queue != "" {
		q.Where = append(q.Where, inspect.Condition{Name: "queue", Value: queue, Literal: true})
	}
	return q, nil
}

func retryGroup(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	q, err := ofGroup(ctx, a, "failure.retry", unretried)
	if err != nil {
		return site.Outcome{}, err
	}
	return a.Bulk(ctx, site.Bulk{Verb: inspect.Retry, Doing: "Retry", Done: "retried", Query: q, All: true})
}

func removeGroup(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	q, err := ofGroup(ctx, a, "failure.remove")
	if err != nil {
		return site.Outcome{}, err
	}
	return a.Bulk(ctx, site.Bulk{Verb: inspect.Drop, Doing: "Remove", Done: "removed", Query: q, All: true})
}
