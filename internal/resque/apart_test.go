package resque

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// locking is a call of jobs with locks.
func locking(s Store, jobs ...lockedJob) *Bulk {
	b := new(Bulk)
	for _, j := range jobs {
		if err := b.PutRaw(j.Payload, j.place(), s.Unique(j.Lock)); err != nil {
			panic(err)
		}
	}
	return b
}

// fates says of each job "pushed", the id of the job that has its lock, or the key of which Redis refused a command.
func (b *Bulk) fates() []string {
	texts := b.reasons()
	for i := range texts {
		var held *Duplicate
		if _, err := b.Result(i); errors.As(err, &held) {
			texts[i] = held.ID
		}
	}
	return texts
}

// Jobs whose locks are free take two commands each, two for the call and three for each queue.
func TestLocksApart(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	jobs := []lockedJob{uniqueJob("a", 1, "low"), uniqueJob("b", 1, "high"), uniqueJob("c", 1, "low")}
	w.must(w.s.PushBulk(w.c, locking(w.s, uniqueJob("z", 1, "low")))) // Redis knows the script
	monitor := w.server.Monitor(t)
	b := locking(w.s, jobs...)
	w.must(w.s.PushBulk(w.c, b))
	var said []string
	for _, c := range monitor.Inner() {
		said = append(said, c[0])
	}
	w.same("commands", "EXISTS LLEN LLEN TIME HSET PEXPIRE HSET PEXPIRE HSET PEXPIRE SADD SADD RPUSH RPUSH", strings.Join(said, " "))
	w.same("jobs", []string{"pushed", "pushed", "pushed"}, b.fates())
	w.same("queues", []string{
		"low: " + string(uniqueJob("z", 1, "").Payload) + " " + string(jobs[0].Payload) + " " + string(jobs[2].Payload),
		"high: " + string(jobs[1].Payload),
	}, w.queues("low", "high"))
	names := w.server.List(t, "SMEMBERS", w.s.KeyOfQueues())
	slices.Sort(names)
	w.same("names", []string{"high", "low"}, names)
	for _, j := range jobs {
		for id, said := range w.locks(j.Name) {
			if h := parseHolder(id, said); h.ID != j.ID || h.hold != "done" || h.member != JobPrefix(j.Queue)+string(j.Payload) || h.seen != h.Since.UnixMilli() ||
				w.server.Int(t, "PTTL", w.s.KeyOfLock(j.Name)) < 3500_000 {
				t.Errorf("the lock of %s: %q", j.ID, said)
			}
		}
	}
}

// Whatever keeps one of several jobs with locks from its place, the others go to theirs, or none does, as without the short way.
func TestLocksApartOrNot(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	own, every := "resque:go:unique:", []string{"pushed", "pushed", "pushed"}
	for name, tt := range map[string]struct {
		before  func()
		jobs    [3]string // their locks
		one     bool      // queue, "low", for all
		fates   []string
		wrong   string // the error of the call
		waiting int    // jobs in the queues
		locked  int
	}{
		"free":                {jobs: [3]string{"a", "b", "c"}, fates: every, waiting: 3, locked: 3},
		"one is held":         {before: func() { w.taken(uniqueJob("b", 9, "low")) }, jobs: [3]string{"a", "b", "c"}, fates: []string{"pushed", "b9", "pushed"}, waiting: 3, locked: 3},
		"all are held":        {before: func() { w.taken(uniqueJob("a", 9, "low")) }, jobs: [3]string{"a", "a", "a"}, fates: []string{"a9", "a9", "a9"}, waiting: 1, locked: 1},
		"two share one":       {jobs: [3]string{"a", "b", "a"}, fates: []string{"pushed", "pushed", "a0"}, waiting: 2, locked: 2},
		"a lock is a text":    {before: func() { w.do("SET", own+"b", 1) }, jobs: [3]string{"a", "b", "c"}, fates: []string{"withheld", "withheld", "withheld"}, wrong: own + "b: WRONGTYPE", locked: 1},
		"a queue is a text":   {before: func() { w.do("SET", "resque:queue:high", 1) }, jobs: [3]string{"a", "b", "c"}, fates: []string{"withheld", "withheld", "withheld"}, wrong: "queue:high: WRONGTYPE"},
		"names are a text":    {before: func() { w.do("SET", "resque:queues", 1) }, jobs: [3]string{"a", "b", "c"}, fates: []string{"withheld", "withheld", "withheld"}, wrong: "queues: WRONGTYPE"},
		"no memory":           {before: func() { w.do("CONFIG", "SET", "maxmemory", 1) }, jobs: [3]string{"a", "b", "c"}, fates: []string{"withheld", "withheld", "withheld"}, wrong: own + "a: OOM"},
		"no EXPIRE":           {before: func() { w.do("ACL", "SETUSER", "default", "-pexpire") }, jobs: [3]string{"a", "b", "c"}, fates: []string{"withheld", "withheld", "withheld"}, wrong: own + "a: "},
		"no SADD":             {before: func() { w.do("ACL", "SETUSER", "default", "-sadd") }, jobs: [3]string{"a", "b", "c"}, fates: []string{"withheld", "withheld", "withheld"}, wrong: "queues: ", locked: 3},
		"no RPUSH":            {before: func() { w.do("ACL", "SETUSER", "default", "-rpush") }, jobs: [3]string{"a", "b", "c"}, fates: []string{"withheld", "withheld", "withheld"}, wrong: "queue:low: ", locked: 3},
		"the queue is a text": {before: func() { w.do("SET", "resque:queue:low", 1) }, one: true, jobs: [3]string{"a", "b", "c"}, fates: []string{"withheld", "withheld", "withheld"}, wrong: "queue:low: WRONGTYPE"},
		"no RPUSH to one":     {before: func() { w.do("ACL", "SETUSER", "default", "-rpush") }, one: true, jobs: [3]string{"a", "b", "c"}, fates: []string{"withheld", "withheld", "withheld"}, wrong: "queue:low: ", locked: 3},
		"no EXISTS":           {before: func() { w.do("ACL", "SETUSER", "default", "-exists") }, jobs: [3]string{"a", "b", "c"}, fates: every, waiting: 3, locked: 3},
	} {
		w.do("FLUSHALL")
		if tt.before != nil {
			tt.before()
		}
		var jobs []lockedJob
		for i, lock := range tt.jobs {
			queue := []string{"low", "high"}[i%2]
			if tt.one {
				queue = "low"
			}
			jobs = append(jobs, uniqueJob(lock, i, queue))
		}
		b := locking(w.s, jobs...)
		err := w.s.PushBulk(w.c, b)
		w.do("CONFIG", "SET", "maxmemory", 0)
		w.do("ACL", "SETUSER", "default", "+@all")
		if (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
			t.Errorf("%s: %v", name, err)
		}
		w.same(name+": jobs", tt.fates, b.fates())
		waiting, locked := 0, 0
		for _, queue := range []string{"low", "high"} {
			if n, err := redis.Int(w.c.Do("LLEN", w.s.KeyOfQueue(queue))); err == nil {
				waiting += n
			}
		}
		for _, lock := range []string{"a", "b", "c"} {
			locked += w.server.Int(t, "EXISTS", w.s.KeyOfLock(lock))
		}
		w.same(name+": waiting, locked", []int{tt.waiting, tt.locked}, []int{waiting, locked})
	}
}

