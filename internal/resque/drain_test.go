package resque

import (
	"errors"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/payload"
)

// No step of a drain changes anything while a process holds a lease.
func TestDrainRefusesWhileAlive(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	lane := NewLane("low", Limit{Kind: LimitRunning, Name: "Mail"})
	w.push("low", "a")
	w.sort("low", func(string) Lane { return lane })
	w.do("RPUSH", w.s.kept("low"), job("K"))
	w.do("ZADD", w.s.KeyOfSchedule(), 1900000000000, "3:low"+job("S"))
	scheduled, err := w.s.ReadScheduled(w.c, 0, 9)
	w.must(err)
	steps := map[string]func() error{
		"lane": func() error { _, err := w.s.DrainLane(w.c, lane, [][]byte{[]byte("a")}); return err },
		"kept": func() error { _, err := w.s.DrainKept(w.c, "low", []byte(job("K"))); return err },
		"schedule": func() error {
			_, _, err := w.s.DrainScheduled(w.c, []DrainedJob{{Scheduled: scheduled[0]}}, payload.Plain)
			return err
		},
		"keys": func() error { _, err := w.s.RemoveOwn(w.c, []string{w.s.lanes()}); return err },
	}
	w.enter("p")
	for name, step := range steps {
		w.unchanged(name, func() {
			if err := step(); !errors.Is(err, ErrAlive) {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	w.do("ZADD", w.s.processes(), -5, "p") // fenced
	for _, name := range []string{"lane", "kept", "schedule", "keys"} {
		w.must(steps[name]())
	}
	w.same("queue", []string{"a", job("K"), job("S")}, w.queue("low"))
}

// What changed since it was read stays as it is: a step may come late, or twice.
func TestDrainLate(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.do("ZADD", w.s.KeyOfSchedule(), 1900000000000, "3:low"+job("A"), 1900000000001, "3:low"+job("B"))
	scheduled, err := w.s.ReadScheduled(w.c, 0, 9)
	w.must(err)
	w.same("time", time.UnixMilli(1900000000001).UnixMilli(), scheduled[1].At.MS)
	jobs := []DrainedJob{{Scheduled: scheduled[0]}, {Scheduled: scheduled[1]}}
	w.do("ZADD", w.s.KeyOfSchedule(), 1900000005000, "3:low"+job("B")) // an operator delayed it again
	for _, want := range []int{1, 0} {
		moved, _, err := w.s.DrainScheduled(w.c, jobs, payload.Plain)
		w.must(err)
		w.same("moved", want, moved)
	}
	w.same("queue", []string{job("A")}, w.queue("low"))
	w.same("schedule", 1, w.server.Int(t, "ZCARD", w.s.KeyOfSchedule()))
}
