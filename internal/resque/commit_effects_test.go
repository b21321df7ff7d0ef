package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	endLane = NewLane("low", Limit{Kind: LimitRunning, Name: "One"}, Limit{Kind: LimitStarts, Name: "Mail", Keyed: true, Key: "k"})
	endJob  = Reserved{Ticket: 2, Queue: "low", Payload: []byte(`{"class":"U","args":[]}`), Lane: &endLane}
)

// everyEffect is each effect that the methods of Store make.
func everyEffect(t *testing.T, s Store) (all []Effect) {
	at := time.UnixMilli(1_900_000_000_000)
	plain, ok := s.DelayPlain(2_000_000_000, "low", endJob.Payload)
	if !ok {
		t.Fatal("the job is no plain one")
	}
	for _, effects := range [][]Effect{
		s.Head(endJob), s.Tail(endJob), s.ToLane(endJob, endLane), {s.Keep(endJob)}, s.PushTail("next", endJob.Payload), plain,
		{s.ScheduleAt(at.UnixMilli(), "low", endJob.Payload), s.ExpiredCount()},
		s.FileFailure("low", []byte("record"), false), s.FileFailure("low", []byte("record"), true),
		{s.SetCount("retry:A", 1, 0, 0), s.HoldFailure("retry:A", []byte("record"), time.Minute)},
		{s.LockMoved("moved", "id", at, at, time.Hour, "low", endJob.Payload)},
		s.LeaveLane(nil, "p", endJob, false), {s.ResetDeaths(endJob), s.Release("lock", "id")}, s.DropCount("retry:B", true),
	} {
		all = append(all, effects...)
	}
	return all
}

// everyEnd enters a process with three jobs. The second came from a lane and holds everything that a
// job can hold. It returns how the first and the third end.
func (w *wire) everyEnd() (m *proc, others []Ended) {
	w.t.Helper()
	w.do("FLUSHDB")
	w.push("low", "l1", "", "l3", "l4")
	m = w.enter("p")
	jobs := m.reserve(3, "low")
	w.do("HSET", w.s.inflight("p"), 2, endJob.prefix()+string(endJob.Payload))
	w.do("SADD", w.s.slots("c:One"), "p/2", "p/9")
	w.do("HSET", w.s.limits(), "r:Mail", "60000000 2")
	w.do("SET", w.s.tokens("r:Mail=k"), "9000000000000000")
	w.do("ZADD", w.s.turns(endLane.Lanes()), "9000000000000000", endLane.Own)
	w.do("HSET", w.s.KeyOfLock("lock"), "id", "done")
	w.do("HSET", w.s.recovered(), Digest(endJob.Payload), "1 2 q")
	w.do("SET", w.s.retryCount("retry:B"), 1)
	w.do("SET", w.s.retryFailure("retry:B"), 1)
	return m, []Ended{later(jobs[0]), failed(jobs[2])[0]}
}

// dump is all keys of Redis without those that hold a time.
func (w *wire) dump() map[string]any {
	w.t.Helper()
	all := w.server.Dump(w.t, "")
	delete(all, w.s.processes())
	return all
}

// If any effect of a job writes to a key of the wrong type, nothing of the job is written and the
// ticket stays. The other jobs of the call end. A soft effect is reported, and holds up nothing.
func TestCommitWrongType(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	all := everyEffect(t, w.s)
	const held, soft, taken = "held", "soft", "taken" // by its own command, whatever the type
	fates := map[string]string{
		w.s.KeyOfQueue("low"): held, w.s.KeyOfQueue("next"): held, w.s.lane(endLane): held, w.s.lanes(): held, w.s.kept("low"): held,
		w.s.KeyOfSeconds(): held, w.s.KeyOfSecond("2000000000"): held, w.s.KeyOfSchedule(): held, w.s.failed(): held, w.s.KeyOfFailures("low_failed"): held,
		w.s.KeyOfJobSeconds(`{"class":"U","args":[],"queue":"low"}`): held,
		w.s.slots("c:One"):          held,
		w.s.KeyOfLock("lock"):       held,
		w.s.KeyOfLock("moved"):      held,
		w.s.turns(endLane.Lanes()):  held, // of ToLane; the refund of a rate is soft
		w.s.KeyOfQueues():           soft,
		w.s.KeyOfFailureLists():     soft,
		w.s.stats():                 held,
		w.s.recovered():             soft,
		w.s.limits():                soft,
		w.s.tokens("r:Mail=k"):      soft,
		w.s.retryCount("retry:A"):   taken,
		w.s.retryFailure("retry:A"): taken,
		w.s.retryCount("retry:B"):   taken,
		w.s.retryFailure("retry:B"): taken,
	}
	named := make(map[string]bool)
	for i, e := range all {
		for _, k := range e.keys {
			named[k.name] = true
			fate := fates[k.name]
			if e.verb == "~refund" {
				fate = soft
			}
			for _, effects := range [][]Effect{{e}, all} {
				if len(effects) > 1 {
					fate = fates[k.name]
				}
				name := fmt.Sprintf("effect %d, %s, of %d: %s", i, e.verb, len(effects), k.name)
				w.checkRefused(name, k.name, fate, Ended{Ticket: 2, Counts: CountsDone, Effects: effects})
			}
		}
	}
	for key := range fates {
		if !named[key] {
			t.Errorf("no effect writes %s", key)
		}
	}
}

