package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// seeking is how long an action looks for its job.
const seeking = 5 * time.Second

// copyKept is how long the result of a copy is kept.
const copyKept = 24 * time.Hour

// locate finds the job of an action, and asks whether the user may do that to it. A form also says what the job was when it was seen: an
// action then does nothing to another one.
func locate(ctx context.Context, a *site.Ask, action string) (*found, error) {
	f, err := find(ctx, a, a.Path("id"), mark{queue: a.Value("at_queue"), place: a.Value("at_place"), ref: a.Value("ref")}, "", seeking)
	if err != nil {
		return nil, err
	}
	if f.status != nil && f.status.OfWorkflow || f.none(a) {
		return nil, f.missing(a)
	}
	return f, a.Permit(action, guard.Target{Queue: f.queue(), Class: f.class(), ID: f.id})
}

// lying is locate for a job that has to lie in one of several places.
func lying(ctx context.Context, a *site.Ask, action string, places ...inspect.Place) (inspect.Entry, error) {
	f, err := locate(ctx, a, action)
	if err != nil {
		return inspect.Entry{}, err
	}
	if f.entry == nil {
		return inspect.Entry{}, site.Changed("gone", "the job is no longer where it was seen; look again")
	}
	for _, p := range places {
		if f.entry.Place == p {
			return *f.entry, nil
		}
	}
	return inspect.Entry{}, site.Changed(f.entry.Place, "the job is %s now, so this cannot be done; look again", f.entry.Place)
}

func done(format string, args ...any) (site.Outcome, error) {
	return site.Outcome{Said: fmt.Sprintf(format, args...), Done: 1}, nil
}

func run(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	e, err := lying(ctx, a, "job.run", inspect.Delayed, inspect.Queued, inspect.InLane)
	if err != nil {
		return site.Outcome{}, err
	}
	if _, err := a.By().RunNow(ctx, inspect.Head, e); err != nil {
		return site.Outcome{}, err
	}
	return done("The job is the next one of queue %s.", e.Queue)
}

func retry(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	e, err := lying(ctx, a, "job.retry", inspect.Failed)
	if err != nil {
		return site.Outcome{}, err
	}
	if _, err := a.By().Failures().RetryID(ctx, e.Failure.ID); err != nil {
		return site.Outcome{}, err
	}
	return done("The job is in queue %s again.", e.Queue)
}

func reschedule(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	at, err := timeOf(a)
	if err != nil {
		return site.Outcome{}, err
	}
	e, err := lying(ctx, a, "job.reschedule", inspect.Delayed, inspect.Queued, inspect.InLane)
	if err != nil {
		return site.Outcome{}, err
	}
	op, err := a.By().Operations().Start(ctx, inspect.Plan{Verb: inspect.Delay, Jobs: []inspect.Entry{e}, At: at})
	switch {
	case err != nil:
		return site.Outcome{}, err
	case op.Done == 0:
		return site.Outcome{}, inspect.ErrNoJob
	}
	return site.Outcome{Said: fmt.Sprintf("The job runs in %s.", look.Dur(at.Sub(a.Now()).Round(time.Second))), Done: 1, Operation: op.ID, Undo: true}, nil
}

// timeOf is the time of a form: in a while, or at a time of the reader's zone.
func timeOf(a *site.Ask) (time.Time, error) {
	if text := strings.TrimSpace(a.Value("at")); text != "" {
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04:05", "2006-01-02T15:04"} {
			if at, err := time.ParseInLocation(layout, text, a.Loc); err == nil {
				return at, nil
			}
		}
		return time.Time{}, site.Bad("at %q is no time; write it as 2026-11-22T08:00", text)
	}
	d, err := a.Duration("in")
	if err == nil && d == 0 {
		err = site.Bad("give a time: in 10m, or at 2026-11-22T08:00")
	}
	return a.Now().Add(d), err
}

func cancel(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	f, err := locate(ctx, a, "job.cancel")
	if err != nil {
		return site.Outcome{}, err
	}
	if e := f.entry; e != nil && e.ID == "" {
		if e.Place != inspect.Running {
			return site.Outcome{}, site.Changed(e.Place, "the job has no id, so it can be cancelled only while it runs; remove it from queue %s", e.Queue)
		}
		err = a.By().CancelRunning(ctx, e.Process, e.Ticket)
	} else {
		err = a.By().Cancel(ctx, a.Path("id"))
	}
	if err != nil {
		return site.Outcome{}, err
	}
	return done("The job is cancelled. One that runs ends within a second, if its handler obeys.")
}

