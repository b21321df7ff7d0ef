package resque

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestEnter(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	before, err := w.s.Now(w.c)
	w.must(err)
	m := w.enter("p")
	after, err := w.s.Now(w.c)
	w.must(err)
	expiry, err := strconv.ParseInt(m.lease(), 10, 64)
	if at := time.UnixMilli(expiry).Add(-lease); err != nil || at.Before(before.Truncate(time.Millisecond)) || at.After(after) {
		t.Errorf("the lease %q is not %v from between %v and %v", m.lease(), lease, before, after)
	}
	w.same("keys", map[string]any{
		"resque:go:processes": map[string]float64{"p": float64(expiry)},
		"resque:go:process:p": map[string]string{
			"epoch": "1", "host": "web-1", "pid": "42", "version": "1.0.0", "queues": "high,low", "concurrency": "2",
			"started": "2026-11-21 12:00:00 +0000", "id_head": "p.go:42-", "id_queues": "high,low",
			"knows": "workflows msgpack leases apart", "duties": "1",
		},
		"resque:go:inflight:p":     map[string]string{"entered": mark},
		"resque:workers:heartbeat": map[string]string{"p.go:42-0:high,low": "2026-11-21T12:00:00+00:00"},
	}, w.server.Dump(t, ""))

	read, err := w.s.ReadProcess(w.c, "p")
	w.must(err)
	if !read.Started.Equal(noon) {
		t.Errorf("started %v, want %v", read.Started, noon)
	}
	if read.Duties != Duties {
		t.Errorf("duties %d, want %d", read.Duties, Duties)
	}
	read.Started, read.Knows, read.Duties = noon, "", 0
	w.same("read back", m.Process, read)
	missing, err := w.s.ReadProcess(w.c, "unknown")
	w.must(err)
	w.same("an unknown process", Process{ID: "unknown"}, missing)
}

// A worker id of another process is not taken over, whether it is registered or about to be.
func TestEnterTaken(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.enter("p")
	second := someProcess("q")
	second.IDHead = "p.go:42-"
	w.unchanged("entering under a taken id", func() {
		if err := w.s.Enter(w.c, second, lease, noon.Add(time.Hour)); !errors.Is(err, ErrTaken) {
			t.Errorf("got %v, want ErrTaken", err)
		}
	})
	w.do("SET", w.s.reaped("q"), "1")
	w.unchanged("entering over a tombstone", func() {
		if err := w.s.Enter(w.c, someProcess("q"), lease, noon); !errors.Is(err, ErrReaped) {
			t.Errorf("got %v, want ErrReaped", err)
		}
	})
}

func TestRenew(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m, other := w.enter("p"), w.enter("other")
	dead := w.enter("dead")
	dead.die()
	before := m.lease()
	w.do("ZADD", w.s.workflows(), 5, "w")
	renewed, err := w.s.Renew(w.c, "p", 2*lease, gap, nil)
	w.must(err)
	if asked, err := w.s.Due(w.c, false); err != nil || renewed.Due.Workflows >= 0 || asked.Workflows >= 0 || asked.Sooner() != Never {
		t.Errorf("workflows are due in %v, and asked for in %v", renewed.Due.Workflows, asked.Workflows)
	}
	now := renewed.Due.Now
	if m.lease() <= before {
		t.Errorf("the lease went from %s to %s", before, m.lease())
	}
	w.same("who lives", []string{"other", "p"}, sorted(renewed.Members))
	w.same("who may be dead", []Lease{{"dead", dead.lease()}}, renewed.Late)
	if !renewed.All || renewed.Processes != 3 {
		t.Errorf("%d processes, it says that these are all: %v", renewed.Processes, renewed.All)
	}
	if redisNow, _ := w.s.Now(w.c); now.After(redisNow) || redisNow.Sub(now) > time.Minute {
		t.Errorf("renewed at %v, now it is %v", now, redisNow)
	}
	// The observed value is what a fence compares, byte for byte.
	w.do("SET", w.s.pulse(), fmt.Sprint(now.Add(-4*lease).UnixMilli(), " ", now.UnixMilli()))
	w.do("ZADD", w.s.processes(), now.Add(-time.Second).UnixMilli(), "other")
	renewed, err = w.s.RenewBehind(w.c, "p", "other", 2*lease, gap, nil)
	w.must(err)
	w.same("who may be dead later", []Lease{{"dead", dead.lease()}, {"other", other.lease()}}, renewed.Late)
	if renewed.All || renewed.Members != nil {
		t.Errorf("behind a process that lives it reads %q", renewed.Members)
	}
	if fenced, err := w.s.Fence(w.c, "other", renewed.Late[1].Value); err != nil || !fenced {
		t.Errorf("fencing by the value that a renewal showed: %v, %v", fenced, err)
	}
	for _, other := range []string{"other", "unknown"} { // one is fenced
		if renewed, err = w.s.RenewBehind(w.c, "p", other, 2*lease, gap, nil); err != nil || !renewed.All || !slices.Equal(renewed.Members, []string{"p"}) {
			t.Errorf("behind %s it reads %q, %v", other, renewed.Members, err)
		}
	}
}

