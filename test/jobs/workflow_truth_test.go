package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// failing are steps of class Alert, Report and Sum for what follows, and those of class Bad, which fail always.
func failing(t *testing.T) *office {
	t.Helper()
	o := newOffice(t)
	o.handle("Bad", func(context.Context) error { return errors.New("out of luck") })
	o.handle("Give", func(context.Context) error { return goworker.Discard(errors.New("not today")) })
	return o
}

func alert(about string) *goworker.Job  { return goworker.NewJob("work", "Alert", about) }
func report(about string) *goworker.Job { return goworker.NewJob("work", "Report", about) }

// Behaviour 7: a member that fails for good calls the error handler with what happened, once. What waits for the group is not
// sent, on complete is, and the workflow says which step failed.
func TestWorkflowMemberFails(t *testing.T) {
	t.Parallel()
	o := failing(t)
	o.Start()
	id := o.begin(goworker.Chain(
		goworker.Group(task("Part", 1), task("Bad", 2), task("Bad", 3)).OnError(alert("group")),
		task("Sum"),
	).OnComplete(report("all")))
	o.state(id, goworker.StateFailed)
	o.Eventually("on complete comes", func() bool { return len(o.ran("Report")) == 1 && len(o.ran("Alert")) == 1 })
	_, err := goworker.Await[int](t.Context(), o.client, id)
	var why *goworker.WorkflowError
	if !errors.As(err, &why) || why.Class != "Bad" || why.Message != "out of luck" {
		t.Errorf("%+v", err)
	}
	var about string
	var said goworker.StepFailure
	if err := json.Unmarshal([]byte(o.ran("Alert")[0]), &[]any{&about, &said}); err != nil {
		t.Fatal(err, o.ran("Alert"))
	}
	if want := (goworker.StepFailure{
		Step: said.Step, ID: fmt.Sprintf("%s.%d", id, said.Step), Class: "Bad", Queue: "work", Exception: said.Exception, Error: "out of luck",
		Attempt: 1, State: "failed",
	}); said != want || said.Step == 0 || said.Exception == "" {
		t.Errorf("the handler of %s was given %+v, want %+v", about, said, want)
	}
	failed := 0
	for s, err := range o.client.Workflows().Steps(t.Context(), id, goworker.StepFilter{State: goworker.StepFailed}) {
		if failed++; err != nil || s.Class != "Bad" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if got := o.ran("Sum"); failed != 2 || len(got) > 0 {
		t.Errorf("%d failed, and the callback ran with %q", failed, got)
	}
}

// Behaviours 9 and 10: with Collect the callback gets results and errors, with Ignore results and null. A step that failed inside
// a chain inside a group keeps nothing waiting but what needs it.
func TestWorkflowBearsFailures(t *testing.T) {
	t.Parallel()
	o := failing(t)
	o.Start()
	three := func() *goworker.Node { return goworker.Group(task("Part", 1), task("Bad", 2), task("Part", 3)) }
	for _, test := range []struct {
		name  string
		group *goworker.Node
		want  string
	}{
		{"collect", three().Collect(), `[[{"result":7},{"error":…},{"result":7}]]`},
		{"ignore", three().Ignore(), `[[7,null,7]]`},
		{"ignore a member", goworker.Group(task("Part", 1), task("Bad", 2).Ignore(), task("Part", 3)), `[[7,null,7]]`},
		{"nested", goworker.Group(
			goworker.Chain(task("Part"), goworker.Group(task("Part"), goworker.Chain(task("Bad"), task("Fetch"))), task("Fetch")), task("Part"),
		).Collect(), `[[{"error":…},{"result":7}]]`},
	} {
		sums := len(o.ran("Sum"))
		id := o.begin(goworker.Chord(test.group, task("Sum")))
		o.state(id, goworker.StateDone)
		got := o.ran("Sum")
		if len(got) != sums+1 {
			t.Fatalf("%s: the callback ran %d times", test.name, len(got)-sums)
		}
		text := got[sums]
		if from, to := strings.Index(text, `"error":{`), strings.Index(text, `}}`); from >= 0 && to > from {
			if !strings.Contains(text[from:to], `"error":"out of luck"`) {
				t.Errorf("%s: %s", test.name, text)
			}
			text = text[:from] + `"error":…` + text[to+1:]
		}
		if text != test.want {
			t.Errorf("%s: the callback got %s, want %s", test.name, text, test.want)
		}
	}
	if ran := o.ran("Fetch"); len(ran) > 0 {
		t.Errorf("behind the failed step ran %q", ran)
	}
}

// Behaviour 11: discarded and expired members count as failed, and are not filed.
func TestWorkflowMembersThatDoNotFinish(t *testing.T) {
	t.Parallel()
	o := failing(t)
	late := goworker.Step(goworker.NewJob("work", "Part", 2), daemontest.Past())
	id := o.begin(goworker.Chord(goworker.Group(task("Give", 1), late, task("Part", 3)).Collect(), task("Sum")))
	o.Start()
	o.state(id, goworker.StateDone)
	got := o.ran("Sum")
	if len(got) != 1 || strings.Count(got[0], `"error":{"step"`) != 2 || !strings.Contains(got[0], `"discarded"`) || !strings.Contains(got[0], `"expired"`) {
		t.Errorf("the callback got %q", got)
	}
	if ran := o.ran("Part"); len(ran) != 1 || len(o.Failures()) != 0 {
		t.Errorf("%q ran, %v were filed", ran, o.Failures())
	}
}

// Behaviour 17: the callback's queue holds another program's text. The last member stays in the record of its process, other jobs
// end, and the log says so once. Mended, the callback comes, once.
func TestWorkflowQueueOfAnotherProgram(t *testing.T) {
	t.Parallel()
	o := failing(t)
	o.Redis.Do(t, "SET", "resque:queue:next", "another program's")
	callback := goworker.Step(goworker.NewJob("next", "Sum"))
	id := o.begin(goworker.Chord(goworker.Group(task("Part", 1), task("Part", 2)), callback))
	o.Start()
	o.Eventually("the members ran", func() bool { return len(o.ran("Part")) == 2 })
	other := o.begin(task("Fetch", "a"))
	o.state(other, goworker.StateDone)
	o.Renewed(2)
	if info := o.info(id); info.State != goworker.StateRunning || info.Counts.Done != 1 {
		t.Errorf("the workflow is %+v", info)
	}
	if n := o.Log.Count("resque:queue:next"); n != 1 {
		t.Errorf("the log names the key %d times", n)
	}
	o.Redis.Do(t, "DEL", "resque:queue:next")
	o.Eventually("the callback is sent", func() bool { return o.Redis.Int(t, "LLEN", "resque:queue:next") == 1 })
	o.Redis.Do(t, "RENAME", "resque:queue:next", "resque:queue:work")
	o.state(id, goworker.StateDone)
	if got := o.ran("Sum"); len(got) != 1 || got[0] != "[[7,7]]" || len(o.ran("Part")) != 2 {
		t.Errorf("the callback got %q, and %d members ran", got, len(o.ran("Part")))
	}
}

// Behaviour 22: a workflow expires at its deadline. Its error handler is called once, its running step is stopped, and Retry gives it
// the same time again.
func TestWorkflowExpires(t *testing.T) {
	t.Parallel()
	daemontest.Punctually(t, func() error { return expires(t) })
}

func expires(t *testing.T) error {
	o := failing(t)
	gate := make(chan struct{})
	var began atomic.Bool
	o.handle("Slow", func(ctx context.Context) error {
		began.Store(true)
		select {
		case <-gate:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	o.Start()
	id := o.begin(goworker.Chain(task("Slow"), task("Sum")).OnError(alert("late")).OnComplete(report("all")), goworker.Deadline(700*time.Millisecond))
	o.state(id, goworker.StateExpired)
	if !began.Load() {
		return errors.New("it expired before its first step began")
	}
	o.Eventually("handlers are called", func() bool { return len(o.ran("Alert")) == 1 && len(o.ran("Report")) == 1 })
	if said := o.ran("Alert")[0]; !strings.Contains(said, `"state":"expired"`) {
		t.Errorf("it was given %s", said)
	}
	o.Eventually("the step is not run", func() bool { return o.info(id).Counts.NotRun == 1 })
	close(gate)
	o.Redis.Do(t, "HSET", "resque:go:wf:"+id, "deadline", time.Minute.Milliseconds()) // a busy machine may need more
	at := time.Now()
	o.must(o.client.Workflows().Retry(t.Context(), id))
	until, err := redis.Int64(o.Redis.Do(t, "HGET", "resque:go:wf:"+id, "until"), nil)
	if left := time.UnixMilli(until).Sub(at); err != nil || left < time.Minute-time.Second || left > time.Minute+daemontest.Late {
		t.Errorf("it has %v left, %v", left, err)
	}
	o.state(id, goworker.StateDone)
	if got := o.ran("Sum"); len(got) != 1 || got[0] != "[7]" {
		t.Errorf("the callback got %q", got)
	}
	return nil
}

// Behaviour 24: a paused workflow sends nothing. Resumed, it ends.
func TestWorkflowPauses(t *testing.T) {
	t.Parallel()
	o := failing(t)
	id := o.begin(goworker.Chain(goworker.Group(task("Part", 1), task("Part", 2)), task("Sum")))
	o.must(o.client.Workflows().Pause(t.Context(), id))
	o.Start()
	o.Eventually("the members ran", func() bool { return o.info(id).Counts.Done == 2 })
	other := o.begin(goworker.Chain(task("Fetch", "a"), task("Fetch", "b")))
	o.state(other, goworker.StateDone)
	if got := o.ran("Sum"); len(got) > 0 || o.info(id).State != goworker.StateRunning {
		t.Errorf("a paused workflow ran %q", got)
	}
	o.must(o.client.Workflows().Resume(t.Context(), id))
	o.state(id, goworker.StateDone)
	if got := o.ran("Sum"); len(got) != 1 || got[0] != "[[7,7]]" {
		t.Errorf("the callback got %q", got)
	}
}
