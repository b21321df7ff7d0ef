package jobs

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// await returns the result of a workflow or a step.
func await[T any](t *testing.T, c *goworker.Client, id string) T {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	result, err := goworker.Await[T](ctx, c, id)
	if err != nil {
		t.Fatalf("await %s: %s", id, err)
	}
	return result
}

// arithmetic is a daemon that adds and multiplies.
func arithmetic(t *testing.T, change ...func(*goworker.WorkerSettings)) (*daemontest.Bundle, *goworker.Client) {
	t.Helper()
	b := daemontest.Setup(t, change...)
	b.Daemon.Register("Add", func(terms ...int) (int, error) {
		sum := 0
		for _, n := range terms {
			sum += n
		}
		return sum, nil
	})
	b.Daemon.Register("Multiply", func(factors ...int) (int, error) {
		product := 1
		for _, n := range factors {
			product *= n
		}
		return product, nil
	})
	b.Daemon.Register("Divide", func(a, b int) (int, int, error) { return a / b, a % b, nil })
	b.Daemon.Register("Fail", func() (int, error) { return 0, errors.New("broken") })
	return b, b.Daemon.Client()
}

func job(class string, args ...any) *goworker.Job { return goworker.NewJob("work", class, args...) }

// Behaviour 5: chains and chords pass results on, also those of functions with several.
func TestWorkflowResults(t *testing.T) {
	t.Parallel()
	b, c := arithmetic(t)
	b.Start()
	for _, test := range []struct {
		name string
		node *goworker.Node
		want int
	}{
		{"one step", goworker.Step(job("Add", 20, 22)), 42},
		{"chain", goworker.Chain(goworker.Step(job("Add", 1, 1)), goworker.Step(job("Add", 5, 5)), goworker.Step(job("Multiply", 4))), 48},
		{"chord", goworker.Chord(goworker.Group(goworker.Step(job("Add", 1, 1)), goworker.Step(job("Add", 5, 5))), goworker.Step(job("Multiply"), goworker.Spread())), 20},
		{"two results", goworker.Chain(goworker.Step(job("Divide", 17, 5)), goworker.Step(job("Add", 10))), 15},
		{"on success", goworker.Step(job("Add", 3)).OnSuccess(goworker.Step(job("Multiply", 5))), 15},
		{"immutable", goworker.Chain(goworker.Step(job("Add", 3)), goworker.Step(job("Multiply", 5), goworker.Immutable())), 5},
		{"graph", goworker.NewGraph().Step("a", job("Add", 2)).Step("b", job("Add", 3)).Step("c", job("Multiply"), goworker.After("a", "b")).Node(), 6},
		{"empty group", goworker.Chord(goworker.Group(), goworker.Step(job("Multiply", 7), goworker.Spread())), 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			r, err := c.Start(t.Context(), test.node)
			if err != nil {
				t.Fatal(err)
			}
			if got := await[int](t, c, r.ID); got != test.want {
				t.Errorf("the result is %d, want %d", got, test.want)
			}
		})
	}
}

// Behaviour 12 at a start: what waits for an empty group is sent at once, with an empty list.
func TestWorkflowEmpty(t *testing.T) {
	t.Parallel()
	b, c := arithmetic(t)
	lists := make(chan []int, 1)
	b.Daemon.Register("List", func(all []int) { lists <- all })
	b.Start()
	if _, err := c.Start(t.Context(), goworker.Chord(goworker.Group(), goworker.Step(job("List")))); err != nil {
		t.Fatal(err)
	}
	if got := <-lists; got == nil || len(got) > 0 {
		t.Errorf("the callback got %v", got)
	}
	r, err := c.Start(t.Context(), goworker.Group())
	if err != nil {
		t.Fatal(err)
	}
	if got := await[[]int](t, c, r.ID); len(got) > 0 {
		t.Errorf("an empty group returned %v", got)
	}
}