// Which processes have leases, and which of them live.
func TestHaveLeases(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.enter("p")
	w.enter("dead").die()
	have, err := w.s.HaveLeases(w.c, []string{"p", "dead", "gone"})
	w.must(err)
	w.same("leases", map[string]bool{"p": true, "dead": true}, have)
	if have, err = w.s.HaveLeases(w.c, nil); err != nil || len(have) != 0 {
		t.Errorf("of none %v have leases, %v", have, err)
	}
	lives := make(map[string]bool)
	c := &Cargo{Number: 1}
	w.s.ReadAlive(c, []string{"p", "dead", "gone"}, func(process string, alive bool) { lives[process] = alive })
	_, err = w.s.Renew(w.c, "p", lease, gap, c)
	w.must(err)
	w.same("who lives", map[string]bool{"p": true, "dead": false, "gone": false}, lives)
}

// Renewing does not put back a lease that was removed.
func TestRenewNothing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		upset func(w *wire, m *proc)
		want  error
	}{
		{"lease removed", func(w *wire, _ *proc) { w.do("ZREM", w.s.processes(), "p") }, ErrGone},
		{"record removed", func(w *wire, _ *proc) { w.do("DEL", w.s.process("p")) }, ErrGone},
		{"everything removed", func(w *wire, _ *proc) { w.do("FLUSHALL") }, ErrGone},
		{"fenced", func(_ *wire, m *proc) { m.die() }, ErrReaped},
		{"reaped", func(w *wire, m *proc) {
			m.die()
			_, err := w.s.Leave(w.c, "p")
			w.must(err)
		}, ErrReaped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			m := w.enter("p")
			tt.upset(w, m)
			w.unchanged("the renewal", func() {
				if _, err := w.s.Renew(w.c, "p", lease, gap, nil); !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

// A request that Redis gets after its sender gave up on it changes nothing.
func TestResyncMakesRequestsLate(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 15)...)
	m := w.enter("p")
	jobs := m.reserve(12, "low")
	late := Exchange{Want: 3, Asks: asks("low"), Handed: "12", Done: tickets(jobs[0]), Ended: append(failed(jobs[1]), back(jobs[2])...)}

	epoch, held, whole, err := w.s.Resync(w.c, "p")
	w.must(err)
	w.same("epoch", int64(2), epoch)
	w.same("whole", true, whole)
	w.same("tickets, by number", tickets(jobs...), held)
	w.unchanged("the late request", func() {
		if _, err := m.try(late); !errors.Is(err, ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
	})
	m.epoch = epoch
	m.turn(late)
	w.same("stats", [2]int{2, 1}, w.stats())
	w.same("queue", []string{"l15"}, w.queue("low"))
}

func TestResyncNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m := w.enter("p")
	m.die()
	if epoch, _, _, err := w.s.Resync(w.c, "p"); err != nil || epoch != 2 {
		t.Errorf("a process that is being reaped may still commit, so it reads back: epoch %d, %v", epoch, err)
	}
	_, err := w.s.Leave(w.c, "p")
	w.must(err)
	for process, want := range map[string]error{"p": ErrReaped, "unknown": ErrGone} {
		w.unchanged("the resync", func() {
			if _, _, _, err := w.s.Resync(w.c, process); !errors.Is(err, want) {
				t.Errorf("%s: got %v, want %v", process, err, want)
			}
		})
	}
}

// Redis lost everything; the jobs that still run here are protected again.
func TestRestore(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 1200)...)
	m := w.enter("p")
	var jobs []Reserved
	for range 3 {
		jobs = append(jobs, m.reserve(400, "low")...)
	}
	want := w.record("p")
	w.do("FLUSHALL")
	if _, err := m.try(Exchange{Done: []int64{1}}); !errors.Is(err, ErrGone) {
		t.Fatalf("got %v, want ErrGone", err)
	}
	w.must(w.s.Reenter(w.c, m.Process, 7, lease))
	w.must(w.s.Restore(w.c, "p", 7, jobs, handed(9)))
	w.same("record", want, w.record("p"))
	w.same("handed", "9", w.server.Text(t, "HGET", w.s.process("p"), "handed"))

	if _, err := m.try(Exchange{Done: []int64{1}}); !errors.Is(err, ErrStale) {
		t.Errorf("an exchange from before got %v, want ErrStale", err)
	}
	m.epoch = 7
	if out := m.turn(Exchange{Done: tickets(jobs...)[:MaxExchangeJobs]}); out.Missing != 0 || out.Fenced {
		t.Errorf("%+v", out)
	}
	w.same("stats", [2]int{MaxExchangeJobs, 0}, w.stats())

	m.die()
	w.unchanged("entering again after a fence", func() {
		if err := w.s.Reenter(w.c, m.Process, 8, lease); !errors.Is(err, ErrReaped) {
			t.Errorf("got %v, want ErrReaped", err)
		}
	})
}

