package inspect_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// started starts a workflow: three members of class Part in queue q, and what follows them, the step sum of class Sum. The
// first member ends by the token <id>.0.SECRET.
func started(t *testing.T, server *redistest.Server, id string, change ...func(*workflows.Plan)) {
	t.Helper()
	const place = "1 - - - - n q"
	payload := func(n int, class, place string) string {
		return fmt.Sprintf(`{"class":%q,"args":[%d],"wf":%q,"id":"%s.%d"}`, class, n, place, id, n)
	}
	p := &workflows.Plan{
		ID: id, Name: "sums", Letters: []byte("ysswb"), Meta: []byte(`{"tenant":"acme"}`), Deadline: time.Hour,
		Fields: []any{
			"j0", "1 0 0 j 0 0 - - - -", "j1", "3 0 0 j 3 1 0 4 - -", "s3", "s n - 0 0 0 0 1:q" + payload(3, "Sum", "0 4 - - - 1 q"), "n:sum", "3",
			"k0", "SECRET 60000 " + place, "y0", "1800000000000", "outside", "1", "s0", "y n - 0 0 0 0 1:q" + payload(0, "Part", place), "result", "v 3",
		},
	}
	for n := range 3 {
		p.Jobs = append(p.Jobs, workflows.Job{Step: n, Queue: "q", Payload: []byte(payload(n, "Part", place))})
	}
	for _, f := range change {
		f(p)
	}
	if _, err := workflows.New(resque.New("")).Start(server.Dial(t), p); err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, i *inspect.Inspector, id string) string {
	t.Helper()
	w, err := i.Workflows().Get(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.State)
}

func TestWorkflowGet(t *testing.T) {
	i, server, _ := setup(t)
	started(t, server, "W")
	w, err := i.Workflows().Get(t.Context(), "W")
	if err != nil {
		t.Fatal(err)
	}
	if w.Began.IsZero() || w.Until.Sub(w.Began).Round(time.Second) != time.Hour {
		t.Errorf("times: %+v", w)
	}
	w.Began, w.Until = time.Time{}, time.Time{}
	want(t, "workflow", inspect.WorkflowInfo{
		ID: "W", Name: "sums", State: inspect.StateRunning, Meta: map[string]string{"tenant": "acme"}, Deadline: time.Hour,
		Counts: inspect.WorkflowCounts{Waiting: 1, Sent: 2, Outside: 1},
	}, w, nil)
	want(t, "steps", int64(4), w.Counts.Steps(), nil)
	for _, id := range []string{"", "nowhere"} {
		if _, err := i.Workflows().Get(t.Context(), id); err == nil || id != "" && !errors.Is(err, inspect.ErrNoWorkflow) || !strings.HasPrefix(err.Error(), "goworker: reading ") {
			t.Errorf("%q: %v", id, err)
		}
	}
}

