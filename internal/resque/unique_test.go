package resque

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// lockedJob is a job that is to have a lock.
type lockedJob struct {
	Lock
	Payload []byte
}

// uniqueJob is the n-th job of a lock.
func uniqueJob(lock string, n int, queue string) lockedJob {
	id := fmt.Sprint(lock, n)
	return lockedJob{
		Lock:    Lock{Name: lock, ID: id, Hold: HoldDone, Most: time.Hour, Queue: queue},
		Payload: fmt.Appendf(nil, `{"class":"U","args":[],"id":"%s","unique":"%s"}`, id, LockField(HoldDone, lock, time.Hour)),
	}
}

// place is where the job goes.
func (j lockedJob) place() Place { return Place{Queue: j.Queue, At: j.At} }

// enqueueUnique enqueues a job, or returns the holder of its lock.
func (s Store) enqueueUnique(c redis.Conn, j lockedJob) (holder *Duplicate, replaced string, err error) {
	b := new(Bulk)
	if err := b.PutRaw(j.Payload, j.place(), s.Unique(j.Lock)); err != nil {
		return nil, "", err
	}
	if err := s.PushBulk(c, b); err != nil && !errors.Is(err, ErrFewReplicas) {
		return nil, "", err
	}
	replaced, err = b.Result(0)
	if errors.As(err, &holder) {
		err = nil
	}
	return holder, replaced, err
}

// enqueue returns the holder of the lock, "" if the job was taken, and the holder it replaced.
func (w *wire) enqueue(j lockedJob) (holder, replaced string) {
	w.t.Helper()
	h, replaced, err := w.s.enqueueUnique(w.c, j)
	w.must(err)
	if h == nil {
		return "", replaced
	}
	return h.ID, replaced
}

func (w *wire) refused(by string, j lockedJob) {
	w.t.Helper()
	if holder, replaced := w.enqueue(j); holder != by || replaced != "" {
		w.t.Errorf("%s: refused by %q, replaces %q; want it refused by %q", j.ID, holder, replaced, by)
	}
}

func (w *wire) taken(j lockedJob) {
	w.t.Helper()
	w.refused("", j)
}

// age makes a lock look as if its job was last seen that much longer ago.
func (w *wire) age(lock string, by time.Duration) {
	w.t.Helper()
	for id, said := range w.locks(lock) {
		h := parseHolder(id, said)
		parts := strings.SplitN(said, " ", 4)
		w.do("HSET", w.s.KeyOfLock(lock), id, fmt.Sprint(parts[0], " ", parts[1], " ", h.seen-by.Milliseconds(), " ", parts[3]))
	}
}

func (w *wire) locks(lock string) map[string]string {
	w.t.Helper()
	all, err := redis.StringMap(w.c.Do("HGETALL", w.s.KeyOfLock(lock)))
	w.must(err)
	return all
}

