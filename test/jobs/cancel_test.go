package jobs

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
)

// pair is two daemons on one Redis, and a client that is neither.
type pair struct {
	*daemontest.Bundle
	other  *daemontest.Bundle
	client *goworker.Client
}

// newPair makes both daemons. Each calls register with its bundle.
func newPair(t *testing.T, register func(*daemontest.Bundle), change ...func(*goworker.WorkerSettings)) *pair {
	t.Helper()
	b := daemontest.Setup(t, change...)
	p := &pair{Bundle: b, other: daemontest.SetupOn(t, b.Redis, change...)}
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: b.Redis.URI(), Connections: 10, ConnectTimeout: daemontest.Soon, Logger: daemontest.Quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	p.client = client
	if register != nil {
		register(p.Bundle)
		register(p.other)
	}
	t.Cleanup(func() {
		if t.Failed() { // what is awaited says the log of the first one
			t.Log("the other daemon:", p.other.Log.Text())
		}
	})
	return p
}

// run starts both daemons.
func (p *pair) run() {
	p.T.Helper()
	p.Start()
	p.other.Start()
}

// enqueue enqueues a job whose id is also its argument.
func (p *pair) enqueue(class, id string, opts ...goworker.EnqueueOption) {
	p.T.Helper()
	job := goworker.NewJob("work", class, id)
	if _, err := p.client.Enqueue(p.T.Context(), job, append(opts, goworker.WithID(id))...); err != nil {
		p.T.Fatal(err)
	}
}

func (p *pair) cancel(id string, opts ...goworker.CancelOption) {
	p.T.Helper()
	if err := p.client.Cancel(p.T.Context(), id, opts...); err != nil {
		p.T.Fatal(err)
	}
}

// cancelled are the entries of the set.
func (p *pair) cancelled() string {
	p.T.Helper()
	return strings.Join(p.Redis.List(p.T, "ZRANGE", "resque:go:cancelled", 0, -1), " ")
}

func (p *pair) starts(id string) int { return p.Runs.Starts(id) + p.other.Runs.Starts(id) }

func (p *pair) logged(text string) int { return p.Log.Count(text) + p.other.Log.Count(text) }

// dropped waits until so many jobs were cancelled and nothing is left of it.
func (p *pair) dropped(n int) {
	p.T.Helper()
	p.T.Cleanup(func() {
		if p.T.Failed() {
			p.T.Logf("%d jobs were cancelled, the set has %q, the lanes %v", p.logged("job cancelled"), p.cancelled(), p.Redis.Keys(p.T))
		}
	})
	p.Eventually("the job is dropped", func() bool { return p.logged("job cancelled") >= n && p.cancelled() == "" })
	if failed := p.Stat("failed"); failed != 0 || len(p.Failures()) > 0 || p.logged("job cancelled") != n {
		p.T.Errorf("%d failed, %d jobs were cancelled, want %d", failed, p.logged("job cancelled"), n)
	}
}

// A job that waits is dropped by the worker that takes it. It gives back what it holds: the next job with
// the same lock or limit runs.
func TestCancelWaiting(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		of      []goworker.Option // the class's
		enqueue []goworker.EnqueueOption
	}{
		"queued":                 {},
		"delayed":                {enqueue: []goworker.EnqueueOption{goworker.ProcessIn(700 * time.Millisecond)}},
		"unique":                 {enqueue: []goworker.EnqueueOption{goworker.Unique()}},
		"unique until it starts": {enqueue: []goworker.EnqueueOption{goworker.Unique(goworker.UntilStart())}},
		"limited":                {of: []goworker.Option{goworker.MaxRunning(1), goworker.Retry(2)}},
		"rate":                   {of: []goworker.Option{goworker.RateLimit(1, time.Hour)}},
		"expired":                {enqueue: []goworker.EnqueueOption{daemontest.Past()}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPair(t, func(b *daemontest.Bundle) {
				b.Daemon.Register("One", func(ctx context.Context) { b.Runs.Start(goworker.FromContext(ctx).ID) }, test.of...)
			})
			one := &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "One"}}
			first, err := p.client.Enqueue(t.Context(), one, append(test.enqueue, goworker.WithID("a"))...)
			if err != nil {
				t.Fatal(err)
			}
			p.cancel(first.ID)
			p.run()
			p.dropped(1)
			if name == "expired" {
				test.enqueue = nil
			}
			if _, err := p.client.Enqueue(t.Context(), one, append(test.enqueue, goworker.WithID("b"))...); err != nil {
				t.Fatal(err)
			}
			p.Eventually("the next one runs", func() bool { return p.starts("b") == 1 && p.Stat("processed") == 1 })
			if p.starts("a") > 0 {
				t.Error("the cancelled job ran")
			}
			p.NothingWaits()
		})
	}
}

