package goworker_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// A job that keeps failing runs n + 1 times, waits in Redis in between, and is filed
// as failed once.
func TestRetry(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, daemontest.Unlucky, goworker.Retry(2, goworker.Delays{time.Hour, 2 * time.Hour}))
	var hooks []string
	b.Daemon.AddHooks(goworker.Hooks{
		Retry: func(ctx context.Context, d *goworker.Delivery, err error, at time.Time) {
			wait := time.Until(at).Round(time.Hour)
			hooks = append(hooks, fmt.Sprint("retry ", d.Attempt, " ", err, " ", wait, " ", goworker.FromContext(ctx) == d))
		},
		Failure: func(_ context.Context, d *goworker.Delivery, err error) {
			hooks = append(hooks, fmt.Sprint("failure ", d.Attempt, " ", err))
		},
	})
	b.Push(daemontest.Job("Try", "a"))
	start := time.Now()
	b.Start()
	for run := 1; run <= 2; run++ {
		b.Eventually("the job waits", func() bool { return len(b.Scheduled()) == 1 })
		score, _ := strconv.ParseFloat(b.Waiting("WITHSCORES")[1], 64)
		if wait := time.UnixMilli(int64(score)).Sub(start) - time.Duration(run)*time.Hour; wait < 0 || wait > time.Minute {
			t.Errorf("after run %d it waits %s more than %d h", run, wait, run)
		}
		if p := b.Scheduled()[0]; !strings.HasPrefix(p, fmt.Sprintf(`{"class":"Try","args":["a"],"attempt":%d,"error":"Error: no luck","id":"`, run+1)) {
			t.Errorf("what waits is %s", p)
		}
		if got := [2]int{b.Stat("processed"), b.Stat("failed")}; got != [2]int{run, 0} {
			t.Errorf("after run %d: processed and failed are %v", run, got)
		}
		if n := len(b.Failures()); n != 0 {
			t.Errorf("%d failures while it is retried", n)
		}
		b.Due()
	}
	b.Eventually("it is given up", func() bool { return len(b.Failures()) == 1 })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := b.Seen(); got != "1/2 2/1 3/0" {
		t.Errorf("the runs saw %s", got)
	}
	if f := b.Failures()[0]; f.Error != "no luck" || !strings.Contains(string(f.Payload), `"attempt":3,"error":"Error: no luck","id":"`) {
		t.Errorf("failure %q of %s", f.Error, f.Payload)
	}
	if got := [2]int{b.Stat("processed"), b.Stat("failed")}; got != [2]int{3, 1} {
		t.Errorf("processed and failed are %v", got)
	}
	want := []string{"retry 1 no luck 1h0m0s true", "retry 2 no luck 2h0m0s true", "failure 3 no luck"}
	if !slices.Equal(hooks, want) {
		t.Errorf("hooks saw %q", hooks)
	}
	if n := b.Log.Count("job failed; it is retried"); n != 2 {
		t.Errorf("%d log lines about retries, want 2", n)
	}
	if n := b.Log.Count("job failed"); n != 3 {
		t.Errorf("%d log lines about failures, want 3", n)
	}
	b.OnlyTotals()
}

// Without a wait a job goes behind the others of its queue. The daemon takes it
// although Redis does not notify a client of its own pushes.
func TestRetryAtOnce(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, daemontest.Unlucky, goworker.Retry(3, goworker.Delays{0}))
	b.Start()
	b.Idle()
	b.Push(daemontest.Job("Try", "a"))
	b.Eventually("it is given up", func() bool { return len(b.Failures()) == 1 })
	if got := b.Seen(); got != "1/3 2/2 3/1 4/0" {
		t.Errorf("the runs saw %s", got)
	}
	if n := b.Stat("processed"); n != 4 {
		t.Errorf("stat:processed is %d, want 4", n)
	}
}

// A stop is no failure: the job goes back to its queue with the count it had.
func TestStopBurnsNoAttempt(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = time.Millisecond })
	b.Daemon.Register("Hold", func(ctx context.Context, id string) error {
		b.Runs.Start(id)
		<-ctx.Done()
		return ctx.Err()
	}, goworker.Retry(1, goworker.Delays{0}))
	var failures int
	b.Daemon.AddHooks(goworker.Hooks{Failure: func(context.Context, *goworker.Delivery, error) { failures++ }})
	payload := `{"class":"Hold","args":["a"],"attempt":2,"id":"x"}`
	b.Push(payload)
	b.Start()
	b.Eventually("it runs", func() bool { return b.Runs.Starts("a") == 1 })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if q := b.Queue("work"); !slices.Equal(q, []string{payload}) || failures > 0 || b.Stat("processed") > 0 {
		t.Errorf("the queue holds %q; %d failures, %d processed", q, failures, b.Stat("processed"))
	}
}

