package mixed

import (
	"fmt"
	"strings"
	"syscall"

	"github.com/goworker/goworker/internal/resque"
)

// pushLarge pushes jobs whose payloads have fields of their own in the records of this release, where all processes know that.
func (f *fleet) pushLarge(class string, ids ...string) {
	f.t.Helper()
	f.redis.Do(f.t, "SADD", "resque:queues", "work")
	padding := strings.Repeat("x", resque.ApartFrom)
	for _, id := range ids {
		f.redis.Do(f.t, "RPUSH", "resque:queue:work", fmt.Sprintf(`{"class":%q,"args":[%q],"padding":%q}`, class, id, padding))
	}
}

// apart starts a process of this release and waits until it writes large payloads apart. It returns the key of its record.
func (f *fleet) apart(hostname string) (p *process, record string) {
	f.t.Helper()
	p = f.start(f.newer, hostname)
	record = "resque:go:inflight:" + f.id(hostname)
	f.eventually("payloads are apart", func() bool {
		f.pushLarge("Note", some("warm", 20)...) // some of them are in the record at a time
		return f.redis.Int(f.t, "HEXISTS", record, "apart") == 1
	})
	f.eventually("all of these have run", func() bool {
		return f.redis.Int(f.t, "LLEN", "resque:queue:work") == 0 && f.redis.Int(f.t, "HLEN", record) == 1
	})
	return p, record
}

// marked are the tickets of a record whose payloads are apart.
func (f *fleet) marked(record string) (tickets []string) {
	for _, field := range f.redis.List(f.t, "HKEYS", record) {
		if strings.HasPrefix(f.redis.Text(f.t, "HGET", record, field), "~") {
			tickets = append(tickets, field)
		}
	}
	return tickets
}

func (f *fleet) holds(hostname string) int { return f.redis.Int(f.t, "HGET", "book:holds", hostname) }

// leavesLarge kills a process of this release that has payloads apart, with the older release alone. That one leaves the jobs, and the
// process stays in the fleet as a dead one, until a process of this release comes and brings them back.
func (f *fleet) leavesLarge() {
	dead, record := f.apart("dead")
	f.pushLarge("Hold", some("held", 3)...)
	f.eventually("its workers are busy", func() bool { return f.holds("dead") == 3 })
	if n := len(f.marked(record)); n != 3 {
		f.t.Fatalf("%d payloads are apart", n)
	}
	f.push("Hold", some("small", 3)...) // they may be held ahead, or wait
	dead.end(syscall.SIGKILL)

	older := f.start(f.older, "older")
	f.eventually("the older release leaves the large jobs", func() bool { return strings.Contains(older.text(), "does not name its queue") })
	f.eventually("its workers have the small ones", func() bool { return f.holds("older") == 3 })
	if n := len(f.marked(record)); n != 3 {
		f.t.Errorf("%d of 3 large jobs are left", n)
	}
	if id := strings.TrimPrefix(record, "resque:go:inflight:"); !strings.HasPrefix(f.redis.Text(f.t, "ZSCORE", "resque:go:processes", id), "-") {
		f.t.Error("the dead process has left the fleet")
	}
	f.start(f.newer, "newer")
	f.eventually("the large jobs run again", func() bool { return f.holds("newer") == 3 })
	f.eventually("nothing is left of the dead", func() bool { return f.redis.Int(f.t, "EXISTS", record) == 0 && f.id("dead") == "" })
}

// joinsLarge has a process of the older release come while one of this release puts payloads apart: it stops that. Each brings back the
// large jobs of the other one.
func (f *fleet) joinsLarge() {
	newer, record := f.apart("newer")
	older := f.start(f.older, "older")
	renewed := func() string {
		return strings.Join(f.redis.List(f.t, "ZRANGE", "resque:go:processes", 0, -1, "WITHSCORES"), " ")
	}
	for range 6 { // at least two of the newer one
		before := renewed()
		f.eventually("leases are renewed", func() bool { return renewed() != before })
	}
	f.pushLarge("Hold", some("held", 6)...)
	f.eventually("the workers of both are busy", func() bool { return f.holds("newer") == 3 && f.holds("older") == 3 })
	if marked := f.marked(record); len(marked) > 0 {
		f.t.Errorf("beside the older release the payloads of tickets %v are apart", marked)
	}
	newer.end(syscall.SIGKILL)
	f.eventually("the older release has brought its jobs back", func() bool {
		return f.redis.Int(f.t, "EXISTS", record) == 0 && f.redis.Int(f.t, "LLEN", "resque:queue:work") == 3
	})
	f.start(f.newer, "heir")
	f.eventually("they run", func() bool { return f.holds("heir") == 3 })
	older.end(syscall.SIGKILL)
	f.eventually("the jobs of the older one are back", func() bool {
		return f.id("older") == "" && f.redis.Int(f.t, "LLEN", "resque:queue:work") == 3
	})
}
