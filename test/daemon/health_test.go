package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// reasons waits until the daemon is ready or not, and checks that each of these texts stands in one of its
// reasons, and that there are no others.
func reasons(b *daemontest.Bundle, d interface{ Health() goworker.Health }, ready bool, texts ...string) (h goworker.Health) {
	b.T.Helper()
	what := fmt.Sprintf("ready is %v because of %q", ready, texts)
	b.Eventually(what, func() bool {
		h = d.Health()
		if h.Ready != ready || len(h.Reasons) != len(texts) {
			return false
		}
		for i, text := range texts {
			if !strings.Contains(h.Reasons[i], text) {
				return false
			}
		}
		return true
	})
	return h
}

func TestHealth(t *testing.T) {
	t.Parallel()
	b := daemontest.SetupOn(t, redistest.Start(t, daemontest.Persistent...))
	h := reasons(b, b.Daemon, false, "does not run: call Run or Work")
	if h.Live || h.Running {
		t.Errorf("before it runs: %+v", h)
	}
	b.Start()
	b.Idle()
	h = reasons(b, b.Daemon, true)
	if !h.Live || !h.Running || !h.LeaseHeld || h.Stopping || h.LastExchange.IsZero() || h.ExchangeAge < 0 || !h.AwaySince.IsZero() {
		t.Errorf("while it is idle: %+v", h)
	}

	b.Daemon.Pause()
	if h = reasons(b, b.Daemon, false, "call Resume"); !h.PausedByProgram || h.PausedByFleet || !h.Live {
		t.Errorf("paused: %+v", h)
	}
	b.Redis.Do(t, "SET", "resque:pause-all-workers", "true")
	b.Daemon.Resume()
	if h = reasons(b, b.Daemon, false, "the key pause-all-workers"); h.PausedByProgram || !h.PausedByFleet || !h.Live {
		t.Errorf("paused by the key: %+v", h)
	}
	b.Redis.Do(t, "DEL", "resque:pause-all-workers")
	reasons(b, b.Daemon, true)

	before := b.Daemon.Stats().Outages
	b.Redis.Kill()
	b.Eventually("the outage is seen", func() bool { h = b.Daemon.Health(); return !h.AwaySince.IsZero() && !h.Ready })
	if !h.Live || !h.Running || !strings.Contains(fmt.Sprint(h.Reasons), "Redis has been away for") {
		t.Errorf("without Redis: %+v", h)
	}
	b.Redis.Restart(t)
	if h = reasons(b, b.Daemon, true); !h.AwaySince.IsZero() {
		t.Errorf("with Redis again: %+v", h)
	}
	if s := b.Daemon.Stats(); s.Outages == before || s.Away <= 0 {
		t.Errorf("after an outage: %+v", s)
	}
	if text, err := json.Marshal(h); err != nil || !strings.Contains(string(text), `"Ready":true`) {
		t.Errorf("as JSON: %s, %v", text, err)
	}

	b.Push(daemontest.Job("Hold", "a"))
	b.Eventually("a job runs", func() bool { return b.Runs.Starts("a") == 1 })
	b.Cancel()
	if h = reasons(b, b.Daemon, false, "is stopping"); !h.Stopping || !h.Live || !h.Running {
		t.Errorf("while it stops: %+v", h)
	}
	b.Open()
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if h = reasons(b, b.Daemon, false, "does not run any more"); h.Live || h.Running || h.LastExchange.IsZero() {
		t.Errorf("after the run: %+v", h)
	}
}

// A daemon whose lease is not renewed for as long as other processes wait before they take its jobs is
// alive, but not ready.
func TestHealthWithoutLease(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	b.Redis.Pause()
	h := goworker.Health{}
	b.Eventually("the lease is old", func() bool { h = b.Daemon.Health(); return !h.LeaseHeld })
	if h.Ready || !h.Live || h.LeaseAge < 8*time.Second || !strings.Contains(fmt.Sprint(h.Reasons), "the lease was last renewed") {
		t.Errorf("%+v", h)
	}
	b.Redis.Resume()
	reasons(b, b.Daemon, true)
}

