package daemon

import (
	"fmt"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// Under load the concurrency goes down and up: no job is lost or runs twice, and at rest the set of workers
// has one id for each slot.
func TestConcurrencyChangesUnderLoad(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 25 })
	if _, err := b.Daemon.SetConcurrency(t.Context(), 3); err == nil {
		t.Error("a daemon that does not run has another concurrency")
	}
	b.Start()
	registered := func() int { return b.Redis.Int(t, "SCARD", "resque:workers") }
	record := func() string {
		return b.Redis.Text(t, "HGET", "resque:go:process:"+b.Process(), "concurrency")
	}
	const jobs = 600
	b.Push(daemontest.Naps(jobs, 5)...)
	for i, n := range []int{3, 60, 1, 12} {
		b.Reaches("jobs run", (i+1)*20, b.Runs.Started)
		if r, err := b.Daemon.SetConcurrency(t.Context(), n); err != nil || r.To != n || r.Settings != 25 {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	b.Reaches("all jobs end", jobs, b.Runs.Finished)
	b.Eventually("each slot has its worker", func() bool { return registered() == 12 && record() == "12" })
	for n := range 60 {
		id := fmt.Sprintf("resque:worker:%s", goworkerID(b, n))
		if keys := b.Redis.Int(t, "EXISTS", id, id+":started"); n >= 12 && keys > 0 {
			t.Errorf("worker %d has %d keys still", n, keys)
		}
	}
	if twice := b.Runs.Twice(); len(twice) > 0 || b.Stat("processed") != jobs {
		t.Errorf("%d jobs are counted; twice ran %v", b.Stat("processed"), twice)
	}
	if got := b.Daemon.Stats().Workers; got != 12 {
		t.Errorf("it says it has %d workers", got)
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := registered(); n != 0 {
		t.Errorf("%d workers are registered still", n)
	}
	b.OnlyTotals()
}

func goworkerID(b *daemontest.Bundle, n int) string {
	id := b.Redis.Text(b.T, "HGET", "resque:go:process:"+b.Process(), "id_head")
	return fmt.Sprintf("%s%d:%s", id, n, b.Settings.QueuesString)
}

// A job on a worker beyond the new number goes on; its worker is registered until it has ended.
func TestConcurrencyShrinksAroundJobs(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Push(daemontest.Jobs("Hold", 4)...)
	b.Reaches("jobs run", 4, b.Runs.Started)
	r, err := b.Daemon.SetConcurrency(t.Context(), 1)
	if err != nil || r.From != 4 || len(r.Busy) != 3 || r.Busy[0].Queue != "work" {
		t.Fatalf("%+v, %v", r, err)
	}
	b.Renewed(2)
	if n := b.Redis.Int(t, "SCARD", "resque:workers"); n != 4 {
		t.Errorf("%d workers are registered while four jobs run", n)
	}
	b.Open()
	b.Eventually("one worker is left", func() bool { return b.Redis.Int(t, "SCARD", "resque:workers") == 1 })
	b.Reaches("all jobs end", 4, b.Runs.Finished)
}
