package goworker

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// A time that has come while the poller was busy is acted on in its next turn.
func TestLanesForgetNoTime(t *testing.T) {
	t.Parallel()
	l := newLanes(new(registry))
	past := time.Now().Add(-time.Millisecond)
	l.full["r:Call"] = fullLimit{past, true}
	q := l.add("work")
	q.group(resque.Lanes{Queue: "work", Shared: "r:Call"})
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
	l, now := newLanes(new(registry)), time.Now()
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
