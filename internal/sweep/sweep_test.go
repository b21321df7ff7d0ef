package sweep

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
	"github.com/goworker/goworker/internal/resque/workflows"
	"github.com/goworker/goworker/internal/scheduler"
)

// run starts the sweep of the bundle, and stops it at the end of the test.
func (b *bundle) run() {
	b.Helper()
	b.must(b.sweep.Start(b.Context()))
	b.Cleanup(func() { b.must(b.sweep.Stop(b.Context())) })
}

// renewed tells the sweep what a renewal of the lease would.
func (b *bundle) renewed(leads bool) {
	b.Helper()
	due, err := b.s.Due(b.c, false)
	b.must(err)
	b.sweep.Answered(leads, due)
}

// connections returns how many clients the server has, without the test's own.
func (b *bundle) connections() int {
	return strings.Count(b.server.Text(b, "CLIENT", "LIST"), " addr=")
}

// fleet is a fleet in which this process is alone.
type fleet struct{}

func (fleet) Self() string      { return "localhost:1:a" }
func (fleet) Worker() string    { return "localhost:1-0:*" }
func (fleet) Leads() bool       { return true }
func (fleet) Alive(string) bool { return false }

// The pump's connection hears of a workflow that is to be looked at now, and the sweep looks at it.
func TestWakes(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	pump := scheduler.NewPump(b.base, scheduler.PumpConfig{Tracking: true, Interval: time.Hour},
		scheduler.NewLock(b.base, scheduler.LockConfig{}, fleet{}), fleet{})
	pump.Seen = b.sweep.Seen
	b.must(pump.Start(t.Context()))
	t.Cleanup(func() { b.must(pump.Stop(t.Context())) })
	b.run()
	due, err := b.s.Due(b.c, false)
	b.must(err)
	pump.Answered(true, due)
	b.sweep.Answered(true, due)
	redistest.Eventually(t, soon, "both are ready", func() bool { return b.sweep.planned.Load() != 0 })
	for i := range 3 {
		id := fmt.Sprint("w", i)
		b.start(fan(id, 200, "s n - 0 0"))
		b.end("C0", workflows.Done, "")
		redistest.Eventually(t, soon, "the rest is sent", func() bool { return strings.Count(b.letters(id), "s") == 200 })
		b.take()
		b.jobs = nil
	}
}

// Without workflows the leader's sweep holds no connection and sends no command.
func TestIdle(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	before := b.connections()
	monitor := b.server.Monitor(t)
	b.run()
	b.renewed(true)
	redistest.Eventually(t, soon, "it has looked once", func() bool {
		return strings.Contains(fmt.Sprint(monitor.Inner()), "ZRANGEBYSCORE") && b.connections() == before+1
	})
	sent := func() (n int) {
		for _, command := range monitor.Inner() {
			if command[0] == "ZRANGEBYSCORE" {
				n++
			}
		}
		return n
	}
	looks := sent()
	const renewals = 50
	for range renewals {
		b.renewed(true)
	}
	b.start(chain("w"))
	b.renewed(true)
	redistest.Eventually(t, soon, "it has planned the first look", func() bool { return sent() > looks && b.connections() == before+2 })
	if n := sent() - looks; n > renewals/5 {
		t.Errorf("it looked %d times in %d renewals", n, renewals)
	}
}

// A process that does not lead helps when looks are overdue, and not before.
func TestHelps(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.start(chain("w"))
	b.server.Do(t, "HSET", b.s.WorkflowKey("w"), "until", 5)
	now, err := b.s.Now(b.c)
	b.must(err)
	b.server.Do(t, "ZADD", b.s.IndexKey(), now.Add(-time.Second).UnixMilli(), "w")
	b.run()
	b.renewed(false)
	if b.sweep.poked.Load() {
		t.Error("it helps at once")
	}
	b.server.Do(t, "ZADD", b.s.IndexKey(), now.Add(-time.Minute).UnixMilli(), "w")
	b.renewed(false)
	redistest.Eventually(t, soon, "it expires the workflow", func() bool { return b.document("w", "state") == "expired" })
}

// A turn that Redis did not serve is taken again.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	b.start(chain("w"))
	b.server.Do(t, "HSET", b.s.WorkflowKey("w"), "until", 5)
	b.due()
	var dials atomic.Int64
	base := b.base
	base.Dialer = dialer(func() (redis.Conn, error) {
		if dials.Add(1) < 4 {
			return nil, errors.New("no Redis")
		}
		return redis.DialURL(b.server.URI())
	})
	b.sweep = New(base, Config{})
	b.run()
	b.renewed(true)
	redistest.Eventually(t, soon, "the workflow expires", func() bool { return b.document("w", "state") == "expired" })
	if log := b.log.String(); strings.Count(log, "no Redis") != 1 {
		t.Errorf("the log says %s", log)
	}
}

