package resque

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

const rubyWorker = "vm:1428:low"

// value is the value of a key in a recording.
func value[T any](t *testing.T, keys []redistest.Key, key string) T {
	t.Helper()
	v, ok := redistest.Values(keys)[key].(T)
	if !ok {
		t.Fatalf("the recording has no such %s", key)
	}
	return v
}

// While a job runs our keys are Ruby's, byte for byte except the field that node needs.
func TestWorkingAsRuby(t *testing.T) {
	t.Parallel()
	golden := redistest.Golden(t, "work_running").Snapshots["while_running"]
	work := value[string](t, golden, "resque:worker:"+rubyWorker)
	started, err := time.Parse(startedLayout, value[string](t, golden, "resque:worker:"+rubyWorker+":started"))
	if err != nil {
		t.Fatal(err)
	}

	w := newWire(t)
	payload := `{"class":"Slow","args":[1.0]}`
	w.push("low", payload)
	m := w.enter("p")
	w.do("HDEL", w.s.heartbeats(), m.WorkerID(0)) // this test has Ruby's worker only
	w.registerRuby(rubyWorker, started, started)
	jobs := m.reserve(1, "low")
	w.must(w.s.UpdateWorkers(w.c, []WorkerUpdate{{ID: rubyWorker, Work: &Work{
		Worker: "vm:1428", Queue: jobs[0].Queue, RunAt: started.In(time.FixedZone("", 3600)), Payload: jobs[0].Payload,
	}}}))
	got := w.onlyRuby(w.server.Snapshot(t, ""))
	ours := strings.TrimSuffix(got["resque:worker:"+rubyWorker].(string), `,"worker":"vm:1428"}`) + "}"
	w.same("worker key", work, ours)
	got["resque:worker:"+rubyWorker] = ours
	w.same("keys", w.onlyRuby(golden), got)

	// And when it is done and the worker has left, only what Ruby leaves is there.
	m.turn(Exchange{Done: tickets(jobs...)})
	w.must(w.s.UpdateWorkers(w.c, []WorkerUpdate{{ID: rubyWorker, Idle: true, Counts: true, Processed: 1}}))
	w.same("worker key while idle", 0, w.server.Int(t, "EXISTS", w.s.worker(rubyWorker)))
	w.must(w.s.Unregister(w.c, []string{rubyWorker}))
	w.same("keys at the end", w.onlyRuby(redistest.Golden(t, "work_success").KeysAfter), w.onlyRuby(w.server.Snapshot(t, "")))
}

// registerRuby registers a worker of Ruby's.
func (w *wire) registerRuby(id string, started, beat time.Time) {
	w.t.Helper()
	w.do("HSET", w.s.heartbeats(), id, HeartbeatAt(beat))
	w.do("SADD", w.s.workers(), id)
	w.do("SET", w.s.started(id), StartedAt(started))
}

// A worker that pauses leaves the keys as Ruby's does.
func TestPausedAsRuby(t *testing.T) {
	t.Parallel()
	r := redistest.Golden(t, "pause")
	w := newWire(t)
	w.do("SET", w.s.pauseAll(), value[string](t, r.Snapshots["paused"], "resque:pause-all-workers"))
	w.push("low", job("Echo")[:len(job("Echo"))-2]+"1]}")
	m := w.enter("p")
	w.do("DEL", w.s.heartbeats())
	if out := m.turn(Exchange{Want: 1, Asks: asks("low")}); !out.Paused {
		t.Error("not paused")
	}
	w.same("keys", w.onlyRuby(r.Snapshots["paused"]), w.onlyRuby(w.server.Snapshot(t, "")))
}

// The forms of the times, read from Ruby's recordings and written again.
func TestTimesAsRuby(t *testing.T) {
	t.Parallel()
	golden := redistest.Golden(t, "work_running").Snapshots["while_running"]
	beat := value[map[string]string](t, golden, "resque:workers:heartbeat")[rubyWorker]
	at, err := time.Parse(time.RFC3339, beat)
	if err != nil || HeartbeatAt(at.In(time.FixedZone("", 0))) != beat {
		t.Errorf("heartbeat %s is written as %s, %v", beat, HeartbeatAt(at), err)
	}
	tokyo := time.FixedZone("JST", 9*3600)
	for got, want := range map[string]string{
		HeartbeatAt(noon):           "2026-11-21T12:00:00+00:00",
		HeartbeatAt(noon.In(tokyo)): "2026-11-21T21:00:00+09:00",
		StartedAt(noon):             "2026-11-21 12:00:00 +0000",
		StartedAt(noon.In(tokyo)):   "2026-11-21 21:00:00 +0900",
	} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	// Go's own form of a time that was just read ends in "m=+0.01".
	if form := regexp.MustCompile(`^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}$`); !form.MatchString(StartedAt(time.Now())) {
		t.Errorf("started %s", StartedAt(time.Now()))
	}
}

