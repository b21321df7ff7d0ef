package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// endsMark is a verb that leaves a job whose list has an element "stay", refuses one whose hash says so, and else writes.
var endsMark = NewVerb("endsmark", `
function proofs.endsmark(job, keys, args)
  if call('LINDEX', keys[2], 0) == 'stay' then return '' end
  if call('HGET', keys[1], 'refuse') then return 'REFUSED as asked', keys[1] end
end
function verbs.endsmark(job, keys, args)
  call('HSET', keys[1], args[1], job.ticket .. ' ' .. (job.bytes or ''))
  call('RPUSH', keys[2], unpack(args))
  fills(keys[2])
end`)

// endsMany is a verb that writes those of a run at once: each adds to a sum, unless a hash says otherwise.
var endsMany = NewVerb("endsmany", `
local function add(hash, list, n)
  call('HSET', hash, 'sum', (tonumber(call('HGET', hash, 'sum') or '') or 0) + n)
  call('RPUSH', list, n)
  fills(list)
end
function proofs.endsmany(job, keys, args)
  if call('HGET', keys[1], 'refuse') then return 'REFUSED as asked', keys[1] end
end
function verbs.endsmany(job, keys, args) add(keys[1], keys[2], args[1]) end
function many.endsmany(all)
  local hashes, lists, values = all.keysof[1], all.keysof[2], all.argsof[1]
  for i = 1, all.n do
    if type(try('HLEN', hashes and hashes[i] or all.keys[1])) == 'table' or type(try('LLEN', lists and lists[i] or all.keys[2])) == 'table'
      or call('HEXISTS', hashes and hashes[i] or all.keys[1], 'refuse') == 1 then return end
  end
  for i = 1, all.n do
    add(hashes and hashes[i] or all.keys[1], lists and lists[i] or all.keys[2], values and values[i] or all.args[1])
  end
  return true
end`)

