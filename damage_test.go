package goworker

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// damages are what may befall a key: an operator removes it, or another program writes a value of
// another type under it, and an operator removes that.
var damages = map[string]func(b *bundle, key string){
	"removed": func(b *bundle, key string) { b.redis.Do(b.t, "DEL", key) },
	"of another type for 2 s": func(b *bundle, key string) {
		b.redis.Do(b.t, "SET", key, "not ours")
		time.Sleep(2 * time.Second)
		b.redis.Do(b.t, "DEL", key)
	},
}

// crowd adds 100,000 keys of another program.
func (b *bundle) crowd() {
	b.redis.Do(b.t, "EVAL", "for i = 1, 100000 do redis.call('SET', 'another:program:' .. i, i) end", 0)
}

// Jobs that wait in lanes run although the keys that name their lanes were damaged.
func TestLanesOutliveTheirKeys(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		for _, key := range []string{"resque:go:lanes", "turns"} {
			t.Run(name+" "+key, func(t *testing.T) {
				t.Parallel()
				b := setup(t)
				g := newGauge()
				b.daemon.Register("Slow", func(tenant string, n int) { g.hold(tenant, n, func() { <-b.gate }) }, Concurrency(1, PerKey(Arg(0))))
				b.start()
				for n := range 60 {
					b.push(tenantJob("Slow", fmt.Sprint("tenant", n%3), n))
				}
				b.eventually("one of each tenant runs", func() bool { return len(b.queue("work")) == 0 && len(g.mosts()) == 3 })
				b.crowd()
				if key == "turns" {
					key = b.redis.List(t, "KEYS", "resque:go:lanes:*")[0]
				}
				damage(b, key)
				b.open()
				b.eventually("all run", func() bool { return g.done.Load() == 60 && b.stat("processed") == 60 })
				for tenant, most := range g.mosts() {
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
	b := setup(t)
	lane := resque.NewLane("work", resque.Limit{Kind: resque.LimitRunning, Name: "Gone"})
	for n := range 3 {
		b.redis.Do(t, "RPUSH", "resque:go:lane:4:work6:c:Gone", job("Mark", fmt.Sprint(n)))
	}
	if member := lane.Lanes(); member.Shared != "c:Gone" {
		t.Fatalf("the lane is %+v", lane)
	}
	b.crowd()
	b.start()
	b.eventually("they run", func() bool { return b.stat("processed") == 3 })
}

// A limit whose number Redis has lost holds at the number that the program registered.
func TestLimitsOutliveTheirNumbers(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(s *WorkerSettings) { s.Concurrency = 10 })
			g := newGauge()
			b.daemon.Register("Slow", func(tenant string, n int) { g.run("", n, 20*time.Millisecond) }, Concurrency(3))
			b.start()
			for n := range 20 {
				b.push(tenantJob("Slow", "a", n))
			}
			b.eventually("the limit holds", func() bool { return g.done.Load() >= 6 })
			damage(b, "resque:go:limits")
			for n := range 100 {
				b.push(tenantJob("Slow", "a", n))
			}
			b.eventually("all run", func() bool { return g.done.Load() == 120 })
			if most := g.mosts()[""]; most != 3 {
				t.Errorf("%d ran at a time, want 3", most)
			}
			b.eventually("the number is back", func() bool {
				return b.redis.Text(t, "HGET", "resque:go:limits", "c:Slow") == "3"
			})
		})
	}
}

// Where nobody alive has registered the limit, it holds at 1.
func TestLimitThatNobodyKnowsHoldsAtOne(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("Slow", func(tenant string, n int) { <-b.gate }, Concurrency(2))
	b.start()
	for n := range 12 {
		b.push(tenantJob("Slow", "a", n))
	}
	b.eventually("all are sorted", func() bool { return len(b.queue("work")) == 0 })
	b.open()
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	left := 12 - b.stat("processed")
	b.redis.Do(t, "DEL", "resque:go:limits")
	next := setupOn(t, b.redis)
	g := newGauge()
	next.daemon.Register("Slow", func(tenant string, n int) { g.run("", n, 10*time.Millisecond) })
	next.start()
	next.eventually("all run", func() bool { return int(g.done.Load()) == left })
	if most := g.mosts()[""]; left > 1 && most != 1 {
		t.Errorf("%d of %d jobs ran at a time, want 1", most, left)
	}
}

// A KeyFunc that takes its time holds up its own job only.
func TestSlowKeyFuncHoldsUpNobody(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var asked atomic.Bool
	b.daemon.Register("Slow", func(tenant string, n int) {}, Concurrency(1, PerKey(func([]json.RawMessage) string {
		asked.Store(true)
		<-b.gate
		return "key"
	})))
	b.start()
	b.push(tenantJob("Slow", "a", 1))
	b.eventually("the key is asked for", asked.Load)
	b.push(jobs("Mark", 20)...)
	b.eventually("other jobs are committed", func() bool { return b.stat("processed") == 20 })
	b.open()
	b.eventually("the job runs in the end", func() bool { return b.stat("processed") == 21 })
}

// One process keeps the order of a key's jobs, also when it is the first to find that their queue
// is to be sorted.
func TestFirstJobsOfAKeyKeepTheirOrder(t *testing.T) {
	t.Parallel()
	for range 5 {
		b := setup(t)
		g := newGauge()
		b.daemon.Register("Turn", func(tenant string, n int) { g.run(tenant, n, 0) }, Concurrency(1, PerKey(func(args []json.RawMessage) string {
			time.Sleep(time.Duration(len(args[1])%2) * time.Millisecond) // looks end in another order than they began
			return string(args[0])
		})))
		for n := range 40 {
			b.push(tenantJob("Turn", "a", n))
		}
		b.start()
		b.eventually("all run", func() bool { return g.done.Load() == 40 })
		g.mu.Lock()
		for i, n := range g.order["a"] {
			if i != n {
				t.Errorf("the jobs of the key ran in the order %v", g.order["a"])
				break
			}
		}
		g.mu.Unlock()
	}
}