func (w *wire) checkRefused(name, key, fate string, end Ended) {
	w.t.Helper()
	m, others := w.everyEnd()
	spoil := func() {
		w.spoil(key)
		if key == w.s.tokens("r:Mail=k") {
			w.do("DEL", key)
			w.do("RPUSH", key, "spoiled")
		}
	}
	spoil()
	m.turn(Exchange{Ended: others})
	without := w.dump()

	m, others = w.everyEnd()
	spoil()
	out := m.turn(Exchange{Ended: []Ended{others[0], end, others[1]}})
	with := w.dump()
	refused := slices.ContainsFunc(out.Refused, func(r Refusal) bool {
		return r.Key == key && (r.Ticket == 2) == (fate == "held") && (r.Ticket == 0) == (fate == "soft")
	})
	if len(out.Refused) > 0 && !refused || refused != (fate != "taken") {
		w.t.Errorf("%s: refused: %v", name, out.Refused)
	}
	if fate == "held" {
		w.same(name+": keys", without, with)
		w.do("DEL", key) // repaired, the same ends are taken
		left := strings.Join(w.record("p"), "\n")
		again := slices.DeleteFunc([]Ended{others[0], end, others[1]}, func(e Ended) bool {
			return !strings.Contains("\n"+left, fmt.Sprintf("\n%d ", e.Ticket))
		})
		w.same(name+": refused after the repair", []Refusal(nil), m.turn(Exchange{Ended: again}).Refused)
		w.same(name+": record after the repair", []string{}, w.record("p"))
		w.same(name+": stats after the repair", [2]int{3, 1}, w.stats())
		return
	}
	w.same(name+": record", []string{}, w.record("p"))
	w.same(name+": stats", [2]int{3, 1}, w.stats())
}

// All effects of a job are written at maxmemory, and each once.
func TestCommitOutOfMemory(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	m, others := w.everyEnd()
	w.do("CONFIG", "SET", "maxmemory", "1")
	out := m.turn(Exchange{Ended: append(others, Ended{Ticket: 2, Counts: CountsDone, Effects: everyEffect(t, w.s)})})
	w.same("refused", []Refusal(nil), out.Refused)
	w.same("record", []string{}, w.record("p"))
	payload := string(endJob.Payload)
	w.same("queues", []string{"low: " + payload + " l4 " + payload, "next: " + payload}, w.queues("low", "next"))
	w.same("lane", []string{payload}, w.server.List(t, "LRANGE", w.s.lane(endLane), 0, -1))
	w.same("kept", []string{payload}, w.server.List(t, "LRANGE", w.s.kept("low"), 0, -1))
	w.same("slots", []string{"p/9"}, w.server.List(t, "SMEMBERS", w.s.slots("c:One")))
	w.same("the rate got its start back", "8999999940000000.00", w.server.Text(t, "GET", w.s.tokens("r:Mail=k")))
	w.same("gone", 0, w.server.Int(t, "EXISTS", w.s.KeyOfLock("lock"), w.s.recovered(), w.s.retryCount("retry:B"), w.s.retryFailure("retry:B")))
	w.same("expired", 1, w.server.Int(t, "HGET", w.s.stats(), expiredField))
}

