package jobs

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A fleet goes back to Ruby: what a daemon and a dead process left is in Ruby's keys afterwards, each
// job once. A daemon that starts later runs all of it.
func TestDrainToResque(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = 100 * time.Millisecond })
	b.Daemon.Register("Hold", b.Classes()["Hold"], goworker.MaxRunning(1))
	b.Daemon.Register("Fail", b.Classes()["Fail"], goworker.Retry(3, goworker.Delays{time.Hour}))
	b.Daemon.Register("Once", b.Classes()["Mark"], goworker.Unique())
	b.Start()
	b.Push(daemontest.Jobs("Hold", 5)...)
	b.Push(daemontest.Job("Fail", "retried"))
	job := func(class, id string) *goworker.Job {
		return &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: class, Args: []any{id}}}
	}
	for _, enqueue := range []func() error{
		func() error {
			_, err := b.Daemon.EnqueueWith(job("Once", "unique"), goworker.ProcessIn(time.Hour))
			return err
		},
		func() error {
			_, err := b.Daemon.EnqueueWith(job("Mark", "expiring"), goworker.ProcessIn(time.Hour), goworker.ExpireAfter(time.Hour))
			return err
		},
		func() error { return b.Daemon.EnqueueIn(time.Hour, job("Mark", "plain")) },
	} {
		if err := enqueue(); err != nil {
			t.Fatal(err)
		}
	}
	b.Eventually("four jobs wait in a lane and one for its next try", func() bool {
		return len(b.Redis.List(t, "KEYS", "resque:go:lane:*")) == 1 && b.Redis.Int(t, "ZCARD", "resque:go:schedule") == 3
	})
	if _, err := b.Daemon.Client().DrainToResque(t.Context()); !errors.Is(err, goworker.ErrProcessesAlive) || !strings.Contains(err.Error(), "stop them first") {
		t.Errorf("while the daemon runs the error is %v", err)
	}
	if err := b.Stop(); err != nil && !errors.As(err, new(*goworker.ShutdownError)) {
		t.Fatal(err)
	}
	dead := b.Died(true)
	b.Redis.Do(t, "HSET", "resque:go:inflight:"+dead.ID, 1, "4:work"+daemontest.Job("Mark", "dead"))
	b.Redis.Do(t, "ZADD", "resque:go:processes", 5, dead.ID)
	b.Push(daemontest.Job("Mark", "waits"))

	dry, err := b.Daemon.Client().DrainToResque(t.Context(), goworker.DrainDryRun())
	if err != nil || dry.Delayed != 3 || dry.Requeued != 1 {
		t.Errorf("the dry run: %v, %+v", err, dry)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if r, err := b.Daemon.Client().DrainToResque(ended); !errors.Is(err, context.Canceled) || r.StoppedAt == "" || !strings.Contains(err.Error(), "call DrainToResque again") {
		t.Errorf("with a context that has ended: %v, %+v", err, r)
	}
	report, err := b.Daemon.Client().DrainToResque(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if report.Delayed != 3 || report.Requeued != 1 || report.Lanes == 0 || report.Locks != 1 || len(report.Left) > 0 {
		t.Errorf("the report is %+v", report)
	}
	if lost := report.Dropped; lost["attempt"] != 1 || lost["unique"] != 1 || lost["expires_at"] != 1 {
		t.Errorf("what delayed jobs lost: %v", lost)
	}
	want := append(daemontest.Jobs("Hold", 5), daemontest.Job("Mark", "dead"), daemontest.Job("Mark", "waits"))
	waiting := b.Queue("work")
	slices.Sort(want)
	slices.Sort(waiting)
	if !slices.Equal(want, waiting) {
		t.Errorf("the queue has %q, want %q", waiting, want)
	}
	var items []string
	for _, key := range b.Redis.List(t, "KEYS", "resque:delayed:*") {
		items = append(items, b.Redis.List(t, "LRANGE", key, 0, -1)...)
	}
	slices.Sort(items)
	var delayed []string
	for _, j := range []string{"Fail retried", "Mark expiring", "Mark plain", "Once unique"} {
		class, id, _ := strings.Cut(j, " ")
		delayed = append(delayed, fmt.Sprintf(`{"class":%q,"args":[%q],"queue":"work"}`, class, id))
	}
	if !slices.Equal(items, delayed) {
		t.Errorf("resque-scheduler has %q, want %q", items, delayed)
	}
	for _, key := range b.Redis.Keys(t) {
		if strings.HasPrefix(key, "resque:go:") && !strings.HasPrefix(key, "resque:go:reaped:") && !daemontest.OfHistory(strings.TrimPrefix(key, "resque:")) {
			t.Errorf("%s is left", key)
		}
	}

	later := daemontest.SetupOn(t, b.Redis)
	later.Open()
	later.Start()
	jobs, err := later.Daemon.Delayed().List(time.Time{}, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	later.Daemon.Register("Once", b.Classes()["Mark"])
	if n, err := later.Daemon.Delayed().Enqueue(jobs...); n != 4 || err != nil {
		t.Errorf("%d delayed jobs were enqueued, %v", n, err)
	}
	later.Eventually("all jobs are counted", func() bool {
		return later.Redis.Int(t, "LLEN", "resque:queue:work") == 0 && later.Runs.Finished() >= 10
	})
	if twice := later.Runs.Twice(); len(twice) > 0 {
		t.Errorf("these jobs ran twice: %q", twice)
	}
}

// Over shards a drain goes shard by shard, and its report names them.
func TestDrainOfShards(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 1, Logger: daemontest.Quiet},
		goworker.Shard{URI: one.URI(), Queues: []string{"mail"}}, goworker.Shard{URI: two.URI(), Queues: []string{"work"}})
	defer s.Close()
	for _, queue := range []string{"mail", "work"} {
		if _, err := s.Client().Enqueue(t.Context(), goworker.NewJob(queue, "Later"), goworker.WithID(queue), goworker.ProcessIn(time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	two.Do(t, "SET", "resque:go:later:1", "of a later version")
	report, err := s.Client().DrainToResque(t.Context(), goworker.DrainNow())
	if err != nil {
		t.Fatal(err)
	}
	if report.Queued != 2 || report.Ignored["id"] != 2 || len(report.Left) != 1 || !strings.HasPrefix(report.Left[0].Key, "shard ") {
		t.Errorf("the report is %+v", report)
	}
	for queue, server := range map[string]*redistest.Server{"mail": one, "work": two} {
		if jobs := server.List(t, "LRANGE", "resque:queue:"+queue, 0, -1); len(jobs) != 1 {
			t.Errorf("queue %s has %q", queue, jobs)
		}
	}
}
