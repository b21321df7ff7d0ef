package resque

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

func (w *wire) turn(x *Exchange) Exchanged {
	w.t.Helper()
	w.must(w.s.Send(w.c, x))
	out, err := w.s.Receive(w.c, x)
	w.must(err)
	return out
}

// sort moves what lies in a queue into lanes by the first letter of its class.
func (w *wire) sort(queue string, lane func(payload string) Lane) {
	w.t.Helper()
	raws, err := w.s.Peek(w.c, queue, 0, 500)
	w.must(err)
	lanes := make([]Lane, len(raws))
	for i, raw := range raws {
		lanes[i] = lane(string(raw))
	}
	n, _, err := w.s.Sort(w.c, queue, raws, lanes, Next{})
	w.must(err)
	w.same("jobs moved", len(raws), n)
}

// byTenant puts a job x:n into the lane of tenant x.
func byTenant(limits ...Limit) func(payload string) Lane {
	return func(payload string) Lane {
		tenant, _, _ := strings.Cut(payload, ":")
		var held []Limit
		for _, l := range limits {
			if l.Keyed {
				l.Key = tenant
			}
			held = append(held, l)
		}
		return NewLane("low", held...)
	}
}

func payloads(jobs []Reserved) (list []string) {
	for _, j := range jobs {
		list = append(list, string(j.Payload))
	}
	return list
}

func (w *wire) takeLanes(p string, last int64, want int, ended []Ended, lanes ...Lane) Exchanged {
	w.t.Helper()
	return w.turn(&Exchange{Process: p, Epoch: 1, Last: last, Ended: ended, Take: &Take{Want: want, Lanes: lanes, Look: []Look{{lanes[0].Lanes(), 10}}, Queues: []string{"low"}}})
}

func TestTakeTurns(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	fair := Limit{Kind: LimitNone, Name: "Mail", Keyed: true}
	w.push("low", "a:1", "a:2", "a:3", "a:4", "b:1", "b:2", "c:1")
	w.sort("low", byTenant(fair))
	a, b, c := byTenant(fair)("a:"), byTenant(fair)("b:"), byTenant(fair)("c:")
	out := w.takeLanes("p", 0, 5, nil, a, b, c)
	w.same("the tenants take turns", []string{"a:1", "b:1", "c:1", "a:2", "b:2"}, payloads(out.Jobs))
	w.same("one lane is left", 1, out.Taken.Shown[0].Lanes)
	out = w.takeLanes("p", 5, 5, nil, a)
	w.same("the rest", []string{"a:3", "a:4"}, payloads(out.Jobs))
	w.same("no lane is left", 0, out.Taken.Shown[0].Lanes)
}

func TestTakeKeepsLimits(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	each := Limit{Kind: LimitRunning, Name: "Mail", Keyed: true}
	all := Limit{Kind: LimitRunning, Name: "All"}
	w.do("HSET", w.s.limits(), each.Spec(), 2, all.Spec(), 3)
	w.push("low", "a:1", "a:2", "a:3", "b:1", "b:2", "b:3")
	w.sort("low", byTenant(each, all))
	a, b := byTenant(each, all)("a:"), byTenant(each, all)("b:")
	out := w.takeLanes("p", 0, 9, nil, a, b)
	w.same("no more than three run", []string{"a:1", "b:1", "a:2"}, payloads(out.Jobs))
	w.same("what is used up", map[string]int64{"c:All": 0, "c:Mail=a": 0}, out.Taken.Full)

	// a:1 ends, and a has one running, b too.
	done := []Ended{{Ticket: 1, Counts: CountsDone, Effects: w.s.LeaveLane(nil, "p", out.Jobs[0], true)}}
	w.do("SCRIPT", "LOAD", exchangeEnds.plain.Text()) // else it runs behind take.lua
	out = w.takeLanes("p", 3, 9, done, b, a)
	w.same("one more runs", []string{"b:2"}, payloads(out.Jobs))
	w.same("its record says where it is from", []string{"b:1", "a:2", "b:2"}, func() (list []string) {
		for _, line := range w.record("p") {
			list = append(list, strings.Fields(line)[2])
		}
		return list
	}())

	// The process dies. Its jobs are back in their lanes, in order, and hold nothing.
	lease := w.server.Text(t, "ZSCORE", w.s.processes(), "p")
	fenced, err := w.s.Fence(w.c, "p", lease)
	w.must(err)
	w.same("fenced", true, fenced)
	_, err = w.s.Recover(w.c, someProcess("p"), 3, noon, deadEnds(w.s, false, noon))
	w.must(err)
	w.same("a's lane", []string{"a:2", "a:3"}, w.server.List(t, "LRANGE", w.s.lane(a), 0, -1))
	w.same("b's lane", []string{"b:1", "b:2", "b:3"}, w.server.List(t, "LRANGE", w.s.lane(b), 0, -1))
	for _, key := range w.server.Keys(t) {
		if strings.Contains(key, "go:slots") {
			t.Errorf("%s is still there", key)
		}
	}
}

