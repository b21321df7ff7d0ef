package jobs

import (
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/daemontest"
)

// A worker of all queues that does not know the class of HTTP's jobs fails none of them: each stays in its queue, and the log names
// the queue and what excludes it. Jobs beside them run, and jobs of other unknown classes fail.
func TestWorkerLeavesJobsOfHTTP(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	job := `{"class":"HTTPJob","args":["hello"],"tries":2,"attempt":1,"id":"a"}`
	b.Redis.Do(t, "SADD", "resque:queues", "work")
	b.Push(job, daemontest.Job("Unheard", "x"), daemontest.Job("Mark", "y"))
	b.Start()
	b.Eventually("what is not HTTP's has ended", func() bool {
		return b.Redis.Int(t, "LLEN", "resque:failed") == 1 && b.Redis.Text(t, "GET", "resque:stat:processed") == "2"
	})
	b.Eventually("the job waits", func() bool { q := b.Queue("work"); return len(q) == 1 && q[0] == job })
	if text := b.Log.Text(); !strings.Contains(text, "jobs of HTTP clients have no handler here") || !strings.Contains(text, "exclude=!work") {
		t.Errorf("the log is\n%s", text)
	}
}
