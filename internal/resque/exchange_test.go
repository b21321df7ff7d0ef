package resque

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Which jobs one exchange reserves, in which order, and that the record says the same.
func TestReserve(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		lists map[string]string
		asks  []Ask
		want  int
		jobs  string
		empty string
	}{
		{"nothing wanted", map[string]string{"a": "a1"}, asks("a"), 0, "", ""},
		{"nothing there", nil, asks("a", "b"), 5, "", "a b"},
		{"oldest first", map[string]string{"a": "a1 a2 a3"}, asks("a"), 2, "1 a a1, 2 a a2", ""},
		{"first queue first", map[string]string{"a": "a1 a2", "b": "b1"}, asks("b", "a"), 2, "1 b b1, 2 a a1", "b"},
		{"first queue fills it", map[string]string{"a": "a1 a2", "b": "b1"}, asks("a", "b"), 2, "1 a a1, 2 a a2", ""},
		{"more wanted than there is", map[string]string{"a": "a1 a2", "b": "b1"}, asks("a", "b"), 9, "1 a a1, 2 a a2, 3 b b1", "a b"},
		{"quotas hold", map[string]string{"a": "a1 a2 a3", "b": "b1 b2 b3"}, []Ask{{"a", 2}, {"b", 1}}, 3, "1 a a1, 2 a a2, 3 b b1", ""},
		{"second pass fills up", map[string]string{"a": "a1 a2 a3", "b": "b1"}, []Ask{{"a", 1}, {"b", 1}}, 4, "1 a a1, 2 a a2, 3 a a3, 4 b b1", ""},
		{"second pass in order", map[string]string{"a": "a1 a2 a3", "b": "b1 b2"}, []Ask{{"a", 0}, {"b", 1}}, 3, "1 a a1, 2 a a2, 3 b b1", ""},
		{"quota of a queue found empty goes on", map[string]string{"b": "b1 b2 b3"}, []Ask{{"a", 2}, {"b", 1}}, 3, "1 b b1, 2 b b2, 3 b b3", "a"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			total := 0
			for q, list := range tt.lists {
				w.push(q, strings.Fields(list)...)
				total += len(strings.Fields(list))
			}
			m := w.enter("p")
			out := m.turn(Exchange{Want: tt.want, Asks: tt.asks})
			w.same("jobs", tt.jobs, strings.Join(texts(out.Jobs), ", "))
			w.same("empty", tt.empty, strings.Join(out.Empty, " "))
			w.same("the record differs from the answer", texts(out.Jobs), w.record("p"))
			if left := len(w.queue("a")) + len(w.queue("b")); left != total-len(out.Jobs) {
				t.Errorf("%d jobs left in the queues, want %d", left, total-len(out.Jobs))
			}
			w.same("stats", [2]int{}, w.stats())
		})
	}
}

func TestTicketsRise(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("a", names("a", 6)...)
	m := w.enter("p")
	m.turn(Exchange{Done: tickets(m.reserve(2, "a")...)})
	m.reserve(2, "a")
	m.last = 1 << 52 // a process that has run for long
	m.reserve(2, "a")
	w.same("record", []string{"3 a a3", "4 a a4", fmt.Sprint(1<<52+1, " a a5"), fmt.Sprint(1<<52+2, " a a6")}, w.record("p"))
}

// ways are exchanges that go by a short script where they can, and ones that go by exchange.lua.
var ways = map[string]int{"short way": 0, "long way": 1 << 20}

// Of many jobs, tickets are written in another way. Wherever they begin, the record has those that the answer has.
func TestTicketsOfManyJobs(t *testing.T) {
	t.Parallel()
	for n, last := range []int64{0, 3, 8, 9, 10, 89, 99, 995, 1<<31 - 7, 1<<52 - 5, 0, 9, 99, 1<<52 - 5} {
		w := newWire(t)
		w.push("a", names("a", 12)...)
		w.push("b", names("b", 11)...)
		m := w.enter("p")
		m.last = last
		if n < 10 {
			w.s.exchangeKeys("p").briefs.rest = ways["long way"]
		}
		jobs := m.turn(Exchange{Want: 23, Asks: asks("a", "b")}).Jobs
		for i, j := range jobs {
			w.same("ticket", last+int64(i)+1, j.Ticket)
		}
		w.same("jobs", 23, len(jobs))
		w.same("the record differs from the answer", texts(jobs), w.record("p"))
		m.turn(Exchange{Done: tickets(jobs...)})
		w.same("record", 0, len(w.record("p")))
	}
}

