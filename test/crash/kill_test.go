package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A process is killed with ten running jobs: they come back to the head of their
// queue in their order, in front of what waited, and nothing of the dead is left.
func TestKilledJobsReturnToTheHead(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-concurrency=10")
	// It serves another queue, so that what it brings back can be looked at.
	witness := f.start("-queues=other", "-concurrency=2")
	f.push(nap("before", 0))
	f.eventually(soon, "it has counted a job of its own", func() bool {
		return len(f.redis.List(t, "KEYS", fmt.Sprintf("resque:stat:processed:*.go:%d-*", victim.pid))) > 0
	})
	all := append(jobs("Hold", 10), jobs("Nap", 5)...)
	for i := range 5 {
		all[10+i] = nap(fmt.Sprint("queued", i), 0)
	}
	f.push(all...)
	f.eventually(soon, "ten jobs run", func() bool { return len(f.events("start")) == 11 })
	f.eventually(soon, "its workers say so", func() bool {
		return len(f.redis.List(t, "KEYS", fmt.Sprintf("resque:worker:*.go:%d-*:work", victim.pid))) == 10
	})

	killed := time.Now()
	victim.kill()
	f.eventually(recovery, "all jobs are in the queue", func() bool { return len(f.queue()) == len(all) })
	t.Logf("back in the queue after %.1f s", time.Since(killed).Seconds())
	if q := f.queue(); !slices.Equal(q, all) {
		t.Errorf("the queue holds %q", q)
	}
	f.eventually(soon, "nothing of the dead is left", func() bool {
		return len(f.left(witness)) == 0 && victim.id() == "" &&
			len(f.of(victim, "SMEMBERS", "resque:workers")) == 0 &&
			len(f.of(victim, "HKEYS", "resque:workers:heartbeat")) == 0
	})

	last := f.start("-concurrency=1")
	f.open()
	f.eventually(soon, "all run", func() bool { return len(f.events("end")) == 1+len(all) })
	// A job that was with a worker when its process died waits until Redis has written that it is on trial. One that was
	// reserved together with it may start meanwhile.
	var held, queued []string
	for _, id := range ids(f.events("start", last)) {
		if strings.HasPrefix(id, "Hold") {
			held = append(held, id)
		} else {
			queued = append(queued, id)
		}
	}
	for i, id := range held {
		if id != fmt.Sprintf("Hold%03d", i) {
			t.Errorf("those brought back ran in the order %q", held)
			break
		}
	}
	if !slices.IsSorted(queued) || len(held) != 10 || len(queued) != 5 {
		t.Errorf("they ran in the order %q, %q", held, queued)
	}
	last.stop()
	witness.stop()
	if n := f.stat("processed"); n != 1+len(all) {
		t.Errorf("stat:processed is %d, want %d", n, 1+len(all))
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// The jobs of a killed process run again in a survivor.
func TestKilledJobsRunElsewhere(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-concurrency=10")
	f.push(jobs("Hold", 10)...)
	f.eventually(soon, "ten jobs run", func() bool { return len(f.events("start")) == 10 })
	survivor := f.start("-concurrency=10")
	killed := time.Now()
	victim.kill()
	f.eventually(recovery, "they run in the survivor", func() bool { return len(f.events("start", survivor)) == 10 })
	t.Logf("running again after %.1f s", time.Since(killed).Seconds())
	f.open()
	f.eventually(soon, "they are counted", func() bool { return f.stat("processed") == 10 })
	f.buried()
	survivor.stop()
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// A process that starts when all others are dead takes their jobs as well: no process
// has to survive.
func TestKilledJobsRunInTheNextProcess(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	victim := f.start("-concurrency=3")
	f.push(jobs("Hold", 3)...)
	f.eventually(soon, "they run", func() bool { return len(f.events("start")) == 3 })
	victim.kill()
	f.open()
	next := f.start("-concurrency=3", "-queues=work")
	f.eventually(recovery, "they are done", func() bool { return f.stat("processed") == 3 })
	f.buried()
	next.stop()
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}
}

// Processes are killed at random instants under load, and started again. Every job
// is done and counted once; only those run twice that were in flight at a kill.
func TestKillsUnderLoad(t *testing.T) {
	t.Parallel()
	const (
		total     = 3000
		kills     = 15
		processes = 3
		period    = 14 * time.Second // so that what was recovered is killed again
	)
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("GOWORKER_CRASH_SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("GOWORKER_CRASH_SEED=%d", seed)
	random := rand.New(rand.NewPCG(seed, 1))

	f := newFleet(t)
	var alive []*process
	for range processes {
		alive = append(alive, f.start("-concurrency=4"))
	}
	pushed := 0
	push := func(n int) {
		var batch []string
		for range min(n, total-pushed) {
			batch = append(batch, nap(strconv.Itoa(pushed), random.IntN(6)))
			pushed++
		}
		if len(batch) > 0 {
			f.push(batch...)
		}
	}
	inFlight := make(map[string]bool) // at some kill
	began := time.Now()
	for k := range kills {
		next := began.Add(time.Duration(float64(period) * (float64(k) + random.Float64()) / kills))
		for time.Now().Before(next) {
			push(random.IntN(3))
			time.Sleep(time.Duration(random.IntN(20)) * time.Millisecond)
		}
		push(100)
		time.Sleep(time.Duration(random.IntN(10_000)) * time.Microsecond)
		n := random.IntN(len(alive))
		id := alive[n].id()
		alive[n].kill()
		for _, record := range f.redis.List(t, "HVALS", "resque:go:inflight:"+id) {
			_, args, _ := strings.Cut(record, `"args":["`)
			job, _, _ := strings.Cut(args, `"`)
			inFlight[job] = true
		}
		alive[n] = f.launch("-concurrency=4")
		f.eventually(soon, "it is back", func() bool { return alive[n].id() != "" })
	}
	push(total)
	last := time.Now()
	f.eventually(2*recovery, "all jobs are counted", func() bool { return f.stat("processed") >= total })
	t.Logf("%d kills with %d jobs in flight; done %.1f s after the last one", kills, len(inFlight), time.Since(last).Seconds())
	f.eventually(recovery, "nothing of the dead is left", func() bool {
		return len(f.left(alive...)) == 0 && f.redis.Int(t, "ZCARD", "resque:go:processes") == processes
	})
	for _, p := range alive {
		p.stop()
	}
	if keys := f.left(); len(keys) > 0 {
		t.Errorf("left behind: %q", keys)
	}

	if n := f.stat("processed"); n != total {
		t.Errorf("stat:processed is %d, want %d", n, total)
	}
	if n := f.stat("failed"); n != 0 {
		t.Errorf("stat:failed is %d, want 0: %q", n, f.redis.List(t, "LRANGE", "resque:failed", 0, 2))
	}
	starts, ends := counts(f.events("start")), counts(f.events("end"))
	twice := 0
	for i := range total {
		id := strconv.Itoa(i)
		if ends[id] == 0 {
			t.Errorf("job %s is lost", id)
		}
		if starts[id] > 1 {
			twice++
			if !inFlight[id] {
				t.Errorf("job %s ran %d times although no kill hit it", id, starts[id])
			}
		}
	}
	t.Logf("%d jobs ran more than once", twice)
}