// Whatever ends there are, an exchange writes and answers what commit.lua does: with keys of wrong types, tickets that
// are not in the record, and after the process was found dead. Many ends are like the one before.
func TestExchangeEndsAsCommitDoes(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	s := w.s
	keys := []Key{s.HashKey("h1"), s.HashKey("h2"), s.ListKey("l1"), s.ListKey("l2"), s.ZSetKey("z"), s.SetKey("s"), s.SetKey("s2")}
	rapid.Check(t, func(rt *rapid.T) {
		row := func() Effect {
			n := rapid.IntRange(0, 2).Draw(rt, "value")
			h, l := keys[rapid.IntRange(0, 1).Draw(rt, "hash")], keys[rapid.IntRange(2, 3).Draw(rt, "list")]
			var e Effect
			switch rapid.IntRange(0, 13).Draw(rt, "row") {
			case 0:
				e = Command("HSET", h, "f", n)
			case 1:
				e = Command("HINCRBY", h, "n", int64(n))
			case 2:
				e = Command("RPUSH", l, fmt.Append(nil, "v", n))
			case 3:
				e = Command("ZADD", keys[4], n, fmt.Sprint("m", n))
			case 4:
				e = Command("SREM", keys[5], "a", fmt.Sprint("b", n))
				if n > 0 {
					e = Command("SREM", keys[5], fmt.Sprint("b", n))
				}
			case 5:
				e = Command("SET", s.AnyKey("any"), n)
			case 6:
				e = endsMark.Effect([]Key{h, l}, fmt.Sprint("a", n), "b")
			case 7:
				e = effect(rapid.SampledFrom([]string{"head", "tail"}).Draw(rt, "end"), l, len(JobPrefix("low")))
			case 13:
				e = effect("later", keys[4], n)
			case 8:
				e = effect("hold", h, fmt.Sprint("id", n), "text", 60_000)
			case 9:
				e = Command("HDEL", h, fmt.Sprint("id", n))
			case 10, 11:
				e = endsMany.Effect([]Key{h, l}, n)
			default:
				e = endsMark.Effect([]Key{h, l}, "c")
			}
			if rapid.Bool().Draw(rt, "soft") {
				e = e.Soft()
			}
			return e
		}
		alike := rapid.Bool().Draw(rt, "all are alike, of one row")
		var ended []Ended
		for ticket := range int64(rapid.IntRange(1, 8).Draw(rt, "ends")) {
			e := Ended{Ticket: ticket + 1, Counts: rapid.SampledFrom([]Counts{CountsDone, CountsFailed, CountsNothing}).Draw(rt, "counts")}
			if last := len(ended) - 1; last >= 0 && (alike || rapid.Bool().Draw(rt, "like the last")) {
				e.Counts, e.Effects, e.Bytes = ended[last].Counts, likewise(rt, ended[last].Effects), ended[last].Bytes
				ended = append(ended, e)
				continue
			}
			rows := 1
			if !alike {
				rows = rapid.IntRange(0, 3).Draw(rt, "rows")
			}
			for range rows {
				e.Effects = append(e.Effects, row())
			}
			if rapid.IntRange(0, 3).Draw(rt, "bytes") == 0 {
				e.Bytes = []byte("own")
			}
			ended = append(ended, e)
		}
		gone := rapid.SliceOf(rapid.Int64Range(1, 8)).Draw(rt, "not in the record")
		spoiled := rapid.SliceOfN(rapid.SampledFrom(keys), 0, 2).Draw(rt, "spoiled")
		found, says := rapid.Bool().Draw(rt, "found dead"), rapid.IntRange(0, 3).Draw(rt, "says")
		locks := rapid.Bool().Draw(rt, "locks")
		apart := rapid.SliceOf(rapid.Int64Range(1, 8)).Draw(rt, "their payloads are apart")
		begin := func() *proc {
			w.do("FLUSHDB")
			m := w.enter("p")
			for ticket := range int64(8) {
				switch at, payload := ticket+1, fmt.Sprint("j", ticket); {
				case slices.Contains(gone, at):
				case slices.Contains(apart, at):
					w.do("HSET", s.inflight("p"), at, "~3:low", fmt.Sprint("p", at), payload)
				default:
					w.do("HSET", s.inflight("p"), at, "3:low"+payload)
				}
			}
			w.do("SADD", keys[5].name, "a", "b1", "c")
			w.do("SADD", keys[6].name, "b1", "b2", "b3", "c")
			switch says {
			case 0:
				w.do("HSET", keys[0].name, "refuse", 1)
			case 1:
				w.do("RPUSH", keys[2].name, "stay")
			case 2:
				w.do("HSET", keys[0].name, "n", "no number")
			}
			if locks {
				w.do("HSET", keys[0].name, "id0", 1, "id1", 1)
				w.do("HSET", keys[1].name, "id1", 1)
			}
			for _, k := range spoiled {
				w.spoil(k.name)
			}
			if found {
				w.do("SET", s.reaped("p"), 1)
			}
			return m
		}
		dumped := apart
		apart = nil
		begin()
		_, err := s.commit(w.c, s.byProcess("p", 1), ended)
		w.must(err)
		one := others(s, w.dump())
		apart = dumped
		begin()
		c, err := s.commit(w.c, s.byProcess("p", 1), ended)
		w.must(err)
		want := w.dump()
		w.same("keys, with payloads apart", one, others(s, w.dump()))

		m := begin()
		x := Exchange{Ended: ended}
		out := m.turn(x)
		var p parted
		if p.part(ended); len(p.apart) > 0 {
			rt.Fatalf("commit.lua has committed the ends: %v", ended)
		}
		w.same("keys", want, w.dump())
		w.same("refused", refused(c.refusals()), refused(out.Refused))
		w.same("missing", c.missing, out.Missing)
		w.same("written", c.filled, append([]string{}, out.Wrote...))
		if t.Failed() {
			rt.Fatalf("ends: %+v", ended)
		}
	})
}

