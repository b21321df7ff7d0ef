package daemon

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// A stuck job of a real daemon: its worker stays taken, its outcome counts.
func TestStuckJobCountsAsItEnds(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 2 })
	b.Daemon.Register("Limited", func(id string) { b.Runs.Start(id); <-b.Gate; b.Runs.End(id) }, goworker.Timeout(time.Millisecond))
	b.Start()
	b.Push(daemontest.Job("Limited", "slow"))
	b.Eventually("the job is stuck", func() bool { return len(b.Daemon.StuckJobs()) == 1 })
	if s := b.Daemon.StuckJobs()[0]; s.Class != "Limited" || s.Queue != "work" || !strings.HasSuffix(s.Worker, ":work") {
		t.Errorf("stuck is %+v", s)
	}
	b.Push(daemontest.Jobs("Mark", 10)...)
	b.Eventually("the other worker works", func() bool { return b.Stat("processed") == 10 })
	if n := b.Runs.Ends("slow"); n != 0 {
		t.Error("the stuck job ended")
	}
	b.Open()
	b.Eventually("it is done", func() bool { return b.Stat("processed") == 11 && len(b.Daemon.StuckJobs()) == 0 })
	if f := b.Failures(); len(f) > 0 {
		t.Errorf("failures %+v", f)
	}
}
