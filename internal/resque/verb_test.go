package resque

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// arrive is a verb of several keys with a proof, as a feature would write it: it counts in a hash and,
// once the count is reached, pushes a job.
var arrive = NewVerb("arrive", `
local function number(text) return tonumber(text or '0') end
function proofs.arrive(job, keys, args)
  local n = number(call('HGET', keys[1], args[1]) or '0')
  if not n then return 'NUMBER the count is none', keys[1] end
  if n < 0 then return '' end
end
function verbs.arrive(job, keys, args)
  if call('HINCRBY', keys[1], args[1], 1) < tonumber(args[2]) then return end
  call('SADD', keys[2], args[3])
  call('RPUSH', keys[3], args[4])
  call('HSET', keys[1], 'last', job.ticket .. ' ' .. tostring(job.bytes) .. ' ' .. (job.now > 1e12 and 'now' or 'never'))
  fills(keys[3])
end
`)

func arrival(s Store, of int, queue string) Effect {
	return arrive.Effect([]Key{s.HashKey("join:1"), s.NamesKey(""), s.QueueKey(queue)}, "count", of, queue, "after")
}

// misbehaving are verbs that are refused, each in its own way.
var misbehaving = map[string]struct {
	*Verb
	reason string
	key    int // which of its two keys the refusal names
}{
	"it raises an error": {NewVerb("raises", `function verbs.raises() error('no good') end`), "no good", 0},
	"it uses what is not there": {NewVerb("misspells", `function verbs.misspells(job, keys)
		call('SET', keys[1].nothing.atall, 1) end`), "nil value", 0},
	"it sets a global": {NewVerb("leaks", `function verbs.leaks() leaked = 1 end`), "user_script:", 0},
	"Redis refuses its command": {NewVerb("counts", `function verbs.counts(job, keys)
		call('HINCRBY', keys[1], 'text', 1) end`), "not an integer", 0},
	"it returns why": {NewVerb("says", `function verbs.says() return 'CLOSED already' end`), "CLOSED already", 0},
	"it names another key": {NewVerb("names", `function verbs.names(job, keys)
		return 'CLOSED already', keys[2] end`), "CLOSED already", 1},
	"its proof refuses": {NewVerb("proves", `function proofs.proves(job, keys) return 'NOTYET', keys[2] end
		function verbs.proves(job, keys) call('HSET', keys[1], 'written', 1) end`), "NOTYET", 1},
	"its proof raises an error": {NewVerb("disproves", `function proofs.disproves() error('no proof') end
		function verbs.disproves(job, keys) call('HSET', keys[1], 'written', 1) end`), "no proof", 0},
	"its file raises an error": {NewVerb("breaks", `local nothing = nil
		nothing.field = 1
		function verbs.breaks() end`), "nil value", 0},
}

// hash returns the fields of a hash.
func (w *wire) hash(key string) map[string]string {
	w.t.Helper()
	fields, err := redis.StringMap(w.c.Do("HGETALL", key))
	w.must(err)
	return fields
}

// ending returns a process whose jobs end with effects of a verb, and three jobs.
func (w *wire) ending() (*proc, []Reserved) {
	w.t.Helper()
	w.do("FLUSHALL")
	w.push("low", "l1", "l2", "l3")
	m := w.enter("p")
	return m, m.reserve(3, "low")
}

// The call gets the files of the verbs that it uses, whether or not Redis knows the script.
func TestVerb(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for _, known := range []string{"no script", "the script without verbs", "the script"} {
		m, jobs := w.ending()
		w.do("SCRIPT", "FLUSH")
		x := Exchange{Done: tickets(jobs[0]), Ended: []Ended{
			{Ticket: 2, Counts: CountsDone, Effects: []Effect{arrival(w.s, 2, "next")}},
			{Ticket: 3, Counts: CountsFailed, Effects: append(w.s.FileFailure("low", failureOf(jobs[2].Payload), false), arrival(w.s, 2, "next").Soft())},
		}}
		switch known {
		case "the script":
			w.do("SCRIPT", "LOAD", commitFor(x.Ended).Text())
		case "the script without verbs":
			w.do("SCRIPT", "LOAD", commitScript.plain.Text())
		}
		out := m.turn(x)
		w.same(known+": refused", []Refusal(nil), out.Refused)
		w.same(known+": filled", []string{"next"}, out.Filled)
		w.same(known+": queue", []string{"after"}, w.queue("next"))
		w.same(known+": join", map[string]string{"count": "2", "last": "3 3:lowl3 now"}, w.hash("resque:go:join:1"))
		w.same(known+": record", []string{}, w.record("p"))
		w.same(known+": stats", [2]int{3, 1}, w.stats())
	}
}

// A refused verb keeps its own ticket and no other's. If its proof refuses it, none of its rows
// is written. Soft, it is reported and holds up nothing.
func TestVerbRefused(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for name, tt := range misbehaving {
		for _, soft := range []bool{false, true} {
			what := fmt.Sprintf("%s, soft %v", name, soft)
			m, jobs := w.ending()
			w.do("HSET", "resque:go:own", "text", "no number")
			keys := []Key{w.s.HashKey("own"), w.s.SetKey("other")}
			bad := tt.Effect(keys, "a")
			if soft {
				bad = bad.Soft()
			}
			out := m.turn(Exchange{Ended: []Ended{
				{Ticket: 1, Effects: []Effect{arrival(w.s, 9, "next")}},
				{Ticket: 2, Counts: CountsDone, Effects: []Effect{bad}},
				later(jobs[2]),
			}})
			if len(out.Refused) != 1 {
				t.Fatalf("%s: refused: %v", what, out.Refused)
			}
			r := out.Refused[0]
			if soft != (r.Ticket == 0) || r.Key != keys[tt.key].String() || !strings.Contains(r.Reason, tt.reason) {
				t.Errorf("%s: refused: %+v", what, r)
			}
			record := []string{"2 low l2"}
			if soft {
				record = []string{}
			}
			w.same(what+": record", record, w.record("p"))
			w.same(what+": the other verb", 1, w.server.Int(t, "HGET", "resque:go:join:1", "count"))
			w.same(what+": own", map[string]string{"text": "no number"}, w.hash("resque:go:own"))
		}
	}
}

