package lanes

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// Jobs that a look finds in a queue which was sorted go into their lanes with the next exchange, and the same take asks these. What
// that exchange did not move, the sorter does.
func TestFewJobsAreSortedByTheNextExchange(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		moved   int
		waits   bool // jobs of the queue are to be put back first
		sorting bool // the exchange moves the jobs
		bySort  bool // the sorter does
	}{
		{"moved", 2, false, true, false},
		{"not moved", 0, false, true, true},
		{"of a queue that waits", 0, true, false, false},
	} {
		limit := resque.Limit{Kind: resque.LimitNone, Name: "Turn"}
		l, s, mu := sorting(t, []string{"work"}, limit)
		lane := resque.NewLane("work", limit)
		var took atomic.Int64
		l.Took = func(_ string, n int) { took.Add(int64(n)) }
		mu.Lock()
		l.agree(&resque.Policy{Lanes: []resque.Lanes{lane.Lanes()}})
		for range 3 { // so that the sorter knows how long they are
			s.Do(t, "RPUSH", "resque:queue:work", "x", "x")
		}
		l.Sort(works("work"), func(string) bool { return false })
		mu.Unlock()
		redistest.Eventually(t, time.Minute, "the queue is sorted", func() bool { return took.Load() == 6 })
		mu.Lock()
		answer := func(x *resque.Exchange, r resque.Exchanged, heads ...string) {
			r.Taken = &resque.Taken{Now: 1, Shown: make([]resque.Shown, 1), Waiting: []int64{int64(len(heads))}}
			for _, raw := range heads[:min(len(heads), x.Take.Heads)] {
				r.Taken.Heads = append(r.Taken.Heads, []byte(raw))
			}
			l.Answered(x, r, time.Now())
		}
		l.sorter.watched.Store(true)
		answer(&resque.Exchange{Take: l.Take("work", 1, 0)}, resque.Exchanged{}, "y", "y")
		mu.Unlock()
		redistest.Eventually(t, time.Minute, "the lanes are found", func() bool {
			mu.Lock()
			defer mu.Unlock()
			return l.few != nil
		})
		mu.Lock()
		if tt.bySort {
			s.Do(t, "RPUSH", "resque:queue:work", "y", "y")
		}
		l.Sort(works("work"), func(string) bool { return tt.waits })
		x := &resque.Exchange{Take: l.Take("work", 1, 0)}
		if l.Sorting(x); (x.Sorting != nil) != tt.sorting || x.Take.Heads != 0 {
			t.Fatalf("%s: the exchange sorts %+v, and its look shows %d jobs", tt.name, x.Sorting, x.Take.Heads)
		}
		if tt.sorting && fmt.Sprint(x.Sorting.Lanes, x.Take.Lanes) != fmt.Sprint([]resque.Lane{lane, lane}, []resque.Lane{lane}) {
			t.Errorf("%s: it sorts into %v and takes from %v", tt.name, x.Sorting.Lanes, x.Take.Lanes)
		}
		if answer(x, resque.Exchanged{Sorted: tt.moved}); !tt.bySort && took.Load() != int64(6+tt.moved) {
			t.Errorf("%s: %d jobs are counted", tt.name, took.Load())
		}
		if take := l.Take("work", 1, 0); (take.Heads > 0) == tt.waits {
			t.Errorf("%s: the next look shows %d jobs", tt.name, take.Heads)
		}
		mu.Unlock()
		if tt.bySort {
			redistest.Eventually(t, time.Minute, "the sorter sorts them", func() bool { return took.Load() == 8 })
		}
	}
}
