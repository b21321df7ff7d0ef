package resque

import (
	"reflect"
	"testing"
)

// featureEffects are effects of plain commands on a feature's own keys.
func featureEffects(s Store) []Effect {
	return []Effect{
		Command("hset", s.HashKey("f:hash"), "a", 1),
		Command("RPUSH", s.ListKey("f:list"), "a"),
		Command("SADD", s.SetKey("f:set"), "a"),
		Command("ZADD", s.ZSetKey("f:zset"), 1, "a"),
		Command("APPEND", s.TextKey("f:text"), "a"),
		Command("XADD", s.StreamKey("f:stream"), "MAXLEN", "~", 1000, "*", "job", "a"),
		Command("SET", s.AnyKey("f:any"), "a"),
		Command("EXPIRE", s.AnyKey("f:hash"), 60),
		Command("HINCRBY", s.HashKey("f:counts"), "a", 1).Soft(),
	}
}

func TestFeatureEffects(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m, jobs := w.ending()
	x := Exchange{Ended: []Ended{
		{Ticket: 1, Counts: CountsDone, Effects: append(featureEffects(w.s), w.s.PushTail("next", []byte("after"))...)},
		{Ticket: 2, Effects: append(w.s.Head(jobs[1]), featureEffects(w.s)...)},
	}}
	out := m.turn(x)
	w.same("refused", []Refusal(nil), out.Refused)
	w.same("queues", []string{"low: l2", "next: after"}, w.queues("low", "next"))
	w.same("hash", map[string]string{"a": "1"}, w.hash("resque:go:f:hash"))
	w.same("counts", map[string]string{"a": "2"}, w.hash("resque:go:f:counts"))
	w.same("list", []string{"a", "a"}, w.server.List(t, "LRANGE", "resque:go:f:list", 0, -1))
	w.same("text", "aa", w.server.Text(t, "GET", "resque:go:f:text"))
	w.same("stream", 2, w.server.Int(t, "XLEN", "resque:go:f:stream"))
	if ttl := w.server.Int(t, "TTL", "resque:go:f:hash"); ttl < 50 {
		t.Errorf("the hash stays for %d s", ttl)
	}

	// A key of the wrong type holds its job, unless the effect is soft or its command takes any type.
	for _, e := range featureEffects(w.s) {
		key := e.keys[0].name
		m, _ = w.ending()
		w.do("SET", key, "spoiled")
		if e.keys[0].kind == 't' {
			w.do("DEL", key)
			w.do("RPUSH", key, "spoiled")
		}
		before := w.dump()
		out := m.turn(Exchange{Ended: []Ended{{Ticket: 1, Effects: append([]Effect{Command("SET", w.s.AnyKey("f:first"), 1)}, e)}}})
		switch {
		case e.keys[0].kind == '.':
			w.same(key+": refused", []Refusal(nil), out.Refused)
		case len(out.Refused) != 1 || out.Refused[0].Key != key || (out.Refused[0].Ticket == 0) != (e.verb[0] == '~'):
			t.Errorf("%s: refused: %v", key, out.Refused)
		case e.verb[0] != '~':
			w.same(key+": of a refused job", before, w.dump())
		}
	}
}

// A guard of a feature leaves the job, which is reported: its end is committed again later.
func TestFeatureGuard(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m, jobs := w.ending()
	open := Guard("get", w.s.TextKey("f:gate"), "open")
	x := Exchange{Ended: []Ended{
		{Ticket: 1, Counts: CountsDone, Effects: append(w.s.PushTail("next", []byte("after")), open)},
		later(jobs[1]),
	}}
	out := m.turn(x)
	if len(out.Refused) != 1 || !out.Refused[0].Left() || out.Refused[0].Ticket != 1 || out.Refused[0].NoBytes() {
		t.Errorf("refused: %+v", out.Refused)
	}
	w.same("record", []string{"1 low l1", "3 low l3"}, w.record("p"))
	w.same("queue", []string{}, w.queue("next"))
	w.do("SET", "resque:go:f:gate", "open")
	x.Ended = x.Ended[:1]
	w.same("refused then", []Refusal(nil), m.turn(x).Refused)
	w.same("queue then", []string{"after"}, w.queue("next"))
}

// leased puts a job under a place, as a server that leases jobs does.
func (w *wire) leased(place, payload string, until any) {
	w.t.Helper()
	w.do("HSET", w.s.KeyOfLeased(), place, payload)
	w.do("ZADD", w.s.KeyOfLeases(), until, place)
}