// A worker is alive before it is registered, and again after another program removed it.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	p := someProcess("p")
	w.do("HSET", w.s.process(p.ID), "epoch", 1)
	w.do("HSET", w.s.heartbeats(), p.WorkerID(0), HeartbeatAt(noon.Add(-time.Hour)))
	monitor := w.server.Monitor(t)
	w.must(w.s.Register(w.c, p.ID, p.WorkerIDs(), noon, noon))
	var sent []string
	for _, c := range monitor.Commands() {
		if c[0] == "EVALSHA" {
			continue // Redis did not know the script yet
		}
		if c[0] == "EVAL" {
			c = []string{"beat", c[3]}
		}
		sent = append(sent, c[0]+" "+c[1])
	}
	w.same("commands", []string{"beat resque:workers:heartbeat"}, sent)
	want := w.server.Dump(t, "")
	w.same("heartbeat", HeartbeatAt(noon), w.server.Text(t, "HGET", w.s.heartbeats(), p.WorkerID(0)))

	if n, err := w.s.Heartbeat(w.c, p.ID, p.WorkerIDs(), noon); err != nil || n != 0 {
		t.Errorf("a heartbeat found %d unregistered, error %v", n, err)
	}
	w.same("keys after a heartbeat", want, w.server.Dump(t, ""))

	w.do("SREM", w.s.workers(), p.WorkerID(1))
	if n, err := w.s.Heartbeat(w.c, p.ID, p.WorkerIDs(), noon); err != nil || n != 1 {
		t.Errorf("a heartbeat found %d unregistered, error %v, want 1", n, err)
	}
	w.same("keys after one was removed", want, w.server.Dump(t, ""))

	w.do("SREM", w.s.workers(), p.WorkerID(1))
	w.do("HDEL", w.s.heartbeats(), p.WorkerID(0))
	w.do("DEL", w.s.started(p.WorkerID(0)))
	w.must(w.s.Register(w.c, p.ID, p.WorkerIDs(), noon, noon))
	w.same("keys after they were removed", want, w.server.Dump(t, ""))
}

// A process that stood still while it was found dead, or whose record Redis has lost, registers no worker:
// no reaper would find the ids.
func TestTheDeadRegisterNothing(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	dead, gone := w.enter("dead"), someProcess("gone")
	dead.die()
	before := w.server.Dump(t, "")
	ids := []string{"h.go:1-7:low", "h.go:1-8:low"}
	for name, of := range map[string]error{"dead": ErrReaped, gone.ID: ErrGone} {
		_, beat := w.s.Heartbeat(w.c, name, ids, noon)
		for _, err := range []error{beat, w.s.Register(w.c, name, ids, noon, noon)} {
			if !errors.Is(err, of) {
				t.Errorf("process %s: %v, want %v", name, err, of)
			}
		}
	}
	w.same("keys", before, w.server.Dump(t, ""))
}

// Thousands of worker ids go in pieces. A stop leaves none of their keys, and all of other workers'.
func TestManyWorkers(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	p := someProcess("p")
	p.Concurrency = 1100
	w.do("HSET", w.s.process(p.ID), "epoch", 1)
	w.do("SET", "resque:worker:ping:other", "1")
	w.do("HSET", w.s.heartbeats(), "other:1:low", HeartbeatAt(noon))
	before := w.server.Dump(t, "")
	ids := p.WorkerIDs()
	w.must(w.s.Register(w.c, p.ID, ids, noon, noon))
	updates := make([]WorkerUpdate, len(ids))
	for i, id := range ids {
		updates[i] = WorkerUpdate{ID: id, Work: &Work{Worker: p.WorkerName(i), Queue: "low", RunAt: noon, Payload: []byte(job("A"))},
			Counts: true, Processed: 2, Failed: 1}
	}
	w.must(w.s.UpdateWorkers(w.c, updates))
	w.same("registered", sorted(ids), sorted(w.server.List(t, "SMEMBERS", w.s.workers())))
	w.same("keys", 4+4*len(ids), len(w.server.Keys(t)))
	w.same("processed of one", "2", w.server.Text(t, "GET", w.s.workerStat("processed", ids[1099])))
	w.must(w.s.Unregister(w.c, ids))
	w.same("keys after the stop", before, w.server.Dump(t, ""))
	w.must(w.s.Register(w.c, p.ID, nil, noon, noon))
	w.must(w.s.Unregister(w.c, nil))
}

func TestWorkEncode(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, queue, payload, want string }{
		{"unknown fields and spaces stay", "low", `{ "class":"A", "id":"x", "args":[1.0,"<&>"]}`,
			`{"queue":"low","run_at":"2026-11-21T12:00:00Z","payload":{ "class":"A", "id":"x", "args":[1.0,"<&>"]},"worker":"h:1"}`},
		{"a queue is text", `a"<b>&é`, job("A"),
			`{"queue":"a\"<b>&é","run_at":"2026-11-21T12:00:00Z","payload":{"class":"A","args":[]},"worker":"h:1"}`},
		{"what is no job is kept as text", "low", `not JSON`,
			`{"queue":"low","run_at":"2026-11-21T12:00:00Z","payload":{"class":"InvalidPayload","args":["not JSON"]},"worker":"h:1"}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := Work{Worker: "h:1", Queue: tt.queue, RunAt: noon.In(time.FixedZone("JST", 9*3600)), Payload: []byte(tt.payload)}.Encode()
			if string(got) != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// One key that Redis refuses is reported, and the rest is written all the same.
func TestUpdateWorkersRefused(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	w.spoil(w.s.heartbeats())
	p := someProcess("p")
	w.do("HSET", w.s.process(p.ID), "epoch", 1)
	if err := w.s.Register(w.c, p.ID, p.WorkerIDs(), noon, noon); err == nil {
		t.Error("a refused heartbeat was not reported")
	}
	w.same("registered", sorted(p.WorkerIDs()), sorted(w.server.List(t, "SMEMBERS", w.s.workers())))

	var updates []WorkerUpdate
	for i := range 2500 {
		updates = append(updates, WorkerUpdate{ID: fmt.Sprint("w:", i, ":low"), Idle: true, Counts: true})
	}
	w.must(w.s.UpdateWorkers(w.c, updates))
	w.same("counts", 2*2500, len(slices.DeleteFunc(w.server.Keys(t), func(k string) bool { return !strings.HasPrefix(k, "resque:stat:") })))

	_ = w.c.Close()
	if err := w.s.UpdateWorkers(w.c, updates); err == nil {
		t.Error("a closed connection was not reported")
	}
}
