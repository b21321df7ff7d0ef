package daemon

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A daemon tells its service manager when all parts run, how it is, and that it stops, and asks for the time of the stop. No test with a
// manager is parallel: a process has one.
func TestServiceManager(t *testing.T) {
	m := daemontest.Managed(t, 300*time.Millisecond)
	slow := make(chan struct{})
	b := daemontest.Setup(t)
	b.Daemon.AddPart(goworker.Part{Name: "slow", Requires: []string{"poller"}, Start: func(context.Context) error { <-slow; return nil }})
	b.Start()
	m.Await(0, "STATUS=starting")
	if m.Count("READY=1")+m.Count("WATCHDOG=1") > 0 {
		t.Errorf("before all parts run the manager hears %q", m.Heard())
	}
	close(slow)
	n := m.Await(0, "READY=1", "STATUS=0 of 4 busy", "WATCHDOG=1")
	b.Push(daemontest.Job("Hold", "a"))
	n = m.Await(n, "STATUS=1 of 4 busy", "WATCHDOG=1")
	b.Daemon.Pause()
	n = m.Await(n, "STATUS=1 of 4 busy; ", "pause")
	b.Cancel()
	n = m.Await(n, "STOPPING=1", "EXTEND_TIMEOUT_USEC=30000000", "STATUS=stopping, 1 of 4 busy") // StopTime and five seconds
	n = m.Await(n, "EXTEND_TIMEOUT_USEC=2")                                                      // twenty-nine, or less on a busy machine
	b.Open()
	if err := b.Wait(); err != nil {
		t.Error(err)
	}
	all := m.Heard()
	for _, said := range all[n:] {
		if strings.Contains(said, "READY") || strings.Contains(said, "STOPPING") {
			t.Errorf("after the stop began the manager hears %q", said)
		}
	}
	if stops := m.Count("STOPPING=1"); m.Count("READY=1") != 1 || stops != 1 {
		t.Errorf("the manager hears %q", all)
	}
	end := len(all)
	b.Daemon.Close()
	if all := m.Heard(); len(all) > end+1 { // one may have been under way
		t.Errorf("after the run it hears %q", all[end:])
	}
}

// A run that does not come up is never ready.
func TestServiceManagerOfNoStart(t *testing.T) {
	m := daemontest.Managed(t, 0)
	b := daemontest.Setup(t)
	b.Redis.Kill()
	b.Start()
	if err := b.Wait(); err == nil {
		t.Error("it starts without Redis")
	}
	if m.Count("READY=1") > 0 {
		t.Errorf("the manager hears %q", m.Heard())
	}
}

// Shards are one service.
func TestServiceManagerOfShards(t *testing.T) {
	m := daemontest.Managed(t, 300*time.Millisecond)
	a, gone := redistest.Start(t), redistest.Start(t)
	gone.Kill()
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 3, LogLevel: "error", AllowNoHandlers: true, ShutdownTimeout: time.Minute},
		goworker.Shard{URI: a.URI(), Queues: []string{"a"}}, goworker.Shard{URI: gone.URI(), Queues: []string{"b"}})
	defer s.Close()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	n := m.Await(0, "READY=1", "WATCHDOG=1")
	m.Await(0, "WATCHDOG=1", gone.Addr) // says what is away, and lives
	cancel()
	m.Await(n, "STOPPING=1", "EXTEND_TIMEOUT_USEC=73000000")
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if m.Count("READY=1") != 1 || m.Count("STOPPING=1") != 1 {
		t.Errorf("the manager hears %q", m.Heard())
	}
}