func TestUnique(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	first := uniqueJob("a", 1, "low")
	before := time.Now().Add(-time.Second)
	w.taken(first)
	w.same("low", []string{string(first.Payload)}, w.queue("low"))
	w.same("queues", []string{"low"}, w.server.List(t, "SMEMBERS", w.s.KeyOfQueues()))
	if ms := w.server.Int(t, "PTTL", w.s.KeyOfLock("a")); ms < 3500_000 || ms > 3600_000 {
		t.Errorf("the lock stays for %d ms", ms)
	}
	w.unchanged("a refused job", func() {
		defer w.do("DEL", w.s.refusals("a"))
		h, replaced, err := w.s.enqueueUnique(w.c, uniqueJob("a", 2, "high"))
		w.must(err)
		if h == nil || h.ID != "a1" || h.Queue != "low" || replaced != "" || h.Since.Before(before) || h.Since.After(time.Now()) {
			t.Errorf("refused by %+v, replaces %q", h, replaced)
		}
	})
	w.refused("a1", first) // also the same again
	w.taken(uniqueJob("b", 1, "low"))

	w.must(w.s.Unlock(w.c, "a", "a2")) // is not a2's
	w.refused("a1", uniqueJob("a", 3, "low"))
	w.must(w.s.Unlock(w.c, "a", "a1"))
	w.taken(uniqueJob("a", 4, "high"))
	w.same("queues", []string{`high: ` + string(uniqueJob("a", 4, "").Payload)}, w.queues("high"))

	later := uniqueJob("c", 1, "low")
	later.At = time.UnixMilli(4_000_000_000_123)
	w.taken(later)
	w.same("schedule", []string{"3:low" + string(later.Payload), "4000000000123"}, w.server.List(t, "ZRANGE", w.s.KeyOfSchedule(), 0, -1, "WITHSCORES"))
	w.refused("c1", uniqueJob("c", 2, "low"))
	stays := func() bool {
		return time.Now().UnixMilli()+int64(w.server.Int(t, "PTTL", w.s.KeyOfLock("c"))) > 4_000_003_500_000
	}
	if !stays() {
		t.Error("the lock ends before its job is due")
	}
	w.age("c", ProvenFor)
	w.refused("c1", uniqueJob("c", 2, "low"))
	if !stays() {
		t.Error("the lock ends before its job is due, once that was looked for")
	}
	w.age("c", ProvenFor)
	brief := uniqueJob("c", 2, "low")
	brief.Hold, brief.Most = HoldTime, time.Millisecond
	w.refused("c1", brief)
	if !stays() {
		t.Error("the lock ends when another would have")
	}
}

// A job that is never due has its lock all the same, and keeps it when it was looked for.
// No lock stays longer than a Duration: the embedded Redis counts in these.
func TestUniqueForEver(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	longest := time.Duration(math.MaxInt64).Milliseconds()
	for i, at := range []time.Time{time.Now().Add(math.MaxInt64 - time.Minute), time.Unix(LastSecond, 0), time.Unix(1<<60, 0)} {
		lock := string(rune('a' + i))
		never := uniqueJob(lock, 1, "low")
		never.At = at
		w.taken(never)
		for range 2 {
			w.refused(never.ID, uniqueJob(lock, 2, "low"))
			if ms := int64(w.server.Int(t, "PTTL", w.s.KeyOfLock(lock))); ms < longest-time.Hour.Milliseconds() || ms > longest {
				t.Errorf("%v: the lock stays for %d ms", at, ms)
			}
			w.age(lock, ProvenFor)
		}
	}
}

