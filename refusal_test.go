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

// Refusals that pass: the daemon goes on when they are over, without losing or
// repeating anything.
func TestRefusalsPass(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		on, off   []any
		says      string // what the log then holds
		afterward func(*daemontest.Bundle)
	}{
		{"READONLY", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}, "READONLY", nil},
		{"NOREPLICAS", []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}, "NOREPLICAS", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Holding(t)
			b.Redis.Do(t, test.on[0].(string), test.on[1:]...)
			b.Open()
			b.Eventually("the jobs end", func() bool { return b.Runs.Finished() == 4 })
			b.Eventually("the refusal is logged", func() bool { return b.Log.Count(test.says) > 0 })
			b.Redis.Do(t, test.off[0].(string), test.off[1:]...)
			b.Exactly(10)
			b.Renewed(1)
			if n := b.Log.Count("WARN redis unavailable"); n != 1 {
				t.Errorf("the refusal was logged %d times, want once", n)
			}
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			b.OnlyTotals()
		})
	}
}

// At maxmemory producers cannot enqueue, but the workers still run the waiting jobs:
// this frees memory.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	b := daemontest.Holding(t)
	b.Push(daemontest.Job("Fail", "f"))
	b.Push(daemontest.Jobs("Mark", 600)[6:]...)
	b.Redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if err := b.Daemon.Enqueue(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: []any{"x"}}}); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Enqueue returned %v, want Redis's refusal", err)
	}
	b.Renewed(2)
	b.Open()
	b.Exactly(605)
	if n := len(b.Failures()); n != 1 || b.Stat("failed") != 1 {
		t.Errorf("%d failure records, stat:failed %d, want one", n, b.Stat("failed"))
	}
	b.Redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	b.Push(daemontest.Job("Mark", "after"))
	b.Exactly(606)
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.OnlyTotals()
}

// A daemon that reconnects while memory is short cannot prove that Redis notifies of
// pushes. It does so when memory is there again, at the latest.
func TestReconnectOutOfMemory(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	b.Redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	b.Renewed(1)
	b.Redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	b.Push(daemontest.Job("Mark", "after"))
	b.Eventually("the job runs", func() bool { return b.Runs.Ends("after") == 1 })
}

// Who starts at maxmemory works off the queues too, and Resque's tools see it.
// When it was started they learn when there is room.
func TestStartOutOfMemory(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Push(daemontest.Jobs("Mark", 5)...)
	b.Redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	b.Start()
	b.Exactly(5)
	b.Eventually("all workers send heartbeats: Ruby would remove the others", func() bool { return b.Redis.Int(t, "HLEN", "resque:workers:heartbeat") == 4 })
	b.Eventually("all workers are registered", func() bool { return b.Redis.Int(t, "SCARD", "resque:workers") == 4 })
	b.Redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	b.Eventually("their start is registered", func() bool {
		return b.Redis.Int(t, "EXISTS", "resque:worker:"+goworker.WorkerIDs(b.Daemon)[0]+":started") == 1
	})
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	b := daemontest.Holding(t)
	b.Redis.Do(t, "SCRIPT", "FLUSH")
	b.Open()
	b.Exactly(10)
	b.Redis.Do(t, "SCRIPT", "FLUSH")
	b.Renewed(1)
	b.Push(daemontest.Job("Mark", "after"))
	b.Exactly(11)
	if n := b.Log.Count("NOSCRIPT"); n != 0 {
		t.Errorf("%d lines of the log say so", n)
	}
}

// A set of queues that cannot be read is not one that is empty.
func TestQueuesOfWrongTypeAreNotEmpty(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.QueuesString, s.ExitOnComplete, s.PollInterval = "*", true, 50*time.Millisecond
	})
	b.Redis.Do(t, "RPUSH", "resque:queue:work", daemontest.Job("Mark", "1"))
	b.Redis.Do(t, "SET", "resque:queues", "not a set")
	b.Start()
	b.Eventually("the refusal is logged", func() bool { return b.Log.Count("resque:queues") == 1 })
	b.Renewed(1)
	select {
	case <-goworker.Ended(b.Daemon):
		t.Fatal("the daemon ended, although it could not see the queues")
	default:
	}
	b.Redis.Do(t, "SADD", "repaired", "work")
	b.Redis.Do(t, "RENAME", "repaired", "resque:queues")
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := b.Stat("processed"); n != 1 {
		t.Errorf("%d jobs done, want 1", n)
	}
}

