package fleet

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/resque"
)

const job = `{"class":"C","args":[]}`

func TestReap(t *testing.T) {
	t.Parallel()
	b := setup(t)
	l := b.dead(process("dead"), job, job)
	b.start()
	b.eventually("the lease is renewed", func() bool { return b.called("held") })
	b.reaper.observe([]resque.Lease{{Process: "dead", Value: "7"}, {Process: "unknown", Value: "1"}}, 2, time.Now()) // it was renewed meanwhile
	b.reaper.observe([]resque.Lease{l}, 2, time.Now())
	b.eventually("it is found dead", func() bool { return b.log.count("a process was found dead") == 1 })
	if !b.called("died dead") || b.called("died unknown") {
		t.Error("the heir must learn of the dead process, and of no other")
	}
	if jobs := b.redis.List(t, "LRANGE", "resque:queue:work", 0, -1); !slices.Equal(jobs, []string{job, job}) {
		t.Errorf("in its queue are %q", jobs)
	}
	if n := b.redis.Int(t, "SCARD", "resque:workers"); n != 2 {
		t.Errorf("%d workers are registered, want the two of this process", n)
	}
	if n := b.log.count("requeued=2 failed=0 left=0"); n != 1 {
		t.Errorf("the log says so %d times", n)
	}
}

// A process may die while its workers or their queues change. All ids that its record covers go with it.
func TestReapWhileWorkersChange(t *testing.T) {
	t.Parallel()
	b := setup(t)
	dead := process("dead")
	b.dead(dead)
	next, err := dead.With(5, "work,mail")
	if err != nil || next.Concurrency != 5 || !slices.Equal(next.Former, []string{"work"}) {
		t.Fatalf("%+v, %v", next, err)
	}
	c := b.redis.Dial(t)
	if err := errors.Join(b.base.Store.Cover(c, next, next.WorkerID(0)), b.base.Store.Register(c, next.ID, next.WorkerIDs(), time.Now(), time.Now())); err != nil {
		t.Fatal(err)
	}
	if n := b.redis.Int(t, "SCARD", "resque:workers"); n != 10 {
		t.Errorf("%d workers are registered, want those of both lists", n)
	}
	if !errors.Is(b.base.Store.Cover(c, next, next.WorkerID(1)), resque.ErrTaken) {
		t.Error("a process takes up worker ids that are registered")
	}
	value := b.redis.Text(t, "ZSCORE", "resque:go:processes", "dead")
	if err := b.reaper.reap(c, resque.Lease{Process: "dead", Value: value}); err != nil {
		t.Fatal(err)
	}
	if keys := b.redis.List(t, "KEYS", "resque:worker*"); len(keys) > 0 {
		t.Errorf("left are %q", keys)
	}
}

// A process that has the dead one's worker ids keeps them.
func TestReapSharedWorkers(t *testing.T) {
	t.Parallel()
	b := setup(t)
	twin := process("twin")
	l := b.dead(twin)
	twin.ID = "again"
	b.redis.Do(t, "DEL", "resque:workers:heartbeat") // or its ids were taken
	b.dead(twin)
	if err := b.reaper.reap(b.redis.Dial(t), l); err != nil {
		t.Fatal(err)
	}
	if n := b.redis.Int(t, "SCARD", "resque:workers"); n != 2 || !b.called("died twin") {
		t.Errorf("%d workers are registered, want the two of the live process", n)
	}
}

