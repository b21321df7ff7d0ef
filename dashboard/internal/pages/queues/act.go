package queues

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// Lasting is how long a pause may be, for the dialogs.
type Lasting struct{ Name, For string }

var lasting = []Lasting{{"until it is resumed", ""}, {"10 minutes", "10m"}, {"an hour", "1h"}, {"8 hours", "8h"}, {"a day", "1d"}}

// rubys says what a pause does not do.
const rubys = "Jobs that run go on. Ruby's workers do not know of it."

func forText(d time.Duration) string {
	if d > 0 {
		return "for " + look.Dur(d)
	}
	return "until you resume it"
}

func pause(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	d, err := a.Duration("for")
	if err != nil {
		return site.Outcome{}, err
	}
	queue := a.Path("queue")
	if err := a.By().PauseQueueFor(ctx, queue, d); err != nil {
		return site.Outcome{}, err
	}
	return site.Outcome{Said: fmt.Sprintf("Queue %s is paused %s. %s", shown(queue), forText(d), rubys), Done: 1}, nil
}

func resume(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	queue := a.Path("queue")
	if err := a.By().ResumeQueue(ctx, queue); err != nil {
		return site.Outcome{}, err
	}
	return site.Outcome{Said: fmt.Sprintf("Queue %s goes on.", shown(queue)), Done: 1}, nil
}

// each changes queues one by one, and says how many.
func each(names []string, change func(queue string) error) (out site.Outcome, err error) {
	for _, name := range names {
		if err := change(name); errors.Is(err, inspect.ErrUnknownQueue) {
			out.Missing++
		} else if err != nil {
			out.Refused = append(out.Refused, fmt.Sprintf("%s: %s", shown(name), err))
		} else {
			out.Done++
		}
	}
	if out.Done == 0 && len(out.Refused) > 0 {
		return out, errors.New(out.Refused[0])
	}
	return out, nil
}

// pauseAll pauses each queue. The key that Ruby's workers obey is not the dashboard's to set: it stops goworker's too, and nothing ends it.
func pauseAll(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	d, err := a.Duration("for")
	if err != nil {
		return site.Outcome{}, err
	}
	names, err := a.In().Queues(ctx)
	if err != nil {
		return site.Outcome{}, err
	}
	out, err := each(names, func(queue string) error { return a.By().PauseQueueFor(ctx, queue, d) })
	if err != nil {
		return out, err
	}
	out.Said = fmt.Sprintf("%s paused %s. %s To stop these too: SET %spause-all-workers true", look.Plural(out.Done, "queue is", "queues are"), forText(d), rubys, a.Base.Namespace)
	return out, nil
}

func resumeAll(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	names, err := a.In().PausedQueues(ctx)
	if err != nil {
		return site.Outcome{}, err
	}
	out, err := each(names, func(queue string) error { return a.By().ResumeQueue(ctx, queue) })
	if err != nil {
		return out, err
	}
	out.Said = fmt.Sprintf("%s on.", look.Plural(out.Done, "queue goes", "queues go"))
	return out, nil
}

// atOnce is how long an action waits for its operation to end. What takes longer goes on in the background.
const atOnce = 5 * time.Second

func clearQueue(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	out, done, err := empty(ctx, a, inspect.ClearQueue)
	if err == nil && done {
		out.Said = fmt.Sprintf("%s left the queue %s. The bin keeps them for a day.", look.Plural(out.Done, "job", "jobs"), shown(a.Path("queue")))
	}
	return out, err
}

func removeQueue(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	if queue := a.Path("queue"); !utf8.ValidString(queue) { // of such a name there can be no operation
		if err := confirmed(a, queue); err != nil {
			return site.Outcome{}, err
		}
		if err := a.By().RemoveQueue(ctx, queue); err != nil {
			return site.Outcome{}, err
		}
		return site.Outcome{Said: fmt.Sprintf("The queue %s is removed for good.", shown(queue)), Done: 1, To: "/queues"}, nil
	}
	out, done, err := empty(ctx, a, inspect.ForgetQueue)
	if err == nil && done {
		out.Said = fmt.Sprintf("The queue %s is removed, with %s. The bin keeps these for a day; the next job that is pushed brings the queue back.", shown(a.Path("queue")), look.Plural(out.Done, "job", "jobs"))
		out.To = "/queues"
	}
	return out, err
}

// confirmed returns an error unless the form has the word that confirms it.
func confirmed(a *site.Ask, queue string) error {
	if !a.JSON() && strings.TrimSpace(a.Value("confirm")) != word(queue) {
		return site.Bad("type %q to go on; nothing was changed", word(queue))
	}
	return nil
}

// empty puts the jobs of a queue into the bin. done: all of them are there.
func empty(ctx context.Context, a *site.Ask, verb inspect.Verb) (out site.Outcome, done bool, err error) {
	queue := a.Path("queue")
	if err := confirmed(a, queue); err != nil {
		return out, false, err
	}
	plan := inspect.Plan{Verb: verb, Query: inspect.Query{Queue: queue}}
	if a.Value("expect") != "" || a.Flag("dry_run") {
		n, err := a.By().Operations().Count(ctx, plan)
		if err != nil {
			return out, false, err
		}
		if a.Flag("dry_run") {
			return site.Outcome{Said: fmt.Sprintf("%s would leave the queue.", look.Plural(n.Jobs, "job", "jobs"))}, false, nil
		}
		seen, err := a.Number("expect")
		if err != nil {
			return out, false, err
		}
		if off := max(seen-n.Jobs, n.Jobs-seen); off > max(seen, n.Jobs)/10 {
			return out, false, site.Changed(n.Jobs, "%d jobs wait now, not %d; look again", n.Jobs, seen)
		}
		plan.Expected = n.Jobs
	}
	op, err := a.By().Operations().Start(ctx, plan)
	if err != nil {
		return out, false, err
	}
	began := time.Now()
	for now, err := range a.By().Operations().Run(ctx, op.ID) {
		if err != nil {
			return out, false, err
		}
		if op = now; time.Since(began) > atOnce {
			a.Fleet.RunOn(a.User.Name, op.ID)
			return site.Outcome{Said: "It goes on in the background.", Operation: op.ID, Undo: true, Status: 202, Data: op}, false, nil
		}
	}
	if op, err = a.By().Operations().Get(ctx, op.ID); err != nil {
		return out, false, err
	}
	return site.Outcome{Done: op.Done, Operation: op.ID, Undo: op.Done > 0}, true, nil
}