// A queue of another type costs itself and one line in the log.
func TestQueueOfWrongType(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.QueuesString = "wrong,work"
		s.PollInterval = 100 * time.Millisecond
	})
	b.Redis.Do(t, "SET", "resque:queue:wrong", "not a list")
	b.Start()
	b.Push(daemontest.Jobs("Mark", 50)...)
	b.Exactly(50)
	b.Renewed(1)
	if n := b.Log.Count("resque:queue:wrong"); n != 1 {
		t.Errorf("the queue was logged %d times, want once", n)
	}
	b.Redis.Do(t, "DEL", "resque:queue:wrong")
	b.PushTo("wrong", daemontest.Job("Mark", "right"))
	b.Eventually("the queue is served when it is put right", func() bool { return b.Runs.Ends("right") == 1 })
}

// Failures that cannot be filed are kept and filed when they can.
func TestFailuresOfWrongType(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Redis.Do(t, "SET", "resque:failed", "not a list")
	b.Start()
	b.Push(daemontest.Jobs("Fail", 3)...)
	b.Push(daemontest.Jobs("Mark", 20)...)
	b.Eventually("the jobs that do not fail are counted", func() bool { return b.Stat("processed") == 20 })
	if b.Stat("failed") != 0 {
		t.Errorf("stat:failed is %d although no failure could be filed", b.Stat("failed"))
	}
	b.Eventually("the refusal is logged", func() bool { return b.Log.Count("resque:failed") > 0 }) // the others may end sooner
	if n := b.Log.Count("resque:failed"); n != 1 {
		t.Errorf("the key was logged %d times, want once", n)
	}
	b.Redis.Do(t, "DEL", "resque:failed")
	b.Exactly(23)
	if n := len(b.Failures()); n != 3 || b.Stat("failed") != 3 {
		t.Errorf("%d failure records, stat:failed %d, want 3", n, b.Stat("failed"))
	}
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.OnlyTotals()
}

// Each key a daemon writes is made the wrong type in turn: it never ends, and it
// works on when the key is put right.
func TestKeysOfWrongType(t *testing.T) {
	t.Parallel()
	keys := []string{
		"queues", "workers", "workers:heartbeat", "stat:processed", "stat:failed", "pause-all-workers",
		"go:processes", "go:recovered", "go:process:%s", "go:inflight:%s", "worker:%[2]s",
	}
	for _, key := range keys {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Holding(t)
			b.Push(daemontest.Job("Fail", "f"))
			key := "resque:" + strings.NewReplacer("%s", b.Process(), "%[2]s", goworker.WorkerIDs(b.Daemon)[0]).Replace(key)
			c := b.Redis.Dial(t)
			atOnce := func(commands ...[]any) { // the daemon writes these keys too
				t.Helper()
				for _, command := range slices.Concat([][]any{{"MULTI"}}, commands, [][]any{{"EXEC"}}) {
					if _, err := c.Do(command[0].(string), command[1:]...); err != nil {
						t.Fatal(err)
					}
				}
			}
			b.Ensure(key)
			atOnce([]any{"RENAME", key, "saved"}, []any{"LPUSH", key, "wrong"})
			b.Open()
			b.Eventually("the jobs end", func() bool { return b.Runs.Finished() >= 4 })
			goworker.HurryLease(b.Daemon)
			b.Eventually("the daemon saw it, or need not care", func() bool {
				return b.Log.Count("WRONGTYPE")+b.Log.Count("lost the records") > 0 || b.Runs.Started() == 11
			})
			atOnce([]any{"DEL", key}, []any{"RENAME", "saved", key})
			b.Eventually("all jobs run", func() bool { return b.Runs.Finished() == 11 })
			if twice := b.Runs.Twice(); len(twice) > 0 {
				t.Errorf("these jobs ran twice: %q", twice)
			}
			b.Eventually("the failure is filed", func() bool { return len(b.Failures()) == 1 })
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// A daemon that is stopped while it waits for a Redis that refuses it ends without an error.
func TestStopBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Redis.Do(t, "REPLICAOF", "127.0.0.1", "1")
	b.Start()
	b.Eventually("it waits", func() bool { return strings.Contains(b.Log.Text(), "redis unavailable, retrying") })
	if err := b.Stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// A Redis that evicts keys loses jobs, so the daemon warns the operator at the start.
func TestEvictionIsWarnedOf(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]bool{"allkeys-lru": true, "volatile-ttl": true, "noeviction": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b := daemontest.SetupOn(t, redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", policy))
			b.Start()
			b.Idle()
			if got := strings.Contains(b.Log.Text(), "set its maxmemory-policy to noeviction"); got != want {
				t.Errorf("warned: %v", got)
			}
		})
	}
}