// Operators end all steps, and the workflow is done with the result of the last.
func TestWorkflowMark(t *testing.T) {
	i, server, _ := setup(t)
	started(t, server, "W")
	w, ctx := i.By("ann", "by hand").Workflows(), t.Context()
	if err := w.MarkDone(ctx, "W", "sum", 1); !errors.Is(err, inspect.ErrStepWaits) {
		t.Errorf("one that waits: %v", err)
	}
	for _, step := range []string{"W.1", "2"} {
		if err := w.MarkDone(ctx, "W", step, 7); err != nil {
			t.Fatal(err)
		}
	}
	for _, wrong := range []string{"9", "nothing", "V.1", "4"} {
		if err := w.Skip(ctx, "W", wrong); !errors.Is(err, inspect.ErrNoStep) {
			t.Errorf("%s: %v", wrong, err)
		}
	}
	if err := w.MarkDone(ctx, "W", "1"); !errors.Is(err, inspect.ErrStepEnded) {
		t.Errorf("twice: %v", err)
	}
	want(t, "jobs that are not to run", []string{"j:W.1", "j:W.2"}, server.List(t, "ZRANGE", "resque:go:cancelled", 0, -1), nil)
	if err := w.Complete(ctx, "W.0.SECRE", 1); !errors.Is(err, inspect.ErrToken) || strings.Contains(err.Error(), "SECRE") {
		t.Errorf("a wrong token: %v", err)
	}
	for range 2 {
		if err := w.Complete(ctx, "W.0.SECRET", map[string]int{"n": 1}); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "the last one", 4, len(queue(t, server, "q")), nil)
	if err := w.MarkDone(ctx, "W", "sum", []int{1, 2}); err != nil {
		t.Fatal(err)
	}
	s, err := i.Status(ctx, "W")
	var result []int
	want(t, "status", inspect.StateDone, s.State, err)
	want(t, "result", nil, s.Decode(&result), nil)
	want(t, "result", []int{1, 2}, result, nil)
	if name, ok := s.Workflow(); !ok || name != "sums" {
		t.Errorf("%q, %v", name, ok)
	}
	info, err := w.Get(ctx, "W")
	want(t, "result", "[1,2]", string(info.Result), err)
	entries, err := i.Audit(ctx, 10)
	if err != nil {
		t.Fatal(err)
	}
	var said []string
	for _, e := range entries {
		said = append(said, e.What+" "+e.On)
	}
	slices.Reverse(said)
	want(t, "recorded", []string{"Workflows.MarkDone step W.1 of workflow W", "Workflows.MarkDone step 2 of workflow W",
		"Workflows.Complete step 0 of workflow W", "Workflows.MarkDone step sum of workflow W"}, said, nil)
}

