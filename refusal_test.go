package goworker

import (
	"slices"
	"strings"
	"testing"
	"time"

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
		afterward func(*bundle)
	}{
		{"READONLY", []any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}, "READONLY", nil},
		{"NOREPLICAS", []any{"CONFIG", "SET", "min-replicas-to-write", "1"}, []any{"CONFIG", "SET", "min-replicas-to-write", "0"}, "NOREPLICAS", nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := holding(t)
			b.redis.Do(t, test.on[0].(string), test.on[1:]...)
			b.open()
			b.eventually("the jobs end", func() bool { return b.runs.finished() == 4 })
			b.eventually("the refusal is logged", func() bool { return b.log.count(test.says) > 0 })
			b.redis.Do(t, test.off[0].(string), test.off[1:]...)
			b.exactly(10)
			b.renewed(1)
			if n := b.log.count("WARN Redis does not serve us"); n != 1 {
				t.Errorf("the refusal was logged %d times, want once", n)
			}
			if err := b.stop(); err != nil {
				t.Fatal(err)
			}
			b.onlyTotals()
		})
	}
}

// At maxmemory nobody can enqueue, but what is there is worked off: that is what
// frees memory.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	b := holding(t)
	b.push(job("Fail", "f"))
	b.push(jobs("Mark", 600)[6:]...)
	b.redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if err := b.daemon.Enqueue(&Job{Queue: "work", Payload: Payload{Class: "Mark", Args: []any{"x"}}}); err == nil || !strings.Contains(err.Error(), "OOM") {
		t.Errorf("Enqueue returned %v, want Redis's refusal", err)
	}
	b.renewed(2)
	b.open()
	b.exactly(605)
	if n := len(b.failures()); n != 1 || b.stat("failed") != 1 {
		t.Errorf("%d failure records, stat:failed %d, want one", n, b.stat("failed"))
	}
	b.redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	b.push(job("Mark", "after"))
	b.exactly(606)
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.onlyTotals()
}

// A daemon that connects anew while memory is short cannot prove that Redis tells
// of pushes; it does so when memory is there again, at the latest.
func TestReconnectOutOfMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	b.redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	b.redis.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	b.redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	b.renewed(1)
	b.redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	b.push(job("Mark", "after"))
	b.eventually("the job runs", func() bool { return b.runs.ends("after") == 1 })
}

// Who starts at maxmemory works off the queues too, and Resque's tools see it.
// When it was started they learn when there is room.
func TestStartOutOfMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push(jobs("Mark", 5)...)
	b.redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	b.start()
	b.exactly(5)
	if n := b.redis.Int(t, "HLEN", "resque:workers:heartbeat"); n != 4 {
		t.Errorf("%d workers send heartbeats, want 4: Ruby would remove the others", n)
	}
	if n := b.redis.Int(t, "SCARD", "resque:workers"); n != 4 {
		t.Errorf("%d workers are registered, want 4", n)
	}
	b.redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	b.eventually("their start is told", func() bool {
		return b.redis.Int(t, "EXISTS", "resque:worker:"+b.daemon.session().Workers[0]+":started") == 1
	})
}

func TestScriptFlush(t *testing.T) {
	t.Parallel()
	b := holding(t)
	b.redis.Do(t, "SCRIPT", "FLUSH")
	b.open()
	b.exactly(10)
	b.redis.Do(t, "SCRIPT", "FLUSH")
	b.renewed(1)
	b.push(job("Mark", "after"))
	b.exactly(11)
	if n := b.log.count("NOSCRIPT"); n != 0 {
		t.Errorf("%d lines of the log say so", n)
	}
}

// A set of queues that cannot be read is not one that is empty.
func TestQueuesOfWrongTypeAreNotEmpty(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) {
		s.QueuesString, s.ExitOnComplete, s.PollInterval = "*", true, 50*time.Millisecond
	})
	b.redis.Do(t, "RPUSH", "resque:queue:work", job("Mark", "1"))
	b.redis.Do(t, "SET", "resque:queues", "not a set")
	b.start()
	b.eventually("the refusal is logged", func() bool { return b.log.count("resque:queues") == 1 })
	b.renewed(1)
	select {
	case <-b.daemon.poller.ended:
		t.Fatal("the daemon ended, although it could not see the queues")
	default:
	}
	b.redis.Do(t, "SADD", "repaired", "work")
	b.redis.Do(t, "RENAME", "repaired", "resque:queues")
	if err := b.wait(); err != nil {
		t.Fatal(err)
	}
	if n := b.stat("processed"); n != 1 {
		t.Errorf("%d jobs done, want 1", n)
	}
}

