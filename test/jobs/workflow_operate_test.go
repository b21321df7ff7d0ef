package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// office is a daemon with classes of steps, and a client that is no daemon.
type office struct {
	*daemontest.Bundle
	client *goworker.Client

	mu    sync.Mutex
	calls map[string][]string // arguments by class
	broke atomic.Bool         // Part, Fetch and Sum fail while it is set
	token chan string
}

func newOffice(t *testing.T, change ...func(*goworker.WorkerSettings)) *office {
	t.Helper()
	b := daemontest.Setup(t, change...)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI(), Logger: daemontest.Quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	o := &office{Bundle: b, client: client, calls: make(map[string][]string), token: make(chan string, 1)}
	for _, class := range []string{"Part", "Fetch", "Sum"} {
		o.handle(class, func(context.Context) error {
			if o.broke.Load() {
				return errors.New("out of paper")
			}
			return nil
		})
	}
	for _, class := range []string{"Alert", "Report"} {
		o.handle(class, func(context.Context) error { return nil })
	}
	b.Daemon.Register("Ask", func(_ context.Context, _ string, token string) { o.token <- token })
	return o
}

// handle registers a class whose result is 7.
func (o *office) handle(class string, run func(ctx context.Context) error) {
	o.Daemon.Register(class, func(ctx context.Context, all ...json.RawMessage) (int, error) {
		text, _ := json.Marshal(all)
		o.mu.Lock()
		o.calls[class] = append(o.calls[class], string(text))
		o.mu.Unlock()
		return 7, run(ctx)
	})
}

func (o *office) ran(class string) []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]string(nil), o.calls[class]...)
}

func task(class string, args ...any) *goworker.Node {
	return goworker.Step(goworker.NewJob("work", class, args...))
}

func (o *office) begin(n *goworker.Node, opts ...goworker.WorkflowOption) string {
	o.T.Helper()
	r, err := o.client.Start(o.T.Context(), n, opts...)
	if err != nil {
		o.T.Fatal(err)
	}
	return r.ID
}

func (o *office) info(id string) goworker.WorkflowInfo {
	o.T.Helper()
	w, err := o.client.Workflows().Get(o.T.Context(), id)
	if err != nil {
		o.T.Fatal(err)
	}
	return w
}

func (o *office) must(err error) {
	o.T.Helper()
	if err != nil {
		o.T.Fatal(err)
	}
}

// state waits until a workflow has a state.
func (o *office) state(id string, want goworker.JobState) {
	o.T.Helper()
	o.Eventually(fmt.Sprintf("workflow %s is %s", id, want), func() bool { return o.info(id).State == want })
}

// A failed step fails its workflow, Await says how, and Retry runs it again with the arguments that it had.
func TestWorkflowRetry(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.broke.Store(true)
	o.Start()
	id := o.begin(goworker.Chain(task("Fetch", "a"), task("Sum", 1)).OnError(goworker.NewJob("work", "Alert", "ann")), goworker.WorkflowName("sums"))
	_, err := goworker.Await[int](t.Context(), o.client, id)
	var failed *goworker.WorkflowError
	if !errors.As(err, &failed) || failed.Class != "Fetch" || failed.Message != "out of paper" || failed.Name != "sums" || failed.ID != id {
		t.Fatalf("%+v", err)
	}
	o.Eventually("the handler is called", func() bool { return len(o.ran("Alert")) == 1 })
	if said := o.ran("Alert")[0]; !strings.Contains(said, `"ann",{"step":0`) || !strings.Contains(said, "out of paper") {
		t.Errorf("it was given %s", said)
	}
	o.broke.Store(false)
	o.must(o.client.Workflows().Retry(t.Context(), id))
	sum, err := goworker.Await[int](t.Context(), o.client, id)
	o.must(err)
	if got := o.ran("Sum"); sum != 7 || len(got) != 1 || got[0] != "[1,7]" {
		t.Errorf("%d, %v", sum, got)
	}
	if err := o.client.Workflows().Retry(t.Context(), id); !errors.Is(err, goworker.ErrNothingToRetry) {
		t.Errorf("of a done one: %v", err)
	}
}

// A failure that is retried by its id, and succeeds, lets the workflow go on.
func TestWorkflowGoesOnAfterFailureRetry(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.broke.Store(true)
	o.Start()
	id := o.begin(goworker.Chord(goworker.Group(task("Part", 1), task("Fetch", 2)), task("Sum")))
	o.Eventually("both have failed", func() bool { return len(o.Failures()) == 2 })
	o.state(id, goworker.StateFailed)
	o.broke.Store(false)
	n, err := o.client.Inspect().Failures().RetryAll(t.Context())
	if err != nil || n != 2 {
		t.Fatal(n, err)
	}
	sum, err := goworker.Await[int](t.Context(), o.client, id)
	for errors.As(err, new(*goworker.WorkflowError)) { // it has failed until both have ended
		sum, err = goworker.Await[int](t.Context(), o.client, id)
	}
	if got := o.ran("Sum"); err != nil || sum != 7 || len(got) != 1 || got[0] != "[[7,7]]" {
		t.Errorf("%d, %v, %v", sum, err, got)
	}
}

