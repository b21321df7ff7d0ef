package jobs

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

// starts keeps when the jobs of a class were started.
type starts struct {
	mu sync.Mutex
	at []time.Time
}

func (s *starts) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = append(s.at, time.Now())
}

func (s *starts) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.at)
}

func expiredJob(class, tenant string, n int) string {
	return fmt.Sprintf(`{"class":%q,"args":[%q,%d],"expires_at":1000}`, class, tenant, n)
}

// Jobs that are dropped because their time is over take no start from those that run.
func TestExpiredJobsCostNoStart(t *testing.T) {
	t.Parallel()
	for name, limits := range map[string][]goworker.Option{
		"of the fleet":    {goworker.RateLimit(1, time.Hour)},
		"of each process": {goworker.RateLimit(1, time.Hour, goworker.PerProcess())},
		"of each key":     {goworker.RateLimit(1, time.Hour, goworker.PerKey(goworker.ByArg(0)))},
		"two":             {goworker.RateLimit(1, time.Hour), goworker.RateLimit(1, time.Hour, goworker.PerKey(goworker.ByArg(0))), goworker.MaxRunning(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t)
			ran := &starts{}
			b.Daemon.Register("Call", func(string, int) { ran.start() }, limits...)
			for n := range 50 {
				b.Push(expiredJob("Call", "a", n))
			}
			b.Push(daemontest.TenantJob("Call", "a", 50), expiredJob("Call", "a", 51), daemontest.TenantJob("Call", "a", 52))
			b.Start()
			b.Eventually("one has run", func() bool { return b.Stat("processed") == 1 })
			b.Eventually("those before it are dropped", func() bool { return b.Redis.Text(t, "HGET", "resque:go:stats", "expired") == "50" })
			b.Push(daemontest.Jobs("Mark", 20)...)
			b.Eventually("others run", func() bool { return b.Runs.Finished() == 20 })
			if n := ran.count(); n != 1 {
				t.Errorf("%d were started in the hour, want 1", n)
			}
			for _, key := range b.Redis.Keys(t) {
				if strings.Contains(key, "go:rate:") && b.Redis.Int(t, "TTL", key) < 0 {
					t.Errorf("%s never goes", key)
				}
			}
		})
	}
}

// However many are dropped between those that run, no more of these start than the rate
// says, whichever period one looks at.
func TestRateHoldsBetweenExpiredJobs(t *testing.T) {
	t.Parallel()
	const n, period = 20, time.Second
	b := daemontest.Setup(t)
	other := daemontest.SetupOn(t, b.Redis)
	ran := &starts{}
	for _, of := range []*daemontest.Bundle{b, other} {
		of.Daemon.Register("Call", func(string, int) { ran.start() }, goworker.RateLimit(n, period, goworker.Burst(5)))
	}
	for i := range 40 {
		b.Push(expiredJob("Call", "a", i), daemontest.TenantJob("Call", "a", i), expiredJob("Call", "a", i), expiredJob("Call", "a", i))
	}
	b.Start()
	other.Start()
	b.Eventually("all run", func() bool { return b.Stat("processed") == 40 })
	slices.SortFunc(ran.at, time.Time.Compare)
	for first := range ran.at {
		for last := first; last < len(ran.at); last++ {
			took := ran.at[last].Sub(ran.at[first])
			if most := int(took*n/period) + n; last-first+1 > most {
				t.Fatalf("%d were started within %v, want at most %d", last-first+1, took, most)
			}
		}
	}
	if took := ran.at[len(ran.at)-1].Sub(ran.at[0]); took < 40*period/n/2 {
		t.Errorf("40 jobs at %d in %v took %v", n, period, took)
	}
	b.Eventually("all others are dropped", func() bool { return b.Redis.Text(t, "HGET", "resque:go:stats", "expired") == "120" })
}

// Neither do jobs that are left to others, nor those that fail because they are no jobs.
func TestJobsNotRunCostNoStart(t *testing.T) {
	t.Parallel()
	for _, leave := range []bool{true, false} {
		t.Run(fmt.Sprint("left ", leave), func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.LeaveUnknown = leave })
			ran := &starts{}
			b.Daemon.Register("Call", func(string, int) { ran.start() })
			b.Daemon.LimitQueue("work", goworker.RateLimit(1, time.Hour))
			for i := range 6 {
				b.Push(daemontest.TenantJob(fmt.Sprint("Unknown", i), "a", i))
			}
			if !leave {
				b.Push("no job")
			}
			b.Push(daemontest.TenantJob("Call", "a", 1), daemontest.TenantJob("Call", "a", 2))
			b.Start()
			b.Eventually("one has run", func() bool { return ran.count() == 1 })
			if !leave {
				b.Eventually("the others failed", func() bool { return b.Stat("failed") == 7 })
			}
			if err := b.Stop(); err != nil {
				t.Fatal(err)
			}
			if n := ran.count(); n != 1 {
				t.Errorf("%d were started in the hour, want 1", n)
			}
		})
	}
}
