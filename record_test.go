package goworker_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A replica that was behind becomes the master: it still has jobs in the record
// that are done. They are acknowledged again and not run.
func TestRecordOfTheFinishedComesBack(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Push(daemontest.Jobs("Mark", 3)...)
	b.Exactly(3)
	record := "resque:go:inflight:" + b.Process()
	b.Redis.Do(t, "HSET", record, "2", "4:work"+daemontest.Job("Mark", "Mark001"))
	b.Redis.Do(t, "DECR", "resque:stat:processed")
	b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	b.Eventually("the record is empty again", func() bool { return b.Redis.Int(t, "HEXISTS", record, "2") == 0 })
	b.Exactly(3)
	b.Push(daemontest.Job("Mark", "after"))
	b.Exactly(4)
}

// The leases are removed after a process has died. The reaper finds its record, which
// has no lease, and recovers the jobs.
func TestOrphanedRecord(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Redis.Do(t, "HSET", "resque:go:inflight:gone:1:0badcafe", "7", "4:work"+daemontest.Job("Mark", "orphan"))
	b.Start()
	redistest.Eventually(t, 3*daemontest.Soon, "the job runs", func() bool { return b.Runs.Ends("orphan") == 1 })
	b.Exactly(1)
}

// A process died without jobs, and then the leases, the heartbeats and the
// registrations were removed. No key of it stays.
func TestOrphanWithoutJobs(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	dead := b.Died(true)
	b.Redis.Do(t, "DEL", "resque:go:processes", "resque:workers", "resque:workers:heartbeat")
	b.Start()
	redistest.Eventually(t, 3*daemontest.Soon, "nothing is left of it but its tombstone", func() bool { return b.Buried(dead) })
}

// Who finds its own lease removed looks at once for others that lost theirs.
func TestOrphansAreLookedForWhenLeasesAreRemoved(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	b.Renewed(1) // the first scan is over
	dead := b.Died(true)
	b.Redis.Do(t, "DEL", "resque:go:processes")
	redistest.Eventually(t, goworker.ScanEvery, "nothing is left of it but its tombstone", func() bool { return b.Buried(dead) })
}

// A container that starts again has the name and the process number of its dead
// predecessor. It takes neither its jobs nor its worker ids before the lease is
// over, and keeps its own ids when the predecessor is removed.
func TestSameNameAsTheDead(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	dead := b.Died(false)
	b.Redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, "1", "4:work"+daemontest.Job("Mark", "inherited"))
	b.Start()
	b.Eventually("both are in the fleet", func() bool {
		started := b.Runs.Starts("inherited") // before it is seen that the lease holds
		holds := b.Redis.Int(t, "ZSCORE", "resque:go:processes", dead.ID) > 0
		if holds && started != 0 {
			t.Error("the predecessor's job was taken while its lease held")
		}
		return b.Redis.Int(t, "SCARD", "resque:workers") == 8 || !holds
	})
	b.Eventually("the dead is removed", func() bool { return b.Redis.Int(t, "SCARD", "resque:workers") == 4 })
	b.Eventually("its job runs", func() bool { return b.Runs.Ends("inherited") == 1 })
	own := goworker.WorkerIDs(b.Daemon)
	if ids := b.Redis.List(t, "HKEYS", "resque:workers:heartbeat"); len(ids) != 4 || !slices.Contains(ids, own[0]) {
		t.Errorf("heartbeats of %q, want those of %q", ids, own)
	}
}

// What an operator may remove by hand.
func TestRecordsRemovedByHand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		command func(*daemontest.Bundle) []any
		back    func(*daemontest.Bundle) bool
	}{
		{"leases", func(*daemontest.Bundle) []any { return []any{"DEL", "resque:go:processes"} }, func(b *daemontest.Bundle) bool {
			return b.Redis.Int(b.T, "ZCARD", "resque:go:processes") == 1
		}},
		{"process record", func(b *daemontest.Bundle) []any { return []any{"DEL", "resque:go:process:" + b.Process()} }, func(b *daemontest.Bundle) bool {
			return b.Redis.Int(b.T, "EXISTS", "resque:go:process:"+b.Process()) == 1
		}},
		{"in-flight record", func(b *daemontest.Bundle) []any { return []any{"DEL", "resque:go:inflight:" + b.Process()} }, func(*daemontest.Bundle) bool {
			return true
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Holding(t)
			process := b.Process()
			command := test.command(b)
			b.Redis.Do(t, command[0].(string), command[1:]...)
			b.Eventually("the record is back", func() bool { return test.back(b) })
			b.Renewed(1)
			b.Open()
			b.Exactly(10)
			if now := b.Process(); now != process {
				t.Errorf("the process goes by another name: %s, was %s", now, process)
			}
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			b.OnlyTotals()
		})
	}
}

// A client of Redis cannot forge a line of a daemon's log. The names of its queues,
// classes, workers and processes never begin a line, and never reach a terminal as a
// command.
func TestNamesDoNotForgeLogLines(t *testing.T) {
	t.Parallel()
	const forged = "x\n\r\x1b[2J\u009b1A\u202e\u2028time=2026-01-01T00:00:00.000Z level=INFO msg=\"all is well\"\x00\x7f\",\"level\":\"INFO"
	for _, format := range []string{"text", "json"} {
		var out daemontest.SafeBuffer
		log, flush := goworker.NewLogger(slog.LevelDebug, format, &out)
		b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Logger, s.QueuesString = log, "*" })
		quoted, err := json.Marshal(forged)
		if err != nil {
			t.Fatal(err)
		}
		b.Daemon.Register("Fail", func(text string) error { return errors.New(text) })
		b.Redis.Do(t, "SADD", "resque:queues", forged, "wrong"+forged)
		b.Redis.Do(t, "SET", "resque:queue:wrong"+forged, "no list")
		b.Redis.Do(t, "RPUSH", "resque:queue:"+forged, `{"class":`+string(quoted)+`,"args":[],"id":`+string(quoted)+`}`, `{"class":"Fail","args":[`+string(quoted)+`]}`, forged)
		b.Redis.Do(t, "HSET", "resque:workers:heartbeat", "worker"+forged, "2020-01-01T00:00:00+00:00", "bad"+forged, forged)
		b.Redis.Do(t, "ZADD", "resque:go:processes", "5", "h:1:"+forged)
		b.Start()
		b.Eventually("the jobs have failed", func() bool { return b.Stat("failed") == 3 })
		redistest.Eventually(t, 2*daemontest.Soon, "the dead are found", func() bool {
			flush()
			return strings.Contains(out.String(), "a process was found dead") && strings.Contains(out.String(), "was removed")
		})
		if err := b.Stop(); err != nil {
			t.Error(err)
		}
		flush()
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		for _, line := range lines {
			if strings.ContainsFunc(line, func(c rune) bool { return !unicode.IsPrint(c) }) {
				t.Errorf("%s: a line holds what cannot be printed: %q", format, line)
			}
			var fields struct{ Time, Level, Msg string }
			if format == "json" && json.Unmarshal([]byte(line), &fields) != nil || format == "text" && !strings.HasPrefix(line, "time=20") {
				t.Errorf("%s: %q is no line of the daemon", format, line)
			}
			if fields.Msg == "all is well" || strings.HasPrefix(line, "time=2026-01-01T00:00:00.000Z") {
				t.Errorf("%s: %q is forged", format, line)
			}
		}
	}
}
