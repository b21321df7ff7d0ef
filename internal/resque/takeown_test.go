package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A turn that takes from lanes has the same outcome where takeown.lua takes, or where take.lua also ends jobs, in whatever state Redis is.
func TestTakeOwnAsTake(t *testing.T) {
	t.Parallel()
	states := []struct {
		name  string
		upset func(w *wire, m *proc, lane Lane)
	}{
		{"nothing special", func(*wire, *proc, Lane) {}},
		{"the lane is nearly empty", func(w *wire, _ *proc, lane Lane) { w.do("LTRIM", w.s.lane(lane), 0, 0) }},
		{"the lane is empty", func(w *wire, _ *proc, lane Lane) { w.do("DEL", w.s.lane(lane)) }},
		{"the lane has another type", func(w *wire, _ *proc, lane Lane) { w.spoil(w.s.lane(lane)) }},
		{"the turns have another type", func(w *wire, _ *proc, lane Lane) { w.spoil(w.s.turns(lane.Lanes())) }},
		{"there are more lanes", func(w *wire, _ *proc, lane Lane) {
			w.do("ZADD", w.s.turns(lane.Lanes()), 1, "x", 2, "y", 3, "z", 1e18, "later")
		}},
		{"the limit's key has another type", func(w *wire, _ *proc, lane Lane) { w.spoil(w.limitOf(lane)) }},
		{"its numbers have another type", func(w *wire, _ *proc, _ Lane) { w.spoil(w.s.limits()) }},
		{"its number is none", func(w *wire, _ *proc, lane Lane) {
			for _, limit := range lane.Limits() {
				w.do("HSET", w.s.limits(), limit.Spec(), "many")
			}
		}},
		{"its number is lost", func(w *wire, _ *proc, _ Lane) { w.do("DEL", w.s.limits()) }},
		{"another process holds slots", func(w *wire, _ *proc, lane Lane) {
			if key := w.limitOf(lane); w.server.Text(t, "TYPE", key) == "set" {
				w.do("SADD", key, "other/1", "other/2")
			}
		}},
		{"the clock was ahead", func(w *wire, _ *proc, _ Lane) { w.do("SET", w.s.clock(), "0 9000000000000000") }},
		{"jobs wait in the queue", func(w *wire, _ *proc, _ Lane) { w.push("low", names("q", 9)...) }},
		{"the queue has another type", func(w *wire, _ *proc, _ Lane) { w.spoil(w.s.KeyOfQueue("low")) }},
		{"the total has another type", func(w *wire, _ *proc, _ Lane) { w.spoil(w.s.stat("processed")) }},
		{"a ticket is missing", func(w *wire, _ *proc, _ Lane) { w.do("HDEL", w.s.inflight("p"), 101) }},
		{"the record was removed", func(w *wire, _ *proc, _ Lane) { w.do("DEL", w.s.inflight("p")) }},
		{"the record has another type", func(w *wire, _ *proc, _ Lane) { w.spoil(w.s.inflight("p")) }},
		{"jobs were found in dead processes", func(w *wire, _ *proc, _ Lane) { w.do("HSET", w.s.recovered(), "digest", "1 1") }},
		{"the fleet is paused", func(w *wire, _ *proc, _ Lane) { w.do("SET", w.s.pauseAll(), " True ") }},
		{"the process is fenced", func(_ *wire, m *proc, _ Lane) { m.die() }},
		{"the process is fenced, and its record is there", func(w *wire, m *proc, _ Lane) { m.die(); w.do("HSET", w.s.process("p"), "epoch", 1) }},
		{"the lease is gone", func(w *wire, _ *proc, _ Lane) { w.do("ZREM", w.s.processes(), "p") }},
		{"the epoch is newer", func(w *wire, _ *proc, _ Lane) { w.do("HINCRBY", w.s.process("p"), "epoch", 1) }},
		{"Redis is full", func(w *wire, _ *proc, _ Lane) {
			w.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
			w.do("CONFIG", "SET", "maxmemory", "1")
		}},
	}
	running, here := Limit{Kind: LimitRunning, Name: "Mail"}, Limit{Kind: LimitRunningHere, Name: "Mail"}
	starts, startsHere := Limit{Kind: LimitStarts, Name: "Mail"}, Limit{Kind: LimitStartsHere, Name: "Mail"}
	keyed := func(limit Limit, key string) Limit {
		limit.Keyed, limit.Key = true, key
		return limit
	}
	of := func(limit Limit, keys ...string) (lanes []Lane) { // one for each key
		for _, key := range keys {
			lanes = append(lanes, NewLane("low", keyed(limit, key)))
		}
		return lanes
	}
	turns := func(limit Limit, keys ...string) (lanes []Lane) { // by key, all under the limit
		for _, key := range keys {
			lanes = append(lanes, NewLane("low", limit, keyed(Limit{Kind: LimitNone, Name: "Mail"}, key)))
		}
		return lanes
	}
	cases := []struct {
		number string
		lanes  []Lane
		sizes  []int
	}{
		{"1000", []Lane{NewLane("low", running)}, []int{1, 3, 25}},
		{"7", []Lane{NewLane("low", running)}, []int{3, 25}},
		{"20", []Lane{NewLane("low", here)}, []int{25}},
		{"30", of(running, "k"), []int{25}},
		{"10000000", []Lane{NewLane("low", starts)}, []int{1, 25}},
		{"1000000 5", []Lane{NewLane("low", startsHere)}, []int{3, 25}},
		{"1", []Lane{NewLane("low", starts)}, []int{25}},
		{"0", []Lane{NewLane("low", starts)}, []int{25}},
		{"", of(Limit{Kind: LimitNone, Name: "Mail"}, "k"), []int{25}},
		{"", of(Limit{Kind: LimitNone, Name: "Mail"}, "k", "l", "m"), []int{4, 25, 90}},
		{"1000", turns(running, "k", "l", "m"), []int{25}},
		{"9", turns(running, "k", "l"), []int{25}},
		{"10", turns(starts, "k", "l"), []int{25}},
		{"1000", of(running, "k", "l", "m"), []int{4, 90}},
		{"30", of(running, "k", "l", "m"), []int{25}},
		{"5", of(here, "k", "l"), []int{25}},
		{"10", of(startsHere, "k", "l"), []int{25}},
		{"8", slices.Insert(of(running, "k", "l"), 1, NewLane("low", keyed(running, "k"), keyed(Limit{Kind: LimitNone, Name: "Mail"}, "x"))), []int{25}},
		{"1000", of(running, "k", "l", "m"), []int{2, 3}}, // by take.lua
	}
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			for i, c := range cases {
				for _, n := range c.sizes {
					type outcome struct {
						Out                  Exchanged
						Err, Stats           string
						Record, Turns, Types []string
						Lanes, Holders       [][]string
					}
					var outcomes [2]outcome
					for way := range outcomes {
						w := newWire(t)
						for _, known := range []*Script{takeScript, takeOwn, exchangeScript, exchangeEnds.with(nil)} {
							w.do("SCRIPT", "LOAD", known.Text())
						}
						lane := c.lanes[len(c.lanes)-1] // that of most jobs
						for _, limit := range lane.Limits() {
							w.do("HSET", w.s.limits(), limit.Spec(), c.number)
						}
						w.push("low", names("a", 200)...)
						nth := 0
						w.sort("low", func(string) Lane {
							nth++
							if n := nth / 7; n < len(c.lanes) && nth%7 > n {
								return c.lanes[n]
							}
							return lane
						})
						m := w.enter("p")
						m.last = 99
						take := func() *Take {
							x := &Take{Want: n, Ahead: n / 2, Lanes: c.lanes, Look: []Look{{lane.Lanes(), 10}}, Queues: []string{"low"}, Heads: 3}
							if way == 1 {
								x.Queues = append(x.Queues, "none")
							}
							return x
						}
						jobs := m.turn(Exchange{Take: take()}).Jobs
						state.upset(w, m, lane)
						x := Exchange{Take: take(), Done: []int64{5000}}
						if way == 1 {
							x.Handed = "1"
						}
						for _, j := range jobs {
							if free := w.s.LeaveLane(nil, "p", j, true); free == nil {
								x.Done = append(x.Done, j.Ticket)
							} else {
								x.Ended = append(x.Ended, Ended{Ticket: j.Ticket, Counts: CountsDone, Effects: free})
							}
						}
						out, err := m.try(x)
						o := outcome{Out: out}
						if err != nil {
							o.Err, _, _ = strings.Cut(err.Error(), " script:")
						}
						if taken := o.Out.Taken; taken != nil {
							taken.Now, taken.Waiting, taken.Broken = 0, taken.Waiting[:1], nil
							for limit, until := range taken.Full {
								taken.Full[limit] = min(until, 1)
							}
							for i := range taken.Shown {
								shown := &taken.Shown[i]
								shown.Next = min(shown.Next, 1)
								for j := range shown.Ready {
									shown.Ready[j].Turn = 0
								}
							}
						}
						slices.SortFunc(o.Out.Broken, func(a, b KeyError) int { return strings.Compare(a.Key, b.Key) })
						o.Out.Broken = slices.Compact(o.Out.Broken)
						if n == 1 && w.server.Text(t, "TYPE", w.s.lane(lane)) != "list" {
							o.Out.Broken = nil // where one job is wanted, take.lua first looks only whether the list is there
						}
						read := func(key, kind, command string, args ...any) []string {
							if w.server.Text(t, "TYPE", key) != kind {
								return nil
							}
							return w.server.List(t, command, append([]any{key}, args...)...)
						}
						o.Record = sorted(read(w.s.inflight("p"), "hash", "HGETALL"))
						o.Turns = read(w.s.turns(lane.Lanes()), "zset", "ZRANGE", 0, -1)
						for _, lane := range c.lanes {
							key := w.limitOf(lane)
							o.Lanes = append(o.Lanes, read(w.s.lane(lane), "list", "LRANGE", 0, -1))
							o.Holders = append(o.Holders, sorted(read(key, "set", "SMEMBERS")))
							o.Types = append(o.Types, w.server.Text(t, "TYPE", key))
						}
						if w.server.Text(t, "TYPE", w.s.stat("processed")) == "string" {
							o.Stats = fmt.Sprint(w.stats())
						}
						outcomes[way] = o
					}
					if diff := cmp.Diff(outcomes[1], outcomes[0], cmp.AllowUnexported(Lane{})); diff != "" {
						t.Errorf("case %d, %d jobs (-long way +short way):\n%s", i, n, diff)
					}
				}
			}
		})
	}
}