func TestGate(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var closed atomic.Bool
	closed.Store(true)
	b.Daemon.SetGate(func(context.Context) error {
		if closed.Load() {
			return errors.New("the mail server is down")
		}
		return nil
	})
	b.Push(daemontest.Jobs("Mark", 3)...)
	b.Start()
	h := reasons(b, b.Daemon, false, "the gate is closed: the mail server is down")
	if !h.PausedByGate || h.GateReason != "the mail server is down" || h.PausedByProgram || !h.Live {
		t.Errorf("%+v", h)
	}
	b.Renewed(1)
	if n := b.Runs.Started(); n != 0 || len(b.Queue("work")) != 3 {
		t.Errorf("%d jobs ran although the gate was closed from the beginning", n)
	}
	b.Daemon.Pause()
	closed.Store(false)
	reasons(b, b.Daemon, false, "call Resume")
	if n := b.Runs.Started(); n != 0 {
		t.Errorf("%d jobs ran although the daemon pauses", n)
	}
	b.Daemon.Resume()
	b.Eventually("the jobs run", func() bool { return b.Runs.Finished() == 3 })

	b.Push(daemontest.Job("Hold", "long"))
	b.Eventually("a job runs", func() bool { return b.Runs.Starts("long") == 1 })
	closed.Store(true)
	reasons(b, b.Daemon, false, "the gate is closed")
	b.Push(daemontest.Job("Mark", "waits"))
	b.Open()
	b.Eventually("the job that runs ends", func() bool { return b.Runs.Ends("long") == 1 && b.Stat("processed") == 4 })
	if b.Runs.Starts("waits") != 0 {
		t.Error("a job was taken although the gate was closed")
	}
	for text, want := range map[string]int{"the gate is closed; no jobs are taken": 2, "the gate is open again": 1, "redis unavailable": 0} {
		if n := b.Log.Count(text); n != want {
			t.Errorf("%q stands %d times in the log, want %d", text, n, want)
		}
	}
	b.Daemon.SetGate(nil)
	b.Eventually("without a gate the job runs", func() bool { return b.Runs.Ends("waits") == 1 })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.OnlyTotals()
}

// A stop does not wait for a gate that hangs.
func TestStopWithGateThatHangs(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	release := make(chan struct{})
	t.Cleanup(func() { close(release) })
	b.Daemon.SetGate(func(context.Context) error { <-release; return nil })
	b.Start()
	reasons(b, b.Daemon, false, "the gate has not answered yet")
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
}