// A job from a lane that was found in too many dead processes is filed as failed.
func TestPoisonFromALane(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	one := NewLane("low", Limit{Kind: LimitRunning, Name: "One"})
	w.do("HSET", w.s.limits(), "c:One", 2)
	w.push("low", `{"class":"C","args":[1]}`, `{"class":"C","args":[2]}`)
	w.sort("low", func(string) Lane { return one })
	w.same("both are taken", 2, len(w.takeLanes("p", 0, 2, nil, one).Jobs))
	w.turn(&Exchange{Process: "p", Epoch: 1, Last: 2, Handed: "2"})
	w.do("HSET", w.s.recovered(), Digest([]byte(`{"class":"C","args":[1]}`)), fmt.Sprintf("3 %d q 2 0", noon.UnixMilli()))
	fenced, err := w.s.Fence(w.c, "p", w.server.Text(t, "ZSCORE", w.s.processes(), "p"))
	w.must(err)
	w.same("fenced", true, fenced)
	total, err := w.s.Recover(w.c, someProcess("p"), 3, noon, deadEnds(w.s, false, noon))
	w.must(err)
	w.same("recovered", Recovered{Requeued: 1, Failed: 1}, total)
	w.same("its lane", []string{`{"class":"C","args":[2]}`}, w.server.List(t, "LRANGE", w.s.lane(one), 0, -1))
	w.same("failures", 1, w.server.Int(t, "LLEN", w.s.failed()))
	w.same("slots", 0, w.server.Int(t, "EXISTS", w.s.slots("c:One")))
}

func TestTakeKeepsRates(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	each := Limit{Kind: LimitStarts, Name: "Mail", Keyed: true}
	w.do("HSET", w.s.limits(), each.Spec(), "60000000 2") // one a minute, two at once
	for i := range 5 {
		w.push("low", fmt.Sprint("a:", i), fmt.Sprint("b:", i))
	}
	w.sort("low", byTenant(each))
	a, b := byTenant(each)("a:"), byTenant(each)("b:")
	out := w.takeLanes("p", 0, 9, nil, a, b)
	w.same("two of each", []string{"a:0", "b:0", "a:1", "b:1"}, payloads(out.Jobs))
	shown := out.Taken.Shown[0]
	w.same("both wait", 2, shown.Lanes)
	w.same("no lane's turn has come", 0, len(shown.Ready))
	if wait := shown.Next - out.Taken.Now; wait < 59e6 || wait > 60e6 {
		t.Errorf("the next turn is in %d µs, want a minute", wait)
	}
	out = w.takeLanes("p", 4, 9, nil, a, b)
	w.same("nothing is taken before", 0, len(out.Jobs))
}

