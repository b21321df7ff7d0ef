package daemon

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// damages are what may befall a key: an operator removes it, or another program writes a value of
// another type under it, and an operator removes that.
var damages = map[string]func(b *daemontest.Bundle, key string){
	"removed": func(b *daemontest.Bundle, key string) { b.Redis.Do(b.T, "DEL", key) },
	"of another type for 2 s": func(b *daemontest.Bundle, key string) {
		b.Redis.Do(b.T, "SET", key, "not ours")
		time.Sleep(2 * time.Second)
		b.Redis.Do(b.T, "DEL", key)
	},
}

// Jobs that wait in lanes run although the keys that name their lanes were damaged.
func TestLanesOutliveTheirKeys(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		for _, key := range []string{"resque:go:lanes", "turns"} {
			t.Run(name+" "+key, func(t *testing.T) {
				t.Parallel()
				b := daemontest.Setup(t)
				g := daemontest.NewGauge()
				b.Daemon.Register("Slow", func(tenant string, n int) { g.Hold(tenant, n, func() { <-b.Gate }) }, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))))
				b.Start()
				for n := range 60 {
					b.Push(daemontest.TenantJob("Slow", fmt.Sprint("tenant", n%3), n))
				}
				b.Eventually("one of each tenant runs", func() bool { return len(b.Queue("work")) == 0 && len(g.Mosts()) == 3 })
				b.Crowd()
				if key == "turns" {
					key = b.Redis.List(t, "KEYS", "resque:go:lanes:*")[0]
				}
				damage(b, key)
				b.Open()
				b.Eventually("all run", func() bool { return g.Done.Load() == 60 && b.Stat("processed") == 60 })
				for tenant, most := range g.Mosts() {
					if most != 1 {
						t.Errorf("%d jobs of %s ran at a time, want 1", most, tenant)
					}
				}
			})
		}
	}
}

// A process that never saw the lanes finds them too.
func TestLostLanesAreFoundByANewProcess(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	lane := resque.NewLane("work", resque.Limit{Kind: resque.LimitRunning, Name: "Gone"})
	for n := range 3 {
		b.Redis.Do(t, "RPUSH", "resque:go:lane:4:work6:c:Gone", daemontest.Job("Mark", fmt.Sprint(n)))
	}
	if member := lane.Lanes(); member.Shared != "c:Gone" {
		t.Fatalf("the lane is %+v", lane)
	}
	b.Crowd()
	b.Start()
	b.Eventually("they run", func() bool { return b.Stat("processed") == 3 })
}

// A limit whose number Redis has lost holds at the number that the program registered.
func TestLimitsOutliveTheirNumbers(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 10 })
			g := daemontest.NewGauge()
			b.Daemon.Register("Slow", func(tenant string, n int) { g.Run("", n, 20*time.Millisecond) }, goworker.MaxRunning(3))
			b.Start()
			for n := range 20 {
				b.Push(daemontest.TenantJob("Slow", "a", n))
			}
			b.Eventually("the limit holds", func() bool { return g.Done.Load() >= 6 })
			damage(b, "resque:go:limits")
			for n := range 100 {
				b.Push(daemontest.TenantJob("Slow", "a", n))
			}
			b.Eventually("all run", func() bool { return g.Done.Load() == 120 })
			if most := g.Mosts()[""]; most != 3 {
				t.Errorf("%d ran at a time, want 3", most)
			}
			b.Eventually("the number is back", func() bool {
				return b.Redis.Text(t, "HGET", "resque:go:limits", "c:Slow") == "3"
			})
		})
	}
}

// If no living process has registered the limit, it holds at 1.
func TestLimitThatNobodyKnowsHoldsAtOne(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Slow", func(tenant string, n int) { <-b.Gate }, goworker.MaxRunning(2))
	b.Start()
	for n := range 12 {
		b.Push(daemontest.TenantJob("Slow", "a", n))
	}
	b.Eventually("all are sorted", func() bool { return len(b.Queue("work")) == 0 })
	b.Open()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	left := 12 - b.Stat("processed")
	b.Redis.Do(t, "DEL", "resque:go:limits")
	next := daemontest.SetupOn(t, b.Redis)
	g := daemontest.NewGauge()
	next.Daemon.Register("Slow", func(tenant string, n int) { g.Run("", n, 10*time.Millisecond) })
	next.Start()
	next.Eventually("all run", func() bool { return int(g.Done.Load()) == left })
	if most := g.Mosts()[""]; left > 1 && most != 1 {
		t.Errorf("%d of %d jobs ran at a time, want 1", most, left)
	}
}

