package daemon

import (
	"fmt"
	"testing"

	"github.com/goworker/goworker/internal/daemontest"
)

// givesBack makes a daemon prefetch a job and requeue it, because all workers
// turned out to be slow. At that moment Redis was tracking the queue.
func givesBack(t *testing.T) *daemontest.Bundle {
	t.Helper()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	var short []string
	for i := range 500 {
		short = append(short, daemontest.Job("Mark", fmt.Sprint(i)))
	}
	b.Push(short...)
	b.Eventually("short jobs have run", func() bool { return b.Stat("processed") == 500 })
	b.Push(daemontest.Job("Hold", "a"), daemontest.Job("Hold", "b"), daemontest.Job("Hold", "c"), daemontest.Job("Hold", "d"), daemontest.Job("Mark", "back"))
	b.Eventually("a job is given back", func() bool {
		return b.Runs.Starts("d") == 1 && len(b.Queue("work")) == 1
	})
	return b
}

// Redis does not notify a process of its own changes.
func TestJobGivenBackRunsWhenAWorkerIsFree(t *testing.T) {
	t.Parallel()
	b := givesBack(t)
	b.Open()
	b.Eventually("it runs", func() bool { return b.Runs.Ends("back") == 1 })
	b.Push(daemontest.Job("Mark", "late"))
	b.Eventually("a later one runs", func() bool { return b.Runs.Ends("late") == 1 })
}

// After its own change Redis does not track the key for us any more.
func TestPushWakesAfterOthersTookAJobGivenBack(t *testing.T) {
	t.Parallel()
	b := givesBack(t)
	b.Redis.Do(t, "LPOP", "resque:queue:work")
	b.Open()
	b.Eventually("the workers are free", func() bool { return b.Runs.Ends("d") == 1 })
	b.Push(daemontest.Job("Mark", "late"))
	b.Eventually("a later one runs", func() bool { return b.Runs.Ends("late") == 1 })
}
