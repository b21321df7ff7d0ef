package goworker_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

func TestLimitsHoldHoweverJobsAreWritten(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	b.Daemon.Register("Slow", func(_ string, n int) { g.Run("", n, 5*time.Millisecond) }, goworker.MaxRunning(1))
	b.Start()
	for range 5 {
		b.Push(
			`{"class":"Slow","args":["a",1]}`,
			`{ "class": "Slow", "args": ["a", 1] }`,
			`{"args":["a",1],"class":"Slow"}`,
			`{"class":"\u0053low","args":["a",1]}`,
			`{"class":"Mark","args":["a",1],"class":"Slow"}`,
			`{"class":"Mark","args":["a",1],"cl\u0061ss":"Slow"}`,
			`{"class":"`+goworker.ActiveJobWrapper+`","args":[{"job_class":"Slow","arguments":["a",1]}]}`,
		)
	}
	b.Eventually("all run", func() bool { return g.Done.Load() == 35 })
	if most := g.Mosts()[""]; most != 1 {
		t.Errorf("%d ran at a time, want 1", most)
	}
}

// A queue that is removed is not a sorted one any more.
func TestRemovedQueuesAreNotSorted(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "*" })
	b.Daemon.Register("Turn", func(tenant string, n int) {}, goworker.FairBy(goworker.ByArg(0)))
	b.Start()
	for i := range 5 {
		b.PushTo(fmt.Sprint("tenant", i), daemontest.TenantJob("Turn", "a", 1))
	}
	b.Eventually("they run", func() bool { return b.Stat("processed") == 5 && b.Redis.Int(t, "SCARD", "resque:go:lanes") == 5 })
	for i := range 5 {
		if err := b.Daemon.RemoveQueue(fmt.Sprint("tenant", i)); err != nil {
			t.Fatal(err)
		}
	}
	if left := b.Redis.List(t, "SMEMBERS", "resque:go:lanes"); len(left) > 0 {
		t.Errorf("sorted are %v", left)
	}
	b.Eventually("the daemon does not look there any more", func() bool { return goworker.SortedQueues(b.Daemon) == 0 })
	b.PushTo("tenant3", daemontest.TenantJob("Turn", "a", 2))
	b.Eventually("it is a queue as any other", func() bool { return b.Stat("processed") == 6 })
}

// When the limit of a class was taken away, what waits for it is drained as it was sorted,
// and new jobs stay in their queue, for Ruby too.
func TestLimitTakenAway(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]goworker.Option{
		"of a class": {goworker.MaxRunning(2)}, "of keys": {goworker.MaxRunning(2, goworker.PerKey(goworker.ByArg(0)))}, "turns": {goworker.FairBy(goworker.ByArg(0)), goworker.MaxRunning(2)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t)
			g := daemontest.NewGauge()
			b.Daemon.Register("Slow", func(tenant string, n int) { g.Hold("", n, func() { <-b.Gate }) }, limits...)
			b.Daemon.Register("Turn", func(tenant string, n int) {}, goworker.FairBy(goworker.ByArg(0)))
			b.Start()
			for n := range 30 {
				b.Push(daemontest.TenantJob("Slow", "a", n))
			}
			b.Eventually("all are sorted", func() bool { return len(b.Queue("work")) == 0 && g.Mosts()[""] == 2 })
			b.Open()
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}

			next := daemontest.SetupOn(t, b.Redis, func(s *goworker.WorkerSettings) { s.QueuesString = "work,turns" })
			next.Daemon.Register("Turn", func(tenant string, n int) {}, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))), goworker.MaxRunning(7))
			next.Daemon.Register("Slow", func(tenant string, n int) { g.Run("", n, time.Millisecond) })
			next.Start()
			next.Eventually("all run", func() bool { return g.Done.Load() == 30 && next.Stat("processed") == 30 })
			if most := g.Mosts()[""]; most != 2 {
				t.Errorf("%d of those that waited ran at a time, want 2", most)
			}
			before := next.Redis.List(t, "SMEMBERS", "resque:go:lanes")
			for n := range 20 {
				next.Push(daemontest.TenantJob("Slow", "a", n))
			}
			next.Eventually("all are done", func() bool { return next.Stat("processed") == 50 })
			if after := next.Redis.List(t, "SMEMBERS", "resque:go:lanes"); len(before) != 1 || !slices.Equal(before, after) {
				t.Errorf("jobs were sorted into %v, and before into %v", after, before)
			}
			next.NothingWaits()

			next.PushTo("turns", daemontest.TenantJob("Turn", "a", 1))
			next.Eventually("a queue that needs it is sorted", func() bool { return next.Stat("processed") == 51 && goworker.SortedQueues(next.Daemon) == 2 })
		})
	}
}

