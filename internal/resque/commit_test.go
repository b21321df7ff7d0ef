package resque

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/payload"
)

// later is the end of a job that waits for its next run.
func later(j Reserved) Ended {
	return Ended{Ticket: j.Ticket, Counts: CountsDone, Effects: []Effect{New("").ScheduleAt(1_900_000_000_123, j.Queue, j.Payload)}}
}

// toTail is the end of a job that goes behind all others of its queue.
func toTail(j Reserved) Ended { return Ended{Ticket: j.Ticket, Effects: New("").Tail(j)} }

// The keys after an exchange with commits. It does not matter whether Redis
// knew the script.
func TestCommit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		commit func(jobs []Reserved) Exchange // of low 1 to 4, then high 5 and 6
		record string
		queues []string // low, high
		filled []string
		failed string
		stats  [2]int
	}{
		{"done", func(j []Reserved) Exchange { return Exchange{Done: tickets(j[1], j[4])} },
			"1 low l1, 3 low l3, 4 low l4, 6 high h2", []string{"low: l5", "high: h3"}, nil, "", [2]int{2, 0}},
		{"all done", func(j []Reserved) Exchange { return Exchange{Done: tickets(j...)} },
			"", []string{"low: l5", "high: h3"}, nil, "", [2]int{6, 0}},
		{"failed", func(j []Reserved) Exchange { return Exchange{Ended: failed(j[5], j[0])} },
			"2 low l2, 3 low l3, 4 low l4, 5 high h1", []string{"low: l5", "high: h3"}, nil, "h2 l1", [2]int{2, 2}},
		{"back to the heads of their queues", func(j []Reserved) Exchange { return Exchange{Ended: back(j[2], j[5], j[0], j[3], j[4])} },
			"2 low l2", []string{"low: l1 l3 l4 l5", "high: h1 h2 h3"}, []string{"high", "low"}, "", [2]int{}},
		{"to the tail", func(j []Reserved) Exchange { return Exchange{Ended: []Ended{toTail(j[0]), toTail(j[1])}} },
			"3 low l3, 4 low l4, 5 high h1, 6 high h2", []string{"low: l5 l1 l2", "high: h3"}, []string{"low"}, "", [2]int{}},
		{"another job behind", func(j []Reserved) Exchange {
			return Exchange{Ended: []Ended{{Ticket: 1, Counts: CountsDone, Effects: New("").PushTail("high", []byte("next"))}}}
		}, "2 low l2, 3 low l3, 4 low l4, 5 high h1, 6 high h2", []string{"low: l5", "high: h3 next"}, []string{"high"}, "", [2]int{1, 0}},
		{"later", func(j []Reserved) Exchange { return Exchange{Ended: []Ended{later(j[0])}} },
			"2 low l2, 3 low l3, 4 low l4, 5 high h1, 6 high h2", []string{"low: l5", "high: h3"}, nil, "", [2]int{1, 0}},
		{"everything at once", func(j []Reserved) Exchange {
			return Exchange{Done: tickets(j[0]), Ended: append(failed(j[1]), back(j[2:4]...)...)}
		}, "5 high h1, 6 high h2", []string{"low: l3 l4 l5", "high: h3"}, []string{"low"}, "l2", [2]int{2, 1}},
		{"given back and asked for in one exchange", func(j []Reserved) Exchange {
			return Exchange{Ended: back(j[0]), Want: 1, Asks: asks("low")}
		}, "2 low l2, 3 low l3, 4 low l4, 5 high h1, 6 high h2, 7 low l1", []string{"low: l5", "high: h3"}, []string{"low"}, "", [2]int{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			for _, known := range []bool{true, false} {
				w.do("FLUSHALL")
				w.push("low", names("l", 5)...)
				w.push("high", names("h", 3)...)
				m := w.enter("p")
				jobs := append(m.reserve(4, "low"), m.reserve(2, "high")...)
				x := tt.commit(jobs)
				w.do("SCRIPT", "FLUSH")
				switch {
				case known:
					w.do("SCRIPT", "LOAD", commitScript.plain.Text())
				case x.Want > 0:
					continue // the commit runs after the reservation
				}
				out := m.turn(x)
				if out.Missing != 0 || len(out.Broken)+len(out.Refused) != 0 || out.Removed {
					t.Errorf("got %+v", out)
				}
				w.same("record", tt.record, strings.Join(w.record("p"), ", "))
				w.same("queues", tt.queues, w.queues("low", "high"))
				w.same("filled", tt.filled, sorted(out.Filled))
				w.same("failed", tt.failed, strings.Join(w.failedPayloads(w.s.failed()), " "))
				w.same("stats", tt.stats, w.stats())
				w.same("names of queues", []string{"high", "low"}, sorted(w.server.List(t, "SMEMBERS", w.s.KeyOfQueues())))
				if tt.name == "later" {
					w.same("schedule", []string{"3:lowl1", "1900000000123"}, w.server.List(t, "ZRANGE", w.s.KeyOfSchedule(), 0, -1, "WITHSCORES"))
				}
			}
		})
	}
}