// A job in a lane, and one that a process has reserved ahead, are dropped as well. Redis notifies the
// processes of a cancel, and a process that has not read that yet runs what it takes. So in each a job runs
// that is cancelled last: when its context ends, its process knows of the others.
func TestCancelInLaneAndAhead(t *testing.T) {
	t.Parallel()
	hold := func(b *daemontest.Bundle) {
		b.Daemon.Register("Narrow", b.Classes()["Hold"], goworker.MaxRunning(1))
	}
	p := newPair(t, hold, func(s *goworker.WorkerSettings) { s.Concurrency = 2 })
	p.Start()
	p.enqueue("Narrow", "first")
	p.enqueue("Hold", "one")
	p.Eventually("the first one runs", func() bool { return p.starts("first") == 1 && p.starts("one") == 1 })
	p.other.Start()
	p.enqueue("Hold", "other")
	p.Eventually("the other process works", func() bool { return p.other.Runs.Starts("other") == 1 })
	for _, id := range []string{"a", "b", "c"} {
		p.enqueue("Narrow", id)
	}
	p.Eventually("the others are in the lane", func() bool {
		page, err := p.client.Inspect().Find(t.Context(), inspect.Query{Places: []inspect.Place{inspect.InLane}}, "", 9)
		return err == nil && len(page.Jobs) == 3
	})
	for _, id := range []string{"a", "c", "one", "other"} {
		p.cancel(id)
	}
	p.Eventually("both processes know", func() bool { return p.Runs.Cause("one") != nil && p.other.Runs.Cause("other") != nil })
	p.Open()
	p.other.Open()
	p.dropped(4)
	p.Eventually("the one between them runs", func() bool { return p.starts("b") == 1 && p.Stat("processed") == 2 })
	if p.starts("a")+p.starts("c") > 0 {
		t.Error("a cancelled job ran")
	}
	p.NothingWaits()
}

// A retry that waits does not come, and the failure is not filed.
func TestCancelRetry(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(b *daemontest.Bundle) {
		b.Daemon.Register("Again", b.Classes()["Fail"], goworker.Retry(3, goworker.Delays{time.Second}))
	})
	p.run()
	p.enqueue("Again", "a")
	p.Eventually("it waits for its next try", func() bool { return p.Redis.Int(t, "ZCARD", "resque:go:schedule") == 1 })
	p.cancel("a")
	p.dropped(1)
	if n := p.starts("a"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// The context of a job that runs in another process ends, its cause is ErrCancelled, and its error is
// dropped. A retry does not come.
func TestCancelRunning(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(b *daemontest.Bundle) {
		b.Daemon.Register("Again", b.Classes()["Hold"], goworker.Retry(3), goworker.MaxRunning(1))
	})
	p.run()
	for _, class := range []string{"Hold", "Again"} {
		p.enqueue(class, class)
		p.Eventually("it runs", func() bool { return p.starts(class) == 1 })
		p.cancel(class)
		cause := func() error { return errors.Join(p.Runs.Cause(class), p.other.Runs.Cause(class)) }
		p.Eventually("its context ends", func() bool { return cause() != nil })
		if !errors.Is(cause(), goworker.ErrCancelled) {
			t.Errorf("the cause is %v", cause())
		}
	}
	p.dropped(2)
	p.NothingWaits()
}

