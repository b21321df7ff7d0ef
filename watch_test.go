package goworker

import (
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/lanes"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/resque"
)

func testWatch(t *testing.T, names string, telling bool) *watch {
	t.Helper()
	spec, err := queues.Parse([]string{names})
	if err != nil {
		t.Fatal(err)
	}
	l := lanes.New(part.Base{Log: slog.New(slog.DiscardHandler), Clock: clock.System}, laneClasses{new(registry)}, func(f func()) { f() }, func() {})
	w := newWatch(config{queues: spec, order: OrderStrict, interval: time.Minute}, l, func() int { return 1 })
	w.remade(telling)
	w.lanes.Answered(new(resque.Exchange), resque.Exchanged{Policy: new(resque.Policy)}, time.Now()) // there are none
	w.lanes.AskPolicy(new(resque.Exchange))
	return &w
}

// look plays one exchange that finds the given queues empty.
func look(w *watch, now time.Time, empty ...string) (asked []string, allEmpty bool) {
	asks, list := w.plan(now, 5, false)
	x := &resque.Exchange{Want: 5, Asks: slices.Clone(asks), List: list, Arm: w.arm() && w.telling}
	if len(asks) == 0 {
		x.Want = 0
	}
	for _, a := range x.Asks {
		asked = append(asked, a.Queue)
	}
	w.answered(x, resque.Exchanged{Empty: empty})
	return asked, w.drained()
}

func TestWatchAsksNotAgainWhatIsEmpty(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a,b", true)
	w.tick(now)
	if asked, all := look(w, now, "a"); !slices.Equal(asked, []string{"a", "b"}) || all {
		t.Fatalf("asked %v, all empty %v", asked, all)
	}
	if asked, all := look(w, now, "b"); !slices.Equal(asked, []string{"b"}) || !all {
		t.Fatalf("asked %v, all empty %v", asked, all)
	}
	if asked, _ := look(w, now); asked != nil {
		t.Fatalf("asked %v of queues known to be empty", asked)
	}
	w.changed([]string{"a"}, false)
	w.hold = time.Time{}
	if asked, _ := look(w, now); !slices.Equal(asked, []string{"a"}) {
		t.Errorf("asked %v after a was told of", asked)
	}
	w.tick(now.Add(2 * time.Minute))
	if asked, _ := look(w, now); !slices.Equal(asked, []string{"a", "b"}) {
		t.Errorf("asked %v after the interval, want all", asked)
	}
}

// A poller that shares its workers asks for some only while it is hungry, and without
// one it does not look.
func TestWatchIsHungryOnceAnInterval(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a,b", true)
	w.tick(now)
	look(w, now, "a", "b")
	if w.hungry(now, false) {
		t.Fatal("hungry though all queues were found empty")
	}
	w.tick(now.Add(2 * time.Minute))
	if !w.hungry(now, false) {
		t.Fatal("the interval is over, and it does not want to look")
	}
	if asked, _ := look(w, now, "a", "b"); !slices.Equal(asked, []string{"a", "b"}) || w.hungry(now, false) {
		t.Errorf("asked %v, then hungry %v", asked, w.hungry(now, false))
	}
}

func TestWatchAsksFewOfManyQueuesWhileTheyHaveEnough(t *testing.T) {
	t.Parallel()
	const many = 200
	for _, order := range []string{OrderStrict, OrderWeighted, OrderRoundRobin} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			w := testWatch(t, numberedQueues(many), true)
			w.asker = queues.NewAsker(order)
			w.tick(now)
			ask := func(now time.Time, found int) []string {
				asks, _ := w.plan(now, 5, false)
				var names []string
				for _, a := range asks {
					names = append(names, a.Queue)
				}
				x := &resque.Exchange{Want: 5, Asks: slices.Clone(asks), Arm: w.arm()}
				w.answered(x, resque.Exchanged{Jobs: make([]resque.Reserved, found)})
				return names
			}
			if asked := ask(now, 5); len(asked) != many {
				t.Fatalf("the first look asked %d of %d many", len(asked), many)
			}
			if asked := ask(now, 5); len(asked) > queues.Few || len(asked) == 0 {
				t.Errorf("asked %d many after those asked had enough, want %d at most", len(asked), queues.Few)
			}
			if asked := ask(now, 3); len(asked) > queues.Few || order == OrderStrict && asked[0] != "q0" {
				t.Errorf("asked %v, want the first %d", asked, queues.Few)
			}
			if asked := ask(now, 5); len(asked) != many {
				t.Errorf("asked %d many after the few had not enough, want all", len(asked))
			}
			w.tick(now.Add(2 * time.Minute))
			if asked := ask(now, 5); len(asked) != many {
				t.Errorf("asked %d queues after the interval, want all", len(asked))
			}
		})
	}
}

