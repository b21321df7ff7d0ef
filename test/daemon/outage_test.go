package daemon

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// The outcomes of jobs that end while Redis is away are committed when it is back,
// each once, and what was queued goes on.
func TestRedisRestarts(t *testing.T) {
	t.Parallel()
	b := daemontest.Holding(t, daemontest.Persistent...)
	b.Redis.Kill()
	b.Open()
	b.Eventually("the jobs end", func() bool { return b.Runs.Finished() == 4 })
	b.Eventually("the outage is noticed", func() bool { return b.Log.Count("redis unavailable") == 1 })
	b.Redis.Restart(t)
	b.Exactly(10)
	b.Renewed(1)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := b.Log.Count("redis unavailable"); n != 1 {
		t.Errorf("the outage was logged %d times, want once", n)
	}
	b.OnlyTotals()
}

// A failure record is an outcome like any other.
func TestFailureOutlivesRestart(t *testing.T) {
	t.Parallel()
	b := daemontest.SetupOn(t, redistest.Start(t, daemontest.Persistent...))
	b.Daemon.Register("HoldAndFail", func(id string) error { b.Runs.Start(id); <-b.Gate; return fmt.Errorf("late <&> failure") })
	b.Start()
	b.Push(daemontest.Jobs("HoldAndFail", 3)...)
	b.Eventually("they run", func() bool { return b.Runs.Started() == 3 })
	b.Redis.Kill()
	b.Open()
	b.Eventually("they fail", func() bool { return b.Log.Count("job failed") == 3 })
	b.Redis.Restart(t)
	b.Exactly(3)
	if f := b.Failures(); len(f) != 3 || b.Stat("failed") != 3 || f[0].Error != "late <&> failure" {
		t.Errorf("stat:failed is %d, failures are %+v", b.Stat("failed"), f)
	}
}

// A Redis that comes back empty gets the records of those that still run, and
// their outcomes count.
func TestRedisRestartsEmpty(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		lose func(*daemontest.Bundle)
	}{
		{"restart", func(b *daemontest.Bundle) { b.Redis.Restart(b.T) }},
		{"FLUSHALL", func(b *daemontest.Bundle) { b.Redis.Do(b.T, "FLUSHALL") }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Holding(t)
			test.lose(b)
			process := b.Process()
			b.Eventually("the process is back in the fleet with its jobs", func() bool {
				return b.Redis.Int(t, "ZCARD", "resque:go:processes") == 1 &&
					b.Redis.Int(t, "HLEN", "resque:go:inflight:"+process) == 4+1 && // and the mark
					b.Redis.Int(t, "SCARD", "resque:workers") == 4 &&
					b.Redis.Int(t, "HLEN", "resque:workers:heartbeat") == 4
			})
			b.Eventually("the workers say what they do", func() bool {
				return len(b.Redis.List(t, "KEYS", "resque:worker:*:work")) == 4
			})
			b.Open()
			b.Exactly(4)
			b.Push(daemontest.Job("Fail", "after"))
			b.Eventually("a job that came later runs", func() bool { return b.Stat("failed") == 1 })
			if n := b.Log.Count("Redis lost the record"); n != 1 {
				t.Errorf("the loss was logged %d times, want once", n)
			}
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			b.OnlyTotals()
		})
	}
}

// Jobs that end while Redis is away count although it has lost everything when it
// is back.
func TestOutcomesOutliveTheirRecord(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("HoldAndFail", func(id string) error { b.Runs.Start(id); <-b.Gate; return fmt.Errorf("late") })
	b.Start()
	b.Push(daemontest.Jobs("Hold", 2)...)
	b.Push(daemontest.Job("HoldAndFail", "f"))
	b.Eventually("they run", func() bool { return b.Runs.Started() == 3 })
	b.Redis.Kill()
	b.Open()
	b.Eventually("they end", func() bool { return b.Runs.Finished() == 2 && b.Log.Count("job failed") == 1 })
	b.Redis.Restart(t)
	b.Exactly(3)
	if f := b.Failures(); len(f) != 1 || b.Stat("failed") != 1 {
		t.Errorf("stat:failed is %d, failures are %+v, want one", b.Stat("failed"), f)
	}
}

// Connections cut under load: nothing is lost and nothing runs twice.
func TestConnectionsAreCut(t *testing.T) {
	t.Parallel()
	const n = 3000
	server := redistest.Start(t)
	b := daemontest.SetupOn(t, server)
	second := daemontest.SetupOn(t, server)
	second.Runs = b.Runs // one book for both
	for _, d := range []*daemontest.Bundle{b, second} {
		d.Start()
	}
	b.Push(daemontest.Naps(n, 10)...)
	cutter := server.Dial(t)
	cuts := 0
	b.Eventually("the work begins", func() bool { return b.Runs.Finished() > 0 })
	for tick := time.NewTicker(50 * time.Millisecond); b.Runs.Finished() < n*9/10; cuts++ {
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
		next := min(b.Runs.Finished()+16, n*9/10)
		b.Eventually("the work goes on", func() bool { return b.Runs.Finished() >= next })
	}
	t.Logf("%d cuts", cuts)
	b.Eventually("all jobs end", func() bool { return b.Runs.Finished() == n })
	b.Exactly(n)
	for _, d := range []*daemontest.Bundle{b, second} {
		if err := d.Stop(); err != nil {
			t.Error(err)
		}
	}
	b.OnlyTotals()
}

// A Redis that is silent for longer than the read timeout runs requests when
// no process waits for their answers any more. They change nothing then.
func TestLateRequests(t *testing.T) {
	t.Parallel()
	const n = 1500
	// Much shorter, and the start would fail on a busy machine, as it does without Redis.
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ReadTimeout, s.ConnectTimeout = 3*time.Second, 3*time.Second })
	b.Start()
	b.Push(daemontest.Naps(n, 6)...)
	for i := range 3 {
		b.Eventually("some are done", func() bool { return b.Runs.Finished() > i*n/10 })
		b.Redis.Pause()
		time.Sleep(3300 * time.Millisecond) // the fault itself
		b.Redis.Resume()
	}
	b.Exactly(n)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.OnlyTotals()
}

// While Redis reads its data at a start it answers LOADING.
func TestRedisLoads(t *testing.T) {
	t.Parallel()
	b := daemontest.Holding(t, "--key-load-delay", "500", "--loading-process-events-interval-bytes", "1024")
	c := b.Redis.Dial(t)
	for i := range 3000 { // a second and a half of loading
		if err := c.Send("SET", fmt.Sprint("filler:", i), "x"); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Do("SAVE"); err != nil {
		t.Fatal(err)
	}
	b.Redis.Kill()
	b.Open()
	b.Eventually("the jobs end", func() bool { return b.Runs.Finished() == 4 })
	b.Redis.Restart(t)
	b.Exactly(10)
	t.Logf("LOADING was logged %d times", b.Log.Count("LOADING"))

	late := daemontest.SetupOn(t, b.Redis)
	b.Redis.Kill()
	late.Start() // fails at once: nothing listens
	if err := late.Wait(); err == nil || !strings.Contains(err.Error(), "nothing listens") {
		t.Errorf("Run returned %v, want that nothing listens", err)
	}
	b.Redis.Restart(t)
}
