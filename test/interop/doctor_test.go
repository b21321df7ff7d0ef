package interop

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect/checks"
)

// TestNodeWorksAfterFixes plants what keeps node-resque from its work and has doctor mend it. Then node's scheduler moves
// the delayed job, its worker runs all jobs, and its Queue reads what was filed.
func TestNodeWorksAfterFixes(t *testing.T) {
	server, peer := setup(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	do := func(command string, args ...any) any { return server.Do(t, command, args...) }

	do("SADD", "resque:workers", "vm:1:mail") // a worker of another host, which works what is no JSON
	do("HSET", "resque:workers:heartbeat", "vm:1:mail", time.Now().UTC().Format(time.RFC3339))
	do("SADD", "resque:queues", "mail")
	do("RPUSH", "resque:queue:mail", `{"class":"Echo","args":[`, `{"class":"Echo","queue":"mail","args":[1]}`)
	do("RPUSH", "resque:queue:lost", `{"class":"Echo","queue":"lost","args":[2]}`)
	do("RPUSH", "resque:delayed:1795228884", `{"class":"Echo","queue":"mail","args":[3]}`)
	do("SET", "resque:resque_scheduler_leader_lock", "vm-2")
	do("SET", "resque:pruning_dead_workers_in_progress", "vm:9:mail")
	do("SADD", "resque:workers", "vm:3:mail")
	do("HSET", "resque:workers:heartbeat", "vm:3:mail", time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
	do("SET", "resque:worker:vm:3:mail", `{"queue":"mail","run_at":"2026-11-21T02:38:58Z","payload":{"class":"Echo","args":[4]}}`)

	in, mended := client.Inspect().By("test", "planted"), 0
	for f, err := range checks.Run(t.Context(), in, checks.Options{Budget: time.Minute, Only: []int{28, 29, 32, 34, 40, 41}}) {
		if err != nil {
			t.Fatal(err)
		}
		if f.State != checks.Found {
			t.Errorf("check %d says %s: %s", f.Check.Number, f.State, f.Sentence)
			continue
		}
		changed, err := checks.Fix(t.Context(), in, f)
		if err != nil || !changed {
			t.Errorf("the fix of %q: %v, %v", f.Sentence, changed, err)
		}
		mended++
	}
	if mended != 6 {
		t.Fatalf("%d fixes, not 6", mended)
	}

	scheduler := peer.start(t, "scheduler.mjs")
	scheduler.next(t, "leader")
	scheduler.next(t, "transferred")
	worker := peer.start(t, "worker.mjs", "mail", "lost")
	ran := make(map[string]bool)
	for len(ran) < 3 {
		ran[string(worker.next(t, "success").Result)] = true
	}
	failed := decode[[]struct {
		Exception string
		Payload   struct{ Class string }
		Worker    string
	}](t, peer.queue(t, "failed", 0, -1))
	if len(failed) != 2 || failed[0].Exception != "Resque::PruneDeadWorkerDirtyExit" || failed[0].Payload.Class != "Echo" ||
		failed[1].Payload.Class != "InvalidPayload" || !strings.Contains(failed[1].Worker, ":") {
		t.Errorf("node reads the failures %+v", failed)
	}
	if n := decode[int](t, peer.queue(t, "failedCount")); n != 2 {
		t.Errorf("node counts %d failures, not 2", n)
	}
	workers := decode[map[string]json.RawMessage](t, peer.queue(t, "workers"))
	if _, there := workers["vm:3"]; there || len(workers) == 0 {
		t.Errorf("node sees the workers %v", workers)
	}
	if left := do("EXISTS", "resque:queue:mail", "resque:queue:lost", "resque:delayed:1795228884", "resque:delayed_queue_schedule"); left != int64(0) {
		t.Errorf("%v keys of jobs are left", left)
	}
}