// Jobs that held slots of several keys free them with one command for each key. One of another type is refused to its jobs alone.
func TestEndsFreeSlotsByKey(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m := w.enter("p")
	var ended []Ended
	for ticket := range int64(7) {
		key := w.s.SetKey(fmt.Sprint("slots", ticket%3))
		w.do("SADD", key.name, holder("p", ticket+1))
		w.do("HSET", w.s.inflight("p"), ticket+1, "3:lowjob")
		ended = append(ended, Ended{Ticket: ticket + 1, Counts: CountsDone, Effects: []Effect{Command("SREM", key, holder("p", ticket+1))}})
	}
	m.turn(Exchange{Ended: []Ended{{Ticket: 9, Counts: CountsNothing, Effects: ended[0].Effects}}}) // which loads the script
	w.do("SADD", w.s.SetKey("slots0").name, holder("p", 1))
	w.do("CONFIG", "RESETSTAT")
	out := m.turn(Exchange{Ended: ended})
	w.same("refused", 0, len(out.Refused))
	w.same("slots", []any{int64(0)}, []any{w.do("EXISTS", w.s.SetKey("slots0").name, w.s.SetKey("slots1").name, w.s.SetKey("slots2").name)})
	if stats := w.server.Text(t, "INFO", "commandstats"); !strings.Contains(stats, "cmdstat_srem:calls=3,") {
		t.Errorf("three keys were not freed with three commands: %s", stats)
	}

	for i := range ended {
		w.do("SADD", ended[i].Effects[0].keys[0].name, ended[i].Effects[0].args[0])
		w.do("HSET", w.s.inflight("p"), ended[i].Ticket, "3:lowjob")
	}
	w.spoil(w.s.SetKey("slots1").name)
	out = m.turn(Exchange{Ended: ended})
	w.same("refused", []string{"2 " + w.s.SetKey("slots1").name + " false", "5 " + w.s.SetKey("slots1").name + " false"}, refused(out.Refused))
	w.same("other slots", []any{int64(0)}, []any{w.do("EXISTS", w.s.SetKey("slots0").name, w.s.SetKey("slots2").name)})
}

// The names of slots are sent as what stands before the tickets: by runs of one key and of several, by groups and by commit.lua.
func TestEndsNameTheirSlots(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m := w.enter("p")
	for _, keys := range []int64{1, 3} {
		for _, c := range []struct {
			name string
			more func(ticket int64) []Effect // beside the slot
		}{
			{"run", func(int64) []Effect { return nil }},
			{"groups", func(ticket int64) (e []Effect) {
				for range ticket % 2 {
					e = append(e, Command("SADD", w.s.SetKey("set"), ticket))
				}
				return e
			}},
			{"apart", func(int64) []Effect { return []Effect{Guard("GET", w.s.TextKey("none"), "")} }},
		} {
			var ended []Ended
			for ticket := int64(1); ticket <= 7; ticket++ {
				lane := NewLane("low", Limit{Kind: LimitRunning, Name: fmt.Sprint("slots", ticket%keys)})
				w.do("SADD", w.s.slots(lane.Shared), holder("p", ticket), holder("other", ticket))
				w.do("HSET", w.s.inflight("p"), ticket, "3:lowjob")
				ended = append(ended, Ended{Ticket: ticket, Counts: CountsDone, Effects: w.s.LeaveLane(c.more(ticket), "p", Reserved{Ticket: ticket, Lane: &lane}, true)})
			}
			out := m.turn(Exchange{Ended: ended})
			w.same(c.name+": refused", 0, len(out.Refused))
			left := w.server.Int(t, "SUNIONSTORE", "left", w.s.slots("c:slots0"), w.s.slots("c:slots1"), w.s.slots("c:slots2"))
			w.same(c.name+": others' slots", 7, left)
			w.same(c.name+": is a slot of another", 1, w.server.Int(t, "SISMEMBER", "left", holder("other", 1)))
			w.same(c.name+": jobs", 0, w.server.Int(t, "HEXISTS", w.s.inflight("p"), 7))
			w.do("DEL", w.s.slots("c:slots0"), w.s.slots("c:slots1"), w.s.slots("c:slots2"))
		}
	}
}

