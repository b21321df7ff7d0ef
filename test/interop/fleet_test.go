package interop

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// working is what a worker's record says, as node reads it.
type working struct {
	Queue   string
	RunAt   string `json:"run_at"`
	Worker  string
	Payload struct {
		Class string
		Args  []json.RawMessage
	}
}

// holder registers a class whose job runs until release is called, and waits
// until one such job is running and its record written.
func holder(t *testing.T, server *redistest.Server, d *daemon) (release func()) {
	t.Helper()
	hold, started := make(chan struct{}), make(chan struct{}, 1)
	var once atomic.Bool
	release = func() {
		if once.CompareAndSwap(false, true) {
			close(hold)
		}
	}
	d.Register("Hold", func(string) error {
		started <- struct{}{}
		<-hold
		return nil
	})
	d.run(t)
	t.Cleanup(release) // before the daemon's own clean-up, which waits for the job

	job := &goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Hold", Args: []any{"x"}}}
	if err := d.Enqueue(job); err != nil {
		t.Fatal(err)
	}
	receive(t, started, "the job started")
	redistest.Eventually(t, patience, "the worker's record is there", func() bool { return busy(t, server) != "" })
	return release
}

// busy is the key of the only worker that has a record, or empty.
func busy(t *testing.T, server *redistest.Server) string {
	t.Helper()
	for _, id := range server.List(t, "SMEMBERS", "resque:workers") {
		if server.Int(t, "EXISTS", "resque:worker:"+id) == 1 {
			return "resque:worker:" + id
		}
	}
	return ""
}

func TestNodeListsOurWorkers(t *testing.T) {
	server, peer := setup(t)
	d := newDaemon(server, "mail,reports")
	release := holder(t, server, d)
	name := strings.TrimSuffix(strings.TrimPrefix(busy(t, server), "resque:worker:"), ":mail,reports")

	workers := decode[map[string]string](t, peer.queue(t, "workers"))
	if len(workers) != 2 || workers[name] != "mail,reports" {
		t.Errorf("node lists %v, want two workers, %s among them, on mail,reports", workers, name)
	}

	all := decode[map[string]json.RawMessage](t, peer.queue(t, "allWorkingOn"))
	if len(all) != 2 {
		t.Errorf("node lists work under %d names, want the two workers' only: %s", len(all), all)
	}
	for worker, raw := range all {
		if worker != name {
			if string(raw) != `"started"` {
				t.Errorf("the idle worker %s works on %s", worker, raw)
			}
			continue
		}
		on := decode[working](t, raw)
		if on.Worker != name || on.Queue != "mail" || on.Payload.Class != "Hold" || len(on.Payload.Args) != 1 {
			t.Errorf("node reads %s as the work of %s", raw, name)
		}
		if _, err := time.Parse(time.RFC3339, on.RunAt); err != nil {
			t.Errorf("run_at: %v", err)
		}
	}

	// An hour is far off: no worker of this daemon is old.
	if cleaned := peer.queue(t, "cleanOldWorkers", time.Hour.Milliseconds()); string(cleaned) != "{}" {
		t.Errorf("node cleaned %s", cleaned)
	}
	if n := server.Int(t, "SCARD", "resque:workers"); n != 2 {
		t.Errorf("%d workers are registered, want 2", n)
	}
	release()
	redistest.Eventually(t, patience, "the worker is idle again", func() bool { return busy(t, server) == "" })
}

// An operator may make node remove our worker while it works. Node must find
// it by name, and the worker must come back.
func TestNodeCleansOurWorkerAndItReturns(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for a heartbeat")
	}
	server, peer := setup(t)
	d := newDaemon(server, "mail")
	release := holder(t, server, d)
	id := strings.TrimPrefix(busy(t, server), "resque:worker:")
	name := strings.TrimSuffix(id, ":mail")

	// Older than a second in the future is every job.
	cleaned := decode[map[string]working](t, peer.queue(t, "cleanOldWorkers", -1000))
	if len(cleaned) != 1 || cleaned[name].Worker != name || cleaned[name].Payload.Class != "Hold" {
		t.Errorf("node cleaned %v, want %s, which works on Hold", cleaned, name)
	}
	const heartbeat = time.Minute // the longest there may be from one to the next
	redistest.Eventually(t, heartbeat+patience, "the worker is registered again", func() bool {
		return server.Int(t, "SISMEMBER", "resque:workers", id) == 1
	})
	release()
	redistest.Eventually(t, patience, "the job is counted", func() bool {
		return server.Int(t, "GET", "resque:stat:processed") == 1
	})
}

