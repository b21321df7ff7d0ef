package resque

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Scripts do not roll back. A key of the wrong type, whichever it is, must neither cost a
// job nor keep the others from going on.
func TestExchangeWrongType(t *testing.T) {
	t.Parallel()
	s := New("")
	tests := []struct {
		key     string
		breaks  bool // the whole exchange is refused, and changes nothing
		commits bool // but for what ended with effects, which a script of its own commits
		multi   bool
		kept    string // jobs that stay in the record: l1 is done, l2 failed, l3 goes back
		silent  bool   // Redis does not care which type it has
	}{
		{key: s.inflight("p"), breaks: true},
		{key: s.process("p"), breaks: true},
		{key: s.processes(), breaks: true, commits: true},
		{key: s.reaped("p"), silent: true},
		{key: s.stat("processed")},
		{key: s.stat("failed")},
		{key: s.pauseAll()},
		{key: s.recovered()},
		{key: s.queues()},
		{key: s.failedQueues(), multi: true},
		{key: s.failed(), kept: "l2"},
		{key: "resque:low_failed", multi: true, kept: "l2"},
		{key: s.queue("low"), kept: "l3"},
		{key: s.queue("first")},
	}
	for _, tt := range tests {
		name, _ := strings.CutPrefix(tt.key, "resque:")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.push("low", "l1", "l2", "l3")
			w.push("last", "z1", "z2")
			m := w.enter("p")
			jobs := m.reserve(3, "low")
			x := Exchange{
				Done: tickets(jobs[0]), Ended: []Ended{
					{Ticket: 2, Counts: CountsFailed, Effects: s.FileFailure("low", failureOf(jobs[1].Payload), tt.multi)},
					{Ticket: 3, Effects: append(s.Head(jobs[2]), s.ResetDeaths(jobs[2]))},
				},
				Want: 9, Asks: asks("first", "last"), Handed: "9", List: true,
			}
			saved := w.do("DUMP", tt.key)
			w.spoil(tt.key)
			if tt.breaks {
				before := w.server.Dump(t, "")
				if out, err := m.try(x); err == nil {
					t.Errorf("no error, but %+v", out)
				}
				if tt.commits {
					x.Ended = nil
				} else {
					w.same("a refused exchange changed keys", before, w.server.Dump(t, ""))
				}
				w.do("RESTORE", tt.key, 0, saved, "REPLACE")
				w.c = w.server.Dial(t) // the poller gives up a connection after such an error
				m.turn(x)
				w.accountFor("", tt.multi)
				return
			}
			out := m.turn(x)
			for _, r := range out.Refused {
				out.Broken = append(out.Broken, r.KeyError)
				if held := r.Ticket != 0; held != (tt.kept != "") {
					t.Errorf("refused: %v", r)
				}
			}
			said := slices.ContainsFunc(out.Broken, func(e KeyError) bool { return e.Key == tt.key && strings.Contains(e.Reason, "WRONGTYPE") })
			if said == tt.silent {
				t.Errorf("broken: %v, want %s among them: %v", out.Broken, tt.key, !tt.silent)
			}
			w.same("the other queue goes on", []string{"4 last z1", "5 last z2"}, texts(out.Jobs))
			w.accountFor(tt.kept, tt.multi)
			if tt.kept == "" {
				return
			}
			// Repaired by somebody, the same exchange hands in what was kept.
			w.do("DEL", tt.key)
			x.Done, x.Want, x.Asks = nil, 0, nil
			x.Ended = slices.DeleteFunc(x.Ended, func(e Ended) bool { return fmt.Sprint("l", e.Ticket) != tt.kept })
			m.turn(x)
			w.accountFor("", tt.multi)
		})
	}
}