// Unique jobs that are done free their locks without a look at each. One of another type is refused to its job alone, and a lock
// that another job has by now stays.
func TestEndsFreeLocksOfManyJobs(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m := w.enter("p")
	var ended []Ended
	for ticket := range int64(5) {
		w.do("HSET", w.s.KeyOfLock(fmt.Sprint(ticket)), fmt.Sprint("id", ticket), "done")
		w.do("HSET", w.s.inflight("p"), ticket+1, "3:lowjob")
		ended = append(ended, Ended{Ticket: ticket + 1, Counts: CountsDone, Effects: []Effect{w.s.Release(fmt.Sprint(ticket), fmt.Sprint("id", ticket))}})
	}
	w.do("HSET", w.s.KeyOfLock("of another"), "other", "done")
	ended[3].Effects = []Effect{w.s.Release("of another", "id3")}
	w.spoil(w.s.KeyOfLock("1"))
	w.do("CONFIG", "RESETSTAT")
	w.s.exchangeKeys("p").briefs.rest = 1 // by exchange.lua, whose ends these are
	out := m.turn(Exchange{Ended: ended})
	w.same("refused", []string{"2 " + w.s.KeyOfLock("1") + " false"}, refused(out.Refused))
	w.same("locks", []any{int64(0), int64(1), int64(1)}, []any{
		w.do("EXISTS", w.s.KeyOfLock("0"), w.s.KeyOfLock("2"), w.s.KeyOfLock("4")), w.do("EXISTS", w.s.KeyOfLock("3")), w.do("EXISTS", w.s.KeyOfLock("of another")),
	})
	const commands = 2 + 5 + 2 // up to the one that is refused, those of each job, and two of the record
	if stats := w.server.Text(t, "INFO", "commandstats"); !strings.Contains(stats, fmt.Sprintf("cmdstat_hdel:calls=%d,", commands)) {
		t.Errorf("the locks were not freed as a run, and then one by one: %s", stats)
	}
}

// likewise returns effects of the same shape, perhaps with other values.
func likewise(rt *rapid.T, effects []Effect) (others []Effect) {
	for _, e := range effects {
		e.args = slices.Clone(e.args)
		for i, a := range e.args {
			n := rapid.IntRange(0, 3).Draw(rt, "other value")
			switch a.(type) {
			case int:
				if e.verb[0] < 'a' || e.file != nil {
					e.args[i] = n
				}
			case []byte:
				e.args[i] = fmt.Append(nil, "v", n)
			case string:
				if verb := strings.TrimPrefix(e.verb, "~"); verb == "ZADD" || verb == "SREM" {
					e.args[i] = fmt.Sprint("b", n)
				} else if verb == "HDEL" {
					e.args[i] = fmt.Sprint("id", n)
				}
			}
		}
		if strings.HasSuffix(e.verb, "SREM") && rapid.Bool().Draw(rt, "another key") {
			e.keys = []Key{New("").SetKey(rapid.SampledFrom([]string{"s", "s2"}).Draw(rt, "set"))}
		}
		if strings.HasSuffix(e.verb, "HDEL") && rapid.Bool().Draw(rt, "another key") {
			e.keys = []Key{New("").HashKey(rapid.SampledFrom([]string{"h1", "h2"}).Draw(rt, "hash"))}
		}
		others = append(others, e)
	}
	return others
}

func refused(all []Refusal) (texts []string) {
	for _, r := range all {
		texts = append(texts, fmt.Sprintf("%d %s %t", r.Ticket, r.Key, r.Left()))
	}
	return texts
}

// others are all keys of a dump but the in-flight record of p.
func others(s Store, dump map[string]any) map[string]any {
	delete(dump, s.inflight("p"))
	return dump
}
