package failures

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goworker/goworker/dashboard/internal/guard"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/payload"
)

// Form is what the form to edit a job begins with.
type Form struct {
	Queue, Class, Args string
	Masked             bool // something in the arguments is masked
}

// mostForm is how long the arguments of a job may be that is edited in a page.
const mostForm = 256 << 10

// formOf is the form of a failure's job; nil: its arguments are too long for a page.
func formOf(a *site.Ask, f inspect.Failure) (*Form, error) {
	p, err := payload.Parse(f.Payload)
	if err != nil {
		return nil, err
	}
	plain, shown := whole(p.Args), whole(a.Masks.Args(p.Class, p.Args))
	if len(plain) > mostForm {
		return nil, nil
	}
	if seen, err := payload.Parse(a.Masks.Payload(f.Payload)); err == nil {
		if all := whole(seen.Args); all != shown { // more is masked in the job than in its arguments alone
			shown = all
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, []byte(shown), "", "  ") != nil {
		return nil, nil
	}
	return &Form{Queue: f.Queue, Class: p.Class, Args: b.String(), Masked: shown != plain}, nil
}

// edit runs the job of a failure in another form. What was masked and is not touched stays what it was.
func edit(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	f, err := find(ctx, a)
	if err != nil {
		return site.Outcome{}, err
	}
	if err := a.Permit("failure.edit", guard.Target{Queue: f.Queue, Class: f.Class, ID: f.ID}); err != nil {
		return site.Outcome{}, err
	}
	if err := sameTry(a, f); err != nil {
		return site.Outcome{}, err
	}
	p, err := payload.Parse(f.Payload)
	if err != nil {
		return site.Outcome{}, site.Changed(nil, "this failure has no job that could run: %w", err)
	}
	change, err := changed(a, f, p)
	if err != nil {
		return site.Outcome{}, err
	}
	queue := f.Queue
	if change.Queue != "" {
		queue = change.Queue
		if err := a.Permit("failure.edit", guard.Target{Queue: queue, Class: f.Class, ID: f.ID}); err != nil {
			return site.Outcome{}, site.Denied("you may not send jobs to the queue %s", queue)
		}
	}
	if a.Flag("dry_run") {
		return site.Outcome{Said: fmt.Sprintf("The job would go to the tail of queue %s.", queue)}, nil
	}
	job, err := a.By().Edit(ctx, a.In().FailedJobs(f)[0], change)
	if err != nil {
		return site.Outcome{}, changedMeanwhile(ctx, a, f, err)
	}
	noted(ctx, a, f.ID)
	out := site.Outcome{Said: fmt.Sprintf("The job waits at the tail of queue %s as %s, as you have edited it. The failure stays, marked as retried.", job.Queue, job.Class), Done: 1}
	if job.ID != "" {
		out.Data = map[string]string{"job_id": job.ID, "queue": job.Queue}
	}
	return out, nil
}

// changed reads what of the job is to change.
func changed(a *site.Ask, f inspect.Failure, p payload.Payload) (change inspect.Edit, err error) {
	if queue := strings.TrimSpace(a.Value("queue")); queue != "" && queue != f.Queue {
		change.Queue = queue
	}
	class := p.Class
	if c := strings.TrimSpace(a.Value("class")); c != "" && c != p.Class {
		class, change.Class = c, c
	}
	if text := strings.TrimSpace(a.Value("args")); text != "" {
		var args []json.RawMessage
		if err := json.Unmarshal([]byte(text), &args); err != nil {
			return change, site.Bad("the arguments are no JSON list: %w", err)
		}
		args, err := a.Masks.Restore(p.Class, p.Args, args)
		if err != nil {
			return change, site.Bad("%w", err)
		}
		if whole(args) != whole(p.Args) {
			change.Args = make([]any, len(args))
			for n, arg := range args {
				change.Args[n] = arg
			}
		}
	}
	if change.Queue == "" && change.Class == "" && change.Args == nil {
		change.Class = class // the job runs as it was
	}
	return change, nil
}