// A handler that returns nil was done, and one that panics or ends its goroutine after the cancel is no
// failure.
func TestCancelledHandlers(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(b *daemontest.Bundle) {
		register := func(class string, then func() error) {
			b.Daemon.Register(class, func(ctx context.Context, id string) error {
				b.Runs.Start(id)
				<-ctx.Done()
				return then()
			}, goworker.Retry(3))
		}
		register("Nil", func() error { return nil })
		register("Panics", func() error { panic("oops") })
		register("Exits", func() error { runtime.Goexit(); return nil })
		register("Retries", func() error { return goworker.RetryIn(time.Minute, errors.New("busy")) })
	})
	p.run()
	classes := []string{"Nil", "Panics", "Exits", "Retries"}
	for _, class := range classes {
		p.enqueue(class, class)
		p.Eventually("it runs", func() bool { return p.starts(class) == 1 })
		p.cancel(class)
	}
	p.dropped(len(classes) - 1)
	p.Eventually("one is done", func() bool { return p.Stat("processed") == 1 })
}

// CancelJobs stays what it was: its jobs are failures.
func TestCancelJobsStillFails(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.Start()
	p.enqueue("Hold", "a")
	p.Eventually("it runs", func() bool { return p.starts("a") == 1 })
	p.cancel("nobody", goworker.Force())
	p.Daemon.CancelJobs()
	p.Eventually("it has failed", func() bool { return len(p.Failures()) == 1 })
	if cause := p.Runs.Cause("a"); cause != goworker.ErrCancelled {
		t.Errorf("the cause is %v", cause)
	}
}

// A running job without an id is cancelled by its process and ticket, and nothing else is.
func TestCancelRunningByTicket(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.run()
	p.Push(daemontest.Job("Hold", "a"), daemontest.Job("Hold", "b"))
	p.Eventually("both run", func() bool { return p.starts("a") == 1 && p.starts("b") == 1 })
	page, err := p.client.Inspect().Find(t.Context(), inspect.Query{Class: "Hold", Args: []any{"a"}, Places: []inspect.Place{inspect.Running}}, "", 9)
	if err != nil || len(page.Jobs) != 1 {
		t.Fatal(page, err)
	}
	if err := p.client.CancelRunning(t.Context(), page.Jobs[0].Process, page.Jobs[0].Ticket); err != nil {
		t.Fatal(err)
	}
	p.dropped(1)
	if cause := errors.Join(p.Runs.Cause("b"), p.other.Runs.Cause("b")); cause != nil {
		t.Errorf("the other job was cancelled: %v", cause)
	}
	if err := p.client.CancelRunning(t.Context(), page.Jobs[0].Process, page.Jobs[0].Ticket); !errors.Is(err, goworker.ErrUnknownJob) {
		t.Error(err)
	}
}

// A process that stops gives no cancelled job back. Its handler returns after the stop has cut it short.
func TestCancelThenStop(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(b *daemontest.Bundle) {
		b.Daemon.Register("Slow", func(ctx context.Context, id string) error {
			b.Runs.Start(id)
			<-ctx.Done()
			<-b.Gate
			return ctx.Err()
		})
	})
	p.Start()
	p.enqueue("Slow", "a")
	p.Eventually("it runs", func() bool { return p.starts("a") == 1 })
	p.Cancel()
	p.Daemon.StopNow()
	p.cancel("a")
	p.Open()
	_ = p.Wait()
	p.other.Start()
	p.dropped(1)
	if n := p.starts("a"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
}

// After Lift a job runs, and after a push with its id too: an old cancel hits no new job.
func TestCancelLifted(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.enqueue("Mark", "a")
	p.cancel("a")
	if err := p.client.Lift(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if err := p.client.Lift(t.Context(), "a"); !errors.Is(err, goworker.ErrUnknownJob) {
		t.Error(err)
	}
	for _, id := range []string{"b", "c"} {
		p.cancel(id, goworker.Force())
	}
	p.run()
	p.Eventually("it runs", func() bool { return p.starts("a") == 1 })
	p.enqueue("Mark", "b")
	p.enqueue("Mark", "d", goworker.ProcessIn(time.Second))
	p.Eventually("the new jobs run", func() bool { return p.starts("b") == 1 && p.starts("d") == 1 })
	if got := p.cancelled(); got != "j:c" {
		t.Errorf("the entries are %q", got)
	}
	many := []goworker.Item{
		{Job: goworker.NewJob("work", "Mark", "e"), Options: []goworker.EnqueueOption{goworker.WithID("c")}},
		{Job: goworker.NewJob("work", "Mark", "f")},
	}
	if _, err := p.client.EnqueueMany(t.Context(), many...); err != nil {
		t.Fatal(err)
	}
	p.Eventually("all run", func() bool { return p.starts("e") == 1 && p.starts("f") == 1 })
	if got := p.cancelled(); got != "" || p.logged("job cancelled") > 0 {
		t.Errorf("the entries are %q", got)
	}
}

// What cannot be cancelled is an error, and leaves nothing.
func TestCancelTooLate(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.run()
	p.enqueue("Mark", "done")
	p.enqueue("Fail", "failed")
	p.Eventually("both have ended", func() bool { return p.Stat("processed") == 2 && len(p.Failures()) == 1 })
	for id, want := range map[string]error{"done": goworker.ErrUnknownJob, "failed": goworker.ErrJobEnded} {
		if err := p.client.Cancel(t.Context(), id); !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", id, err, want)
		}
	}
	if got := p.cancelled(); got != "" {
		t.Errorf("the entries are %q", got)
	}
}

