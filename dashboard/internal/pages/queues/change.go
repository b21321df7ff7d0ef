package queues

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/conn"
)

// changeable are the places of jobs that wait.
var changeable = []inspect.Place{inspect.Queued, inspect.InLane, inspect.Delayed}

// placesFor are the places that a form means: those of its tab, or all in which a job waits.
func placesFor(a *site.Ask) ([]inspect.Place, error) {
	in := a.Value("in")
	if in == "" {
		return changeable, nil
	}
	if places := placesOf(in); places != nil {
		return places, nil
	}
	return nil, site.Bad("in is %q; give queue, limits, running, delayed or failed", in)
}

// bulk changes the jobs that the form names, or all that fit.
func bulk(ctx context.Context, a *site.Ask, b site.Bulk, allowed ...inspect.Place) (site.Outcome, error) {
	places, err := placesFor(a)
	if err != nil {
		return site.Outcome{}, err
	}
	places = slices.DeleteFunc(slices.Clone(places), func(p inspect.Place) bool { return !slices.Contains(allowed, p) })
	if len(places) == 0 {
		return site.Outcome{}, site.Bad("jobs that are there cannot be %s", b.Done)
	}
	queue := a.Path("queue")
	b.Query = inspect.Query{Queue: queue, Places: places}
	b.Find = byKeys(a, queue, places)
	return a.Bulk(ctx, b)
}

func moveJobs(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	to := a.Value("to")
	switch {
	case to == "":
		return site.Outcome{}, site.Bad("name the queue to which the jobs go")
	case to == a.Path("queue"):
		return site.Outcome{}, site.Bad("the jobs are in %s already", shown(to))
	}
	if err := a.Permit("job.move", guard.Target{Queue: to}); err != nil {
		return site.Outcome{}, err
	}
	return bulk(ctx, a, site.Bulk{Verb: inspect.MoveTo, Doing: "Move to " + shown(to), Done: "moved to " + shown(to), Queue: to}, changeable...)
}

func delayJobs(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	at, err := until(a)
	if err != nil {
		return site.Outcome{}, err
	}
	if at.IsZero() {
		return site.Outcome{}, site.Bad("say for how long: for=10m, or until when: at=2026-11-22T08:00:00Z")
	}
	return bulk(ctx, a, site.Bulk{Verb: inspect.Delay, Doing: "Delay", Done: "delayed", At: at}, changeable...)
}

// until is the time that a form gives: in at, or as long from now as for says; zero: none.
func until(a *site.Ask) (time.Time, error) {
	if text := a.Value("at"); text != "" {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			return at, site.Bad("at is %q; give a time such as 2026-11-22T08:00:00Z", text)
		}
		return at, nil
	}
	d, err := a.Duration("for")
	if err != nil || d == 0 {
		return time.Time{}, err
	}
	return a.Now().Add(d), nil
}

// frontJobs makes jobs the next ones: those that wait go to the head of their queue, and delayed ones wait no longer.
func frontJobs(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	if a.Value("in") == "delayed" {
		return bulk(ctx, a, site.Bulk{Verb: inspect.Run, Doing: "Run now", Done: "put to the front", To: inspect.Head}, inspect.Delayed)
	}
	places, err := placesFor(a)
	if err != nil {
		return site.Outcome{}, err
	}
	ids := a.Values("ids")
	switch {
	case a.Flag("all"):
		return site.Outcome{}, site.Bad("all jobs cannot go to the front; select some")
	case len(ids) == 0:
		return site.Outcome{}, site.Bad("nothing was selected")
	case len(ids) > inspect.MaxPage:
		return site.Outcome{}, site.Bad("%d jobs were selected; select at most %d", len(ids), inspect.MaxPage)
	}
	jobs, err := byKeys(a, a.Path("queue"), places)(ctx, ids)
	if err != nil {
		return site.Outcome{}, err
	}
	n := 0
	if len(jobs) > 0 {
		if n, err = a.By().RunNow(ctx, inspect.Head, jobs...); err != nil && !errors.Is(err, inspect.ErrNoJob) {
			return site.Outcome{}, err
		}
	}
	out := site.Outcome{Done: int64(n), Missing: int64(len(ids) - n)}
	if out.Said = look.Plural(n, "job was", "jobs were") + " put to the front."; out.Missing > 0 {
		out.Said += " " + look.Plural(out.Missing, "job is", "jobs are") + " no longer there."
	}
	return out, nil
}

func removeJobs(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	return bulk(ctx, a, site.Bulk{Verb: inspect.Drop, Doing: "Remove", Done: "removed"}, changeable...)
}

func cancelJobs(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	return bulk(ctx, a, site.Bulk{Verb: inspect.Revoke, Doing: "Cancel", Done: "cancelled"}, append(slices.Clone(changeable), inspect.Running, inspect.Leased)...)
}

// argsOf reads arguments as they were typed: a list of JSON, whose numbers stay as they are.
func argsOf(text string) (list []json.RawMessage, err error) {
	if strings.TrimSpace(text) == "" {
		return []json.RawMessage{}, nil
	}
	if err := json.Unmarshal([]byte(text), &list); err != nil {
		return nil, site.Bad(`the arguments are no list of JSON such as [7, "ann"]: %w`, err)
	}
	if list == nil {
		list = []json.RawMessage{}
	}
	return list, nil
}

func anys(list []json.RawMessage) []any {
	all := make([]any, len(list))
	for n, one := range list {
		all[n] = one
	}
	return all
}

