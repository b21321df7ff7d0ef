package resque

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// In any sequence of pushes, sorting, taking, lost answers, kills and recoveries,
// every job is in exactly one place, those of a tenant are in their order, a slot is held
// for each job that runs and for no other, and no more are held than there are.
func TestLanesLoseNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	rapid.Check(t, func(rt *rapid.T) {
		w.do("FLUSHALL")
		l := &laneRun{T: rt, w: w, place: map[string]string{}}
		w.do("HSET", w.s.limits(), ofTenant.Spec(), 1, ofAll.Spec(), 3, turns.Spec(), "1000 2")
		rt.Repeat(map[string]func(*rapid.T){
			"push": l.push, "sort": l.sort, "forget": l.forget, "take": l.take, "again": l.take, "enter": l.enter, "kill": l.kill,
			"": func(*rapid.T) { l.check() },
		})
	})
}

var (
	ofTenant = Limit{Kind: LimitRunning, Name: "Mail", Keyed: true}
	ofAll    = Limit{Kind: LimitRunning, Name: "All"}
	turns    = Limit{Kind: LimitStarts, Name: "Mail", Keyed: true}
)

type laneRun struct {
	*rapid.T
	w     *wire
	jobs  int
	procs []*laneProc
	place map[string]string // jobs that have ended, and how
	shown *Sorting          // what a look has shown of the queue
}

type laneProc struct {
	id          string
	epoch, last int64
	held        []Reserved
	dead        bool
}

func (l *laneRun) must(err error) {
	l.Helper()
	if err != nil {
		l.Fatal(err)
	}
}

func (l *laneRun) push(t *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(t, "jobs") {
		l.jobs++
		l.must(l.w.s.Push(l.w.c, "low", fmt.Appendf(nil, "%s:%04d", rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "tenant"), l.jobs)))
	}
}

func (l *laneRun) lane(payload string) Lane { return byTenant(ofTenant, ofAll, turns)(payload) }

// sort sorts what it has read, perhaps after another process did.
func (l *laneRun) sort(t *rapid.T) {
	raws, err := l.w.s.Peek(l.w.c, "low", 0, rapid.IntRange(1, 6).Draw(t, "read"))
	l.must(err)
	if len(raws) == 0 {
		t.Skip("nothing to sort")
	}
	lanes := make([]Lane, len(raws))
	for i, raw := range raws {
		lanes[i] = l.lane(string(raw))
	}
	l.w.do("SCRIPT", "LOAD", scriptText("sort"))
	l.w.do("SCRIPT", "LOAD", scriptText("sortlane"))
	for range rapid.IntRange(1, 2).Draw(t, "times") {
		_, next, err := l.w.s.Sort(l.w.c, "low", raws, lanes, Next{Most: 2})
		l.must(err)
		if head := l.w.queue("low"); len(next) != min(2, len(head)) || len(next) > 0 && string(next[0]) != head[0] {
			l.Errorf("the next jobs are %q, and the queue has %v", next, head)
		}
	}
}

// forget removes lanes from the fleet's, as a process does that found them empty for long.
func (l *laneRun) forget(t *rapid.T) { l.must(l.w.s.ForgetLanes(l.w.c, l.lane("a:").Lanes())) }

func (l *laneRun) enter(t *rapid.T) {
	alive := slices.DeleteFunc(slices.Clone(l.procs), func(p *laneProc) bool { return p.dead })
	if len(alive) > 2 {
		t.Skip("enough processes")
	}
	p := &laneProc{id: fmt.Sprint("p", len(l.procs)), epoch: 1}
	l.must(l.w.s.Enter(l.w.c, someProcess(p.id), lease, noon))
	l.procs = append(l.procs, p)
}

func (l *laneRun) draw(t *rapid.T) *laneProc {
	alive := slices.DeleteFunc(slices.Clone(l.procs), func(p *laneProc) bool { return p.dead })
	if len(alive) == 0 {
		t.Skip("no process")
	}
	return rapid.SampledFrom(alive).Draw(t, "process")
}