// failedPayloads are the texts of the invalid payloads that the test's failures hold.
func (w *wire) failedPayloads(list string) []string {
	w.t.Helper()
	var texts []string
	for _, record := range w.server.List(w.t, "LRANGE", list, 0, -1) {
		f, err := payload.ParseFailure([]byte(record))
		w.must(err)
		text, ok := strings.CutPrefix(string(f.Payload), `{"class":"InvalidPayload","args":["`)
		if !ok {
			w.t.Fatalf("%s holds %s", list, record)
		}
		texts = append(texts, strings.TrimSuffix(text, `"]}`))
	}
	return texts
}

func TestCommitKeepsRecordBytes(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "a")
	m := w.enter("p")
	record, j := "\x00\xff any { bytes", m.reserve(1, "low")[0]
	effects := append(w.s.FileFailure("low", []byte(record), false), w.s.Keep(j))
	m.turn(Exchange{Ended: []Ended{{Ticket: j.Ticket, Effects: effects}}})
	w.same("failed", []string{record}, w.server.List(t, "LRANGE", w.s.failed(), 0, -1))
	w.same("kept", []string{"a"}, w.server.List(t, "LRANGE", w.s.kept("low"), 0, -1))
}

// As Resque's redis_multi_queue backend: a list for each queue, and their names in a set.
func TestCommitMultiQueue(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1", "l2")
	w.push("high", "h1")
	m := w.enter("p")
	ended := failed(m.reserve(3, "high", "low")...)
	for i, q := range []string{"high", "low", "low"} {
		ended[i].Effects = w.s.FileFailure(q, failureOf([]byte([]string{"h1", "l1", "l2"}[i])), true)
	}
	m.turn(Exchange{Ended: ended})
	w.same("lists", [][]string{{"l1", "l2"}, {"h1"}},
		[][]string{w.failedPayloads("resque:low_failed"), w.failedPayloads("resque:high_failed")})
	w.same("their names", []string{"high_failed", "low_failed"}, sorted(w.server.List(t, "SMEMBERS", "resque:failed_queues")))
	w.same("the single list", 0, w.server.Int(t, "EXISTS", w.s.failed()))
	w.same("stats", [2]int{3, 3}, w.stats())
}

// A queue that was removed while its job was here is named again when the job returns.
func TestCommitNamesItsQueue(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1")
	m := w.enter("p")
	jobs := m.reserve(1, "low")
	w.do("DEL", w.s.KeyOfQueues())
	m.turn(Exchange{Ended: back(jobs...)})
	w.same("queues", []string{"low"}, w.server.List(t, "SMEMBERS", w.s.KeyOfQueues()))
}

// Tickets that are not in the record. With a tombstone another process has the job and counts
// it. Without one the record was removed, and the outcome is counted and kept. A job that is
// to return needs its bytes for that.
func TestCommitMissing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name    string
		reaped  bool
		bytes   bool
		missing int
		low     string
		failed  int
		stats   [2]int
		noBytes []int64
	}{
		{name: "Redis lost the record", missing: 3, low: "low:", failed: 1, stats: [2]int{4, 1}, noBytes: []int64{5, 6}},
		{name: "Redis lost the record, and the bytes are given", bytes: true, missing: 5, low: "low: l5 l6", failed: 1, stats: [2]int{4, 1}},
		{name: "given to another process", reaped: true, missing: 5, low: "low:", stats: [2]int{1, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", names("l", 6)...)
			m := w.enter("p")
			jobs := m.reserve(6, "low")
			w.do("HDEL", w.s.inflight("p"), 1, 3, 4, 5, 6)
			if tt.reaped {
				w.do("SET", w.s.reaped("p"), "1")
			}
			ended := append(failed(jobs[2]), later(jobs[3]), Ended{Ticket: 5, Effects: w.s.Head(jobs[4])}, toTail(jobs[5]))
			if tt.bytes {
				for i := range ended {
					ended[i].Bytes = jobs[i+2].Payload
				}
			}
			out := m.turn(Exchange{Done: tickets(jobs[0], jobs[1]), Ended: ended})
			w.same("missing", tt.missing, out.Missing)
			var refused []int64
			for _, r := range out.Refused {
				if !r.NoBytes() || r.Key != w.s.KeyOfQueue("low") {
					t.Errorf("refused: %+v", r)
				}
				refused = append(refused, r.Ticket)
			}
			w.same("refused", tt.noBytes, refused)
			w.same("failed", tt.failed, len(w.failedPayloads(w.s.failed())))
			w.same("stats", tt.stats, w.stats())
			w.same("queue", []string{tt.low}, w.queues("low"))
			w.same("record", []string{}, w.record("p"))
		})
	}
}