// A record without a lease is given LeasePeriod to get one, while the scanner looks all the time.
func TestScan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.still = time.Now()
	b.dead(process("dead"), job)
	b.dead(process("alive"), job)
	b.redis.Do(t, "ZREM", "resque:go:processes", "dead")
	c := b.redis.Dial(t)
	s := b.reaper.scanner
	step := func(d time.Duration) {
		t.Helper()
		b.late.Add(int64(d))
		if err := s.scan(c); err != nil {
			t.Fatal(err)
		}
	}
	s.sweep()
	step(0)
	if !s.wanted() || s.sweeps.Load() || b.called("died") {
		t.Error("an orphan is to be looked at until it is dead")
	}
	step(3 * time.Second)
	step(3 * time.Second)
	step(renewalGap + time.Second) // a gap: the process may have had a lease meanwhile
	if b.called("died") || s.wanted() {
		t.Error("an orphan was reaped after a gap")
	}
	step(ScanEvery)
	step(3 * time.Second)
	step(3 * time.Second)
	if b.called("died") {
		t.Error("an orphan was reaped early")
	}
	step(3 * time.Second)
	if !b.called("died dead") || b.called("died alive") || s.wanted() {
		t.Error("want the orphan reaped and no other")
	}
	if n := b.redis.Int(t, "LLEN", "resque:queue:work"); n != 1 {
		t.Errorf("%d jobs are requeued", n)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.still = time.Now()
	b.dead(process("ours"))
	long := resque.HeartbeatAt(time.Now().Add(-time.Hour))
	b.redis.Do(t, "SADD", "resque:workers", "ruby:1:work", "silent:1:work")
	b.redis.Do(t, "HSET", "resque:workers:heartbeat", "ruby:1:work", long, "ours-0:work", long, "odd:1:work", "yesterday")
	b.redis.Do(t, "SET", "resque:pruning_dead_workers_in_progress", "other")
	p, c := &b.reaper.pruner, b.redis.Dial(t)
	prune := func() {
		t.Helper()
		if err := p.prune(c, "ours-0:work", b.Now()); err != nil {
			t.Fatal(err)
		}
	}
	prune()
	b.redis.Do(t, "DEL", "resque:pruning_dead_workers_in_progress")
	prune() // too soon
	workers := func() []string { w := b.redis.List(t, "SMEMBERS", "resque:workers"); slices.Sort(w); return w }
	if w := workers(); len(w) != 4 {
		t.Errorf("while another process prunes %q are left", w)
	}
	b.late.Add(int64(renewEvery))
	prune()
	if w := workers(); !slices.Equal(w, []string{"ours-0:work", "ours-1:work", "silent:1:work"}) {
		t.Errorf("left are %q", w)
	}
	if n := b.redis.Int(t, "EXISTS", "resque:pruning_dead_workers_in_progress"); n != 0 {
		t.Error("it kept Ruby's lock")
	}
	if b.log.count("reading the heartbeat of odd:1:work") != 1 || b.log.count("worker=ruby:1:work") != 1 {
		t.Error("the log must say once what was found")
	}
	b.redis.Do(t, "SADD", "resque:workers", "ruby:1:work")
	b.redis.Do(t, "HSET", "resque:workers:heartbeat", "ruby:1:work", long)
	b.late.Add(int64(pruneEvery - time.Second))
	prune()
	if w := workers(); len(w) != 4 {
		t.Errorf("within a minute it left %q", w)
	}
}

// A list that cannot be trimmed does not hold up the others, and a pass takes several turns.
func TestTrim(t *testing.T) {
	t.Parallel()
	b := setup(t, func(c *Config) { c.FailedMaxSize, c.MultiQueue = 3, true })
	c := b.redis.Dial(t)
	b.redis.Do(t, "SADD", "resque:failed_queues", "a_failed", "b_failed", "c_failed")
	args := redis.Args{}.Add("resque:a_failed")
	for range 60_000 {
		args = args.Add("x")
	}
	b.redis.Do(t, "RPUSH", args...)
	b.redis.Do(t, "SET", "resque:b_failed", "no list")
	b.redis.Do(t, "RPUSH", "resque:c_failed", "1", "2", "3", "4", "5")
	tr := &b.reaper.trimmer
	turns, refused := 0, 0
	for ; turns == 0 || len(tr.pass.lists) > 0; turns++ {
		if tr.trim(c) != nil {
			refused++
		}
	}
	if turns < 3 || refused != 1 {
		t.Errorf("%d turns, %d errors", turns, refused)
	}
	if n, left := b.redis.Int(t, "LLEN", "resque:a_failed"), b.redis.List(t, "LRANGE", "resque:c_failed", 0, -1); n != 3 || !slices.Equal(left, []string{"3", "4", "5"}) {
		t.Errorf("left are %d and %q", n, left)
	}
	if b.log.count("removed=59997 too_many=59997 too_old=0") != 1 || b.log.count("removed=2 ") != 1 {
		t.Error("the log does not say what was removed")
	}
	b.redis.Do(t, "RPUSH", "resque:c_failed", "6")
	if err := tr.trim(c); err != nil || b.redis.Int(t, "LLEN", "resque:c_failed") != 4 {
		t.Errorf("the next pass must wait a minute (%v)", err)
	}
}

// A trouble is logged once until it has ended.
func TestTroublesAreLoggedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, err := range []error{errLost, errShutdown, nil, errLost} {
		b.reaper.troubles.report("pruning", err)
	}
	if b.log.count("doing=pruning") != 2 || b.log.count("error=lost") != 2 {
		t.Error("want two lines")
	}
}
