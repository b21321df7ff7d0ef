package goworker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// The interval of these daemons is a minute: whatever starts within the deadline
// of a test was told of.

func TestPushWakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	pushed := time.Now()
	b.push(job("Mark", "a"))
	b.eventually("the job runs", func() bool { return b.runs.ends("a") == 1 })
	t.Logf("push to end of job: %v", time.Since(pushed))
}

func TestPushToNewQueueWakes(t *testing.T) {
	t.Parallel()
	for _, queues := range []string{"*", "mail-*,!mail-later"} {
		t.Run(queues, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(s *WorkerSettings) { s.QueuesString = queues })
			b.start()
			b.eventually("the daemon is in the fleet", func() bool { return len(b.redis.List(t, "SMEMBERS", "resque:workers")) == 4 })
			b.pushTo("mail-now", job("Mark", "first"))
			b.eventually("the job of a queue that did not exist runs", func() bool { return b.runs.ends("first") == 1 })
			b.pushTo("mail-later", job("Mark", "other"))
			b.pushTo("mail-soon", job("Mark", "second"))
			b.eventually("the job of another one runs", func() bool { return b.runs.ends("second") == 1 })
			b.pushTo("mail-now", job("Mark", "third"))
			b.eventually("the job of a queue that was empty runs", func() bool { return b.runs.ends("third") == 1 })
			if queues == "*" {
				b.eventually("the job of mail-later runs", func() bool { return b.runs.ends("other") == 1 })
			} else if n := b.runs.ends("other"); n != 0 {
				t.Errorf("the job of mail-later ran %d times", n)
			}
		})
	}
}

// subscribers are the ids of the connections on which Redis tells.
func (b *bundle) subscribers() (ids []string) {
	b.t.Helper()
	for line := range strings.Lines(b.redis.Text(b.t, "CLIENT", "LIST", "TYPE", "pubsub")) {
		id, _, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		ids = append(ids, id)
	}
	return ids
}

// tracked are the ids of the connections that ask to be told.
func (b *bundle) tracked() (ids []string) {
	b.t.Helper()
	for line := range strings.Lines(b.redis.Text(b.t, "CLIENT", "LIST", "TYPE", "normal")) {
		id, rest, _ := strings.Cut(strings.TrimPrefix(line, "id="), " ")
		_, flags, _ := strings.Cut(rest, " flags=")
		flags, _, _ = strings.Cut(flags, " ")
		if strings.Contains(flags, "t") {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestPushWakesAfterConnectionsBroke(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		list func(*bundle) []string
	}{
		{"the one that is told", (*bundle).subscribers},
		{"the one that asks", (*bundle).tracked},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.start()
			b.idle()
			b.eventually("the poller and the pump have one", func() bool { return len(test.list(b)) == 2 })
			old := test.list(b)
			for _, id := range old {
				b.redis.Do(t, "CLIENT", "KILL", "ID", id)
			}
			// The poller learns that the one that asks is gone when it next proves it; the pump
			// has no use for it here.
			p := b.daemon.poller
			p.ask(func() {
				if p.link != nil {
					p.link.Unprove()
				}
			})
			b.eventually("another connection is made", func() bool {
				return slices.ContainsFunc(test.list(b), func(id string) bool { return !slices.Contains(old, id) })
			})
			b.push(job("Mark", "a"))
			b.eventually("the job runs", func() bool { return b.runs.ends("a") == 1 })
		})
	}
}