// A failed step fails its workflow, and the error of its Status says how. Retry runs it again.
func TestWorkflowFailed(t *testing.T) {
	i, server, _ := setup(t)
	started(t, server, "W")
	w, ctx := i.Workflows(), t.Context()
	if err := w.Retry(ctx, "W"); !errors.Is(err, inspect.ErrNothingToRetry) {
		t.Errorf("nothing to retry: %v", err)
	}
	if err := w.CompleteError(ctx, "W.0.SECRET", "refused by Ann"); err != nil {
		t.Fatal(err)
	}
	s, err := i.Status(ctx, "W")
	var failed *inspect.WorkflowError
	if err != nil || !s.Over() || !errors.As(s.Err(), &failed) {
		t.Fatalf("%+v, %v", s, err)
	}
	want(t, "error", inspect.WorkflowError{ID: "W", Name: "sums", Step: 0, Class: "Part", Queue: "q", Exception: "ExternalError", Message: "refused by Ann",
		Attempt: 1, State: inspect.StateFailed}, *failed, nil)
	want(t, "text", "goworker: workflow W (sums) failed: step 0 of class Part in queue q failed: ExternalError: refused by Ann", failed.Error(), nil)
	var steps []inspect.StepInfo
	for step, err := range w.Steps(ctx, "W", inspect.StepFilter{State: inspect.StepFailed}) {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	if len(steps) != 1 || steps[0].ID != "W.0" || steps[0].Err.Message != "refused by Ann" || steps[0].Class != "Part" || string(steps[0].Args[0]) != "0" {
		t.Errorf("%+v", steps)
	}
	if err := w.Retry(ctx, "W"); err != nil {
		t.Fatal(err)
	}
	s, err = i.Status(ctx, "W")
	want(t, "status", inspect.StateRunning, s.State, err)
	if s.Over() || s.Err() != nil {
		t.Errorf("%+v", s)
	}
	want(t, "it is sent again", 4, len(queue(t, server, "q")), nil)
}

func TestWorkflowCancel(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	by := i.By("ann", "")
	for name, cancel := range map[string]func(id string) error{
		"W": func(id string) error { return by.Workflows().Cancel(ctx, id) },
		"V": func(id string) error { return by.Cancel(ctx, id) },
	} {
		started(t, server, name)
		for range 2 {
			if err := cancel(name); err != nil {
				t.Fatal(err)
			}
		}
		s, err := i.Status(ctx, name)
		if err != nil || !errors.Is(s.Err(), inspect.ErrCancelled) || s.Err().Error() != "goworker: workflow "+name+" (sums) was cancelled" {
			t.Errorf("%+v, %v", s, err)
		}
		server.Do(t, "HSET", "resque:go:wf:"+name, "state", "done")
	}
	if err := i.Cancel(ctx, "V"); !errors.Is(err, inspect.ErrJobEnded) || !errors.Is(err, inspect.ErrWorkflowEnded) {
		t.Errorf("a done one by its id: %v", err)
	}
	for what, change := range map[string]func(string) error{
		"cancel": func(id string) error { return i.Workflows().Cancel(ctx, id) }, "pause": func(id string) error { return i.Workflows().Pause(ctx, id) },
		"resume": func(id string) error { return i.Workflows().Resume(ctx, id) },
	} {
		if err := change("V"); !errors.Is(err, inspect.ErrWorkflowEnded) || !strings.Contains(err.Error(), "it is done") {
			t.Errorf("%s: %v", what, err)
		}
		if err := change("nowhere"); !errors.Is(err, inspect.ErrNoWorkflow) {
			t.Errorf("%s: %v", what, err)
		}
	}
	entries, err := i.Audit(ctx, 10)
	if err != nil || len(entries) != 2 {
		t.Errorf("recorded: %+v, %v", entries, err)
	}
}

func TestWorkflowPause(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	started(t, server, "W")
	paused := func() bool {
		w, err := i.Workflows().Get(ctx, "W")
		if err != nil {
			t.Fatal(err)
		}
		return w.Paused
	}
	for range 2 {
		want(t, "pause", nil, i.Workflows().Pause(ctx, "W"), nil)
		want(t, "paused", true, paused(), nil)
	}
	for range 2 {
		want(t, "resume", nil, i.Workflows().Resume(ctx, "W"), nil)
		want(t, "paused", false, paused(), nil)
	}
}

func TestWorkflowList(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	for n := range 30 {
		started(t, server, fmt.Sprintf("W%02d", n), func(p *workflows.Plan) {
			p.Name = []string{"", "import a", "import b"}[n%3]
			if n%2 == 0 {
				p.Meta = nil
			}
		})
	}
	document(t, server, "a job", "state", "done")
	c := server.Dial(t)
	store := workflows.New(resque.New(""))
	for n := range 10 {
		id := fmt.Sprintf("W%02d", n)
		for step := range 3 {
			if _, err := store.Mark(c, id, step, "1 - - - - n q", nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := store.Mark(c, id, 3, "0 4 - - - 1 q", []byte("1")); err != nil {
			t.Fatal(err)
		}
	}
	list := func(f inspect.WorkflowFilter) (ids []string) {
		t.Helper()
		for w, err := range i.Workflows().List(ctx, f) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, w.ID)
		}
		slices.Sort(ids)
		return ids
	}
	want(t, "indexed", 20, server.Int(t, "ZCARD", "resque:go:workflows"), nil)
	for _, tt := range []struct {
		f    inspect.WorkflowFilter
		want int
	}{
		{inspect.WorkflowFilter{}, 30},
		{inspect.WorkflowFilter{State: inspect.StateDone}, 10},
		{inspect.WorkflowFilter{State: inspect.StateRunning}, 20},
		{inspect.WorkflowFilter{State: inspect.StateFailed}, 0},
		{inspect.WorkflowFilter{Name: "import*"}, 20},
		{inspect.WorkflowFilter{Name: "import b"}, 10},
		{inspect.WorkflowFilter{Name: "import a", State: inspect.StateDone}, 3},
		{inspect.WorkflowFilter{Meta: map[string]string{"tenant": "acme"}}, 15},
		{inspect.WorkflowFilter{Meta: map[string]string{"tenant": ""}}, 0},
		{inspect.WorkflowFilter{Paused: true}, 0},
		{inspect.WorkflowFilter{Limit: 7}, 7},
	} {
		ids := list(tt.f)
		want(t, fmt.Sprintf("%+v", tt.f), tt.want, len(slices.Compact(ids)), nil)
	}
	for _, wrong := range []inspect.WorkflowFilter{{Limit: -1}, {Name: "["}} {
		n := 0
		for _, err := range i.Workflows().List(ctx, wrong) {
			if n++; err == nil {
				t.Errorf("%+v is no error", wrong)
			}
		}
		want(t, "answers", 1, n, nil)
	}
}

func TestWorkflowSteps(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	started(t, server, "W")
	if err := i.Workflows().MarkDone(ctx, "W", "1", "r"); err != nil {
		t.Fatal(err)
	}
	steps := func(f inspect.StepFilter) (said []string) {
		t.Helper()
		for s, err := range i.Workflows().Steps(ctx, "W", f) {
			if err != nil {
				t.Fatal(err)
			}
			said = append(said, strings.TrimSpace(fmt.Sprintf("%s %d %s %s %s %s %s", s.ID, s.Number, s.Name, s.Class, s.Queue, s.State, s.Result)))
		}
		return said
	}
	all := []string{"W.0 0  Part q outside", `W.1 1  Part q done "r"`, "W.2 2  Part q sent", "W.3 3 sum Sum q waiting"}
	want(t, "all", all, steps(inspect.StepFilter{}), nil)
	want(t, "some", all[:2], steps(inspect.StepFilter{Limit: 2}), nil)
	want(t, "of a class", all[3:], steps(inspect.StepFilter{Class: "Sum"}), nil)
	want(t, "of a state", all[2:3], steps(inspect.StepFilter{State: inspect.StepSent}), nil)
	for what, f := range map[string]inspect.StepFilter{"a state": {State: "odd"}, "a limit": {Limit: -1}} {
		for _, err := range i.Workflows().Steps(ctx, "W", f) {
			if err == nil {
				t.Errorf("%s is no error", what)
			}
		}
	}
	for _, err := range i.Workflows().Steps(ctx, "nowhere", inspect.StepFilter{}) {
		if !errors.Is(err, inspect.ErrNoWorkflow) {
			t.Error(err)
		}
	}
}

// Over shards the one that has the workflow answers, and one that is away is named.
func TestWorkflowShards(t *testing.T) {
	i, servers := sharded(t)
	ctx := t.Context()
	started(t, servers[1], "W")
	started(t, servers[2], "V")
	w := i.Workflows()
	want(t, "state", "running", state(t, i, "V"), nil)
	if err := w.CompleteError(ctx, "W.0.SECRET", "no"); err != nil {
		t.Fatal(err)
	}
	want(t, "failed", "failed", state(t, i, "W"), nil)
	want(t, "retry", nil, w.Retry(ctx, "W"), nil)
	if err := w.Complete(ctx, "X.0.SECRET", 1); !errors.Is(err, inspect.ErrNoWorkflow) && !errors.Is(err, inspect.ErrToken) {
		t.Errorf("an unknown token: %v", err)
	}
	n := 0
	for _, err := range w.List(ctx, inspect.WorkflowFilter{}) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	want(t, "listed", 2, n, nil)
	servers[0].Kill()
	want(t, "cancelled", nil, i.Cancel(ctx, "W"), nil)
	if err := w.Cancel(ctx, "nowhere"); !errors.Is(err, inspect.ErrNoWorkflow) || !strings.Contains(err.Error(), "redis://shard0") {
		t.Errorf("a shard that is away: %v", err)
	}
	if err := w.Pause(ctx, "W"); !errors.Is(err, inspect.ErrWorkflowEnded) {
		t.Errorf("the shard that has it: %v", err)
	}
}

// A key of another type is named, and ends no other question.
func TestWorkflowSpoiled(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	started(t, server, "W")
	server.Do(t, "SET", "resque:go:wf:V", "x")
	server.Do(t, "ZADD", "resque:go:workflows", 1, "V", 2, "gone")
	var listed []string
	for w, err := range i.Workflows().List(ctx, inspect.WorkflowFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, w.ID)
	}
	want(t, "listed", []string{"W"}, listed, nil)
	for what, ask := range map[string]func() error{
		"get":    func() error { _, err := i.Workflows().Get(ctx, "V"); return err },
		"cancel": func() error { return i.Workflows().Cancel(ctx, "V") },
		"skip":   func() error { return i.Workflows().Skip(ctx, "V", "1") },
		"retry":  func() error { return i.Workflows().Retry(ctx, "V") },
	} {
		if err := ask(); err == nil || !strings.Contains(err.Error(), "resque:go:wf:V is not a hash") {
			t.Errorf("%s: %v", what, err)
		}
	}
	server.Do(t, "SET", "resque:go:workflows", "x")
	for _, err := range i.Workflows().List(ctx, inspect.WorkflowFilter{State: inspect.StateRunning}) {
		if err == nil || !strings.Contains(err.Error(), "resque:go:workflows is not a sorted set") {
			t.Error(err)
		}
	}
}