// A queue of another type costs itself and one line in the log.
func TestQueueOfWrongType(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.QueuesString = "wrong,work"; s.PollInterval = 100 * time.Millisecond })
	b.redis.Do(t, "SET", "resque:queue:wrong", "not a list")
	b.start()
	b.push(jobs("Mark", 50)...)
	b.exactly(50)
	b.renewed(1)
	if n := b.log.count("resque:queue:wrong"); n != 1 {
		t.Errorf("the queue was logged %d times, want once", n)
	}
	b.redis.Do(t, "DEL", "resque:queue:wrong")
	b.pushTo("wrong", job("Mark", "right"))
	b.eventually("the queue is served when it is put right", func() bool { return b.runs.ends("right") == 1 })
}

// Failures that cannot be filed are kept and filed when they can.
func TestFailuresOfWrongType(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.redis.Do(t, "SET", "resque:failed", "not a list")
	b.start()
	b.push(jobs("Fail", 3)...)
	b.push(jobs("Mark", 20)...)
	b.eventually("the jobs that do not fail are counted", func() bool { return b.stat("processed") == 20 })
	if b.stat("failed") != 0 {
		t.Errorf("stat:failed is %d although no failure could be filed", b.stat("failed"))
	}
	if n := b.log.count("resque:failed"); n != 1 {
		t.Errorf("the key was logged %d times, want once", n)
	}
	b.redis.Do(t, "DEL", "resque:failed")
	b.exactly(23)
	if n := len(b.failures()); n != 3 || b.stat("failed") != 3 {
		t.Errorf("%d failure records, stat:failed %d, want 3", n, b.stat("failed"))
	}
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	b.onlyTotals()
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
			b := holding(t)
			b.push(job("Fail", "f"))
			key := "resque:" + strings.NewReplacer("%s", b.process(), "%[2]s", b.daemon.session().Workers[0]).Replace(key)
			c := b.redis.Dial(t)
			atOnce := func(commands ...[]any) { // the daemon writes these keys too
				t.Helper()
				for _, command := range slices.Concat([][]any{{"MULTI"}}, commands, [][]any{{"EXEC"}}) {
					if _, err := c.Do(command[0].(string), command[1:]...); err != nil {
						t.Fatal(err)
					}
				}
			}
			b.ensure(key)
			atOnce([]any{"RENAME", key, "saved"}, []any{"LPUSH", key, "wrong"})
			b.open()
			b.eventually("the jobs end", func() bool { return b.runs.finished() >= 4 })
			b.daemon.lease.Wake()
			b.eventually("the daemon saw it, or need not care", func() bool {
				return b.log.count("WRONGTYPE")+b.log.count("lost the records") > 0 || b.runs.started() == 11
			})
			atOnce([]any{"DEL", key}, []any{"RENAME", "saved", key})
			b.eventually("all jobs run", func() bool { return b.runs.finished() == 11 })
			if twice := b.runs.twice(); len(twice) > 0 {
				t.Errorf("these jobs ran twice: %q", twice)
			}
			b.eventually("the failure is filed", func() bool { return len(b.failures()) == 1 })
			if err := b.stop(); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// ensure makes sure that a key exists.
func (b *bundle) ensure(key string) {
	b.t.Helper()
	if b.redis.Int(b.t, "EXISTS", key) == 0 {
		if strings.HasSuffix(key, "recovered") {
			b.redis.Do(b.t, "HSET", key, "none", "0 0")
		} else {
			b.redis.Do(b.t, "SET", key, "0")
		}
	}
}

// Who is told to stop while he waits for a Redis that refuses has nothing to regret.
func TestStopBeforeTheStart(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.redis.Do(t, "REPLICAOF", "127.0.0.1", "1")
	b.start()
	b.eventually("it waits", func() bool { return strings.Contains(b.log.text(), "trying again until it does") })
	if err := b.stop(); err != nil {
		t.Errorf("Run returned %v", err)
	}
}

// A Redis that evicts keys loses jobs, so the operator is told at the start.
func TestEvictionIsWarnedOf(t *testing.T) {
	t.Parallel()
	for policy, want := range map[string]bool{"allkeys-lru": true, "volatile-ttl": true, "noeviction": false} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			b := setupOn(t, redistest.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", policy))
			b.start()
			b.idle()
			if got := strings.Contains(b.log.text(), "set its maxmemory-policy to noeviction"); got != want {
				t.Errorf("warned: %v", got)
			}
		})
	}
}