// An operator takes steps as done, with a result or without.
func TestWorkflowMarkDone(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.broke.Store(true)
	o.Start()
	id := o.begin(goworker.Chain(goworker.Group(task("Part", 1), task("Part", 2)), goworker.Step(goworker.NewJob("work", "Sum"), goworker.Named("sum"))))
	o.Eventually("both have failed", func() bool { return o.info(id).Counts.Failed == 2 })
	if err := o.client.Workflows().MarkDone(t.Context(), id, "sum"); !errors.Is(err, goworker.ErrStepWaits) {
		t.Errorf("one that waits: %v", err)
	}
	o.broke.Store(false)
	o.must(o.client.Workflows().MarkDone(t.Context(), id, "0", "by hand"))
	o.must(o.client.Workflows().Skip(t.Context(), id, "1"))
	_, err := goworker.Await[int](t.Context(), o.client, id)
	if got := o.ran("Sum"); err != nil || len(got) != 1 || got[0] != `[["by hand",null]]` {
		t.Errorf("%v, %v", err, got)
	}
	for s, err := range o.client.Workflows().Steps(t.Context(), id, goworker.StepFilter{}) {
		if err != nil || s.State != goworker.StepDone {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// members is a sequence of steps of class Part.
func members(n int) iter.Seq2[goworker.Item, error] {
	return func(yield func(goworker.Item, error) bool) {
		for i := range n {
			if !yield(goworker.Item{Job: goworker.NewJob("work", "Part", i)}, nil) {
				return
			}
		}
	}
}

// Of a cancelled workflow with thousands of queued members none starts, each is not run, and what waits for all is sent.
// Retry runs them all.
func TestWorkflowCancelThousands(t *testing.T) {
	t.Parallel()
	const n = 2500
	o := newOffice(t)
	id := o.begin(goworker.Chain(goworker.GroupSeq(members(n)).OnComplete(goworker.NewJob("work", "Report")), task("Sum")))
	o.must(o.client.Cancel(t.Context(), id))
	if _, err := goworker.Await[int](t.Context(), o.client, id); !errors.Is(err, goworker.ErrCancelled) {
		t.Errorf("Await: %v", err)
	}
	o.Start()
	o.Reaches("steps that are not run", n, func() int { return int(o.info(id).Counts.NotRun) })
	o.Eventually("on complete comes", func() bool { return len(o.ran("Report")) == 1 })
	if ran, failed := len(o.ran("Part")), len(o.Failures()); ran != 0 || failed != 0 {
		t.Errorf("%d members ran, %d failed", ran, failed)
	}
	if err := o.client.Cancel(t.Context(), id); err != nil {
		t.Errorf("cancelling it again: %v", err)
	}
	o.must(o.client.Workflows().Retry(t.Context(), id))
	sum, err := goworker.Await[int](t.Context(), o.client, id)
	o.must(err)
	if sum != 7 || len(o.ran("Part")) != n || len(o.ran("Sum")) != 1 {
		t.Errorf("%d, %d members ran, %d sums", sum, len(o.ran("Part")), len(o.ran("Sum")))
	}
}

// The context of a running step of a cancelled workflow ends, and what its handler returns is no failure.
func TestWorkflowCancelRunning(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	begun, ended := make(chan string, 1), make(chan error, 1)
	o.Daemon.Register("Long", func(ctx context.Context) error {
		begun <- goworker.FromContext(ctx).ID
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return ctx.Err()
	})
	o.Start()
	id := o.begin(goworker.Chain(task("Long"), task("Sum")))
	<-begun
	o.must(o.client.Workflows().Cancel(t.Context(), id))
	if cause := <-ended; !errors.Is(cause, goworker.ErrCancelled) {
		t.Errorf("its context ended with %v", cause)
	}
	o.Eventually("it was not run", func() bool { return o.info(id).Counts.NotRun == 1 })
	if len(o.Failures()) != 0 || len(o.ran("Sum")) != 0 {
		t.Errorf("%v, %v", o.Failures(), o.ran("Sum"))
	}
}

// A step that is marked while its job waits or runs does not run on, and its end changes nothing.
func TestWorkflowMarkRunning(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	begun, ended := make(chan struct{}), make(chan struct{})
	o.Daemon.Register("Long", func(ctx context.Context) error {
		close(begun)
		<-ctx.Done()
		close(ended)
		return ctx.Err()
	})
	o.Start()
	id := o.begin(goworker.Chain(task("Long"), task("Sum", 1)))
	<-begun
	o.must(o.client.Workflows().MarkDone(t.Context(), id, "0", 9))
	<-ended
	_, err := goworker.Await[int](t.Context(), o.client, id)
	if got := o.ran("Sum"); err != nil || len(got) != 1 || got[0] != "[1,9]" || len(o.Failures()) != 0 {
		t.Errorf("%v, %v, %v", err, got, o.Failures())
	}
}

// A step that others run ends by its token: by a call, or by a job of any program.
func TestWorkflowExternal(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.Start()
	approve := func() (id, token string) {
		t.Helper()
		id = o.begin(goworker.Chain(goworker.Step(goworker.NewJob("work", "Ask", "ann"), goworker.External(time.Hour)), task("Sum", 1)))
		return id, <-o.token
	}
	reply := func(args ...any) {
		t.Helper()
		text, err := json.Marshal(args)
		o.must(err)
		o.Push(fmt.Sprintf(`{"class":"goworker.Complete","args":%s}`, text))
	}

	id, token := approve()
	if counts := o.info(id).Counts; counts.Outside != 1 {
		t.Errorf("%+v", counts)
	}
	o.must(o.client.Complete(t.Context(), token, map[string]bool{"approved": true}))
	_, err := goworker.Await[int](t.Context(), o.client, id)
	if got := o.ran("Sum"); err != nil || len(got) != 1 || got[0] != `[1,{"approved":true}]` {
		t.Errorf("by a call: %v, %v", err, got)
	}

	id, token = approve()
	reply(token, 5)
	_, err = goworker.Await[int](t.Context(), o.client, id)
	processed := o.Stat("processed")
	reply(token, 6) // a second one changes nothing
	o.Eventually("the second reply has ended", func() bool { return o.Stat("processed") > processed && len(o.Queue("work")) == 0 })
	if got := o.ran("Sum"); err != nil || len(got) != 2 || got[1] != "[1,5]" {
		t.Errorf("by a job: %v, %v", err, got)
	}

	id, token = approve()
	reply(token, nil, "Ann said no")
	_, err = goworker.Await[int](t.Context(), o.client, id)
	var failed *goworker.WorkflowError
	if !errors.As(err, &failed) || failed.Message != "Ann said no" || failed.Class != "Ask" {
		t.Errorf("an error: %+v", err)
	}
	o.must(o.client.Workflows().Retry(t.Context(), id))
	if again := <-o.token; again != token {
		t.Errorf("the token is %s, was %s", again, token)
	}
	o.must(o.client.Complete(t.Context(), token, 1))
	_, err = goworker.Await[int](t.Context(), o.client, id)
	o.must(err)

	if failures := o.Failures(); len(failures) != 0 {
		t.Errorf("failures: %+v", failures)
	}
	reply(id+".0.ABCDEFGHIJKLMNOP", 1)
	o.Eventually("a wrong token fails", func() bool { return len(o.Failures()) == 1 })
	if text := o.Failures()[0].Error; !strings.Contains(text, "no step has this token") {
		t.Errorf("it says %s", text)
	}
}

// A program with no class of its own gets an error, although daemons know CompleteClass.
func TestCompleteClassIsNotRegistered(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{URI: "redis://127.0.0.1:1/", QueuesString: "work", Logger: daemontest.Quiet})
	defer d.Close()
	if err := d.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "no handler is registered") {
		t.Errorf("%v", err)
	}
	if classes := d.Classes(); len(classes) != 0 {
		t.Errorf("%+v", classes)
	}
}

// While a workflow is paused nothing more of it is sent. Resumed, it ends.
func TestWorkflowPause(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	id := o.begin(goworker.Chain(task("Fetch", "a"), task("Sum", 1)))
	o.must(o.client.Workflows().Pause(t.Context(), id))
	o.Start()
	o.Eventually("the first step is done", func() bool { return o.info(id).Counts.Done == 1 })
	if w := o.info(id); !w.Paused || w.Counts.Waiting != 1 || len(o.ran("Sum")) != 0 {
		t.Errorf("%+v, %v", w, o.ran("Sum"))
	}
	o.must(o.client.Workflows().Resume(t.Context(), id))
	_, err := goworker.Await[int](t.Context(), o.client, id)
	if got := o.ran("Sum"); err != nil || len(got) != 1 || got[0] != "[1,7]" {
		t.Errorf("%v, %v", err, got)
	}
}

// At its deadline a workflow expires: its steps end, its error handler is called once, and Retry gives it the same time again.
func TestWorkflowDeadline(t *testing.T) {
	t.Parallel()
	daemontest.Punctually(t, func() error { return deadline(t) })
}

func deadline(t *testing.T) error {
	o := newOffice(t)
	var began, short atomic.Bool
	o.Daemon.Register("Long", func(ctx context.Context) error {
		began.Store(true)
		if short.Load() {
			return nil
		}
		<-ctx.Done()
		return ctx.Err()
	})
	o.Start()
	id := o.begin(goworker.Chain(task("Long"), task("Sum", 1)).OnError(goworker.NewJob("work", "Alert")), goworker.Deadline(time.Second))
	if _, err := goworker.Await[int](t.Context(), o.client, id); !errors.Is(err, goworker.ErrExpired) {
		t.Errorf("Await: %v", err)
	}
	if !began.Load() {
		return errors.New("it expired before its first step began")
	}
	o.Eventually("its step was not run", func() bool { return o.info(id).Counts.NotRun == 1 })
	o.Eventually("the handler is called", func() bool { return len(o.ran("Alert")) == 1 })
	if w := o.info(id); w.Deadline != time.Second {
		t.Errorf("%+v", w)
	}
	short.Store(true)
	o.Redis.Do(t, "HSET", "resque:go:wf:"+id, "deadline", time.Minute.Milliseconds()) // a busy machine may need more than a second
	o.must(o.client.Workflows().Retry(t.Context(), id))
	if w := o.info(id); time.Until(w.Until) < 30*time.Second {
		t.Errorf("the deadline is at %s", w.Until)
	}
	_, err := goworker.Await[int](t.Context(), o.client, id)
	if len(o.ran("Alert")) != 1 || len(o.ran("Sum")) != 1 || err != nil || len(o.Failures()) != 0 {
		t.Errorf("%v, %v, %v, %v", err, o.ran("Alert"), o.ran("Sum"), o.Failures())
	}
	return nil
}

// A retry whose caller dies after its first piece goes on by itself.
func TestWorkflowRetryWithoutItsCaller(t *testing.T) {
	t.Parallel()
	const n = 700 // more than a piece has
	o := newOffice(t)
	id := o.begin(goworker.Chain(goworker.GroupSeq(members(n)), task("Sum")))
	o.must(o.client.Cancel(t.Context(), id))
	o.Start()
	o.Reaches("steps that are not run", n, func() int { return int(o.info(id).Counts.NotRun) })
	piece, err := workflows.New(resque.New("")).Retry(o.Redis.Dial(t), id, true)
	if err != nil || piece.Over {
		t.Fatal(piece, err)
	}
	_, err = goworker.Await[int](t.Context(), o.client, id)
	o.must(err)
	if ran := len(o.ran("Part")); ran != n || len(o.ran("Sum")) != 1 {
		t.Errorf("%d members ran, %d sums", ran, len(o.ran("Sum")))
	}
}

// Two programs retry a workflow at once: each step runs once more.
func TestWorkflowRetryTwiceAtOnce(t *testing.T) {
	t.Parallel()
	const n = 700 // more than a piece has
	o := newOffice(t)
	id := o.begin(goworker.Chain(goworker.GroupSeq(members(n)), task("Sum")))
	o.must(o.client.Cancel(t.Context(), id))
	o.Start()
	o.Reaches("steps that are not run", n, func() int { return int(o.info(id).Counts.NotRun) })
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if err := o.client.Workflows().Retry(t.Context(), id); err != nil && !errors.Is(err, goworker.ErrNothingToRetry) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	_, err := goworker.Await[int](t.Context(), o.client, id)
	o.must(err)
	if ran := len(o.ran("Part")); ran != n || len(o.ran("Sum")) != 1 {
		t.Errorf("%d members ran, %d sums", ran, len(o.ran("Sum")))
	}
}

// What is known of a workflow that has ended can be removed, and a program that waits for it gets an error.
func TestWorkflowForget(t *testing.T) {
	t.Parallel()
	o := newOffice(t)
	o.Start()
	id := o.begin(goworker.Chain(task("Fetch"), task("Sum")))
	_, err := goworker.Await[int](t.Context(), o.client, id)
	o.must(err)
	o.must(o.client.Forget(t.Context(), id))
	if _, err := goworker.Await[int](t.Context(), o.client, id); !errors.Is(err, goworker.ErrNoResult) {
		t.Errorf("Await: %v", err)
	}
	if _, err := o.client.Workflows().Get(t.Context(), id); !errors.Is(err, goworker.ErrNoWorkflow) {
		t.Errorf("Get: %v", err)
	}
}
