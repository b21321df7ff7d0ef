package goworker

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// exactly checks that n jobs were started, each once, and counted once.
func (b *bundle) exactly(n int) {
	b.t.Helper()
	b.eventually(fmt.Sprintf("%d jobs are counted", n), func() bool { return b.stat("processed") >= n })
	if twice := b.runs.twice(); len(twice) > 0 {
		b.t.Errorf("these jobs ran twice: %q", twice)
	}
	if got := b.runs.started(); got != n {
		b.t.Errorf("%d jobs ran, want %d", got, n)
	}
	if got := b.stat("processed"); got != n {
		b.t.Errorf("stat:processed is %d, want %d", got, n)
	}
}

// holding starts a daemon and waits until all its workers hold a job.
func holding(t *testing.T, args ...string) *bundle {
	t.Helper()
	b := setupOn(t, redistest.Start(t, args...))
	b.start()
	b.push(jobs("Hold", 4)...)
	b.push(jobs("Mark", 6)...)
	b.eventually("four jobs run", func() bool { return b.runs.started() == 4 })
	return b
}

var persistent = []string{"--appendonly", "yes", "--appendfsync", "always"}

// The outcomes of jobs that end while Redis is away are committed when it is back,
// each once, and what was queued goes on.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	b := holding(t, persistent...)
	b.redis.Kill()
	b.open()
	b.eventually("the jobs end", func() bool { return b.runs.finished() == 4 })
	b.eventually("the outage is noticed", func() bool { return b.log.count("Redis does not serve us") == 1 })
	b.redis.Restart(t)
	b.exactly(10)
	b.renewed(1)
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	if n := b.log.count("Redis does not serve us"); n != 1 {
		t.Errorf("the outage was logged %d times, want once", n)
	}
	b.onlyTotals()
}

// A failure record is an outcome like any other.
func TestFailureOutlivesRestart(t *testing.T) {
	t.Parallel()
	b := setupOn(t, redistest.Start(t, persistent...))
	b.daemon.Register("HoldAndFail", func(id string) error { b.runs.start(id); <-b.gate; return fmt.Errorf("late <&> failure") })
	b.start()
	b.push(jobs("HoldAndFail", 3)...)
	b.eventually("they run", func() bool { return b.runs.started() == 3 })
	b.redis.Kill()
	b.open()
	b.eventually("they fail", func() bool { return b.log.count("job failed") == 3 })
	b.redis.Restart(t)
	b.exactly(3)
	if f := b.failures(); len(f) != 3 || b.stat("failed") != 3 || f[0].Error != "late <&> failure" {
		t.Errorf("stat:failed is %d, failures are %+v", b.stat("failed"), f)
	}
}

// A Redis that comes back empty gets the records of those that still run, and
// their outcomes count.
func TestRedisRestartsEmpty(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		lose func(*bundle)
	}{
		{"restart", func(b *bundle) { b.redis.Restart(b.t) }},
		{"FLUSHALL", func(b *bundle) { b.redis.Do(b.t, "FLUSHALL") }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := holding(t)
			test.lose(b)
			process := b.process()
			b.eventually("the process is back in the fleet with its jobs", func() bool {
				return b.redis.Int(t, "ZCARD", "resque:go:processes") == 1 &&
					b.redis.Int(t, "HLEN", "resque:go:inflight:"+process) == 4+1 && // and the mark
					b.redis.Int(t, "SCARD", "resque:workers") == 4 &&
					b.redis.Int(t, "HLEN", "resque:workers:heartbeat") == 4
			})
			b.eventually("the workers say what they do", func() bool {
				return len(b.redis.List(t, "KEYS", "resque:worker:*:work")) == 4
			})
			b.open()
			b.exactly(4)
			b.push(job("Fail", "after"))
			b.eventually("a job that came later runs", func() bool { return b.stat("failed") == 1 })
			if n := b.log.count("Redis lost the record"); n != 1 {
				t.Errorf("the loss was logged %d times, want once", n)
			}
			if err := b.stop(); err != nil {
				t.Fatal(err)
			}
			b.onlyTotals()
		})
	}
}