// Jobs for which no worker is idle are taken only where each limit has room for all that are wanted.
func TestTakeAhead(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		limit   Limit
		numbers string
		want    int
	}{
		{Limit{Kind: LimitNone, Name: "Mail", Keyed: true}, "", 6},
		{Limit{Kind: LimitRunning, Name: "Mail"}, "3", 3}, // used up
		{Limit{Kind: LimitRunning, Name: "Mail"}, "8", 3}, // five are left, and six are wanted
		{Limit{Kind: LimitRunning, Name: "Mail"}, "12", 6},
		{Limit{Kind: LimitRunning, Name: "Mail", Keyed: true}, "9", 6}, // three of each
		{Limit{Kind: LimitStarts, Name: "Mail"}, "60000000 8", 3},
		{Limit{Kind: LimitStarts, Name: "Mail"}, "60000000 12", 6},
	} {
		w := newWire(t)
		w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
		if test.numbers != "" {
			w.do("HSET", w.s.limits(), test.limit.Spec(), test.numbers)
		}
		for i := range 5 {
			w.push("low", fmt.Sprint("a:", i), fmt.Sprint("b:", i))
		}
		w.sort("low", byTenant(test.limit))
		lanes := []Lane{byTenant(test.limit)("a:")}
		if test.limit.Keyed {
			lanes = append(lanes, byTenant(test.limit)("b:"))
		}
		out := w.turn(&Exchange{Process: "p", Epoch: 1, Take: &Take{Want: 6, Ahead: 3, Lanes: lanes}})
		w.same(fmt.Sprintf("jobs with %s of %q", test.limit, test.numbers), test.want, len(out.Jobs))
		for _, lane := range lanes {
			for _, limit := range lane.Limits() {
				if limit.running() {
					w.same("slots of "+limit.String(), len(w.record("p"))/len(lanes), w.server.Int(t, "SCARD", w.s.slots(limit.String())))
				}
			}
		}
	}
}

// The tickets in the record are those of the answer, however many digits they have.
func TestTicketsOfLanes(t *testing.T) {
	t.Parallel()
	lane := NewLane("low", Limit{Kind: LimitRunning, Name: "Mail"})
	for _, last := range []int64{0, 8, 95, 999, 123_456_789_098, 1 << 52} {
		w := newWire(t)
		w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
		w.do("HSET", w.s.limits(), "c:Mail", 100)
		for i := range 14 {
			w.push("low", fmt.Sprint(i))
		}
		w.sort("low", func(string) Lane { return lane })
		out := w.takeLanes("p", last, 14, nil, lane)
		w.same("jobs", 14, len(out.Jobs))
		for i, j := range out.Jobs {
			w.same("ticket", last+int64(i)+1, j.Ticket)
			w.same("payload", strconv.Itoa(i), string(j.Payload))
			w.same("the record's", lanePrefix(lane)+strconv.Itoa(i), w.server.Text(t, "HGET", w.s.inflight("p"), strconv.FormatInt(j.Ticket, 10)))
			w.same("the slot's", 1, w.server.Int(t, "SISMEMBER", w.s.slots("c:Mail"), holder("p", j.Ticket)))
		}
	}
}

// An answer has about MaxExchangeBytes at most, whatever is wanted.
func TestTakeOfLargeJobs(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	lane := NewLane("low", Limit{Kind: LimitNone, Name: "Mail", Keyed: true, Key: "a"})
	for range 10 {
		w.push("low", strings.Repeat("x", MaxExchangeBytes/4))
	}
	w.sort("low", func(string) Lane { return lane })
	w.same("jobs", 4, len(w.takeLanes("p", 0, 10, nil, lane).Jobs))
	w.same("jobs then", 4, len(w.takeLanes("p", 4, 10, nil, lane).Jobs))
}