// An ActiveJob is cancelled by the id that Rails gave it, and a job of a class that no process knows too.
func TestCancelOthers(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(b *daemontest.Bundle) {
		b.Daemon.Register("RailsJob", b.Classes()["Hold"])
	})
	p.run()
	p.Push(`{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"RailsJob","job_id":"rails","arguments":["r"]}]}`)
	p.Eventually("it runs", func() bool { return p.starts("r") == 1 })
	p.cancel("rails")
	p.dropped(1)
	p.cancel("unknown", goworker.Force())
	p.Push(`{"class":"Nobody","args":[],"id":"unknown"}`)
	p.dropped(2)
}

// Where Redis does not track keys a process looks each second while it runs a job.
func TestCancelUntracked(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil, func(s *goworker.WorkerSettings) { s.DisableTracking, s.PollInterval = true, 200*time.Millisecond })
	p.run()
	p.enqueue("Hold", "a")
	p.Eventually("it runs", func() bool { return p.starts("a") == 1 })
	p.cancel("a")
	p.dropped(1)
	p.enqueue("Mark", "b", goworker.ProcessIn(time.Hour))
	p.cancel("b")
	var held []string // a job for each worker: when the last has ended, both processes know of the cancels before
	for n := range 2 * p.Settings.Concurrency {
		held = append(held, fmt.Sprint("held", n))
		p.enqueue("Hold", held[n])
	}
	p.Eventually("all workers have one", func() bool {
		return !slices.ContainsFunc(held, func(id string) bool { return p.starts(id) == 0 })
	})
	for _, id := range held {
		p.cancel(id)
	}
	p.Eventually("they are dropped", func() bool { return p.logged("job cancelled") == 1+len(held) })
	p.Due()
	p.dropped(2 + len(held))
	if p.starts("b") > 0 {
		t.Error("the cancelled job ran")
	}
}

// With more cancelled jobs than a process keeps it asks Redis about each job with an id, also about those
// that run.
func TestCancelMany(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil)
	p.run()
	p.enqueue("Hold", "runs")
	p.Eventually("it runs", func() bool { return p.starts("runs") == 1 })
	p.cancel("waits", goworker.Force())
	p.Redis.Do(t, "EVAL", `for n = 1, 3000 do redis.call('ZADD', KEYS[1], 9e12 + n, 'j:x' .. n) end`, 1, "resque:go:cancelled")
	p.Push(`{"class":"Mark","args":["waits"],"id":"waits"}`, `{"class":"Mark","args":["free"],"id":"free"}`, daemontest.Job("Mark", "plain"))
	p.Eventually("those that were not cancelled run", func() bool { return p.starts("free") == 1 && p.starts("plain") == 1 })
	p.cancel("runs")
	p.Eventually("the cancelled ones are dropped", func() bool { return p.logged("job cancelled") == 2 })
	p.Eventually("their entries are gone", func() bool { return p.Redis.Int(t, "ZCARD", "resque:go:cancelled") == 3000 })
	if p.starts("waits") > 0 || p.Stat("failed") > 0 {
		t.Error("a cancelled job ran, or failed")
	}
}