// Behaviour 16 and the uniqueness of workflows.
func TestWorkflowOnce(t *testing.T) {
	t.Parallel()
	b, c := arithmetic(t)
	gate := make(chan struct{})
	b.Daemon.Register("Wait", func() { <-gate })
	wait := func() *goworker.Node { return goworker.Step(job("Wait"), goworker.WithResult(time.Minute)) }
	b.Start()
	first := wait()
	r, err := c.Start(t.Context(), first, goworker.WithID("one"), goworker.UniqueAs("only"))
	if err != nil || r.ID != "one" || r.Existed || r.Step(first) != "one.0" {
		t.Fatalf("%+v, %v", r, err)
	}
	if r, err := c.Start(t.Context(), wait(), goworker.WithID("one"), goworker.UniqueAs("only")); err != nil || !r.Existed {
		t.Errorf("again: %+v, %v", r, err)
	}
	duplicate := new(goworker.DuplicateError)
	_, err = c.Start(t.Context(), wait(), goworker.WithID("two"), goworker.UniqueAs("only"))
	if !errors.As(err, &duplicate) || !errors.Is(err, goworker.ErrDuplicate) || duplicate.Holder != "one" || duplicate.Name != "only" {
		t.Errorf("a second workflow of the name: %v", err)
	}
	close(gate)
	await[goworker.None](t, c, "one")
	await[goworker.None](t, c, r.Step(first))
	if r, err := c.Start(t.Context(), wait(), goworker.WithID("two"), goworker.UniqueAs("only")); err != nil || r.Existed {
		t.Errorf("after the end: %+v, %v", r, err)
	}
	await[goworker.None](t, c, "two")
}

// The middleware is called once, with all steps, and its options count; the metadata of the workflow is that of its steps.
func TestWorkflowMiddleware(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	metas := make(chan map[string]string, 10)
	b.Daemon.Register("Meta", func(ctx context.Context) { metas <- goworker.FromContext(ctx).Workflow.Meta })
	calls, leave := 0, false
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI(), Logger: daemontest.Quiet},
		goworker.WithEnqueueMiddleware(func(next goworker.EnqueueFunc) goworker.EnqueueFunc {
			return func(ctx context.Context, items []goworker.Item) ([]goworker.Receipt, error) {
				calls++
				for i := range items {
					items[i].Options = append(items[i].Options, goworker.WithMeta(map[string]string{"by": "middleware"}))
				}
				if leave {
					items = items[1:]
				}
				receipts, err := next(ctx, items)
				if err == nil && (len(receipts) != 3 || receipts[0].ID != "m.0") {
					t.Errorf("the receipts are %+v", receipts)
				}
				return receipts, err
			}
		}))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	nodes := func() *goworker.Node {
		return goworker.Chain(goworker.Step(job("Meta"), goworker.WithMeta(map[string]string{"own": "1"})), goworker.Step(job("Meta"))).OnComplete(job("Meta"))
	}
	b.Start()
	meta := goworker.WithMeta(map[string]string{"tenant": "acme", "own": "0"})
	if _, err := client.Start(t.Context(), nodes(), meta, goworker.WithID("m")); err != nil || calls != 1 {
		t.Fatalf("%d calls, %v", calls, err)
	}
	for _, own := range []string{"1", "0", "0"} {
		if diff := cmp.Diff(map[string]string{"tenant": "acme", "own": own, "by": "middleware"}, <-metas); diff != "" {
			t.Errorf("metadata: %s", diff)
		}
	}
	leave = true
	if _, err := client.Start(t.Context(), nodes()); err == nil || !strings.Contains(err.Error(), "left out a step") {
		t.Errorf("a middleware that leaves a step out: %v", err)
	}
}

