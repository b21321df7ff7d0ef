package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/payload"
)

// end is one death of a process that had reserved all jobs of the queue. A job is named by its
// letter; those that are not named ran as ordinary jobs.
type end struct{ trial, past, waits string }

// deaths lets one process after the other reserve the jobs and die. It returns what became of
// each job: "filed at the n-th death", or count, charges and level as they are remembered.
func (w *wire) sufferDeaths(limit int, jobs string, ends []end) map[string]string {
	w.t.Helper()
	fate := make(map[string]string)
	for i, letter := range strings.Split(jobs, "") {
		w.push("low", job(letter))
		fate[letter] = fmt.Sprint(i)
	}
	for i, e := range ends {
		m := w.enter(fmt.Sprint("p", i))
		out := m.turn(Exchange{Want: 99, Asks: asks("low")})
		h := HandedOut{UpTo: 99}
		for _, j := range out.Jobs {
			p, err := payload.Parse(j.Payload)
			w.must(err)
			switch {
			case p.Class == e.trial && h.Trial == 0:
				h.Trial = j.Ticket
			case strings.Contains(e.past, p.Class):
				h.Past = append(h.Past, j.Ticket)
			case strings.Contains(e.waits, p.Class):
				h.Held = append(h.Held, j.Ticket)
			}
		}
		m.turn(Exchange{Handed: h.String()})
		before := w.server.Int(w.t, "LLEN", w.s.failed())
		m.die()
		got := m.recover(limit)
		w.same("refused", 0, len(got.Refused))
		_, err := w.s.Leave(w.c, m.ID)
		w.must(err)
		for _, record := range w.server.List(w.t, "LRANGE", w.s.failed(), before, -1) {
			f, err := payload.ParseFailure([]byte(record))
			w.must(err)
			p, err := payload.Parse(f.Payload)
			w.must(err)
			fate[p.Class] = fmt.Sprint("filed ", i+1)
		}
	}
	for letter, now := range fate {
		if !strings.HasPrefix(now, "filed ") {
			d, err := w.s.Deaths(w.c, []string{Digest([]byte(job(letter)))}, noon)
			w.must(err)
			fate[letter] = fmt.Sprint(d[0].Count, " ", d[0].Charged, " ", d[0].Level)
		}
	}
	return fate
}

func repeat(n int, e end) []end { return slices.Repeat([]end{e}, n) }

