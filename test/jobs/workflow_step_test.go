package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/resque"
)

// flow is two daemons on one Redis, whose handlers are those of steps.
type flow struct {
	*pair
	mu   sync.Mutex
	seen []string
}

func (f *flow) saw(text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen = append(f.seen, text)
}

func (f *flow) all() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	all := slices.Clone(f.seen)
	slices.Sort(all)
	return all
}

func newFlow(t *testing.T, change ...func(*goworker.WorkerSettings)) *flow {
	t.Helper()
	f := new(flow)
	f.pair = newPair(t, func(b *daemontest.Bundle) {
		d := b.Daemon
		d.Register("Number", func(n int) (int, error) { return n, nil })
		d.Register("Add", func(n ...int) (sum int, err error) {
			for _, one := range n {
				sum += one
			}
			return sum, nil
		})
		d.Register("Two", func(n int) (int, string, error) { return n, "two", nil })
		d.Register("Nothing", func() error { return nil })
		d.Register("Say", func(ctx context.Context, args ...any) error { f.saw(fmt.Sprint(args...)); return nil })
		d.Register("Lucky", func(ctx context.Context) (int, error) { return 0, errors.New("no luck") })
		d.Register("Second", func(ctx context.Context) (string, error) {
			if goworker.FromContext(ctx).Attempt == 1 {
				return "", errors.New("not yet")
			}
			return "second", nil
		}, goworker.Retry(1, goworker.Delays{0}))
		d.Register("Odd", func() (any, error) { return func() {}, nil })
		d.Register("Large", func() (string, error) { return strings.Repeat("x", goworker.MaxResult), nil })
		d.Register("Give", func() error { return goworker.Discard(errors.New("given up")) })
		d.Register("RailsAdd", func(a, b int) (int, error) { return a + b, nil })
		d.Register("List", func(numbers []int) (string, error) {
			return fmt.Sprintf("%d numbers up to %d", len(numbers), numbers[len(numbers)-1]), nil
		})
		d.Register("Pages", func(ctx context.Context, name string, numbers goworker.Results[int]) (string, error) {
			sum := 0
			for i, n := range numbers.All(ctx) {
				if i != n {
					return "", fmt.Errorf("number %d is %d", i, n)
				}
				sum += n
			}
			return fmt.Sprintf("%s: %d numbers, %d in all", name, numbers.Len(), sum), numbers.Err()
		})
		d.Register("Where", func(ctx context.Context) (string, error) {
			n, err := goworker.ResultOf[int](ctx, "first")
			_, other := goworker.ResultOf[int](ctx, "other")
			w := goworker.FromContext(ctx).Workflow
			return fmt.Sprintf("step %d of %s, %v, %d, %v", w.Step, w.ID, w.Meta, n, other), err
		})
	}, change...)
	return f
}

// start starts a workflow and returns its id.
func (f *flow) start(n *goworker.Node, opts ...goworker.WorkflowOption) string {
	f.T.Helper()
	r, err := f.client.Start(f.T.Context(), n, opts...)
	if err != nil {
		f.T.Fatal(err)
	}
	return r.ID
}

func step(class string, args ...any) *goworker.Node {
	return goworker.Step(goworker.NewJob("work", class, args...))
}

func (f *flow) letters(id string) string {
	text, _ := redis.String(f.Redis.Do(f.T, "GET", "resque:go:wf-steps:"+id), nil)
	return text
}

func (f *flow) ends(id, state string) {
	f.T.Helper()
	f.Eventually("workflow "+id+" is "+state, func() bool {
		got, _ := redis.String(f.Redis.Do(f.T, "HGET", "resque:go:wf:"+id, "state"), nil)
		return got == state
	})
}

func (f *flow) says(want ...string) {
	f.T.Helper()
	slices.Sort(want)
	f.Eventually(fmt.Sprintf("%q was said", want), func() bool { return len(f.all()) >= len(want) })
	if got := f.all(); !slices.Equal(got, want) {
		f.T.Errorf("%q, want %q", got, want)
	}
}

// Results go from step to step: one, several, none, a list of a group's.
func TestStepResults(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.run()
	f.ends(f.start(goworker.Chain(step("Number", 1), step("Add", 2), step("Say", "sum"))), "done")
	f.ends(f.start(goworker.Chain(step("Two", 1), step("Say", "two"))), "done")
	f.ends(f.start(goworker.Chain(step("Nothing"), step("Say", "none"))), "done")
	f.ends(f.start(goworker.Chain(goworker.Group(step("Number", 1), step("Nothing"), step("Two", 3), goworker.Chain(step("Number", 4), step("Add", 1))), step("Say", "list"))), "done")
	f.ends(f.start(goworker.Chain(step("Second"), step("Say"))), "done")
	f.says("sum3", "two1two", "none", "list[1 <nil> [3 two] 5]", "second")
}

