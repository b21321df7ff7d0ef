package resque

import (
	"errors"
	"testing"
)

// If the record has the mark, a missing ticket was committed. The mark is there from entering until
// the record is removed in any way, and then only after the record was restored.
func TestMark(t *testing.T) {
	t.Parallel()
	restore := func(w *wire, m *proc) { w.must(w.s.Restore(w.c, "p", m.epoch, nil, handed(m.last))) }
	tests := []struct {
		name  string
		do    func(w *wire, m *proc)
		whole bool
	}{
		{"entered", func(*wire, *proc) {}, true},
		{"all jobs are done", func(_ *wire, m *proc) { m.turn(Exchange{Done: tickets(m.reserve(2, "low")...)}) }, true},
		{"all jobs ended with effects", func(_ *wire, m *proc) { m.turn(Exchange{Ended: failed(m.reserve(2, "low")...)}) }, true},
		{"read back", func(w *wire, m *proc) {
			epoch, _, _, err := w.s.Resync(w.c, "p")
			w.must(err)
			m.epoch = epoch
		}, true},
		{"entered again", func(w *wire, m *proc) {
			w.do("DEL", w.s.process("p"))
			m.epoch = 5
			w.must(w.s.Reenter(w.c, m.Process, 5, lease))
		}, true},
		{"the record was removed", func(w *wire, _ *proc) { w.do("DEL", w.s.inflight("p")) }, false},
		{"removed, and written again by a reservation", func(w *wire, m *proc) {
			w.do("DEL", w.s.inflight("p"))
			m.reserve(2, "low")
		}, false},
		{"all fields were removed", func(w *wire, _ *proc) { w.do("HDEL", w.s.inflight("p"), markField) }, false},
		{"moved away", func(w *wire, _ *proc) { w.do("RENAME", w.s.inflight("p"), "elsewhere") }, false},
		{"of another type for a while", func(w *wire, m *proc) {
			w.spoil(w.s.inflight("p"))
			if _, _, _, err := w.s.Resync(w.c, "p"); err == nil {
				w.t.Error("a record of the wrong type was read back")
			}
			if _, err := m.try(Exchange{Handed: "1"}); err == nil {
				w.t.Error("an exchange used a record of the wrong type")
			}
			if err := w.s.Restore(w.c, "p", m.epoch, nil, ""); err == nil {
				w.t.Error("a record of the wrong type was restored")
			}
			w.do("DEL", w.s.inflight("p"))
		}, false},
		{"Redis lost everything", func(w *wire, m *proc) {
			w.do("FLUSHALL")
			m.epoch = 5
			w.must(w.s.Reenter(w.c, m.Process, 5, lease))
		}, false},
		{"restored", func(w *wire, m *proc) {
			w.do("DEL", w.s.inflight("p"))
			restore(w, m)
		}, true},
		{"restored after a flush", func(w *wire, m *proc) {
			w.do("FLUSHALL")
			m.epoch = 5
			w.must(w.s.Reenter(w.c, m.Process, 5, lease))
			restore(w, m)
		}, true},
		{"restored and removed again", func(w *wire, m *proc) {
			restore(w, m)
			w.do("DEL", w.s.inflight("p"))
		}, false},
		{"of an older release", func(w *wire, m *proc) {
			m.reserve(2, "low")
			w.do("HDEL", w.s.inflight("p"), markField)
		}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", "l1", "l2")
			m := w.enter("p")
			tt.do(w, m)
			if out := m.turn(Exchange{Handed: "1"}); out.Removed == tt.whole {
				t.Errorf("an exchange says removed: %v", out.Removed)
			}
			_, _, whole, err := w.s.Resync(w.c, "p")
			w.must(err)
			w.same("whole", tt.whole, whole)
		})
	}
}

// The mark keeps the record a hash table: of a listpack each command would read all fields.
func TestMarkMakesATable(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	encoding := func(when string) {
		t.Helper()
		w.same("encoding "+when, "hashtable", string(w.do("OBJECT", "ENCODING", w.s.inflight("p")).([]byte)))
	}
	w.push("low", names("l", 20)...)
	m := w.enter("p")
	encoding("after entering")
	jobs := m.reserve(10, "low")
	encoding("with jobs")
	m.turn(Exchange{Done: tickets(jobs...)})
	encoding("when all are done")
	w.do("DEL", w.s.inflight("p"))
	m.reserve(2, "low")
	w.must(w.s.Restore(w.c, "p", m.epoch, nil, handed(m.last)))
	encoding("after a restore")
}

// A record that could be restored only in part is not whole.
func TestMarkIsTheLastOfARestore(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 600)...)
	m := w.enter("p")
	jobs := append(m.reserve(300, "low"), m.reserve(300, "low")...)
	w.do("DEL", w.s.inflight("p"))
	// The first piece takes two commands, for Redis does not know the script yet.
	c := &meddler{Conn: w.c, before: 3, meddle: func() { w.spoil(w.s.process("p")) }}
	if err := w.s.Restore(c, "p", m.epoch, jobs, handed(600)); err == nil {
		t.Fatal("restored with a process record of the wrong type")
	}
	w.do("DEL", w.s.process("p"))
	w.must(w.s.Reenter(w.c, m.Process, 2, lease))
	epoch, held, whole, err := w.s.Resync(w.c, "p")
	w.must(err)
	w.unchanged("a late restore", func() {
		if err := w.s.Restore(w.c, "p", epoch-1, jobs, ""); !errors.Is(err, ErrStale) {
			t.Errorf("got %v, want ErrStale", err)
		}
	})
	if whole || len(held) != MaxExchangeJobs {
		t.Errorf("whole %v with %d tickets", whole, len(held))
	}
	w.must(w.s.Restore(w.c, "p", epoch, jobs, handed(600)))
	w.same("record", 600, len(w.record("p")))
	_, _, whole, err = w.s.Resync(w.c, "p")
	w.must(err)
	w.same("whole", true, whole)
}

// A record that was removed is restored at maxmemory too: until then its process takes no jobs.
func TestRestoreOutOfMemory(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1", "l2", "l3")
	m := w.enter("p")
	jobs := m.reserve(2, "low")
	w.do("FLUSHALL")
	w.do("CONFIG", "SET", "maxmemory", "1")
	w.must(w.s.Reenter(w.c, m.Process, 2, lease))
	w.must(w.s.Restore(w.c, "p", 2, jobs, handed(2)))
	w.same("record", texts(jobs), w.record("p"))
	w.same("handed", "2", w.server.Text(t, "HGET", w.s.process("p"), "handed"))
}

// The mark is no job: leaving and recovery skip it, and the record goes with its process.
// So does the record of an older release, which has no mark.
func TestMarkIsNoJob(t *testing.T) {
	t.Parallel()
	for _, older := range []bool{false, true} {
		w := newWire(t)
		w.push("low", "l1", "l2")
		m := w.enter("p")
		m.reserve(2, "low")
		if older {
			w.do("HDEL", w.s.inflight("p"), markField)
			w.do("SET", w.s.reaped("p"), 1)
			w.do("ZADD", w.s.processes(), -1, "p")
		} else {
			m.die()
		}
		left, err := w.s.Leave(w.c, "p")
		w.must(err)
		w.same("left", 2, left)
		w.same("recovered", Recovered{Requeued: 2}, m.recover(3))
		left, err = w.s.Leave(w.c, "p")
		w.must(err)
		w.same("left", 0, left)
		w.same("keys of it", 0, w.server.Int(t, "EXISTS", w.s.inflight("p"), w.s.process("p"), w.s.processes()))
	}
}
