package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// An exchange in its usual form has the same outcome by the short way, in whatever state Redis is.
func TestBriefExchange(t *testing.T) {
	t.Parallel()
	states := []struct {
		name  string
		upset func(w *wire, m *proc)
		full  string // what is unusual goes the long way: from both short ones, or from briefqueues.lua only
	}{
		{"nothing special", func(*wire, *proc) {}, ""},
		{"the queue is nearly empty", func(w *wire, _ *proc) { w.do("LTRIM", w.s.KeyOfQueue("a"), 0, 0) }, ""},
		{"the queue is empty", func(w *wire, _ *proc) { w.do("DEL", w.s.KeyOfQueue("a")) }, ""},
		{"the queue has another type", func(w *wire, _ *proc) { w.spoil(w.s.KeyOfQueue("a")) }, ""},
		{"the total has another type", func(w *wire, _ *proc) { w.spoil(w.s.stat("processed")) }, ""},
		{"both have another type", func(w *wire, _ *proc) { w.spoil(w.s.KeyOfQueue("a")); w.spoil(w.s.stat("processed")) }, ""},
		{"a ticket is missing", func(w *wire, _ *proc) { w.do("HDEL", w.s.inflight("p"), 101) }, ""},
		{"a lock is gone", func(w *wire, _ *proc) { w.do("DEL", w.s.KeyOfLock("lock 100")) }, ""},
		{"another job has the lock", func(w *wire, _ *proc) { w.do("HSET", w.s.KeyOfLock("lock 101"), "other", "running") }, ""},
		{"a lock has another type", func(w *wire, _ *proc) { w.spoil(w.s.KeyOfLock("lock 101")) }, ""},
		{"a ticket is missing, and its lock has another type", func(w *wire, _ *proc) {
			w.do("HDEL", w.s.inflight("p"), 100)
			w.spoil(w.s.KeyOfLock("lock 100"))
		}, ""},
		{"all locks and the total have another type", func(w *wire, _ *proc) {
			for ticket := range 250 {
				w.spoil(w.s.KeyOfLock(fmt.Sprint("lock ", ticket)))
			}
			w.spoil(w.s.stat("processed"))
		}, ""},
		{"the record was removed", func(w *wire, _ *proc) { w.do("DEL", w.s.inflight("p")) }, "briefqueues"},
		{"the record was removed, and the locks have another type", func(w *wire, _ *proc) {
			w.do("DEL", w.s.inflight("p"))
			for ticket := range 250 {
				w.spoil(w.s.KeyOfLock(fmt.Sprint("lock ", ticket)))
			}
		}, "briefqueues"},
		{"another queue is empty, and a third one of another type", func(w *wire, _ *proc) { w.do("DEL", w.s.KeyOfQueue("b")); w.spoil(w.s.KeyOfQueue("c")) }, ""},
		{"all queues have another type", func(w *wire, _ *proc) {
			for _, queue := range []string{"a", "b", "c"} {
				w.spoil(w.s.KeyOfQueue(queue))
			}
		}, ""},
		{"the record has another type", func(w *wire, _ *proc) { w.spoil(w.s.inflight("p")) }, ""},
		{"jobs were found in dead processes", func(w *wire, _ *proc) { w.do("HSET", w.s.recovered(), "digest", "1 1") }, "both"},
		{"the fleet is paused", func(w *wire, _ *proc) { w.do("SET", w.s.pauseAll(), "true") }, "both"},
		{"the process is fenced", func(_ *wire, m *proc) { m.die() }, "both"},
		{"the process is fenced, and the tombstone gone", func(w *wire, m *proc) { m.die(); w.do("DEL", w.s.reaped("p")) }, "both"},
		{"the lease is gone", func(w *wire, _ *proc) { w.do("ZREM", w.s.processes(), "p") }, "both"},
		{"the epoch is newer", func(w *wire, _ *proc) { w.do("HINCRBY", w.s.process("p"), "epoch", 1) }, "both"},
		{"the process record is gone", func(w *wire, _ *proc) { w.do("DEL", w.s.process("p")) }, "both"},
		{"Redis is a replica", func(w *wire, _ *proc) { w.do("REPLICAOF", "127.0.0.1", 1) }, ""},
		{"Redis lacks its replicas", func(w *wire, _ *proc) { w.do("CONFIG", "SET", "min-replicas-to-write", 1) }, ""},
		{"Redis is full", func(w *wire, _ *proc) {
			w.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			w.do("CONFIG", "SET", "maxmemory", "1")
		}, ""},
	}
	full, two, three := []Ask{{"a", 200}}, []Ask{{"b", 3}, {"a", 1}}, []Ask{{"c", 1}, {"b", 0}, {"a", 200}}
	sizes := []struct {
		done, locks, want int
		asks              []Ask
		arm               bool
		way               *Script
	}{
		{1, 0, 1, full, false, briefScript},
		{2, 0, 2, full, false, briefScript},
		{3, 0, 3, full, false, briefScript},
		{15, 0, 15, full, false, briefScript},
		{64, 0, 64, full, false, briefScript},
		{65, 0, 65, full, false, briefScript},
		{200, 0, 200, full, false, briefScript},
		{1, 1, 1, full, false, briefScript},
		{2, 1, 2, full, false, briefScript},
		{2, 2, 2, full, false, briefScript},
		{3, 3, 3, full, false, briefScript},
		{32, 2, 32, full, false, briefScript},
		{65, 65, 65, full, false, briefScript},
		{200, 190, 200, full, false, briefScript},
		{0, 0, 1, full, true, briefQueuesScript},
		{0, 0, 200, full, false, briefQueuesScript},
		{1, 0, 0, nil, false, briefQueuesScript},
		{200, 0, 0, nil, false, briefQueuesScript},
		{2, 1, 0, nil, false, briefQueuesScript},
		{1, 0, 2, full, true, briefQueuesScript},
		{1, 1, 200, full, false, briefQueuesScript},
		{1, 0, 1, two, false, briefQueuesScript},
		{3, 2, 6, two, true, briefQueuesScript},
		{40, 0, 40, two, true, briefQueuesScript},
		{0, 0, 2, three, true, briefQueuesScript},
		{200, 35, 200, three, true, briefQueuesScript},
	}
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			for _, size := range sizes {
				n := size.done
				type outcome struct {
					Out    Exchanged
					Err    string
					Record []string
					Queues map[string][]string
					Locks  []string
					Stats  string
				}
				var outcomes [2]outcome
				for way := range outcomes {
					w := newWire(t)
					w.push("a", names("a", 500)...)
					w.push("b", names("b", 5)...)
					w.push("c", names("c", 100)...)
					m := w.enter("p")
					m.last = 99
					jobs := m.reserve(max(n, 16), "a")
					done, ended := jobs[:n-size.locks], []Ended(nil)
					for _, j := range jobs[len(done):n] {
						lock, id := fmt.Sprint("lock ", j.Ticket), fmt.Sprint("id ", j.Ticket)
						w.do("HSET", w.s.KeyOfLock(lock), id, "running")
						ended = append(ended, Ended{Ticket: j.Ticket, Counts: CountsDone, Effects: w.s.Released(lock, id)})
					}
					state.upset(w, m)
					b := &w.s.exchangeKeys("p").briefs
					if way == 1 {
						b.rest = 1
					}
					x := Exchange{Want: size.want, Asks: size.asks, Arm: size.arm, Done: tickets(done...), Ended: ended, Process: "p"}
					if got := w.s.briefly(&x); way == 0 && got != size.way {
						t.Fatalf("%v jobs go by another way", size)
					} else if way == 1 {
						b.rest = 1
					}
					if _, err := m.c.Do("CLIENT", "TRACKING", "ON", "OPTIN"); err != nil {
						t.Fatal(err)
					}
					out, err := m.try(x)
					full := state.full == "both" || state.full == "briefqueues" && size.way == briefQueuesScript
					if full != (b.rest == detour) && way == 0 {
						t.Errorf("%v jobs: the short way was refused: %v", size, !full)
					}
					slices.Sort(out.Empty)
					o := outcome{Out: out, Queues: make(map[string][]string)}
					if err != nil {
						o.Err, _, _ = strings.Cut(err.Error(), " script:")
					}
					if w.server.Text(t, "TYPE", w.s.inflight("p")) != "string" {
						o.Record = sorted(w.record("p"))
					}
					for _, queue := range []string{"a", "b", "c"} {
						if w.server.Text(t, "TYPE", w.s.KeyOfQueue(queue)) != "string" {
							o.Queues[queue] = w.queue(queue)
						}
					}
					if w.server.Text(t, "TYPE", w.s.stat("processed")) == "string" {
						o.Stats = fmt.Sprint(w.stats())
					}
					for _, j := range jobs {
						key := w.s.KeyOfLock(fmt.Sprint("lock ", j.Ticket))
						if w.server.Text(t, "TYPE", key) == "hash" {
							o.Locks = append(o.Locks, fmt.Sprint(key, w.hash(key)))
						}
					}
					outcomes[way] = o
				}
				if diff := cmp.Diff(outcomes[1], outcomes[0]); diff != "" {
					t.Errorf("%v jobs (-long way +short way):\n%s", size, diff)
				}
			}
		})
	}
}

