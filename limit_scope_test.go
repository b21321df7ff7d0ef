package goworker

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// A limit of each process lets as many run side by side as there are processes.
func TestLimitInProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := setupOn(t, b.redis)
	fleet := newGauge()
	gauges := []*gauge{newGauge(), newGauge()}
	var together sync.WaitGroup
	together.Add(2)
	for i, of := range []*bundle{b, other} {
		once := sync.OnceFunc(func() { together.Done(); together.Wait() })
		of.daemon.Register("Slow", func(tenant string, n int) {
			gauges[i].hold("", n, func() { fleet.hold("", n, once) })
		}, Concurrency(1, InProcess()))
		of.start()
	}
	for n := range 40 {
		b.push(tenantJob("Slow", "a", n))
	}
	b.eventually("all run", func() bool { return fleet.done.Load() == 40 })
	for i, g := range gauges {
		if most := g.mosts()[""]; most != 1 {
			t.Errorf("%d ran at a time in process %d, want 1", most, i)
		}
	}
	if most := fleet.mosts()[""]; most != 2 {
		t.Errorf("%d ran at a time in both, want 2", most)
	}
	b.eventually("all are counted", func() bool { return b.stat("processed") == 40 })
	b.nothingWaits()
}

func TestRateLimitInProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := setupOn(t, b.redis)
	gauges := []*gauge{newGauge(), newGauge()}
	for i, of := range []*bundle{b, other} {
		of.daemon.Register("Call", func(tenant string, n int) { gauges[i].run("", n, 0) }, RateLimit(1, time.Hour, InProcess()))
		of.start()
	}
	for n := range 10 {
		b.push(tenantJob("Call", "a", n))
	}
	b.eventually("each starts one", func() bool { return gauges[0].done.Load() == 1 && gauges[1].done.Load() == 1 })
	b.push(jobs("Mark", 20)...)
	b.eventually("others run", func() bool { return b.runs.finished()+other.runs.finished() == 20 })
	if n := gauges[0].done.Load() + gauges[1].done.Load(); n != 2 {
		t.Errorf("%d were started in the hour, want 2", n)
	}
}

// After a rest as many start at once as the burst says, and no more.
func TestBurst(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := newGauge()
	b.daemon.Register("Call", func(tenant string, n int) { g.run("", n, 0) }, RateLimit(1, time.Hour, Burst(5)))
	b.start()
	for n := range 10 {
		b.push(tenantJob("Call", "a", n))
	}
	b.eventually("five start", func() bool { return g.done.Load() == 5 })
	b.push(jobs("Mark", 20)...)
	b.eventually("others run", func() bool { return b.runs.finished() == 20 })
	if n := g.done.Load(); n != 5 {
		t.Errorf("%d were started, want 5", n)
	}
}

// A limit that two name has one number, not by lot one of two.
func TestSharedLimitWithTwoNumbers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		register func(d *Daemon)
		says     []string // nil: it is no mistake
	}{
		"running": {func(d *Daemon) {
			d.Register("Read", func() {}, Concurrency(2, SharedAs("database")))
			d.Register("Write", func() {}, Concurrency(5, SharedAs("database")))
		}, []string{`"database"`, "class Read says at most 2 at a time", "class Write says at most 5 at a time"}},
		"of a queue": {func(d *Daemon) {
			d.Register("Read", func() {}, RateLimit(2, time.Second, SharedAs("database")))
			d.LimitQueue("low", RateLimit(2, time.Second, SharedAs("database"), Burst(4)))
		}, []string{`"database"`, "class Read says one each 500ms", "queue low says one each 500ms and 4 at once"}},
		"of one class": {func(d *Daemon) {
			d.Register("Read", func() {}, Concurrency(2, SharedAs("x")), Concurrency(3, SharedAs("x"), PerKey(Arg(0))))
		}, []string{`"x"`, "at most 2", "at most 3"}},
		"the same": {func(d *Daemon) {
			d.Register("Read", func() {}, Concurrency(2, SharedAs("x")), RateLimit(9, time.Second, SharedAs("x")))
			d.Register("Write", func() {}, Concurrency(2, SharedAs("x")), Concurrency(3, SharedAs("x"), InProcess()))
		}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := New(WorkerSettings{QueuesString: "low", URI: "redis://127.0.0.1:1/"})
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
			if _, err := d.init(false); err != nil {
				t.Errorf("a program that only enqueues: %v", err)
			}
		})
	}
}

