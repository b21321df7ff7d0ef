package goworker

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// A replica that was behind becomes the master: it still has jobs in the record
// that are done. They are acknowledged again and not run.
func TestRecordOfTheFinishedComesBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.push(jobs("Mark", 3)...)
	b.exactly(3)
	record := "resque:go:inflight:" + b.process()
	b.redis.Do(t, "HSET", record, "2", "4:work"+job("Mark", "Mark001"))
	b.redis.Do(t, "DECR", "resque:stat:processed")
	b.redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	b.redis.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	b.eventually("the record is empty again", func() bool { return b.redis.Int(t, "HEXISTS", record, "2") == 0 })
	b.exactly(3)
	b.push(job("Mark", "after"))
	b.exactly(4)
}

// A record that no lease protects, because somebody removed the leases after its
// process had died, is found and brought back all the same.
func TestOrphanedRecord(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.redis.Do(t, "HSET", "resque:go:inflight:gone:1:0badcafe", "7", "4:work"+job("Mark", "orphan"))
	b.start()
	redistest.Eventually(t, 3*soon, "the job runs", func() bool { return b.runs.ends("orphan") == 1 })
	b.exactly(1)
}

// Neither does anything stay of a process that died without jobs before somebody
// removed the leases, the heartbeats and the registrations.
func TestOrphanWithoutJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dead := b.died(true)
	b.redis.Do(t, "DEL", "resque:go:processes", "resque:workers", "resque:workers:heartbeat")
	b.start()
	redistest.Eventually(t, 3*soon, "nothing is left of it but its tombstone", func() bool { return b.buried(dead) })
}

// Who finds its own lease removed looks at once for others that lost theirs.
func TestOrphansAreLookedForWhenLeasesAreRemoved(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	b.renewed(1) // the first scan is over
	dead := b.died(true)
	b.redis.Do(t, "DEL", "resque:go:processes")
	redistest.Eventually(t, 20*time.Second, "nothing is left of it but its tombstone", func() bool { return b.buried(dead) })
}

// died puts the records of a process there that died without jobs.
func (b *bundle) died(distinct bool) resque.Process {
	b.t.Helper()
	config, err := b.daemon.settings.config(true)
	if err != nil {
		b.t.Fatal(err)
	}
	dead := newProcess(config, distinct)
	store, c := resque.New(""), b.redis.Dial(b.t)
	now := time.Now()
	if err := store.Enter(c, dead, fleet.LeasePeriod, now); err != nil {
		b.t.Fatal(err)
	}
	if err := store.Register(c, dead.WorkerIDs(), now, now); err != nil {
		b.t.Fatal(err)
	}
	return dead
}

// buried reports whether nothing is left of a dead process but its tombstone.
func (b *bundle) buried(dead resque.Process) bool {
	b.t.Helper()
	own := b.redis.List(b.t, "KEYS", "*"+dead.ID[strings.LastIndexByte(dead.ID, ':')+1:]+"*")
	return len(own) == 1 && own[0] == "resque:go:reaped:"+dead.ID
}

// A container that starts again has the name and the process number of its dead
// predecessor. It takes neither its jobs nor its worker ids before the lease is
// over, and keeps its own ids when the predecessor is removed.
func TestSameNameAsTheDead(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dead := b.died(false)
	b.redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, "1", "4:work"+job("Mark", "inherited"))
	b.start()
	b.eventually("both are in the fleet", func() bool { return b.redis.Int(t, "SCARD", "resque:workers") == 8 })
	if b.runs.starts("inherited") != 0 {
		t.Error("the predecessor's job was taken while its lease held")
	}
	b.eventually("the dead is removed", func() bool { return b.redis.Int(t, "SCARD", "resque:workers") == 4 })
	b.eventually("its job runs", func() bool { return b.runs.ends("inherited") == 1 })
	own := b.daemon.session().Workers
	if ids := b.redis.List(t, "HKEYS", "resque:workers:heartbeat"); len(ids) != 4 || !slices.Contains(ids, own[0]) {
		t.Errorf("heartbeats of %q, want those of %q", ids, own)
	}
}

// What an operator may remove by hand.
func TestRecordsRemovedByHand(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		command func(*bundle) []any
		back    func(*bundle) bool
	}{
		{"leases", func(*bundle) []any { return []any{"DEL", "resque:go:processes"} }, func(b *bundle) bool {
			return b.redis.Int(b.t, "ZCARD", "resque:go:processes") == 1
		}},
		{"process record", func(b *bundle) []any { return []any{"DEL", "resque:go:process:" + b.process()} }, func(b *bundle) bool {
			return b.redis.Int(b.t, "EXISTS", "resque:go:process:"+b.process()) == 1
		}},
		{"in-flight record", func(b *bundle) []any { return []any{"DEL", "resque:go:inflight:" + b.process()} }, func(*bundle) bool {
			return true
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := holding(t)
			process := b.process()
			command := test.command(b)
			b.redis.Do(t, command[0].(string), command[1:]...)
			b.eventually("the record is back", func() bool { return test.back(b) })
			b.renewed(1)
			b.open()
			b.exactly(10)
			if now := b.process(); now != process {
				t.Errorf("the process goes by another name: %s, was %s", now, process)
			}
			if err := b.stop(); err != nil {
				t.Fatal(err)
			}
			b.onlyTotals()
		})
	}
}