// A workflow that has ended is removed with all its keys, and one that goes on is not.
func TestWorkflowForget(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	by := i.By("ann", "")
	started(t, server, "W")
	if err := by.Forget(ctx, "W"); !errors.Is(err, inspect.ErrWorkflowGoesOn) {
		t.Errorf("while it runs: %v", err)
	}
	if err := i.Workflows().Cancel(ctx, "W"); err != nil {
		t.Fatal(err)
	}
	if err := by.Workflows().Forget(ctx, "W"); !errors.Is(err, inspect.ErrWorkflowGoesOn) || !strings.Contains(err.Error(), "2 steps were sent") {
		t.Errorf("while its steps are queued: %v", err)
	}
	for _, id := range []string{"W", "V"} {
		if id == "V" {
			started(t, server, "V")
			if err := i.Workflows().Cancel(ctx, "V"); err != nil {
				t.Fatal(err)
			}
		}
		server.Do(t, "SET", "resque:go:wf-steps:"+id, "yxxwb")
		forget := map[string]func() error{"W": func() error { return by.Workflows().Forget(ctx, id) }, "V": func() error { return by.Forget(ctx, id) }}[id]
		want(t, "forget", nil, forget(), nil)
		if err := forget(); !errors.Is(err, inspect.ErrNoWorkflow) && !errors.Is(err, inspect.ErrNoResult) {
			t.Errorf("twice: %v", err)
		}
	}
	for _, key := range server.Keys(t) {
		if strings.Contains(key, "wf") || strings.Contains(key, "result") || strings.Contains(key, "go:workflows") {
			t.Errorf("%s is left", key)
		}
	}
	entries, err := i.Audit(ctx, 10)
	if err != nil || len(entries) != 2 {
		t.Errorf("recorded: %+v, %v", entries, err)
	}
}

// Resume sends lost steps again. What of the field stalled is no step is why the workflow stands still.
func TestWorkflowResumeStalled(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	started(t, server, "W")
	server.Do(t, "DEL", "resque:queue:q")
	server.Do(t, "HSET", "resque:go:wf:W", "stalled", "1+2 steps 1 and 2 are nowhere")
	w, err := i.Workflows().Get(ctx, "W")
	want(t, "why", "steps 1 and 2 are nowhere", w.Stalled, err)
	want(t, "lost", []int{1, 2}, w.Lost, nil)
	n := 0
	for _, err := range i.Workflows().List(ctx, inspect.WorkflowFilter{Stalled: true}) {
		if n++; err != nil {
			t.Error(err)
		}
	}
	want(t, "listed", 1, n, nil)
	want(t, "resume", nil, i.Workflows().Resume(ctx, "W"), nil)
	want(t, "sent again", 2, len(queue(t, server, "q")), nil)
	w, err = i.Workflows().Get(ctx, "W")
	want(t, "why", "", w.Stalled, err)
}