// A payload is bytes: what is reserved, recorded and given back is what was pushed.
func TestReserveKeepsBytes(t *testing.T) {
	t.Parallel()
	every := make([]byte, 256)
	for i := range every {
		every[i] = byte(i)
	}
	payloads := []string{"", "null", "3:low", ":", string(every), strings.Repeat("é\x00", 1<<19), `{ "class" : "A" }`}
	w := newWire(t)
	w.push("4:x é", payloads...)
	m := w.enter("p")
	jobs := m.reserve(len(payloads), "4:x é")
	for i, j := range jobs {
		if string(j.Payload) != payloads[i] {
			t.Errorf("payload %d came as %.40q, want %.40q", i, j.Payload, payloads[i])
		}
	}
	read, _, err := w.s.ReadReserved(w.c, "p", tickets(jobs...))
	w.must(err)
	w.same("read back", jobs, read)
	m.turn(Exchange{Ended: back(jobs...)})
	w.same("given back", payloads, w.queue("4:x é"))
}

func TestReserveLimits(t *testing.T) {
	t.Parallel()
	mega := strings.Repeat("m", 1<<20)
	tests := []struct {
		name     string
		payloads []string
		want     []int // jobs of one exchange after the other
	}{
		{"jobs", names("a", 600), []int{MaxExchangeJobs, 88, 0}},
		{"bytes", slices.Repeat([]string{mega}, 6), []int{4, 2, 0}},
		{"one payload larger than the limit", []string{strings.Repeat(mega, 6), "a", "b"}, []int{1, 2, 0}},
		{"empty ones before large ones", append(make([]string, 85), slices.Repeat([]string{mega[:1<<17]}, 100)...), []int{117, 32, 32, 4, 0}},
		{"small ones before large ones", append(names("a", 85), slices.Repeat([]string{mega[:1<<16]}, 300)...), []int{149, 64, 64, 64, 44, 0}},
	}
	for _, tt := range tests {
		for way, rest := range ways {
			t.Run(tt.name+", "+way, func(t *testing.T) {
				t.Parallel()
				w := newWire(t)
				w.push("a", tt.payloads...)
				m := w.enter("p")
				w.s.exchangeKeys("p").briefs.rest = rest
				var got []int
				for range tt.want {
					got = append(got, len(m.turn(Exchange{Want: MaxExchangeJobs, Asks: asks("a")}).Jobs))
				}
				w.same("jobs an exchange", tt.want, got)
				w.same("record", len(tt.payloads), len(w.record("p")))
			})
		}
	}
}

// The key pauses by Ruby's rule: stripped and in lower case its value is true.
func TestPauseKey(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for value, paused := range map[string]bool{
		"true": true, " TRUE ": true, "True\n": true, "\ttrue\r\n": true,
		"1": false, "false": false, "": false, "yes": false, "true!": false, "not true": false, "tr ue": false,
	} {
		w.do("FLUSHALL")
		w.push("a", "a1", "a2")
		m := w.enter("p")
		jobs := m.reserve(1, "a")
		w.do("SET", w.s.pauseAll(), value)
		out := m.turn(Exchange{Want: 1, Asks: asks("a"), Done: tickets(jobs...)})
		if out.Paused != paused || (len(out.Jobs) == 0) != paused {
			t.Errorf("%q: paused %v with %d jobs, want %v", value, out.Paused, len(out.Jobs), paused)
		}
		w.same("a commit goes on while paused", [2]int{1, 0}, w.stats())
		w.do("DEL", w.s.pauseAll())
		if out := m.turn(Exchange{Want: 1, Asks: asks("a")}); out.Paused {
			t.Errorf("%q: paused after the key was removed", value)
		}
	}
}

// A reserve needs a live lease; a commit does not.
func TestReserveNeedsLease(t *testing.T) {
	t.Parallel()
	for name, lose := range map[string]func(w *wire, m *proc){
		"fenced":  func(_ *wire, m *proc) { m.die() },
		"removed": func(w *wire, _ *proc) { w.do("ZREM", w.s.processes(), "p") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("a", names("a", 5)...)
			m := w.enter("p")
			jobs := m.reserve(4, "a")
			lose(w, m)
			out := m.turn(Exchange{Want: 1, Asks: asks("a"), Done: tickets(jobs[0]), Ended: append(failed(jobs[1]), back(jobs[2])...)})
			if !out.Fenced || out.Missing != 0 || len(out.Jobs) != 0 {
				t.Errorf("got %+v, want fenced and nothing else", out)
			}
			w.same("record", []string{"4 a a4"}, w.record("p"))
			w.same("queue", []string{"a3", "a5"}, w.queue("a"))
			w.same("stats", [2]int{2, 1}, w.stats())
		})
	}
}