// Options of jobs hold for steps, from when they are sent; and each mistake is refused with a sentence, before anything starts.
func TestWorkflowMistakes(t *testing.T) {
	t.Parallel()
	b, c := arithmetic(t)
	b.Daemon.Register("Unique", func() {}, goworker.Unique())
	b.Daemon.Register("Text", func(string) (string, error) { return "", nil })
	one := goworker.Step(job("Add"))
	step := func(opts ...goworker.EnqueueOption) *goworker.Node { return goworker.Step(job("Add"), opts...) }
	for _, test := range []struct {
		node *goworker.Node
		opts []goworker.WorkflowOption
		want string
	}{
		{node: nil, want: "is nil"},
		{node: goworker.Chain(one, one), want: "stands twice"},
		{node: step(goworker.WithID("x")), want: "the id of a step is that of its workflow"},
		{node: step(goworker.Unique()), want: "a step that is refused would stop its workflow"},
		{node: step(goworker.ProcessIn(time.Minute), goworker.ResqueScheduler()), want: "no place for what makes a job a step"},
		{node: step(goworker.After("x")), want: "it is for the steps of a Graph"},
		{node: goworker.NewGraph().Step("a", job("Add"), goworker.After("b")).Node(), want: "no step has that name"},
		{node: goworker.NewGraph().Step("a", job("Add")).Step("a", job("Add")).Node(), want: `the name "a"`},
		{node: step(goworker.Named("")), want: "is empty"},
		{node: step(goworker.Named("a"), goworker.Named("b")), want: "both say the step's name"},
		{node: step(goworker.External(-1)), want: "must be positive"},
		{node: goworker.Step(nil), want: "needs a queue and a class"},
		{node: goworker.Step(goworker.NewJob("", "Add")), want: "needs a queue and a class"},
		{node: goworker.Step(job("Add", make(chan int))), want: "chan"},
		{node: step(nil), want: "option 1 of the job is nil"},
		{node: step(), opts: []goworker.WorkflowOption{nil}, want: "option 1 of Start is nil"},
		{node: step(), opts: []goworker.WorkflowOption{goworker.WithID("a.b")}, want: "a.b"},
		{node: step(), opts: []goworker.WorkflowOption{goworker.WithID("")}, want: "the id is empty"},
		{node: step(), opts: []goworker.WorkflowOption{goworker.Deadline(0)}, want: "at least a millisecond"},
		{node: step(), opts: []goworker.WorkflowOption{goworker.KeepFor(-1)}, want: "at least a millisecond"},
		{node: step(), opts: []goworker.WorkflowOption{goworker.UniqueAs("")}, want: "is empty"},
		{node: step(), opts: []goworker.WorkflowOption{goworker.RunRest(), goworker.CancelRunning()}, want: "both say what a failure means"},
		// Behaviour 23: types that do not fit.
		{node: goworker.Chain(goworker.Step(job("Text", "")), goworker.Step(job("Divide", 1))), want: "Divide"},
		{node: goworker.Chain(goworker.Step(job("Add", 1)), goworker.Step(job("Divide"))), want: "Divide"},
	} {
		_, err := c.Start(t.Context(), test.node, test.opts...)
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "goworker: ") || !strings.Contains(err.Error(), "nothing was started") {
			t.Errorf("got %v, want …%s…; nothing was started", err, test.want)
		}
	}
	if _, err := c.Enqueue(t.Context(), job("Add"), goworker.Immutable()); err == nil || !strings.Contains(err.Error(), "it is for steps of workflows") {
		t.Errorf("an option of steps, of a job: %v", err)
	}
	if keys := b.Redis.Keys(t); len(keys) > 0 {
		t.Errorf("there are %v", keys)
	}

	b.Start()
	for range 2 { // a step of a unique class takes no lock, and heeds none
		r, err := c.Start(t.Context(), goworker.Group(goworker.Step(job("Unique")), goworker.Step(job("Unique"))))
		if err != nil {
			t.Fatal(err)
		}
		await[goworker.None](t, c, r.ID)
	}
}

