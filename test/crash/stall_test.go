package crash

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A process that is stopped for longer than its lease loses its jobs to others.
// When it goes on it learns so: it cancels their contexts, counts nothing, and
// works on under another name.
func TestStoppedProcessLosesItsJobs(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	zombie := f.start("-concurrency=4")
	f.push(append(jobs("Hold", 3), job("Deaf", "deaf"))...)
	f.eventually(soon, "they run", func() bool { return len(f.events("start")) == 4 })
	old := zombie.id()
	heir := f.start("-concurrency=4")
	zombie.signal(syscall.SIGSTOP)
	f.eventually(recovery, "another process runs them", func() bool { return len(f.events("start", heir)) == 4 })
	f.open(heir)
	f.eventually(soon, "they are counted", func() bool { return f.stat("processed") == 4 })

	zombie.signal(syscall.SIGCONT)
	f.eventually(soon, "the zombie's jobs are cancelled", func() bool { return len(f.events("cancel", zombie)) == 3 })
	for _, e := range f.events("cancel") {
		if e.detail != "lease lost" {
			t.Errorf("job %s of %d was cancelled because of: %s", e.id, e.pid, e.detail)
		}
	}
	f.open(zombie)
	f.eventually(soon, "the deaf one ends", func() bool { return len(f.events("end", zombie)) == 1 })
	f.eventually(soon, "the zombie is back under another name", func() bool {
		id := zombie.id()
		return id != "" && id != old && len(f.of(zombie, "SMEMBERS", "resque:workers"))+len(f.pointed(zombie)) == 4
	})
	heir.stop()
	f.push(nap("after", 0))
	f.eventually(soon, "it works on", func() bool { return len(f.events("end", zombie)) == 2 })
	zombie.stop()
	if f.stat("processed") != 5 || f.stat("failed") != 0 {
		t.Errorf("%d processed and %d failed, want 5 and 0", f.stat("processed"), f.stat("failed"))
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// pointed are the workers of a process whose plain ids were taken when it entered
// the fleet: the random part stands behind the process number.
func (f *fleet) pointed(p *process) (own []string) {
	f.t.Helper()
	for _, id := range f.redis.List(f.t, "SMEMBERS", "resque:workers") {
		if strings.Contains(id, fmt.Sprintf(".go:%d.", p.pid)) {
			own = append(own, id)
		}
	}
	return own
}

// When Redis stalls for longer than a lease, all processes are silent. No reaper may
// take that for their death.
func TestStallOfRedisReapsNobody(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	first, second := f.start("-concurrency=5"), f.start("-concurrency=5")
	f.push(jobs("Hold", 10)...)
	f.eventually(soon, "they run", func() bool { return len(f.events("start")) == 10 })
	f.redis.Pause()
	time.Sleep(12 * time.Second) // the fault itself: one and a half leases
	third := f.launch("-concurrency=5")
	f.redis.Resume()
	// From now on each sees the others' leases for longer than they last.
	f.renewed(5, first, second, third)
	if keys := f.redis.List(t, "KEYS", "resque:go:reaped:*"); len(keys) > 0 {
		t.Errorf("found dead: %q", keys)
	}
	f.open()
	f.eventually(soon, "all are counted", func() bool { return f.stat("processed") >= 10 })
	for id, n := range counts(f.events("start")) {
		if n != 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
	}
	for _, p := range []*process{first, second, third} {
		p.stop()
	}
	if n := f.stat("processed"); n != 10 {
		t.Errorf("stat:processed is %d, want 10", n)
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// Redis is killed again and again under load. It keeps its data, so nothing is
// lost, nothing runs twice, and every outcome counts once.
func TestKillsOfRedis(t *testing.T) {
	t.Parallel()
	const total = 1500
	f := newFleet(t, "--appendonly", "yes", "--appendfsync", "always")
	processes := []*process{f.start("-concurrency=5"), f.start("-concurrency=5")}
	var all []string
	for i := range total {
		all = append(all, nap(fmt.Sprint(i), i%20))
	}
	f.push(all...)
	for i := range 5 {
		at := total * (i + 1) / 8
		f.eventually(recovery, "some are done", func() bool { return len(f.events("end")) >= at })
		f.redis.Kill()
		f.redis.Restart(t)
	}
	f.eventually(recovery, "all are counted", func() bool { return f.stat("processed") >= total })
	for _, p := range processes {
		p.stop()
	}
	starts := counts(f.events("start"))
	for id, n := range starts {
		if n != 1 {
			t.Errorf("job %s ran %d times", id, n)
		}
	}
	if len(starts) != total || f.stat("processed") != total || f.stat("failed") != 0 {
		t.Errorf("%d ran, %d processed, %d failed; want %d, %d, 0", len(starts), f.stat("processed"), f.stat("failed"), total, total)
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// Another program unregisters the workers of a living process, as a Ruby worker does that
// starts after a long pause of the process. The next heartbeat puts them back.
func TestRegistrationIsPutBack(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	p := f.start("-concurrency=3")
	f.push(jobs("Hold", 2)...)
	f.eventually(soon, "they run", func() bool { return len(f.events("start")) == 2 })
	workers := f.of(p, "SMEMBERS", "resque:workers")
	f.redis.Do(t, "DEL", "resque:workers", "resque:workers:heartbeat")
	f.eventually(recovery, "they are registered again", func() bool {
		now, beats := f.of(p, "SMEMBERS", "resque:workers"), f.of(p, "HKEYS", "resque:workers:heartbeat")
		slices.Sort(now)
		slices.Sort(beats)
		slices.Sort(workers)
		return slices.Equal(now, workers) && slices.Equal(beats, workers)
	})
	f.open()
	f.eventually(soon, "they are counted", func() bool { return f.stat("processed") == 2 })
	p.stop()
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}
