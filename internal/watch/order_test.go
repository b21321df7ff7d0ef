package watch

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
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// noLimits is a program without limits.
type noLimits struct{}

func (noLimits) Lanes(queue string, jobs [][]byte) []resque.Lane {
	return slices.Repeat([]resque.Lane{{Queue: queue}}, len(jobs))
}
func (noLimits) Alike(string, []byte) (of resque.Alike, some bool) { return of, false }
func (noLimits) Limits(string) bool                                { return false }
func (noLimits) SortedBy(resque.Lanes) bool                        { return false }
func (noLimits) Numbers() (map[string]string, error)               { return nil, nil }
func (noLimits) Any() bool                                         { return false }
func (noLimits) Version() uint64                                   { return 0 }
func (noLimits) PauseOver(string) bool                             { return false }
func (noLimits) PauseLeft(string) time.Duration                    { return 0 }

func testWatch(t *testing.T, names, order string, tracking bool) *Order {
	t.Helper()
	spec, err := queues.Parse([]string{names})
	if err != nil {
		t.Fatal(err)
	}
	base := part.Base{Log: slog.New(slog.DiscardHandler), Clock: clock.System, Store: resque.New("")}
	l := lanes.New(base, noLimits{}, func(f func()) { f() }, func() {})
	o := New(base, l, Options{
		List: List{Queues: spec, Order: order}, Interval: time.Minute,
		Peers: func() int { return 1 }, Waits: func(string) bool { return false }, Run: func(f func()) { f() },
	})
	o.Connected(tracking)
	x := new(resque.Exchange)
	if o.Plan(x, 1, 1, time.Now()); !x.Policy {
		t.Fatal("a new connection does not ask for the policy")
	}
	o.Answered(x, resque.Exchanged{Policy: new(resque.Policy)}, time.Now())
	return o
}

// plan returns the next exchange that asks for n jobs. Without tracking each interval begins with
// one that asks for the policy.
func plan(o *Order, now time.Time, n int, committing bool) *resque.Exchange {
	x := new(resque.Exchange)
	if committing {
		x.Done = []int64{1}
	}
	if o.Plan(x, n, n, now); x.Policy {
		o.Answered(x, resque.Exchanged{Policy: new(resque.Policy)}, now)
		return plan(o, now, n, committing)
	}
	x.Asks = slices.Clone(x.Asks)
	return x
}

func asked(x *resque.Exchange) (names []string) {
	for _, a := range x.Asks {
		names = append(names, a.Queue)
	}
	return names
}

// What a look found before Redis lost all keys says nothing about them: Redis watches them no more.
func TestAllChangesDuringALook(t *testing.T) {
	t.Parallel()
	o, now := testWatch(t, "a,b", queues.Strict, true), time.Now()
	x := plan(o, now, 5, false)
	o.Changed(nil, true)
	o.Answered(x, resque.Exchanged{Empty: asked(x)}, now)
	if x := plan(o, now, 5, false); len(x.Asks) != 2 || !x.Arm {
		t.Errorf("it asks %v, arm %v", asked(x), x.Arm)
	}
}

// look plays one exchange that finds the given queues empty.
func look(o *Order, now time.Time, empty ...string) (names []string, allEmpty bool) {
	x := plan(o, now, 5, false)
	o.Answered(x, resque.Exchanged{Empty: empty}, now)
	return asked(x), o.drained()
}

func TestWatchAsksNotAgainWhatIsEmpty(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a,b", queues.Strict, true)
	w.Tick(now)
	if asked, all := look(w, now, "a"); !slices.Equal(asked, []string{"a", "b"}) || all {
		t.Fatalf("asked %v, all empty %v", asked, all)
	}
	if asked, all := look(w, now, "b"); !slices.Equal(asked, []string{"b"}) || !all {
		t.Fatalf("asked %v, all empty %v", asked, all)
	}
	if asked, _ := look(w, now); asked != nil {
		t.Fatalf("asked %v of queues known to be empty", asked)
	}
	w.Changed([]string{"a"}, false)
	w.wakeups.stop()
	if asked, _ := look(w, now); !slices.Equal(asked, []string{"a"}) {
		t.Errorf("asked %v after a notification of a", asked)
	}
	w.Tick(now.Add(2 * time.Minute))
	if asked, _ := look(w, now); !slices.Equal(asked, []string{"a", "b"}) {
		t.Errorf("asked %v after the interval, want all", asked)
	}
}

// Where a turn takes longer than the interval, and Redis does not track, each turn begins another interval. The queues are
// asked all the same, and not only for their policy.
func TestWatchAsksQueuesHoweverLongATurnTakes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a,b", queues.Strict, false)
	var policies, looks int
	for range 10 {
		now = now.Add(2 * time.Minute)
		w.Tick(now)
		x := new(resque.Exchange)
		w.Plan(x, 5, 5, now)
		answer := resque.Exchanged{}
		switch {
		case x.Policy:
			policies++
			answer.Policy = new(resque.Policy)
		case slices.Equal(asked(x), []string{"a", "b"}):
			looks++
			answer.Empty = []string{"a", "b"}
		}
		if w.Answered(x, answer, now); len(answer.Empty) > 0 && !w.drained() {
			t.Error("the queues were found empty, and the look does not count")
		}
	}
	if policies != 5 || looks != 5 {
		t.Errorf("%d turns asked for the policy, and %d for jobs", policies, looks)
	}
}

