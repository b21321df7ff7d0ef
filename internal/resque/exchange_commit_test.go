package resque

import (
	"strings"
	"testing"
)

// What an exchange hands in: the keys that stand afterwards.
func TestCommit(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		commit func(jobs []Reserved) Exchange // of low 1 to 4, then high 5 and 6
		record string
		queues []string // low, high
		failed string
		stats  [2]int
	}{
		{"done", func(j []Reserved) Exchange { return Exchange{Done: tickets(j[1], j[4])} },
			"1 low l1, 3 low l3, 4 low l4, 6 high h2", []string{"low: l5", "high: h3"}, "", [2]int{2, 0}},
		{"all done", func(j []Reserved) Exchange { return Exchange{Done: tickets(j...)} },
			"", []string{"low: l5", "high: h3"}, "", [2]int{6, 0}},
		{"failed", func(j []Reserved) Exchange {
			return Exchange{Failed: []FailedJob{failedJob(j[5]), failedJob(j[0])}}
		}, "2 low l2, 3 low l3, 4 low l4, 5 high h1", []string{"low: l5", "high: h3"}, "h2 l1", [2]int{2, 2}},
		{"back, however it is sorted", func(j []Reserved) Exchange {
			return Exchange{Back: []Reserved{j[2], j[5], j[0], j[3], j[4]}}
		}, "2 low l2", []string{"low: l1 l3 l4 l5", "high: h1 h2 h3"}, "", [2]int{}},
		{"everything at once", func(j []Reserved) Exchange {
			return Exchange{Done: tickets(j[0]), Failed: []FailedJob{failedJob(j[1])}, Back: j[2:4]}
		}, "5 high h1, 6 high h2", []string{"low: l3 l4 l5", "high: h3"}, "l2", [2]int{2, 1}},
		{"given back and asked for in one exchange", func(j []Reserved) Exchange {
			return Exchange{Back: j[:1], Want: 1, Asks: asks("low")}
		}, "2 low l2, 3 low l3, 4 low l4, 5 high h1, 6 high h2, 7 low l1", []string{"low: l5", "high: h3"}, "", [2]int{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", names("l", 5)...)
			w.push("high", names("h", 3)...)
			m := w.enter("p")
			jobs := append(m.reserve(4, "low"), m.reserve(2, "high")...)
			out := m.turn(tt.commit(jobs))
			if out.Missing != 0 || len(out.Broken) != 0 {
				t.Errorf("missing %d, broken %v", out.Missing, out.Broken)
			}
			w.same("record", tt.record, strings.Join(w.record("p"), ", "))
			w.same("queues", tt.queues, w.queues("low", "high"))
			w.same("failed", tt.failed, strings.Join(w.failedPayloads(w.s.failed()), " "))
			w.same("stats", tt.stats, w.stats())
			w.same("names of queues", []string{"high", "low"}, sorted(w.server.List(t, "SMEMBERS", w.s.queues())))
		})
	}
}

// failedPayloads are the texts of the invalid payloads that the test's failures hold.
func (w *wire) failedPayloads(list string) []string {
	w.t.Helper()
	var texts []string
	for _, record := range w.server.List(w.t, "LRANGE", list, 0, -1) {
		f, err := ParseFailure([]byte(record))
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
	f := FailedJob{Ticket: m.reserve(1, "low")[0].Ticket, Queue: "low", Record: []byte("\x00\xff any { bytes")}
	m.turn(Exchange{Failed: []FailedJob{f}})
	w.same("failed", []string{string(f.Record)}, w.server.List(t, "LRANGE", w.s.failed(), 0, -1))
}

// As Resque's redis_multi_queue backend: a list for each queue, and their names in a set.
func TestCommitMultiQueue(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1", "l2")
	w.push("high", "h1")
	m := w.enter("p")
	var failed []FailedJob
	for _, j := range m.reserve(3, "high", "low") {
		failed = append(failed, failedJob(j))
	}
	m.turn(Exchange{Failed: failed, MultiQueue: true})
	w.same("lists", [][]string{{"l1", "l2"}, {"h1"}},
		[][]string{w.failedPayloads("resque:low_failed"), w.failedPayloads("resque:high_failed")})
	w.same("their names", []string{"high_failed", "low_failed"}, sorted(w.server.List(t, "SMEMBERS", "resque:failed_queues")))
	w.same("the single list", 0, w.server.Int(t, "EXISTS", w.s.failed()))
	w.same("stats", [2]int{3, 3}, w.stats())
}

// Tickets that are not in the record: with a tombstone somebody else has the job and counts
// it; without one Redis lost the record, and what happened is counted and kept all the same.
func TestCommitMissing(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		reaped bool
		failed int
		stats  [2]int
	}{
		{"Redis lost the record", false, 1, [2]int{4, 1}},
		{"given to somebody else", true, 0, [2]int{2, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", names("l", 5)...)
			m := w.enter("p")
			jobs := m.reserve(5, "low")
			w.do("HDEL", w.s.inflight("p"), jobs[0].Ticket, jobs[2].Ticket, jobs[4].Ticket)
			if tt.reaped {
				w.do("SET", w.s.reaped("p"), "1")
			}
			out := m.turn(Exchange{Done: tickets(jobs[0], jobs[1], jobs[3]), Failed: []FailedJob{failedJob(jobs[2])}, Back: jobs[4:]})
			w.same("missing", 2, out.Missing)
			w.same("failed", tt.failed, len(w.failedPayloads(w.s.failed())))
			w.same("stats", tt.stats, w.stats())
			w.same("nothing comes back that is not in the record", []string{"low:"}, w.queues("low"))
			w.same("record", []string{}, w.record("p"))
		})
	}
}

// A queue that was removed while its job was here is named again when the job returns.
func TestBackNamesItsQueue(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", "l1")
	m := w.enter("p")
	jobs := m.reserve(1, "low")
	w.do("DEL", w.s.queues())
	m.turn(Exchange{Back: jobs})
	w.same("queues", []string{"low"}, w.server.List(t, "SMEMBERS", w.s.queues()))
}

func TestLargestCommit(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"done", "failed", "back"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", names("l", 2*MaxExchangeJobs)...)
			m := w.enter("p")
			jobs := m.reserve(MaxExchangeJobs, "low")
			x := Exchange{Want: MaxExchangeJobs, Asks: asks("low")}
			switch kind {
			case "done":
				x.Done = tickets(jobs...)
			case "failed":
				for _, j := range jobs {
					x.Failed = append(x.Failed, failedJob(j))
				}
			case "back":
				x.Back = jobs
			}
			if out := m.turn(x); len(out.Jobs) != MaxExchangeJobs {
				t.Errorf("%d jobs, want %d", len(out.Jobs), MaxExchangeJobs)
			}
			all := len(w.queue("low")) + len(w.record("p")) + len(w.failedPayloads(w.s.failed()))
			if kind == "done" {
				all += w.stats()[0]
			}
			w.same("jobs altogether", 2*MaxExchangeJobs, all)
		})
	}
}
