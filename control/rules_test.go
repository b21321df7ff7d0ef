package control_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// runs are the jobs that were run, in their order.
type runs struct {
	mu  sync.Mutex
	all []string
}

func (r *runs) add(name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, name)
}

func (r *runs) of(class string) (all []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, name := range r.all {
		if strings.HasPrefix(name, class) {
			all = append(all, name)
		}
	}
	return all
}

// classes registers classes whose jobs have a number, and note that they run.
func (r *runs) classes(names ...string) func(*goworker.WorkerSettings, *goworker.Daemon) {
	return func(_ *goworker.WorkerSettings, d *goworker.Daemon) {
		for _, name := range names {
			d.Register(name, func(_ context.Context, n int) { r.add(fmt.Sprint(name, n)) })
		}
	}
}

func (f *fleet) enqueue(class string, numbers ...int) {
	f.Helper()
	for _, n := range numbers {
		if _, err := f.client.Enqueue(f.Context(), goworker.NewJob("work", class, n)); err != nil {
			f.Fatal(err)
		}
	}
}

func (f *fleet) ok(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

func (f *fleet) wait(what string, r *runs, class string, want ...string) {
	f.Helper()
	redistest.Eventually(f.T, daemontest.Soon, what, func() bool { return slices.Equal(r.of(class), want) })
}

// heeded changes a rule, and returns when the process that works has read the rules: a poller that is about to ask for jobs may take one of
// the class by the rules of before.
func (f *fleet) heeded(change func() error) {
	f.Helper()
	m := f.redis.Monitor(f.T)
	f.ok(change())
	redistest.Eventually(f.T, daemontest.Soon, "the process has read the rules", func() bool {
		changed, armed := false, false
		for _, c := range m.Commands() {
			switch of := slices.Contains(c, "resque:go:rules"); {
			case of && strings.HasPrefix(c[0], "EVAL"):
				changed, armed = true, false
			case changed && len(c) == 3 && c[1] == "CACHING": // only a poller has Redis watch the key
				armed = true
			case armed && of:
				return true
			}
		}
		return false
	})
}

// The jobs of a paused class wait while the others of their queue run, and run in their order when it is resumed. A process that starts
// meanwhile obeys it.
func TestPausedClass(t *testing.T) {
	t.Parallel()
	f, r := setup(t), new(runs)
	c, ctx := control.New(f.client), t.Context()
	f.start("first", r.classes("A", "B"))
	f.heeded(func() error { return c.PauseClass(ctx, "A", control.Why("the mail server is down")) })
	f.enqueue("A", 1, 2)
	f.enqueue("B", 1)
	f.enqueue("A", 3)
	f.enqueue("B", 2)
	f.wait("the other jobs run", r, "B", "B1", "B2")
	f.start("second", r.classes("A", "B"))
	f.enqueue("A", 4)
	f.enqueue("B", 3)
	f.wait("the others run", r, "B", "B1", "B2", "B3")
	redistest.Eventually(t, daemontest.Soon, "the jobs wait in their lane", func() bool {
		waiting, err := f.client.Inspect().Waiting(ctx, "work")
		f.ok(err)
		return slices.ContainsFunc(waiting, func(w inspect.WaitingInfo) bool { return w.Jobs == 4 && slices.Equal(w.Limits, []string{"pause/A"}) })
	})
	if got := r.of("A"); len(got) > 0 {
		t.Errorf("%q have run", got)
	}
	rules, err := f.client.Inspect().Rules(ctx)
	if err != nil || len(rules) != 1 || rules[0].Kind != "class" || rules[0].About != "A" || rules[0].Why != "the mail server is down" || rules[0].By == "" {
		t.Errorf("the rules are %+v, %v", rules, err)
	}
	f.ok(c.ResumeClass(ctx, "A"))
	redistest.Eventually(t, daemontest.Soon, "they run", func() bool { return len(r.of("A")) == 4 })
	f.enqueue("A", 5)
	f.enqueue("B", 4)
	redistest.Eventually(t, daemontest.Soon, "jobs that come later run", func() bool { return len(r.of("A")) == 5 && len(r.of("B")) == 4 })
	if err := c.ResumeClass(ctx, "A"); !errors.Is(err, inspect.ErrNoRule) {
		t.Errorf("resumed twice: %v", err)
	}
}

// A process that was cut off while operators paused a class and a queue obeys them when it is back, before it takes a job.
func TestPausedWhileCutOff(t *testing.T) {
	t.Parallel()
	f, r := setup(t), new(runs)
	c, ctx := control.New(f.client), t.Context()
	proxy := f.redis.StartProxy(t)
	a := f.start("first", r.classes("A", "B", "C"), func(s *goworker.WorkerSettings, _ *goworker.Daemon) {
		s.URI, s.QueuesString = "redis://"+proxy.Addr, "other,work"
	})
	proxy.Refuse(true)
	redistest.Eventually(t, daemontest.Soon, "it is cut off", func() bool { return !a.Health().Ready })
	f.ok(c.PauseClass(ctx, "A"))
	if err := c.PauseQueue(ctx, "other"); err != nil && !errors.Is(err, inspect.ErrUnknownQueue) {
		t.Fatal(err)
	}
	if _, err := f.client.Enqueue(ctx, goworker.NewJob("other", "C", 1)); err != nil {
		t.Fatal(err)
	}
	f.enqueue("A", 1)
	f.enqueue("B", 1)
	proxy.Refuse(false)
	f.wait("the job behind the paused ones runs", r, "B", "B1")
	if a, c := r.of("A"), r.of("C"); len(a)+len(c) > 0 {
		t.Errorf("%q of the paused class and %q of the paused queue have run", a, c)
	}
	f.ok(c.ResumeClass(ctx, "A"))
	f.ok(c.ResumeQueue(ctx, "other"))
	f.wait("the jobs of the class run", r, "A", "A1")
	f.wait("the jobs of the queue run", r, "C", "C1")
}

// Jobs of a resumed class run in the order in which they came.
func TestResumedClassIsInOrder(t *testing.T) {
	t.Parallel()
	f, r := setup(t), new(runs)
	c, ctx := control.New(f.client), t.Context()
	f.start("first", r.classes("A", "B"))
	f.heeded(func() error { return c.PauseClass(ctx, "A") })
	f.enqueue("A", 1, 2, 3, 4, 5)
	f.enqueue("B", 1)
	f.wait("the other job runs", r, "B", "B1")
	f.ok(c.ResumeClass(ctx, "A"))
	f.wait("they run in order", r, "A", "A1", "A2", "A3", "A4", "A5")
}

// A pause with an end ends by itself in each process, whether or not the fleet's keeper takes it away.
func TestTimedPause(t *testing.T) {
	t.Parallel()
	f, r := setup(t), new(runs)
	c, ctx := control.New(f.client), t.Context()
	f.redis.Do(t, "HSET", "resque:go:process:!dead", "duties", 9, "version", "9")
	f.redis.Do(t, "ZADD", "resque:go:processes", time.Now().Add(time.Hour).UnixMilli(), "!dead") // the keeper, which does nothing any more
	f.start("first", r.classes("A"))
	if err := c.PauseQueue(ctx, "work", control.For(2*time.Second)); !errors.Is(err, inspect.ErrUnknownQueue) && err != nil {
		t.Fatal(err)
	}
	f.enqueue("A", 1)
	f.wait("the pause ends", r, "A", "A1")
	f.ok(c.PauseClass(ctx, "A", control.For(2*time.Second)))
	f.enqueue("A", 2)
	f.wait("the pause of the class ends too, which only a change in Redis does", r, "A", "A1", "A2")
	redistest.Eventually(t, daemontest.Soon, "a process takes the pauses away that the keeper leaves", func() bool {
		return f.redis.Int(t, "SISMEMBER", "resque:go:paused", "work")+f.redis.Int(t, "HLEN", "resque:go:rules") == 0
	})
	f.redis.Do(t, "ZREM", "resque:go:processes", "!dead")
	redistest.Eventually(t, daemontest.Soon, "the log says so", func() bool {
		lines, _, err := f.client.Inspect().Log(ctx, "", 10)
		f.ok(err)
		return slices.ContainsFunc(lines, func(l inspect.LogEntry) bool { return l.Kind == inspect.LogRuleEnded && l.More["rule"] == "pause:work" })
	})

	// A pause without an end has no rule, and takes the place of one with an end.
	f.ok(c.PauseQueue(ctx, "work", control.For(time.Hour)))
	f.ok(c.PauseQueue(ctx, "work"))
	if f.redis.Int(t, "HLEN", "resque:go:rules") != 0 || f.redis.Int(t, "SCARD", "resque:go:paused") != 1 {
		t.Error("a pause without an end has one")
	}
	f.ok(c.PauseQueue(ctx, "work", control.For(time.Hour)))
	f.ok(c.ResumeQueue(ctx, "work"))
	if f.redis.Int(t, "HLEN", "resque:go:rules")+f.redis.Int(t, "SCARD", "resque:go:paused") != 0 {
		t.Error("a resumed queue is paused")
	}
}

// A limit that an operator has set survives ten starts of a program with another number, and that of an older release is put back. A
// reset restores the program's.
func TestLimitSurvivesStarts(t *testing.T) {
	t.Parallel()
	f := setup(t)
	c, ctx := control.New(f.client), t.Context()
	limited := func(_ *goworker.WorkerSettings, d *goworker.Daemon) {
		d.Register("A", func(context.Context, int) {}, goworker.MaxRunning(5))
	}
	number := func() string { return f.redis.Text(t, "HGET", "resque:go:limits", "c:A") }
	stop := f.start("first", limited).stop
	redistest.Eventually(t, daemontest.Soon, "its number is there", func() bool { return f.redis.Int(t, "HEXISTS", "resque:go:limits", "c:A") == 1 })
	f.ok(stop())
	f.ok(c.Limit(ctx, "A", "2", control.Why("the database is slow")))
	for n := range 10 {
		d := f.start(fmt.Sprint(n), limited)
		f.enqueue("A", n)
		redistest.Eventually(t, daemontest.Soon, "its job has run", func() bool { size, err := f.client.Inspect().QueueSize(ctx, "work"); return err == nil && size == 0 })
		if got := number(); got != "2" {
			t.Fatalf("after start %d the limit is %s", n, got)
		}
		f.ok(d.stop())
	}
	f.start("last", limited)
	f.redis.Do(t, "HSET", "resque:go:limits", "c:A", "5") // as a process of an older release does
	redistest.Eventually(t, daemontest.Soon, "the number is put back", func() bool { return number() == "2" })
	f.ok(c.Reset(ctx, "A"))
	if n := f.redis.Int(t, "HLEN", "resque:go:rules"); n != 0 {
		t.Errorf("%d rules are left", n)
	}
	f.enqueue("A", 11)
	redistest.Eventually(t, daemontest.Soon, "the number is the program's", func() bool {
		return f.redis.Int(t, "HEXISTS", "resque:go:limits", "c:A") == 1 && number() == "5"
	})
}

// A class without limits is held to a rate, its queue's other jobs go on. By a key each value has its own count.
func TestLimitedClass(t *testing.T) {
	t.Parallel()
	f, r := setup(t), new(runs)
	c, ctx := control.New(f.client), t.Context()
	f.start("first", r.classes("A", "B", "C"))
	f.heeded(func() error { return c.LimitClass(ctx, "A", "1/h") })
	f.heeded(func() error { return c.LimitClass(ctx, "C", "1/h", control.Key("0")) })
	f.enqueue("A", 1, 2, 3)
	f.enqueue("C", 7, 7, 8)
	f.enqueue("B", 1, 2, 3)
	f.wait("the others run", r, "B", "B1", "B2", "B3")
	f.wait("one runs", r, "A", "A1")
	redistest.Eventually(t, daemontest.Soon, "one of each key runs", func() bool { return len(r.of("C")) == 2 })
	if got := r.of("C"); !slices.Contains(got, "C7") || !slices.Contains(got, "C8") {
		t.Errorf("of two keys %q run", got)
	}
	f.ok(c.ResetClass(ctx, "A"))
	f.ok(c.ResetClass(ctx, "C"))
	redistest.Eventually(t, daemontest.Soon/2, "all run", func() bool { return len(r.of("A")) == 3 && len(r.of("C")) == 3 })
	for _, wrong := range []error{
		c.LimitClass(ctx, "A", "0"), c.LimitClass(ctx, "A", "1/x"), c.LimitClass(ctx, "", "1"), c.LimitClass(ctx, "A", "1", control.Key("x")), c.LimitClass(ctx, "A", "1", control.To("x")),
		c.PauseClass(ctx, "A", control.For(-1)), c.Limit(ctx, "other", "1"), c.ResetClass(ctx, "A"),
	} {
		if wrong == nil {
			t.Error("a rule that makes no sense is no error")
		}
	}
}

// A timeout and a number of retries that an operator sets go before those of Register, from the next run on, and end with a reset.
func TestTimeoutAndRetries(t *testing.T) {
	t.Parallel()
	f, r := setup(t), new(runs)
	c, ctx := control.New(f.client), t.Context()
	f.start("first", r.classes("B"), func(_ *goworker.WorkerSettings, d *goworker.Daemon) {
		d.Register("A", func(ctx context.Context, n int) error {
			r.add(fmt.Sprint("A", n))
			if _, limited := ctx.Deadline(); limited {
				r.add("limited")
			}
			return errors.New("no luck")
		}, goworker.Retry(2, goworker.Exponential{Base: time.Millisecond}), goworker.Alias("OldA"))
	})
	ended := 0
	// run has jobs run, one after the other, until one runs as the rules now say: a process learns of a rule a moment after it was set.
	run := func(class string, n int, what string, want func(runs, limited int) bool) {
		t.Helper()
		redistest.Eventually(t, daemontest.Soon, what, func() bool {
			runs, limited := len(r.of(fmt.Sprint("A", n))), len(r.of("limited"))
			f.enqueue(class, n)
			ended++
			redistest.Eventually(t, daemontest.Soon, "the job has failed", func() bool { return f.redis.Int(t, "LLEN", "resque:failed") == ended })
			return want(len(r.of(fmt.Sprint("A", n)))-runs, len(r.of("limited"))-limited)
		})
	}
	f.ok(c.Retries(ctx, "A", 0))
	f.ok(c.Timeout(ctx, "A", time.Hour))
	once := func(runs, limited int) bool { return runs == 1 && limited == 1 }
	run("A", 1, "a job of the class runs once, with a limit", once)
	run("OldA", 3, "a job with an alias of the class runs once, with a limit", once)
	f.ok(c.ResetClass(ctx, "A"))
	run("A", 2, "after the reset a job runs three times, without a limit", func(runs, limited int) bool { return runs == 3 && limited == 0 })
	if c.Retries(ctx, "A", -2) == nil || c.Timeout(ctx, "A", -1) == nil {
		t.Error("a rule that makes no sense is no error")
	}
}

// The rules of a Redis hold for the jobs there, and for no others of a process that works on several.
func TestRulesOfShards(t *testing.T) {
	t.Parallel()
	f, r, other := setup(t), new(runs), redistest.Start(t)
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 2, PollInterval: time.Minute, DisableSignals: true, Logger: daemontest.Quiet},
		goworker.Shard{URI: f.redis.URI(), Queues: []string{"work"}}, goworker.Shard{URI: other.URI(), Queues: []string{"more"}})
	defer s.Close()
	for _, class := range []string{"A", "B"} {
		s.Register(class, func(_ context.Context, n int) error {
			r.add(fmt.Sprint(class, n))
			return errors.New("no luck")
		}, goworker.Retry(1, goworker.Exponential{Base: time.Millisecond}))
	}
	one, two := s.Daemons()[0], s.Daemons()[1]
	f.ok(s.Init())
	f.ok(control.New(one).PauseClass(t.Context(), "A"))
	f.ok(control.New(two).Retries(t.Context(), "B", 0))
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	defer func() {
		cancel()
		<-ended
	}()
	enqueue := func(queue, class string, n int) {
		_, err := s.Client().Enqueue(ctx, goworker.NewJob(queue, class, n))
		f.ok(err)
	}
	enqueue("more", "A", 1)
	enqueue("more", "B", 1)
	enqueue("work", "A", 2)
	enqueue("work", "B", 2)
	all := func(want map[string]int) func() bool {
		return func() bool {
			for class, n := range want {
				if len(r.of(class)) != n {
					return false
				}
			}
			return f.redis.Int(t, "LLEN", "resque:failed")+other.Int(t, "LLEN", "resque:failed") == 3
		}
	}
	redistest.Eventually(t, daemontest.Soon, "the jobs have run as often as the rules of their Redis say", all(map[string]int{"A1": 2, "B1": 1, "A2": 0, "B2": 2}))
	rules, err := control.New(s).Rules(ctx)
	if err != nil || len(rules) != 2 || rules[0].Shard == rules[1].Shard || rules[0].Shard == "" {
		t.Errorf("%+v, %v", rules, err)
	}
}
