package daemontest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/fleet"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// Crowd adds 100,000 keys of another program.
func (b *Bundle) Crowd() {
	b.Redis.Do(b.T, "EVAL", "for i = 1, 100000 do redis.call('SET', 'another:program:' .. i, i) end", 0)
}

// Exactly checks that n jobs were started, each once, and counted once.
func (b *Bundle) Exactly(n int) {
	b.T.Helper()
	b.Reaches("counted jobs", n, func() int { return b.Stat("processed") })
	if twice := b.Runs.Twice(); len(twice) > 0 {
		b.T.Errorf("these jobs ran twice: %q", twice)
	}
	if got := b.Runs.Started(); got != n {
		b.T.Errorf("%d jobs ran, want %d", got, n)
	}
	if got := b.Stat("processed"); got != n {
		b.T.Errorf("stat:processed is %d, want %d", got, n)
	}
}

// Holding starts a daemon and waits until all its workers hold a job.
func Holding(t *testing.T, args ...string) *Bundle {
	t.Helper()
	b := SetupOn(t, redistest.Start(t, args...))
	b.Start()
	b.Push(Jobs("Hold", 4)...)
	b.Push(Jobs("Mark", 6)...)
	b.Eventually("four jobs run", func() bool { return b.Runs.Started() == 4 })
	return b
}

var Persistent = []string{"--appendonly", "yes", "--appendfsync", "always"}

// Died puts the records of a process there that died without jobs.
func (b *Bundle) Died(distinct bool) resque.Process {
	b.T.Helper()
	host, err := os.Hostname()
	if err != nil {
		b.T.Fatal(err)
	}
	mark := fmt.Sprintf("%08x", rand.Uint32())
	dead := resque.Process{
		ID: fmt.Sprintf("%s:%d:%s", host, os.Getpid(), mark), Host: host, PID: os.Getpid(), Version: "test",
		Queues: b.Settings.QueuesString, Concurrency: b.Settings.Concurrency, Started: time.Now(),
		IDHead: fmt.Sprintf("%s.go:%d-", host, os.Getpid()), IDQueues: b.Settings.QueuesString,
	}
	if distinct {
		dead.IDHead = fmt.Sprintf("%s.go:%d.%s-", host, os.Getpid(), mark)
	}
	store, c := resque.New(""), b.Redis.Dial(b.T)
	now := time.Now()
	if err := store.Enter(c, dead, fleet.LeasePeriod, now); err != nil {
		b.T.Fatal(err)
	}
	if err := store.Register(c, dead.ID, dead.WorkerIDs(), now, now); err != nil {
		b.T.Fatal(err)
	}
	return dead
}

// Buried reports whether nothing is left of a dead process but its tombstone.
func (b *Bundle) Buried(dead resque.Process) bool {
	b.T.Helper()
	own := b.Redis.List(b.T, "KEYS", "*"+dead.ID[strings.LastIndexByte(dead.ID, ':')+1:]+"*")
	return len(own) == 1 && own[0] == "resque:go:reaped:"+dead.ID
}

// Ensure makes sure that a key exists.
func (b *Bundle) Ensure(key string) {
	b.T.Helper()
	if b.Redis.Int(b.T, "EXISTS", key) == 0 {
		if strings.HasSuffix(key, "recovered") {
			b.Redis.Do(b.T, "HSET", key, "none", "0 0")
		} else {
			b.Redis.Do(b.T, "SET", key, "0")
		}
	}
}

// OnlyLasting fails the test if go: keys are left other than tombstones, which last
// a day, and what the start tries the permissions on.
func (b *Bundle) OnlyLasting() {
	b.T.Helper()
	for key, value := range b.Redis.Dump(b.T, "resque:go:") {
		if !strings.HasPrefix(key, "resque:go:reaped:") && !strings.HasPrefix(key, "resque:go:probe:") && !OfHistory(strings.TrimPrefix(key, "resque:")) {
			b.T.Errorf("the key %s is left: %v", key, value)
		}
	}
	for _, key := range []string{"resque:workers", "resque:workers:heartbeat"} {
		if b.Redis.Int(b.T, "EXISTS", key) == 1 {
			b.T.Errorf("the key %s is left: %v", key, b.Redis.Dump(b.T, "")[key])
		}
	}
	if b.T.Failed() {
		b.T.Log(b.Log.Text())
	}
}
