package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A turn that takes from one lane under one limit has the same outcome by the short way, in whatever state Redis is.
func TestTakeOneAsTakeMany(t *testing.T) {
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
		{"the limit's key has another type", func(w *wire, _ *proc, lane Lane) { w.spoil(w.s.limitKey(lane.Limits()[0], "p")) }},
		{"its numbers have another type", func(w *wire, _ *proc, _ Lane) { w.spoil(w.s.limits()) }},
		{"its number is none", func(w *wire, _ *proc, lane Lane) { w.do("HSET", w.s.limits(), lane.Limits()[0].Spec(), "many") }},
		{"its number is lost", func(w *wire, _ *proc, _ Lane) { w.do("DEL", w.s.limits()) }},
		{"another process holds slots", func(w *wire, _ *proc, lane Lane) {
			if key := w.s.limitKey(lane.Limits()[0], "p"); w.server.Text(t, "TYPE", key) == "set" {
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
	limits := map[string]Limit{
		"1000": {Kind: LimitRunning, Name: "Mail"}, "7": {Kind: LimitRunning, Name: "Mail"}, "20": {Kind: LimitRunningHere, Name: "Mail"}, "30": {Kind: LimitRunning, Name: "Mail", Keyed: true, Key: "k"},
		"10000000": {Kind: LimitStarts, Name: "Mail"}, "1000000 5": {Kind: LimitStartsHere, Name: "Mail"}, "1": {Kind: LimitStarts, Name: "Mail"}, "0": {Kind: LimitStarts, Name: "Mail"},
	}
	for _, state := range states {
		t.Run(state.name, func(t *testing.T) {
			t.Parallel()
			for number, limit := range limits {
				for _, n := range []int{1, 3, 25} {
					type outcome struct {
						Out                          Exchanged
						Err, Stats, Type             string
						Record, Lane, Holders, Lanes []string
					}
					var outcomes [2]outcome
					for way := range outcomes {
						w := newWire(t)
						for _, known := range []*Script{takeScript, takeOne, exchangeScript, exchangeEnds.with(nil)} {
							w.do("SCRIPT", "LOAD", known.Text())
						}
						lane := NewLane("low", limit)
						w.do("HSET", w.s.limits(), limit.Spec(), number)
						w.push("low", names("a", 100)...)
						w.sort("low", func(string) Lane { return lane })
						m := w.enter("p")
						m.last = 99
						take := func() *Take {
							x := &Take{Want: n, Ahead: n / 2, Lanes: []Lane{lane}, Look: []Look{{lane.Lanes(), 10}}, Queues: []string{"low"}, Heads: 3}
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
						key := w.s.limitKey(limit, "p")
						for _, of := range []struct {
							key, kind string
							into      *[]string
							list      []any
						}{
							{w.s.inflight("p"), "hash", &o.Record, []any{"HGETALL"}}, {w.s.lane(lane), "list", &o.Lane, []any{"LRANGE", 0, -1}},
							{key, "set", &o.Holders, []any{"SMEMBERS"}}, {w.s.turns(lane.Lanes()), "zset", &o.Lanes, []any{"ZRANGE", 0, -1}},
						} {
							if w.server.Text(t, "TYPE", of.key) == of.kind {
								*of.into = sorted(w.server.List(t, of.list[0].(string), append([]any{of.key}, of.list[1:]...)...))
							}
						}
						o.Type = w.server.Text(t, "TYPE", key)
						if w.server.Text(t, "TYPE", w.s.stat("processed")) == "string" {
							o.Stats = fmt.Sprint(w.stats())
						}
						outcomes[way] = o
					}
					if diff := cmp.Diff(outcomes[1], outcomes[0], cmp.AllowUnexported(Lane{})); diff != "" {
						t.Errorf("%s %q, %d jobs (-long way +short way):\n%s", limit, number, n, diff)
					}
				}
			}
		})
	}
}

// A server that does not know the scripts refuses the end of a job whose slot is not where it should be, and keeps the job.
func TestTakeOneRefusesAnEnd(t *testing.T) {
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