// More jobs than one command takes, to more queues than one.
func TestManyLocksApart(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	var jobs []lockedJob
	want := map[string][]string{}
	for i := range 2503 {
		j := uniqueJob(fmt.Sprint("lock", i, "-"), i, []string{"low", "high", "low"}[i%3])
		jobs, want[j.Queue] = append(jobs, j), append(want[j.Queue], string(j.Payload))
	}
	b := locking(w.s, jobs...)
	w.must(w.s.PushBulk(w.c, b))
	w.same("low", want["low"], w.queue("low"))
	w.same("high", want["high"], w.queue("high"))
	w.same("not pushed", false, slices.ContainsFunc(b.fates(), func(f string) bool { return f != "pushed" }))
}

// Jobs that hold their locks otherwise, or for another time, go in one call too: four values each, and what groups have in common once.
// Jobs of one queue keep their order.
func TestLocksApartInGroups(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	var jobs []lockedJob
	var low []string
	for i := range 12 {
		j := uniqueJob(fmt.Sprint("lock", i, "-"), i, []string{"low", "high"}[i%2])
		switch {
		case i >= 8:
			j.Hold = HoldStart
		case i >= 4:
			j.Most = time.Minute
		}
		if jobs = append(jobs, j); i%2 == 0 {
			low = append(low, string(j.Payload))
		}
	}
	b := locking(w.s, jobs...)
	n := b.groupLocks()
	args, _ := w.s.lockArgs(b, n)
	w.same("jobs, groups, values", []int{12, 6, 6 + 4*12 + 7*6}, []int{n, len(b.locks), len(args)})
	b = locking(w.s, jobs...)
	w.must(w.s.PushBulk(w.c, b))
	w.same("not pushed", false, slices.ContainsFunc(b.fates(), func(f string) bool { return f != "pushed" }))
	w.same("low", low, w.queue("low"))
	for _, j := range jobs {
		stays := time.Duration(w.server.Int(t, "PTTL", w.s.KeyOfLock(j.Name))) * time.Millisecond
		for id, said := range w.locks(j.Name) {
			if h := parseHolder(id, said); h.ID != j.ID || h.hold != string(j.Hold) || h.member != JobPrefix(j.Queue)+string(j.Payload) || stays > j.Most || stays < j.Most-30*time.Second {
				t.Errorf("the lock of %s stays for %s: %q", j.ID, stays, said)
			}
		}
	}

	w.do("FLUSHALL")
	w.taken(uniqueJob("lock8-", 99, "high"))
	b = locking(w.s, jobs...)
	w.must(w.s.PushBulk(w.c, b))
	want := slices.Repeat([]string{"pushed"}, 12)
	want[8] = "lock8-99"
	w.same("one is held", want, b.fates())
	w.same("refusals", "1 lock8-99", w.server.Text(t, "GET", w.s.refusals("lock8-")))
}