// Where it is known how large the jobs are, all of a lane are popped at once from the first one on, as far as an answer may have so many bytes.
func TestTakeKnowsHowLargeJobsAre(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	fair := byTenant(Limit{Kind: LimitNone, Name: "Mail", Keyed: true})
	for i := range 200 {
		w.push("low", fmt.Sprintf("%c:%d", 'a'+i%10, i))
	}
	w.sort("low", fair)
	var lanes []Lane
	for i := range 10 {
		lanes = append(lanes, fair(fmt.Sprintf("%c:", 'a'+i)))
	}
	last := int64(0)
	for _, tt := range []struct{ largest, pops int }{{0, 19}, {5, 10}, {MaxExchangeBytes / 20, 20}, {MaxExchangeBytes, 19}, {2 * MaxExchangeBytes, 19}} {
		w.do("CONFIG", "RESETSTAT")
		out := w.turn(&Exchange{Process: "p", Epoch: 1, Last: last, Take: &Take{Want: 40, Largest: tt.largest, Lanes: lanes}})
		for i, j := range out.Jobs {
			if want := fmt.Sprintf("%c:%d", 'a'+i%10, last+int64(i)); string(j.Payload) != want || j.Ticket != last+int64(i)+1 {
				t.Errorf("known to have %d bytes, job %d is %s with ticket %d, want %s", tt.largest, i, j.Payload, j.Ticket, want)
			}
		}
		last += int64(len(out.Jobs))
		w.same("jobs", 40, len(out.Jobs))
		if stats := w.server.Text(t, "INFO", "commandstats"); !strings.Contains(stats, fmt.Sprintf("cmdstat_lpop:calls=%d,", tt.pops)) {
			t.Errorf("known to have %d bytes, the jobs are not popped with %d commands: %s", tt.largest, tt.pops, stats)
		}
	}
}

// More jobs than one byte can number have lanes of their own.
func TestSortIntoManyLanes(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	each := Limit{Kind: LimitRunning, Name: "Mail", Keyed: true}
	for i := range 500 {
		w.push("low", fmt.Sprintf("k%d:%d", i, i))
	}
	w.sort("low", byTenant(each))
	w.same("lanes", 500, w.server.Int(t, "ZCARD", w.s.turns(byTenant(each)("").Lanes())))
	for _, i := range []int{0, 254, 255, 256, 499} {
		raw := fmt.Sprintf("k%d:%d", i, i)
		w.same("the lane of "+raw, []string{raw}, w.server.List(t, "LRANGE", w.s.lane(byTenant(each)(raw)), 0, -1))
	}
}

// A job that was not run gives back the start it took, once, and its lane's turn comes.
func TestStartsGivenBack(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	each := Limit{Kind: LimitStarts, Name: "Mail", Keyed: true}
	w.do("HSET", w.s.limits(), each.Spec(), "60000000 2") // one a minute, two at once
	for i := range 5 {
		w.push("low", fmt.Sprint("a:", i))
	}
	w.sort("low", byTenant(each))
	a := byTenant(each)("a:")
	out := w.takeLanes("p", 0, 9, nil, a)
	w.same("two", []string{"a:0", "a:1"}, payloads(out.Jobs))
	given := w.s.LeaveLane(nil, "p", out.Jobs[0], false)

	w.do("SET", w.s.KeyOfQueue("bad"), "no list")
	refused := []Ended{{Ticket: 1, Effects: append(w.s.PushTail("bad", []byte("a:0")), given...)}}
	w.same("none while the ticket stays", 0, len(w.takeLanes("p", 2, 9, refused, a).Jobs))
	unrun := []Ended{{Ticket: 1, Effects: given}}
	out = w.takeLanes("p", 2, 0, unrun, a)
	w.same("its turn has come", 1, len(out.Taken.Shown[0].Ready))
	w.same("one more", []string{"a:2"}, payloads(w.takeLanes("p", 2, 9, unrun, a).Jobs))
	w.same("but once", 0, len(w.takeLanes("p", 3, 9, unrun, a).Jobs))
	if ttl := w.server.Int(t, "TTL", w.s.limitKey(a.Limits()[0], "p")); ttl < 1 || ttl > 121 {
		t.Errorf("the rate goes after %d s", ttl)
	}
}