// A KeyFunc that takes its time holds up its own job only.
func TestSlowKeyFuncHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var asked atomic.Bool
	b.Daemon.Register("Slow", func(tenant string, n int) {}, goworker.MaxRunning(1, goworker.PerKey(func([]json.RawMessage) string {
		asked.Store(true)
		<-b.Gate
		return "key"
	})))
	b.Start()
	b.Push(daemontest.TenantJob("Slow", "a", 1))
	b.Eventually("the key is asked for", asked.Load)
	b.Push(daemontest.Jobs("Mark", 20)...)
	b.Eventually("other jobs are committed", func() bool { return b.Stat("processed") == 20 })
	b.Open()
	b.Eventually("the job runs in the end", func() bool { return b.Stat("processed") == 21 })
}

// One process keeps the order of a key's jobs, also when it is the first to find that their queue
// is to be sorted.
func TestFirstJobsOfAKeyKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for range 5 {
		b := daemontest.Setup(t)
		g := daemontest.NewGauge()
		b.Daemon.Register("Turn", func(tenant string, n int) { g.Run(tenant, n, 0) }, goworker.MaxRunning(1, goworker.PerKey(func(args []json.RawMessage) string {
			time.Sleep(time.Duration(len(args[1])%2) * time.Millisecond) // looks end in another order than they began
			return string(args[0])
		})))
		for n := range 40 {
			b.Push(daemontest.TenantJob("Turn", "a", n))
		}
		b.Start()
		b.Eventually("all run", func() bool { return g.Done.Load() == 40 })
		g.Mu.Lock()
		for i, n := range g.Order["a"] {
			if i != n {
				t.Errorf("the jobs of the key ran in the order %v", g.Order["a"])
				break
			}
		}
		g.Mu.Unlock()
	}
}

// A list that refuses its jobs' outcomes keeps these and no others, and the record is not read back.
func TestRefusedOutcomesWaitAlone(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	epoch := func() string { return b.Redis.Text(t, "HGET", "resque:go:process:"+b.Process(), "epoch") }
	before := epoch()
	b.Redis.Do(t, "SET", "resque:failed", "not a list")
	b.Push(daemontest.Jobs("Fail", 3)...)
	b.Eventually("the failure is refused", func() bool { return b.Log.Count("Redis refuses a key") == 1 })
	b.Push(daemontest.Jobs("Mark", 500)...)
	b.Eventually("others go on", func() bool { return b.Stat("processed") == 500 })
	if after := epoch(); after != before {
		t.Errorf("the record was read back: its epoch is %s, and was %s", after, before)
	}
	b.Redis.Do(t, "DEL", "resque:failed")
	b.Eventually("the failures are filed", func() bool { return len(b.Failures()) == 3 && b.Stat("failed") == 3 && b.Stat("processed") == 503 })
}

// Outcomes are not lost with an in-flight record that an operator removes, also when Redis goes away
// before they are committed.
func TestOutcomesOutliveARemovedRecord(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.SetupOn(t, redistest.Start(t, daemontest.Persistent...))
			b.Daemon.Register("HoldAndFail", func(id string) error { b.Runs.Start(id); <-b.Gate; return fmt.Errorf("late") })
			b.Daemon.Register("HoldAndRetry", func(id string) error {
				b.Runs.Start(id)
				<-b.Gate
				if b.Runs.Starts(id) == 1 {
					return goworker.RetryIn(0, nil)
				}
				b.Runs.End(id)
				return nil
			})
			b.Start()
			b.Push(daemontest.Jobs("HoldAndFail", 2)...)
			b.Push(daemontest.Jobs("HoldAndRetry", 2)...)
			b.Eventually("they run", func() bool { return b.Runs.Started() == 4 })
			damage(b, "resque:go:inflight:"+b.Process())
			b.Redis.Kill()
			b.Open()
			b.Eventually("they end", func() bool { return b.Log.Count("job failed") == 4 })
			b.Redis.Restart(t)
			b.Eventually("all is counted", func() bool {
				return len(b.Failures()) == 2 && b.Stat("failed") == 2 && b.Runs.Ends("HoldAndRetry000")+b.Runs.Ends("HoldAndRetry001") == 2 && b.Stat("processed") == 6
			})
		})
	}
}

