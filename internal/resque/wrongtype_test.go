package resque

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/payload"
)

// Scripts do not roll back. A key of the wrong type, whichever it is, must neither cost a
// job nor keep the others from going on.
func TestExchangeWrongType(t *testing.T) {
	t.Parallel()
	s := New("")
	tests := []struct {
		key    string
		breaks bool // the whole exchange is refused, and changes nothing
		multi  bool
		kept   string // jobs that stay in the record: l1 is done, l2 failed, l3 goes back
		silent bool   // Redis does not care which type it has
	}{
		{key: s.inflight("p"), breaks: true},
		{key: s.process("p"), breaks: true},
		{key: s.processes(), breaks: true},
		{key: s.reaped("p"), silent: true},
		{key: s.stat("processed")},
		{key: s.stat("failed")},
		{key: s.pauseAll()},
		{key: s.recovered()},
		{key: s.KeyOfQueues()},
		{key: s.KeyOfFailureLists(), multi: true},
		{key: s.failed(), kept: "l2"},
		{key: "resque:low_failed", multi: true, kept: "l2"},
		{key: s.KeyOfQueue("low"), kept: "l3"},
		{key: s.KeyOfQueue("first")},
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
				w.same("a refused exchange changed keys", before, w.server.Dump(t, ""))
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
			// Once the key is repaired, the same exchange commits the job.
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
			list = w.s.KeyOfFailures("low_failed")
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
	lane := NewLane("low", Limit{Kind: LimitRunning, Name: "Mail"})
	calls := map[string]struct {
		keys []string
		call func(w *wire) error

		before func(w *wire) // what the call needs, if not what all have
		all    bool          // each key refuses it
	}{
		"enter": {keys: []string{s.processes(), s.process("new"), s.heartbeats(), s.reaped("new")}, call: func(w *wire) error {
			return s.Enter(w.c, someProcess("new"), lease, noon)
		}},
		"renew": {keys: []string{s.processes(), s.process("p"), s.reaped("p")}, call: func(w *wire) error {
			_, err := s.Renew(w.c, "p", lease, gap, nil)
			return err
		}},
		"resync": {keys: []string{s.inflight("p"), s.process("p"), s.reaped("p")}, call: func(w *wire) error {
			_, _, _, err := s.Resync(w.c, "p")
			return err
		}},
		"fence": {keys: []string{s.processes(), s.reaped("p"), s.process("p")}, call: func(w *wire) error {
			observed, _ := redis.String(w.c.Do("ZSCORE", s.processes(), "p"))
			_, err := s.Fence(w.c, "p", observed)
			return err
		}},
		"recover": {keys: []string{s.inflight("dead"), s.processes(), s.recovered(), s.process("dead")}, call: func(w *wire) error {
			_, err := s.Recover(w.c, someProcess("dead"), 3, noon, deadEnds(s, false, noon))
			return err
		}},
		"move": {keys: []string{s.KeyOfQueue("low"), s.KeyOfQueues(), s.lane(lane), s.lanes(), s.turns(lane.Lanes())}, call: func(w *wire) error {
			_, err := s.MoveJobs(w.c, Lane{Queue: "low"}, false, []Move{{Element: Element{0, []byte("q1")}}}, Target{Queue: "low", Lane: &lane, Head: true})
			return err
		}},
		"cover": {keys: []string{s.process("p"), s.heartbeats()}, call: func(w *wire) error {
			return s.Cover(w.c, someProcess("p"), "claimed:1:low")
		}},
		"leave": {keys: []string{s.processes(), s.inflight("idle")}, call: func(w *wire) error {
			_, err := s.Leave(w.c, "idle")
			return err
		}},
		"prune": {
			keys: []string{s.heartbeats(), s.worker("r:1:low"), s.workers(), s.started("r:1:low"), s.KeyOfFailures("low_failed"), s.KeyOfFailureLists()},
			call: func(w *wire) error {
				_, err := s.Prune(w.c, Expired{ID: "r:1:low", beat: HeartbeatAt(noon)}, noon.Add(time.Hour), true)
				return err
			},
		},
		"condemn": {
			keys: []string{s.KeyOfQueue("rare"), s.KeyOfFailures("rare_failed"), s.KeyOfFailureLists()}, all: true,
			before: func(w *wire) { w.do("RPUSH", s.KeyOfQueue("rare"), "x") },
			call: func(w *wire) error {
				_, err := s.Condemn(w.c, "rare", []byte("x"), payload.Failure{Queue: "rare"}, true)
				return err
			},
		},
		"unlock": {keys: []string{s.pruneLock()}, call: func(w *wire) error { return s.UnlockPruning(w.c, "me") }},
		"delay": {
			keys: []string{s.KeyOfSeconds(), s.KeyOfSecond("1900000001"), s.KeyOfHints(), s.KeyOfJobSeconds(`{"class":"Echo","args":[1],"queue":"low"}`)}, all: true,
			before: func(*wire) {},
			call: func(w *wire) error {
				b := new(Bulk)
				at := time.Unix(1_900_000_000, int64(time.Millisecond))
				if err := b.PutRaw([]byte(`{"class":"Echo","args":[1]}`), Place{Queue: "low", At: at, Ruby: true}); err != nil {
					return err
				}
				return s.PushBulk(w.c, b)
			},
		},
		"unique": {
			keys: []string{s.KeyOfLock("a"), s.KeyOfQueues(), s.KeyOfQueue("high")}, all: true,
			before: func(*wire) {},
			call: func(w *wire) error {
				_, _, err := s.enqueueUnique(w.c, uniqueJob("a", 2, "high"))
				return err
			},
		},
		"unique, later": {
			keys: []string{s.KeyOfLock("a"), s.KeyOfSchedule()}, all: true,
			before: func(*wire) {},
			call: func(w *wire) error {
				j := uniqueJob("a", 2, "high")
				j.At = at(99)
				_, _, err := s.enqueueUnique(w.c, j)
				return err
			},
		},
		"replace": {
			keys: []string{s.KeyOfLock("a"), s.KeyOfQueues(), s.KeyOfQueue("low"), s.KeyOfQueue("high"), s.KeyOfSchedule()}, all: true,
			before: func(w *wire) {
				w.taken(uniqueJob("a", 1, "low"))
				w.age("a", ProvenFor)
			},
			call: func(w *wire) error {
				j := uniqueJob("a", 2, "high")
				j.Replace = true
				_, _, err := s.enqueueUnique(w.c, j)
				return err
			},
		},
		"sort of jobs that begin alike": {
			keys: []string{s.KeyOfQueue("low"), s.lanes(), s.clock(), s.lane(lane), s.turns(lane.Lanes())}, all: true,
			before: func(w *wire) { w.push("low", "a") },
			call: func(w *wire) error {
				_, _, err := s.SortAlike(w.c, Alike{[]byte("a"), lane}, 9)
				return err
			},
		},
		"relane": {
			keys: []string{s.lanes(), s.turns(lane.Lanes()), s.lane(lane), s.clock()}, all: true,
			before: func(w *wire) {
				w.push("low", "a")
				w.sort("low", func(string) Lane { return lane })
				w.do("DEL", s.lanes(), s.turns(lane.Lanes()))
			},
			call: func(w *wire) error {
				_, err := s.Relane(w.c, map[Lanes][]Lane{lane.Lanes(): {lane}})
				return err
			},
		},
		"tick": {
			keys: []string{s.ticks(), s.KeyOfFailures("delayed:last_enqueued_at"), s.pausedSchedules(), s.KeyOfQueues(), s.KeyOfQueue("low"), s.KeyOfFailures("resque:resque_scheduler_master_lock")}, all: true,
			before: func(*wire) {},
			call: func(w *wire) error {
				_, _, err := s.Fire(w.c, w.aTick("1"))
				return err
			},
		},
		"drain of a lane": {
			keys: []string{s.processes(), s.lane(lane), s.KeyOfQueues(), s.KeyOfQueue("low"), s.lanes(), s.turns(lane.Lanes())}, all: true,
			before: func(w *wire) {
				w.push("low", "a")
				w.sort("low", func(string) Lane { return lane })
			},
			call: func(w *wire) error {
				_, err := s.DrainLane(w.c, lane, [][]byte{[]byte("a")})
				return err
			},
		},
		"drain of a kept payload": {
			keys: []string{s.processes(), s.kept("low"), s.KeyOfQueues(), s.KeyOfQueue("low")}, all: true,
			before: func(w *wire) { w.do("RPUSH", s.kept("low"), "a") },
			call: func(w *wire) error {
				_, err := s.DrainKept(w.c, "low", []byte("a"))
				return err
			},
		},
		"drain of the schedule": {
			keys: []string{
				s.processes(), s.KeyOfSchedule(), s.KeyOfQueues(), s.KeyOfSeconds(), s.KeyOfSecond("1900000000"),
				s.KeyOfJobSeconds(`{"class":"A","args":[],"queue":"low"}`),
			}, all: true,
			before: func(w *wire) { w.do("ZADD", s.KeyOfSchedule(), 1900000000000, "3:low"+job("A")) },
			call: func(w *wire) error {
				j := Scheduled{Member: []byte("3:low" + job("A")), Score: "1900000000000", At: Stamp{1900000000000}, Queue: "low"}
				_, refused, err := s.DrainScheduled(w.c, []DrainedJob{{Scheduled: j, Plain: []byte(job("A"))}}, payload.Plain)
				for _, r := range refused {
					err = errors.Join(err, r)
				}
				return err
			},
		},
		"drain of an own queue": {
			keys: []string{s.processes(), s.KeyOfQueue("msgpack:q"), s.KeyOfQueues(), s.KeyOfRubys("msgpack:q")}, all: true,
			before: func(w *wire) { w.do("RPUSH", s.KeyOfQueue("msgpack:q"), "a") },
			call: func(w *wire) error {
				_, err := s.DrainOwn(w.c, "msgpack:q", []OwnJob{{Raw: []byte("a"), JSON: []byte("b")}})
				return err
			},
		},
		"adopt": {
			keys: []string{s.KeyOfRubys("msgpack:q"), s.KeyOfQueues(), s.KeyOfQueue("msgpack:q"), s.KeyOfNames("msgpack:q")}, all: true,
			before: func(w *wire) { w.do("RPUSH", s.KeyOfRubys("msgpack:q"), "a") },
			call: func(w *wire) error {
				_, err := s.Adopt(w.c, "msgpack:q")
				return err
			},
		},
		"drain of keys": {keys: []string{s.processes()}, all: true, before: func(w *wire) { w.do("SET", s.clock(), "1") }, call: func(w *wire) error {
			_, err := s.RemoveOwn(w.c, []string{s.clock()})
			return err
		}},
		"commitLeased": {keys: []string{s.KeyOfLeased(), s.KeyOfLeases()}, call: func(w *wire) error {
			out, err := s.CommitLeased(w.c, []Ended{{Place: "3:low1", Effects: s.EndLease("3:low1", "1900000000000")}})
			if len(out.Refused) > 0 {
				err = out.Refused[0].KeyError
			}
			return err
		}},
		"push": {keys: []string{s.KeyOfQueue("low"), s.KeyOfQueue("high"), s.KeyOfQueues(), s.KeyOfSchedule(), s.HashKey("lock:a").String()}, all: true,
			before: func(*wire) {},
			call: func(w *wire) error {
				b := guardedBulk(guardedJob(s, "low", "l1", "a"), bulkCase{queue: "high", payload: "h1"}, bulkCase{queue: "low", payload: "l2", at: at(99)})
				return s.PushBulk(w.c, b)
			},
		},
	}
	for name, tt := range calls {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			for _, key := range tt.keys {
				w.do("FLUSHALL")
				if tt.before != nil {
					tt.before(w)
				} else {
					w.aDeadProcessAndALiving()
				}
				w.leased("3:low1", "l1", 1900000000000)
				w.spoil(key)
				before := w.server.Dump(t, "")
				err := tt.call(w)
				if tt.all && (err == nil || !strings.Contains(err.Error(), "WRONGTYPE")) {
					t.Errorf("%s is of the wrong type: %v", key, err)
				}
				if err != nil {
					w.same("refused for "+key+", it changed keys", before, w.server.Dump(t, ""))
				} else if key == s.processes() || key == s.heartbeats() {
					t.Errorf("no error although %s is of the wrong type", key)
				}
			}
		})
	}
}

// aDeadProcessAndALiving are what the scripts about processes and workers work on.
func (w *wire) aDeadProcessAndALiving() {
	w.t.Helper()
	w.push("low", "l1", "l2", "l3")
	w.enter("p").reserve(1, "low")
	w.enter("idle")
	dead := w.enter("dead")
	dead.turn(Exchange{Want: 1, Asks: asks("low"), Handed: "9"})
	dead.die()
	w.registerRuby("r:1:low", noon, noon)
	w.must(w.s.UpdateWorkers(w.c, []WorkerUpdate{{ID: "r:1:low", Work: &Work{Queue: "low", RunAt: noon, Payload: []byte(job("A"))}}}))
	if _, err := w.s.LockPruning(w.c, "me"); err != nil {
		w.t.Fatal(err)
	}
}