// Jobs from lanes count as running when their process dies, like all others.
func TestJobsFromLanesAreRecordedAsHandedOut(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Slow", func(_ string, n int) { b.Runs.Start(fmt.Sprint(n)); <-b.Gate }, goworker.MaxRunning(4))
	b.Daemon.LimitQueue("work")
	b.Start()
	for n := range 3 {
		b.Push(daemontest.TenantJob("Slow", "a", n))
	}
	b.Eventually("they run", func() bool { return b.Runs.Started() == 3 })
	process := goworker.InFleet(b.Daemon)
	upTo, _ := strconv.Atoi(b.Redis.Text(t, "HGET", "resque:go:process:"+process, "handed"))
	for _, ticket := range b.Redis.List(t, "HKEYS", "resque:go:inflight:"+process) {
		if n, err := strconv.Atoi(ticket); err == nil && n > upTo {
			t.Errorf("the record says that jobs up to %d were handed out, and not %d", upTo, n)
		}
	}
	b.Open()
}

// A limit of each process lets as many run side by side as there are processes.
func TestLimitInProcess(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	other := daemontest.SetupOn(t, b.Redis)
	fleet := daemontest.NewGauge()
	gauges := []*daemontest.Gauge{daemontest.NewGauge(), daemontest.NewGauge()}
	var together sync.WaitGroup
	together.Add(2)
	for i, of := range []*daemontest.Bundle{b, other} {
		once := sync.OnceFunc(func() { together.Done(); together.Wait() })
		of.Daemon.Register("Slow", func(tenant string, n int) {
			gauges[i].Hold("", n, func() { fleet.Hold("", n, once) })
		}, goworker.MaxRunning(1, goworker.PerProcess()))
		of.Start()
	}
	for n := range 40 {
		b.Push(daemontest.TenantJob("Slow", "a", n))
	}
	b.Eventually("all run", func() bool { return fleet.Done.Load() == 40 })
	for i, g := range gauges {
		if most := g.Mosts()[""]; most != 1 {
			t.Errorf("%d ran at a time in process %d, want 1", most, i)
		}
	}
	if most := fleet.Mosts()[""]; most != 2 {
		t.Errorf("%d ran at a time in both, want 2", most)
	}
	b.Eventually("all are counted", func() bool { return b.Stat("processed") == 40 })
	b.NothingWaits()
}

func TestRateLimitInProcess(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	other := daemontest.SetupOn(t, b.Redis)
	gauges := []*daemontest.Gauge{daemontest.NewGauge(), daemontest.NewGauge()}
	for i, of := range []*daemontest.Bundle{b, other} {
		of.Daemon.Register("Call", func(tenant string, n int) { gauges[i].Run("", n, 0) }, goworker.RateLimit(1, time.Hour, goworker.PerProcess()))
		of.Start()
	}
	for n := range 10 {
		b.Push(daemontest.TenantJob("Call", "a", n))
	}
	b.Eventually("each starts one", func() bool { return gauges[0].Done.Load() == 1 && gauges[1].Done.Load() == 1 })
	b.Push(daemontest.Jobs("Mark", 20)...)
	b.Eventually("others run", func() bool { return b.Runs.Finished()+other.Runs.Finished() == 20 })
	if n := gauges[0].Done.Load() + gauges[1].Done.Load(); n != 2 {
		t.Errorf("%d were started in the hour, want 2", n)
	}
}

