package resque

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// replay sends the first n commands of a recording.
func (w *wire) replay(r redistest.Recording, n int) {
	w.t.Helper()
	for _, c := range r.Commands[:n] {
		args := make([]any, 0, len(c))
		for _, a := range c[1:] {
			args = append(args, a)
		}
		w.do(c[0], args...)
	}
}

// prune does what the reaper does with the dead workers of other programs.
func (w *wire) prune(now time.Time, multi bool) (pruned []string) {
	w.t.Helper()
	expired, _, err := w.s.Expired(w.c, now)
	w.must(err)
	for _, e := range expired {
		ok, err := w.s.Prune(w.c, e, now, multi)
		w.must(err)
		if ok {
			pruned = append(pruned, e.ID)
		}
	}
	return sorted(pruned)
}

// rubyWorker registers a worker with a heartbeat of the given age and, unless work is "", a job.
func (w *wire) rubyWorker(id string, age time.Duration, work string) {
	w.t.Helper()
	w.registerRuby(id, noon, noon.Add(-age))
	w.do("SET", w.s.workerStat("processed", id), 3)
	w.do("SET", w.s.workerStat("failed", id), 1)
	if work != "" {
		w.do("SET", w.s.worker(id), work)
	}
}

// From the state in which Ruby found a dead worker we leave the keys that Ruby left.
func TestPruneAsRuby(t *testing.T) {
	t.Parallel()
	r := redistest.Golden(t, "prune_expired")
	w := newWire(t)
	w.replay(r, 5)
	f, err := payload.ParseFailure([]byte(value[[]string](t, r.KeysAfter, "resque:failed")[0]))
	w.must(err)
	now, err := time.Parse("2006/01/02 15:04:05 MST", f.FailedAt)
	w.must(err)
	w.same("pruned", []string{"deadhost:123:low"}, w.prune(now, false))
	w.same("keys", w.onlyRuby(r.KeysAfter), w.onlyRuby(w.server.Snapshot(t, "")))
}

// Ruby's rule of the same host removes live workers; we do not have it.
func TestPruneSparesTheSameHost(t *testing.T) {
	t.Parallel()
	r := redistest.Golden(t, "prune_same_host")
	w := newWire(t)
	w.replay(r, 3)
	now, err := time.Parse(time.RFC3339, r.Commands[1][3])
	w.must(err)
	w.unchanged("pruning", func() { w.prune(now.Add(PruneAfter), false) })
}

func TestExpired(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	for id, beat := range map[string]string{
		"a:1:low": HeartbeatAt(noon.Add(-299 * time.Second)),
		"b:1:low": HeartbeatAt(noon.Add(-300 * time.Second)),
		"c:1:low": HeartbeatAt(noon.Add(-301 * time.Second)),
		"d:1:low": HeartbeatAt(noon.Add(time.Hour)),
		"e:1:low": HeartbeatAt(noon.Add(-301 * time.Second).In(time.FixedZone("", 9*3600))),
		"f:1:low": noon.Add(-301 * time.Second).Format("2006-01-02T15:04:05.000Z"),
		"h:1":     HeartbeatAt(noon.Add(-time.Hour)),
		"x:1:low": "garbage",
		"y:1:low": "1700000000",
		"z:1:low": "",
	} {
		w.do("HSET", w.s.heartbeats(), id, beat)
	}
	w.do("SADD", w.s.workers(), "never:1:low", "a:1:low") // never: an old Ruby, node or PHP worker
	expired, unreadable, err := w.s.Expired(w.c, noon.Add(999*time.Millisecond))
	w.must(err)
	var ids []string
	for _, e := range expired {
		ids = append(ids, e.ID)
	}
	w.same("expired", []string{"c:1:low", "e:1:low", "f:1:low", "h:1"}, sorted(ids))
	w.same("unreadable", []string{"x:1:low", "y:1:low", "z:1:low"}, sorted(unreadable))

	w.same("pruned", sorted(ids), w.prune(noon, false))
	w.same("heartbeats left", []string{"a:1:low", "b:1:low", "d:1:low", "x:1:low", "y:1:low", "z:1:low"},
		sorted(w.server.List(t, "HKEYS", w.s.heartbeats())))
	w.same("workers left", []string{"a:1:low", "never:1:low"}, sorted(w.server.List(t, "SMEMBERS", w.s.workers())))
}