// accountFor checks where l1 to l3 and z1 and z2 are, after l1 was done, l2 failed and l3
// went back; kept is the one that could not.
func (w *wire) accountFor(kept string, multi bool) {
	w.t.Helper()
	record := strings.Join(w.record("p"), ", ")
	want := map[string]string{"": "4 last z1, 5 last z2", "l2": "2 low l2, 4 last z1, 5 last z2", "l3": "3 low l3, 4 last z1, 5 last z2"}
	w.same("record", want[kept], record)
	if kept != "l3" {
		w.same("queue", []string{"l3"}, w.queue("low"))
	}
	if list := w.s.failed(); kept != "l2" {
		if multi {
			list = w.s.list("low_failed")
		}
		w.same("failed", []string{"l2"}, w.failedPayloads(list))
	}
	for _, stat := range []string{"processed", "failed"} {
		if key := w.s.stat(stat); w.server.Text(w.t, "TYPE", key) == "string" && kept != "l2" {
			w.same(stat, map[string]int{"processed": 2, "failed": 1}[stat], w.server.Int(w.t, "GET", key))
		}
	}
}

// Every other script proves its keys before it writes: one that is refused changed nothing.
func TestScriptsRefusedChangeNothing(t *testing.T) {
	t.Parallel()
	s := New("")
	calls := map[string]struct {
		keys []string
		call func(w *wire) error
	}{
		"enter": {[]string{s.processes(), s.process("new"), s.heartbeats(), s.reaped("new")}, func(w *wire) error {
			return s.Enter(w.c, someProcess("new"), lease, noon)
		}},
		"renew": {[]string{s.processes(), s.process("p"), s.reaped("p")}, func(w *wire) error {
			_, err := s.Renew(w.c, "p", lease, gap)
			return err
		}},
		"resync": {[]string{s.inflight("p"), s.process("p"), s.reaped("p")}, func(w *wire) error {
			_, _, _, err := s.Resync(w.c, "p")
			return err
		}},
		"fence": {[]string{s.processes(), s.reaped("p"), s.process("p")}, func(w *wire) error {
			observed, _ := redis.String(w.c.Do("ZSCORE", s.processes(), "p"))
			_, err := s.Fence(w.c, "p", observed)
			return err
		}},
		"recover": {[]string{s.inflight("dead"), s.processes(), s.recovered(), s.process("dead")}, func(w *wire) error {
			_, err := s.Recover(w.c, someProcess("dead"), 3, noon, deadEnds(s, false, noon))
			return err
		}},
		"leave": {[]string{s.processes(), s.inflight("idle")}, func(w *wire) error {
			_, err := s.Leave(w.c, "idle")
			return err
		}},
		"prune": {
			[]string{s.heartbeats(), s.worker("r:1:low"), s.workers(), s.started("r:1:low"), s.list("low_failed"), s.failedQueues()},
			func(w *wire) error {
				_, err := s.Prune(w.c, Expired{ID: "r:1:low", beat: HeartbeatAt(noon)}, noon.Add(time.Hour), true)
				return err
			},
		},
		"unlock": {[]string{s.pruneLock()}, func(w *wire) error { return s.UnlockPruning(w.c, "me") }},
	}
	for name, tt := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			for _, key := range tt.keys {
				w.do("FLUSHALL")
				w.push("low", "l1", "l2", "l3")
				w.enter("p").reserve(1, "low")
				w.enter("idle")
				dead := w.enter("dead")
				dead.turn(Exchange{Want: 1, Asks: asks("low"), Handed: "9"})
				dead.die()
				w.must(s.Register(w.c, []string{"r:1:low"}, noon, noon))
				w.must(s.UpdateWorkers(w.c, []WorkerUpdate{{ID: "r:1:low", Work: &Work{Queue: "low", RunAt: noon, Payload: []byte(job("A"))}}}))
				if _, err := s.LockPruning(w.c, "me"); err != nil {
					t.Fatal(err)
				}
				w.spoil(key)
				before := w.server.Dump(t, "")
				if err := tt.call(w); err != nil {
					w.same("refused for "+key+", it changed keys", before, w.server.Dump(t, ""))
				} else if key == s.processes() || key == s.heartbeats() {
					t.Errorf("no error although %s is of the wrong type", key)
				}
			}
		})
	}
}
