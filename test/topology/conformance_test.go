package topology

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// soon is how long a test waits for what should happen at once.
const soon = time.Minute

// daemon makes a daemon on a shape. It is closed with the test.
func (s shape) daemon(t *testing.T, namespace string) *goworker.Daemon {
	t.Helper()
	settings := s.settings
	settings.Namespace, settings.QueuesString, settings.Concurrency = namespace, "work", 4
	settings.PollInterval, settings.Logger = time.Hour, slog.New(slog.DiscardHandler)
	return newDaemon(t, settings)
}

func newDaemon(t *testing.T, settings goworker.WorkerSettings) *goworker.Daemon {
	t.Helper()
	d := goworker.New(settings)
	for scheme, open := range openers {
		d.RegisterDialer(scheme, open)
	}
	t.Cleanup(d.Close)
	return d
}

// start runs the daemon until the function it returns is called.
func start(t *testing.T, d *goworker.Daemon) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
	t.Cleanup(stop)
	return stop
}

func job(class string, args ...any) *goworker.Job {
	return &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: class, Args: args}}
}

func enqueue(t *testing.T, d *goworker.Daemon, j *goworker.Job) {
	t.Helper()
	if err := d.Enqueue(j); err != nil {
		t.Fatal(err)
	}
}

func eventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	redistest.Eventually(t, soon, what, cond)
}

// TestConformance is what every shape of Redis does alike. The interval at which
// queues are looked at is an hour, so that nothing works by looking again.
func TestConformance(t *testing.T) {
	t.Parallel()
	for name, make := range shapes {
		if testing.Short() && !inShort[name] {
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := make(t)
			for i, test := range []struct {
				name string
				run  func(*testing.T, shape, *goworker.Daemon)
			}{
				{"runs and counts", runsAndCounts},
				{"wakes", wakes},
				{"files failures", filesFailures},
				{"exits on complete", exitsOnComplete},
				{"dequeues", dequeues},
				{"delays", delays},
				{"survives a cut", survivesCut},
				{"keeps jobs unique", keepsUnique},
				{"keeps cursors", keepsCursors},
				{"drops the expired", dropsExpired},
				{"holds limits", holdsLimits},
				{"client enqueues", clientEnqueues},
				{"client waits", clientWaits},
				{"runs workflows", runsWorkflows},
				{"packs", packs},
				{"gathers", gathers},
				{"serves over HTTP", servesHTTP},
			} {
				t.Run(test.name, func(t *testing.T) { test.run(t, s, s.daemon(t, s.namespace(i))) })
			}
		})
	}
}

func runsAndCounts(t *testing.T, s shape, d *goworker.Daemon) {
	var ran atomic.Int64
	d.Register("Add", func(n int64) { ran.Add(n) })
	for range 20 {
		enqueue(t, d, job("Add", 1))
	}
	stop := start(t, d)
	processed := d.Namespace() + "stat:processed"
	eventually(t, "all jobs are counted", func() bool { return number(t, d, "GET", processed) == 20 })
	stop()
	if ran.Load() != 20 {
		t.Errorf("%d jobs ran", ran.Load())
	}
	if workers, err := d.Workers(); len(workers) != 0 || err != nil {
		t.Errorf("after the stop: %v, %v", workers, err)
	}
}