func TestNodeRetriesAndRemovesOurFailures(t *testing.T) {
	server, peer := setup(t)
	ran, healed := make(chan string, 8), atomic.Bool{}
	d := newDaemon(server, "mail")
	d.Register("Fail", func(id string, _ ...any) error {
		if !healed.Load() {
			return errors.New(`<b>"no"</b> & é 🙂 ` + "\u2028\n\tsecond line")
		}
		ran <- id
		return nil
	})
	d.Register("Panic", func(string) error { panic("out of order") })
	d.run(t)

	peer.queue(t, "enqueue", "mail", "Fail", []any{"node's", json.RawMessage(awkward)})
	for _, p := range []goworker.Payload{
		{Class: "Fail", Args: []any{"ours", 3.0, 1.5, map[string]any{"<k>": nil}}},
		{Class: "Panic", Args: []any{"p"}},
		{Class: "Unknown", Args: nil},
	} {
		if err := d.Enqueue(&goworker.Job{Queue: "mail", Payload: p}); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, patience, "all four have failed", func() bool {
		return server.Int(t, "LLEN", "resque:failed") == 4
	})
	if n := decode[int](t, peer.queue(t, "failedCount")); n != 4 {
		t.Errorf("node counts %d failures, want 4", n)
	}

	// Each record goes back to Node with the bytes that Node printed.
	healed.Store(true)
	byClass := map[string]int{}
	for _, raw := range decode[[]json.RawMessage](t, peer.queue(t, "failed", 0, -1)) {
		record := decode[struct {
			Payload                 struct{ Class string }
			Exception, Error, Queue string
			Worker                  string
			Backtrace               []string
			FailedAt                string `json:"failed_at"`
		}](t, raw)
		class := record.Payload.Class
		byClass[class]++
		if record.Queue != "mail" || record.Exception == "" || record.Error == "" || record.Backtrace == nil ||
			!strings.Contains(record.Worker, ":") || record.FailedAt == "" {
			t.Errorf("node reads this failure: %s", raw)
		}
		if class == "Fail" {
			peer.queue(t, "retryAndRemoveFailed", raw)
			receive(t, ran, "the retried job ran")
		} else if n := decode[int](t, peer.queue(t, "removeFailed", raw)); n != 1 {
			t.Errorf("node removed %d records of %s", n, raw)
		}
	}
	if diff := cmp.Diff(map[string]int{"Fail": 2, "Panic": 1, "Unknown": 1}, byClass); diff != "" {
		t.Errorf("the failures (-want +got):\n%s", diff)
	}
	if n := server.Int(t, "LLEN", "resque:failed"); n != 0 {
		t.Errorf("%d failures are left, want none", n)
	}
}

// Node's leader looks for dead workers and requeues what it has failed. None of
// that is ours, however long our job runs and whatever lies in the failures.
func TestNodeSchedulerLeavesUsAlone(t *testing.T) {
	server, peer := setup(t)
	d := newDaemon(server, "mail")
	d.Register("Fail", func() error { return errors.New("no") })
	release := holder(t, server, d)
	if err := d.Enqueue(&goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Fail"}}); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, patience, "the failure is filed", func() bool {
		return server.Int(t, "LLEN", "resque:failed") == 1
	})
	record := busy(t, server)
	before := fleet(t, server, record)

	scheduler := peer.start(t, "scheduler.mjs")
	leader := scheduler.next(t, "leader").Name
	if got := decode[string](t, peer.queue(t, "leader")); got != leader {
		t.Errorf("node's leader is %q, want its scheduler %q", got, leader)
	}
	// Twice as long as it takes the scheduler to think a silent worker dead.
	for scheduler.next(t, "poll").N < 40 {
	}
	if diff := cmp.Diff(before, fleet(t, server, record)); diff != "" {
		t.Errorf("node's scheduler changed (-before +after):\n%s", diff)
	}
	for _, e := range scheduler.stop(t) {
		if e.Event != "poll" {
			t.Errorf("node's scheduler did something: %+v", e)
		}
	}
	release()
	redistest.Eventually(t, patience, "both jobs are counted", func() bool {
		return server.Int(t, "GET", "resque:stat:processed") == 2
	})
}

