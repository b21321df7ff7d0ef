package fleet

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/duty"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// BenchmarkRenewals reports what Redis spends on a renewal of a lease, in the mean of all processes of a fleet that has been there for a
// while. Fleets of one process and of up to a thousand renew by turns. Each process has a connection of its own.
func BenchmarkRenewals(b *testing.B) {
	sizes := []int{1, 100, 500, 1000}
	for b.Loop() {
		servers := make(map[int]*redistest.Server)
		fleets := make(map[int][]*renewer)
		for _, n := range sizes {
			servers[n] = redistest.Start(b)
			for i := range n {
				fleets[n] = append(fleets[n], newRenewer(b, servers[n], fmt.Sprintf("host%d:%d:abcdef01", i*7919%n, 10_000+i)))
			}
			for range 5 { // until all know the fleet
				for _, r := range fleets[n] {
					r.renew(b)
				}
			}
		}
		const rounds, calls = 30, 100 // each process of the largest fleet renews three times
		took := make(map[int]float64)
		for round := range rounds {
			for _, n := range sizes {
				before := spent(b, servers[n])
				for i := range calls {
					fleets[n][(round*calls+i)%n].renew(b)
				}
				took[n] += spent(b, servers[n]) - before
			}
		}
		for _, n := range sizes {
			b.ReportMetric(took[n]/rounds/calls, fmt.Sprintf("redis-µs/%d", n))
			servers[n].Stop()
		}
	}
}

// renewer is what renews a lease, of a process that does nothing else.
type renewer struct {
	members
	id     string
	lease  time.Duration
	gap    time.Duration
	last   resque.Renewed
	c      redis.Conn
	store  resque.Store
	keeper *duty.Keeper
	cargo  resque.Cargo
}

func newRenewer(t testing.TB, server *redistest.Server, id string) *renewer {
	return newRenewerOf(t, server, id, time.Hour, time.Hour)
}

// newRenewerOf is newRenewer with the time of a lease, and the longest gap between the renewals of a fleet.
func newRenewerOf(t testing.TB, server *redistest.Server, id string, lease, gap time.Duration) *renewer {
	r := &renewer{id: id, lease: lease, gap: gap, c: server.Dial(t), store: resque.New("")}
	r.vigil.store = r.store
	r.keeper = duty.New(r.store, resque.Duties, r)
	p := resque.Process{ID: id, Host: "host", PID: 1, Concurrency: 25, IDHead: id + "-", IDQueues: "*", Started: time.Now()}
	if err := r.store.Enter(r.c, p, lease, time.Now()); err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *renewer) Self() string { return r.id }

// renew renews the lease, as Lease.beat does, and reports whether it has read the members of the fleet.
func (r *renewer) renew(t testing.TB) (read bool) {
	if r.cargo.Empty() {
		r.cargo.Number++
		r.keeper.Load(&r.cargo)
		r.vigil.Load(&r.cargo)
	}
	var err error
	if r.last, err = r.store.RenewBehind(r.c, r.id, r.keeper.Behind(), r.lease, r.gap, &r.cargo); err != nil {
		t.Fatal(err)
	}
	if r.saw(r.id, r.last); r.last.All {
		r.keeper.Read()
	}
	return r.last.All
}

// renewAsOlder renews the lease of a process that nobody asks about.
func (r *renewer) renewAsOlder(t testing.TB) {
	if _, err := r.store.Renew(r.c, r.id, r.lease, r.gap, nil); err != nil {
		t.Fatal(err)
	}
}

// spent is the processor time of a server so far, in microseconds.
func spent(b *testing.B, server *redistest.Server) (us float64) {
	for line := range strings.Lines(server.Text(b, "INFO", "cpu")) {
		for _, name := range []string{"used_cpu_user:", "used_cpu_sys:"} {
			if seconds, ok := strings.CutPrefix(line, name); ok {
				v, err := strconv.ParseFloat(strings.TrimSpace(seconds), 64)
				if err != nil {
					b.Fatal(err)
				}
				us += 1e6 * v
			}
		}
	}
	return us
}