func TestFlushWakes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	c := b.redis.Dial(t)
	for _, command := range [][]any{{"MULTI"}, {"FLUSHALL"}, {"RPUSH", "resque:queue:work", job("Mark", "a")}, {"EXEC"}} {
		if _, err := c.Do(command[0].(string), command[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	b.eventually("the job runs", func() bool { return b.runs.ends("a") == 1 })
	redistest.Eventually(t, 10*time.Second, "the workers are registered, sooner than at the next heartbeat", func() bool {
		return b.redis.Int(t, "SCARD", "resque:workers") == 4
	})
}

func TestPollingWithoutTracking(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.DisableTracking, s.PollInterval = true, 50*time.Millisecond })
	m := b.redis.Monitor(t)
	b.start()
	b.idle()
	b.push(job("Mark", "a"))
	b.eventually("the job runs", func() bool { return b.runs.ends("a") == 1 })
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
	b := setup(t, func(s *WorkerSettings) {
		s.PollInterval = 50 * time.Millisecond
		s.URI = strings.Replace(s.URI, "redis://", "redis://worker:secret@", 1)
	})
	b.redis.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~resque:*", "+@all", "resetchannels")
	b.start()
	b.idle()
	b.push(job("Mark", "a"))
	b.eventually("the job runs", func() bool { return b.runs.ends("a") == 1 })
	if n := b.log.count("&__redis__:invalidate"); n != 1 {
		t.Errorf("the rule to add was named %d times, want once", n)
	}
	if b.log.count("secret") > 0 {
		t.Error("the log holds the password")
	}
}

// A server that could not tell is asked again.
func TestPermissionToSubscribeComesLater(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.URI = strings.Replace(s.URI, "redis://", "redis://worker:secret@", 1) })
	b.redis.Do(t, "ACL", "SETUSER", "worker", "on", ">secret", "~resque:*", "+@all", "resetchannels")
	b.start()
	b.eventually("the server cannot tell", func() bool { return b.log.count("&__redis__:invalidate") == 1 })
	b.redis.Do(t, "ACL", "SETUSER", "worker", "&__redis__:invalidate")
	b.eventually("the server tells", func() bool { return len(b.tracked()) > 0 })
	b.push(job("Mark", "a"))
	b.eventually("the job runs", func() bool { return b.runs.ends("a") == 1 })
}

func TestPauseAllWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	b.redis.Do(t, "SET", "resque:pause-all-workers", "true")
	b.push(job("Mark", "a"))
	b.push(job("Mark", "b"))
	b.renewed(1)
	if n := b.runs.started(); n != 1 {
		t.Errorf("%d jobs ran, want none while paused", n-1)
	}
	if q := b.queue("work"); len(q) != 2 {
		t.Errorf("the queue holds %q, want both jobs", q)
	}
	b.redis.Do(t, "DEL", "resque:pause-all-workers")
	b.eventually("the jobs run when the pause ends", func() bool { return b.runs.finished() == 3 })
}

func TestPauseOfOneDaemon(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	b.push(job("Hold", "running"))
	b.eventually("a job runs", func() bool { return b.runs.starts("running") == 1 })
	b.daemon.Pause()
	b.eventually("the pause is logged", func() bool { return b.log.count("pause paused=true") == 1 })
	b.push(job("Mark", "a"))
	b.open()
	b.eventually("the running job ends and is committed", func() bool { return b.stat("processed") == 1 })
	b.renewed(1)
	if b.runs.starts("a") != 0 {
		t.Error("a job was taken while paused")
	}
	b.daemon.Resume()
	b.eventually("the job runs", func() bool { return b.runs.ends("a") == 1 })
}

// An idle daemon costs Redis next to nothing: what it sends comes from its lease
// and heartbeats.
func TestIdleSendsLittle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	b.renewed(1)
	before := b.commands()
	began := time.Now()
	b.renewed(2)
	sent := b.commands() - before
	t.Logf("%.1f scripts a second while idle", float64(sent)/time.Since(began).Seconds())
	if sent > 20 { // two renewals of the lease and a look
		t.Errorf("%d scripts while idle", sent)
	}
}

// commands is how many scripts the server has run.
func (b *bundle) commands() int {
	b.t.Helper()
	stats := b.redis.Text(b.t, "INFO", "commandstats")
	total := 0
	for line := range strings.Lines(stats) {
		name, rest, _ := strings.Cut(line, ":calls=")
		if calls, _, ok := strings.Cut(rest, ","); ok && strings.HasPrefix(name, "cmdstat_evalsha") {
			n, _ := redis.Int([]byte(calls), nil)
			total += n
		}
	}
	return total
}