// A list that refuses its jobs' outcomes keeps these and no others, and the record is not read back.
func TestRefusedOutcomesWaitAlone(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	epoch := func() string { return b.redis.Text(t, "HGET", "resque:go:process:"+b.process(), "epoch") }
	before := epoch()
	b.redis.Do(t, "SET", "resque:failed", "not a list")
	b.push(jobs("Fail", 3)...)
	b.eventually("the failure is refused", func() bool { return b.log.count("Redis refuses a key") == 1 })
	b.push(jobs("Mark", 500)...)
	b.eventually("others go on", func() bool { return b.stat("processed") == 500 })
	if after := epoch(); after != before {
		t.Errorf("the record was read back: its epoch is %s, and was %s", after, before)
	}
	b.redis.Do(t, "DEL", "resque:failed")
	b.eventually("the failures are filed", func() bool { return len(b.failures()) == 3 && b.stat("failed") == 3 && b.stat("processed") == 503 })
}

// Outcomes are not lost with an in-flight record that an operator removes, also when Redis goes away
// before they are committed.
func TestOutcomesOutliveARemovedRecord(t *testing.T) {
	t.Parallel()
	for name, damage := range damages {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setupOn(t, redistest.Start(t, persistent...))
			b.daemon.Register("HoldAndFail", func(id string) error { b.runs.start(id); <-b.gate; return fmt.Errorf("late") })
			b.daemon.Register("HoldAndRetry", func(id string) error {
				b.runs.start(id)
				<-b.gate
				if b.runs.starts(id) == 1 {
					return RetryIn(0, nil)
				}
				b.runs.end(id)
				return nil
			})
			b.start()
			b.push(jobs("HoldAndFail", 2)...)
			b.push(jobs("HoldAndRetry", 2)...)
			b.eventually("they run", func() bool { return b.runs.started() == 4 })
			damage(b, "resque:go:inflight:"+b.process())
			b.redis.Kill()
			b.open()
			b.eventually("they end", func() bool { return b.log.count("job failed") == 4 })
			b.redis.Restart(t)
			b.eventually("all is counted", func() bool {
				return len(b.failures()) == 2 && b.stat("failed") == 2 && b.runs.ends("HoldAndRetry000")+b.runs.ends("HoldAndRetry001") == 2 && b.stat("processed") == 6
			})
		})
	}
}

// A server that was behind shows a job again that had ended with effects: it ends so once more.
func TestEffectsOfTheFinishedComeBack(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.push(job("Fail", "Fail000"))
	b.eventually("it is filed", func() bool { return b.stat("failed") == 1 })
	record := "resque:go:inflight:" + b.process()
	b.redis.Do(t, "DEL", "resque:failed")
	b.redis.Do(t, "HSET", record, "1", "4:work"+job("Fail", "Fail000"))
	b.redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	b.eventually("it is filed again", func() bool { return len(b.failures()) == 1 && b.redis.Int(t, "HEXISTS", record, "1") == 0 })
	if n := b.runs.starts("Fail000"); n != 1 {
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
		"done": {}, "failed": {err: Fail(nil)}, "discarded": {err: Discard(nil)}, "expired": {extra: expired},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.daemon.Register("Ruby", func() error { return test.err }, Retry(3, ResqueRetry{}))
			key := string(resque.NewRetryKey("Ruby", nil, false))
			b.redis.Do(t, "SET", "resque:"+key, "1")
			b.redis.Do(t, "SET", "resque:failure-"+key, "record")
			b.push(`{"class":"Ruby","args":[]` + test.extra + `}`)
			b.start()
			b.eventually("the count is gone", func() bool { return b.redis.Int(t, "EXISTS", "resque:"+key) == 0 })
			if how != "done" && b.redis.Int(t, "EXISTS", "resque:failure-"+key) == 1 {
				t.Error("the record of the failure stays")
			}
		})
	}
}

// A reaper that files a job removes resque-retry's keys in both of Ruby's spellings, and does not
// need to know the class.
func TestReaperRemovesRetryCounts(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.RecoverLimit = 1 })
	dead := b.died(true)
	poison := `{"class":"Nobody","args":[{"a":1}]}`
	args := []json.RawMessage{json.RawMessage(`{"a":1}`)}
	var keys []string
	for _, blanks := range []bool{false, true} {
		key := string(resque.NewRetryKey("Nobody", args, blanks))
		keys = append(keys, "resque:"+key, "resque:failure-"+key)
	}
	for _, key := range keys {
		b.redis.Do(t, "SET", key, "1")
	}
	b.redis.Do(t, "HSET", "resque:go:process:"+dead.ID, "handed", "7 *7")
	b.redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, "7", "4:work"+poison)
	b.redis.Do(t, "HSET", "resque:go:recovered", resque.Digest([]byte(poison)), fmt.Sprintf("1 %d another", time.Now().UnixMilli()))
	b.start()
	b.eventually("it is filed", func() bool { return len(b.failures()) == 1 })
	if !strings.Contains(b.failures()[0].Error, "2 processes that died") {
		t.Errorf("failure %+v", b.failures()[0])
	}
	for _, key := range keys {
		if b.redis.Int(t, "EXISTS", key) == 1 {
			t.Errorf("%s stays", key)
		}
	}
}