// While the set is of another type no job counts as cancelled; when it is removed by hand the cancels are
// forgotten. Both cost no job.
func TestCancelledSetIsDamaged(t *testing.T) {
	t.Parallel()
	p := newPair(t, nil, func(s *goworker.WorkerSettings) { s.PollInterval = time.Second })
	p.run()
	p.cancel("a", goworker.Force())
	p.cancel("b", goworker.Force())
	p.Redis.Do(t, "DEL", "resque:go:cancelled")
	p.Push(`{"class":"Mark","args":["a"],"id":"a"}`)
	p.Eventually("the forgotten one runs", func() bool { return p.starts("a") == 1 })

	p.Redis.Do(t, "SET", "resque:go:cancelled", "x")
	p.enqueue("Mark", "b")
	p.Eventually("jobs run", func() bool { return p.starts("b") == 1 })
	p.Eventually("the log says it", func() bool { return p.logged("resque:go:cancelled") >= 2 })
	if err := p.client.Cancel(t.Context(), "c"); err == nil || !strings.Contains(err.Error(), "the key resque:go:cancelled is not a sorted set") {
		t.Error(err)
	}
	p.Redis.Do(t, "DEL", "resque:go:cancelled")
	p.enqueue("Hold", "d")
	p.Eventually("it runs", func() bool { return p.starts("d") == 1 })
	p.cancel("d")
	p.dropped(1)
}

// Cancels come at any moment of jobs that two processes take, run, retry and keep in lanes. Each job is done
// or dropped, none is filed, and neither a slot nor an entry is left.
func TestCancelAtAnyMoment(t *testing.T) {
	t.Parallel()
	p := newPair(t, func(b *daemontest.Bundle) {
		run := func(ctx context.Context, id string) error {
			b.Runs.Start(id)
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(time.Duration(rand.IntN(20)) * time.Millisecond):
			}
			b.Runs.End(id)
			return nil
		}
		b.Daemon.Register("Free", run)
		b.Daemon.Register("Narrow", run, goworker.MaxRunning(3))
		b.Daemon.Register("Again", func(ctx context.Context, id string) error {
			if err := run(ctx, id); err != nil || goworker.FromContext(ctx).Attempt > 1 {
				return err
			}
			return errors.New("no luck")
		}, goworker.Retry(2, goworker.Delays{10 * time.Millisecond}))
	})
	p.run()
	const jobs = 300
	var wg sync.WaitGroup
	for n := range jobs {
		id := fmt.Sprint("job", n)
		p.enqueue([]string{"Free", "Narrow", "Again"}[n%3], id)
		wg.Go(func() {
			time.Sleep(time.Duration(rand.IntN(100)) * time.Millisecond)
			err := p.client.Cancel(t.Context(), id)
			if err != nil && !errors.Is(err, goworker.ErrUnknownJob) {
				t.Error(err)
			}
		})
		if n%10 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
	wg.Wait()
	p.Eventually("no job is left", func() bool {
		page, err := p.client.Inspect().Find(t.Context(), inspect.Query{}, "", 1)
		return err == nil && len(page.Jobs) == 0
	})
	cancelled, failed := p.logged("job cancelled"), p.Stat("failed")
	t.Logf("%d of %d were dropped", cancelled, jobs)
	if failed > 0 || cancelled == 0 || cancelled == jobs {
		t.Errorf("%d were dropped, %d failed", cancelled, failed)
	}
	t.Logf("entries that are left: %q", p.cancelled())
	p.NothingWaits()
}

// While no job is cancelled, a daemon reads the set once for each connection, and sends nothing more, idle or
// busy.
func TestCancelCostsNothing(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Redis.Do(t, "CONFIG", "RESETSTAT")
	b.Start()
	b.Idle()
	calls := func(command string) (n int) {
		for line := range strings.Lines(b.Redis.Text(t, "INFO", "commandstats")) {
			if rest, is := strings.CutPrefix(line, "cmdstat_"+command+":calls="); is {
				fmt.Sscan(rest, &n)
			}
		}
		return n
	}
	before := calls("zrem")
	monitor := b.Redis.Monitor(t)
	b.Push(daemontest.Jobs("Mark", 200)...)
	b.Eventually("they ran", func() bool { return b.Stat("processed") == 200 })
	b.Renewed(1)
	for _, command := range monitor.Commands() {
		if strings.Contains(fmt.Sprint(command), "go:cancelled") {
			t.Errorf("a command of a busy daemon: %q", command)
		}
	}
	if after := calls("zrem"); after != before {
		t.Errorf("%d ZREM", after-before)
	}
}