func delays(t *testing.T, s shape, d *goworker.Daemon) {
	ran := make(chan string, 3)
	var times sync.Map
	d.Register("Tell", func(what string) {
		times.Store(what, time.Now())
		ran <- what
	})
	start(t, d)
	at := time.Now().Add(6 * time.Second).Truncate(time.Second) // later than a slow machine enqueues
	for _, err := range []error{
		d.EnqueueAt(at, job("Tell", "plain")),
		d.EnqueueAt(at.Add(-300*time.Millisecond), job("Tell", "precise")),
		func() error {
			_, err := d.EnqueueWith(job("Tell", "own"), goworker.ProcessAt(at.Add(-600*time.Millisecond)))
			return err
		}(),
		d.EnqueueAt(at, job("Tell", "cancelled")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if n, err := d.RemoveDelayed(job("Tell", "cancelled")); n != 1 || err != nil {
		t.Errorf("cancelled %d, %v", n, err)
	}
	for range 3 {
		select {
		case <-ran:
		case <-time.After(soon):
			t.Fatal("they did not all run")
		}
	}
	for what, sooner := range map[string]time.Duration{"own": 600 * time.Millisecond, "precise": 300 * time.Millisecond, "plain": 0} {
		if began, ok := times.Load(what); !ok || began.(time.Time).Before(at.Add(-sooner)) {
			t.Errorf("%s ran at %v, not from %v on", what, began, at.Add(-sooner))
		}
	}
	eventually(t, "nothing is delayed", func() bool {
		n, err := d.Delayed().Count()
		return n == 0 && err == nil
	})
}

func wakes(t *testing.T, s shape, d *goworker.Daemon) {
	ran := make(chan string, 1)
	d.Register("Tell", func(what string) { ran <- what })
	start(t, d)
	for _, what := range []string{"first", "second"} {
		eventually(t, "the workers are idle", func() bool {
			workers, err := d.Workers()
			return err == nil && len(workers) == 4
		})
		enqueue(t, d, job("Tell", what))
		select {
		case got := <-ran:
			if got != what {
				t.Errorf("the job says %q", got)
			}
		case <-time.After(soon):
			t.Fatalf("the %s push woke no poller", what)
		}
	}
}

func filesFailures(t *testing.T, s shape, d *goworker.Daemon) {
	var ran atomic.Int64
	d.Register("Fail", func(id int) error {
		if ran.Add(1) <= 2 {
			return errors.New("no luck")
		}
		return nil
	})
	start(t, d)
	enqueue(t, d, job("Fail", 1))
	enqueue(t, d, job("Fail", 2))
	count := func() int64 {
		n, err := d.Failures().Count()
		if err != nil {
			t.Error(err)
		}
		return n
	}
	eventually(t, "two failures are filed", func() bool { return count() == 2 })
	list, err := d.Failures().List(0, 10)
	if err != nil || len(list) != 2 || list[0].Class != "Fail" || list[0].Error != "no luck" {
		t.Fatalf("the failures are %+v, %v", list, err)
	}
	if err := d.Failures().Remove(list[0]); err != nil {
		t.Error(err)
	}
	if n, err := d.Failures().RetryAll(); n != 1 || err != nil {
		t.Errorf("retried %d: %v", n, err)
	}
	eventually(t, "the retried job runs", func() bool { return ran.Load() == 3 })
}

func exitsOnComplete(t *testing.T, s shape, _ *goworker.Daemon) {
	settings := s.settings
	settings.Namespace, settings.QueuesString, settings.Concurrency = s.namespace(99), "work", 2
	settings.ExitOnComplete, settings.Logger = true, slog.New(slog.DiscardHandler)
	d := newDaemon(t, settings)
	var ran atomic.Int64
	d.Register("Add", func() { ran.Add(1) })
	for range 10 {
		enqueue(t, d, job("Add"))
	}
	ctx, cancel := context.WithTimeout(t.Context(), soon)
	defer cancel()
	if err := d.Run(ctx); err != nil || ctx.Err() != nil || ran.Load() != 10 {
		t.Errorf("%d jobs ran: %v, %v", ran.Load(), err, ctx.Err())
	}
}

func dequeues(t *testing.T, s shape, d *goworker.Daemon) {
	for i := range 3 {
		enqueue(t, d, job("Any", i))
	}
	if n, err := d.Dequeue(job("Any", 1)); n != 1 || err != nil {
		t.Errorf("dequeued %d: %v", n, err)
	}
	if n, err := d.QueueSize("work"); n != 2 || err != nil {
		t.Errorf("%d are left: %v", n, err)
	}
	if err := d.RemoveQueue("work"); err != nil {
		t.Error(err)
	}
	if queues, err := d.Queues(); len(queues) != 0 || err != nil {
		t.Errorf("left: %v, %v", queues, err)
	}
}

// A cut connection costs no job and no second run.
func survivesCut(t *testing.T, s shape, d *goworker.Daemon) {
	if s.cut == nil {
		t.Skip("there is no connection to cut")
	}
	var ran atomic.Int64
	gate := make(chan struct{})
	d.Register("Hold", func() { ran.Add(1); <-gate })
	start(t, d)
	for range 8 {
		enqueue(t, d, job("Hold"))
	}
	eventually(t, "all workers are busy", func() bool { return ran.Load() == 4 })
	s.cut(t)
	close(gate)
	eventually(t, "all jobs are counted", func() bool {
		c, err := d.GetConn()
		if err != nil {
			return false
		}
		defer d.PutConn(c)
		processed, err := c.Do("GET", d.Namespace()+"stat:processed")
		return err == nil && fmt.Sprintf("%s", processed) == "8"
	})
	if ran.Load() != 8 {
		t.Errorf("%d runs of 8 jobs", ran.Load())
	}
}
