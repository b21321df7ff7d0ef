package goworker

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/failure"
)

const (
	rubyJob   = `{"class":"Try","args":["a"]}`
	rubyCount = "resque:resque-retry:Try:86f7e437faa5a7fce15d1ddcb9eaeaea377667b8" // the digest of "a"
	rubyFail  = "resque:failure-resque-retry:Try:86f7e437faa5a7fce15d1ddcb9eaeaea377667b8"
)

// delayed are the jobs in resque-scheduler's schedule; they are taken out of it, as its
// scheduler does.
func (b *bundle) delayed() (all []string) {
	b.t.Helper()
	for _, second := range b.redis.List(b.t, "ZRANGE", "resque:delayed_queue_schedule", 0, -1) {
		for _, item := range b.redis.List(b.t, "LRANGE", "resque:delayed:"+second, 0, -1) {
			all = append(all, item)
			b.redis.Do(b.t, "DEL", "resque:timestamps:"+item)
		}
		b.redis.Do(b.t, "DEL", "resque:delayed:"+second, "resque:delayed_queue_schedule")
	}
	return all
}

// A job is counted and waits where resque-retry and resque-scheduler have it, and is
// filed as failed after the last retry.
func TestRetryAsRuby(t *testing.T) {
	t.Parallel()
	var b *tries
	var counts []string
	b = trying(t, func(*Delivery) error {
		counts = append(counts, b.redis.Text(t, "GET", rubyCount))
		return errNoLuck
	}, Retry(2, Delays{30 * time.Second}, ResqueRetry{}))
	b.start()
	b.push(rubyJob)
	for run := 1; run <= 2; run++ {
		var items []string
		b.eventually("it is delayed", func() bool { items = b.delayed(); return len(items) > 0 })
		if !slices.Equal(items, []string{`{"class":"Try","args":["a"],"queue":"work"}`}) {
			t.Errorf("delayed: %q", items)
		}
		if ttl := b.redis.Int(t, "TTL", rubyFail); ttl <= 50 || ttl > 60 {
			t.Errorf("the failure is kept for %d s, want 60", ttl)
		}
		var record map[string]any
		if err := json.Unmarshal([]byte(b.redis.Text(t, "GET", rubyFail)), &record); err != nil || record["error"] != "no luck" || record["queue"] != "work" {
			t.Errorf("the failure that is kept: %v, %v", record, err)
		}
		if _, err := time.Parse("2006/01/02 15:04:05", record["failed_at"].(string)); err != nil {
			t.Error(err)
		}
		if got := [2]int{b.stat("processed"), b.stat("failed")}; got != [2]int{run, run} || len(b.failures()) > 0 {
			t.Errorf("processed and failed are %v; failures %v", got, b.failures())
		}
		b.push(rubyJob)
	}
	b.eventually("it is given up", func() bool { return len(b.failures()) == 1 && b.stat("failed") == 3 })
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(counts, ","); got != ",0,1" || b.seen() != "1/2 2/1 3/0" {
		t.Errorf("the counts were %s, the runs saw %s", got, b.seen())
	}
	if p := b.failures()[0].Payload; string(p) != rubyJob {
		t.Errorf("the failure's payload is %s", p)
	}
	b.onlyTotals() // neither the count nor the failure that was kept
}

// The count goes on where Ruby left it, and ends with the job.
func TestRetryContinuesRubysCount(t *testing.T) {
	t.Parallel()
	for _, ends := range []error{nil, errNoLuck, Discard(nil), Fail(nil)} {
		b := trying(t, func(*Delivery) error { return ends }, Retry(3, Delays{0}, ResqueRetry{}))
		b.redis.Do(t, "SET", rubyCount, 1) // retried once and delayed again
		b.start()
		b.push(rubyJob)
		runs := 1
		if ends == errNoLuck {
			runs = 2
		}
		b.eventually("it ends", func() bool { return b.stat("processed") == runs })
		if want := map[int]string{1: "3/1", 2: "3/1 4/0"}[runs]; b.seen() != want {
			t.Errorf("%v: the runs saw %s, want %s", ends, b.seen(), want)
		}
		if err := b.stop(); err != nil {
			t.Fatal(err)
		}
		b.onlyTotals()
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
			b := trying(t, func(d *Delivery) error {
				if d.RetriesLeft == 0 {
					<-gate
				}
				return errNoLuck
			}, Retry(2, Delays{test.delay}, ResqueRetry{ExpireAfter: test.after}))
			if test.ruby > 0 {
				b.redis.Do(t, "SET", rubyCount, 0, "EX", test.ruby)
			}
			b.start()
			b.push(rubyJob)
			b.eventually("it is counted", func() bool { return b.stat("failed") >= 1 })
			if ttl := b.redis.Int(t, "TTL", rubyCount); ttl < test.from || ttl > test.to {
				t.Errorf("the count expires in %d s, want %d to %d", ttl, test.from, test.to)
			}
		})
	}
}

