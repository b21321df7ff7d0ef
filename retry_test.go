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

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
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

// What the handler's error says goes before the class's policy.
func TestRetryByError(t *testing.T) {
	t.Parallel()
	const (
		done = iota
		retried
		failed
		discarded
	)
	var nilPointer *nilError
	tests := []struct {
		name   string
		opts   []RetryOption // nil: the class has no Retry
		err    any           // returned, or panicked with if it is no error
		panics bool
		want   int
		text   string // of the failure, the error's own if empty
	}{
		{name: "nil", opts: []RetryOption{Delays{0}}, want: done},
		{name: "no option", err: errNoLuck, want: failed},
		{name: "any error", opts: []RetryOption{Delays{0}}, err: errNoLuck, want: retried},
		{name: "panic", opts: []RetryOption{Delays{0}}, err: errNoLuck, panics: true, want: retried},
		{name: "RetryOn, wrapped", opts: []RetryOption{Delays{0}, RetryOn(errNoLuck)}, err: fmt.Errorf("x: %w", errNoLuck), want: retried},
		{name: "RetryOn, another", opts: []RetryOption{Delays{0}, RetryOn(errNoLuck)}, err: errors.New("other"), want: failed, text: "other"},
		{name: "RetryIf", opts: []RetryOption{Delays{0}, RetryOn(context.Canceled), RetryIf(ErrorAs[*strconv.NumError])}, err: fmt.Errorf("x: %w", &strconv.NumError{Err: errNoLuck}), want: retried},
		{name: "NoRetryOn", opts: []RetryOption{Delays{0}, NoRetryOn(errNoLuck)}, err: fmt.Errorf("x: %w", errNoLuck), want: failed, text: "x: no luck"},
		{name: "NoRetryOn wins", opts: []RetryOption{Delays{0}, RetryOn(errNoLuck), NoRetryIf(ErrorAs[*PanicError])}, err: errNoLuck, panics: true, want: failed, text: "panic: no luck"},
		{name: "RetryIn", err: RetryIn(0, errNoLuck), want: retried},
		{name: "RetryIn wins over NoRetryOn", opts: []RetryOption{NoRetryOn(errNoLuck)}, err: RetryIn(0, errNoLuck), want: retried},
		{name: "RetryIn wrapped", err: fmt.Errorf("x: %w", RetryIn(0, nil)), want: retried},
		{name: "RetryIn joined", err: errors.Join(errNoLuck, RetryIn(0, nil)), want: retried},
		{name: "RetryIn with Retry(0)", opts: []RetryOption{}, err: RetryIn(0, nil), want: failed, text: "the handler asked to run again in 0s"},
		{name: "Discard", opts: []RetryOption{Delays{0}}, err: Discard(errNoLuck), want: discarded},
		{name: "Discard without Retry", err: fmt.Errorf("x: %w", Discard(nil)), want: discarded},
		{name: "Discard by panic", err: Discard(errNoLuck), panics: true, want: discarded},
		{name: "Fail", opts: []RetryOption{Delays{0}}, err: Fail(errNoLuck), want: failed},
		{name: "the outermost counts", err: Discard(RetryIn(0, Fail(errNoLuck))), want: discarded},
		{name: "the policy panics", opts: []RetryOption{RetryIf(func(error) bool { panic("oops") })}, err: errNoLuck, want: failed, text: "no luck (deciding about a retry panicked: oops)"},
		{name: "the delay panics", opts: []RetryOption{DelayFunc(func(int, error) time.Duration { panic("oops") })}, err: errNoLuck, want: failed, text: "no luck (deciding about a retry panicked: oops)"},
		{name: "nil pointer as error", opts: []RetryOption{Delays{0}, RetryOn(errNoLuck)}, err: nilPointer, want: failed},
	}
	server := redistest.Start(t)
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			ns := fmt.Sprint("t", i)
			b := setupOn(t, server, func(s *WorkerSettings) { s.Namespace = ns; s.ExitOnComplete = true; s.Concurrency = 1 })
			var opts []Option
			if tt.opts != nil {
				limit := 1
				if len(tt.opts) == 0 {
					limit = 0
				}
				opts = append(opts, Retry(limit, tt.opts...))
			}
			var hooks []string
			hook := func(name string) func(context.Context, *Delivery, error) {
				return func(context.Context, *Delivery, error) { hooks = append(hooks, name) }
			}
			b.daemon.AddHooks(Hooks{
				Failure: hook("failure"), Discard: hook("discard"),
				Success: func(context.Context, *Delivery) { hooks = append(hooks, "success") },
				Retry:   func(context.Context, *Delivery, error, time.Time) { hooks = append(hooks, "retry") },
			})
			first := true
			s := tryingOn(b, func(*Delivery) error {
				if !first {
					return nil
				}
				first = false
				err, _ := tt.err.(error)
				if tt.panics {
					panic(tt.err)
				}
				return err
			}, opts...)
			if err := b.daemon.Enqueue(&Job{"work", Payload{"Try", []any{"a"}}}); err != nil {
				t.Fatal(err)
			}
			b.start()
			if err := b.wait(); err != nil {
				t.Fatal(err)
			}
			runs, want := len(s.saw), [4]string{done: "success", retried: "retry success", failed: "failure", discarded: "discard"}[tt.want]
			waits := server.Int(t, "ZCARD", ns+":go:schedule")
			if got := strings.Join(hooks, " "); got != want || waits != 0 {
				t.Fatalf("the job ended as %q after %d runs, want %q; %d wait", got, runs, want, waits)
			}
			records := server.List(t, "LRANGE", ns+":failed", 0, -1)
			if (len(records) == 1) != (tt.want == failed) || server.Int(t, "GET", ns+":stat:failed") != len(records) {
				t.Fatalf("failures: %q", records)
			}
			if tt.want == failed {
				f, err := resque.ParseFailure([]byte(records[0]))
				if want := max(tt.text, "no luck"); err != nil || f.Error != want && tt.err != any(nilPointer) || strings.Contains(f.Exception, "wish") {
					t.Errorf("the failure is %s %q, want %q", f.Exception, f.Error, want)
				}
			}
		})
	}
}