// fleet is what must not change while our worker goes on with its job.
func fleet(t *testing.T, server *redistest.Server, record string) map[string]any {
	t.Helper()
	all := server.Dump(t, "resque:")
	heartbeats := 0
	if fields, ok := all["resque:workers:heartbeat"].(map[string]string); ok {
		heartbeats = len(fields)
	}
	return map[string]any{
		"workers": all["resque:workers"], "heartbeats": heartbeats, "working": all[record],
		"failed": all["resque:failed"], "stat:failed": all["resque:stat:failed"], "queue": all["resque:queue:mail"],
	}
}

// A failure keeps its name while Node removes those before it, and what a program in
// JavaScript made of its record is still the same failure.
func TestFailuresKeepTheirNamesBesideNode(t *testing.T) {
	server, peer := setup(t)
	d := newDaemon(server, "mail")
	d.Register("Fail", func(...any) error { return errors.New("no <luck> é") })
	d.run(t)
	peer.queue(t, "enqueue", "mail", "Fail", []any{"first"})
	redistest.Eventually(t, patience, "it has failed", func() bool { return server.Int(t, "LLEN", "resque:failed") == 1 })
	peer.queue(t, "enqueue", "mail", "Fail", []any{"second", json.RawMessage(`[100000.0,1e2]`)})
	redistest.Eventually(t, patience, "both have failed", func() bool { return server.Int(t, "LLEN", "resque:failed") == 2 })

	failures := d.Failures()
	page, _, err := failures.Search(goworker.FailureFilter{}, "", 2)
	if err != nil || len(page) != 2 {
		t.Fatalf("%d, %v", len(page), err)
	}
	second := page[0].ID
	records := decode[[]json.RawMessage](t, peer.queue(t, "failed", 0, -1)) // as JavaScript prints them
	if n := decode[int](t, peer.queue(t, "removeFailed", records[0])); n != 1 {
		t.Errorf("node removed %d", n)
	}
	server.Do(t, "LSET", "resque:failed", 0, string(records[1]))
	if f, err := failures.Get(second); err != nil || f.ID != second || string(f.Raw) != string(records[1]) {
		t.Errorf("got %s, %v", f.Raw, err)
	}
	if n, err := failures.RetryID(second); n != 1 || err != nil {
		t.Errorf("retried %d, %v", n, err)
	}
	redistest.Eventually(t, patience, "it fails again", func() bool { return server.Int(t, "LLEN", "resque:failed") == 2 })
	if n, err := failures.RemoveID(second); n != 1 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
}

// What we leave in a queue because we do not know its class, Node runs.
func TestNodeRunsWhatWeLeave(t *testing.T) {
	server, peer := setup(t)
	d := newDaemon(server, "mail")
	d.SetSettings(goworker.WorkerSettings{
		URI: server.URI(), QueuesString: "mail", Concurrency: 2, PollInterval: 100 * time.Millisecond,
		DisableSignals: true, LeaveUnknown: true, Logger: slog.New(slog.DiscardHandler),
	})
	d.run(t)
	const n = 20
	for i := range n {
		if err := d.Enqueue(&goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Echo", Args: []any{i}}}); err != nil {
			t.Fatal(err)
		}
	}
	worker := peer.start(t, "worker.mjs", "mail")
	ran := make(map[string]bool)
	for range n {
		ran[string(worker.next(t, "success").Result)] = true
	}
	if len(ran) != n || server.Int(t, "EXISTS", "resque:failed") != 0 {
		t.Errorf("node ran %d jobs of %d", len(ran), n)
	}
}
