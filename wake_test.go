package goworker_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// The interval of these daemons is a minute. A job that starts within the deadline of a
// test started because Redis notified the daemon.

func TestPushWakes(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	pushed := time.Now()
	b.Push(daemontest.Job("Mark", "a"))
	b.Eventually("the job runs", func() bool { return b.Runs.Ends("a") == 1 })
	t.Logf("push to end of job: %v", time.Since(pushed))
}

func TestPushToNewQueueWakes(t *testing.T) {
	t.Parallel()
	for _, queues := range []string{"*", "mail-*,!mail-later"} {
		t.Run(queues, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = queues })
			b.Start()
			b.Eventually("the daemon is in the fleet", func() bool { return len(b.Redis.List(t, "SMEMBERS", "resque:workers")) == 4 })
			b.PushTo("mail-now", daemontest.Job("Mark", "first"))
			b.Eventually("the job of a queue that did not exist runs", func() bool { return b.Runs.Ends("first") == 1 })
			b.PushTo("mail-later", daemontest.Job("Mark", "other"))
			b.PushTo("mail-soon", daemontest.Job("Mark", "second"))
			b.Eventually("the job of another one runs", func() bool { return b.Runs.Ends("second") == 1 })
			b.PushTo("mail-now", daemontest.Job("Mark", "third"))
			b.Eventually("the job of a queue that was empty runs", func() bool { return b.Runs.Ends("third") == 1 })
			if queues == "*" {
				b.Eventually("the job of mail-later runs", func() bool { return b.Runs.Ends("other") == 1 })
			} else if n := b.Runs.Ends("other"); n != 0 {
				t.Errorf("the job of mail-later ran %d times", n)
			}
		})
	}
}

func TestPushWakesAfterConnectionsBroke(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		list func(*daemontest.Bundle) []string
	}{
		{"the one that is notified", (*daemontest.Bundle).Subscribers},
		{"the one that asks", (*daemontest.Bundle).Tracked},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t)
			b.Start()
			b.Idle()
			b.Eventually("the poller and the pump have one", func() bool { return len(test.list(b)) == 2 })
			old := test.list(b)
			for _, id := range old {
				b.Redis.Do(t, "CLIENT", "KILL", "ID", id)
			}
			// The poller learns that the one that asks is gone when it next proves it; the pump
			// has no use for it here.
			goworker.ProveLink(b.Daemon)
			b.Eventually("another connection is made", func() bool {
				return slices.ContainsFunc(test.list(b), func(id string) bool { return !slices.Contains(old, id) })
			})
			b.Push(daemontest.Job("Mark", "a"))
			b.Eventually("the job runs", func() bool { return b.Runs.Ends("a") == 1 })
		})
	}
}

func TestFlushWakes(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	c := b.Redis.Dial(t)
	for _, command := range [][]any{{"MULTI"}, {"FLUSHALL"}, {"RPUSH", "resque:queue:work", daemontest.Job("Mark", "a")}, {"EXEC"}} {
		if _, err := c.Do(command[0].(string), command[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	b.Eventually("the job runs", func() bool { return b.Runs.Ends("a") == 1 })
	redistest.Eventually(t, goworker.HeartbeatEvery/2, "the workers are registered, sooner than at the next heartbeat", func() bool {
		return b.Redis.Int(t, "SCARD", "resque:workers") == 4
	})
}

func TestPollingWithoutTracking(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.DisableTracking, s.PollInterval = true, 50*time.Millisecond })
	m := b.Redis.Monitor(t)
	b.Start()
	b.Idle()
	b.Push(daemontest.Job("Mark", "a"))
	b.Eventually("the job runs", func() bool { return b.Runs.Ends("a") == 1 })
	for _, c := range m.Commands() {
		if c[0] == "CLIENT" && len(c) > 1 && slices.Contains([]string{"TRACKING", "CACHING"}, strings.ToUpper(c[1])) || c[0] == "SUBSCRIBE" {
			t.Errorf("it sent %q", c)
		}
	}
}

// A user that may not subscribe is polled for, and the log says which rule to add.
func TestPollingWithoutPermissionToSubscribe(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.PollInterval = 50 * time.Millisecond
		s.URI = strings.Replace(s.URI, "redis://", "redis://worker:secret@", 1)
	})
	b.Redis.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~resque:*", "+@all", "resetchannels")
	b.Start()
	b.Idle()
	b.Push(daemontest.Job("Mark", "a"))
	b.Eventually("the job runs", func() bool { return b.Runs.Ends("a") == 1 })
	b.Eventually("the log names the rule to add", func() bool { return b.Log.Count("&__redis__:invalidate") > 0 })
	if n := b.Log.Count("&__redis__:invalidate"); n != 1 {
		t.Errorf("the rule to add was named %d times, want once", n)
	}
	if b.Log.Count("secret") > 0 {
		t.Error("the log holds the password")
	}
}