// A process leaves no key behind; with jobs in its record it stays to be found dead.
func TestLeave(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1", "l2")
	m := w.enter("p")
	jobs := m.reserve(2, "low")
	w.unchanged("leaving with jobs", func() {
		left, err := w.s.Leave(w.c, "p")
		w.must(err)
		w.same("left", 2, left)
	})
	m.turn(Exchange{Done: tickets(jobs...)})
	left, err := w.s.Leave(w.c, "p")
	w.must(err)
	w.same("left", 0, left)
	w.must(w.s.Unregister(w.c, m.WorkerIDs()))
	w.same("keys", []string{"resque:queues", "resque:stat:processed"}, w.server.Keys(t))
}

func TestReadReserved(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 600)...)
	m := w.enter("p")
	jobs := append(m.reserve(300, "low"), m.reserve(300, "low")...)
	w.do("HDEL", w.s.inflight("p"), 3, 555)
	read, _, err := w.s.ReadReserved(w.c, "p", tickets(jobs...))
	w.must(err)
	w.same("read", slices.DeleteFunc(jobs, func(j Reserved) bool { return j.Ticket == 3 || j.Ticket == 555 }), read)

	w.do("HSET", w.s.inflight("p"), 3, "not ours")
	if _, unreadable, err := w.s.ReadReserved(w.c, "p", []int64{3}); err != nil || len(unreadable) != 1 {
		t.Error("a value that does not name its queue was read")
	}
}

func TestProcessWorkers(t *testing.T) {
	t.Parallel()
	p := Process{Concurrency: 3, IDHead: "web-1.go:42-", IDQueues: "a:b,*"}
	if diff := cmp.Diff([]string{"web-1.go:42-0:a:b,*", "web-1.go:42-1:a:b,*", "web-1.go:42-2:a:b,*"}, p.WorkerIDs()); diff != "" {
		t.Error(diff)
	}
	if got := p.WorkerName(2); got != "web-1.go:42-2" {
		t.Errorf("worker name %q", got)
	}
	for id, want := range map[string]bool{
		"web-1.go:42-0:a:b,*": true, "web-1.go:42-2:a:b,*": true, "web-1.go:42-3:a:b,*": false,
		"web-1.go:42-0:a": false, "web-1.go:42-x:a:b,*": false, "web-1.go:42-:a:b,*": false, "web-1.go:42:a:b,*": false,
		"web-2.go:42-0:a:b,*": false, "": false,
	} {
		if p.Owns(id) != want {
			t.Errorf("owns %q: %v, want %v", id, !want, want)
		}
	}
	if (Process{}).Owns("0:") {
		t.Error("a process without a record owns a worker")
	}
}
