package resque

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// Whatever lanes there are and whatever their limit is, turns that take by takeown.lua and end jobs by the same script leave the same
// behind as turns that take by take.lua and end jobs by exchange.lua.
func TestTakeOwnInTurnsAsTake(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := drawPlay(rt)
		long := p.play(t, w, true)
		if diff := cmp.Diff(long, p.play(t, w, false), cmp.AllowUnexported(Lane{})); diff != "" {
			rt.Errorf("%+v (-long way +short way):\n%s", p, diff)
		}
	})
}

// takingPlay is lanes with jobs and the turns that take them.
type takingPlay struct {
	lanes  []Lane
	sizes  []int // how many jobs each lane has
	number string
	turns  []takingTurn
}

type takingTurn struct {
	asked                []int // which lanes, the next one first
	want, ahead, largest int
	show                 int
	each                 bool
	ends                 int // the job that has run longest of so many ends
	held                 int // slots of other processes
}

func drawPlay(t *rapid.T) (p takingPlay) {
	kind := rapid.SampledFrom([]LimitKind{LimitNone, LimitRunning, LimitRunningHere, LimitStarts, LimitStartsHere}).Draw(t, "kind")
	limit, turn := Limit{Kind: kind, Name: "Mail"}, Limit{Kind: LimitNone, Name: "Mail", Keyed: true}
	own := kind != LimitStarts && rapid.Bool().Draw(t, "own limits")
	for i := range rapid.IntRange(1, 7).Draw(t, "lanes") {
		limit.Keyed, limit.Key, turn.Key = own, fmt.Sprint("k", i), fmt.Sprint("k", i)
		if own {
			p.lanes = append(p.lanes, NewLane("low", limit))
		} else {
			p.lanes = append(p.lanes, NewLane("low", limit, turn))
		}
		p.sizes = append(p.sizes, rapid.IntRange(0, 40).Draw(t, "jobs"))
	}
	p.number = rapid.SampledFrom([]string{"1", "3", "10", "30", "100", "1000", "1000 7"}).Draw(t, "number")
	for range rapid.IntRange(1, 4).Draw(t, "turns") {
		order := rapid.Permutation(seq(len(p.lanes))).Draw(t, "asked")
		turn := takingTurn{
			asked: order[:rapid.IntRange(1, len(order)).Draw(t, "so many")], want: rapid.IntRange(1, 90).Draw(t, "want"),
			largest: rapid.SampledFrom([]int{0, 8, 100}).Draw(t, "largest"), show: rapid.IntRange(1, 9).Draw(t, "show"), each: rapid.Bool().Draw(t, "each"),
			ends: rapid.IntRange(1, 3).Draw(t, "ends"), held: rapid.SampledFrom([]int{0, 0, 2}).Draw(t, "held"),
		}
		turn.ahead = rapid.IntRange(0, turn.want).Draw(t, "ahead")
		p.turns = append(p.turns, turn)
	}
	return p
}

func seq(n int) (list []int) {
	for i := range n {
		list = append(list, i)
	}
	return list
}

// play takes the turns, and returns what each of them has left.
func (p takingPlay) play(t *testing.T, w *wire, long bool) (left []string) {
	w.do("FLUSHALL")
	for _, known := range []*Script{takeScript, takeOwn, exchangeScript, exchangeEnds.with(nil)} {
		w.do("SCRIPT", "LOAD", known.Text())
	}
	set := p.lanes[0].Lanes()
	for _, limit := range p.lanes[0].Limits() {
		w.do("HSET", w.s.limits(), limit.Spec(), p.number)
	}
	for i, lane := range p.lanes {
		for n := range p.sizes[i] {
			w.do("RPUSH", w.s.lane(lane), fmt.Sprintf("%d/%d", i, n))
			w.do("ZADD", w.s.turns(set), i, lane.Own)
		}
	}
	m := w.enter("p")
	m.last = 99
	var running []Reserved
	for i, turn := range p.turns {
		w.do("SET", w.s.clock(), fmt.Sprint("0 ", 9000000000000000+5000*i)) // the clock of the turn
		var x Exchange
		x.Take = &Take{Want: turn.want, Ahead: turn.ahead, Largest: turn.largest, Look: []Look{{set, turn.show}}, Turns: turn.each, Queues: []string{"low"}}
		if long {
			x.Handed, x.Take.Queues = "1", append(x.Take.Queues, "none")
		}
		for _, i := range turn.asked {
			x.Take.Lanes = append(x.Take.Lanes, p.lanes[i])
		}
		for n := 0; n < turn.held; n++ {
			if key := w.limitOf(x.Take.Lanes[0]); w.server.Text(t, "TYPE", key) == "set" {
				w.do("SADD", key, fmt.Sprint("other/", n))
			}
		}
		stay := running[:0:0]
		for n, j := range running {
			free := w.s.LeaveLane(nil, "p", j, true)
			switch {
			case n%turn.ends > 0:
				stay = append(stay, j)
			case free == nil:
				x.Done = append(x.Done, j.Ticket)
			default:
				x.Ended = append(x.Ended, Ended{Ticket: j.Ticket, Counts: CountsDone, Effects: free})
			}
		}
		out := m.turn(x)
		running = append(stay, out.Jobs...)
		jobs := ""
		for _, j := range out.Jobs {
			jobs += fmt.Sprintf("%d %s %s; ", j.Ticket, j.Lane.Own, j.Payload)
		}
		var ready []string
		for _, r := range out.Taken.Shown[0].Ready {
			ready = append(ready, r.Own)
		}
		full := make([]string, 0, 1)
		for limit, until := range out.Taken.Full {
			full = append(full, fmt.Sprint(limit, until))
		}
		slices.Sort(full)
		left = append(left, jobs, fmt.Sprint(out.Missing, out.Broken, out.Refused, out.Taken.Shown[0].Lanes, ready, full, w.stats()),
			fmt.Sprint(sorted(w.record("p")), w.server.List(t, "ZRANGE", w.s.turns(set), 0, -1)))
		for _, lane := range p.lanes {
			holders := []string{}
			if key := w.limitOf(lane); w.server.Text(t, "TYPE", key) == "set" {
				holders = sorted(w.server.List(t, "SMEMBERS", key))
			} else {
				holders = append(holders, w.server.Text(t, "GET", key))
			}
			left = append(left, fmt.Sprint(w.server.List(t, "LRANGE", w.s.lane(lane), 0, -1), holders))
		}
	}
	return left
}