// After a rest as many start at once as the burst says, and no more.
func TestBurst(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	b.Daemon.Register("Call", func(tenant string, n int) { g.Run("", n, 0) }, goworker.RateLimit(1, time.Hour, goworker.Burst(5)))
	b.Start()
	for n := range 10 {
		b.Push(daemontest.TenantJob("Call", "a", n))
	}
	b.Eventually("five start", func() bool { return g.Done.Load() == 5 })
	b.Push(daemontest.Jobs("Mark", 20)...)
	b.Eventually("others run", func() bool { return b.Runs.Finished() == 20 })
	if n := g.Done.Load(); n != 5 {
		t.Errorf("%d were started, want 5", n)
	}
}

// A limit that two name has one number, not by lot one of two.
func TestSharedLimitWithTwoNumbers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		register func(d *goworker.Daemon)
		says     []string // nil: it is no mistake
	}{
		"running": {func(d *goworker.Daemon) {
			d.Register("Read", func() {}, goworker.MaxRunning(2, goworker.SharedAs("database")))
			d.Register("Write", func() {}, goworker.MaxRunning(5, goworker.SharedAs("database")))
		}, []string{`"database"`, "class Read says at most 2 at a time", "class Write says at most 5 at a time"}},
		"of a queue": {func(d *goworker.Daemon) {
			d.Register("Read", func() {}, goworker.RateLimit(2, time.Second, goworker.SharedAs("database")))
			d.LimitQueue("low", goworker.RateLimit(2, time.Second, goworker.SharedAs("database"), goworker.Burst(4)))
		}, []string{`"database"`, "class Read says one each 500ms", "queue low says one each 500ms and 4 at once"}},
		"of one class": {func(d *goworker.Daemon) {
			d.Register("Read", func() {}, goworker.MaxRunning(2, goworker.SharedAs("x")), goworker.MaxRunning(3, goworker.SharedAs("x"), goworker.PerKey(goworker.ByArg(0))))
		}, []string{`"x"`, "at most 2", "at most 3"}},
		"the same": {func(d *goworker.Daemon) {
			d.Register("Read", func() {}, goworker.MaxRunning(2, goworker.SharedAs("x")), goworker.RateLimit(9, time.Second, goworker.SharedAs("x")))
			d.Register("Write", func() {}, goworker.MaxRunning(2, goworker.SharedAs("x")), goworker.MaxRunning(3, goworker.SharedAs("x"), goworker.PerProcess()))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := goworker.New(goworker.WorkerSettings{QueuesString: "low", URI: "redis://127.0.0.1:1/"})
			defer d.Close()
			test.register(d)
			err := d.Init()
			if test.says == nil {
				if err != nil {
					t.Error(err)
				}
				return
			}
			for _, text := range test.says {
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, want %q in it", err, text)
				}
			}
			if err := goworker.InitToEnqueue(d); err != nil {
				t.Errorf("a program that only enqueues: %v", err)
			}
		})
	}
}

// Classes in two queues have one limit together.
func TestSharedLimit(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "work,other" })
	g := daemontest.NewGauge()
	var met atomic.Int64 // the first two meet
	both := make(chan struct{})
	for _, class := range []string{"Read", "Write"} {
		b.Daemon.Register(class, func(tenant string, n int) {
			g.Hold("", n, func() {
				if met.Add(1) == 2 {
					close(both)
				}
				<-both
				time.Sleep(time.Millisecond)
			})
		}, goworker.MaxRunning(2, goworker.SharedAs("database")))
	}
	b.Start()
	for n := range 20 {
		b.Push(daemontest.TenantJob("Read", "a", n))
		b.PushTo("other", daemontest.TenantJob("Write", "a", n))
	}
	b.Eventually("all run", func() bool { return g.Done.Load() == 40 })
	if most := g.Mosts()[""]; most != 2 {
		t.Errorf("%d ran at a time, want 2", most)
	}
	b.Eventually("all are counted", func() bool { return b.Stat("processed") == 40 })
	b.NothingWaits()
}