// Jobs that were cancelled are retried, as Ruby retries a DirtyExit.
func TestCancelledIsRetried(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Hold", func(ctx context.Context, id string) error {
		b.Runs.Start(id)
		<-ctx.Done()
		return ctx.Err()
	}, goworker.Retry(1, goworker.Delays{time.Hour}))
	b.Push(daemontest.Job("Hold", "a"))
	b.Start()
	b.Eventually("it runs", func() bool { return b.Runs.Starts("a") == 1 })
	b.Daemon.CancelJobs()
	b.Eventually("it waits", func() bool { return len(b.Scheduled()) == 1 })
}

// Jobs that are equal to the last byte, whose producer gave them one id, are several.
func TestRetryOfEqualJobs(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, daemontest.Unlucky, goworker.Retry(2, goworker.Delays{time.Hour}))
	for range 3 {
		b.Push(`{"class":"Try","args":["a"],"id":"same"}`)
	}
	b.Start()
	b.Eventually("three wait", func() bool { return len(b.Scheduled()) == 3 })
	b.Due()
	b.Eventually("three wait again", func() bool { return len(b.Scheduled()) == 3 && b.Stat("processed") == 6 })
	b.Due()
	b.Eventually("three failed", func() bool { return len(b.Failures()) == 3 })
}

// What is written beside class and args is kept, number by number.
func TestRetryKeepsThePayload(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, daemontest.Unlucky, goworker.Retry(2, goworker.Delays{time.Hour}))
	b.Push(`{ "queue_time":1.50, "class":"Try","args":["a"],"id":7 }`)
	b.Start()
	b.Eventually("it waits", func() bool { return len(b.Scheduled()) == 1 })
	got := b.Scheduled()[0]
	if want := `{ "queue_time":1.50, "class":"Try","args":["a"],"attempt":2,"error":"Error: no luck","retry_id":"`; !strings.HasPrefix(got, want) || !strings.HasSuffix(got, `","id":7 }`) {
		t.Errorf("it waits as %s", got)
	}
	b.Due()
	b.Eventually("it waits again", func() bool { return len(b.Scheduled()) == 1 && b.Stat("processed") == 2 })
	if again := b.Scheduled()[0]; again != strings.Replace(got, `"attempt":2`, `"attempt":3`, 1) {
		t.Errorf("it waits as %s", again)
	}
}

// Ten thousand jobs that wait to be retried cost the daemon neither a worker nor memory.
func TestWaitingCostsNothing(t *testing.T) {
	const waiting = 10_000
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Logger = slog.New(slog.DiscardHandler) })
	b.Daemon.Register("Wait", func(string) error { return daemontest.ErrNoLuck }, goworker.Retry(2, goworker.Delays{time.Hour}))
	b.Start()
	b.Idle()
	weigh := func() (heap, goroutines int) {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int(m.HeapAlloc), runtime.NumGoroutine()
	}
	c := b.Redis.Dial(t) // one for all: the test's own connections weigh more than what is measured
	wait := func(total int) {
		for range 10 {
			args := []any{"resque:queue:work"}
			for _, j := range daemontest.Jobs("Wait", waiting/10) {
				args = append(args, j)
			}
			if _, err := c.Do("RPUSH", args...); err != nil {
				t.Fatal(err)
			}
		}
		b.Eventually("they wait", func() bool { n, _ := c.Do("ZCARD", "resque:go:schedule"); return n == int64(total) })
		b.Eventually("the daemon holds none of them", func() bool { held, busy := goworker.Load(b.Daemon); return held+busy == 0 })
	}
	wait(waiting) // its buffers have grown by now
	heap, goroutines := weigh()
	wait(2 * waiting)
	if h, g := weigh(); h > heap+waiting*20 || g > goroutines+4 {
		t.Errorf("%d bytes and %d goroutines, %d and %d before", h, g, heap, goroutines)
	}
	b.Push(daemontest.Jobs("Mark", 4)...)
	b.Eventually("other jobs run", func() bool { return b.Runs.Finished() == 5 })
}

// A unique job keeps its lock while it waits to be retried, and gives it up at its end.
func TestRetryOfUniqueJob(t *testing.T) {
	t.Parallel()
	for _, opts := range [][]goworker.RetryOption{{goworker.Delays{time.Hour}}, {goworker.Delays{time.Hour}, goworker.ResqueRetry{}}} {
		b := daemontest.Trying(t, daemontest.Unlucky, goworker.Retry(1, opts...))
		first := b.MustEnqueue("Try", "a", goworker.Unique())
		b.Start()
		b.Eventually("it waits", func() bool { return len(b.Scheduled()) == 1 })
		b.MustRefuse(first, "Try", "a", goworker.Unique())
		b.Due()
		b.Eventually("it is given up", func() bool { return len(b.Failures()) == 1 })
		b.MustEnqueue("Try", "a", goworker.Unique())
		b.Eventually("the next one waits", func() bool { return len(b.Scheduled()) == 1 })
		if got := b.Seen(); got != "1/1 2/0 1/1" {
			t.Errorf("the runs saw %s", got)
		}
	}
}

