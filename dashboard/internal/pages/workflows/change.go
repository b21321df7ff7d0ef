package workflows

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
)

// change makes a change of the workflow of the path, if the user sees it.
func change(ctx context.Context, a *site.Ask, said string, do func(w *inspect.Workflows, id string) error) (site.Outcome, error) {
	id := a.Path("id")
	if err := found(ctx, a, id); err != nil {
		return site.Outcome{}, err
	}
	if err := do(a.By().Workflows(), id); err != nil {
		return site.Outcome{}, gone(err)
	}
	a.Fleet.Forget("workflow graph " + id)
	return site.Outcome{Said: fmt.Sprintf(said, id), Done: 1}, nil
}

func retry(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	return change(ctx, a, "What failed of workflow %s, and what was not run, is sent again.", func(w *inspect.Workflows, id string) error { return w.Retry(ctx, id) })
}

func pause(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	return change(ctx, a, "Workflow %s is paused: steps that were sent run, and nothing more is sent.", func(w *inspect.Workflows, id string) error { return w.Pause(ctx, id) })
}

func resume(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	return change(ctx, a, "Workflow %s goes on.", func(w *inspect.Workflows, id string) error { return w.Resume(ctx, id) })
}

func cancel(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	return change(ctx, a, "Workflow %s is cancelled: nothing more of it runs. A retry takes that back.", func(w *inspect.Workflows, id string) error { return w.Cancel(ctx, id) })
}

func forget(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	if a.Value("confirm") != a.Path("id") {
		return site.Outcome{}, site.Bad("type the id of the workflow to forget it: confirm is %q", a.Value("confirm"))
	}
	out, err := change(ctx, a, "Workflow %s and all that was known of it is gone.", func(w *inspect.Workflows, id string) error { return w.Forget(ctx, id) })
	out.To = "/workflows"
	return out, err
}

// stepNamed is the step that a form means: its id, its name or its number.
func stepNamed(a *site.Ask) (string, error) {
	step := strings.TrimSpace(a.Value("step"))
	if step == "" {
		return "", site.Bad("name the step: its number, its name or its id")
	}
	return step, nil
}

func skip(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	step, err := stepNamed(a)
	if err != nil {
		return site.Outcome{}, err
	}
	return change(ctx, a, "Step "+escaped(step)+" of workflow %s counts as done, with null as its result.", func(w *inspect.Workflows, id string) error { return w.Skip(ctx, id, step) })
}

// markDone takes a step as done. The field result is JSON; without it what follows gets no result.
func markDone(ctx context.Context, a *site.Ask) (site.Outcome, error) {
	step, err := stepNamed(a)
	if err != nil {
		return site.Outcome{}, err
	}
	var result []any
	if text := strings.TrimSpace(a.Value("result")); text != "" {
		if !json.Valid([]byte(text)) {
			return site.Outcome{}, site.Bad("result is no JSON; a text stands in quotes")
		}
		result = append(result, json.RawMessage(text))
	}
	return change(ctx, a, "Step "+escaped(step)+" of workflow %s counts as done.", func(w *inspect.Workflows, id string) error { return w.MarkDone(ctx, id, step, result...) })
}

// escaped is a text within a format.
func escaped(text string) string { return strings.ReplaceAll(text, "%", "%%") }
