package goworker

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// gauge counts how many jobs run at a time, by key, and in what order they came.
type gauge struct {
	mu    sync.Mutex
	now   map[string]int
	most  map[string]int
	order map[string][]int
	done  atomic.Int64
}

func newGauge() *gauge {
	return &gauge{now: make(map[string]int), most: make(map[string]int), order: make(map[string][]int)}
}

func (g *gauge) run(key string, n int, d time.Duration) {
	g.hold(key, n, func() { time.Sleep(d) })
}

func (g *gauge) hold(key string, n int, while func()) {
	g.mu.Lock()
	g.now[key]++
	g.most[key] = max(g.most[key], g.now[key])
	g.order[key] = append(g.order[key], n)
	g.mu.Unlock()
	while()
	g.mu.Lock()
	g.now[key]--
	g.mu.Unlock()
	g.done.Add(1)
}

func (g *gauge) mosts() map[string]int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return maps.Clone(g.most)
}

func tenantJob(class, tenant string, n int) string {
	return fmt.Sprintf(`{"class":%q,"args":[%q,%d]}`, class, tenant, n)
}

func TestLimitsRefuseNonsense(t *testing.T) {
	t.Parallel()
	for want, option := range map[string]Option{
		"Concurrency(0): at least one":                  Concurrency(0),
		"Concurrency: a nil LimitOption was given":      Concurrency(1, nil),
		"RateLimit(0, 1s): it must allow":               RateLimit(0, time.Second),
		"RateLimit(1, 0s): it must allow":               RateLimit(1, 0),
		"RateLimit: a nil LimitOption was given":        RateLimit(1, time.Second, nil),
		"PerKey: a nil KeyFunc was given; leave it out": Concurrency(1, PerKey(nil)),
		"Fair: a nil KeyFunc was given; leave it out":   Fair(nil),
	} {
		wantPanic(t, `goworker: Register("C"): `+want, func() { New(WorkerSettings{}).Register("C", func() {}, option) })
		if limit, is := option.(Limit); is {
			wantPanic(t, `goworker: LimitQueue("q"): `+want, func() { New(WorkerSettings{}).LimitQueue("q", limit) })
		}
	}
}

func TestConcurrencyOfAClass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := newGauge()
	b.daemon.Register("Slow", func(tenant string, n int) { g.run("", n, 5*time.Millisecond) }, Concurrency(2))
	b.start()
	for n := range 40 {
		b.push(tenantJob("Slow", "a", n))
	}
	b.push(jobs("Mark", 20)...)
	b.eventually("all run", func() bool { return g.done.Load() == 40 && b.runs.finished() == 20 })
	b.eventually("all are counted", func() bool { return b.stat("processed") == 60 })
	if most := g.mosts()[""]; most != 2 {
		t.Errorf("%d ran at a time, want 2", most)
	}
	b.nothingWaits()
}

// nothingWaits checks that no job lies in a lane and nobody holds a slot.
func (b *bundle) nothingWaits() {
	b.t.Helper()
	for _, key := range b.redis.Keys(b.t) {
		for _, part := range []string{"go:lane:", "go:lanes:", "go:slots:", ":queue:"} {
			if strings.Contains(key, part) {
				b.t.Errorf("the key %s is left", key)
			}
		}
	}
}

func TestConcurrencyPerKeyKeepsOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := newGauge()
	b.daemon.Register("Slow", func(tenant string, n int) { g.run(tenant, n, time.Millisecond) }, Concurrency(1, PerKey(Arg(0))))
	b.start()
	var all []string
	for n := range 50 {
		for _, tenant := range []string{"a", "b", "c", "d", "e"} {
			all = append(all, tenantJob("Slow", tenant, n))
		}
	}
	b.push(all...)
	b.eventually("all run", func() bool { return g.done.Load() == 250 })
	for tenant, order := range g.order {
		if !slices.IsSorted(order) || len(order) != 50 {
			t.Errorf("tenant %s ran %v", tenant, order)
		}
		if g.most[tenant] != 1 {
			t.Errorf("%d of tenant %s ran at a time", g.most[tenant], tenant)
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.Concurrency = 1 }) // several may overtake each other on a slow machine
	g := newGauge()
	b.daemon.Register("Call", func(tenant string, n int) { g.run(tenant, n, 0) }, RateLimit(20, time.Second))
	began := time.Now()
	b.start()
	for n := range 20 {
		b.push(tenantJob("Call", "a", n))
	}
	b.push(jobs("Mark", 5)...)
	b.eventually("others run", func() bool { return b.runs.finished() == 5 })
	b.eventually("all run", func() bool { return g.done.Load() == 20 })
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("20 jobs at 20 a second took %v", took)
	}
	t.Logf("20 jobs at 20 a second took %v", time.Since(began))
	if !slices.IsSorted(g.order["a"]) {
		t.Errorf("they ran in the order %v", g.order["a"])
	}
}

// Keys that are held up, however many, hold up no others: as long as a job of each
// runs, its next one waits.
func TestManyFullKeysHoldUpNobody(t *testing.T) {
	t.Parallel()
	const held = 400
	b := setup(t, func(s *WorkerSettings) { s.Concurrency = held + 2 })
	g := newGauge()
	b.daemon.Register("Slow", func(tenant string, n int) {
		if g.run(tenant, n, 0); n == 0 {
			<-b.gate
		}
	}, Concurrency(1, PerKey(Arg(0))))
	b.start()
	for n := range held {
		tenant := fmt.Sprint("held", n)
		b.push(tenantJob("Slow", tenant, 0), tenantJob("Slow", tenant, 1))
	}
	b.eventually("one of each runs", func() bool { return g.done.Load() == held })
	for n := range 10 {
		b.push(tenantJob("Slow", fmt.Sprint("free", n), 1))
	}
	b.eventually("those of others run", func() bool { return g.done.Load() == held+10 })
	b.open()
	b.eventually("all run", func() bool { return g.done.Load() == 2*held+10 })
	b.eventually("all are counted", func() bool { return b.stat("processed") == 2*held+10 })
	b.nothingWaits()
}

// Keys that are no text, or long, are kept apart.
func TestKeysOfBytes(t *testing.T) {
	t.Parallel()
	short := make(map[string]string)
	long := strings.Repeat("x", 4096)
	for _, key := range []string{"", "a", "\x00", "\xff", "\xfe", "\xff\xff", "\uFFFD", long, long + "x", ",=%"} {
		s := shortKey(key)
		if before, ok := short[s]; ok || len(s) > longestKey {
			t.Errorf("%.9q is %q, as %.9q is", key, s, before)
		}
		short[s] = key
	}
}

func TestFairTakesTurns(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := newGauge()
	var before atomic.Int64
	b.daemon.Register("Job", func(tenant string, n int) {
		g.run(tenant, n, time.Millisecond)
		if tenant == "small" && n == 9 {
			before.Store(g.done.Load())
		}
	}, Fair(Arg(0)))
	var all []string
	for n := range 2000 {
		all = append(all, tenantJob("Job", "large", n))
	}
	for n := range 10 {
		all = append(all, tenantJob("Job", "small", n))
	}
	b.push(all...)
	b.start()
	b.eventually("all run", func() bool { return g.done.Load() == 2010 })
	t.Logf("the small tenant's ten were done after %d jobs", before.Load())
	if before.Load() > 1500 {
		t.Errorf("the small tenant's ten were done after %d jobs", before.Load())
	}
}

func TestLimitQueue(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := newGauge()
	b.daemon.Register("Slow", func(tenant string, n int) { g.run("", n, 2*time.Millisecond) })
	b.daemon.LimitQueue("work", Concurrency(1))
	b.start()
	for n := range 40 {
		b.push(tenantJob("Slow", "a", n))
	}
	b.eventually("all run", func() bool { return g.done.Load() == 40 })
	if most := g.mosts()[""]; most != 1 {
		t.Errorf("%d ran at a time, want 1", most)
	}
}