// addJob enqueues a job: at the tail, at the head, or for later.
func addJob(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	queue, class := cmp.Or(a.Path("queue"), a.Value("queue")), strings.TrimSpace(a.Value("class"))
	if queue == "" || class == "" {
		return site.Outcome{}, site.Bad("name the queue and the class of the job")
	}
	if err := a.Permit("job.add", guard.Target{Queue: queue, Class: class}); err != nil {
		return site.Outcome{}, err
	}
	list, err := argsOf(a.Value("args"))
	if err != nil {
		return site.Outcome{}, err
	}
	at, err := until(a)
	if err != nil {
		return site.Outcome{}, err
	}
	to := cmp.Or(a.Value("where"), string(inspect.Tail))
	if to != string(inspect.Tail) && to != string(inspect.Head) {
		return site.Outcome{}, site.Bad("where is %q; give head or tail", to)
	}
	var options []goworker.EnqueueOption
	if !at.IsZero() {
		options = append(options, goworker.ProcessAt(at))
	}
	receipt, err := a.Fleet.Client.Enqueue(ctx, goworker.NewJob(queue, class, anys(list)...), options...)
	if err = record(ctx, a, "Enqueue", fmt.Sprintf("job %s of queue %s", class, shown(queue)), err); err != nil {
		if ctx.Err() == nil && !conn.Away(err) && !conn.Refused(err) {
			err = site.Bad("%w", err) // the client says what is wrong with the job
		}
		return site.Outcome{}, err
	}
	out := site.Outcome{Done: 1, Said: fmt.Sprintf("A job %s waits at the end of the queue.", class)}
	if receipt.ID != "" {
		out.Data = map[string]string{"id": receipt.ID}
	}
	switch {
	case receipt.Duplicate != nil:
		return site.Outcome{Said: "Nothing was added: " + receipt.Duplicate.Error() + "."}, nil
	case !at.IsZero():
		out.Said = fmt.Sprintf("A job %s waits until %s.", class, at.In(a.Loc).Format("2 Jan 15:04:05"))
	case to == string(inspect.Head):
		if out.Said, err = ahead(ctx, a, queue, class, list); err != nil {
			return out, err
		}
	}
	return out, nil
}

// ahead brings the job that was just added from the tail of the queue to its head.
func ahead(ctx context.Context, a *site.Ask, queue, class string, list []json.RawMessage) (said string, err error) {
	newest, _, err := a.In().Peek(ctx, queue, 0, 50, true)
	if err != nil {
		return "", err
	}
	same := func(e inspect.Entry) bool {
		return e.Class == class && slices.EqualFunc(e.Args, list, func(x, y json.RawMessage) bool { return string(compact(x)) == string(compact(y)) })
	}
	if at := slices.IndexFunc(newest, same); at >= 0 {
		if n, err := a.By().RunNow(ctx, inspect.Head, newest[at]); err != nil && !errors.Is(err, inspect.ErrNoJob) {
			return "", err
		} else if n > 0 {
			return fmt.Sprintf("A job %s is the next one of the queue.", class), nil
		}
	}
	return fmt.Sprintf("A job %s was added. It is no longer at the end of the queue: a worker has it, or it waits for a limit.", class), nil
}

func compact(raw json.RawMessage) []byte {
	text, err := json.Marshal(raw)
	if err != nil {
		return raw
	}
	return text
}

// record writes a change of the client into the audit, as inspect does with its own.
func record(ctx context.Context, a *site.Ask, what, on string, done error) error {
	changed := int64(1)
	if done != nil {
		changed = 0
	}
	return a.By().Doors()[0].Record(ctx, what, on, changed, done)
}

// editJob gives a job another class, other arguments or another queue. What was masked and not touched stays as it is.
func editJob(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	queue, key := a.Path("queue"), a.Value("ids")
	if key == "" {
		return site.Outcome{}, site.Bad("name the job by its ref, in ids")
	}
	jobs, err := byKeys(a, queue, changeable)(ctx, []string{key})
	if err != nil {
		return site.Outcome{}, err
	}
	if len(jobs) == 0 {
		return site.Outcome{}, site.Missing("the job has left the queue %s, or was edited; nothing was changed", shown(queue))
	}
	job := jobs[0]
	if job.Invalid != nil {
		return site.Outcome{}, site.Bad("the payload is no job, so it cannot be edited")
	}
	edit := inspect.Edit{Class: strings.TrimSpace(a.Value("class")), Queue: a.Value("to")}
	if edit.Queue == queue {
		edit.Queue = ""
	}
	if edit.Class == job.Class {
		edit.Class = ""
	}
	for _, on := range []guard.Target{{Queue: queue, Class: job.Class, ID: job.ID}, {Queue: cmp.Or(edit.Queue, queue), Class: cmp.Or(edit.Class, job.Class), ID: job.ID}} {
		if err := a.Permit("job.edit", on); err != nil {
			return site.Outcome{}, err
		}
	}
	if a.Values("args") != nil {
		list, err := argsOf(a.Value("args"))
		if err != nil {
			return site.Outcome{}, err
		}
		if list, err = a.Masks.Restore(job.Class, job.Args, list); err != nil {
			return site.Outcome{}, site.Bad("%w", err)
		}
		edit.Args = anys(list)
	}
	if edit.Queue == "" && edit.Class == "" && edit.Args == nil {
		return site.Outcome{Said: "Nothing was changed."}, nil
	}
	edited, err := a.By().Edit(ctx, job, edit)
	if err != nil {
		return site.Outcome{}, err
	}
	return site.Outcome{
		Said: "The job was changed.", Done: 1, Data: map[string]string{"ref": edited.Ref, "queue": edited.Queue},
		To: below(a, a.URL("queues", edited.Queue, "job", "?ref", edited.Ref)),
	}, nil
}