func TestStats(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "work,low" })
	b.Daemon.Register("Again", func() error { return errors.New("no luck") }, goworker.Retry(1, goworker.Delays{time.Hour}))
	b.Daemon.Register("Drop", func() error { return goworker.Discard(nil) })
	if s := b.Daemon.Stats(); s.Workers != 0 || s.Jobs != (goworker.JobStats{}) || s.Since.IsZero() {
		t.Errorf("before the first run: %+v", s)
	}
	b.Start()
	b.Push(daemontest.Jobs("Mark", 5)...)
	b.Push(daemontest.Job("Fail", "f"), daemontest.Job("Nobody", "n"), "no job", `{"class":"Again","args":[]}`, `{"class":"Drop","args":[]}`)
	b.PushTo("low", `{"class":"Nap","args":["nap",20]}`)
	if _, err := b.Daemon.EnqueueWith(&goworker.Job{Queue: "low", Payload: goworker.Payload{Class: "Mark", Args: []any{"late"}}}, daemontest.Past()); err != nil {
		t.Fatal(err)
	}
	b.PushTo("low", daemontest.Job("Hold", "h"))
	var s goworker.Stats
	b.Eventually("all but one have ended", func() bool {
		s = b.Daemon.Stats()
		return s.Jobs.Done == 6 && s.Jobs.Failed == 3 && s.Jobs.Expired == 1 && s.Jobs.Retried == 1 && s.Jobs.Discarded == 1 && s.Busy == 1
	})
	if s.Workers != 4 || s.Exchanges == 0 || s.Outages != 0 {
		t.Errorf("%+v", s)
	}
	mark := s.Classes["Mark"]
	if mark.Done != 5 || mark.Expired != 1 || mark.Runs != 5 || mark.RunTime <= 0 || mark.Longest > mark.RunTime || mark.Mean() > mark.Longest || mark.Bytes < 5*30 {
		t.Errorf("Mark: %+v", mark)
	}
	if nap := s.Classes["Nap"]; nap.Longest < 20*time.Millisecond || nap.Longest != nap.RunTime {
		t.Errorf("Nap: %+v", nap)
	}
	if work := s.Queues["work"]; work.Done != 5 || work.Failed != 3 || work.Runs != 8 {
		t.Errorf("work: %+v", work)
	}
	if _, ok := s.Classes["Nobody"]; ok || s.Classes["Fail"].Failed != 1 || len(s.Queues) != 2 {
		t.Errorf("classes %v, queues %v", s.Classes, s.Queues)
	}
	b.Open()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	one := b.Daemon.Stats()
	if one.Busy != 0 || one.Workers != 0 || one.Jobs.Done != 7 {
		t.Errorf("after the run: %+v", one)
	}
	<-b.Ended
	b.Start()
	b.Push(daemontest.Job("Mark", "second"))
	b.Eventually("the counters go on in another run", func() bool {
		s = b.Daemon.Stats()
		return s.Jobs.Done == 8 && s.Exchanges > one.Exchanges && s.Since.Equal(one.Since)
	})
}

func TestShardsHealth(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	b := &daemontest.Bundle{T: t, Log: new(daemontest.LogBook), Runs: daemontest.NewRunBook(), Gate: make(chan struct{})}
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 4, Logger: slog.New(b.Log)},
		goworker.Shard{URI: servers[0].URI(), Queues: []string{"one"}}, goworker.Shard{URI: servers[1].URI(), Queues: []string{"two"}})
	for class, handler := range b.Classes() {
		s.Register(class, handler)
	}
	var asked, closed atomic.Int64
	s.SetGate(func(context.Context) error {
		asked.Add(1)
		if closed.Load() > 0 {
			return errors.New("night")
		}
		return nil
	})
	reasons(b, s, false, "do not run: call Run or Work")
	servers[1].Kill()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended; s.Close() })
	h := reasons(b, s, true, "its Redis cannot be reached, so it is not started yet")
	if !h.Live || h.AwaySince.IsZero() || !strings.Contains(h.Reasons[0], servers[1].Shown()) {
		t.Errorf("%+v", h)
	}
	servers[1].Restart(t)
	if h = reasons(b, s, true); !h.Live || !h.LeaseHeld || !h.AwaySince.IsZero() {
		t.Errorf("with both: %+v", h)
	}
	closed.Store(1)
	if h = reasons(b, s, false, "the gate is closed: night", "the gate is closed: night"); !h.PausedByGate || h.GateReason != "night" {
		t.Errorf("%+v", h)
	}
	b.Eventually("the gate is logged", func() bool { return b.Log.Count("the gate is closed") > 0 })
	if n := b.Log.Count("the gate is closed"); n != 1 {
		t.Errorf("one gate is logged %d times", n)
	}
	closed.Store(0)
	reasons(b, s, true)
	for i, queue := range []string{"one", "two", "two"} {
		if err := s.Enqueue(&goworker.Job{Queue: queue, Payload: goworker.Payload{Class: "Mark", Args: []any{fmt.Sprint(i)}}}); err != nil {
			t.Fatal(err)
		}
	}
	b.Eventually("the jobs of all shards are counted", func() bool {
		st := s.Stats()
		return st.Jobs.Done == 3 && st.Queues["two"].Done == 2 && st.Classes["Mark"].Runs == 3 && st.Workers == 4 && st.Exchanges > 0
	})
	if n := s.Daemons()[1].Stats().Jobs.Done; n != 2 {
		t.Errorf("the second shard has counted %d jobs", n)
	}
}
