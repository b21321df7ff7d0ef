package inflight

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/resque"
)

// Of the ends with effects the last ones are remembered: so many of them, and so many bytes. A ticket that ended twice has its last end.
func TestRecentEnds(t *testing.T) {
	t.Parallel()
	end := func(ticket int64, text string) resque.Ended {
		return resque.Ended{Ticket: ticket, Effects: []resque.Effect{resque.Command("SREM", resque.New("").SetKey("s"), text)}}
	}
	var r recentEnds
	const last = 3*recentMost + 100
	for ticket := int64(1); ticket <= last; ticket++ {
		r.add(end(ticket, fmt.Sprint("job", ticket)))
		if ticket%97 > 0 {
			continue
		}
		for _, back := range []int64{0, 50, recentMost - 1, recentMost} {
			of := ticket - back
			got, ok := r.of(of)
			if want := of > 0 && back < recentMost; ok != want || ok && got.Size() != end(of, fmt.Sprint("job", of)).Size() {
				t.Fatalf("after ticket %d that of %d is %v, %v", ticket, of, got, ok)
			}
		}
		if forgotten := max(0, ticket-recentMost); r.forgotten != forgotten {
			t.Fatalf("after ticket %d the tickets up to %d are forgotten, want %d", ticket, r.forgotten, forgotten)
		}
	}

	r.add(end(last-7, "again"))
	if got, ok := r.of(last - 7); !ok || got.Size() != end(0, "again").Size() {
		t.Errorf("a ticket that ended again has %v, %v", got, ok)
	}

	large := string(make([]byte, recentBytes/4))
	for ticket := int64(last + 1); ticket <= last+4; ticket++ {
		r.add(end(ticket, large))
	}
	if r.n != 3 || r.size > recentBytes || r.forgotten != last+1 {
		t.Errorf("of large ends %d are remembered, of %d bytes, and %d is forgotten", r.n, r.size, r.forgotten)
	}
}

// What is remembered of an end is what it was, also where it lies across the end of the ring.
func TestRecentEndsAreWhole(t *testing.T) {
	t.Parallel()
	packed := func(ticket int64) string {
		text := strings.Repeat(strconv.FormatInt(ticket, 10), int(ticket%400))
		e := resque.Ended{Ticket: ticket, Counts: resque.CountsDone, Effects: []resque.Effect{resque.Command("RPUSH", resque.New("").ListKey("l"), text)}}
		return string(e.Pack(nil))
	}
	var r recentEnds
	for ticket := int64(1); ticket <= 4*recentMost; ticket++ {
		r.add(resque.Unpack([]byte(packed(ticket))))
		if ticket%(recentMost/8) == 0 {
			for of := ticket; of > ticket-int64(r.n); of -= 101 {
				if got, ok := r.of(of); !ok || string(got.Pack(nil)) != packed(of) {
					t.Fatalf("after ticket %d that of %d is %v, %v", ticket, of, got, ok)
				}
			}
		}
	}
	if r.size > recentBytes {
		t.Errorf("%d bytes are remembered", r.size)
	}
}

// The garbage collector has no work with them: once the rings are full, an end costs no allocation.
func TestRecentEndsAreNoGarbage(t *testing.T) {
	e := resque.Ended{Ticket: 1, Counts: resque.CountsDone, Effects: []resque.Effect{resque.Command("HDEL", resque.New("").HashKey("lock"), "id", 5)}}
	var r recentEnds
	for range recentMost {
		r.add(e)
	}
	if n := testing.AllocsPerRun(1000, func() { r.add(e) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
