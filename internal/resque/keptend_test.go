package resque

import (
	"fmt"
	"slices"
	"testing"
)

// Of an end that was packed and unpacked Redis is sent the very bytes of the end itself: keys with their types, verbs with their files,
// arguments of every kind, names of slots, and keys that stand in an argument.
func TestPackedEnds(t *testing.T) {
	t.Parallel()
	s := New("ns:")
	lane, job := endLane, endJob
	keys := KeyList{s.HashKey("a"), s.ListKey("b")}
	for name, e := range map[string]Ended{
		"nothing":            {Ticket: 1, Counts: CountsNothing},
		"commands":           {Ticket: 1 << 40, Counts: CountsDone, Effects: featureEffects(s)},
		"values":             {Ticket: 2, Counts: CountsFailed, Effects: []Effect{effect("HSET", hashKey("h"), "é\x00", []byte("b"), int64(-5), 6, 0.25, true, false, nil, uint8(9))}},
		"verbs and lists":    {Ticket: 3, Counts: CountsDone, Effects: []Effect{endsMark.Effect([]Key{hashKey("h"), listKey("l")}, keys, WrittenKeys(keys), ""), endsMany.Effect([]Key{hashKey("h")}, 1).Soft()}},
		"a lane and a slot":  {Ticket: 4, Effects: s.LeaveLane(s.ToLane(job, lane), "p", job, false)},
		"bytes":              {Ticket: 5, Effects: s.Head(job), Bytes: job.Payload},
		"bytes that are few": {Ticket: 6, Effects: s.Tail(job), Bytes: []byte{}},
	} {
		sent := func(e Ended) (words []string) {
			x := Exchange{Process: "p", Ended: []Ended{e}}
			x.parted.part(x.Ended)
			for _, a := range append(s.exchangeArgs(&x, x.script().Hash()), e.Place, e.Counts) {
				if b, ok := a.([]byte); ok {
					a = string(b)
				}
				if a == nil {
					a = ""
				} else if b, ok := a.(bool); ok {
					a = map[bool]int{true: 1}[b] // as the client sends it
				}
				words = append(words, fmt.Sprint(a))
			}
			return words
		}
		packed := e.Pack([]byte("before"))[len("before"):]
		got := Unpack(packed)
		if want := sent(e); !slices.Equal(sent(got), want) || got.Ticket != e.Ticket {
			t.Errorf("%s: ticket %d is sent as\n%q, want\n%q", name, got.Ticket, sent(got), want)
		}
		if (got.Bytes == nil) != (e.Bytes == nil) {
			t.Errorf("%s: the bytes are %q, want %q", name, got.Bytes, e.Bytes)
		}
		if again := got.Pack(nil); string(again) != string(packed) {
			t.Errorf("%s: packed again it is %q, want %q", name, again, packed)
		}
	}
	leased := Ended{Ticket: 1, Place: "a:b"}
	if got := Unpack(leased.Pack(nil)); got.Place != leased.Place {
		t.Errorf("a leased job has place %q, want %q", got.Place, leased.Place)
	}
}