// limitOf returns the key at which jobs of a lane are counted; of a lane without a limit it is any.
func (w *wire) limitOf(lane Lane) string {
	if limits := lane.Limits(); len(limits) > 0 {
		return w.s.limitKey(limits[0], "p")
	}
	return w.s.slots("none")
}

// A server that does not know the scripts refuses the end of a job whose slot is not where it should be, and keeps the job.
func TestTakeOwnRefusesAnEnd(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	limit := Limit{Kind: LimitRunning, Name: "Mail"}
	lane := NewLane("low", limit)
	w.do("HSET", w.s.limits(), limit.Spec(), 5)
	w.push("low", names("a", 3)...)
	w.sort("low", func(string) Lane { return lane })
	m := w.enter("p")
	take := &Take{Want: 1, Lanes: []Lane{lane}, Look: []Look{{lane.Lanes(), 10}}, Queues: []string{"low"}}
	jobs := m.turn(Exchange{Take: take}).Jobs
	free := w.s.LeaveLane(nil, "p", jobs[0], true)
	w.spoil(w.s.limitKey(limit, "p"))
	w.do("SCRIPT", "FLUSH")
	out := m.turn(Exchange{Take: take, Ended: []Ended{{Ticket: jobs[0].Ticket, Counts: CountsDone, Effects: free}}})
	if len(out.Refused) != 1 || len(out.Jobs) != 0 {
		t.Errorf("got %+v", out)
	}
	w.same("jobs in the record", 1, len(w.record("p")))
}