// Jobs that end while Redis is away count although it has lost everything when it
// is back.
func TestOutcomesOutliveTheirRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("HoldAndFail", func(id string) error { b.runs.start(id); <-b.gate; return fmt.Errorf("late") })
	b.start()
	b.push(jobs("Hold", 2)...)
	b.push(job("HoldAndFail", "f"))
	b.eventually("they run", func() bool { return b.runs.started() == 3 })
	b.redis.Kill()
	b.open()
	b.eventually("they end", func() bool { return b.runs.finished() == 2 && b.log.count("job failed") == 1 })
	b.redis.Restart(t)
	b.exactly(3)
	if f := b.failures(); len(f) != 1 || b.stat("failed") != 1 {
		t.Errorf("stat:failed is %d, failures are %+v, want one", b.stat("failed"), f)
	}
}

// Connections cut under load: nothing is lost and nothing runs twice.
func TestConnectionsAreCut(t *testing.T) {
	t.Parallel()
	const n = 3000
	server := redistest.Start(t)
	b := setupOn(t, server)
	second := setupOn(t, server)
	second.runs = b.runs // one book for both
	for _, d := range []*bundle{b, second} {
		d.start()
	}
	b.push(naps(n, 10)...)
	cutter := server.Dial(t)
	cuts := 0
	b.eventually("the work begins", func() bool { return b.runs.finished() > 0 })
	for tick := time.NewTicker(50 * time.Millisecond); b.runs.finished() < n*9/10; cuts++ {
		<-tick.C
		if _, err := cutter.Do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"); err != nil {
			t.Fatal(err)
		}
		if cuts%4 == 0 {
			if _, err := cutter.Do("CLIENT", "KILL", "TYPE", "pubsub"); err != nil {
				t.Fatal(err)
			}
		}
		// More than were running: connections that come about are of use.
		next := min(b.runs.finished()+16, n*9/10)
		b.eventually("the work goes on", func() bool { return b.runs.finished() >= next })
	}
	t.Logf("%d cuts", cuts)
	b.eventually("all jobs end", func() bool { return b.runs.finished() == n })
	b.exactly(n)
	for _, d := range []*bundle{b, second} {
		if err := d.stop(); err != nil {
			t.Error(err)
		}
	}
	b.onlyTotals()
}

// A Redis that is silent for longer than the read timeout hears requests when
// nobody waits for their answers any more. They change nothing then.
func TestLateRequests(t *testing.T) {
	t.Parallel()
	const n = 1500
	// Much shorter, and the start would fail on a busy machine, as it does without Redis.
	b := setup(t, func(s *WorkerSettings) { s.ReadTimeout, s.ConnectTimeout = 3*time.Second, 3*time.Second })
	b.start()
	b.push(naps(n, 6)...)
	for i := range 3 {
		b.eventually("some are done", func() bool { return b.runs.finished() > i*n/10 })
		b.redis.Pause()
		time.Sleep(3300 * time.Millisecond) // the fault itself
		b.redis.Resume()
	}
	b.exactly(n)
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.onlyTotals()
}

// While Redis reads its data at a start it answers LOADING.
func TestRedisLoads(t *testing.T) {
	t.Parallel()
	b := holding(t, "--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")
	c := b.redis.Dial(t)
	for i := range 3000 { // a second and a half of loading
		if err := c.Send("SET", fmt.Sprint("filler:", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Do("SAVE"); err != nil {
		t.Fatal(err)
	}
	b.redis.Kill()
	b.open()
	b.eventually("the jobs end", func() bool { return b.runs.finished() == 4 })
	b.redis.Restart(t)
	b.exactly(10)
	t.Logf("LOADING was logged %d times", b.log.count("LOADING"))

	late := setupOn(t, b.redis)
	b.redis.Kill()
	late.start() // fails at once: nothing listens
	if err := late.wait(); err == nil || !strings.Contains(err.Error(), "nothing listens") {
		t.Errorf("Run returned %v, want that nothing listens", err)
	}
	b.redis.Restart(t)
}
