package goworker_test

import (
	"context"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

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
	b.Push(rubyJob)
	for run := 1; run <= 2; run++ {
		var items []string
		b.Eventually("it is delayed", func() bool { items = b.Delayed(); return len(items) > 0 })
		if !slices.Equal(items, []string{`{"class":"Try","args":["a"],"queue":"work"}`}) {
			t.Errorf("delayed: %q", items)
		}
		if ttl := b.Redis.Int(t, "TTL", rubyFail); ttl <= 50 || ttl > 60 {
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
	for _, ends := range []error{nil, daemontest.ErrNoLuck, goworker.Discard(nil), goworker.Fail(nil)} {
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
	b.Redis.Do(t, "RPUSH", rubyCount, "somebody's")
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
