package daemon

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
)

func TestClasses(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{})
	nop := func() {}
	d.Register("Plain", nop)
	d.Register("Mail", nop, goworker.Timeout(30*time.Second), goworker.Retry(5, goworker.Delays{time.Second}, goworker.NoRetryOn(context.Canceled)),
		goworker.Concurrency(3), goworker.RateLimit(10, time.Second, goworker.InProcess(), goworker.PerKey(goworker.Arg(0))),
		goworker.Unique(goworker.UntilStart()), goworker.ExpireAfter(time.Hour),
		goworker.With(func(next goworker.Handler) goworker.Handler { return next }))
	d.Register("Alone", nop, goworker.Isolated(goworker.HardTimeout(time.Minute), goworker.MaxMemory(1<<20)), goworker.Fair(goworker.Arg(0)))
	want := []goworker.ClassInfo{
		{Name: "Alone", Options: []string{
			"how jobs are isolated: Isolated", "when the job is ended: HardTimeout(1m0s)", "how much memory the job may hold: MaxMemory(1048576)",
			"by which key jobs take turns: FairBy",
		}},
		{Name: "Mail", Options: []string{
			"how long a run may take: Timeout(30s)",
			"how often a failed job is retried: Retry(5)", "how long to wait: Delays", "which errors are not retried: NoRetryOn",
			"how many run: at most 3 at a time", "how many run: one each 100ms, by key, in each process",
			"which middleware it has of its own: WithMiddleware",
			"how the job is unique: Unique", "when the job expires: ExpireAfter(1h0m0s)",
		}},
		{Name: "Plain"},
	}
	if diff := cmp.Diff(want, d.Classes()); diff != "" {
		t.Error(diff)
	}
	s := goworker.NewShards(goworker.WorkerSettings{}, goworker.Shard{URI: "redis://localhost", Queues: []string{"a"}})
	s.Register("Plain", nop)
	if diff := cmp.Diff(want[2:], s.Classes()); diff != "" {
		t.Error(diff)
	}
}