// A list of up to 512 results is in the arguments. A longer one is read for its handler, or by it.
func TestStepLists(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.run()
	const many = 1000
	numbers := func(n int) *goworker.Node {
		all := make([]*goworker.Node, n)
		for i := range all {
			all[i] = step("Number", i)
		}
		return goworker.Group(all...)
	}
	for _, client := range []*goworker.Client{f.client, f.Daemon.Client()} {
		f.mu.Lock()
		f.seen = nil
		f.mu.Unlock()
		f.client = client
		f.ends(f.start(goworker.Chain(numbers(3), step("List"), step("Say"))), "done")
		f.ends(f.start(goworker.Chain(numbers(many), step("List"), step("Say"))), "done")
		f.ends(f.start(goworker.Chain(numbers(3), step("Pages", "few"), step("Say"))), "done")
		f.ends(f.start(goworker.Chain(numbers(many), step("Pages", "many"), step("Say"))), "done")
		f.says("3 numbers up to 2", "1000 numbers up to 999", "few: 3 numbers, 3 in all", "many: 1000 numbers, 499500 in all")
	}
}

// A handler finds its workflow, its metadata, and results by the names of their steps.
func TestStepContext(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.run()
	first := goworker.Step(goworker.NewJob("work", "Number", 7), goworker.Named("first"))
	f.ends(f.start(goworker.Chain(first, goworker.Step(goworker.NewJob("work", "Nothing"), goworker.Immutable()), step("Where"), step("Say")), goworker.WithID("w"), goworker.WithMeta(map[string]string{"for": "ann"})), "done")
	f.says(`step 2 of w, map[for:ann], 7, goworker: workflow w has no step named "other"; name it with Named`)
}

// Each end of a step that is not done has its letter, and fails the workflow. Only one that failed is filed.
func TestStepEnds(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	// A process that runs hears of a cancel after milliseconds; one that starts knows it before it takes a job.
	unwanted := f.start(goworker.Chain(goworker.Step(goworker.NewJob("unwanted", "Nothing")), step("Say")))
	f.cancel(unwanted + ".0")
	f.run()
	failed := 0
	for class, filed := range map[string]int{"Lucky": 1, "Give": 0, "Odd": 1, "Large": 1, "Nobody": 1} {
		id := f.start(goworker.Chain(step(class), step("Say")))
		f.ends(id, "failed")
		if letters := f.letters(id); !strings.HasPrefix(letters, "fw") {
			t.Errorf("%s: %q", class, letters)
		}
		if failed += filed; f.Redis.Int(t, "LLEN", "resque:failed") != failed {
			t.Errorf("%s: %q", class, f.Redis.List(t, "LRANGE", "resque:failed", 0, -1))
		}
		why, _ := redis.String(f.Redis.Do(t, "HGET", "resque:go:wf:"+id, "f0"), nil)
		if again := "\ns n - 0 0 0 0 4:work{\"class\":\"" + class + "\""; !strings.HasPrefix(why, "1 ") || !strings.Contains(why, again) {
			t.Errorf("%s: %q", class, why)
		}
	}
	// Nobody needs these results.
	f.ends(f.start(goworker.Group(step("Odd"), step("Number", 1))), "failed") // the workflow's own result
	for _, class := range []string{"Odd", "Large"} {
		f.ends(f.start(goworker.Chain(step(class), goworker.Step(goworker.NewJob("work", "Nothing"), goworker.Immutable()))), "done")
	}
	// A step that no worker took in time, and one that was cancelled by its id.
	f.ends(f.start(goworker.Chain(step("Nothing"), goworker.Step(job("Nothing"), daemontest.Past(), goworker.Immutable()), step("Say"))), "failed")
	f.Redis.Do(t, "RENAME", "resque:queue:unwanted", "resque:queue:work")
	f.ends(unwanted, "failed")
	if why, _ := redis.String(f.Redis.Do(t, "HGET", "resque:go:wf:"+unwanted, "f0"), nil); !strings.Contains(why, `"state":"cancelled"`) {
		t.Error(why)
	}
}

// Steps of dead processes: a poison one has failed, any other runs again. So it is with one of a class that only another
// process knows.
func TestStepsOfDeadProcesses(t *testing.T) {
	t.Parallel()
	f := newFlow(t, func(s *goworker.WorkerSettings) { s.RecoverLimit = 1 })
	poisoned := f.start(goworker.Chain(goworker.Step(goworker.NewJob("dead", "Unknown")), step("Say")))
	again := f.start(goworker.Chain(goworker.Step(goworker.NewJob("dead", "Number", 5)), step("Say")))
	dead := f.Died(true)
	jobs := f.Redis.List(t, "LRANGE", "resque:queue:dead", 0, -1)
	f.Redis.Do(t, "DEL", "resque:queue:dead")
	f.Redis.Do(t, "HSET", "resque:go:process:"+dead.ID, "handed", "8 *7")
	f.Redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, "7", "4:work"+jobs[0], "8", "4:work"+jobs[1])
	f.Redis.Do(t, "HSET", "resque:go:recovered", resque.Digest([]byte(jobs[0])), fmt.Sprintf("1 %d another", time.Now().UnixMilli()))
	f.run()
	f.ends(poisoned, "failed")
	f.ends(again, "done")
	f.says("5")
	if why, _ := redis.String(f.Redis.Do(t, "HGET", "resque:go:wf:"+poisoned, "f0"), nil); !strings.Contains(why, "processes that died") {
		t.Error(why)
	}
}

