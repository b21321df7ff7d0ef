package goworker_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

func TestPauseQueue(t *testing.T) {
	t.Parallel()
	tests := map[string]func(*goworker.WorkerSettings){
		"notified": func(s *goworker.WorkerSettings) { s.QueuesString = "work,other" },
		"polling": func(s *goworker.WorkerSettings) {
			s.QueuesString, s.DisableTracking, s.PollInterval = "work,other", true, 50*time.Millisecond
		},
		"wildcard": func(s *goworker.WorkerSettings) { s.QueuesString = "*" },
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, change)
			b.Start()
			b.Idle()
			if err := b.Daemon.PauseQueue("work"); err != nil {
				t.Fatal(err)
			}
			b.Eventually("the daemon knows of the pause", func() bool { return goworker.KnowsPaused(b.Daemon, "work") })
			b.Push(daemontest.Job("Mark", "a"))
			b.PushTo("other", daemontest.Job("Mark", "b"))
			b.Eventually("the other queue's job runs", func() bool { return b.Runs.Ends("b") == 1 })
			if paused, err := b.Daemon.PausedQueues(); err != nil || !slices.Equal(paused, []string{"work"}) {
				t.Errorf("paused are %q, %v", paused, err)
			}
			b.Renewed(1)
			if n := len(b.Queue("work")); n != 1 || b.Runs.Starts("a") != 0 {
				t.Errorf("%d jobs are in the paused queue, want 1", n)
			}
			if err := b.Daemon.ResumeQueue("work"); err != nil {
				t.Fatal(err)
			}
			b.Eventually("the job runs when the pause is over", func() bool { return b.Runs.Ends("a") == 1 })
		})
	}
}

// Only single queues can be paused. What an older version put among the paused ones can
// be taken out again.
func TestPauseQueueNeedsAName(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	defer b.Daemon.Close()
	for _, name := range []string{"", "mail_*", "mail?", "[a-c]", "{a,b}", "!mail"} {
		for what, f := range map[string]func(string) error{"pause": b.Daemon.PauseQueue, "resume": b.Daemon.ResumeQueue} {
			if err := f(name); err == nil || name != "" && !strings.Contains(err.Error(), strconv.Quote(name)+" is not one queue") {
				t.Errorf("%s %q: %v", what, name, err)
			}
		}
		func() {
			defer func() {
				if v := recover(); !strings.Contains(fmt.Sprint(v), "LimitQueue") {
					t.Errorf("LimitQueue(%q) panics with %v", name, v)
				}
			}()
			b.Daemon.LimitQueue(name, goworker.MaxRunning(1))
		}()
	}
	if paused, err := b.Daemon.PausedQueues(); err != nil || len(paused) > 0 {
		t.Errorf("paused are %q, %v", paused, err)
	}
	b.Redis.Do(t, "SADD", "resque:go:paused", "mail_*")
	if err := b.Daemon.ResumeQueue("mail_*"); err != nil {
		t.Error(err)
	}
	if paused, err := b.Daemon.PausedQueues(); err != nil || len(paused) > 0 {
		t.Errorf("paused are %q, %v", paused, err)
	}
	if err := b.Daemon.ResumeQueue("mail"); err != nil {
		t.Errorf("a queue that is not paused: %v", err)
	}
}

// A queue that is paused when a daemon starts is not touched.
func TestPauseQueueBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "work,other" })
	b.Redis.Do(t, "SADD", "resque:go:paused", "work")
	b.Push(daemontest.Job("Mark", "a"))
	b.PushTo("other", daemontest.Job("Mark", "b"))
	b.Start()
	b.Eventually("the other queue's job runs", func() bool { return b.Runs.Ends("b") == 1 })
	if b.Runs.Starts("a") != 0 {
		t.Error("the paused queue's job ran")
	}
	b.Redis.Do(t, "SREM", "resque:go:paused", "work")
	b.Eventually("the job runs when the pause is over", func() bool { return b.Runs.Ends("a") == 1 })
}

// A queue of sorted jobs is paused like any other, and a key of another type pauses no
// queue.
func TestPauseSortedQueue(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "work,other" })
	b.Redis.Do(t, "SET", "resque:go:paused", "what is this")
	b.Daemon.Register("One", func(id string) { b.Runs.Start(id); b.Runs.End(id) }, goworker.MaxRunning(1))
	b.Start()
	b.Push(daemontest.Job("One", "a"))
	b.Eventually("a first job runs", func() bool { return b.Runs.Ends("a") == 1 })
	b.Redis.Do(t, "DEL", "resque:go:paused")
	b.Redis.Do(t, "SADD", "resque:go:paused", "work")
	b.Eventually("the daemon knows of the pause", func() bool { return goworker.KnowsPaused(b.Daemon, "work") })
	b.Push(daemontest.Job("One", "b"))
	b.PushTo("other", daemontest.Job("Mark", "c"))
	b.Eventually("the other queue's job runs", func() bool { return b.Runs.Ends("c") == 1 })
	if b.Runs.Starts("b") != 0 {
		t.Error("the paused queue's job ran")
	}
	b.Redis.Do(t, "DEL", "resque:go:paused")
	b.Eventually("the job runs when the pause is over", func() bool { return b.Runs.Ends("b") == 1 })
}
