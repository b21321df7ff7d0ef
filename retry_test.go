package goworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// tries notes what the runs of the class Try saw.
type tries struct {
	*bundle
	mu  sync.Mutex
	saw []string // "attempt/left"
}

// trying is a bundle whose class Try takes an id and returns what f returns.
func trying(t *testing.T, f func(d *Delivery) error, opts ...Option) *tries {
	t.Helper()
	return tryingOn(setup(t), f, opts...)
}

func tryingOn(b *bundle, f func(d *Delivery) error, opts ...Option) *tries {
	s := &tries{bundle: b}
	s.daemon.Register("Try", func(ctx context.Context, id string) error {
		d := FromContext(ctx)
		s.mu.Lock()
		s.saw = append(s.saw, fmt.Sprint(d.Attempt, "/", d.RetriesLeft))
		s.mu.Unlock()
		s.runs.start(id)
		defer s.runs.end(id)
		return f(d)
	}, opts...)
	return s
}

func (s *tries) seen() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.saw, " ")
}

// scheduled are the jobs that wait in our own schedule, without their queue. Those that
// due has called are not waiting any more.
func (b *bundle) scheduled() []string {
	b.t.Helper()
	var all []string
	for _, member := range b.waiting() {
		all = append(all, strings.TrimPrefix(member, "4:work"))
	}
	return all
}

func (b *bundle) waiting(more ...any) []string {
	b.t.Helper()
	return b.redis.List(b.t, "ZRANGE", append([]any{"resque:go:schedule", 2, "+inf", "BYSCORE"}, more...)...)
}

// due makes all jobs that wait run now.
func (b *bundle) due() {
	b.t.Helper()
	for _, member := range b.waiting() {
		b.redis.Do(b.t, "ZADD", "resque:go:schedule", 1, member)
	}
}

var errNoLuck = errors.New("no luck")

func unlucky(*Delivery) error { return errNoLuck }

// A job that keeps failing runs n + 1 times, waits in Redis in between, and is filed
// as failed once.
func TestRetry(t *testing.T) {
	t.Parallel()
	b := trying(t, unlucky, Retry(2, Delays{time.Hour, 2 * time.Hour}))
	var hooks []string
	b.daemon.AddHooks(Hooks{
		Retry: func(ctx context.Context, d *Delivery, err error, at time.Time) {
			wait := time.Until(at).Round(time.Hour)
			hooks = append(hooks, fmt.Sprint("retry ", d.Attempt, " ", err, " ", wait, " ", FromContext(ctx) == d))
		},
		Failure: func(_ context.Context, d *Delivery, err error) {
			hooks = append(hooks, fmt.Sprint("failure ", d.Attempt, " ", err))
		},
	})
	b.push(job("Try", "a"))
	start := time.Now()
	b.start()
	for run := 1; run <= 2; run++ {
		b.eventually("the job waits", func() bool { return len(b.scheduled()) == 1 })
		score, _ := strconv.ParseFloat(b.waiting("WITHSCORES")[1], 64)
		if wait := time.UnixMilli(int64(score)).Sub(start) - time.Duration(run)*time.Hour; wait < 0 || wait > time.Minute {
			t.Errorf("after run %d it waits %s more than %d h", run, wait, run)
		}
		if p := b.scheduled()[0]; !strings.HasPrefix(p, fmt.Sprintf(`{"class":"Try","args":["a"],"attempt":%d,"id":"`, run+1)) {
			t.Errorf("what waits is %s", p)
		}
		if got := [2]int{b.stat("processed"), b.stat("failed")}; got != [2]int{run, 0} {
			t.Errorf("after run %d: processed and failed are %v", run, got)
		}
		if n := len(b.failures()); n != 0 {
			t.Errorf("%d failures while it is retried", n)
		}
		b.due()
	}
	b.eventually("it is given up", func() bool { return len(b.failures()) == 1 })
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if got := b.seen(); got != "1/2 2/1 3/0" {
		t.Errorf("the runs saw %s", got)
	}
	if f := b.failures()[0]; f.Error != "no luck" || !strings.Contains(string(f.Payload), `"attempt":3,"id":"`) {
		t.Errorf("failure %q of %s", f.Error, f.Payload)
	}
	if got := [2]int{b.stat("processed"), b.stat("failed")}; got != [2]int{3, 1} {
		t.Errorf("processed and failed are %v", got)
	}
	want := []string{"retry 1 no luck 1h0m0s true", "retry 2 no luck 2h0m0s true", "failure 3 no luck"}
	if !slices.Equal(hooks, want) {
		t.Errorf("hooks saw %q", hooks)
	}
	if n := b.log.count("job failed; it is retried"); n != 2 {
		t.Errorf("%d log lines about retries, want 2", n)
	}
	if n := b.log.count("job failed"); n != 3 {
		t.Errorf("%d log lines about failures, want 3", n)
	}
	b.onlyTotals()
}

// Without a wait a job goes behind the others of its queue, and the daemon goes on with
// it although Redis tells nobody of his own pushes.
func TestRetryAtOnce(t *testing.T) {
	t.Parallel()
	b := trying(t, unlucky, Retry(3, Delays{0}))
	b.start()
	b.idle()
	b.push(job("Try", "a"))
	b.eventually("it is given up", func() bool { return len(b.failures()) == 1 })
	if got := b.seen(); got != "1/3 2/2 3/1 4/0" {
		t.Errorf("the runs saw %s", got)
	}
	if n := b.stat("processed"); n != 4 {
		t.Errorf("stat:processed is %d, want 4", n)
	}
}

