package daemon

import (
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/resque"
)

// While a suspect is on trial, its process takes more jobs for its free workers. If long jobs then have all of them, the suspects that
// still wait here go back, and another process starts them.
func TestSuspectsLeaveABusyProcess(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 2 })
	other := daemontest.SetupOn(t, b.Redis)
	var jobs []string
	for _, id := range []string{"a", "b", "c"} {
		jobs = append(jobs, daemontest.Job("Hold", id))
		b.Redis.Do(t, "HSET", "resque:go:recovered", resque.Digest([]byte(jobs[len(jobs)-1])), fmt.Sprintf("1 %d another 0 0", time.Now().UnixMilli()))
	}
	b.Push(jobs...)
	b.Start()
	b.Eventually("both workers have a job", func() bool { return b.Runs.Started() == 2 })
	other.Start()
	b.Eventually("another process runs the third", func() bool { return other.Runs.Started() == 1 })
	if n := b.Redis.Int(t, "HLEN", "resque:go:recovered"); n != 3 {
		t.Errorf("the deaths of %d of 3 jobs are remembered", n)
	}
	b.Open()
	other.Open()
	b.Eventually("all have ended, and count as suspects no more", func() bool {
		return b.Stat("processed") == 3 && b.Redis.Int(t, "EXISTS", "resque:go:recovered") == 0
	})
}