// Options of jobs that count from a moment count from when the step is sent.
func TestWorkflowStepOptions(t *testing.T) {
	t.Parallel()
	b, c := arithmetic(t)
	r, err := c.Start(t.Context(), goworker.Chain(
		goworker.Step(job("Add", 1), goworker.ExpireAfter(time.Hour), goworker.Priority(goworker.High), goworker.Retry(7)),
		goworker.Step(job("Add", 2), goworker.ProcessIn(time.Hour), goworker.ExpireAfter(time.Minute), goworker.Timeout(time.Second))))
	if err != nil {
		t.Fatal(err)
	}
	first := b.Redis.List(t, "ZRANGE", "resque:go:schedule", 0, -1)[0] // the pump puts it in front
	for _, want := range []string{`work{"priority":1,"class":"Add"`, `"expires_at":1`, `"retries":7`, `"id":"` + r.ID + `.0"}`} {
		if !strings.Contains(first, want) {
			t.Errorf("the first step is %s, without %s", first, want)
		}
	}
	b.Start()
	b.Eventually("the second step waits in the schedule", func() bool {
		return b.Stat("processed") == 1 && b.Redis.Int(t, "ZCARD", "resque:go:schedule") == 1
	})
	due := b.Redis.List(t, "ZRANGE", "resque:go:schedule", 0, -1, "WITHSCORES")
	at, err := strconv.ParseInt(due[1], 10, 64)
	until := regexp.MustCompile(`"expires_at":(\d+)`).FindStringSubmatch(due[0])
	if in := time.Until(time.UnixMilli(at)); err != nil || in < 50*time.Minute || in > time.Hour {
		t.Errorf("it is due in %s: %q", in, due)
	}
	if ms, _ := strconv.ParseInt(until[1], 10, 64); ms != at+60_000 {
		t.Errorf("it expires %d ms after it is due", ms-at)
	}
}

// A group that is never in memory as a whole, and its results.
func TestGroupSeq(t *testing.T) {
	t.Parallel()
	b, c := arithmetic(t)
	b.Daemon.Register("Sum", func(ctx context.Context, all goworker.Results[int]) (int, error) {
		sum := 0
		for _, n := range all.All(ctx) {
			sum += n
		}
		return sum, all.Err()
	})
	b.Start()
	for _, members := range []int{0, 1, 2500} {
		n := goworker.Chord(goworker.GroupSeq(numbered("Add", members)), goworker.Step(job("Sum")))
		r, err := c.Start(t.Context(), n)
		if err != nil {
			t.Fatal(err)
		}
		if got := await[int](t, c, r.ID); got != members*(members-1)/2 {
			t.Errorf("the sum of %d is %d", members, got)
		}
	}
	broken := errors.New("broken")
	n := func(err error) *goworker.Node {
		return goworker.GroupSeq(func(yield func(goworker.Item, error) bool) {
			for item := range numbered("Add", 1500) {
				if !yield(item, nil) {
					return
				}
			}
			if err != nil {
				yield(goworker.Item{}, err)
			}
		})
	}
	if _, err := c.Start(t.Context(), n(broken), goworker.WithID("again")); !errors.Is(err, broken) || !strings.Contains(err.Error(), "call Start again") {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), n(nil), goworker.WithID("again")); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Start(t.Context(), n(nil), goworker.WithID("again")); err != nil || !r.Existed {
		t.Fatal(r, err)
	}
	if got := await[[]int](t, c, "again"); len(got) != 1500 || got[1234] != 1234 {
		t.Errorf("%d results", len(got))
	}
}

