package goworker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

func testLanes(names ...string) *lanes {
	l := newLanes(newRegistry())
	var works []queues.Queue
	for _, name := range names {
		works = append(works, queues.Queue{Name: name})
	}
	l.work(works)
	return &l
}

// A time that has come while the poller was busy is acted on in its next turn.
func TestLanesForgetNoTime(t *testing.T) {
	t.Parallel()
	l := testLanes()
	past := time.Now().Add(-time.Millisecond)
	l.full["r:Call"] = fullLimit{past, true}
	l.group(resque.Lanes{Queue: "work", Shared: "r:Call"})
	q := l.queues["work"]
	q.look, q.next, q.rest = false, past, past
	if at := l.nextLook(); at != past {
		t.Errorf("the next look is at %v", at)
	}
	if l.expire(time.Now()); !l.ready(q) || !l.nextLook().IsZero() {
		t.Errorf("after it ready is %v, and the next look at %v", l.ready(q), l.nextLook())
	}
}

// Keys whose slots were once found taken, and are not asked for any more, leave nothing.
func TestFullKeysAreForgotten(t *testing.T) {
	t.Parallel()
	l, now := testLanes("work"), time.Now()
	full := func(name string) {
		l.answered(new(resque.Take), resque.Exchanged{Taken: &resque.Taken{Now: 1, Full: map[string]int64{name: 0}}}, now)
	}
	for i := range 1000 {
		full(resque.Limit{Kind: resque.LimitRunning, Name: "Mail/key", Keyed: true, Key: fmt.Sprint(i)}.String())
		full("c:Mail")
		now = now.Add(fullFor)
		l.expire(now)
	}
	// A check is never put off for more than stuckMost, nor kept for longer, nor looked for
	// more often.
	if most := int(3*stuckMost/fullFor) + 2; len(l.full) > 1 || len(l.checks) > most {
		t.Errorf("%d limits are full, and %d are checked, want at most %d", len(l.full), len(l.checks), most)
	}
	if c := l.checks["c:Mail"]; c.wait != stuckMost || !slices.Contains(l.stuck, "c:Mail") {
		t.Errorf("the limit that is used up all the time is checked by %+v", c)
	}
}

// What the fleet sorts of queues that this process does not work on is not looked at.
func TestLanesOfOtherQueuesAreNotLookedAt(t *testing.T) {
	t.Parallel()
	l := testLanes("work")
	p := &resque.Policy{Lanes: []resque.Lanes{{Queue: "work", Shared: "c:Mail"}}}
	for i := range 100 {
		p.Lanes = append(p.Lanes, resque.Lanes{Queue: fmt.Sprint("tenant-", i), Shared: "c:Mail"})
	}
	l.agreed(p)
	if take := l.take("work", 1); !slices.Equal(take.Queues, []string{"work"}) {
		t.Errorf("it looks at %v", take.Queues)
	}
	l.work([]queues.Queue{{Name: "tenant-7"}, {Name: "work"}})
	if take := l.take("work", 1); !slices.Contains(take.Queues, "tenant-7") || len(take.Queues) != 2 {
		t.Errorf("with another queue it looks at %v", take.Queues)
	}
}

// Lanes are dropped when the fleet does not name them any more, but none that the fleet may
// have had no time to name.
func TestLanesThatTheFleetForgets(t *testing.T) {
	t.Parallel()
	l := testLanes("work")
	lane := resque.NewLane("work", resque.Limit{Kind: resque.LimitRunning, Name: "Mail"})
	forgets := func() bool {
		l.agreed(new(resque.Policy))
		return l.queues["work"] == nil
	}
	for name, note := range map[string]func(){
		"sorted":      func() { l.sorted("work", []resque.Lane{lane}) },
		"misplaced":   func() { l.misplaced(lane) },
		"given back":  func() { l.filled(lane) },
		"left behind": func() { l.leave(lane, time.Now()) },
	} {
		l.asked()
		if note(); forgets() {
			t.Errorf("a lane is dropped by an answer that is older than what was %s", name)
		}
		if l.asked(); !forgets() {
			t.Errorf("a lane that the fleet does not name, where a job was %s, is kept", name)
		}
	}
}

// Lanes by whose limits nothing is sorted here, and in which nothing was for an hour, are to
// be forgotten; others not.
func TestLanesToForget(t *testing.T) {
	t.Parallel()
	l, now := testLanes("work"), time.Now()
	l.registry.register("Mail", func() {}, []Option{Concurrency(1)})
	old := resque.Lanes{Queue: "work", Shared: "c:Call"}
	l.agreed(&resque.Policy{Lanes: []resque.Lanes{old, {Queue: "work", Shared: "c:Mail"}}})
	shows := func(lanes int) []resque.Lanes {
		take := l.take("work", 1)
		l.gone = nil
		l.answered(take, resque.Exchanged{Taken: &resque.Taken{Now: 1, Shown: make([]resque.Shown, 2), Waiting: []int64{0}}}, now)
		if lanes > 0 {
			take = l.take("work", 1)
			l.answered(take, resque.Exchanged{Taken: &resque.Taken{Now: 1, Shown: []resque.Shown{{Lanes: lanes}, {}}, Waiting: []int64{0}}}, now)
		}
		now = now.Add(forgetAfter/2 + time.Second)
		return l.gone
	}
	for i, turn := range []struct{ lanes, gone int }{{0, 0}, {0, 0}, {1, 1}, {0, 0}, {0, 0}, {0, 1}, {0, 0}} {
		if gone := shows(turn.lanes); len(gone) != turn.gone || turn.gone > 0 && gone[0] != old {
			t.Errorf("look %d: %v are to be forgotten", i, gone)
		}
	}
}