func lift(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	if _, err := locate(ctx, a, "job.lift"); err != nil {
		return site.Outcome{}, err
	}
	if err := a.By().Lift(ctx, a.Path("id")); err != nil {
		return site.Outcome{}, err
	}
	return done("The job is no longer cancelled: it runs when its turn comes.")
}

func forget(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	f, err := locate(ctx, a, "job.forget")
	switch {
	case err != nil:
		return site.Outcome{}, err
	case f.status == nil:
		return site.Outcome{}, inspect.ErrNoResult
	}
	if err := a.By().Forget(ctx, a.Path("id")); err != nil {
		return site.Outcome{}, err
	}
	out, err := done("What was known about job %s is removed.", f.id)
	out.To = "/jobs"
	return out, err
}

// again enqueues a copy of a job with the arguments that Redis still knows.
func again(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	f, err := locate(ctx, a, "job.again")
	switch {
	case err != nil:
		return site.Outcome{}, err
	case f.entry == nil || f.entry.Invalid != nil:
		return site.Outcome{}, site.Changed("gone", "Redis no longer knows the arguments of the job: one that is done leaves its result only")
	}
	e := f.entry
	receipt, err := a.Fleet.Client.Enqueue(ctx, &goworker.Job{Queue: e.Queue, Payload: goworker.Payload{Class: e.Class, Args: anyOf(e.Args)}}, goworker.WithResult(copyKept))
	var duplicate *goworker.DuplicateError
	switch {
	case errors.As(err, &duplicate):
		return site.Outcome{}, site.Changed(duplicate.Holder, "%w", err)
	case err != nil:
		return site.Outcome{}, err
	}
	if err := a.By().Noted(ctx, "Enqueue", fmt.Sprintf("job %s in queue %s, a copy of %s", receipt.ID, e.Queue, f.id), 1, nil); err != nil {
		return site.Outcome{}, err
	}
	out, err := done("A copy of the job is in queue %s, with the id %s. Its result is kept for a day.", e.Queue, receipt.ID)
	out.To, out.Data = strings.TrimPrefix(a.URL("jobs", receipt.ID), strings.TrimSuffix(a.URL(), "/")), map[string]string{"id": receipt.ID}
	return out, err
}

func anyOf(args []json.RawMessage) []any {
	all := make([]any, len(args))
	for n, arg := range args {
		all[n] = arg
	}
	return all
}

func edit(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	e, err := lying(ctx, a, "job.edit-run", inspect.Delayed, inspect.Queued, inspect.InLane, inspect.Failed)
	if err != nil {
		return site.Outcome{}, err
	}
	change := inspect.Edit{Queue: strings.TrimSpace(a.Value("queue")), Class: strings.TrimSpace(a.Value("class"))}
	if change.Queue != "" && !a.Sees(change.Queue) {
		return site.Outcome{}, site.Missing("there is no queue %q for you", change.Queue)
	}
	if text := a.Value("args"); strings.TrimSpace(text) != "" {
		var edited []json.RawMessage
		if err := json.Unmarshal([]byte(text), &edited); err != nil {
			return site.Outcome{}, site.Bad("the arguments are to be a list in JSON, as [1, \"a\"]: %w", err)
		}
		args, err := a.Masks.Restore(e.Class, e.Args, edited)
		if err != nil {
			var wrong *mask.EditError
			if errors.As(err, &wrong) {
				return site.Outcome{}, site.Bad("%w", err)
			}
			return site.Outcome{}, site.Bad("the arguments cannot be used: %w", err)
		}
		change.Args = anyOf(args)
	}
	edited, err := a.By().Edit(ctx, e, change)
	if err != nil {
		return site.Outcome{}, err
	}
	switch edited.Place {
	case inspect.Delayed:
		if _, err := a.By().RunNow(ctx, inspect.Head, edited); err != nil {
			return site.Outcome{}, fmt.Errorf("the job was edited, and stays delayed: %w", err)
		}
		return done("The edited job is the next one of queue %s.", edited.Queue)
	case inspect.Queued:
		if e.Place == inspect.Failed {
			return done("The edited job is in queue %s. The record of its failure keeps the old form.", edited.Queue)
		}
	}
	return done("The job was edited. It waits in queue %s.", edited.Queue)
}