// A workflow lies on one shard: the one of all its queues, those of handlers included.
func TestWorkflowShards(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	shards := goworker.NewShards(goworker.WorkerSettings{Concurrency: 2, Logger: daemontest.Quiet},
		goworker.Shard{URI: one.URI(), Queues: []string{"a", "net"}}, goworker.Shard{URI: two.URI(), Queues: []string{"b", "img"}})
	shards.Register("Fetch", func() {})
	said := make(chan string, 1)
	shards.Register("Late", func(ctx context.Context) error {
		err := goworker.CurrentBatch(ctx).Add(ctx, goworker.Step(goworker.NewJob("net", "Fetch")))
		said <- fmt.Sprint(err)
		return goworker.CurrentBatch(ctx).Add(ctx, goworker.Step(goworker.NewJob("img", "Fetch")))
	})
	ran := make(chan error, 1)
	ctx, stop := context.WithCancel(t.Context())
	go func() { ran <- shards.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ran; err != nil {
			t.Error(err)
		}
		shards.Close()
	}()
	c := shards.Client()
	step := func(queue string) *goworker.Node { return goworker.Step(goworker.NewJob(queue, "Fetch")) }
	for _, test := range []struct {
		node *goworker.Node
		want string
	}{
		{goworker.Chain(step("net"), goworker.Step(goworker.NewJob("img", "Resize"))), "step 2 (Resize): it is for queue img on " + two.Shown() + ", step 1 (Fetch) for queue net on " + one.Shown()},
		{step("b").OnError(goworker.NewJob("a", "Alert")), "step 2 (Alert): it is for queue a"},
		{step("nowhere"), "lies on no shard"},
		{goworker.Group(), "no step of it says on which shard it lies"},
	} {
		if _, err := c.Start(t.Context(), test.node); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("got %v, want …%s…", err, test.want)
		}
	}
	r, err := c.Start(t.Context(), goworker.Chain(step("b"), step("img")))
	if err != nil || two.Int(t, "EXISTS", "resque:go:result:"+r.ID) != 1 {
		t.Fatal(r, err)
	}
	await[goworker.None](t, c, r.ID)
	batch, err := c.NewBatch(t.Context(), goworker.Batch{OnSuccess: step("b")})
	if err != nil {
		t.Fatal(err)
	}
	if err := batch.Add(t.Context(), step("a")); err == nil || !strings.Contains(err.Error(), "the batch lies on "+two.Shown()) {
		t.Errorf("a member for another shard: %v", err)
	}
	if err := batch.Add(t.Context(), goworker.Step(goworker.NewJob("img", "Late"))); err != nil {
		t.Fatal(err)
	}
	if err := batch.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-said; !strings.Contains(err, "the batch lies on "+two.Shown()) {
		t.Errorf("a member adds for another shard: %v", err)
	}
	await[goworker.None](t, c, batch.ID())
}

// A process of an older release on a queue of the workflow is named.
func TestWorkflowOldRelease(t *testing.T) {
	t.Parallel()
	b, c := arithmetic(t)
	b.Start()
	b.Redis.Do(t, "HSET", "resque:go:process:old:1:aa", "host", "old", "version", "v0.9.0", "queues", "other,w*", "concurrency", 1, "started", "2026-11-21 12:00:00 +0000")
	b.Redis.Do(t, "ZADD", "resque:go:processes", time.Now().Add(time.Hour).UnixMilli(), "old:1:aa")
	node := func() *goworker.Node { return goworker.Step(job("Add", 1)) }
	if _, err := c.Start(t.Context(), node()); err == nil || !strings.Contains(err.Error(), "process old:1:aa of goworker v0.9.0 works queue work and does not know workflows") {
		t.Errorf("got %v", err)
	}
	if _, err := c.Start(t.Context(), goworker.Step(goworker.NewJob("elsewhere", "Add")), goworker.AllowOld()); err != nil {
		t.Error(err)
	}
	r, err := c.Start(t.Context(), node(), goworker.AllowOld())
	if err != nil {
		t.Fatal(err)
	}
	await[int](t, c, r.ID)
	b.Redis.Do(t, "HSET", "resque:go:process:old:1:aa", "knows", "sagas workflows")
	if r, err = c.Start(t.Context(), node()); err != nil {
		t.Fatal(err)
	}
	await[int](t, c, r.ID)
	b.Redis.Do(t, "ZREM", "resque:go:processes", "old:1:aa")
}