// A slot that nobody holds any more, because somebody removed records, is found and freed.
func TestLostSlotIsFreed(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("One", func(id string) { b.runs.start(id); b.runs.end(id) }, Concurrency(1))
	b.redis.Do(t, "SADD", "resque:go:slots:c:One", "vm:1:0000/7")
	b.start()
	b.push(job("One", "a"))
	b.eventually("the job runs", func() bool { return b.runs.ends("a") == 1 })
	b.eventually("it is said", func() bool { return b.log.count("freed slots of a limit") == 1 })
}

// What waits while the limit is used up costs next to nothing, and starts at once when it
// is free.
func TestBlockedSendsLittle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.daemon.Register("HoldOne", func(id string) { b.runs.start(id); <-b.gate; b.runs.end(id) }, Concurrency(1))
	b.start()
	b.push(jobs("HoldOne", 50)...)
	b.eventually("one runs", func() bool { return b.runs.started() == 1 })
	b.renewed(1)
	before, began := b.commands(), time.Now()
	b.renewed(2)
	rate := float64(b.commands()-before) / time.Since(began).Seconds()
	t.Logf("%.1f scripts a second while 49 jobs wait", rate)
	if rate > 10 {
		t.Errorf("%.1f scripts a second while blocked", rate)
	}
	b.open()
	b.eventually("all run", func() bool { return b.runs.finished() == 50 })
}

// A daemon that ends when its queues are empty waits for what waits for limits.
func TestExitOnCompleteWaitsForLanes(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.ExitOnComplete = true })
	g := newGauge()
	b.daemon.Register("Call", func(tenant string, n int) { g.run(tenant, n, 0) }, RateLimit(50, time.Second, PerKey(Arg(0))))
	for n := range 20 {
		b.push(tenantJob("Call", "a", n), tenantJob("Call", "b", n))
	}
	b.start()
	if err := b.wait(); err != nil {
		t.Fatal(err)
	}
	if n := g.done.Load(); n != 40 {
		t.Errorf("it ended after %d of 40 jobs", n)
	}
	b.nothingWaits()
}

// A program that knows of no limits drains the lanes that another has left, and keeps
// their limits.
func TestLanesAreDrainedByOthers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	g := newGauge()
	b.daemon.Register("Slow", func(tenant string, n int) { g.run("", n, time.Millisecond); <-b.gate }, Concurrency(2))
	b.start()
	for n := range 30 {
		b.push(tenantJob("Slow", "a", n))
	}
	b.eventually("all are sorted", func() bool { return len(b.queue("work")) == 0 && g.done.Load() == 2 })
	b.open()
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	other := setupOn(t, b.redis)
	other.daemon.Register("Slow", func(tenant string, n int) { g.run("", n, time.Millisecond) })
	other.start()
	other.eventually("all run", func() bool { return g.done.Load() == 30 })
	if most := g.mosts()[""]; most != 2 {
		t.Errorf("%d ran at a time, want 2", most)
	}
	other.eventually("all are committed", func() bool { return other.stat("processed") == 30 })
	other.nothingWaits()
}

// Without being told, limits hold all the same.
func TestLimitsWhilePolling(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.DisableTracking, s.PollInterval = true, 20*time.Millisecond })
	g := newGauge()
	b.daemon.Register("Slow", func(tenant string, n int) { g.run(tenant, n, time.Millisecond) }, Concurrency(1, PerKey(Arg(0))))
	b.start()
	for n := range 20 {
		b.push(tenantJob("Slow", "a", n), tenantJob("Slow", "b", n))
	}
	b.eventually("all run", func() bool { return g.done.Load() == 40 })
	for tenant, n := range g.mosts() {
		if n != 1 || !slices.IsSorted(g.order[tenant]) {
			t.Errorf("tenant %s: %d at a time, in the order %v", tenant, n, g.order[tenant])
		}
	}
}