// Text set by hand that is no number does not lift the limit.
func TestTakeWithBrokenNumbers(t *testing.T) {
	t.Parallel()
	for _, number := range []string{"-1", "abc", "", "1.2.3", "1e3", "5 -1"} {
		w := newWire(t)
		w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
		run, start := Limit{Kind: LimitRunning, Name: "Run", Keyed: true}, Limit{Kind: LimitStarts, Name: "Start", Keyed: true}
		w.do("HSET", w.s.limits(), run.Spec(), number, start.Spec(), number)
		w.push("low", "a:1", "a:2", "a:3")
		w.sort("low", byTenant(run))
		w.push("low", "b:1", "b:2", "b:3")
		w.sort("low", byTenant(start))
		a, b := byTenant(run)("a:"), byTenant(start)("b:")
		out := w.takeLanes("p", 0, 9, nil, a)
		w.same("one runs", []string{"a:1"}, payloads(out.Jobs))
		w.same("what is wrong", []KeyError{{w.s.limits(), `c:Run is "` + number + `", which is no number: one job runs at a time until it is one`}}, out.Taken.Broken)
		out = w.takeLanes("p", 1, 9, nil, b)
		w.same("one starts", []string{"b:1"}, payloads(out.Jobs))
		w.same("what is wrong", []KeyError{{w.s.limits(), `r:Start is "` + number + `", which is no number: one job is started each second until it is one`}}, out.Taken.Broken)
		if wait := out.Taken.Shown[0].Next - out.Taken.Now; wait < 9e5 || wait > 1e6 {
			t.Errorf("%q: the next starts in %d µs, want a second", number, wait)
		}
	}
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	none := Limit{Kind: LimitRunning, Name: "Run"}
	w.do("HSET", w.s.limits(), none.Spec(), 0)
	w.push("low", "a:1")
	w.sort("low", byTenant(none))
	w.same("0 lets none run", 0, len(w.takeLanes("p", 0, 9, nil, byTenant(none)("a:")).Jobs))
}

// When Redis's clock goes back by an hour, or another server takes over that is behind,
// neither waits for it: turns go on, and rates count from where they were.
func TestTakeWhenTheClockGoesBack(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	each := Limit{Kind: LimitStarts, Name: "Mail", Keyed: true}
	w.do("HSET", w.s.limits(), each.Spec(), "60000000 1")
	w.push("low", "a:1", "a:2", "b:1", "b:2")
	w.sort("low", byTenant(each))
	lane := byTenant(each)
	out := w.takeLanes("p", 0, 1, nil, lane("a:"))
	w.same("one of a", []string{"a:1"}, payloads(out.Jobs))
	// All that was written lies an hour ahead, as if it had been written then.
	const hour = 3600e6
	ahead := func(text string) int64 {
		at, err := strconv.ParseFloat(text, 64)
		w.must(err)
		return int64(at) + hour
	}
	for _, tenant := range []string{"a:", "b:"} {
		l := lane(tenant)
		w.do("ZADD", w.s.turns(l.Lanes()), ahead(w.server.Text(t, "ZSCORE", w.s.turns(l.Lanes()), l.Own)), l.Own)
	}
	rate := w.s.limitKey(lane("a:").Limits()[0], "p")
	w.do("SET", rate, ahead(w.server.Text(t, "GET", rate)))
	_, last, _ := strings.Cut(w.server.Text(t, "GET", w.s.clock()), " ")
	w.do("SET", w.s.clock(), "0 "+strconv.FormatInt(ahead(last), 10))

	w.push("low", "c:1", "c:2")
	w.sort("low", byTenant(each))
	out = w.takeLanes("p", 1, 9, nil, lane("a:"), lane("b:"), lane("c:"))
	w.same("b and c have their turns, and a waits", []string{"b:1", "c:1"}, payloads(out.Jobs))
	out = w.takeLanes("p", 3, 9, nil, lane("a:"))
	if wait := out.Taken.Shown[0].Next - out.Taken.Now; wait < 50e6 || wait > 60e6 {
		t.Errorf("the next turn is in %d µs, want a minute", wait)
	}
	w.same("the clock went on", "ok", func() string {
		later := w.takeLanes("p", 3, 0, nil, lane("a:"))
		if later.Taken.Now <= out.Taken.Now || later.Taken.Now > out.Taken.Now+30e6 {
			return fmt.Sprint(later.Taken.Now - out.Taken.Now)
		}
		return "ok"
	}())
}

