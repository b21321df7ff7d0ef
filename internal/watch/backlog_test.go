package watch

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// Queues that were found empty are not in the backlog. Of many queues each is, in turn.
func TestBacklog(t *testing.T) {
	t.Parallel()
	now := time.Now()
	o := testWatch(t, "a,b,c,d,e", "strict", true)
	o.tick(now)
	if names, _, due := o.Backlog(now, 0, 10); !slices.Equal(names, []string{"a", "b", "c", "d", "e"}) || !due.IsZero() {
		t.Errorf("at the start %v, %v", names, due)
	}
	x := plan(o, now, 1, false)
	o.Answered(x, resque.Exchanged{Jobs: []resque.Reserved{{Queue: "b"}}, Empty: []string{"a", "c"}}, now)
	next, seen := 0, ""
	for range 3 {
		var names []string
		names, next, _ = o.Backlog(now, next, 2)
		seen += fmt.Sprint(names)
	}
	if want := "[b d][e b][d e]"; seen != want {
		t.Errorf("%s, want %s", seen, want)
	}
	o.closed = func(queue string) bool { return queue != "d" }
	if names, _, _ := o.Backlog(now, 0, 10); !slices.Equal(names, []string{"d"}) {
		t.Errorf("%v, although the others are closed", names)
	}
	if names, next, _ := testWatch(t, "x*", "strict", true).Backlog(now, 7, 10); len(names)+next != 0 {
		t.Errorf("%v of no queue", names)
	}
}
