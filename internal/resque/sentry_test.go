package resque

import (
	"errors"
	"fmt"
	"testing"
)

// claim has a process claim a seat, and returns whether it has one.
func (m *proc) claim() bool {
	m.t.Helper()
	return m.turn(Exchange{Sentry: &Sentry{Crew: "crew", Sit: true}}).Seat.Held
}

// rise has a process give its place up, and returns whom it must call.
func (m *proc) rise(queues ...string) []string {
	m.t.Helper()
	return m.turn(Exchange{Sentry: &Sentry{Crew: "crew", Rise: true, Filled: queues}}).Seat.Call
}

// Four processes of a crew have seats, until one dies or gives its seat up.
func TestSeats(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	var all []*proc
	for i := range 8 {
		p := w.enter(fmt.Sprintf("p%d", i))
		all = append(all, p)
		w.same(p.ID, i < MostSentries, p.claim())
	}
	for i, p := range all {
		w.same(p.ID+" claims again", i < MostSentries, p.claim())
	}
	w.do("ZADD", w.s.processes(), "XX", 1, "p0") // its lease has ended
	w.same("p4 claims the seat of the dead one", true, all[4].claim())
	w.same("p5 claims when none is free", false, all[5].claim())

	now, err := w.s.Now(w.c)
	w.must(err)
	for i, id := range []string{"p6", "p7", "p5"} {
		w.do("ZADD", w.s.sentries("crew"), "XX", now.UnixMilli()-int64(1000-i), id)
	}
	// The one that has waited for longest without a look comes first. It gets the seat.
	w.same("called for a seat", []string{"p6"}, all[1].rise("a"))
	w.same("p6 has it", true, all[6].claim())
	w.same("p1 has none", false, all[1].claim())
	w.push("a", "a1")
	w.same("called while there are jobs", []string{"p7", "p5"}, all[2].rise("b", "a"))
	w.same("p7 has the seat", true, all[7].claim())
	w.same("p5 has none", false, all[5].claim())

	w.do("ZADD", w.s.processes(), "XX", 1, "p1")
	w.same("the dead are not called", []string{"p5"}, all[3].rise())
	w.same("nobody waits", 0, len(all[4].rise("a")))
	if ttl := w.do("PTTL", w.s.sentries("crew")).(int64); ttl <= 0 || ttl > placeHolds.Milliseconds() {
		t.Errorf("the key is kept for %d ms", ttl)
	}
}

// A place that was not claimed again is given up, and so is one of a time that has not come: the clock was put back.
func TestPlacesThatNobodyClaims(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	p := w.enter("p")
	w.enter("old")
	w.enter("new")
	w.do("ZADD", w.s.sentries("crew"), 1, "old", 9e15, "new")
	w.same("p claims", true, p.claim())
	w.same("places", []string{"p"}, w.server.List(t, "ZRANGE", w.s.sentries("crew"), 0, -1))
}

// A process whose claim Redis refuses hears of each push, as if it had a seat. Its jobs come all the same.
func TestRefusedSeat(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	p := w.enter("p")
	w.push("a", "a1")
	w.do("SET", w.s.sentries("crew"), "x")
	out := p.turn(Exchange{Want: 1, Asks: asks("a"), Sentry: &Sentry{Crew: "crew", Sit: true, Rise: true}})
	w.same("jobs", 1, len(out.Jobs))
	w.same("seat", true, out.Seat.Held)
	w.same("calls", 0, len(out.Seat.Call))
}

// A look that claims a seat is one command. One that arms is two: else Redis would watch what other claims change.
func TestClaimGoesWithItsLook(t *testing.T) {
	t.Parallel()
	k := newTracked(t)
	look := func(arm bool) (commands int, out Exchanged) {
		k.turn(Exchange{Want: 5, Asks: asks("a"), Arm: arm, Sentry: &Sentry{Crew: "crew", Sit: true}}) // Redis knows the scripts
		m := k.server.Monitor(t)
		out = k.turn(Exchange{Want: 5, Asks: asks("a", "b"), Arm: arm, Sentry: &Sentry{Crew: "crew", Sit: true}})
		for _, c := range m.Commands() {
			if c[0] == "EVALSHA" {
				commands++
			}
		}
		return commands, out
	}
	for arm, want := range map[bool]int{false: 1, true: 2} {
		k.push("a", "a1", "a2")
		commands, out := look(arm)
		k.same("commands", want, commands)
		k.same("seat", true, out.Seat.Held)
		k.same("empty", []string{"a", "b"}, out.Empty)
	}
	w := *k.wire
	w.c = k.server.Dial(t) // Redis leaves out what a connection changes itself
	q := w.enter("q")
	k.same("changes by the claim of another process", []string(nil), k.changes(func() { q.claim() }))

	k.do("SET", k.s.sentries("refuses"), "x")
	k.push("a", "a3")
	out := k.turn(Exchange{Want: 5, Asks: asks("a"), Sentry: &Sentry{Crew: "refuses", Sit: true}})
	k.same("jobs where Redis refuses the claim", 1, len(out.Jobs))
	k.same("seat", true, out.Seat.Held)
	for i := range MostSentries {
		k.do("ZADD", k.s.sentries("full"), 0, w.enter(fmt.Sprint("sentry", i)).ID)
	}
	k.same("a seat of a full crew", false, k.turn(Exchange{Sentry: &Sentry{Crew: "full", Sit: true}}).Seat.Held)
	k.do("SCRIPT", "FLUSH")
	k.same("a seat, without scripts", false, k.turn(Exchange{Sentry: &Sentry{Crew: "full", Sit: true}}).Seat.Held)
	k.epoch++
	if _, err := k.try(Exchange{Sentry: &Sentry{Crew: "full", Sit: true}}); !errors.Is(err, ErrStale) {
		t.Errorf("of another epoch: %v", err)
	}
}

// Redis notifies a process whose bell another one rings, and none else. Nothing is left of the bell.
func TestBell(t *testing.T) {
	t.Parallel()
	k := newTracked(t)
	w := *k.wire
	w.c = k.server.Dial(t) // Redis leaves out what a connection changes itself
	other := w.enter("q")
	ring := func(process string) func() {
		return func() { other.turn(Exchange{Sentry: &Sentry{Call: []string{process, "r"}}}) }
	}
	k.turn(Exchange{Sentry: &Sentry{Crew: "crew", Sit: true, Bell: true}})
	k.same("another bell", []string(nil), k.changes(ring("q")))
	k.same("its bell", []string{Called}, k.changes(ring("p")))
	k.same("again, which it has not asked for", []string(nil), k.changes(ring("p")))
	k.turn(Exchange{Sentry: &Sentry{Crew: "crew", Sit: true, Bell: true}})
	k.same("once more", []string{Called}, k.changes(ring("p")))
	k.same("bells", 0, len(k.server.List(t, "KEYS", "*bell*")))
}

// A server that has lost the scripts gets them again with the exchange that needs them.
func TestSeatsOfAServerWithoutScripts(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	p := w.enter("p")
	w.do("SCRIPT", "FLUSH")
	out := p.turn(Exchange{Sentry: &Sentry{Crew: "crew", Sit: true, Rise: true, Call: []string{"q"}}})
	w.same("seat", true, out.Seat.Held)
}
