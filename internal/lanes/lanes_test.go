package lanes

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/queues"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// classes are limits that every job of every queue has.
type classes []resque.Limit

func (c classes) Lanes(queue string, jobs [][]byte) []resque.Lane {
	return slices.Repeat([]resque.Lane{resque.NewLane(queue, c...)}, len(jobs))
}
func (c classes) Alike(string, []byte) (of resque.Alike, some bool) { return of, false }
func (c classes) Limits(string) bool                                { return false }
func (c classes) SortedBy(lanes resque.Lanes) bool {
	return slices.ContainsFunc(c, lanes.SortedBy)
}
func (c classes) Numbers() (map[string]string, error) { return nil, nil }
func (c classes) Any() bool                           { return len(c) > 0 }
func (c classes) Version() uint64                     { return 0 }
func (c classes) PauseOver(string) bool               { return false }
func (c classes) PauseLeft(string) time.Duration      { return 0 }

func testLanes(names ...string) *Lanes {
	l := New(part.Base{Log: slog.New(slog.DiscardHandler), Clock: clock.System}, classes(nil), func(f func()) { f() }, func() {})
	l.Work(works(names...))
	return l
}

func works(names ...string) (all []queues.Queue) {
	for _, name := range names {
		all = append(all, queues.Queue{Name: name})
	}
	return all
}

// timed are classes in a fleet whose pauses are over when a test says so.
type timed struct {
	classes
	over *bool
}

func (t timed) PauseOver(string) bool { return *t.over }

// A pause ends at its time, though the fleet still lists the queue as paused.
func TestPauseEndsAtItsTime(t *testing.T) {
	t.Parallel()
	over := false
	l := New(part.Base{Log: slog.New(slog.DiscardHandler), Clock: clock.System}, timed{over: &over}, func(f func()) { f() }, func() {})
	l.Work(works("work"))
	l.agree(&resque.Policy{Paused: []string{"work"}})
	if l.Tick(time.Now()); !l.Paused("work") {
		t.Error("the queue is not paused")
	}
	over = true
	if !l.Tick(time.Now()) || l.Paused("work") {
		t.Error("the queue is still paused, or the poller does not ask it")
	}
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
	if at := l.Next(); at != past {
		t.Errorf("the next look is at %v", at)
	}
	if l.Tick(time.Now()); !l.ready(q) || !l.Next().IsZero() {
		t.Errorf("after it ready is %v, and the next look at %v", l.ready(q), l.Next())
	}
}

