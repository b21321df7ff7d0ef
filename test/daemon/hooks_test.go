package daemon

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// hookRun runs three jobs, one of each kind of end, with hooks that report what they
// see, and returns that and the log's lines.
func hookRun(t *testing.T, more goworker.Hooks) (seen []string, lines []map[string]any) {
	t.Helper()
	s := redistest.Start(t)
	var log bytes.Buffer
	d := goworker.New(goworker.WorkerSettings{
		URI: s.URI(), QueuesString: "q", Concurrency: 1, ExitOnComplete: true,
		Logger: slog.New(slog.NewJSONHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	})
	defer d.Close()
	d.Register("Good", func(secret string) (int, error) { return 42, nil })
	d.Register("Bad", func() error { return errors.New("no luck") })
	d.AddHooks(more)
	d.AddHooks(goworker.Hooks{
		Start: func(ctx context.Context, d *goworker.Delivery) {
			if goworker.FromContext(ctx) != d {
				t.Error("the hook's context is not the job's")
			}
			seen = append(seen, "start "+d.Class)
		},
		Success: func(_ context.Context, d *goworker.Delivery) { seen = append(seen, "success "+d.Class); result(t, d) },
		Failure: func(_ context.Context, d *goworker.Delivery, err error) {
			seen = append(seen, "failure "+d.Class+": "+err.Error())
		},
		Shutdown: func() { seen = append(seen, "shutdown") },
	})
	for _, j := range []goworker.Payload{{Class: "Good", Args: []interface{}{"hunter2"}}, {Class: "Bad", Args: nil}, {Class: "Nobody", Args: nil}} {
		if err := d.Enqueue(&goworker.Job{Queue: "q", Payload: j}); err != nil {
			t.Fatal(err)
		}
	}
	if err := d.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(log.String(), "hunter2") {
		t.Error("the log holds an argument")
	}
	for line := range strings.Lines(log.String()) {
		var fields map[string]any
		if err := json.Unmarshal([]byte(line), &fields); err != nil {
			t.Fatal(err)
		}
		lines = append(lines, fields)
	}
	return seen, lines
}

func result(t *testing.T, d *goworker.Delivery) {
	t.Helper()
	if d.Result != 42 {
		t.Errorf("result %v, want 42", d.Result)
	}
}

func TestHooksSeeEveryJobAndTheEnd(t *testing.T) {
	t.Parallel()
	seen, _ := hookRun(t, goworker.Hooks{})
	want := []string{"start Good", "success Good", "start Bad", "failure Bad: no luck", "failure Nobody: ", "shutdown"}
	if !slices.EqualFunc(seen, want, strings.HasPrefix) {
		t.Errorf("seen %q, want %q", seen, want)
	}
}

// A hook that panics is logged; the other hooks, and the jobs, go on.
func TestPanickingHooksCostNothing(t *testing.T) {
	t.Parallel()
	seen, lines := hookRun(t, goworker.Hooks{
		Start:    func(context.Context, *goworker.Delivery) { panic("start") },
		Success:  func(context.Context, *goworker.Delivery) { panic("success") },
		Failure:  func(context.Context, *goworker.Delivery, error) { panic("failure") },
		Shutdown: func() { panic("shutdown") },
	})
	if len(seen) != 6 {
		t.Errorf("the other hooks saw %q", seen)
	}
	var panics []string
	for _, l := range lines {
		if l["msg"] == "a hook panicked" {
			panics = append(panics, l["panic"].(string))
		}
	}
	if got := strings.Join(panics, " "); got != "start success start failure failure shutdown" {
		t.Errorf("panics logged: %s", got)
	}
}

func TestJobLinesNameTheJob(t *testing.T) {
	t.Parallel()
	_, lines := hookRun(t, goworker.Hooks{})
	levels := map[string]string{}
	for _, l := range lines {
		if l["msg"] != "job done" && l["msg"] != "job failed" {
			continue
		}
		class, _ := l["class"].(string)
		levels[class] = l["level"].(string)
		for _, field := range []string{"queue", "duration", "worker"} {
			if l[field] == nil {
				t.Errorf("the line of %s has no %s: %v", class, field, l)
			}
		}
	}
	if levels["Good"] != "DEBUG" || levels["Bad"] != "ERROR" || levels["Nobody"] != "ERROR" {
		t.Errorf("levels %v", levels)
	}
}