// The short way takes no more bytes at once than the long one, and only where the jobs before were small enough for that.
func TestBriefExchangeLimits(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("a", names("a", 16)...)
	w.push("a", slices.Repeat([]string{strings.Repeat("m", MaxExchangeBytes/popsAtOnce)}, 200)...)
	w.push("a", slices.Repeat([]string{strings.Repeat("m", 1<<20)}, 10)...)
	m := w.enter("p")
	m.last = 99
	jobs := m.reserve(16, "a")
	var got []string
	for range 6 {
		b := &w.s.exchangeKeys("p").briefs
		way := "long"
		if b.of(w.s, "a").pops == popsAtOnce {
			way = "short"
		}
		jobs = m.turn(Exchange{Want: 200, Asks: asks("a"), Done: tickets(jobs...)}).Jobs
		got = append(got, fmt.Sprint(len(jobs), " ", way))
	}
	w.same("jobs an exchange, by which way", []string{"64 short", "64 short", "64 short", "18 short", "0 long", "0 long"}, got)
	w.same("record", 0, len(w.record("p")))

	w.push("a", slices.Repeat([]string{strings.Repeat("m", MaxExchangeBytes/popsAtOnce*9/10)}, 100)...)
	w.s.exchangeKeys("p").briefs.of(w.s, "a").pops = popsAtOnce
	w.s.exchangeKeys("p").briefs.came = 200
	out := m.turn(Exchange{Want: 200, Asks: asks("a"), Done: []int64{1}})
	w.same("jobs of nine tenths of that size", 72, len(out.Jobs))
}