func numberedQueues(n int) string {
	names := make([]string, n)
	for i := range names {
		names[i] = "q" + strconv.Itoa(i)
	}
	return strings.Join(names, ",")
}

func TestWatchBelievesAMessageMoreThanAnOlderAnswer(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a", true)
	w.tick(now)
	asks, _ := w.plan(now, 1, false)
	x := &resque.Exchange{Want: 1, Asks: slices.Clone(asks), Arm: true}
	w.changed([]string{"a"}, false) // arrives before the answer is read
	w.answered(x, resque.Exchanged{Empty: []string{"a"}})
	w.hold = time.Time{}
	if asked, _ := look(w, now); !slices.Equal(asked, []string{"a"}) {
		t.Errorf("asked %v; the push would be found only at the next full look", asked)
	}
}

func TestWatchWithoutMessagesLooksOnceAnInterval(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a", false)
	w.tick(now)
	look(w, now, "a")
	if asked, _ := look(w, now); asked != nil {
		t.Errorf("asked %v before the interval was over", asked)
	}
	if at := w.nextLook(time.Time{}); at.Before(now.Add(59 * time.Second)) {
		t.Errorf("next look at %s", at)
	}
	if asks, _ := w.plan(now, 1, true); len(asks) != 1 {
		t.Errorf("a commit looks at %v, want every queue", asks)
	}
}

func TestPaceReservesAheadOnlyForShortHandlers(t *testing.T) {
	t.Parallel()
	p := pace{allowed: true}
	for range 20 {
		p.trip(100 * time.Microsecond)
		p.ran(time.Microsecond)
	}
	if !p.ahead() {
		t.Fatal("handlers of 1 µs and round trips of 100 µs: not ahead")
	}
	for range 20 {
		p.ran(10 * time.Millisecond)
	}
	if p.ahead() {
		t.Error("handlers of 10 ms: still ahead")
	}
	p.trip(10 * time.Second)
	for range 3 {
		p.ran(20 * time.Millisecond)
	}
	if p.ahead() {
		t.Error("ahead with handlers of 20 ms, because Redis stood still once")
	}
	p = pace{allowed: true, run: 1, round: 1000, runs: paceRuns}
	now := time.Now()
	if p.waited(now, now.Add(-time.Millisecond)) || !p.waited(now, now.Add(-time.Second)) {
		t.Error("patience is not 10 ms")
	}
	if p.ahead() {
		t.Error("still ahead after a job waited for too long")
	}
}

// Redis watches a key until it changes, so that the look of each interval costs one
// command and not two. What that look finds was not told of: it is watched anew.
func TestWatchArmsOnlyWhatIsNotWatched(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a,b", true)
	turn := func(jobs []resque.Reserved, empty ...string) bool {
		t.Helper()
		now = now.Add(2 * time.Minute)
		w.tick(now)
		asks, _ := w.plan(now, 5, false)
		x := &resque.Exchange{Want: 5, Asks: slices.Clone(asks), Arm: w.arm()}
		w.answered(x, resque.Exchanged{Jobs: jobs, Empty: empty})
		return x.Arm
	}
	if !turn(nil, "a", "b") {
		t.Error("the first look is not armed")
	}
	if turn(nil, "a", "b") {
		t.Error("a look at queues that Redis watches is armed")
	}
	if turn([]resque.Reserved{{Ticket: 1, Queue: "b"}}, "a", "b") {
		t.Error("a look at queues that Redis watches is armed")
	}
	if !turn(nil, "a", "b") {
		t.Error("a push to b was not told of, and b is not watched anew")
	}
	w.changed([]string{resque.PauseChanged}, false)
	if !turn(nil, "a", "b") {
		t.Error("the pause changed and is not watched anew")
	}
	if turn(nil, "a", "b") {
		t.Error("a look at a pause that Redis watches is armed")
	}
}

func TestWatchArmsTheSetOfQueuesWhenItChanged(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "*", true)
	turn := func() (list, arm bool) {
		t.Helper()
		now = now.Add(2 * time.Minute)
		w.tick(now)
		asks, list := w.plan(now, 5, false)
		x := &resque.Exchange{Want: len(asks), Asks: slices.Clone(asks), List: list, Arm: w.arm()}
		var empty []string
		for _, a := range x.Asks {
			empty = append(empty, a.Queue)
		}
		w.answered(x, resque.Exchanged{Queues: []string{"a"}, Empty: empty})
		return list, x.Arm
	}
	for i, want := range []bool{true, true, false, false} { // the set, the queue in it, nothing
		if list, arm := turn(); !list || arm != want {
			t.Errorf("look %d: lists %v, armed %v, want %v", i, list, arm, want)
		}
	}
	w.changed([]string{resque.QueuesChanged}, false)
	if _, arm := turn(); !arm {
		t.Error("the set of queues changed and is not watched anew")
	}
}