// An exchange of another epoch, or of a process that is not there, changes nothing.
func TestExchangeWithoutRecord(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		upset func(w *wire)
		want  error
	}{
		{"newer epoch", func(w *wire) { w.do("HINCRBY", w.s.process("p"), "epoch", 1) }, ErrStale},
		{"no process record", func(w *wire) { w.do("DEL", w.s.process("p")) }, ErrGone},
		{"reaped", func(w *wire) { w.do("DEL", w.s.process("p")); w.do("SET", w.s.reaped("p"), "1") }, ErrReaped},
		{"reaped, and of another epoch", func(w *wire) {
			w.do("HSET", w.s.process("p"), "epoch", 9)
			w.do("SET", w.s.reaped("p"), "1")
		}, ErrReaped},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("a", names("a", 5)...)
			m := w.enter("p")
			jobs := m.reserve(3, "a")
			w.do("HSET", w.s.recovered(), "d", "1 1")
			tt.upset(w)
			w.unchanged("the exchange", func() {
				_, err := m.try(Exchange{Want: 1, Asks: asks("a"), Handed: "9", List: true, Done: tickets(jobs[0]),
					Ended: append(failed(jobs[1]), back(jobs[2:]...)...)})
				if !errors.Is(err, tt.want) {
					t.Errorf("got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestExchangeSaysMore(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("b", "b1")
	w.push("a", "a1", "a2", "a3")
	m := w.enter("p")

	out := m.turn(Exchange{List: true})
	w.same("queues", []string{"a", "b"}, sorted(out.Queues))
	if out := m.turn(Exchange{Want: 1, Asks: asks("a"), Handed: handed(7, 3, 5)}); out.Suspects || len(out.Queues) > 0 {
		t.Errorf("no process died and no list was asked for: %+v", out)
	}
	w.same("handed", "7 3 5", w.server.Text(t, "HGET", w.s.process("p"), "handed"))

	w.do("HSET", w.s.recovered(), "some digest", "1 1")
	if out := m.turn(Exchange{Want: 1, Asks: asks("a")}); !out.Suspects {
		t.Error("a job was taken while deaths are remembered; the answer does not say so")
	}
	if out := m.turn(Exchange{Want: 1, Asks: asks("empty")}); out.Suspects {
		t.Error("no job was taken; the answer says one may be a suspect")
	}
	w.do("DEL", w.s.recovered())
	if out := m.turn(Exchange{Want: 1, Asks: asks("a")}); out.Suspects {
		t.Error("the deaths are forgotten; the answer still warns")
	}
	w.same("handed stays", "7 3 5", w.server.Text(t, "HGET", w.s.process("p"), "handed"))
}

func TestExchangeEmpty(t *testing.T) {
	t.Parallel()
	for i, x := range []Exchange{
		{Want: 1}, {Handed: "1"}, {List: true}, {Done: []int64{1}}, {Ended: []Ended{{}}},
	} {
		if x.Empty() {
			t.Errorf("%d: %+v counts as empty", i, x)
		}
	}
	if x := (Exchange{Process: "p", Epoch: 1, Last: 9, Asks: asks("a"), Arm: true}); !x.Empty() {
		t.Errorf("%+v neither hands in nor takes anything", x)
	}
}

// The answer says that it is older than the commit if Redis did not know the script of the commit: then the look at
// a lane does not show the job that the commit has put there.
func TestLateCommit(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{true, false} { // commit.lua, or the exchange itself
		for _, known := range []bool{true, false} {
			w := newWire(t)
			w.push("low", "a:1")
			m := w.enter("p")
			jobs := m.reserve(1, "low")
			lane := NewLane("low", Limit{Kind: LimitStartsHere, Name: "Mail"})
			w.do("SCRIPT", "FLUSH")
			w.do("SCRIPT", "LOAD", takeScript.Text())
			effects, script := w.s.ToLane(jobs[0], lane), exchangeEnds.plain
			if apart {
				effects, script = append(effects, Guard("EXISTS", w.s.AnyKey("none"), "0")), commitScript.plain
			}
			if known {
				w.do("SCRIPT", "LOAD", script.Text())
			}
			ended := []Ended{{Ticket: jobs[0].Ticket, Effects: effects}}
			out := w.turn(&Exchange{Process: "p", Epoch: 1, Last: 1, Ended: ended, Take: &Take{Want: 1, Look: []Look{{lane.Lanes(), 10}}, Queues: []string{"low"}}})
			shown := 0
			if known {
				shown = 1
			}
			w.same("late", !known, out.Late)
			w.same("lanes shown", shown, out.Taken.Shown[0].Lanes)
			w.same("jobs in the lane", 1, w.server.Int(t, "LLEN", w.s.lane(lane)))
		}
	}
}

// Redis forgets scripts when it restarts or on SCRIPT FLUSH; the exchange sends its script again.
func TestExchangeAfterScriptFlush(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("a", "a1", "a2")
	m := w.enter("p")
	w.do("SCRIPT", "FLUSH")
	jobs := m.reserve(1, "a")
	w.do("SCRIPT", "FLUSH")
	m.turn(Exchange{Done: tickets(jobs...), Want: 1, Asks: asks("a")})
	w.same("stats", [2]int{1, 0}, w.stats())
	w.same("record", []string{"2 a a2"}, w.record("p"))
}

// When Redis is full it takes no more jobs from producers; the workers must continue.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("a", names("a", 9)...)
	m, other := w.enter("p"), w.enter("other")
	jobs := m.reserve(4, "a")
	other.reserve(1, "a")
	w.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
	w.do("CONFIG", "SET", "maxmemory", "1")
	if err := w.s.Push(w.c, "a", []byte("x")); err == nil {
		t.Fatal("Redis takes jobs although it is out of memory")
	}

	m.reserve(1, "a")
	out := m.turn(Exchange{Want: 1, Asks: asks("a"), Handed: "9", Done: tickets(jobs[0]), Ended: append(failed(jobs[1]), back(jobs[2])...)})
	if len(out.Broken) > 0 || len(out.Jobs) != 1 || string(out.Jobs[0].Payload) != "a3" {
		t.Errorf("out of memory: %+v", out)
	}
	w.same("stats", [2]int{2, 1}, w.stats())
	_, err := w.s.Renew(w.c, "p", lease, gap, nil)
	w.must(err)
	_, _, _, err = w.s.Resync(w.c, "p")
	w.must(err)
	other.die()
	w.same("recovered", Recovered{Requeued: 1}, other.recover(3))
	w.same("queue", []string{"a5", "a7", "a8", "a9"}, w.queue("a"))
	w.same("record", []string{"4 a a4", "5 a a6", "6 a a3"}, w.record("p"))
}

func TestHanded(t *testing.T) {
	t.Parallel()
	tests := []struct {
		text    string
		running []int64 // of the tickets 1 to 5
	}{
		{"", nil},
		{handed(0), nil},
		{handed(3), []int64{1, 2, 3}},
		{handed(9, 1, 4), []int64{2, 3, 5}},
		{handed(3, 5), []int64{1, 2, 3}},
		{"no number", nil},
	}
	for _, tt := range tests {
		var got []int64
		h := parseHanded(tt.text)
		for ticket := int64(1); ticket <= 5; ticket++ {
			if h.running(ticket) {
				got = append(got, ticket)
			}
		}
		if !slices.Equal(got, tt.running) {
			t.Errorf("%q: running %v, want %v", tt.text, got, tt.running)
		}
	}
}

// A record is read back as it was written, and no other text is read as one.
func FuzzParseRecord(f *testing.F) {
	for _, seed := range []string{"3:low{}", "0:", "", ":", "3:lo", "-1:x", "+3:low", "03:low", "99999999999999999999:x", "7:a:b é x"} {
		f.Add([]byte(seed), "low")
	}
	f.Fuzz(func(t *testing.T, value []byte, queue string) {
		got, payload, ok := CutPrefix(append([]byte(JobPrefix(queue)), value...))
		if !ok || got != queue || !bytes.Equal(payload, value) {
			t.Errorf("%q, %q came back as %q, %q, %v", queue, value, got, payload, ok)
		}
		if got, payload, ok := CutPrefix(value); ok && JobPrefix(got)+string(payload) != string(value) {
			t.Errorf("%q was read as queue %q with payload %q", value, got, payload)
		}
	})
}