// A rate that was slower does not keep a faster one waiting.
func TestTakeAtANewRate(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	all := Limit{Kind: LimitStarts, Name: "Mail"}
	w.do("HSET", w.s.limits(), all.Spec(), "3600000000 1")
	w.push("low", "a:1", "a:2")
	w.sort("low", byTenant(all))
	out := w.takeLanes("p", 0, 9, nil, byTenant(all)("a:"))
	w.same("one an hour", 1, len(out.Jobs))
	w.do("HSET", w.s.limits(), all.Spec(), "1000 1")
	redistest.Eventually(t, 10*time.Second, "the other", func() bool {
		return len(w.takeLanes("p", 1, 9, nil, byTenant(all)("a:")).Jobs) == 1
	})
}

// A job that waits in a lane, or was taken from one, keeps its lock.
func TestLockOfAJobInALane(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	w.taken(uniqueJob("a", 1, "low"))
	lane := NewLane("low", Limit{Kind: LimitRunning, Name: "U"})
	w.sort("low", func(string) Lane { return lane })
	w.age("a", ProvenFor)
	w.refused("a1", uniqueJob("a", 2, "low"))
	out := w.takeLanes("p", 0, 1, nil, lane)
	w.same("it is taken", 1, len(out.Jobs))
	w.age("a", ProvenFor)
	w.refused("a1", uniqueJob("a", 3, "low"))
	w.takeLanes("p", 1, 0, []Ended{{Ticket: 1, Effects: w.s.LeaveLane(nil, "p", out.Jobs[0], true)}}, lane)
	w.age("a", ProvenFor)
	w.taken(uniqueJob("a", 4, "low"))
}

// Other jobs that wait in lanes are not taken for the holder of a lock.
func TestLockOfAJobGoneFromItsLane(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	lanes := func(payload string) Lane {
		return NewLane("low", Limit{Kind: LimitRunning, Name: "U", Keyed: true, Key: payload[len(payload)-3:]})
	}
	first, other := uniqueJob("a", 1, "low"), uniqueJob("b", 1, "low")
	w.taken(other)
	w.taken(first)
	w.push("low", "x-1", "x-2")
	w.sort("low", lanes)
	w.age("a", ProvenFor)
	w.age("b", ProvenFor)
	w.do("LREM", w.s.lane(lanes(string(first.Payload))), 1, first.Payload)
	w.taken(uniqueJob("a", 2, "low"))
	w.refused("b1", uniqueJob("b", 2, "low"))
}

// If a queue is sorted during the look for a holder, the holder is in a lane that the look does not know.
func TestLockOfAJobSortedMeanwhile(t *testing.T) {
	t.Parallel()
	for _, before := range []int{3, 4, 5, 6} { // whatever is read first
		w := newWire(t)
		w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
		w.taken(uniqueJob("a", 1, "low"))
		w.age("a", ProvenFor)
		other := &wire{t, w.server, w.server.Dial(t), w.s}
		m := &meddler{Conn: w.c, before: before, meddle: func() {
			other.sort("low", func(payload string) Lane {
				return NewLane("low", Limit{Kind: LimitRunning, Name: "U", Keyed: true, Key: "k"})
			})
		}}
		h, _, err := w.s.enqueueUnique(m, uniqueJob("a", 2, "low"))
		w.must(err)
		if h == nil || h.ID != "a1" {
			t.Errorf("sorted before command %d: the lock was taken from a job that waits", before)
		}
	}
}