// A leased job ends if its lease is still the one that was read. Otherwise nothing of it changes. The
// others of the call end.
func TestCommitLeased(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for _, known := range []bool{true, false} {
		w.do("FLUSHALL")
		if !known {
			w.do("SCRIPT", "FLUSH")
		}
		w.leased("3:low1", "l1", 1900000000000)
		w.leased("3:low2", "l2", 1900000000000)
		w.leased("3:low3", "l3", "1900000000000.5")
		w.leased("3:low4", "l4", 1900000000000)
		w.do("SET", w.s.KeyOfQueue("bad"), "no list")
		end := func(place, lease string, effects ...Effect) Ended {
			return Ended{Place: place, Counts: CountsDone, Effects: append(effects, w.s.EndLease(place, lease)...)}
		}
		back := end("3:low3", "1900000000000.5", effect("head", w.s.QueueKey("low"), 0), w.s.named("low"))
		back.Counts = CountsNothing
		out, err := w.s.CommitLeased(w.c, []Ended{
			end("3:low1", "1900000000000", arrival(w.s, 1, "next")),
			end("3:low2", "1900000000001", arrival(w.s, 1, "next")),
			back,
			end("3:low4", "1900000000000", w.s.PushTail("bad", []byte("x"))...),
			end("3:low5", "1900000000000"),
		})
		w.must(err)
		w.same("missing", 1, out.Missing)
		w.same("ended", map[string]bool{"3:low1": true, "3:low3": true}, out.Ended)
		w.same("filled", []string{"low", "next"}, sorted(out.Filled))
		w.same("refused", 2, len(out.Refused))
		for _, r := range out.Refused {
			if left := r.Place == "3:low2"; r.Ticket != 0 || left != r.Left() || !left && (r.Place != "3:low4" || r.Key != w.s.KeyOfQueue("bad")) {
				t.Errorf("refused: %+v", r)
			}
		}
		w.same("leased", map[string]string{"3:low2": "l2", "3:low4": "l4"}, w.hash(w.s.KeyOfLeased()))
		w.same("leases", []string{"3:low2", "3:low4"}, w.server.List(t, "ZRANGE", w.s.KeyOfLeases(), 0, -1))
		w.same("queues", []string{"low: l3", "next: after"}, w.queues("low", "next"))
		w.same("join", "1", w.hash("resque:go:join:1")["count"])
		w.same("stats", [2]int{1, 0}, w.stats())
	}
	w.spoil(w.s.KeyOfLeases())
	w.unchanged("a commit whose leases cannot be read", func() {
		out, err := w.s.CommitLeased(w.c, []Ended{{Place: "3:low2", Effects: w.s.EndLease("3:low2", "1900000000000")}})
		w.must(err)
		if len(out.Refused) != 1 || out.Refused[0].Key != w.s.KeyOfLeases() || out.Refused[0].Place != "3:low2" {
			t.Errorf("refused: %+v", out.Refused)
		}
	})
	w.spoil(w.s.KeyOfLeased())
	w.unchanged("a commit whose record cannot be read", func() {
		if _, err := w.s.CommitLeased(w.c, []Ended{{Place: "3:low2"}}); !IsWrongType(err) {
			t.Error(err)
		}
	})
	_ = w.c.Close()
	if _, err := w.s.CommitLeased(w.c, []Ended{{Place: "3:low2"}}); err == nil {
		t.Error("no error on a closed connection")
	}
}

// The effects of most ends are one piece of memory beside their texts, and a list that takes no other effect into it.
func TestRowsOfOnePiece(t *testing.T) {
	s := New("")
	schedule, payload := s.ScheduleKey(), []byte(`{"class":"C","args":[]}`)
	for name, c := range map[string]struct {
		rows  func() []Effect
		want  Effect
		texts float64 // with those that are arguments
	}{
		"a lock":       {func() []Effect { return s.Released("l", "id") }, effect("HDEL", hashKey(s.KeyOfLock("l")), "id"), 2},
		"the schedule": {func() []Effect { return ToSchedule(schedule, 1234, "q", payload) }, effect("ZADD", schedule, int64(1234), append([]byte("1:q"), payload...)), 3},
	} {
		var rows []Effect
		if n := testing.AllocsPerRun(100, func() { rows = c.rows() }); n > 1+c.texts {
			t.Errorf("%s: %v allocations", name, n)
		}
		more := append(rows, Effect{verb: "another"})
		if again := c.rows(); !reflect.DeepEqual(rows, []Effect{c.want}) || !reflect.DeepEqual(again, rows) || &more[0] == &rows[0] {
			t.Errorf("%s: %+v, want %+v", name, rows, c.want)
		}
	}
}
