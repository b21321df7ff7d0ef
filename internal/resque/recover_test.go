package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// Only a reaper that saw the present lease can fence a process.
func TestFenceCompares(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m := w.enter("p")
	observed := m.lease()
	if _, err := w.s.Renew(w.c, "p", 2*lease, gap, nil); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{observed, "", "-1", "0"} {
		w.unchanged("a fence by another value", func() {
			if fenced, err := w.s.Fence(w.c, "p", value); err != nil || fenced {
				t.Errorf("fenced by %q: %v, %v", value, fenced, err)
			}
		})
	}
	m.die()
	now, err := w.s.Now(w.c)
	w.must(err)
	if since := -(Lease{Value: m.lease()}).at(); since > now.UnixMilli() || since < now.Add(-time.Minute).UnixMilli() {
		t.Errorf("the lease %s does not say since when the process counts as dead; now it is %d", m.lease(), now.UnixMilli())
	}
	if ttl := w.server.Int(t, "TTL", w.s.reaped("p")); ttl < 86000 || ttl > 86400 {
		t.Errorf("the tombstone stands for %d s, want a day", ttl)
	}
	m.die() // again, after a reaper that was itself killed

	w.unchanged("a fence of a process that another reaper took", func() {
		if fenced, err := w.s.Fence(w.c, "taken", ""); err != nil || fenced {
			t.Errorf("neither record nor lease: %v, %v", fenced, err)
		}
	})
	for i, record := range []string{w.s.process("no lease 0"), w.s.inflight("no lease 1")} {
		w.do("HSET", record, "a", "b")
		if fenced, err := w.s.Fence(w.c, fmt.Sprint("no lease ", i), ""); err != nil || !fenced {
			t.Errorf("a record without a lease: %v, %v", fenced, err)
		}
	}
}

func TestRecoverNeedsFence(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1")
	w.do("HSET", w.s.recovered(), Digest([]byte("l1")), fmt.Sprintf("3 %d q 2 0", noon.UnixMilli()))
	m := w.enter("p")
	m.turn(Exchange{Want: 1, Asks: asks("low"), Handed: "1 *1"})
	for _, lose := range []func(){func() {}, func() { w.do("ZREM", w.s.processes(), "p") }} {
		lose()
		w.unchanged("recovering without a fence", func() {
			w.same("recovered", Recovered{}, m.recover(3))
		})
	}
}

// Jobs come back to the heads of their queues in their old order.
func TestRecoverOrder(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 500)...)
	w.push("high", names("h", 20)...)
	m := w.enter("p")
	m.reserve(10, "high")
	first := m.reserve(300, "low")
	m.turn(Exchange{Want: 12, Asks: []Ask{{"low", 5}, {"high", 5}}}) // and two more of low
	m.reserve(100, "low")
	m.turn(Exchange{Done: tickets(first[0], first[299])})
	m.die()
	w.same("recovered", Recovered{Requeued: 420}, m.recover(3))
	w.same("high", names("h", 20), w.queue("high"))
	w.same("low", slices.DeleteFunc(names("l", 500), func(s string) bool { return s == "l1" || s == "l300" }), w.queue("low"))
	left, err := w.s.Leave(w.c, "p")
	w.must(err)
	w.same("left", 0, left)
}

// A reaper may be killed between two pieces. The next one continues: no job is
// lost, doubled or counted twice, and the order stays.
func TestRecoverKilledBetweenPieces(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 9)...)
	w.push("high", "h1", "h2")
	m := w.enter("p")
	m.turn(Exchange{Want: 8, Asks: []Ask{{"low", 4}, {"high", 2}}, Handed: "8"})
	m.die()
	r, err := w.s.recovery(w.c, m.Process, 3, noon, parseHanded("8"))
	w.must(err)
	r.end = deadEnds(w.s, false, noon)
	var total Recovered
	w.must(r.move(w.c, []int64{8, 7, 6}, &total))
	w.same("first piece", Recovered{Requeued: 3, Back: map[string]int{"low": 1, "high": 2}}, total)
	w.same("queues after it", []string{"low: l6 l7 l8 l9", "high: h1 h2"}, w.queues("low", "high"))

	w.must(r.move(w.c, []int64{8, 7, 6}, &total)) // by another reaper, which had read the record earlier
	w.same("the piece again", Recovered{Requeued: 3, Back: map[string]int{"low": 1, "high": 2}}, total)
	w.same("the rest", Recovered{Requeued: 5}, m.recover(3))
	w.same("queues", []string{"low: l1 l2 l3 l4 l5 l6 l7 l8 l9", "high: h1 h2"}, w.queues("low", "high"))
	for _, text := range append(names("l", 6), names("h", 2)...) {
		w.same("deaths of "+text, 1, w.deaths(text))
	}
}

func (w *wire) deaths(payload string) int {
	w.t.Helper()
	d, err := w.s.Deaths(w.c, []string{Digest([]byte(payload))}, noon)
	w.must(err)
	return d[0].Count
}