// A queue that is removed with its lanes is not a sorted one any more. Jobs that are sorted
// meanwhile go with them, or wait where they are found.
func TestRemoveLanes(t *testing.T) {
	t.Parallel()
	lane := func(payload string) Lane {
		return NewLane("low", Limit{Kind: LimitRunning, Name: "All"}, Limit{Kind: LimitNone, Name: "U", Keyed: true, Key: payload})
	}
	for before := range 4 { // whichever command the other is first
		w := newWire(t)
		var many []string
		for i := range removedTogether + 1 {
			many = append(many, strconv.Itoa(i))
		}
		w.push("low", many...)
		for range 3 {
			w.sort("low", lane)
		}
		w.push("high", "a")
		w.sort("high", func(string) Lane { return NewLane("high") })
		other := &wire{t, w.server, w.server.Dial(t), w.s}
		m := &meddler{Conn: w.c, before: before + 1, meddle: func() {
			other.push("low", "0", "1000", "new")
			other.sort("low", lane)
		}}
		w.must(w.s.RemoveLanes(m, "low"))
		waiting, err := w.s.WaitingIn(w.c, "low")
		w.must(err)
		found := 0
		for _, l := range waiting {
			found += int(l.Jobs)
		}
		there := 0
		for _, key := range w.server.Keys(t) {
			if strings.Contains(key, "go:lane:3:low") {
				there += w.server.Int(t, "LLEN", key)
			}
		}
		w.same("jobs that are found", there, found)
		w.must(w.s.RemoveLanes(w.c, "low"))
		w.same("lanes", []string{"4:high"}, w.server.List(t, "SMEMBERS", w.s.lanes()))
		for _, key := range w.server.Keys(t) {
			if strings.Contains(key, "3:low") {
				t.Errorf("the key %s is left", key)
			}
		}
	}
}

// Lanes in which jobs wait are not forgotten.
func TestForgetLanes(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
	lane := NewLane("low", Limit{Kind: LimitNone, Name: "U", Keyed: true, Key: "k"})
	w.push("low", "a")
	w.sort("low", func(string) Lane { return lane })
	w.must(w.s.ForgetLanes(w.c, lane.Lanes()))
	w.same("lanes", []string{lane.Lanes().member()}, w.server.List(t, "SMEMBERS", w.s.lanes()))
	out := w.takeLanes("p", 0, 1, nil, lane)
	w.must(w.s.ForgetLanes(w.c, lane.Lanes()))
	w.same("lanes", []string{}, w.server.List(t, "SMEMBERS", w.s.lanes()))
	w.takeLanes("p", 1, 0, []Ended{{Ticket: 1, Effects: w.s.ToLane(out.Jobs[0], lane)}}, lane)
	w.same("lanes", []string{lane.Lanes().member()}, w.server.List(t, "SMEMBERS", w.s.lanes()))
}

// The ends of jobs that hold a slot of one of the limits that a process ended last share their effects, which name each job's own slot.
func TestLeaveLaneAllocatesNothing(t *testing.T) {
	s, lane := New(""), NewLane("low", Limit{Kind: LimitRunning, Name: "Mail"})
	j := Reserved{Ticket: 7, Queue: "low", Lane: &lane}
	for _, process := range []string{"p", "another"} {
		free := s.LeaveLane(nil, process, j, true)
		if len(free) != 1 || free[0].verb != "SREM" || free[0].keys[0] != setKey("resque:go:slots:c:Mail") || free[0].args[0].(ownSlot).of(j.Ticket) != process+"/7" {
			t.Errorf("the job of %s frees %+v", process, free)
		}
		if more := append(free, effect("SADD", setKey("more"))); len(s.LeaveLane(nil, process, j, true)) != 1 || more[0].verb != "SREM" {
			t.Errorf("an effect more is one of another job's, too: %+v", more)
		}
	}
	var keyed []Lane
	for key := range 10 {
		keyed = append(keyed, NewLane("low", Limit{Kind: LimitRunning, Name: "Mail", Keyed: true, Key: fmt.Sprint("tenant", key)}))
	}
	rate := NewLane("low", Limit{Kind: LimitStarts, Name: "Mail"})
	for _, lanes := range [][]Lane{{lane}, keyed, {rate}} {
		if n := testing.AllocsPerRun(100, func() {
			for i := range lanes {
				s.LeaveLane(nil, "p", Reserved{Ticket: 7, Queue: "low", Lane: &lanes[i]}, true)
			}
		}); n > 0 {
			t.Errorf("%v allocations in %v", n, lanes[0])
		}
	}
	here := NewLane("low", Limit{Kind: LimitRunningHere, Name: "Mail"})
	for _, process := range []string{"p", "another"} {
		free := s.LeaveLane(nil, process, Reserved{Ticket: 7, Queue: "low", Lane: &here}, true)
		if free[0].keys[0] != setKey("resque:go:slots:p:Mail@"+process) {
			t.Errorf("the job of %s frees %+v", process, free)
		}
	}
}