// The daemon asks a server again that could not notify it.
func TestPermissionToSubscribeComesLater(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.URI = strings.Replace(s.URI, "redis://", "redis://worker:secret@", 1)
	})
	b.Redis.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~resque:*", "+@all", "resetchannels")
	b.Start()
	b.Eventually("the server cannot notify", func() bool { return b.Log.Count("&__redis__:invalidate") == 1 })
	b.Redis.Do(t, "ACL", "SETUSER", "worker", "&__redis__:invalidate")
	b.Eventually("the server notifies", func() bool { return len(b.Tracked()) > 0 })
	b.Push(daemontest.Job("Mark", "a"))
	b.Eventually("the job runs", func() bool { return b.Runs.Ends("a") == 1 })
}

func TestPauseAllWorkers(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	b.Redis.Do(t, "SET", "resque:pause-all-workers", "true")
	b.Push(daemontest.Job("Mark", "a"))
	b.Push(daemontest.Job("Mark", "b"))
	b.Renewed(1)
	if n := b.Runs.Started(); n != 1 {
		t.Errorf("%d jobs ran, want none while paused", n-1)
	}
	if q := b.Queue("work"); len(q) != 2 {
		t.Errorf("the queue holds %q, want both jobs", q)
	}
	b.Redis.Do(t, "DEL", "resque:pause-all-workers")
	b.Eventually("the jobs run when the pause ends", func() bool { return b.Runs.Finished() == 3 })
}

func TestPauseOfOneDaemon(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	b.Push(daemontest.Job("Hold", "running"))
	b.Eventually("a job runs", func() bool { return b.Runs.Starts("running") == 1 })
	b.Daemon.Pause()
	b.Eventually("the pause is logged", func() bool { return b.Log.Count("pause paused=true") == 1 })
	b.Push(daemontest.Job("Mark", "a"))
	b.Open()
	b.Eventually("the running job ends and is committed", func() bool { return b.Stat("processed") == 1 })
	b.Renewed(1)
	if b.Runs.Starts("a") != 0 {
		t.Error("a job was taken while paused")
	}
	b.Daemon.Resume()
	b.Eventually("the job runs", func() bool { return b.Runs.Ends("a") == 1 })
}

// The look of an idle daemon at its queues goes with a renewal of its lease.
func TestIdleLooksWithRenewals(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.PollInterval = 4 * time.Second })
	m := b.Redis.Monitor(t)
	b.Start()
	b.Idle()
	b.Eventually("a renewal looks at a queue", func() bool {
		return slices.ContainsFunc(m.Commands(), func(c []string) bool {
			return strings.HasPrefix(c[0], "EVAL") && slices.Contains(c, "EXISTS") && slices.Contains(c, "resque:go:processes")
		})
	})
	b.Push(daemontest.Job("Mark", "a"))
	b.Eventually("and a job wakes it as before", func() bool { return b.Runs.Ends("a") == 1 })
}

// An idle daemon costs Redis next to nothing: what it sends comes from its lease
// and heartbeats.
func TestIdleSendsLittle(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	b.Renewed(1)
	before := b.Commands()
	began := time.Now()
	b.Renewed(2)
	sent := b.Commands() - before
	t.Logf("%.1f scripts a second while idle", float64(sent)/time.Since(began).Seconds())
	if sent > 20 { // two renewals of the lease and a look
		t.Errorf("%d scripts while idle", sent)
	}
}