// A commit of a process that counts as dead, while its jobs are moved, counts if the
// ticket is still in its record, and otherwise not.
func TestCommitDuringRecovery(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 4)...)
	m := w.enter("p")
	jobs := m.reserve(4, "low")
	m.die()
	r, err := w.s.recovery(w.c, m.Process, 0, noon, HandedOut{})
	w.must(err)
	r.end = deadEnds(w.s, false, noon)
	var total Recovered
	w.must(r.move(w.c, []int64{4, 3}, &total))
	out := m.turn(Exchange{Done: tickets(jobs[0], jobs[2]), Ended: failed(jobs[1], jobs[3])})
	w.same("missing", 2, out.Missing)
	w.same("recovered", Recovered{}, m.recover(3))
	w.same("queue", []string{"l3", "l4"}, w.queue("low"))
	w.same("failed", []string{"l2"}, w.failedPayloads(w.s.failed()))
	w.same("stats", [2]int{2, 1}, w.stats())
}

// A queue that refuses its jobs keeps only its own back.
func TestRecoverWrongType(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1", "l2")
	w.push("high", "h1", "h2")
	m := w.enter("p")
	m.reserve(4, "low", "high")
	w.spoil(w.s.KeyOfQueue("low"))
	w.spoil(w.s.KeyOfQueues())
	m.die()
	got, back := m.recoverBack(3)
	w.same("requeued", 2, got.Requeued)
	w.same("back", map[string]int{"high": 2}, back)
	for key, want := range map[string]int{"resque:queue:low: WRONGTYPE": 2, "resque:queues: WRONGTYPE": 2} {
		said := slices.DeleteFunc(slices.Clone(got.Refused), func(err error) bool { return !strings.Contains(err.Error(), key) })
		w.same(key, want, len(said))
	}
	w.same("high", []string{"h1", "h2"}, w.queue("high"))
	w.same("record", []string{"1 low l1", "2 low l2"}, w.record("p"))
	if left, err := w.s.Leave(w.c, "p"); err != nil || left != 2 {
		t.Errorf("the process left with jobs in its record: %d, %v", left, err)
	}
	w.do("DEL", w.s.KeyOfQueue("low"), w.s.KeyOfQueues())
	got, back = m.recoverBack(3)
	w.same("later", Recovered{Requeued: 2}, got)
	w.same("back later", map[string]int{"low": 2}, back)
	w.same("low", []string{"l1", "l2"}, w.queue("low"))
	w.same("queues", []string{"low"}, w.server.List(t, "SMEMBERS", w.s.KeyOfQueues()))
}

// Failures that cannot be filed are not counted as filed.
func TestRecoverWrongTypeFailures(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1", "l2")
	m := w.enter("p")
	m.turn(Exchange{Want: 2, Asks: asks("low"), Handed: "2"})
	w.do("HSET", w.s.recovered(), Digest([]byte("l2")), fmt.Sprintf("3 %d q 2 0", noon.UnixMilli()))
	w.spoil(w.s.failed())
	m.die()
	got := m.recover(3)
	w.same("what became of the jobs", [3]int{1, 0, 1}, [3]int{got.Requeued, got.Failed, len(got.Refused)})
	w.same("record", []string{"2 low l2"}, w.record("p"))
}

func TestStrays(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.s = New("a[b]*?\\c:")
	other := New("abxx\\c:")
	want := names("p", 50)
	for _, p := range want {
		w.do("HSET", w.s.inflight(p), 1, "3:low{}")
		w.do("HSET", other.inflight(p+" of another namespace"), 1, "3:low{}")
	}
	w.do("HSET", w.s.process("idle"), "epoch", 1)
	w.do("HSET", w.s.process("p1"), "epoch", 1)
	w.do("HSET", w.s.recovered(), "digest", "1 2 p1")
	w.do("SET", w.s.reaped("late"), 1)
	want = append(want, "idle")
	var got []string
	for cursor, pages := uint64(0), 0; pages == 0 || cursor != 0; pages++ {
		found, next, err := w.s.Strays(w.c, cursor)
		w.must(err)
		got, cursor = append(got, found.Processes...), next
	}
	w.same("orphans", sorted(want), slices.Compact(sorted(got)))

	p := Process{ID: "p1"}
	if fenced, err := w.s.Fence(w.c, "p1", ""); err != nil || !fenced {
		t.Fatalf("fenced %v, %v", fenced, err)
	}
	recovered, err := w.s.Recover(w.c, p, 3, noon, deadEnds(w.s, false, noon))
	w.must(err)
	w.same("recovered", Recovered{Requeued: 1, Back: map[string]int{"low": 1}}, recovered)
	w.same("queue", []string{"{}"}, w.queue("low"))
	_, err = w.s.Leave(w.c, "p1")
	w.must(err)
	w.same("its record", 0, w.server.Int(t, "EXISTS", w.s.inflight("p1")))
}