// A process that was the first to sort a queue takes what another one, with other limits,
// has sorted into lanes of its own and left.
func TestLanesOfAnother(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	other := daemontest.SetupOn(t, b.Redis)
	g := daemontest.NewGauge()
	slow := func(tenant string, n int) { g.Run("", n, 0) }
	b.Daemon.Register("Slow", slow, goworker.MaxRunning(2))
	other.Daemon.Register("Slow", slow, goworker.MaxRunning(2), goworker.RateLimit(1000, time.Second))
	b.Start()
	b.Push(daemontest.TenantJob("Slow", "a", 0))
	b.Eventually("it runs", func() bool { return g.Done.Load() == 1 && b.Stat("processed") == 1 })
	conn := b.Redis.Dial(t)
	pushed, left := int64(1), 0
	b.Eventually("the other has sorted some", func() bool {
		payload := daemontest.TenantJob("Slow", "a", int(pushed))
		b.Push(payload)
		pushed++
		n, err := goworker.SortAs(b.Daemon, other.Daemon, conn, "work", []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		left += n
		return left == 3
	})
	b.Eventually("all run", func() bool { return g.Done.Load() == pushed })
	b.Eventually("all are counted", func() bool { return b.Stat("processed") == int(pushed) })
	b.NothingWaits()
}

// Processes with other limits for the same class, or none, come and go. Every job runs
// once, by whichever limits it was sorted, and no key of the limits stays.
func TestLimitsChangeWhileJobsWait(t *testing.T) {
	t.Parallel()
	const total = 600
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	policies := [][]goworker.Option{
		nil,
		{goworker.MaxRunning(2)},
		{goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0)))},
		{goworker.RateLimit(400, time.Second)},
		{goworker.FairBy(goworker.ByArg(0))},
		{goworker.MaxRunning(3), goworker.RateLimit(300, time.Second, goworker.PerKey(goworker.ByArg(0)))},
	}
	run := func(policy int) *daemontest.Bundle {
		d := daemontest.SetupOn(t, b.Redis, func(s *goworker.WorkerSettings) { s.PollInterval = 200 * time.Millisecond })
		d.Daemon.Register("Slow", func(tenant string, n int) { g.Run(tenant, n, time.Millisecond) }, policies[policy]...)
		if policy != 0 { // knows limits, if not of this class
			d.Daemon.Register("Other", func(string, int) {}, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))))
		}
		d.Start()
		return d
	}
	fleet := []*daemontest.Bundle{run(1), run(2)}
	pushed := 0
	for range 12 {
		for range total / 12 {
			b.Push(daemontest.TenantJob("Slow", fmt.Sprint(pushed%7), pushed))
			pushed++
		}
		b.Eventually("some of them run", func() bool { return g.Done.Load() > int64(pushed-total/12) })
		i := rand.IntN(len(fleet))
		if err := fleet[i].Stop(); err != nil {
			t.Fatal(err)
		}
		fleet[i] = run(rand.IntN(len(policies)))
	}
	b.Eventually("all run", func() bool { return g.Done.Load() >= total })
	b.Eventually("all are counted", func() bool { return b.Stat("processed") == total })
	b.NothingWaits()
	seen := make(map[int]bool)
	g.Mu.Lock()
	defer g.Mu.Unlock()
	for _, of := range g.Order {
		for _, n := range of {
			if seen[n] {
				t.Errorf("job %d ran twice", n)
			}
			seen[n] = true
		}
	}
	if len(seen) != total {
		t.Errorf("%d of %d jobs ran", len(seen), total)
	}
}

// A job that this process pushes to a sorted queue, as when it retries one at once, is sorted at once:
// Redis does not notify a connection of its own writes.
func TestOwnPushToSortedQueueIsSorted(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.PollInterval = time.Hour })
	b.Daemon.Register("Limited", func(id string) {}, goworker.MaxRunning(1))
	b.Daemon.Register("Again", func(id string) error {
		if b.Runs.Start(id); b.Runs.Starts(id) == 1 {
			return daemontest.ErrNoLuck
		}
		return nil
	}, goworker.Retry(1, goworker.Delays{0}))
	b.Start()
	b.Push(daemontest.Job("Limited", "first"))
	b.Eventually("it is done", func() bool { return b.Stat("processed") == 1 })
	for n := range 5 {
		b.Push(daemontest.Job("Again", fmt.Sprint(n)))
		b.Eventually("it is retried", func() bool { return b.Stat("processed") == 3+2*n })
	}
}