// A lock is believed for a while, and then only if its job is found somewhere.
func TestUniqueLooksForTheHolder(t *testing.T) {
	t.Parallel()
	first := uniqueJob("a", 1, "low")
	tests := []struct {
		name  string
		move  func(w *wire)
		stays bool
	}{
		{"in its queue", func(w *wire) { w.push("low", "other") }, true},
		{"reserved", func(w *wire) { w.enter("p").reserve(1, "low") }, true},
		{"reserved, its payload apart", func(w *wire) {
			w.enter("p").reserve(1, "low")
			w.do("HSET", w.s.inflight("p"), 1, "~3:low", "p1", first.Payload)
		}, true},
		{"reserved by one of several", func(w *wire) {
			w.enter("o")
			w.push("high", "x1", "x2")
			m := w.enter("p")
			m.reserve(3, "high", "low")
			w.enter("q")
		}, true},
		{"recovered", func(w *wire) {
			m := w.enter("p")
			m.reserve(1, "low")
			m.die()
			m.recover(3)
		}, true},
		{"in a dead process", func(w *wire) {
			m := w.enter("p")
			m.reserve(1, "low")
			m.die()
		}, true},
		{"waiting for its time", func(w *wire) {
			m := w.enter("p")
			jobs := m.reserve(1, "low")
			again := []byte(strings.Replace(string(first.Payload), "}", `,"attempt":2}`, 1))
			m.turn(Exchange{Ended: []Ended{{Ticket: jobs[0].Ticket, Effects: []Effect{
				w.s.LockMoved("a", "a1", time.Now(), time.Now(), time.Hour, "low", again),
				w.s.ScheduleAt(99, "low", again),
			}}}})
		}, true},
		{"taken by a Ruby worker", func(w *wire) { w.do("LPOP", w.s.KeyOfQueue("low")) }, false},
		{"dequeued", func(w *wire) { w.do("LREM", w.s.KeyOfQueue("low"), 0, first.Payload) }, false},
		{"gone with its queue", func(w *wire) { w.must(w.s.RemoveQueue(w.c, "low")) }, false},
		{"done without a word", func(w *wire) {
			m := w.enter("p")
			m.turn(Exchange{Done: tickets(m.reserve(1, "low")...)})
		}, false},
		{"a lock of another job", func(w *wire) { w.do("HSET", w.s.KeyOfLock("a"), "a1", "1") }, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.taken(first)
			tt.move(w)
			if len(w.locks("a")["a1"]) > 1 {
				w.refused("a1", uniqueJob("a", 2, "low"))
				w.age("a", ProvenFor)
			}
			if !tt.stays {
				w.taken(uniqueJob("a", 3, "low"))
				if locks := w.locks("a"); len(locks) != 1 || locks["a3"] == "" {
					t.Errorf("the lock is %v", locks)
				}
				return
			}
			for range 2 { // the second finds it where the first did
				w.refused("a1", uniqueJob("a", 3, "low"))
				monitor := w.server.Monitor(t)
				w.refused("a1", uniqueJob("a", 4, "low"))
				if n := len(monitor.Commands()); n != 1 {
					t.Errorf("a job just seen was looked for again: %d commands", n)
				}
				if w.server.Int(t, "PTTL", w.s.KeyOfLock("a")) < 1000 {
					t.Error("the lock has no end")
				}
				w.age("a", ProvenFor)
			}
		})
	}
}

// A process that comes into the fleet between two looks may have the job.
func TestUniqueLooksInNewProcesses(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.enter("o")
	w.taken(uniqueJob("a", 1, "low"))
	w.age("a", ProvenFor)
	other := w.server.Dial(t)
	m := &meddler{Conn: w.c, before: 3, meddle: func() { // EVALSHA, ZRANGE, and the look itself
		p := &proc{wire: &wire{t, w.server, other, w.s}, Process: someProcess("p"), epoch: 1}
		w.must(w.s.Enter(other, p.Process, lease, noon))
		p.reserve(1, "low")
	}}
	h, _, err := w.s.enqueueUnique(m, uniqueJob("a", 2, "low"))
	w.must(err)
	if h == nil || h.ID != "a1" {
		t.Errorf("the lock was taken from a job that runs: %+v", h)
	}
}

func TestUniqueForATime(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	j := func(n int) lockedJob {
		j := uniqueJob("a", n, "low")
		j.Hold, j.Most = HoldTime, time.Hour
		return j
	}
	w.taken(j(1))
	w.do("LPOP", w.s.KeyOfQueue("low"))
	w.age("a", time.Hour)
	w.refused("a1", j(2))
	if ms := w.server.Int(t, "PTTL", w.s.KeyOfLock("a")); ms <= 0 || ms > 3600_000 {
		t.Errorf("the lock stays for %d ms", ms)
	}
	w.do("PEXPIRE", w.s.KeyOfLock("a"), 1) // as an hour later
	redistest.Eventually(t, time.Minute, "the lock ends", func() bool { return w.server.Int(t, "EXISTS", w.s.KeyOfLock("a")) == 0 })
	w.taken(j(3))
}