// Keys whose slots were once found taken, and are not asked for any more, leave nothing.
func TestFullKeysAreForgotten(t *testing.T) {
	t.Parallel()
	l, now := testLanes("work"), time.Now()
	full := func(name string) {
		l.taken(new(resque.Take), resque.Exchanged{Taken: &resque.Taken{Now: 1, Full: map[string]int64{name: 0}}}, now)
	}
	for i := range 1000 {
		full(resque.Limit{Kind: resque.LimitRunning, Name: "Mail/key", Keyed: true, Key: fmt.Sprint(i)}.String())
		full("c:Mail")
		now = now.Add(fullFor)
		l.Tick(now)
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
	l.agree(p)
	if take := l.Take("work", 1, 0); !slices.Equal(take.Queues, []string{"work"}) {
		t.Errorf("it looks at %v", take.Queues)
	}
	l.Work([]queues.Queue{{Name: "tenant-7"}, {Name: "work"}})
	if take := l.Take("work", 1, 0); !slices.Contains(take.Queues, "tenant-7") || len(take.Queues) != 2 {
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
		l.agree(new(resque.Policy))
		return l.queues["work"] == nil
	}
	for name, note := range map[string]func(){
		"sorted":      func() { l.sorted("work", []resque.Lane{lane}) },
		"misplaced":   func() { l.Found(lane) },
		"given back":  func() { l.Filled(lane) },
		"left behind": func() { l.Skip(lane, time.Now()) },
	} {
		l.requested()
		if note(); forgets() {
			t.Errorf("a lane is dropped by an answer that is older than what was %s", name)
		}
		if l.requested(); !forgets() {
			t.Errorf("a lane that the fleet does not name, where a job was %s, is kept", name)
		}
	}
}

// A job that was put into a lane behind a look is looked for: Redis does not notify this process of its
// own writes.
func TestLateCommitIsLookedFor(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{true, false} {
		l, now := testLanes("work"), time.Now()
		limit := resque.Limit{Kind: resque.LimitRunning, Name: "Mail"}
		lane := resque.NewLane("work", limit)
		l.classes = classes{limit}
		l.agree(&resque.Policy{Lanes: []resque.Lanes{lane.Lanes()}})
		take := l.Take("work", 1, 0)
		l.Filled(lane)
		x := &resque.Exchange{Take: take}
		full := map[string]int64{"c:Mail": 0}
		l.Answered(x, resque.Exchanged{Late: late, Taken: &resque.Taken{Now: 1, Full: full, Shown: make([]resque.Shown, 1), Waiting: []int64{0}}}, now)
		if open, _ := l.Open("work", true); open != late {
			t.Errorf("after an answer that is late (%v) the lanes are asked: %v", late, open)
		}
	}
}

// Lanes by whose limits nothing is sorted here, and in which nothing was for an hour, are to
// be forgotten; others not.
func TestLanesToForget(t *testing.T) {
	t.Parallel()
	l, now := testLanes("work"), time.Now()
	l.classes = classes{{Kind: resque.LimitRunning, Name: "Mail"}}
	old := resque.Lanes{Queue: "work", Shared: "c:Call"}
	l.agree(&resque.Policy{Lanes: []resque.Lanes{old, {Queue: "work", Shared: "c:Mail"}}})
	shows := func(lanes int) []resque.Lanes {
		take := l.Take("work", 1, 0)
		l.abandoned = nil
		l.taken(take, resque.Exchanged{Taken: &resque.Taken{Now: 1, Shown: make([]resque.Shown, 2), Waiting: []int64{0}}}, now)
		if lanes > 0 {
			take = l.Take("work", 1, 0)
			l.taken(take, resque.Exchanged{Taken: &resque.Taken{Now: 1, Shown: []resque.Shown{{Lanes: lanes}, {}}, Waiting: []int64{0}}}, now)
		}
		now = now.Add(forgetAfter/2 + time.Second)
		return l.abandoned
	}
	for i, turn := range []struct{ lanes, gone int }{{0, 0}, {0, 0}, {1, 1}, {0, 0}, {0, 0}, {0, 1}, {0, 0}} {
		if gone := shows(turn.lanes); len(gone) != turn.gone || turn.gone > 0 && gone[0] != old {
			t.Errorf("look %d: %v are to be forgotten", i, gone)
		}
	}
}

// sorting returns lanes whose sorter works on a Redis, with the given limits.
func sorting(t *testing.T, names []string, limits ...resque.Limit) (*Lanes, *redistest.Server, *sync.Mutex) {
	t.Helper()
	return sortingBy(t, names, classes(limits))
}

func sortingBy(t *testing.T, names []string, of Classes) (*Lanes, *redistest.Server, *sync.Mutex) {
	t.Helper()
	s := redistest.Start(t)
	dialer, err := conn.NewDialer(t.Context(), conn.Config{URI: s.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log, mu := slog.New(slog.DiscardHandler), new(sync.Mutex)
	base := part.Base{Log: log, Outages: logging.NewOutages(log, clock.System), Store: resque.New(""), Dialer: dialer, Clock: clock.System}
	l := New(base, of, func(f func()) {
		mu.Lock()
		defer mu.Unlock()
		f()
	}, func() {})
	t.Cleanup(l.Stop)
	l.Work(works(names...))
	return l, s, mu
}

// A queue is sorted once a worker has found a job with limits in it, and not while such jobs
// are still to be put back.
func TestSorterMovesJobs(t *testing.T) {
	t.Parallel()
	limit := resque.Limit{Kind: resque.LimitRunning, Name: "Mail"}
	l, s, mu := sorting(t, []string{"work", "later"}, limit)
	for i := range 2000 {
		s.Do(t, "RPUSH", "resque:queue:work", fmt.Sprint(i))
	}
	s.Do(t, "RPUSH", "resque:queue:later", "x")
	mu.Lock()
	l.Found(resque.NewLane("work", limit))
	l.Found(resque.NewLane("later", limit))
	l.Sort(works("work", "later"), func(queue string) bool { return queue == "later" })
	mu.Unlock()
	redistest.Eventually(t, time.Minute, "the jobs are in their lane", func() bool {
		return s.Int(t, "LLEN", "resque:queue:work") == 0 && s.Int(t, "LLEN", "resque:go:lane:4:work6:c:Mail") == 2000
	})
	if s.Int(t, "LLEN", "resque:queue:later") != 1 {
		t.Error("a queue is sorted of which jobs are still to be put back")
	}
	mu.Lock()
	l.Sort(works("work", "later"), func(string) bool { return false })
	mu.Unlock()
	redistest.Eventually(t, time.Minute, "the other is sorted", func() bool { return s.Int(t, "LLEN", "resque:queue:later") == 0 })
}

// mails are classes whose jobs are alike: those of the class Mail.
type mails struct{ classes }

func (m mails) Alike(queue string, job []byte) (of resque.Alike, some bool) {
	of = resque.Alike{Begin: []byte(`{"class":"Mail"`), Lane: resque.NewLane(queue, m.classes...)}
	return of, bytes.HasPrefix(job, of.Begin)
}

// Jobs of a class that are alike are not read: the sorter reads the first ones, and where another one stands between them.
func TestSorterReadsNoJobsThatAreAlike(t *testing.T) {
	t.Parallel()
	limit := resque.Limit{Kind: resque.LimitRunning, Name: "Mail"}
	l, s, mu := sortingBy(t, []string{"work"}, mails{classes{limit}})
	var jobs []string
	for i := range 20_000 {
		jobs = append(jobs, fmt.Sprintf(`{"class":"Mail","args":[%d]}`, i))
	}
	jobs[4000] = `{"args":[4000],"class":"Mail"}`
	for chunk := range slices.Chunk(jobs, 1000) {
		args := []any{"resque:queue:work"}
		for _, job := range chunk {
			args = append(args, job)
		}
		s.Do(t, "RPUSH", args...)
	}
	s.Do(t, "CONFIG", "RESETSTAT")
	mu.Lock()
	l.Found(resque.NewLane("work", limit))
	l.Sort(works("work"), func(string) bool { return false })
	mu.Unlock()
	const lane = "resque:go:lane:4:work6:c:Mail"
	redistest.Eventually(t, time.Minute, "the jobs are in their lane", func() bool { return s.Int(t, "LLEN", lane) == len(jobs) })
	_, sent, _ := strings.Cut(s.Text(t, "INFO", "stats"), "total_net_output_bytes:")
	sent, _, _ = strings.Cut(sent, "\r")
	if read, err := strconv.Atoi(sent); err != nil || read > len(strings.Join(jobs, ""))/2 {
		t.Errorf("%s bytes were read of %d: %v", sent, len(strings.Join(jobs, "")), err)
	}
	if there := s.List(t, "LRANGE", lane, 0, -1); !slices.Equal(there, jobs) {
		t.Error("the jobs are in another order in their lane")
	}
}

// The fleet forgets lanes by which this process does not sort once they were empty for long.
func TestEmptyLanesAreForgotten(t *testing.T) {
	t.Parallel()
	l, s, mu := sorting(t, []string{"work", "turns"}, resque.Limit{Kind: resque.LimitNone, Name: "Turn", Keyed: true})
	old, turns := resque.Lanes{Queue: "work", Shared: "c:Slow"}, resque.Lanes{Queue: "turns", Shared: "f:Turn"}
	s.Do(t, "SADD", "resque:go:lanes", "4:workc:Slow", "5:turnsf:Turn")
	mu.Lock()
	l.agree(&resque.Policy{Lanes: []resque.Lanes{old, turns}})
	now := time.Now()
	for range 2 {
		take := l.Take("work", 1, 0)
		shown := make([]resque.Shown, len(take.Look))
		l.Answered(&resque.Exchange{Process: "p", Take: take}, resque.Exchanged{Taken: &resque.Taken{Now: 1, Shown: shown, Waiting: make([]int64, len(take.Queues))}}, now)
		now = now.Add(forgetAfter)
	}
	mu.Unlock()
	redistest.Eventually(t, time.Minute, "the lanes are forgotten", func() bool { return s.Int(t, "SCARD", "resque:go:lanes") == 1 })
	mu.Lock()
	defer mu.Unlock()
	if l.agree(&resque.Policy{Lanes: []resque.Lanes{turns}}); l.Len() != 1 || s.Int(t, "SISMEMBER", "resque:go:lanes", "5:turnsf:Turn") != 1 {
		t.Errorf("%d queues have lanes", l.Len())
	}
}

// Without an idle worker lanes are asked only while a take gives all that it asks for ahead.
func TestLanesAreAskedAhead(t *testing.T) {
	t.Parallel()
	l, now := testLanes("work"), time.Now()
	limit := resque.Limit{Kind: resque.LimitRunning, Name: "Mail"}
	lane := resque.NewLane("work", limit)
	l.classes = classes{limit}
	l.agree(&resque.Policy{Lanes: []resque.Lanes{lane.Lanes()}})
	for _, turn := range []struct {
		ahead, jobs int
		open        bool
	}{{0, 2, false}, {1, 1, false}, {1, 2, true}, {2, 2, true}, {0, 0, true}, {2, 1, false}} {
		take := l.Take("work", 2, turn.ahead)
		r := resque.Exchanged{Jobs: make([]resque.Reserved, turn.jobs), Taken: &resque.Taken{Now: 1, Shown: []resque.Shown{{Lanes: 1, Ready: []resque.ReadyLane{{Turn: 1}}}}, Waiting: []int64{0}}}
		l.Answered(&resque.Exchange{Take: take}, r, now)
		if open, _ := l.Open("work", false); open != turn.open {
			t.Errorf("after %d jobs of 2, %d of them ahead, lanes are asked without an idle worker: %v", turn.jobs, turn.ahead, open)
		}
		if open, _ := l.Open("work", true); !open {
			t.Errorf("after %+v lanes are not asked for an idle worker", turn)
		}
	}
}

// A take knows how large the jobs were that the last one of the queue has given, where these were more than a few. One that is larger says so
// by itself.
func TestTakeLearnsHowLargeJobsAre(t *testing.T) {
	t.Parallel()
	l := testLanes("work")
	l.group(resque.Lanes{Queue: "work", Shared: "f:Mail"})
	jobs := func(sizes ...int) (jobs []resque.Reserved) {
		for _, n := range sizes {
			jobs = append(jobs, resque.Reserved{Queue: "work", Payload: make([]byte, n)})
		}
		return jobs
	}
	many := slices.Repeat([]int{40}, fewJobs)
	for i, turn := range []struct {
		jobs []resque.Reserved
		want int
	}{{jobs(90), 0}, {jobs(many...), 40}, {nil, 40}, {jobs(30), 40}, {jobs(70), 70}, {jobs(many...), 40}} {
		take := l.Take("work", 20, 0)
		l.Answered(&resque.Exchange{Take: take}, resque.Exchanged{
			Jobs: turn.jobs, Taken: &resque.Taken{Waiting: []int64{0}, Shown: make([]resque.Shown, len(take.Look))},
		}, time.Now())
		if got := l.Take("work", 20, 0).Largest; got != turn.want {
			t.Errorf("after turn %d jobs are known to have %d bytes, want %d", i, got, turn.want)
		}
	}
}

// The first lane from which jobs may be taken says since when they wait: not one whose limit is used up, nor one of a paused queue.
func TestDue(t *testing.T) {
	t.Parallel()
	l := testLanes("work")
	if at := l.Due("work"); !at.IsZero() {
		t.Errorf("without lanes %v", at)
	}
	l.group(resque.Lanes{Queue: "work", Shared: "r:Call"})
	turn := time.UnixMicro(1_800_000_000_000_000)
	l.queues["work"].due = []dueLane{{limits: []string{"r:Full"}, turn: 1}, {lane: resque.Lane{Own: "a"}, turn: turn.UnixMicro()}}
	l.full["r:Full"] = fullLimit{until: time.Now().Add(time.Minute)}
	if at := l.Due("work"); !at.Equal(turn) {
		t.Errorf("%v, want %v", at, turn)
	}
	l.paused["work"] = false
	if at := l.Due("work"); !at.IsZero() {
		t.Errorf("of a paused queue %v", at)
	}
}

// A lane into which this process has just put jobs is asked by the next take, behind the lanes that a look has found: also where a look
// is under way that may not have seen it. Where there are more lanes than a look shows, it waits until one does.
func TestSortedLanesAreAskedAtOnce(t *testing.T) {
	t.Parallel()
	limit := resque.Limit{Kind: resque.LimitNone, Name: "Turn", Keyed: true}
	lane := func(key string) resque.Lane {
		limit.Key = key
		return resque.NewLane("work", limit)
	}
	many, few := lane("many"), lane("few")
	for _, tt := range []struct {
		name     string
		lanes    int // that there are, of which one is shown
		underway bool
		want     []resque.Lane
	}{
		{"between takes", 1, false, []resque.Lane{many, few}},
		{"during a take", 1, true, []resque.Lane{many, few}},
		{"behind many", 2, false, []resque.Lane{many}},
		{"behind many during a take", 2, true, []resque.Lane{many}},
	} {
		l, now := testLanes("work"), time.Now()
		l.classes = classes{limit}
		l.agree(&resque.Policy{Lanes: []resque.Lanes{many.Lanes()}})
		answer := func(take *resque.Take, of ...resque.Lane) {
			shown := resque.Shown{Lanes: tt.lanes - 1 + len(of)}
			for i, lane := range of {
				shown.Ready = append(shown.Ready, resque.ReadyLane{Own: lane.Own, Turn: int64(i + 1)})
			}
			l.Answered(&resque.Exchange{Take: take}, resque.Exchanged{Taken: &resque.Taken{Now: 9, Shown: []resque.Shown{shown}, Waiting: []int64{0}}}, now)
		}
		answer(l.Take("work", 2, 0), many)
		take := l.Take("work", 2, 0)
		if !tt.underway {
			answer(take, many)
		}
		l.sorted("work", []resque.Lane{many, few})
		if tt.underway {
			answer(take, many)
		}
		take = l.Take("work", 2, 0)
		if !slices.Equal(take.Lanes, tt.want) {
			t.Errorf("%s: %v are asked, want %v", tt.name, take.Lanes, tt.want)
		}
		answer(take, many, few)
		if take = l.Take("work", 2, 0); !slices.Equal(take.Lanes, []resque.Lane{many, few}) {
			t.Errorf("%s: after a look that shows both %v are asked", tt.name, take.Lanes)
		}
	}
}