// busyFor is an error that says when to come again, as servers do.
type busyFor time.Duration

func (busyFor) Error() string               { return "busy" }
func (b busyFor) RetryAfter() time.Duration { return time.Duration(b) }

type nilError struct{ err error }

func (e *nilError) Error() string { return e.err.Error() }
func (e *nilError) Unwrap() error { return e.err }

// An error with a method RetryAfter says how long to wait, if it says anything.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	p := retryPolicy{limit: 1, delay: func(int, error) time.Duration { return time.Hour }}
	for err, want := range map[error]time.Duration{
		fmt.Errorf("x: %w", busyFor(time.Minute)): time.Minute,
		busyFor(-1): time.Hour,
		RetryIn(time.Second, busyFor(time.Minute)):      time.Second,
		RetryIn(-time.Second, errNoLuck):                -time.Second,
		errors.Join(busyFor(0), busyFor(2*time.Minute)): 2 * time.Minute,
	} {
		wish, after := wished(err)
		if wait, retry, _ := p.decide(1, wish, after, err); !retry || wait != want {
			t.Errorf("%v: %s, %v; want %s", err, wait, retry, want)
		}
	}
}

// A handler that ends its goroutine is retried like any other.
func TestRetryAfterGoexit(t *testing.T) {
	t.Parallel()
	b := trying(t, func(d *Delivery) error {
		if d.Attempt < 3 {
			runtime.Goexit()
		}
		return nil
	}, Retry(5, Delays{0}))
	b.start()
	b.push(job("Try", "a"))
	b.eventually("it is done", func() bool { return b.stat("processed") == 3 })
	if n := b.stat("failed"); n != 0 {
		t.Errorf("stat:failed is %d", n)
	}
}

// RetryIn without Retry has a bound, or a job that never gets ready runs for ever.
func TestRetryInIsBounded(t *testing.T) {
	t.Parallel()
	b := trying(t, func(*Delivery) error { return RetryIn(0, errNoLuck) })
	b.start()
	b.push(job("Try", "a"))
	b.eventually("it is given up", func() bool { return len(b.failures()) == 1 })
	if n := b.stat("processed"); n != 1+DefaultRetries {
		t.Errorf("it ran %d times, want %d", n, 1+DefaultRetries)
	}
}

func TestRetryForEver(t *testing.T) {
	t.Parallel()
	b := trying(t, func(d *Delivery) error {
		if d.RetriesLeft != NoLimit {
			return Fail(fmt.Errorf("%d left", d.RetriesLeft))
		}
		if d.Attempt < 100 {
			return errNoLuck
		}
		return nil
	}, Retry(NoLimit, Delays{0}))
	b.start()
	b.push(job("Try", "a"))
	b.eventually("a hundred runs", func() bool { return b.stat("processed") == 100 })
	if f := b.failures(); len(f) > 0 {
		t.Error(f[0].Error)
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