// Where there are as many lanes as jobs are wanted, each gives one, and what is left and shown is the same whether limits are far from used up or near.
func TestTakeFromManyLanes(t *testing.T) {
	t.Parallel()
	const all, want = 60, 55
	name := func(i int) string { return fmt.Sprintf("k%02d", i) }
	for _, number := range []int{2*want + 1, 2 * want, 1} {
		w := newWire(t)
		w.must(w.s.Enter(w.c, someProcess("p"), lease, noon))
		each := Limit{Kind: LimitRunning, Name: "Mail", Keyed: true}
		w.do("HSET", w.s.limits(), each.Spec(), number)
		var jobs []string
		var lanes []Lane
		for i := range all {
			jobs = append(jobs, name(i)+":1")
			lanes = append(lanes, byTenant(each)(name(i)+":"))
		}
		w.push("low", append(jobs, name(3)+":2", name(58)+":2")...)
		w.sort("low", byTenant(each))
		x := &Exchange{Process: "p", Epoch: 1, Last: 7, Take: &Take{Want: want, Lanes: lanes, Look: []Look{{lanes[0].Lanes(), 4}}, Queues: []string{"low"}}}
		out := w.turn(x)
		w.same("one of each", jobs[:want], payloads(out.Jobs))
		for i, j := range out.Jobs {
			w.same("ticket", int64(8+i), j.Ticket)
			limit := j.Lane.Limits()[0]
			w.same("the slot's", 1, w.server.Int(t, "SISMEMBER", w.s.slots(limit.String()), holder("p", j.Ticket)))
			w.same("the record's", lanePrefix(*j.Lane)+string(j.Payload), w.server.Text(t, "HGET", w.s.inflight("p"), strconv.FormatInt(j.Ticket, 10)))
		}
		w.same("lanes whose jobs wait, and then the one that was asked and has another", []string{lanes[55].Own, lanes[56].Own, lanes[57].Own, lanes[58].Own, lanes[59].Own, lanes[3].Own},
			w.server.List(t, "ZRANGE", w.s.turns(lanes[0].Lanes()), 0, -1))
		// What is shown is the same with the turn of each.
		look := func(turns bool) Shown {
			out := w.turn(&Exchange{Process: "p", Epoch: 1, Last: 7 + want, Take: &Take{Turns: turns, Look: []Look{{lanes[0].Lanes(), 4}}, Queues: []string{"low"}}})
			return out.Taken.Shown[0]
		}
		some, each4 := look(false), look(true)
		w.same("how many lanes", each4.Lanes, some.Lanes)
		w.same("the first one's turn", each4.Ready[0].Turn, some.Ready[0].Turn)
		for i := range each4.Ready {
			w.same("lane", each4.Ready[i].Own, some.Ready[i].Own)
		}
		w.do("ZADD", w.s.turns(lanes[0].Lanes()), "XX", 8e15, lanes[56].Own, 9e15, lanes[57].Own, 9e15, lanes[58].Own, 9e15, lanes[59].Own, 9e15, lanes[3].Own)
		some, each4 = look(false), look(true)
		w.same("only one's turn has come", 1, len(some.Ready))
		w.same("the others later", each4, some)

		w.do("DEL", w.s.lane(lanes[55]))
		w.do("SET", w.s.lane(lanes[55]), "x")
		x.Last, x.Take = 7+want, &Take{Want: 3, Lanes: lanes[55:]}
		out = w.turn(x)
		w.same("none from a key of another type", "k56:1", payloads(out.Jobs)[0])
		w.same("which is named", w.s.lane(lanes[55]), out.Taken.Broken[0].Key)
	}
}