// What comes into a queue that was found empty may be large.
func TestBriefExchangeOfAnEmptyQueue(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("a", names("a", 50)...)
	m := w.enter("p")
	w.same("small jobs", 50, len(m.turn(Exchange{Want: 64, Asks: asks("a")}).Jobs))
	w.push("a", slices.Repeat([]string{strings.Repeat("m", 1<<20)}, 50)...)
	w.same("jobs of a MiB", popsAgain, len(m.turn(Exchange{Want: 64, Asks: asks("a")}).Jobs))
}

// How large the jobs of one queue are says nothing of those of another.
func TestBriefExchangeOfAnotherQueue(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("a", names("a", 50)...)
	w.push("b", slices.Repeat([]string{strings.Repeat("m", 1<<20)}, 50)...)
	m := w.enter("p")
	m.last = 99
	jobs := m.reserve(16, "a")
	jobs = m.turn(Exchange{Want: 16, Asks: asks("a"), Done: tickets(jobs...)}).Jobs
	w.same("small jobs", 16, len(jobs))
	most := 0
	for range 3 {
		jobs = m.turn(Exchange{Want: 16, Asks: asks("b"), Done: tickets(jobs...)}).Jobs
		most = max(most, len(jobs))
	}
	w.push("a", names("a", 2)...)
	w.push("c", slices.Repeat([]string{strings.Repeat("m", 1<<20)}, 50)...)
	jobs = m.turn(Exchange{Want: 64, Asks: asks("a", "c"), Done: tickets(jobs...)}).Jobs
	w.same("small jobs", 20, len(slices.DeleteFunc(slices.Clone(jobs), func(j Reserved) bool { return j.Queue != "a" })))
	if most = max(most, len(jobs)-20); most > MaxExchangeBytes>>20+1 {
		t.Errorf("an exchange took %d jobs of a MiB", most)
	}
}