// Each tick of a schedule starts one workflow, and a tick that runs twice starts one too.
func TestScheduleWorkflow(t *testing.T) {
	t.Parallel()
	b, c := arithmetic(t)
	made := make(chan struct{}, 100)
	node := func() *goworker.Node {
		made <- struct{}{}
		return goworker.Chain(goworker.Step(job("Add", 1)), goworker.Step(job("Add", 1)))
	}
	if err := b.Daemon.ScheduleWorkflow("nightly", "0 3 * * *", node, goworker.KeepFor(time.Hour)); err != nil {
		t.Fatal(err)
	}
	<-made
	for name, err := range map[string]error{
		"no function": b.Daemon.ScheduleWorkflow("a", "1h", nil),
		"a dot":       b.Daemon.ScheduleWorkflow("a.b", "1h", node),
		"an id":       b.Daemon.ScheduleWorkflow("a", "1h", node, goworker.WithID("x")),
		"a spec":      b.Daemon.ScheduleWorkflow("a", "nonsense", node),
		"no step":     b.Daemon.ScheduleWorkflow("a", "1h", func() *goworker.Node { return goworker.Group() }),
	} {
		if err == nil || !strings.HasPrefix(err.Error(), "goworker: ") {
			t.Errorf("%s: %v", name, err)
		}
	}
	all, err := b.Daemon.Schedules()
	if err != nil || len(all) != 1 || all[0].Name != "nightly" || all[0].Recurring.Class != goworker.StartWorkflowClass || all[0].Recurring.Queue != "work" {
		t.Errorf("%+v, %v", all, err)
	}
	tick := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for range 3 {
		b.Push(`{"class":"goworker.StartWorkflow","args":["nightly","2026-11-21T03:00:00Z"]}`)
	}
	b.Start()
	id := fmt.Sprintf("nightly:%d", tick.UnixMilli())
	b.Eventually("the workflow starts", func() bool { return b.Redis.Int(t, "EXISTS", "resque:go:result:"+id) == 1 })
	if got := await[int](t, c, id); got != 2 {
		t.Errorf("the result is %d", got)
	}
	b.Eventually("all ticks have run", func() bool { return b.Stat("processed") == 3+2 })
	if err := b.Daemon.RunScheduleNow("nightly"); err != nil {
		t.Error(err)
	}
	b.Eventually("another workflow has run", func() bool { return b.Stat("processed") == 5+3 })
}

// A workflow that is typed at both ends.
func TestTyped(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	count := goworker.Define[string, goworker.Args2[string, int]]("Count", goworker.OnQueue("work"))
	repeat := goworker.Define[goworker.Args2[string, int], string]("Repeat", goworker.OnQueue("work"))
	join := goworker.Define[[]string, string]("Join", goworker.OnQueue("work"))
	note := goworker.Define[string, goworker.None]("Note", goworker.OnQueue("work"))
	last := goworker.Define[goworker.None, int]("Last", goworker.OnQueue("work"))
	count.Handle(b.Daemon, func(_ context.Context, s string) (goworker.Args2[string, int], error) {
		return goworker.Args2[string, int]{A: s, B: len(s)}, nil
	})
	repeat.Handle(b.Daemon, func(_ context.Context, a goworker.Args2[string, int]) (string, error) {
		return strings.Repeat(a.A, a.B), nil
	})
	join.Handle(b.Daemon, func(_ context.Context, all []string) (string, error) { return strings.Join(all, "+"), nil })
	notes := make(chan string, 1)
	note.Handle(b.Daemon, goworker.NoResult(func(_ context.Context, s string) error { notes <- s; return nil }))
	last.Handle(b.Daemon, func(context.Context, goworker.None) (int, error) { return 7, nil })
	one := func(s string) goworker.Typed[string] { return goworker.Then(count.Step(s), repeat) }
	all := goworker.Then(goworker.Then(goworker.All(one("ab"), one("xyz")), join), note)
	b.Start()
	c := b.Daemon.Client()
	r, err := c.Start(t.Context(), goworker.Then(all, last).Node())
	if err != nil {
		t.Fatal(err)
	}
	if got := await[int](t, c, r.ID); got != 7 || <-notes != "abab+xyzxyzxyz" {
		t.Errorf("the result is %d", got)
	}
}