const (
	rubyJob   = `{"class":"Try","args":["a"]}`
	rubyCount = "resque:resque-retry:Try:86f7e437faa5a7fce15d1ddcb9eaeaea377667b8" // the digest of "a"
	rubyFail  = "resque:failure-resque-retry:Try:86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"
)

// A job is counted and waits where resque-retry and resque-scheduler have it, and is
// filed as failed after the last retry.
func TestRetryAsRuby(t *testing.T) {
	t.Parallel()
	var b *daemontest.Tries
	var counts []string
	b = daemontest.Trying(t, func(*goworker.Delivery) error {
		counts = append(counts, b.Redis.Text(t, "GET", rubyCount))
		return daemontest.ErrNoLuck
	}, goworker.Retry(2, goworker.Delays{30 * time.Second}, goworker.ResqueRetry{}))
	b.Start()
	began := time.Now()
	b.Push(rubyJob)
	for run := 1; run <= 2; run++ {
		var items []string
		b.Eventually("it is delayed", func() bool { items = b.Delayed(); return len(items) > 0 })
		if !slices.Equal(items, []string{`{"class":"Try","args":["a"],"queue":"work"}`}) {
			t.Errorf("delayed: %q", items)
		}
		if ttl := b.Redis.Int(t, "TTL", rubyFail); ttl <= 50-int(time.Since(began).Seconds()) || ttl > 60 {
			t.Errorf("the failure is kept for %d s, want 60", ttl)
		}
		var record map[string]any
		if err := json.Unmarshal([]byte(b.Redis.Text(t, "GET", rubyFail)), &record); err != nil || record["error"] != "no luck" || record["queue"] != "work" {
			t.Errorf("the failure that is kept: %v, %v", record, err)
		}
		if _, err := time.Parse("2006/01/02 15:04:05", record["failed_at"].(string)); err != nil {
			t.Error(err)
		}
		if got := [2]int{b.Stat("processed"), b.Stat("failed")}; got != [2]int{run, run} || len(b.Failures()) > 0 {
			t.Errorf("processed and failed are %v; failures %v", got, b.Failures())
		}
		began = time.Now()
		b.Push(rubyJob)
	}
	b.Eventually("it is given up", func() bool { return len(b.Failures()) == 1 && b.Stat("failed") == 3 })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(counts, ","); got != ",0,1" || b.Seen() != "1/2 2/1 3/0" {
		t.Errorf("the counts were %s, the runs saw %s", got, b.Seen())
	}
	if p := b.Failures()[0].Payload; string(p) != rubyJob {
		t.Errorf("the failure's payload is %s", p)
	}
	b.OnlyTotals() // neither the count nor the failure that was kept
}

// The count goes on where Ruby left it, and ends with the job.
func TestRetryContinuesRubysCount(t *testing.T) {
	t.Parallel()
	for _, ends := range []error{nil, daemontest.ErrNoLuck, goworker.Discard(nil), goworker.FailNow(nil)} {
		b := daemontest.Trying(t, func(*goworker.Delivery) error { return ends }, goworker.Retry(3, goworker.Delays{0}, goworker.ResqueRetry{}))
		b.Redis.Do(t, "SET", rubyCount, 1) // retried once and delayed again
		b.Start()
		b.Push(rubyJob)
		runs := 1
		if ends == daemontest.ErrNoLuck {
			runs = 2
		}
		b.Eventually("it ends", func() bool { return b.Stat("processed") == runs })
		if want := map[int]string{1: "3/1", 2: "3/1 4/0"}[runs]; b.Seen() != want {
			t.Errorf("%v: the runs saw %s, want %s", ends, b.Seen(), want)
		}
		if err := b.Stop(); err != nil {
			t.Fatal(err)
		}
		b.OnlyTotals()
	}
}