// Chords in a row leave no more keys than those that are kept.
func TestBoundedKeys(t *testing.T) {
	t.Parallel()
	b := setup(t, Config{})
	most := 0
	for i := range 2000 {
		p := fan(fmt.Sprint("w", i), 2, "s n - 0 0")
		p.Keep = time.Second
		b.start(p)
		b.end("C0", workflows.Done, "")
		b.end("C1", workflows.Done, "1")
		b.end("C2", workflows.Done, "2")
		most = max(most, b.server.Int(t, "ZCARD", b.s.IndexKey()))
	}
	if most > 1 {
		t.Errorf("%d in the index", most)
	}
	redistest.Eventually(t, soon, "all keys go", func() bool { return len(b.keys()) == 0 })
}

// BenchmarkLooks is how many looks a second the sweep takes without rests, and how long Redis works for each.
func BenchmarkLooks(b *testing.B) {
	for name, plan := range map[string]func(id string) *workflows.Plan{
		"chain": chain, "group of 1000": func(id string) *workflows.Plan { return fan(id, 1000, "s n - 0 0") },
	} {
		b.Run(name, func(b *testing.B) {
			x := setup(b, Config{})
			for i := range 500 {
				x.start(plan(fmt.Sprint("w", i)))
			}
			used := func() (us int) {
				for _, line := range strings.Split(x.server.Text(b, "INFO", "commandstats"), "\n") {
					var n int
					if _, at, ok := strings.Cut(line, "usec="); ok && !strings.Contains(line, "cmdstat_info") {
						_, _ = fmt.Sscan(strings.Split(at, ",")[0], &n)
						us += n
					}
				}
				return us
			}
			var spent time.Duration
			redisUsed, looks := 0, 0
			for b.Loop() {
				x.due()
				before, began := used(), time.Now()
				x.step()
				spent, redisUsed, looks = spent+time.Since(began), redisUsed+used()-before, looks+500
			}
			b.ReportMetric(float64(looks)/spent.Seconds(), "looks/s")
			b.ReportMetric(float64(redisUsed)/float64(looks), "us-of-Redis/look")
		})
	}
}

// Any answer of Redis: no call panics, and an error is a sentence.
func FuzzAnswers(f *testing.F) {
	f.Add([]byte("\x07\x04" + redistest.Leaf("5") + redistest.Leaf("6") + redistest.Leaf("w") + redistest.Leaf("1")))
	s := workflows.New(resque.New(""))
	calls := map[string]func(c redis.Conn) error{
		"due":  func(c redis.Conn) error { _, _, _, err := s.DueLooks(c, time.Time{}, 5); return err },
		"read": func(c redis.Conn) error { _, err := s.ReadStandings(c, []workflows.Entry{{ID: "w"}}); return err },
		"look": func(c redis.Conn) error {
			return s.Look(c, workflows.Entry{ID: "w"}, workflows.Look{More: true, Joins: []string{"0"}})
		},
		"expire":  func(c redis.Conn) error { return s.Expire(c, "w", nil) },
		"joins":   func(c redis.Conn) error { _, _, err := s.Joins(c, "w", "0"); return err },
		"outside": func(c redis.Conn) error { _, err := s.Outside(c, "w", []byte("sy")); return err },
		"late": func(c redis.Conn) error {
			_, err := s.EndOutside(c, "w", []workflows.Waiting{{Step: 1}})
			return err
		},
		"drop":    func(c redis.Conn) error { _, err := s.Drop(c, "w", []int{1}); return err },
		"stall":   func(c redis.Conn) error { _, err := s.Stall(c, "w", []int{1}, "why", 5); return err },
		"stalled": func(c redis.Conn) error { _, err := s.Stalled(c); return err },
		"trim":    s.TrimStalled,
		"forget":  func(c redis.Conn) error { _, err := s.ForgetWorkflow(c, "w"); return err },
		"lost":    func(c redis.Conn) error { return s.RemoveLost(c, "w") },
		"old":     func(c redis.Conn) error { return s.RemoveOld(c, workflows.Standing{}) },
		"delayed": func(c redis.Conn) error { _, _, err := s.ScanDelayed(c, "0"); return err },
		"flight":  func(c redis.Conn) error { _, _, err := s.ScanInFlight(c, "p", "0"); return err },
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for name, call := range calls {
			if err := call(redistest.Answering(redistest.Trees(text)...)); err != nil && err.Error() == "" && !errors.As(err, new(redis.Error)) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
