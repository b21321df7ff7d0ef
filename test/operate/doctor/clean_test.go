package doctor

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// daemon runs a daemon that knows a slow class under a limit, one that heeds no time limit, a unique one, and one that fails. The first
// two end with the test.
func (w *world) daemon(running chan<- string) {
	w.t.Helper()
	release := make(chan struct{})
	d := goworker.New(goworker.WorkerSettings{
		URI: w.server.URI(), Namespace: w.ns, QueuesString: "high,mail,reports", Concurrency: 4, DynamicSchedule: true,
		DisableSignals: true, Logger: daemontest.Quiet,
	})
	d.Register("Slow", func(ctx context.Context, id string) error {
		running <- id
		select {
		case <-release:
		case <-ctx.Done():
		}
		return ctx.Err()
	}, goworker.MaxRunning(1))
	d.Register("Deaf", func() { <-release }, goworker.Timeout(10*time.Millisecond)) // it does not heed its context
	d.Register("Once", func(context.Context, string) error { return nil }, goworker.Unique())
	d.Register("Fail", func(_ context.Context, id string) error {
		defer func() { running <- id }()
		return context.DeadlineExceeded
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	w.t.Cleanup(func() {
		close(release)
		cancel()
		if err := <-ended; err != nil {
			w.t.Error(err)
		}
		d.Close()
	})
	if err := d.Schedule("yearly", goworker.Recurring{Queue: "mail", Class: "Once", Args: []any{"x"}, Cron: "0 3 1 1 *", Persist: true}); err != nil {
		w.t.Fatal(err)
	}
}

// TestCleanFleet: where daemons, Ruby's workers and a server work as they should, with jobs of every kind under way, no check finds
// anything, and each has seen all there is.
func TestCleanFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	running := make(chan string, 100)
	w.daemon(running)
	w.daemon(running)

	enqueue := func(queue, class, id string, options ...goworker.EnqueueOption) {
		t.Helper()
		if _, err := w.client.Enqueue(t.Context(), goworker.NewJob(queue, class, id), options...); err != nil {
			t.Fatal(err)
		}
	}
	for n := range 5 { // one runs, and four wait in their lane
		enqueue("reports", "Slow", fmt.Sprint("slow ", n))
	}
	enqueue("mail", "Fail", "fails")
	enqueue("mail", "Once", "later", goworker.ProcessIn(time.Hour))
	enqueue("mail", "Fail", "at its second", goworker.ProcessAt(time.Now().Add(time.Hour).Truncate(time.Second)))

	// Ruby's part: a busy worker and an idle one, a scheduler, failures, a paused queue that is empty.
	w.registered("vm:7:mail,legacy*")
	w.registered("vm:8:legacy_1")
	w.do("SET", "~worker:vm:8:legacy_1", `{"queue":"legacy_1","run_at":"2026-11-21T02:38:58Z","payload":`+job+`}`)
	w.queue("legacy_1", job, job)
	w.queue("paused")
	w.do("SADD", "~go:paused", "paused")
	w.do("SET", "~"+w.ns+"resque_scheduler_master_lock", "vm:9", "EX", 180)
	w.do("SET", "~pruning_dead_workers_in_progress", "vm:8:legacy_1", "EX", 60, "NX")
	w.do("HSET", "~delayed:last_enqueued_at", "yearly", w.now(time.Hour))
	for range 300 {
		w.do("RPUSH", "~failed", failed)
	}
	for range 2 {
		redistest.Eventually(t, daemontest.Soon, "a job has begun", func() bool {
			select {
			case <-running:
				return true
			default:
				return false
			}
		})
	}

	// A server that lends a job to a client.
	w.taker("orders")
	w.do("HSET", "~go:taker:web:2:0000beef", "version", w.version())
	w.do("HSET", "~go:leased", "6:ordersx", `{"class":"HTTPJob","args":["x"],"id":"x"}`)
	w.do("ZADD", "~go:leases", ms(-time.Hour), "6:ordersx")
	w.queue("orders", `{"class":"HTTPJob","args":["y"],"id":"y"}`)

	var looked []checks.Finding
	redistest.Eventually(t, daemontest.Soon, "the failure is filed and the jobs are in lanes", func() bool {
		looked = w.look()
		return fmt.Sprint(w.do("LLEN", "~failed")) == "301" && fmt.Sprint(w.do("LLEN", "~queue:reports")) == "0"
	})
	if found := bad(looked); len(found) > 0 {
		t.Errorf("nothing is wrong, and the checks say:\n%s", text(found))
	}
	if len(looked) != len(numbered()) {
		t.Errorf("%d answers of %d checks", len(looked), len(numbered()))
	}
	for _, f := range looked {
		if f.Seen != 1 {
			t.Errorf("check %d has seen %v", f.Check.Number, f.Seen)
		}
	}
}

// numbered are the checks of doctor.
func numbered() (all []*checks.Check) {
	for _, c := range checks.Table {
		if c.In(checks.Doctor) {
			all = append(all, c)
		}
	}
	return all
}

// version is that of the daemons.
func (w *world) version() string {
	w.t.Helper()
	processes, err := w.inspect().Processes(w.t.Context())
	if err != nil || len(processes) == 0 {
		w.t.Fatalf("%d processes, %v", len(processes), err)
	}
	return processes[0].Version
}
