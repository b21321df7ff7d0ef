package resque

import (
	"testing"
	"time"
)

// What can be neither moved nor filed keeps nobody waiting who is behind it, and the pump
// does not try again and again.
func TestPumpOwnCannotSetAside(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.spoil(w.s.failed())
	w.do("ZADD", w.s.schedule(), 1, "junk", 2, recordPrefix("low")+"b")
	if m := w.pumpAll(&Pump{Store: w.s}, MasterLock{}); m.Jobs != 1 || len(m.Broken) == 0 || len(m.Failed) > 0 {
		t.Errorf("%+v", m)
	}
	w.same("queue", []string{"b"}, w.queue("low"))
	due, err := w.s.Due(w.c, false)
	w.must(err)
	if due.Own < putOff/2 || due.Own > putOff+time.Second {
		t.Errorf("tried again after %v", due.Own)
	}
	w.do("DEL", w.s.failed())
	w.do("ZADD", w.s.schedule(), "XX", 1, "junk")
	if m := w.pumpAll(&Pump{Store: w.s}, MasterLock{}); len(m.Failed) != 1 {
		t.Errorf("after the repair: %+v", m)
	}
}