// What a dead worker had in hand, and the record it becomes.
func TestPrunedJob(t *testing.T) {
	t.Parallel()
	const tail = `,"backtrace":[],"worker":"d:1:low","queue":"low"}`
	const noQueue = `,"backtrace":[],"worker":"d:1:low","queue":""}`
	record := func(payload, class, tail string) string {
		return `{"failed_at":"2026/11/21 12:00:00 UTC","payload":` + payload + `,"exception":"Resque::PruneDeadWorkerDirtyExit",` +
			`"error":"Worker d:1:low did not gracefully exit while processing ` + class + `"` + tail
	}
	tests := []struct{ name, work, want string }{
		{"idle", "", ""},
		{"idle, as an empty object", "{}", ""},
		{"no payload", `{"queue":"low","payload":null}`, ""},
		{"a job", `{"queue":"low","run_at":"x","payload":{"class":"J", "args":[1.0], "id":7}}`, record(`{"class":"J", "args":[1.0], "id":7}`, "J", tail)},
		{"a payload that is no job", `{"queue":"low","payload":[1]}`, record(`{"class":"InvalidPayload","args":["[1]"]}`, "<Unknown Job>", tail)},
		{"a payload without a class", `{"queue":"low","payload":{"args":[]}}`, record(`{"class":"InvalidPayload","args":["{\"args\":[]}"]}`, "<Unknown Job>", tail)},
		{"no JSON", `corrupt`, record(`{"class":"InvalidPayload","args":["corrupt"]}`, "<Unknown Job>", noQueue)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := newWire(t)
			w.rubyWorker("d:1:low", time.Hour, tt.work)
			w.rubyWorker("alive:1:low", time.Second, `{"queue":"low","payload":`+job("A")+`}`)
			w.same("pruned", []string{"d:1:low"}, w.prune(noon, false))
			want := []string{tt.want}
			if tt.want == "" {
				want = []string{}
			}
			w.same("failed", want, w.server.List(t, "LRANGE", w.s.failed(), 0, -1))
			left := slices.DeleteFunc(w.server.Keys(t), func(k string) bool { return !strings.Contains(k, "d:1:low") })
			w.same("keys of the dead one", 0, len(left))
			w.same("workers", []string{"alive:1:low"}, w.server.List(t, "SMEMBERS", w.s.workers()))
			w.same("stats", [2]int{}, w.stats())
		})
	}
}

func TestPruneMultiQueue(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.rubyWorker("d:1:low", time.Hour, `{"queue":"low","payload":`+job("A")+`}`)
	w.rubyWorker("e:1:low", time.Hour, "corrupt")
	w.prune(noon, true)
	w.same("low_failed", 1, w.server.Int(t, "LLEN", "resque:low_failed"))
	w.same("without a queue, as Ruby names it", 1, w.server.Int(t, "LLEN", "resque:_failed"))
	w.same("the common list", 0, w.server.Int(t, "EXISTS", w.s.failed()))
	w.same("failed_queues", []string{"_failed", "low_failed"}, sorted(w.server.List(t, "SMEMBERS", w.s.KeyOfFailureLists())))
}

// Two reapers may look at the same time; one failure is written. A worker that turned out to
// live, or took another job, is left alone.
func TestPruneComparesWhatItSaw(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.rubyWorker("d:1:low", time.Hour, `{"queue":"low","payload":`+job("A")+`}`)
	seen, _, err := w.s.Expired(w.c, noon)
	w.must(err)
	w.same("by the first", []string{"d:1:low"}, w.prune(noon, false))
	w.unchanged("the second pruning", func() {
		if ok, err := w.s.Prune(w.c, seen[0], noon, false); ok || err != nil {
			t.Errorf("pruned %v, %v", ok, err)
		}
	})

	w.rubyWorker("d:1:low", time.Minute, "")
	w.unchanged("pruning one that lives again", func() {
		if ok, err := w.s.Prune(w.c, seen[0], noon, false); ok || err != nil {
			t.Errorf("pruned %v, %v", ok, err)
		}
	})

	w.rubyWorker("d:1:low", time.Hour, "")
	moved := &meddler{Conn: w.c, before: 2, meddle: func() { w.do("SET", w.s.worker("d:1:low"), `{"queue":"low","payload":`+job("B")+`}`) }}
	if ok, err := w.s.Prune(moved, seen[0], noon, false); ok || err != nil {
		t.Errorf("pruned one that took a job meanwhile: %v, %v", ok, err)
	}
	w.same("failed", 1, w.server.Int(t, "LLEN", w.s.failed()))
}

func TestPruneLock(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	lock := func(worker string, want bool) {
		t.Helper()
		if got, err := w.s.LockPruning(w.c, worker); err != nil || got != want {
			t.Errorf("lock for %s: %v, %v, want %v", worker, got, err, want)
		}
	}
	lock("a:1:low", true)
	lock("b:1:low", false)
	lock("a:1:low", false)
	if ttl := w.server.Int(t, "TTL", "resque:pruning_dead_workers_in_progress"); ttl < 50 || ttl > 60 {
		t.Errorf("the lock stands for %d s, want 60", ttl)
	}
	w.must(w.s.UnlockPruning(w.c, "b:1:low"))
	lock("b:1:low", false)
	w.must(w.s.UnlockPruning(w.c, "a:1:low"))
	lock("b:1:low", true)
	w.spoil(w.s.pruneLock())
	if _, err := w.s.LockPruning(w.c, "a:1:low"); err != nil {
		t.Errorf("SET NX on another type: %v", err)
	}
}