// A fenced process can still commit jobs that are in its record, and no others.
func TestCommitWhileFenced(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 4)...)
	m := w.enter("p")
	jobs := m.reserve(4, "low")
	m.die()
	w.do("HDEL", w.s.inflight("p"), 1, 4)
	out := m.turn(Exchange{Ended: append(failed(jobs[:2]...), later(jobs[2]), toTail(jobs[3]))})
	w.same("missing", 2, out.Missing)
	w.same("refused", []Refusal(nil), out.Refused)
	w.same("failed", []string{"l2"}, w.failedPayloads(w.s.failed()))
	w.same("schedule", 1, w.server.Int(t, "ZCARD", w.s.KeyOfSchedule()))
	w.same("queue", []string{}, w.queue("low"))
	w.same("stats", [2]int{2, 1}, w.stats())
}

// A commit of another epoch, or of a process that is not there, changes nothing. Each script
// sees for itself.
func TestCommitRefusedAsAWhole(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		upset func(w *wire)
		want  error
	}{
		"newer epoch":       {func(w *wire) { w.do("HINCRBY", w.s.process("p"), "epoch", 1) }, ErrStale},
		"no process record": {func(w *wire) { w.do("DEL", w.s.process("p")) }, ErrGone},
		"reaped": {func(w *wire) {
			w.do("DEL", w.s.process("p"))
			w.do("SET", w.s.reaped("p"), "1")
		}, ErrReaped},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", names("l", 4)...)
			m := w.enter("p")
			jobs := m.reserve(4, "low")
			tt.upset(w)
			ended := append(failed(jobs[0]), later(jobs[1]), toTail(jobs[2]), back(jobs[3])[0])
			w.unchanged("the exchange", func() {
				if _, err := m.try(Exchange{Ended: ended}); !errors.Is(err, tt.want) {
					t.Errorf("the exchange got %v, want %v", err, tt.want)
				}
			})
			w.unchanged("the commit", func() {
				reply, err := w.c.Do("EVAL", w.s.commitArgs(commitScript.plain.Text(), w.s.byProcess("p", 1), ended)...)
				w.must(err)
				if _, err = w.s.committed(reply); !errors.Is(err, tt.want) {
					t.Errorf("the commit got %v, want %v", err, tt.want)
				}
			})
		})
	}
}

func TestLargestCommit(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(j Reserved) Ended{
		"failed": func(j Reserved) Ended { return failed(j)[0] },
		"back":   func(j Reserved) Ended { return back(j)[0] },
		"tail":   toTail,
		"later":  later,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			most := 2500
			if name == "later" {
				most = 8500 // more than Lua's unpack returns at once
			}
			w := newWire(t)
			w.push("low", names("l", most+MaxExchangeJobs)...)
			m := w.enter("p")
			var jobs []Reserved
			for len(jobs) < most {
				jobs = append(jobs, m.reserve(min(500, most-len(jobs)), "low")...)
			}
			x := Exchange{Want: MaxExchangeJobs, Asks: asks("low")}
			for _, j := range slices.Backward(jobs) {
				x.Ended = append(x.Ended, end(j))
			}
			if out := m.turn(x); len(out.Jobs) != MaxExchangeJobs || len(out.Refused) > 0 {
				t.Errorf("%d jobs, want %d; refused: %v", len(out.Jobs), MaxExchangeJobs, out.Refused)
			}
			w.same("record", MaxExchangeJobs, len(w.record("p")))
			all := w.server.Int(t, "LLEN", w.s.KeyOfQueue("low")) + w.server.Int(t, "LLEN", w.s.failed()) + w.server.Int(t, "ZCARD", w.s.KeyOfSchedule())
			w.same("jobs elsewhere", most, all)
		})
	}
	t.Run("done", func(t *testing.T) {
		t.Parallel()
		w := newWire(t)
		w.push("low", names("l", 2*MaxExchangeJobs)...)
		m := w.enter("p")
		m.turn(Exchange{Done: tickets(m.reserve(MaxExchangeJobs, "low")...), Want: MaxExchangeJobs, Asks: asks("low")})
		w.same("record", MaxExchangeJobs, len(w.record("p")))
		w.same("stats", [2]int{MaxExchangeJobs, 0}, w.stats())
	})
}

// Several jobs of a call write under one key, each its own.
func TestCommitSharesKeys(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", names("l", 6)...)
	m := w.enter("p")
	var x Exchange
	for i, j := range m.reserve(6, "low") {
		switch e := toTail(j); i % 3 {
		case 0:
			e.Effects = append(w.s.PushTail("low", fmt.Append(nil, "next", i)), w.s.ExpiredCount(), w.s.SetCount("resque-retry:C", i, 0, 0))
			x.Ended = append(x.Ended, e)
		case 1:
			e.Effects = append(e.Effects, w.s.ExpiredCount(), w.s.DropCount("resque-retry:C", true)[0])
			x.Ended = append(x.Ended, e)
		default:
			x.Ended = append(x.Ended, e)
		}
	}
	if out := m.turn(x); len(out.Refused) > 0 {
		t.Errorf("refused: %v", out.Refused)
	}
	w.same("queue", []string{"next0", "l2", "l3", "next3", "l5", "l6"}, w.queue("low"))
	w.same("expired", 4, w.server.Int(t, "HGET", w.s.stats(), expiredField))
	w.same("record", []string{}, w.record("p"))
}