// Without a wait the job goes to its queue, without a trace but the count.
func TestRetryAsRubyAtOnce(t *testing.T) {
	t.Parallel()
	gate := make(chan struct{})
	b := trying(t, func(d *Delivery) error {
		if d.Attempt == 2 {
			<-gate
		}
		return errNoLuck
	}, Retry(1, Delays{0}, ResqueRetry{}))
	b.start()
	b.push(rubyJob)
	b.eventually("it runs again", func() bool { return b.seen() == "1/1 2/0" })
	if n := b.redis.Int(t, "EXISTS", rubyFail, "resque:go:schedule", "resque:delayed_queue_schedule"); n != 0 {
		t.Errorf("%d keys that a retry without a wait does not have", n)
	}
	close(gate)
	b.eventually("it is given up", func() bool { return len(b.failures()) == 1 })
}

// What Ruby's scheduler would drop waits in our own schedule.
func TestRetryAsRubyWithExtras(t *testing.T) {
	t.Parallel()
	b := trying(t, unlucky, Retry(1, Delays{time.Hour}, ResqueRetry{NoFailureKey: true}))
	b.start()
	b.push(`{"class":"Try","args":["a"],"id":"7","queue_time":1.5}`)
	b.eventually("it waits", func() bool { return len(b.scheduled()) == 1 })
	if got := b.scheduled()[0]; !strings.HasPrefix(got, `{"class":"Try","args":["a"],"id":"7","queue_time":1.5,`) {
		t.Errorf("it waits as %s", got)
	}
	if n := b.redis.Int(t, "EXISTS", rubyFail); n != 0 {
		t.Error("a failure is kept, although none was asked for")
	}
	b.due()
	b.eventually("it is given up", func() bool { return len(b.failures()) == 1 })
	if got := b.seen(); got != "1/1 2/0" {
		t.Errorf("the runs saw %s", got)
	}
}

// A run that a stop cuts short is not counted.
func TestStopCountsNothingForRuby(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.ShutdownTimeout = time.Millisecond })
	b.daemon.Register("Try", func(ctx context.Context, id string) error {
		b.runs.start(id)
		<-ctx.Done()
		return ctx.Err()
	}, Retry(1, ResqueRetry{}))
	b.redis.Do(t, "SET", rubyCount, 4)
	b.push(rubyJob)
	b.start()
	b.eventually("it runs", func() bool { return b.runs.starts("a") == 1 })
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if got := b.redis.Text(t, "GET", rubyCount); got != "4" || len(b.queue("work")) != 1 {
		t.Errorf("after the stop the count is %s", got)
	}
}

// A key that is no count fails its job, with a sentence, and stays what it is.
func TestCountOfWrongType(t *testing.T) {
	t.Parallel()
	b := trying(t, unlucky, Retry(1, ResqueRetry{}))
	b.redis.Do(t, "RPUSH", rubyCount, "somebody's")
	b.start()
	b.push(rubyJob)
	b.eventually("it failed", func() bool { return len(b.failures()) == 1 })
	if text := b.failures()[0].Error; !strings.Contains(text, rubyCount) || b.seen() != "" {
		t.Errorf("failure %q, runs %q", text, b.seen())
	}
	if kind := b.redis.Text(t, "TYPE", rubyCount); kind != "list" {
		t.Errorf("the key is a %s now", kind)
	}
}

// Runs begin when Redis is there: while it is away they wait, and none is lost.
func TestCountWaitsForRedis(t *testing.T) {
	t.Parallel()
	b := trying(t, func(*Delivery) error { return nil }, Retry(1, ResqueRetry{}))
	ctx, cancel := context.WithCancelCause(context.Background())
	b.start()
	b.idle()
	b.redis.Kill()
	done := make(chan error, 1)
	go func() {
		done <- b.daemon.workers.count(ctx, &Delivery{Class: "Try", retry: &retryPolicy{ruby: &ResqueRetry{}}})
	}()
	b.eventually("it is said", func() bool { return b.log.count("Redis does not serve us") > 0 })
	b.redis.Restart(t)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	b.redis.Kill()
	go func() {
		done <- b.daemon.workers.count(ctx, &Delivery{Class: "Try", retry: &retryPolicy{ruby: &ResqueRetry{}}})
	}()
	cancel(ErrShutdown)
	if err := <-done; !failure.Interrupted(err) || !errors.Is(err, ErrShutdown) {
		t.Errorf("after a stop it says %v", err)
	}
	b.redis.Restart(t)
}
