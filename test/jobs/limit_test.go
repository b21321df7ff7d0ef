package jobs

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

func TestLimitsRefuseNonsense(t *testing.T) {
	t.Parallel()
	for want, option := range map[string]goworker.Option{
		"MaxRunning(0): at least one":                   goworker.MaxRunning(0),
		"MaxRunning: a nil LimitOption was given":       goworker.MaxRunning(1, nil),
		"RateLimit(0, 1s): it must allow":               goworker.RateLimit(0, time.Second),
		"RateLimit(1, 0s): it must allow":               goworker.RateLimit(1, 0),
		"RateLimit: a nil LimitOption was given":        goworker.RateLimit(1, time.Second, nil),
		"PerKey: a nil KeyFunc was given; leave it out": goworker.MaxRunning(1, goworker.PerKey(nil)),
		"FairBy: a nil KeyFunc was given; leave it out": goworker.FairBy(nil),
	} {
		daemontest.WantPanic(t, `goworker: Register("C"): `+want, func() { goworker.New(goworker.WorkerSettings{}).Register("C", func() {}, option) })
		if limit, is := option.(goworker.Limit); is {
			daemontest.WantPanic(t, `goworker: LimitQueue("q"): `+want, func() { goworker.New(goworker.WorkerSettings{}).LimitQueue("q", limit) })
		}
	}
}

func TestConcurrencyOfAClass(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	b.Daemon.Register("Slow", func(tenant string, n int) { g.Run("", n, 5*time.Millisecond) }, goworker.MaxRunning(2))
	b.Start()
	for n := range 40 {
		b.Push(daemontest.TenantJob("Slow", "a", n))
	}
	b.Push(daemontest.Jobs("Mark", 20)...)
	b.Eventually("all run", func() bool { return g.Done.Load() == 40 && b.Runs.Finished() == 20 })
	b.Eventually("all are counted", func() bool { return b.Stat("processed") == 60 })
	if most := g.Mosts()[""]; most != 2 {
		t.Errorf("%d ran at a time, want 2", most)
	}
	b.NothingWaits()
}

func TestConcurrencyPerKeyKeepsOrder(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	b.Daemon.Register("Slow", func(tenant string, n int) { g.Run(tenant, n, time.Millisecond) }, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))))
	b.Start()
	var all []string
	for n := range 50 {
		for _, tenant := range []string{"a", "b", "c", "d", "e"} {
			all = append(all, daemontest.TenantJob("Slow", tenant, n))
		}
	}
	b.Push(all...)
	b.Eventually("all run", func() bool { return g.Done.Load() == 250 })
	for tenant, order := range g.Order {
		if !slices.IsSorted(order) || len(order) != 50 {
			t.Errorf("tenant %s ran %v", tenant, order)
		}
		if g.Most[tenant] != 1 {
			t.Errorf("%d of tenant %s ran at a time", g.Most[tenant], tenant)
		}
	}
}

func TestRateLimit(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = 1 }) // several may overtake each other on a slow machine
	g := daemontest.NewGauge()
	b.Daemon.Register("Call", func(tenant string, n int) { g.Run(tenant, n, 0) }, goworker.RateLimit(20, time.Second))
	began := time.Now()
	b.Start()
	for n := range 20 {
		b.Push(daemontest.TenantJob("Call", "a", n))
	}
	b.Push(daemontest.Jobs("Mark", 5)...)
	b.Eventually("others run", func() bool { return b.Runs.Finished() == 5 })
	b.Eventually("all run", func() bool { return g.Done.Load() == 20 })
	if took := time.Since(began); took < 900*time.Millisecond {
		t.Errorf("20 jobs at 20 a second took %v", took)
	}
	t.Logf("20 jobs at 20 a second took %v", time.Since(began))
	if !slices.IsSorted(g.Order["a"]) {
		t.Errorf("they ran in the order %v", g.Order["a"])
	}
}

// Keys that are held up, however many, hold up no others: as long as a job of each
// runs, its next one waits.
func TestManyFullKeysHoldUpNobody(t *testing.T) {
	t.Parallel()
	const held = 400
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency = held + 2 })
	g := daemontest.NewGauge()
	b.Daemon.Register("Slow", func(tenant string, n int) {
		if g.Run(tenant, n, 0); n == 0 {
			<-b.Gate
		}
	}, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))))
	b.Start()
	for n := range held {
		tenant := fmt.Sprint("held", n)
		b.Push(daemontest.TenantJob("Slow", tenant, 0), daemontest.TenantJob("Slow", tenant, 1))
	}
	b.Eventually("one of each runs", func() bool { return g.Done.Load() == held })
	for n := range 10 {
		b.Push(daemontest.TenantJob("Slow", fmt.Sprint("free", n), 1))
	}
	b.Eventually("those of others run", func() bool { return g.Done.Load() == held+10 })
	b.Open()
	b.Eventually("all run", func() bool { return g.Done.Load() == 2*held+10 })
	b.Eventually("all are counted", func() bool { return b.Stat("processed") == 2*held+10 })
	b.NothingWaits()
}