// All keys of a verb are read as their types before a row is written, and what its proof refuses is
// not written either. A proof may leave the job.
func TestVerbProven(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	effect := arrival(w.s, 1, "next")
	for _, soft := range []bool{false, true} {
		for _, k := range append(effect.keys, Key{}) {
			m, jobs := w.ending()
			ended := Ended{Ticket: 1, Effects: []Effect{Command("HSET", w.s.HashKey("before"), "a", 1), effect}}
			if soft {
				ended.Effects[1] = effect.Soft()
			}
			if k.name == "" {
				k = effect.keys[0]
				w.do("HSET", k.name, "count", "many")
			} else {
				w.spoil(k.name)
			}
			before := w.dump()
			out := m.turn(Exchange{Ended: []Ended{ended, later(jobs[1])}})
			refused := out.Refused[0]
			if len(out.Refused) != 1 || refused.Key != k.name || (refused.Ticket == 0) != soft {
				t.Errorf("%s, soft %v: refused: %v", k, soft, out.Refused)
			}
			if soft {
				w.same("record", []string{"3 low l3"}, w.record("p"))
				continue
			}
			w.same("record", []string{"1 low l1", "3 low l3"}, w.record("p"))
			after := w.dump()
			for _, changed := range []string{w.s.inflight("p"), w.s.KeyOfSchedule(), w.s.stat("processed")} {
				delete(before, changed)
				delete(after, changed)
			}
			w.same("of the refused job "+k.name, before, after)
		}
	}
	m, _ := w.ending()
	w.do("HSET", "resque:go:join:1", "count", -1)
	out := m.turn(Exchange{Ended: []Ended{{Ticket: 1, Effects: []Effect{effect}}}})
	if len(out.Refused) != 1 || !out.Refused[0].Left() || out.Refused[0].Ticket != 1 {
		t.Errorf("left by its proof: %v", out.Refused)
	}
}

func TestVerbOutOfMemory(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m, _ := w.ending()
	w.do("CONFIG", "SET", "maxmemory", "1")
	out := m.turn(Exchange{Ended: []Ended{{Ticket: 1, Effects: []Effect{arrival(w.s, 1, "next")}}}})
	w.same("refused", []Refusal(nil), out.Refused)
	w.same("queue", []string{"after"}, w.queue("next"))
}

// One script is made for a set of verbs, and none of them is in the script of calls that use none.
func TestVerbsOfACall(t *testing.T) {
	t.Parallel()
	s := New("")
	rate := refund.Effect([]Key{s.HashKey("limits"), s.TextKey("rate")}, "a").Soft()
	ends := func(effects ...Effect) *Script {
		return commitFor([]Ended{{Effects: effects[:1]}, {Effects: effects[1:]}})
	}
	both := ends(arrival(s, 1, "a"), rate, rate, arrival(s, 2, "b"))
	if both != ends(rate, arrival(s, 3, "c")) {
		t.Error("the same verbs gave two scripts")
	}
	if ends(rate) == both || ends(rate) == commitScript.plain {
		t.Error("other verbs gave the same script")
	}
	if plain := ends(s.ExpiredCount()); plain != commitScript.plain || strings.Contains(plain.Text(), "refund") {
		t.Error("no verbs gave another script than the plain one, or a verb is in it")
	}
	for name, text := range Scripts() {
		if strings.Contains(text, "--@") || !strings.HasPrefix(text, "-- ") {
			t.Errorf("%s.lua has a mark left, or does not begin with what it is for", name)
		}
	}
	w := newWire(t)
	for _, text := range Scripts() {
		w.do("SCRIPT", "LOAD", text)
	}
	w.do("SCRIPT", "LOAD", both.Text())
}

func TestNewVerbRefuses(t *testing.T) {
	t.Parallel()
	const good = "function verbs.good() end"
	if first, second := NewVerb("good", good), NewVerb("good", good); first != second {
		t.Error("one verb is two")
	}
	for name, lua := range map[string]string{
		"good": good + " ", "": "function verbs.() end", "Loud": "function verbs.Loud() end", "other": good, "hold": "function verbs.hold() end",
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%q was taken", name)
				}
			}()
			NewVerb(name, lua)
		}()
	}
}

// A KeyList is an argument with the numbers of its keys, which the verb may use as it likes.
func TestKeyList(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1")
	m := w.enter("p")
	j := m.reserve(1, "low")[0]
	w.spoil(w.s.HashKey("unused").String())
	list := KeyList{w.s.HashKey("unused"), w.s.NamesKey(""), w.s.QueueKey("next")}
	if out := m.turn(Exchange{Ended: []Ended{{Ticket: j.Ticket, Effects: []Effect{listed.Effect([]Key{w.s.HashKey("own")}, list, "x")}}}}); len(out.Refused) > 0 {
		t.Errorf("refused: %v", out.Refused)
	}
	w.same("next", []string{"x 3"}, w.queue("next"))
	w.same("record", []string{}, w.record("p"))
}

// listed pushes to the last key of a list how many there are.
var listed = NewVerb("listed", `
function verbs.listed(_, keys, args)
  local n, last = 0, nil
  for k in string.gmatch(args[1], '%d+') do n, last = n + 1, KEYS[tonumber(k)] end
  call('RPUSH', last, args[2] .. ' ' .. n)
end
`)