// A poller that shares its workers asks for some only while it is hungry, and without
// one it does not look.
func TestWatchIsHungryOnceAnInterval(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a,b", queues.Strict, true)
	w.Tick(now)
	look(w, now, "a", "b")
	if w.Hungry(now, false) {
		t.Fatal("hungry though all queues were found empty")
	}
	w.Tick(now.Add(2 * time.Minute))
	if !w.Hungry(now, false) {
		t.Fatal("the interval is over, and it does not want to look")
	}
	if asked, _ := look(w, now, "a", "b"); !slices.Equal(asked, []string{"a", "b"}) || w.Hungry(now, false) {
		t.Errorf("asked %v, then hungry %v", asked, w.Hungry(now, false))
	}
}

func TestWatchAsksFewOfManyQueuesWhileTheyHaveEnough(t *testing.T) {
	t.Parallel()
	const many = 200
	for _, order := range []string{queues.Strict, queues.Weighted, queues.RoundRobin} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			w := testWatch(t, numberedQueues(many), order, true)
			w.Tick(now)
			ask := func(now time.Time, found int) []string {
				x := plan(w, now, 5, false)
				w.Answered(x, resque.Exchanged{Jobs: make([]resque.Reserved, found)}, now)
				return asked(x)
			}
			if asked := ask(now, 5); len(asked) != many {
				t.Fatalf("the first look asked %d of %d many", len(asked), many)
			}
			if asked := ask(now, 5); len(asked) > queues.Few || len(asked) == 0 {
				t.Errorf("asked %d many after those asked had enough, want %d at most", len(asked), queues.Few)
			}
			if asked := ask(now, 3); len(asked) > queues.Few || order == queues.Strict && asked[0] != "q0" {
				t.Errorf("asked %v, want the first %d", asked, queues.Few)
			}
			if asked := ask(now, 5); len(asked) != many {
				t.Errorf("asked %d many after the few had not enough, want all", len(asked))
			}
			w.Tick(now.Add(2 * time.Minute))
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
	w := testWatch(t, "a", queues.Strict, true)
	w.Tick(now)
	x := plan(w, now, 1, false)
	w.Changed([]string{"a"}, false) // arrives before the answer is read
	w.Answered(x, resque.Exchanged{Empty: []string{"a"}}, now)
	w.wakeups.stop()
	if asked, _ := look(w, now); !slices.Equal(asked, []string{"a"}) {
		t.Errorf("asked %v; the push would be found only at the next full look", asked)
	}
}

func TestWatchWithoutMessagesLooksOnceAnInterval(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a", queues.Strict, false)
	w.Tick(now)
	look(w, now, "a")
	if asked, _ := look(w, now); asked != nil {
		t.Errorf("asked %v before the interval was over", asked)
	}
	if at := w.Next(true); at.Before(now.Add(59 * time.Second)) {
		t.Errorf("next look at %s", at)
	}
	if x := plan(w, now, 1, true); len(x.Asks) != 1 {
		t.Errorf("a commit looks at %v, want every queue", x.Asks)
	}
}

// Redis watches a key until it changes, so that the look of each interval costs one
// command and not two. Redis has not notified of a change that this look finds, so the
// key is watched again.
func TestWatchArmsOnlyWhatIsNotWatched(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "a,b", queues.Strict, true)
	turn := func(jobs []resque.Reserved, empty ...string) bool {
		t.Helper()
		now = now.Add(2 * time.Minute)
		w.Tick(now)
		x := plan(w, now, 5, false)
		w.Answered(x, resque.Exchanged{Jobs: jobs, Empty: empty}, now)
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
		t.Error("there was no notification of a push to b, and b is not watched again")
	}
	w.Changed([]string{resque.PauseChanged}, false)
	if !turn(nil, "a", "b") {
		t.Error("the pause changed and is not watched again")
	}
	if turn(nil, "a", "b") {
		t.Error("a look at a pause that Redis watches is armed")
	}
}

func TestWatchArmsTheSetOfQueuesWhenItChanged(t *testing.T) {
	t.Parallel()
	now := time.Now()
	w := testWatch(t, "*", queues.Strict, true)
	turn := func() (list, arm bool) {
		t.Helper()
		now = now.Add(2 * time.Minute)
		w.Tick(now)
		x := plan(w, now, 5, false)
		w.Answered(x, resque.Exchanged{Queues: []string{"a"}, Empty: asked(x)}, now)
		return x.List, x.Arm
	}
	for i, want := range []bool{true, true, false, false} { // the set, the queue in it, nothing
		if list, arm := turn(); !list || arm != want {
			t.Errorf("look %d: lists %v, armed %v, want %v", i, list, arm, want)
		}
	}
	w.Changed([]string{resque.QueuesChanged}, false)
	if _, arm := turn(); !arm {
		t.Error("the set of queues changed and is not watched again")
	}
}
