package goworker

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
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
	for name, limits := range map[string][]Option{
		"of the fleet":    {RateLimit(1, time.Hour)},
		"of each process": {RateLimit(1, time.Hour, InProcess())},
		"of each key":     {RateLimit(1, time.Hour, PerKey(Arg(0)))},
		"two":             {RateLimit(1, time.Hour), RateLimit(1, time.Hour, PerKey(Arg(0))), Concurrency(1)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			ran := &starts{}
			b.daemon.Register("Call", func(string, int) { ran.start() }, limits...)
			for n := range 50 {
				b.push(expiredJob("Call", "a", n))
			}
			b.push(tenantJob("Call", "a", 50), expiredJob("Call", "a", 51), tenantJob("Call", "a", 52))
			b.start()
			b.eventually("one has run", func() bool { return b.stat("processed") == 1 })
			b.eventually("those before it are dropped", func() bool { return b.redis.Text(t, "HGET", "resque:go:stats", "expired") == "50" })
			b.push(jobs("Mark", 20)...)
			b.eventually("others run", func() bool { return b.runs.finished() == 20 })
			if n := ran.count(); n != 1 {
				t.Errorf("%d were started in the hour, want 1", n)
			}
			for _, key := range b.redis.Keys(t) {
				if strings.Contains(key, "go:rate:") && b.redis.Int(t, "TTL", key) < 0 {
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
	b := setup(t)
	other := setupOn(t, b.redis)
	ran := &starts{}
	for _, of := range []*bundle{b, other} {
		of.daemon.Register("Call", func(string, int) { ran.start() }, RateLimit(n, period, Burst(5)))
	}
	for i := range 40 {
		b.push(expiredJob("Call", "a", i), tenantJob("Call", "a", i), expiredJob("Call", "a", i), expiredJob("Call", "a", i))
	}
	b.start()
	other.start()
	b.eventually("all run", func() bool { return b.stat("processed") == 40 })
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
	b.eventually("all others are dropped", func() bool { return b.redis.Text(t, "HGET", "resque:go:stats", "expired") == "120" })
}

// Neither do jobs that are left to others, nor those that fail because they are no jobs.
func TestJobsNotRunCostNoStart(t *testing.T) {
	t.Parallel()
	for _, leave := range []bool{true, false} {
		t.Run(fmt.Sprint("left ", leave), func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(s *WorkerSettings) { s.LeaveUnknown = leave })
			ran := &starts{}
			b.daemon.Register("Call", func(string, int) { ran.start() })
			b.daemon.LimitQueue("work", RateLimit(1, time.Hour))
			for i := range 6 {
				b.push(tenantJob(fmt.Sprint("Unknown", i), "a", i))
			}
			if !leave {
				b.push("no job")
			}
			b.push(tenantJob("Call", "a", 1), tenantJob("Call", "a", 2))
			b.start()
			b.eventually("one has run", func() bool { return ran.count() == 1 })
			if !leave {
				b.eventually("the others failed", func() bool { return b.stat("failed") == 7 })
			}
			if err := b.stop(); err != nil {
				t.Fatal(err)
			}
			if n := ran.count(); n != 1 {
				t.Errorf("%d were started in the hour, want 1", n)
			}
		})
	}
}
