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
		full  bool // what is unusual goes the long way
	}{
		{"nothing special", func(*wire, *proc) {}, false},
		{"the queue is nearly empty", func(w *wire, _ *proc) { w.do("LTRIM", w.s.KeyOfQueue("a"), 0, 0) }, false},
		{"the queue is empty", func(w *wire, _ *proc) { w.do("DEL", w.s.KeyOfQueue("a")) }, false},
		{"the queue has another type", func(w *wire, _ *proc) { w.spoil(w.s.KeyOfQueue("a")) }, false},
		{"the total has another type", func(w *wire, _ *proc) { w.spoil(w.s.stat("processed")) }, false},
		{"both have another type", func(w *wire, _ *proc) { w.spoil(w.s.KeyOfQueue("a")); w.spoil(w.s.stat("processed")) }, false},
		{"a ticket is missing", func(w *wire, _ *proc) { w.do("HDEL", w.s.inflight("p"), 101) }, false},
		{"the record was removed", func(w *wire, _ *proc) { w.do("DEL", w.s.inflight("p")) }, false},
		{"the record has another type", func(w *wire, _ *proc) { w.spoil(w.s.inflight("p")) }, false},
		{"jobs were found in dead processes", func(w *wire, _ *proc) { w.do("HSET", w.s.recovered(), "digest", "1 1") }, true},
		{"the fleet is paused", func(w *wire, _ *proc) { w.do("SET", w.s.pauseAll(), "true") }, true},
		{"the process is fenced", func(_ *wire, m *proc) { m.die() }, true},
		{"the process is fenced, and the tombstone gone", func(w *wire, m *proc) { m.die(); w.do("DEL", w.s.reaped("p")) }, true},
		{"the lease is gone", func(w *wire, _ *proc) { w.do("ZREM", w.s.processes(), "p") }, true},
		{"the epoch is newer", func(w *wire, _ *proc) { w.do("HINCRBY", w.s.process("p"), "epoch", 1) }, true},
		{"the process record is gone", func(w *wire, _ *proc) { w.do("DEL", w.s.process("p")) }, true},
		{"Redis is full", func(w *wire, _ *proc) {
			w.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			w.do("CONFIG", "SET", "maxmemory", "1")
		}, false},
	}
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			for _, n := range []int{1, 2, 3, 15, 64, 65, 200} {
				type outcome struct {
					Out    Exchanged
					Err    string
					Record []string
					Queue  []string
					Stats  string
				}
				var outcomes [2]outcome
				for way := range outcomes {
					w := newWire(t)
					w.push("a", names("a", 500)...)
					m := w.enter("p")
					m.last = 99
					jobs := m.reserve(max(n, 16), "a")
					state.upset(w, m)
					b := &w.s.exchangeKeys("p").briefs
					if way == 1 {
						b.rest.Store(1)
					}
					out, err := m.try(Exchange{Want: n, Asks: []Ask{{"a", n}}, Done: tickets(jobs[:n]...)})
					if state.full != (b.rest.Load() == detour) && way == 0 {
						t.Errorf("%d jobs: the short way was refused: %v", n, !state.full)
					}
					o := outcome{Out: out}
					if err != nil {
						o.Err, _, _ = strings.Cut(err.Error(), " script:")
					}
					if w.server.Text(t, "TYPE", w.s.inflight("p")) != "string" {
						o.Record = sorted(w.record("p"))
					}
					if w.server.Text(t, "TYPE", w.s.KeyOfQueue("a")) != "string" {
						o.Queue = w.queue("a")
					}
					if w.server.Text(t, "TYPE", w.s.stat("processed")) == "string" {
						o.Stats = fmt.Sprint(w.stats())
					}
					outcomes[way] = o
				}
				if diff := cmp.Diff(outcomes[1], outcomes[0]); diff != "" {
					t.Errorf("%d jobs (-long way +short way):\n%s", n, diff)
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
		if b.pops.Load() == popsAtOnce {
			way = "short"
		}
		jobs = m.turn(Exchange{Want: 200, Asks: asks("a"), Done: tickets(jobs...)}).Jobs
		got = append(got, fmt.Sprint(len(jobs), " ", way))
	}
	w.same("jobs an exchange, by which way", []string{"64 short", "64 short", "64 short", "18 short", "0 long", "0 long"}, got)
	w.same("record", 0, len(w.record("p")))
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
	if most > MaxExchangeBytes>>20+1 {
		t.Errorf("an exchange took %d jobs of a MiB", most)
	}
}