func TestFairTakesTurns(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	var before atomic.Int64
	b.Daemon.Register("Job", func(tenant string, n int) {
		g.Run(tenant, n, time.Millisecond)
		if tenant == "small" && n == 9 {
			before.Store(g.Done.Load())
		}
	}, goworker.FairBy(goworker.ByArg(0)))
	var all []string
	for n := range 2000 {
		all = append(all, daemontest.TenantJob("Job", "large", n))
	}
	for n := range 10 {
		all = append(all, daemontest.TenantJob("Job", "small", n))
	}
	b.Push(all...)
	b.Start()
	b.Eventually("all run", func() bool { return g.Done.Load() == 2010 })
	t.Logf("the small tenant's ten were done after %d jobs", before.Load())
	if before.Load() > 1500 {
		t.Errorf("the small tenant's ten were done after %d jobs", before.Load())
	}
}

func TestLimitQueue(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	b.Daemon.Register("Slow", func(tenant string, n int) { g.Run("", n, 2*time.Millisecond) })
	b.Daemon.LimitQueue("work", goworker.MaxRunning(1))
	b.Start()
	for n := range 40 {
		b.Push(daemontest.TenantJob("Slow", "a", n))
	}
	b.Eventually("all run", func() bool { return g.Done.Load() == 40 })
	if most := g.Mosts()[""]; most != 1 {
		t.Errorf("%d ran at a time, want 1", most)
	}
}

// A slot that no job holds any more, because its record was removed, is found and freed.
func TestLostSlotIsFreed(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("One", func(id string) { b.Runs.Start(id); b.Runs.End(id) }, goworker.MaxRunning(1))
	b.Redis.Do(t, "SADD", "resque:go:slots:c:One", "vm:1:0000/7")
	b.Start()
	b.Push(daemontest.Job("One", "a"))
	b.Eventually("the job runs", func() bool { return b.Runs.Ends("a") == 1 })
	b.Eventually("it is said", func() bool { return b.Log.Count("freed slots of a limit") == 1 })
}

// What waits while the limit is used up costs next to nothing, and starts at once when it
// is free.
func TestBlockedSendsLittle(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("HoldOne", func(id string) { b.Runs.Start(id); <-b.Gate; b.Runs.End(id) }, goworker.MaxRunning(1))
	b.Start()
	b.Push(daemontest.Jobs("HoldOne", 50)...)
	b.Eventually("one runs", func() bool { return b.Runs.Started() == 1 })
	b.Renewed(1)
	before, began := b.Commands(), time.Now()
	b.Renewed(2)
	rate := float64(b.Commands()-before) / time.Since(began).Seconds()
	t.Logf("%.1f scripts a second while 49 jobs wait", rate)
	if rate > 10 {
		t.Errorf("%.1f scripts a second while blocked", rate)
	}
	b.Open()
	b.Eventually("all run", func() bool { return b.Runs.Finished() == 50 })
}

// A daemon that ends when its queues are empty waits for what waits for limits.
func TestExitOnCompleteWaitsForLanes(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ExitOnComplete = true })
	g := daemontest.NewGauge()
	b.Daemon.Register("Call", func(tenant string, n int) { g.Run(tenant, n, 0) }, goworker.RateLimit(50, time.Second, goworker.PerKey(goworker.ByArg(0))))
	for n := range 20 {
		b.Push(daemontest.TenantJob("Call", "a", n), daemontest.TenantJob("Call", "b", n))
	}
	b.Start()
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := g.Done.Load(); n != 40 {
		t.Errorf("it ended after %d of 40 jobs", n)
	}
	b.NothingWaits()
}

// A program that knows of no limits drains the lanes that another has left, and keeps
// their limits.
func TestLanesAreDrainedByOthers(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	g := daemontest.NewGauge()
	b.Daemon.Register("Slow", func(tenant string, n int) { g.Hold("", n, func() { <-b.Gate }) }, goworker.MaxRunning(2))
	b.Start()
	for n := range 30 {
		b.Push(daemontest.TenantJob("Slow", "a", n))
	}
	b.Eventually("all are sorted", func() bool { return len(b.Queue("work")) == 0 && g.Mosts()[""] == 2 })
	b.Open()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	other := daemontest.SetupOn(t, b.Redis)
	other.Daemon.Register("Slow", func(tenant string, n int) { g.Run("", n, time.Millisecond) })
	other.Start()
	other.Eventually("all run", func() bool { return g.Done.Load() == 30 })
	if most := g.Mosts()[""]; most != 2 {
		t.Errorf("%d ran at a time, want 2", most)
	}
	other.Eventually("all are committed", func() bool { return other.Stat("processed") == 30 })
	other.NothingWaits()
}

// Limits hold without tracking too.
func TestLimitsWhilePolling(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.DisableTracking, s.PollInterval = true, 20*time.Millisecond })
	g := daemontest.NewGauge()
	b.Daemon.Register("Slow", func(tenant string, n int) { g.Run(tenant, n, time.Millisecond) }, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))))
	b.Start()
	for n := range 20 {
		b.Push(daemontest.TenantJob("Slow", "a", n), daemontest.TenantJob("Slow", "b", n))
	}
	b.Eventually("all run", func() bool { return g.Done.Load() == 40 })
	for tenant, n := range g.Mosts() {
		if n != 1 || !slices.IsSorted(g.Order[tenant]) {
			t.Errorf("tenant %s: %d at a time, in the order %v", tenant, n, g.Order[tenant])
		}
	}
}