// A count keeps the expiry that Ruby gave it, and gets the one that is asked for here.
func TestRetryCountExpires(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name     string
		ruby     int // for how many seconds Ruby's count still stands; 0: there is none
		after    time.Duration
		delay    time.Duration
		from, to int // the seconds that are left then; -1: it does not expire
	}{
		{"no expiry", 0, 0, 30 * time.Second, -1, -1},
		{"Ruby's is kept", 1000, 0, 30 * time.Second, 900, 1000},
		{"ours", 0, time.Hour, 30 * time.Second, 3540, 3631},
		{"ours moves Ruby's", 1000, time.Hour, 30 * time.Second, 3540, 3631},
		{"a fraction counts as a second", 0, 1000*time.Second + 1, 0, 940, 1001},
		{"at once", 0, time.Hour, 0, 3540, 3600},
		{"the longest", 0, math.MaxInt64, 30 * time.Second, 9223372000, math.MaxInt},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			gate := make(chan struct{})
			defer close(gate)
			b := daemontest.Trying(t, func(d *goworker.Delivery) error {
				if d.RetriesLeft == 0 {
					<-gate
				}
				return daemontest.ErrNoLuck
			}, goworker.Retry(2, goworker.Delays{test.delay}, goworker.ResqueRetry{ExpireAfter: test.after}))
			if test.ruby > 0 {
				b.Redis.Do(t, "SET", rubyCount, 0, "EX", test.ruby)
			}
			b.Start()
			b.Push(rubyJob)
			b.Eventually("it is counted", func() bool { return b.Stat("failed") >= 1 })
			if ttl := b.Redis.Int(t, "TTL", rubyCount); ttl < test.from || ttl > test.to {
				t.Errorf("the count expires in %d s, want %d to %d", ttl, test.from, test.to)
			}
		})
	}
}

// Without a wait the job goes to its queue, without a trace but the count.
func TestRetryAsRubyAtOnce(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := daemontest.Trying(t, func(d *goworker.Delivery) error {
		if d.Attempt == 2 {
			<-gate
		}
		return daemontest.ErrNoLuck
	}, goworker.Retry(1, goworker.Delays{0}, goworker.ResqueRetry{}))
	b.Start()
	b.Push(rubyJob)
	b.Eventually("it runs again", func() bool { return b.Seen() == "1/1 2/0" })
	if n := b.Redis.Int(t, "EXISTS", rubyFail, "resque:go:schedule", "resque:delayed_queue_schedule"); n != 0 {
		t.Errorf("%d keys that a retry without a wait does not have", n)
	}
	close(gate)
	b.Eventually("it is given up", func() bool { return len(b.Failures()) == 1 })
}

// What Ruby's scheduler would drop waits in our own schedule.
func TestRetryAsRubyWithExtras(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, daemontest.Unlucky, goworker.Retry(1, goworker.Delays{time.Hour}, goworker.ResqueRetry{NoFailureKey: true}))
	b.Start()
	b.Push(`{"class":"Try","args":["a"],"id":"7","queue_time":1.5}`)
	b.Eventually("it waits", func() bool { return len(b.Scheduled()) == 1 })
	if got := b.Scheduled()[0]; !strings.HasPrefix(got, `{"class":"Try","args":["a"],"id":"7","queue_time":1.5,`) {
		t.Errorf("it waits as %s", got)
	}
	if n := b.Redis.Int(t, "EXISTS", rubyFail); n != 0 {
		t.Error("a failure is kept, although none was asked for")
	}
	b.Due()
	b.Eventually("it is given up", func() bool { return len(b.Failures()) == 1 })
	if got := b.Seen(); got != "1/1 2/0" {
		t.Errorf("the runs saw %s", got)
	}
}

// A run that a stop cuts short is not counted.
func TestStopCountsNothingForRuby(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = time.Millisecond })
	b.Daemon.Register("Try", func(ctx context.Context, id string) error {
		b.Runs.Start(id)
		<-ctx.Done()
		return ctx.Err()
	}, goworker.Retry(1, goworker.ResqueRetry{}))
	b.Redis.Do(t, "SET", rubyCount, 4)
	b.Push(rubyJob)
	b.Start()
	b.Eventually("it runs", func() bool { return b.Runs.Starts("a") == 1 })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if got := b.Redis.Text(t, "GET", rubyCount); got != "4" || len(b.Queue("work")) != 1 {
		t.Errorf("after the stop the count is %s", got)
	}
}

// A key that is no count fails its job, with a sentence, and stays what it is.
func TestCountOfWrongType(t *testing.T) {
	t.Parallel()
	b := daemontest.Trying(t, daemontest.Unlucky, goworker.Retry(1, goworker.ResqueRetry{}))
	b.Redis.Do(t, "RPUSH", rubyCount, "no number")
	b.Start()
	b.Push(rubyJob)
	b.Eventually("it failed", func() bool { return len(b.Failures()) == 1 })
	if text := b.Failures()[0].Error; !strings.Contains(text, rubyCount) || b.Seen() != "" {
		t.Errorf("failure %q, runs %q", text, b.Seen())
	}
	if kind := b.Redis.Text(t, "TYPE", rubyCount); kind != "list" {
		t.Errorf("the key is a %s now", kind)
	}
}