// take is a turn of a process: some of its jobs end, and it asks some lanes for more. The
// answer may be lost; then the process resyncs, and Redis runs the request late.
func (l *laneRun) take(t *rapid.T) {
	l.w.do("SCRIPT", "LOAD", commitScript.plain.Text())
	p := l.draw(t)
	x := &Exchange{Process: p.id, Epoch: p.epoch, Last: p.last, Take: &Take{Want: rapid.IntRange(0, 4).Draw(t, "want"),
		Look: []Look{{l.lane("a:").Lanes(), 9}}, Queues: []string{"low"}, Arm: false}}
	x.Take.Ahead = rapid.IntRange(0, x.Take.Want).Draw(t, "ahead")
	ends := make(map[string]string)
	var keep []Reserved
	for _, j := range slices.Backward(p.held) {
		switch how := rapid.SampledFrom([]string{"runs on", "done", "failed", "back"}).Draw(t, "outcome"); how {
		case "runs on":
			keep = append(keep, j)
		case "back":
			x.Ended = append(x.Ended, Ended{Ticket: j.Ticket, Effects: l.w.s.LeaveLane(l.w.s.ToLane(j, *j.Lane), p.id, j, false)})
		case "failed":
			x.Ended = append(x.Ended, Ended{Ticket: j.Ticket, Counts: CountsFailed,
				Effects: append(l.w.s.LeaveLane(nil, p.id, j, true), l.w.s.FileFailure("low", j.Payload, false)...)})
			ends[string(j.Payload)] = "failed"
		default:
			x.Ended = append(x.Ended, Ended{Ticket: j.Ticket, Counts: CountsDone, Effects: l.w.s.LeaveLane(nil, p.id, j, true)})
			ends[string(j.Payload)] = "done"
		}
	}
	for _, tenant := range rapid.Permutation([]string{"a:", "b:", "c:", "nothing:"}).Draw(t, "lanes") {
		x.Take.Lanes = append(x.Take.Lanes, l.lane(tenant))
	}
	l.shown, x.Sorting, x.Take.Heads = nil, l.shown, rapid.IntRange(0, 3).Draw(t, "heads")
	lost := rapid.SampledFrom([]string{"", "", "answer", "request"}).Draw(t, "lost")
	if lost != "request" {
		l.must(l.w.s.Send(l.w.c, x))
		out, err := l.w.s.Receive(l.w.c, x)
		l.must(err)
		for payload, how := range ends {
			l.place[payload] = how
		}
		p.held = append(keep, out.Jobs...)
		if heads := out.Taken.Heads; len(heads) > 0 { // another exchange moves them, perhaps when others have
			l.shown = &Sorting{Queue: "low", Jobs: heads}
			for _, raw := range heads {
				l.shown.Lanes = append(l.shown.Lanes, l.lane(string(raw)))
			}
		}
		for _, j := range out.Jobs {
			p.last = max(p.last, j.Ticket)
		}
	}
	if lost == "" {
		return
	}
	epoch, tickets, _, err := l.w.s.Resync(l.w.c, p.id)
	l.must(err)
	p.epoch = epoch
	p.held, _, err = l.w.s.ReadReserved(l.w.c, p.id, tickets)
	l.must(err)
	for _, ticket := range tickets {
		p.last = max(p.last, ticket)
	}
	l.must(l.w.s.Send(l.w.c, x))
	if _, err := l.w.s.Receive(l.w.c, x); !errors.Is(err, ErrStale) {
		l.Fatalf("a late request got %v, want ErrStale", err)
	}
}

func (l *laneRun) kill(t *rapid.T) {
	p := l.draw(t)
	p.dead = true
	fenced, err := l.w.s.Fence(l.w.c, p.id, l.w.server.Text(l.w.t, "ZSCORE", l.w.s.processes(), p.id))
	l.must(err)
	if !fenced {
		l.Fatal("not fenced")
	}
	total, err := l.w.s.Recover(l.w.c, someProcess(p.id), 0, noon, deadEnds(l.w.s, false, noon))
	l.must(err)
	if len(total.Refused) > 0 || total.Requeued != len(p.held) {
		l.Fatalf("recovered %+v of %d jobs", total, len(p.held))
	}
	left, err := l.w.s.Leave(l.w.c, p.id)
	l.must(err)
	if left != 0 {
		l.Fatalf("%d jobs are left in a record", left)
	}
}

func (l *laneRun) check() {
	l.Helper()
	at := make(map[string][]string)
	put := func(where string, payloads ...string) {
		for _, p := range payloads {
			at[p] = append(at[p], where)
		}
	}
	list := func(command, key string, args ...any) []string {
		return l.w.server.List(l.w.t, command, append([]any{key}, args...)...)
	}
	put("queue", l.w.queue("low")...)
	for payload, how := range l.place {
		put(how, payload)
	}
	running := make(map[string][]string) // holders by limit
	for _, p := range l.procs {
		tickets := parseTickets(list("HKEYS", l.w.s.inflight(p.id)))
		jobs, _, err := l.w.s.ReadReserved(l.w.c, p.id, tickets)
		l.must(err)
		for _, j := range jobs {
			put("record", string(j.Payload))
			for _, limit := range j.Lane.Limits() {
				if limit.running() {
					key := l.w.s.limitKey(limit, p.id)
					running[key] = append(running[key], holder(p.id, j.Ticket))
				}
			}
		}
	}
	for _, tenant := range []string{"a", "b", "c"} {
		lane := l.lane(tenant + ":")
		waiting := list("LRANGE", l.w.s.lane(lane), 0, -1)
		put("lane", waiting...)
		if !slices.IsSorted(waiting) {
			l.Errorf("tenant %s waits in the order %v", tenant, waiting)
		}
		if len(waiting) > 0 && (!slices.Contains(list("ZRANGE", l.w.s.turns(lane.Lanes()), 0, -1), lane.Own) ||
			!slices.Contains(list("SMEMBERS", l.w.s.lanes()), lane.Lanes().member())) {
			l.Errorf("the lane of %s has jobs and no turn", tenant)
		}
		for _, limit := range lane.Limits() {
			if !limit.running() {
				continue
			}
			key := l.w.s.limitKey(limit, "")
			holders, want := list("SMEMBERS", key), running[key]
			slices.Sort(holders)
			slices.Sort(want)
			if !slices.Equal(holders, slices.Compact(want)) {
				l.Errorf("%s is held by %v, and there run %v", key, holders, want)
			}
			if most := map[bool]int{true: 1, false: 3}[limit.Keyed]; len(holders) > most {
				l.Errorf("%s is held by %v, want at most %d", key, holders, most)
			}
		}
	}
	for payload, places := range at {
		if len(places) != 1 {
			l.Errorf("job %s is in %s", payload, strings.Join(places, " and "))
		}
	}
	if len(at) != l.jobs {
		l.Errorf("%d of %d jobs are anywhere", len(at), l.jobs)
	}
}
