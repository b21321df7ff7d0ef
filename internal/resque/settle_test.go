package resque

import (
	"errors"
	"strings"
	"testing"
)

// settlements are outcomes of the three jobs: one waits, one goes to the tail, one failed.
func settlements(s Store, jobs []Reserved, multi bool) []Settled {
	return []Settled{
		{Ticket: jobs[0].Ticket, Counts: CountsDone, Effects: []Effect{s.ScheduleAt(1_900_000_000_123, "low", []byte("l1 again"))}},
		{Ticket: jobs[1].Ticket, Counts: CountsNothing, Effects: s.PushTail("low", jobs[1].Payload)},
		{Ticket: jobs[2].Ticket, Counts: CountsFailed, Effects: s.FileFailure("low", failedJob(jobs[2]).Record, multi)},
	}
}

func TestSettle(t *testing.T) {
	t.Parallel()
	for _, flushed := range []bool{false, true} {
		w := newWire(t)
		w.push("low", names("l", 5)...)
		m := w.enter("p")
		jobs := m.reserve(4, "low")
		if flushed {
			w.do("SCRIPT", "FLUSH")
		}
		out := m.turn(Exchange{Settled: settlements(w.s, jobs, false), Done: tickets(jobs[3]), Want: 1, Asks: asks("low")})
		if out.Missing != 0 || len(out.Broken) != 0 {
			t.Errorf("missing %d, broken %v", out.Missing, out.Broken)
		}
		w.same("schedule", []string{"3:lowl1 again", "1900000000123"}, w.server.List(t, "ZRANGE", w.s.schedule(), 0, -1, "WITHSCORES"))
		w.same("failed", "l3", strings.Join(w.failedPayloads(w.s.failed()), " "))
		w.same("stats", [2]int{3, 1}, w.stats())
		w.same("record", []string{"5 low l5"}, w.record("p"))
		w.same("queue", []string{"l2"}, w.queue("low"))
	}
}

// As a failure's record is: an effect happens if Redis lost the record, not if it was reaped.
func TestSettleWithoutRecord(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		reaped bool
		tail   []string
		stats  [2]int
	}{
		{"lost", false, []string{"l2"}, [2]int{2, 1}},
		{"reaped", true, []string{}, [2]int{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", names("l", 3)...)
			m := w.enter("p")
			jobs := m.reserve(3, "low")
			w.do("DEL", w.s.inflight("p"))
			if tt.reaped {
				w.do("SET", w.s.reaped("p"), "1")
			}
			out := m.turn(Exchange{Settled: settlements(w.s, jobs, false)})
			w.same("missing", 3, out.Missing)
			w.same("queue", tt.tail, w.queue("low"))
			w.same("stats", tt.stats, w.stats())
		})
	}
}

func TestSettleLate(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 3)...)
	m := w.enter("p")
	jobs := m.reserve(3, "low")
	_, _, err := w.s.Resync(w.c, "p")
	w.must(err)
	w.unchanged("a late settlement", func() {
		if _, err := m.try(Exchange{Settled: settlements(w.s, jobs, false)}); !errors.Is(err, ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
	})
}

// A key of the wrong type keeps its own job in the record, and no other.
func TestSettleWrongType(t *testing.T) {
	t.Parallel()
	s := New("")
	tests := []struct {
		key    string
		multi  bool
		breaks bool
		kept   []string
	}{
		{key: s.inflight("p"), breaks: true},
		{key: s.process("p"), breaks: true},
		{key: s.schedule(), kept: []string{"1 low l1"}},
		{key: s.queue("low"), kept: []string{"2 low l2"}},
		{key: s.queues(), kept: []string{"2 low l2"}},
		{key: s.failed(), kept: []string{"3 low l3"}},
		{key: "resque:low_failed", multi: true, kept: []string{"3 low l3"}},
		{key: s.failedQueues(), multi: true, kept: []string{"3 low l3"}},
		{key: s.stat("processed")},
		{key: s.stat("failed")},
	}
	for _, tt := range tests {
		t.Run(tt.key, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", names("l", 3)...)
			m := w.enter("p")
			jobs := m.reserve(3, "low")
			w.spoil(tt.key)
			x := Exchange{Settled: settlements(w.s, jobs, tt.multi)}
			if tt.breaks {
				w.unchanged("a refused settlement", func() {
					if out, err := m.try(x); err == nil {
						t.Errorf("no error, but %+v", out)
					}
				})
				return
			}
			out := m.turn(x)
			if len(out.Broken) != 1 || out.Broken[0].Key != tt.key {
				t.Errorf("broken: %v, want %s", out.Broken, tt.key)
			}
			w.same("record", len(tt.kept), len(w.record("p")))
			if tt.kept == nil {
				return
			}
			w.same("record", tt.kept, w.record("p"))
			w.do("DEL", tt.key)
			x.Settled = settlements(w.s, jobs, tt.multi)
			for i, j := range jobs {
				if !strings.HasSuffix(tt.kept[0], string(j.Payload)) {
					x.Settled[i].Ticket = 0
				}
			}
			w.do("SET", w.s.reaped("p"), "1") // so that ticket 0 does nothing
			m.turn(x)
			w.same("record in the end", 0, len(w.record("p")))
		})
	}
}