// A total of the wrong type is reported and holds no ticket.
func TestCommitTotalsOfWrongType(t *testing.T) {
	t.Parallel()
	for _, stat := range []string{"processed", "failed"} {
		w := newWire(t)
		m, others := w.everyEnd()
		w.spoil(w.s.stat(stat))
		out := m.turn(Exchange{Ended: others})
		if stat == "processed" { // the exchange has counted
			out.Refused = []Refusal{{KeyError: out.Broken[0]}}
		}
		if len(out.Refused) != 1 || out.Refused[0].Ticket != 0 || out.Refused[0].Key != w.s.stat(stat) {
			t.Errorf("%s: refused: %v", stat, out.Refused)
		}
		w.same("record", 1, len(w.record("p")))
	}
}

// A job whose guard does not hold stays: nothing of it is written, and it is reported. One whose
// guard Redis refuses is refused. The others of the call end.
func TestCommitGuards(t *testing.T) {
	t.Parallel()
	for _, guard := range []string{"process", "dead"} {
		t.Run(guard, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", names("l", 6)...)
			m := w.enter("p")
			jobs := m.reserve(6, "low")
			by := w.s.byProcess("p", 1)
			if guard == "dead" {
				m.die()
				by = w.s.byReaper("p")
			}
			w.do("HSET", w.s.recovered(), "d", "said")
			w.do("SET", "resque:text", "x")
			guarded := func(j Reserved, guards ...Effect) Ended {
				return Ended{Ticket: j.Ticket, Effects: append(w.s.Head(j), guards...)}
			}
			said := func(text string) Effect { return Guard("HGET", hashKey(w.s.recovered()), text, "d") }
			nothing := Guard("HGET", hashKey(w.s.recovered()), "", "other")
			reply, err := w.c.Do("EVAL", w.s.commitArgs(commitScript.plain.Text(), by, []Ended{
				guarded(jobs[5], said("other")),
				guarded(jobs[4], said("said"), nothing),
				guarded(jobs[3], Guard("HGET", hashKey("resque:text"), "", "d")),
				guarded(jobs[2], nothing, said("")),
				guarded(jobs[1], Guard("HEXISTS", hashKey(w.s.recovered()), "1", "d")),
				{Ticket: 99, Effects: w.s.PushTail("low", []byte("no such ticket"))},
			})...)
			w.must(err)
			out, err := w.s.committed(reply)
			w.must(err)
			w.same("left", []int64{6, 3}, out.tickets())
			w.same("refused", 1, len(out.refused))
			w.same("refused", [2]any{int64(4), "resque:text"}, [2]any{out.refused[0].Ticket, out.refused[0].Key})
			w.same("missing", 1, out.missing)
			w.same("filled", []string{w.s.KeyOfQueue("low")}, out.filled)
			w.same("record", []string{"1 low l1", "3 low l3", "4 low l4", "6 low l6"}, w.record("p"))
			w.same("queue", map[string][]string{"process": {"l2", "l5", "no such ticket"}, "dead": {"l2", "l5"}}[guard], w.queue("low"))
		})
	}
}

// Nothing is recovered from a process that is not fenced, and a call without jobs does nothing.
func TestCommitOfTheDead(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1")
	m := w.enter("p")
	jobs := m.reserve(1, "low")
	r := recovery{Store: w.s, dead: m.Process}
	for _, score := range []string{"1", "0", ""} {
		if score == "" {
			w.do("ZREM", w.s.processes(), "p")
		} else {
			w.do("ZADD", w.s.processes(), score, "p")
		}
		w.unchanged("the commit", func() {
			out, err := r.commit(w.c, back(jobs...))
			w.must(err)
			w.same("missing", 1, out.missing)
		})
	}
	w.do("ZADD", w.s.processes(), "-1", "p") // as an older release fences
	w.unchanged("a commit of nothing", func() {
		out, err := r.commit(w.c, nil)
		w.must(err)
		w.same("answer", 0, out.missing+len(out.refused)+len(out.left)+len(out.filled))
	})
	out, err := r.commit(w.c, back(jobs...))
	w.must(err)
	w.same("missing", 0, out.missing)
	w.same("queue", []string{"l1"}, w.queue("low"))
}