func TestUniqueReplaces(t *testing.T) {
	t.Parallel()
	payload := func(n int) string { return string(uniqueJob("a", n, "").Payload) }
	tests := []struct {
		name      string
		due, next int64 // of the holder, and of the one that replaces it, in ms after a noon to come
		queue     string
		want      []string // low, high, schedule
	}{
		{"in its place", 0, 0, "low", []string{"low: x " + payload(2) + " y", "high:", "schedule:"}},
		{"in another queue", 0, 0, "high", []string{"low: x y", "high: " + payload(2), "schedule:"}},
		{"a later one by one now", 99, 0, "low", []string{"low: x y " + payload(2), "high:", "schedule:"}},
		{"one now by a later one", 0, 99, "low", []string{"low: x y", "high:", "schedule: 3:low" + payload(2) + " " + ms(99)}},
		{"a later one", 99, 100, "low", []string{"low: x y", "high:", "schedule: 3:low" + payload(2) + " " + ms(100)}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			first, second := uniqueJob("a", 1, "low"), uniqueJob("a", 2, tt.queue)
			first.At, second.At, second.Replace = at(tt.due), at(tt.next), true
			w.push("low", "x")
			w.taken(first)
			w.push("low", "y")
			if holder, replaced := w.enqueue(second); holder != "" || replaced != "a1" {
				t.Errorf("refused by %q, replaces %q", holder, replaced)
			}
			w.same("places", tt.want, append(w.queues("low", "high"),
				strings.TrimSpace("schedule: "+strings.Join(w.server.List(t, "ZRANGE", w.s.KeyOfSchedule(), 0, -1, "WITHSCORES"), " "))))
			if locks := w.locks("a"); len(locks) != 1 || locks["a2"] == "" {
				t.Errorf("the lock is %v", locks)
			}
			w.refused("a2", uniqueJob("a", 3, "low"))
		})
	}
}

// at is so many milliseconds after a noon to come; 0: now.
func at(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(4_000_000_000_000 + ms)
}

func ms(after int64) string { return fmt.Sprint(at(after).UnixMilli()) }

// A job that runs is not replaced, and one that is nowhere needs not be.
func TestUniqueReplacesOnlyWhatWaits(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	second := uniqueJob("a", 2, "low")
	second.Replace = true
	w.taken(uniqueJob("a", 1, "low"))
	m := w.enter("p")
	jobs := m.reserve(1, "low")
	for range 2 {
		w.do("DEL", w.s.refusals("a"))
		w.unchanged("a refused job", func() {
			w.refused("a1", second)
			w.do("DEL", w.s.refusals("a"))
		})
		w.age("a", ProvenFor)
		w.refused("a1", second)
	}
	m.turn(Exchange{Done: tickets(jobs...)})
	w.age("a", ProvenFor)
	w.taken(second)
}

// An id of the program's own may name the same job again and again.
func TestUniqueReplacesOneOfItsID(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	first := uniqueJob("a", 1, "low")
	w.taken(first)
	again := first
	again.Replace, again.Payload = true, []byte(strings.Replace(string(first.Payload), "[]", "[1]", 1))
	if holder, replaced := w.enqueue(again); holder != "" || replaced != "a1" {
		t.Errorf("refused by %q, replaces %q", holder, replaced)
	}
	w.same("low", []string{string(again.Payload)}, w.queue("low"))
	w.refused("a1", uniqueJob("a", 2, "low"))
}