// A server that was behind shows a job again that had ended with effects: it ends so once more.
func TestEffectsOfTheFinishedComeBack(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Push(daemontest.Job("Fail", "Fail000"))
	b.Eventually("it is filed", func() bool { return b.Stat("failed") == 1 })
	record := "resque:go:inflight:" + b.Process()
	b.Redis.Do(t, "DEL", "resque:failed")
	b.Redis.Do(t, "HSET", record, "1", "4:work"+daemontest.Job("Fail", "Fail000"))
	b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	b.Eventually("it is filed again", func() bool { return len(b.Failures()) == 1 && b.Redis.Int(t, "HEXISTS", record, "1") == 0 })
	if n := b.Runs.Starts("Fail000"); n != 1 {
		t.Errorf("it ran %d times, want once", n)
	}
}

// Every way in which a job ends for good removes resque-retry's keys, so that the next equal job
// has all its tries.
func TestEndsRemoveRetryCounts(t *testing.T) {
	t.Parallel()
	expired := fmt.Sprintf(`,"expires_at":%d`, time.Now().Add(-time.Hour).UnixMilli())
	for how, test := range map[string]struct {
		err   error
		extra string
	}{
		"done": {}, "failed": {err: goworker.FailNow(nil)}, "discarded": {err: goworker.Discard(nil)}, "expired": {extra: expired},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t)
			b.Daemon.Register("Ruby", func() error { return test.err }, goworker.Retry(3, goworker.ResqueRetry{}))
			key := string(resque.NewRetryKey("Ruby", nil, false))
			b.Redis.Do(t, "SET", "resque:"+key, "1")
			b.Redis.Do(t, "SET", "resque:failure-"+key, "record")
			b.Push(`{"class":"Ruby","args":[]` + test.extra + `}`)
			b.Start()
			b.Eventually("the count is gone", func() bool { return b.Redis.Int(t, "EXISTS", "resque:"+key) == 0 })
			if how != "done" && b.Redis.Int(t, "EXISTS", "resque:failure-"+key) == 1 {
				t.Error("the record of the failure stays")
			}
		})
	}
}

// A reaper that files a job removes resque-retry's keys in both of Ruby's spellings, and does not
// need to know the class.
func TestReaperRemovesRetryCounts(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.RecoverLimit = 1 })
	dead := b.Died(true)
	poison := `{"class":"Nobody","args":[{"a":1}]}`
	args := []json.RawMessage{json.RawMessage(`{"a":1}`)}
	var keys []string
	for _, blanks := range []bool{false, true} {
		key := string(resque.NewRetryKey("Nobody", args, blanks))
		keys = append(keys, "resque:"+key, "resque:failure-"+key)
	}
	for _, key := range keys {
		b.Redis.Do(t, "SET", key, "1")
	}
	b.Redis.Do(t, "HSET", "resque:go:process:"+dead.ID, "handed", "7 *7")
	b.Redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, "7", "4:work"+poison)
	b.Redis.Do(t, "HSET", "resque:go:recovered", resque.Digest([]byte(poison)), fmt.Sprintf("1 %d another", time.Now().UnixMilli()))
	b.Start()
	b.Eventually("it is filed", func() bool { return len(b.Failures()) == 1 })
	if !strings.Contains(b.Failures()[0].Error, "2 processes that died") {
		t.Errorf("failure %+v", b.Failures()[0])
	}
	for _, key := range keys {
		if b.Redis.Int(t, "EXISTS", key) == 1 {
			t.Errorf("%s stays", key)
		}
	}
}