// Classes in two queues have one limit together.
func TestSharedLimit(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.QueuesString = "work,other" })
	g := newGauge()
	for _, class := range []string{"Read", "Write"} {
		b.daemon.Register(class, func(tenant string, n int) { g.run("", n, time.Millisecond) }, Concurrency(2, SharedAs("database")))
	}
	b.start()
	for n := range 20 {
		b.push(tenantJob("Read", "a", n))
		b.pushTo("other", tenantJob("Write", "a", n))
	}
	b.eventually("all run", func() bool { return g.done.Load() == 40 })
	if most := g.mosts()[""]; most != 2 {
		t.Errorf("%d ran at a time, want 2", most)
	}
	b.eventually("all are counted", func() bool { return b.stat("processed") == 40 })
	b.nothingWaits()
}

// A process that was the first to sort a queue takes what another one, with other limits,
// has sorted into lanes of its own and left.
func TestLanesOfAnother(t *testing.T) {
	t.Parallel()
	b := setup(t)
	other := setupOn(t, b.redis)
	g := newGauge()
	slow := func(tenant string, n int) { g.run("", n, 0) }
	b.daemon.Register("Slow", slow, Concurrency(2))
	other.daemon.Register("Slow", slow, Concurrency(2), RateLimit(1000, time.Second))
	b.start()
	b.push(tenantJob("Slow", "a", 0))
	b.eventually("it runs", func() bool { return g.done.Load() == 1 && b.stat("processed") == 1 })
	conn := b.redis.Dial(t)
	pushed, left := int64(1), 0
	b.eventually("the other has sorted some", func() bool {
		payload := tenantJob("Slow", "a", int(pushed))
		lane, _ := other.daemon.registry.lane("work", []byte(payload))
		b.push(payload)
		pushed++
		n, err := b.daemon.store.Sort(conn, "work", [][]byte{[]byte(payload)}, []resque.Lane{lane})
		if err != nil {
			t.Fatal(err)
		}
		left += n
		return left == 3
	})
	b.eventually("all run", func() bool { return g.done.Load() == pushed })
	b.eventually("all are counted", func() bool { return b.stat("processed") == int(pushed) })
	b.nothingWaits()
}

// Processes come and go that have other limits for the same class, or none: every job runs
// once, whoever has sorted it, and nothing is left of the limits.
func TestLimitsChangeWhileJobsWait(t *testing.T) {
	t.Parallel()
	const total = 600
	b := setup(t)
	g := newGauge()
	policies := [][]Option{
		nil,
		{Concurrency(2)},
		{Concurrency(1, PerKey(Arg(0)))},
		{RateLimit(400, time.Second)},
		{Fair(Arg(0))},
		{Concurrency(3), RateLimit(300, time.Second, PerKey(Arg(0)))},
	}
	run := func(policy int) *bundle {
		d := setupOn(t, b.redis, func(s *WorkerSettings) { s.PollInterval = 200 * time.Millisecond })
		d.daemon.Register("Slow", func(tenant string, n int) { g.run(tenant, n, time.Millisecond) }, policies[policy]...)
		if policy != 0 { // knows limits, if not of this class
			d.daemon.Register("Other", func(string, int) {}, Concurrency(1, PerKey(Arg(0))))
		}
		d.start()
		return d
	}
	fleet := []*bundle{run(1), run(2)}
	pushed := 0
	for range 12 {
		for range total / 12 {
			b.push(tenantJob("Slow", fmt.Sprint(pushed%7), pushed))
			pushed++
		}
		b.eventually("some of them run", func() bool { return g.done.Load() > int64(pushed-total/12) })
		i := rand.IntN(len(fleet))
		if err := fleet[i].stop(); err != nil {
			t.Fatal(err)
		}
		fleet[i] = run(rand.IntN(len(policies)))
	}
	b.eventually("all run", func() bool { return g.done.Load() >= total })
	b.eventually("all are counted", func() bool { return b.stat("processed") == total })
	b.nothingWaits()
	seen := make(map[int]bool)
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, of := range g.order {
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