// The lock of a job that is retried stays as long as it may, once more, and not into another's
// time. Where it had run out and another job has it, that keeps it as it is.
func TestUniqueMoves(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		meanwhile func(w *wire)
		stays     time.Duration
		holder    string
	}{
		"its own":          {func(*wire) {}, 3 * time.Hour, "a1"},
		"run out":          {func(w *wire) { w.do("DEL", w.s.KeyOfLock("a")) }, 3 * time.Hour, "a1"},
		"another's by now": {func(w *wire) { w.do("DEL", w.s.KeyOfLock("a")); w.taken(uniqueJob("a", 2, "high")) }, time.Hour, "a2"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			first := uniqueJob("a", 1, "low")
			w.taken(first)
			m := w.enter("p")
			job := m.reserve(1, "low")[0]
			test.meanwhile(w)
			w.do("CONFIG", "SET", "maxmemory", 1)
			at := time.Now().Add(2 * time.Hour)
			moved := w.s.LockMoved("a", "a1", time.Now(), at, time.Hour, "low", first.Payload)
			out := m.turn(Exchange{Ended: []Ended{{Ticket: job.Ticket, Counts: CountsDone, Effects: []Effect{moved, w.s.ScheduleAt(at.UnixMilli(), "low", first.Payload)}}}})
			if len(out.Refused) > 0 || len(w.record("p")) > 0 || w.server.Int(t, "ZCARD", w.s.KeyOfSchedule()) != 1 {
				t.Errorf("refused: %v, record: %v", out.Refused, w.record("p"))
			}
			if locks := w.locks("a"); len(locks) != 1 || locks[test.holder] == "" {
				t.Errorf("the lock is %v", locks)
			}
			if left := time.Duration(w.server.Int(t, "PTTL", w.s.KeyOfLock("a"))) * time.Millisecond; left > test.stays || left < test.stays-time.Minute {
				t.Errorf("the lock stays for %v, want %v", left, test.stays)
			}
			w.refused(test.holder, uniqueJob("a", 3, "low"))
		})
	}
}

// Each refused job counts once for the job that holds the lock, also one that is asked twice. The count ends with its holder, by itself, and
// where Redis refuses it the job is refused all the same.
func TestUniqueCountsRefusals(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	counts := func(want string) {
		t.Helper()
		locks, _, err := w.s.ScanLocks(w.c, "0")
		w.must(err)
		got := ""
		for _, l := range locks {
			got += fmt.Sprint(l.Name, " ", l.ID, " ", l.Refused, ";")
		}
		if got != want {
			t.Errorf("the locks have refused %q, want %q", got, want)
		}
	}
	w.taken(uniqueJob("a", 1, "low"))
	counts("a a1 0;")
	for range 2 {
		w.refused("a1", uniqueJob("a", 2, "low"))
	}
	if ms := w.server.Int(t, "PTTL", w.s.refusals("a")); ms < 3500_000 || ms > 3600_000 {
		t.Errorf("the count stays for %d ms", ms)
	}
	b := new(Bulk)
	for n := range 3 { // one call: none is written before all are proven, twice
		j := uniqueJob("a", 3+n, "low")
		if n == 2 {
			j = uniqueJob("b", 1, "low")
		}
		w.must(b.PutRaw(j.Payload, j.place(), w.s.Unique(j.Lock)))
	}
	w.must(w.s.PushBulk(w.c, b))
	w.age("a", ProvenFor)
	w.refused("a1", uniqueJob("a", 6, "low")) // it is looked for
	w.must(w.s.Unlock(w.c, "b", "b1"))
	counts("a a1 5;")

	m := w.enter("p")
	m.reserve(1, "low")
	second := uniqueJob("a", 7, "low")
	second.Replace = true
	w.refused("a1", second) // it runs
	counts("a a1 6;")
	w.do("CONFIG", "SET", "maxmemory", 1)
	w.refused("a1", uniqueJob("a", 8, "low"))
	w.do("CONFIG", "SET", "maxmemory", 0)
	counts("a a1 6;")

	w.must(w.s.Unlock(w.c, "a", "a1"))
	counts("")
	w.taken(uniqueJob("a", 9, "low"))
	counts("a a9 0;")
	w.refused("a9", uniqueJob("a", 10, "low"))
	counts("a a9 1;")
	for _, spoilt := range []func(){func() { w.do("SET", w.s.refusals("a"), "no count") }, func() { w.do("DEL", w.s.refusals("a")); w.do("RPUSH", w.s.refusals("a"), "x") }} {
		spoilt()
		counts("a a9 0;")
		w.refused("a9", uniqueJob("a", 11, "low"))
	}
	counts("a a9 1;") // SET replaces a value of any type
}