// A step of a class that only another process knows is passed on until that has it.
func TestStepOfUnknownClass(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.LeaveUnknown = true })
	other := daemontest.SetupOn(t, b.Redis)
	said := make(chan int, 1)
	other.Daemon.Register("Theirs", func() (int, error) { return 3, nil })
	b.Daemon.Register("Ours", func(n int) { said <- n })
	r, err := b.Daemon.Client().Start(t.Context(), goworker.Chain(step("Theirs"), goworker.Step(goworker.NewJob("work", "Nap", "x", 0), goworker.Immutable()), step("Mark", "y")))
	if err != nil {
		t.Fatal(err)
	}
	b.Start()
	b.Eventually("it was passed on", func() bool { return b.Redis.Int(t, "LLEN", "resque:queue:work") == 1 })
	if letters := b.Redis.Text(t, "GET", "resque:go:wf-steps:"+r.ID); !strings.HasPrefix(letters, "sww") {
		t.Error(letters)
	}
	other.Start()
	b.Eventually("it is done", func() bool { return b.Redis.Text(t, "HGET", "resque:go:wf:"+r.ID, "state") == "done" })
}

// A step may be a job of ActiveJob: the result goes into its own arguments.
func TestActiveJobStep(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	f.run()
	rails := goworker.NewJob("work", "ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper",
		map[string]any{"job_class": "RailsAdd", "job_id": "aj", "arguments": []any{40}})
	f.ends(f.start(goworker.Chain(step("Number", 2), goworker.Step(rails), step("Say"))), "done")
	f.says("42")
}

// Cancelling a workflow drops its queued steps and ends the contexts of those that run, in every process. Its other jobs, and
// other workflows, are not touched. A failure that is retried by itself runs on.
func TestHaltedSteps(t *testing.T) {
	t.Parallel()
	f := newFlow(t)
	all := make([]*goworker.Node, 20)
	for i := range all {
		all[i] = step("Hold", fmt.Sprint(i))
	}
	id := f.start(goworker.Group(all...).OnComplete(goworker.NewJob("work", "Say", "complete")))
	other := f.start(goworker.Chain(step("Number", 1), step("Say", "other")))
	f.run()
	f.Eventually("all workers have one", func() bool { return f.running() == 8 })
	if err := f.client.Workflows().Cancel(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	f.Eventually("no step is left", func() bool { return strings.HasPrefix(f.letters(id), strings.Repeat("x", len(all))) })
	f.ends(other, "done")
	f.says("complete", "other1")
	started := 0
	for i := range all {
		started += f.starts(fmt.Sprint(i))
	}
	if n := f.Redis.Int(t, "LLEN", "resque:failed"); started != 8 || n != 0 {
		t.Errorf("%d steps were started, %d jobs were filed", started, n)
	}
	if n := f.logged("workflow halted; its step is dropped"); n != len(all) {
		t.Errorf("%d steps were dropped", n)
	}
}

// running is how many steps have been started.
func (f *flow) running() (n int) {
	for i := range 20 {
		n += f.starts(fmt.Sprint(i))
	}
	return n
}

// A workflow that has failed drops what is queued, and lets run what runs, unless it cancels that too.
func TestFailedSteps(t *testing.T) {
	t.Parallel()
	processes := 0
	f := newFlow(t, func(s *goworker.WorkerSettings) {
		processes++
		s.QueuesString = fmt.Sprintf("work,own%d", processes)
	})
	f.run()
	for name, cancels := range map[string]bool{"a": false, "b": true} {
		var opts []goworker.WorkflowOption
		if cancels {
			opts = append(opts, goworker.CancelRunning())
		}
		id := f.start(goworker.Group(step("Hold", name), goworker.Step(goworker.NewJob("held", "Nothing")), goworker.Step(goworker.NewJob("held", "Lucky"))), opts...)
		f.Eventually("one runs", func() bool { return f.starts(name) == 1 })
		f.Redis.Do(t, "LMOVE", "resque:queue:held", "resque:queue:work", "RIGHT", "LEFT") // Lucky
		f.ends(id, "failed")
		for n := range processes { // one that has not heard of the failure would run the step
			own := fmt.Sprintf("%s%d", name, n+1)
			f.PushTo(fmt.Sprintf("own%d", n+1), daemontest.Job("Mark", own))
			f.Eventually("process "+own+" has heard what was before this job", func() bool { return f.starts(own) == 1 })
		}
		f.Redis.Do(t, "LMOVE", "resque:queue:held", "resque:queue:work", "RIGHT", "LEFT")
		want := "sxf"
		if cancels {
			want = "xxf"
		}
		f.Eventually("the letters are "+want, func() bool { return f.letters(id) == want })
	}
	close(f.Gate)
	close(f.other.Gate)
}