// Which jobs are filed, and when; and the counts of the others: in how many deaths they were, with
// how many they are charged, and at which level their trials are.
func TestSuspects(t *testing.T) {
	t.Parallel()
	first := []end{{}} // no job is a suspect yet
	tests := []struct {
		name  string
		limit int
		jobs  string
		ends  []end
		want  map[string]string
	}{
		{"after one death no job is charged", 3, "PA", first, map[string]string{"P": "1 0 0", "A": "1 0 0"}},
		{"a fast poison", 3, "PAB", slices.Concat(first, repeat(3, end{trial: "P", waits: "AB"})),
			map[string]string{"P": "filed 4", "A": "1 0 0", "B": "1 0 0"}},
		{"a fast poison after innocent ones", 3, "ABP", slices.Concat(first, repeat(1, end{trial: "P", past: "AB"}), repeat(2, end{trial: "P"})),
			map[string]string{"P": "filed 4", "A": "4 0 1", "B": "4 0 1"}},
		{"limit 1", 1, "PA", slices.Concat(first, repeat(1, end{trial: "P", waits: "A"})), map[string]string{"P": "filed 2", "A": "1 0 0"}},
		{"limit 2 takes two charges", 2, "PA", slices.Concat(first, first, repeat(2, end{trial: "P", waits: "A"})),
			map[string]string{"P": "filed 4", "A": "2 0 0"}},
		{"limit 0 files no job", 0, "PA", slices.Concat(first, repeat(9, end{trial: "P", waits: "A"})), map[string]string{"P": "10 9 0", "A": "1 0 0"}},
		{"a slow poison", 3, "PA", slices.Concat(first, repeat(2, end{past: "PA"}), repeat(2, end{trial: "P", waits: "A"})),
			map[string]string{"P": "filed 5", "A": "3 0 2"}},
		{"a slow poison that an innocent one precedes", 3, "AP",
			slices.Concat(first, repeat(2, end{past: "AP"}), repeat(1, end{past: "A", trial: "P"}), repeat(1, end{trial: "P"})),
			map[string]string{"P": "filed 5", "A": "5 0 3"}},
		{"an innocent one on a long trial is charged for a poison past its own", 3, "PA",
			slices.Concat(first, repeat(2, end{past: "PA"}), repeat(1, end{past: "P", trial: "A"}), repeat(3, end{trial: "P", waits: "A"})),
			map[string]string{"P": "filed 6", "A": "4 1 2"}},
		{"two poisons", 3, "PQA", slices.Concat(first, repeat(3, end{trial: "P", waits: "QA"}), repeat(3, end{trial: "Q", waits: "A"})),
			map[string]string{"P": "filed 4", "Q": "filed 7", "A": "1 0 0"}},
		{"two poisons by turns", 3, "PQA", slices.Concat(first, []end{
			{trial: "P", waits: "QA"}, {trial: "Q", waits: "PA"}, {trial: "P", waits: "QA"}, {trial: "Q", waits: "PA"}, {trial: "P", waits: "QA"}, {trial: "Q", waits: "A"}}),
			map[string]string{"P": "filed 6", "Q": "filed 7", "A": "1 0 0"}},
		{"innocent and past its trial in many deaths", 3, "A", slices.Concat(first, repeat(20, end{past: "A"})), map[string]string{"A": "21 0 20"}},
		{"innocent and an ordinary job in many deaths", 3, "A", repeat(20, end{}), map[string]string{"A": "20 0 0"}},
		{"innocent and charged once in ten deaths", 3, "A", slices.Concat(repeat(1, end{trial: "A"}), repeat(9, end{})), map[string]string{"A": "10 1 0"}},
		{"charged with less than a third", 3, "A", slices.Concat(repeat(8, end{}), repeat(2, end{trial: "A"})), map[string]string{"A": "10 2 0"}},
		{"charged with a third", 3, "A", slices.Concat(repeat(6, end{}), repeat(3, end{trial: "A"})), map[string]string{"A": "filed 9"}},
		{"a poison in a fleet that dies much", 3, "PA", slices.Concat(repeat(6, end{}), repeat(3, end{trial: "P", waits: "A"})),
			map[string]string{"P": "filed 9", "A": "6 0 0"}},
		{"twins, of whom one is on trial", 3, "PPA", slices.Concat(first, repeat(3, end{trial: "P", past: "P", waits: "A"})),
			map[string]string{"P": "filed 4", "A": "1 0 0"}},
		{"twins past their trials", 3, "PPA", slices.Concat(first, repeat(1, end{past: "P", waits: "A"})), map[string]string{"P": "2 0 1", "A": "1 0 0"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			got := w.sufferDeaths(tt.limit, tt.jobs, tt.ends)
			w.same("jobs", tt.want, got)
		})
	}
}

// A reaper that goes on where another was killed judges as that one would have: the job on trial
// was, though it is out of the record.
func TestSuspectsWhenTheReaperIsKilled(t *testing.T) {
	t.Parallel()
	for _, level := range []int{0, 2} {
		w := newWire(t)
		w.push("low", job("A"), job("B"), job("P"))
		for _, class := range []string{"A", "B", "P"} {
			w.do("HSET", w.s.recovered(), Digest([]byte(job(class))), fmt.Sprintf("1 %d q 0 %d", noon.UnixMilli(), level))
		}
		m := w.enter("p")
		m.turn(Exchange{Want: 3, Asks: asks("low"), Handed: HandedOut{UpTo: 3, Trial: 3, Past: []int64{1, 2}}.String()})
		m.die()
		r, err := w.s.recovery(w.c, m.Process, 3, noon, parseHanded("3 *3 +1 +2"))
		w.must(err)
		r.end = deadEnds(w.s, false, noon)
		w.must(r.move(w.c, []int64{3}, &Recovered{}))
		w.same("the next", Recovered{Requeued: 2}, m.recover(3))
		for class, want := range map[string][3]int{"A": {2, 0, level + 1}, "B": {2, 0, level + 1}, "P": {2, 1, level}} {
			d, err := w.s.Deaths(w.c, []string{Digest([]byte(job(class)))}, noon)
			w.must(err)
			w.same(fmt.Sprint(class, " at level ", level), want, [3]int{d[0].Count, d[0].Charged, d[0].Level})
		}
	}
}