// A stop is no failure: the job goes back to its queue with the count it had.
func TestStopBurnsNoAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.ShutdownTimeout = time.Millisecond })
	b.daemon.Register("Hold", func(ctx context.Context, id string) error {
		b.runs.start(id)
		<-ctx.Done()
		return ctx.Err()
	}, Retry(1, Delays{0}))
	var failures int
	b.daemon.AddHooks(Hooks{Failure: func(context.Context, *Delivery, error) { failures++ }})
	payload := `{"class":"Hold","args":["a"],"attempt":2,"id":"x"}`
	b.push(payload)
	b.start()
	b.eventually("it runs", func() bool { return b.runs.starts("a") == 1 })
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if q := b.queue("work"); !slices.Equal(q, []string{payload}) || failures > 0 || b.stat("processed") > 0 {
		t.Errorf("the queue holds %q; %d failures, %d processed", q, failures, b.stat("processed"))
	}
}

// Jobs that were cancelled are retried, as Ruby retries a DirtyExit.
func TestCancelledIsRetried(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("Hold", func(ctx context.Context, id string) error {
		b.runs.start(id)
		<-ctx.Done()
		return ctx.Err()
	}, Retry(1, Delays{time.Hour}))
	b.push(job("Hold", "a"))
	b.start()
	b.eventually("it runs", func() bool { return b.runs.starts("a") == 1 })
	b.daemon.CancelJobs()
	b.eventually("it waits", func() bool { return len(b.scheduled()) == 1 })
}

// Jobs that are equal to the last byte, whose producer gave them one id, are several.
func TestRetryOfEqualJobs(t *testing.T) {
	t.Parallel()
	b := trying(t, unlucky, Retry(2, Delays{time.Hour}))
	for range 3 {
		b.push(`{"class":"Try","args":["a"],"id":"same"}`)
	}
	b.start()
	b.eventually("three wait", func() bool { return len(b.scheduled()) == 3 })
	b.due()
	b.eventually("three wait again", func() bool { return len(b.scheduled()) == 3 && b.stat("processed") == 6 })
	b.due()
	b.eventually("three failed", func() bool { return len(b.failures()) == 3 })
}

// What is written beside class and args is kept, number by number.
func TestRetryKeepsThePayload(t *testing.T) {
	t.Parallel()
	b := trying(t, unlucky, Retry(2, Delays{time.Hour}))
	b.push(`{ "queue_time":1.50, "class":"Try","args":["a"],"id":7 }`)
	b.start()
	b.eventually("it waits", func() bool { return len(b.scheduled()) == 1 })
	got := b.scheduled()[0]
	if want := `{ "queue_time":1.50, "class":"Try","args":["a"],"id":7,"attempt":2,"retry_id":"`; !strings.HasPrefix(got, want) {
		t.Errorf("it waits as %s", got)
	}
	b.due()
	b.eventually("it waits again", func() bool { return len(b.scheduled()) == 1 && b.stat("processed") == 2 })
	if again := b.scheduled()[0]; again != strings.Replace(got, `"attempt":2`, `"attempt":3`, 1) {
		t.Errorf("it waits as %s", again)
	}
}

// Ten thousand jobs that wait to be retried cost the daemon neither a worker nor memory.
func TestWaitingCostsNothing(t *testing.T) {
	const waiting = 10_000
	b := setup(t, func(s *WorkerSettings) { s.Logger = slog.New(slog.DiscardHandler) })
	b.daemon.Register("Wait", func(string) error { return errNoLuck }, Retry(2, Delays{time.Hour}))
	b.start()
	b.idle()
	weigh := func() (heap, goroutines int) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc), runtime.NumGoroutine()
	}
	c := b.redis.Dial(t) // one for all: the test's own connections weigh more than what is measured
	wait := func(total int) {
		for range 10 {
			args := []any{"resque:queue:work"}
			for _, j := range jobs("Wait", waiting/10) {
				args = append(args, j)
			}
			if _, err := c.Do("RPUSH", args...); err != nil {
				t.Fatal(err)
			}
		}
		b.eventually("they wait", func() bool { n, _ := c.Do("ZCARD", "resque:go:schedule"); return n == int64(total) })
		b.eventually("the daemon holds none of them", func() bool { held, busy := b.load(); return held+busy == 0 })
	}
	wait(waiting) // its buffers have grown by now
	heap, goroutines := weigh()
	wait(2 * waiting)
	if h, g := weigh(); h > heap+waiting*20 || g > goroutines+4 {
		t.Errorf("%d bytes and %d goroutines, %d and %d before", h, g, heap, goroutines)
	}
	b.push(jobs("Mark", 4)...)
	b.eventually("other jobs run", func() bool { return b.runs.finished() == 5 })
}

// load is how many jobs the poller holds, and how many workers have one.
func (b *bundle) load() (held, busy int) {
	done := make(chan struct{})
	b.daemon.poller.ask(func() { held, busy = len(b.daemon.poller.held), b.daemon.poller.busy; close(done) })
	<-done
	return held, busy
}

// A unique job keeps its lock while it waits to be retried, and gives it up at its end.
func TestRetryOfUniqueJob(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]RetryOption{{Delays{time.Hour}}, {Delays{time.Hour}, ResqueRetry{}}} {
		b := trying(t, unlucky, Retry(1, opts...))
		first := b.mustEnqueue("Try", "a", Unique())
		b.start()
		b.eventually("it waits", func() bool { return len(b.scheduled()) == 1 })
		b.mustRefuse(first, "Try", "a", Unique())
		b.due()
		b.eventually("it is given up", func() bool { return len(b.failures()) == 1 })
		b.mustEnqueue("Try", "a", Unique())
		b.eventually("the next one waits", func() bool { return len(b.scheduled()) == 1 })
		if got := b.seen(); got != "1/1 2/0 1/1" {
			t.Errorf("the runs saw %s", got)
		}
	}
}
