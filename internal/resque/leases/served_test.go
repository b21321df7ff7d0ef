package leases

import (
	"errors"
	"fmt"
	"testing"
)

// After a lost answer the server learns what its turn reserved. The turn does nothing if Redis hears it late.
func TestServed(t *testing.T) { each(t, testServed) }

func testServed(t *testing.T, b *bundle) {
	strange := "a b\n7:c" // a queue of Ruby's may have any name
	b.push("q", job("1"), job("2"), job("3"), `{"unique":"x","id":"4"}`)
	b.push(strange, job("5"))
	last, jobs := b.served(0)
	b.same("before the first turn", 0, int(last)+len(jobs))

	heard := Turn{Number: 4, Asks: []Ask{ask(1, "q"), ask(1, strange)}}
	given := b.turn(heard).Jobs
	for _, number := range []int64{4, 3} {
		if _, err := b.send(Turn{Number: number, Asks: []Ask{ask(1, "q")}}); !errors.Is(err, ErrStale) {
			t.Errorf("turn %d behind turn 4: %v", number, err)
		}
	}
	last, jobs = b.served(5)
	b.same("the last turn", 4, last)
	b.same("its jobs", "0:q/1 0:"+strange+"/5", text(jobs))
	b.same("its leases", given[1].Lease, jobs[1].Lease)
	if _, err := b.send(heard); !errors.Is(err, ErrStale) {
		t.Errorf("the turn came twice: %v", err)
	}
	if _, err := b.send(Turn{Number: 5, Asks: []Ask{ask(1, "q")}}); !errors.Is(err, ErrStale) {
		t.Errorf("a turn that was sent before: %v", err)
	}
	last, jobs = b.served(6)
	b.same("asked once more", "4 0:q/1 0:"+strange+"/5", fmt.Sprint(last, " ", text(jobs)))
	b.served(2) // it comes late, and opens nothing
	if _, err := b.send(Turn{Number: 6}); !errors.Is(err, ErrStale) {
		t.Errorf("a turn that was sent before: %v", err)
	}
	b.turn(Turn{Number: 7, Acks: []Ack{{"q", "1", ""}}})
	last, jobs = b.served(8)
	b.same("a turn that reserved none", 7, int(last)+len(jobs))
	b.turn(Turn{Number: 9, Asks: []Ask{ask(9, "q")}, Texts: []string{`"unique"`}})
	_, jobs = b.served(10)
	b.same("with effects", "0:q/2 0:q/3 0:q/4!", text(jobs))
	if ttl := b.int("TTL", "resque:go:served:s1"); ttl < 86_000 {
		t.Errorf("the record stays for %d s", ttl)
	}
}

// A server whose record is gone opens a new one.
func TestGone(t *testing.T) { each(t, testGone) }

func testGone(t *testing.T, b *bundle) {
	b.push("q", job("1"))
	b.must(b.s.Close(b.c, "s1"))
	if _, err := b.send(Turn{Asks: []Ask{ask(1, "q")}}); !errors.Is(err, ErrGone) {
		t.Fatal(err)
	}
	last, jobs := b.served(b.turns)
	b.same("nothing is known", 0, int(last)+len(jobs))
	b.same("jobs", "0:q/1", text(b.turn(Turn{Asks: []Ask{ask(1, "q")}}).Jobs))
	b.same("another server's record is its own", true, func() bool {
		_, _, err := b.s.Served(b.c, "s2", 99)
		b.must(err)
		return len(b.turn(Turn{}).Jobs) == 0
	}())
}
