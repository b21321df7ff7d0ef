package inflight

import (
	"fmt"
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