func TestUniqueOutOfMemory(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.taken(uniqueJob("a", 1, "low"))
	w.do("CONFIG", "SET", "maxmemory", 1)
	w.unchanged("a refused job", func() {
		if _, _, err := w.s.enqueueUnique(w.c, uniqueJob("b", 1, "low")); err == nil || !strings.Contains(err.Error(), "OOM") {
			t.Errorf("got %v", err)
		}
	})
	w.refused("a1", uniqueJob("a", 2, "low"))
	second := uniqueJob("a", 2, "high")
	second.Replace = true
	if holder, replaced := w.enqueue(second); holder != "" || replaced != "a1" {
		t.Errorf("refused by %q, replaces %q", holder, replaced)
	}
	w.same("queues", []string{"low:", "high: " + string(second.Payload)}, w.queues("low", "high"))
}

// Of many that enqueue at once one wins, round after round, and some locks are stale.
func TestUniqueRace(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for round := range 20 {
		var wins atomic.Int64
		var wg sync.WaitGroup
		for n := range 8 {
			c := w.server.Dial(t)
			wg.Go(func() {
				j := uniqueJob("a", 100*round+n, "low")
				j.Replace = round%3 == 2 && n%2 == 0
				h, _, err := w.s.enqueueUnique(c, j)
				if err != nil {
					t.Error(err)
				}
				if h == nil {
					wins.Add(1)
				}
			})
		}
		wg.Wait()
		jobs := w.queue("low")
		if len(jobs) != 1 || len(w.locks("a")) != 1 || wins.Load() < 1 || round%3 != 2 && wins.Load() != 1 {
			t.Fatalf("round %d: %d won; in the queue: %v; locks: %v", round, wins.Load(), jobs, w.locks("a"))
		}
		w.do("DEL", w.s.KeyOfQueue("low"))
		if round%2 == 0 {
			w.do("DEL", w.s.KeyOfLock("a"))
		}
		w.age("a", ProvenFor)
	}
}

// Looking through what is long is done seldom.
func TestUniqueRests(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 30000)...)
	for _, lock := range []string{"a", "b"} {
		w.taken(uniqueJob(lock, 1, "low"))
		w.age(lock, ProvenFor)
	}
	w.do("LPOP", w.s.KeyOfQueue("low"))
	w.refused("a1", uniqueJob("a", 2, "low"))
	if ms := w.server.Int(t, "PTTL", w.s.lockRest()); ms == -1 || ms > 30 {
		t.Errorf("a rest of %d ms", ms)
	}
	redistest.Eventually(t, 5*time.Second, "the rest is over", func() bool {
		return strings.Contains(w.server.Text(t, "INFO", "stats"), "\nexpired_keys:1\r")
	})
	w.do("SET", w.s.lockRest(), "1")
	w.do("RPOP", w.s.KeyOfQueue("low"))
	w.refused("b1", uniqueJob("b", 2, "low"))
	w.do("DEL", w.s.lockRest())
	w.taken(uniqueJob("b", 2, "low"))
}

func TestParseLock(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"done:abc": "done abc 0s", "done:abc:1500": "done abc 1.5s", "start:abc": "start abc 0s",
		"done:abc:": "done abc 0s", "done:abc:-1": "done abc 0s", "done:abc:x": "done abc 0s", "done:abc:9223372036855": "done abc 0s",
		"time:abc": "  0s", "done:": "  0s", "done::1": "  0s", "": "  0s", "done": "  0s", "x:y": "  0s",
	} {
		if hold, lock, most := ParseLock(text); fmt.Sprint(hold, " ", lock, " ", most) != want {
			t.Errorf("ParseLock(%q) = %q, %q, %v", text, hold, lock, most)
		}
	}
	for most, want := range map[time.Duration]string{0: "done:abc", 1500 * time.Millisecond: "done:abc:1500"} {
		if got := LockField(HoldDone, "abc", most); got != want {
			t.Errorf("LockField of %v = %q, want %q", most, got, want)
		}
	}
	names := []string{LockName([]byte("{}"), ""), LockName(nil, "{}"), LockName([]byte("{}"), "={}"), LockName(nil, "x")}
	slices.Sort(names)
	if len(slices.Compact(names)) != 4 {
		t.Errorf("equal names: %q", names)
	}
}