// A queue that refuses a job keeps only its own back, not its twins in other queues.
func TestRecoverTwinsOfWrongType(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	twin := job("Hourly")
	w.push("low", twin, twin)
	w.push("high", twin, twin)
	w.push("other", twin)
	m := w.enter("p")
	m.reserve(2, "low")
	m.reserve(2, "high")
	m.reserve(1, "other")
	m.turn(Exchange{Handed: "9"})
	w.spoil(w.s.KeyOfQueue("high"))
	w.spoil(w.s.KeyOfQueue("other"))
	m.die()
	got := m.recover(3)
	w.same("requeued", 2, got.Requeued)
	w.same("low", []string{twin, twin}, w.queue("low"))
	w.same("deaths", 1, w.deaths(twin))
	w.same("record", []string{"3 high " + twin, "4 high " + twin, "5 other " + twin}, w.record("p"))
	w.do("DEL", w.s.KeyOfQueue("high"), w.s.KeyOfQueue("other"))
	w.same("later", Recovered{Requeued: 3}, m.recover(3))
	w.same("deaths", 1, w.deaths(twin))
	w.same("high", []string{twin, twin}, w.queue("high"))
}

// What is remembered of a job that was filed goes, although a set of names could not be written.
func TestRecoverForgetsFiledJobs(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.push("low", job("P"), "l2")
	m := w.enter("p")
	m.turn(Exchange{Want: 2, Asks: asks("low"), Handed: "2 2 *1"})
	w.do("HSET", w.s.recovered(), Digest([]byte(job("P"))), fmt.Sprintf("3 %d q 2 0", noon.UnixMilli()))
	w.spoil(w.s.KeyOfQueues())
	m.die()
	got := m.recover(3)
	w.same("filed", 1, got.Failed)
	w.same("deaths", 0, w.deaths(job("P")))
}

// Trials are short at first and share a time, so that all that a death interrupted run soon.
func TestTrial(t *testing.T) {
	t.Parallel()
	for level, want := range map[int][3]time.Duration{ // alone, with 9 others, with 999
		0: {250 * time.Millisecond, 200 * time.Millisecond, 2 * time.Millisecond},
		1: {3 * time.Second, 3 * time.Second, 30 * time.Millisecond},
		2: {90 * time.Second, 90 * time.Second, 90 * time.Second},
		3: {15 * time.Minute, 15 * time.Minute, 15 * time.Minute},
		9: {2 * time.Hour, 2 * time.Hour, 2 * time.Hour},
	} {
		d := Deaths{Level: level}
		if got := [3]time.Duration{d.Trial(0), d.Trial(9), d.Trial(999)}; got != want {
			t.Errorf("level %d: %v, want %v", level, got, want)
		}
	}
}

// Counts that older releases wrote, or a hand, are believed as far as they go.
func TestParseDeaths(t *testing.T) {
	t.Parallel()
	ms := noon.UnixMilli()
	for text, want := range map[string]Deaths{
		"":                                       {},
		"3":                                      {},
		"x y z":                                  {},
		fmt.Sprint("3 ", ms):                     {Count: 3},
		fmt.Sprint("3 ", ms, " p"):               {Count: 3, last: "p"},
		fmt.Sprint("3 ", ms, " p 2"):             {Count: 3, last: "p"},
		fmt.Sprint("3 ", ms, " p 2 1"):           {Count: 3, last: "p", Charged: 2, Level: 1},
		fmt.Sprint("3 ", ms, " p x y"):           {Count: 3, last: "p"},
		fmt.Sprint("1 ", ms-3601_000, " p 0 0"):  {}, // an hour after one death
		fmt.Sprint("1 ", ms-3601_000, " p 1 0"):  {Count: 1, last: "p", Charged: 1},
		fmt.Sprint("2 ", ms-3601_000, " p 0 4"):  {Count: 2, last: "p", Level: 4},
		fmt.Sprint("2 ", ms-86401_000, " p 2 0"): {},
	} {
		want.raw = text
		if got := parseDeaths(text, noon); got != want {
			t.Errorf("%q: %+v, want %+v", text, got, want)
		}
	}
}
