package health_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/health"
	"github.com/goworker/goworker/internal/daemontest"
)

// The watchdog of systemd gets its sign of life while /healthz answers 200, by the options of the handler too: not while the poller
// hangs, and without Redis it does.
func TestWatchdog(t *testing.T) {
	m := daemontest.Managed(t, 300*time.Millisecond)
	held, gate := new(atomic.Bool), make(chan struct{})
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
		s.URI = strings.Replace(s.URI, "redis", "held", 1)
		s.ConnectTimeout, s.ReadTimeout, s.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
	})
	b.Daemon.RegisterDialer("held", holding("goworker.(*poller).run", held, gate))
	h := health.Handler(b.Daemon, health.Hung(100*time.Millisecond))
	b.Start()
	b.Idle()
	n := m.Await(0, "WATCHDOG=1")

	b.Redis.Pause()
	n = m.Await(n, "STATUS=0 of 4 busy; Redis", "WATCHDOG=1")
	daemontest.Answers(t, h, "/healthz", 200)
	b.Redis.Resume()
	n = m.Await(n, "STATUS=0 of 4 busy WATCHDOG=1")

	held.Store(true)
	b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	b.Daemon.Pause()
	b.Daemon.Resume()
	n = m.Await(n, "the watchdog gets no sign of life")
	daemontest.Answers(t, h, "/healthz", 503)
	if said := m.Heard()[n-1]; strings.Contains(said, "WATCHDOG=1") {
		t.Errorf("while the poller hangs, the manager hears %q", said)
	}
	close(gate)
	n = m.Await(n, "WATCHDOG=1")
	if said := m.Heard()[n-1]; strings.Contains(said, "no sign") {
		t.Errorf("when the poller goes on, the manager hears %q", said)
	}
	daemontest.Answers(t, h, "/healthz", 200)
}

// The watchdog goes by what the options of the handler say, and without any by what it says itself.
func TestWatchdogHasTheOptions(t *testing.T) {
	t.Parallel()
	var w watched
	health.Handler(&w)
	if w.lives != nil {
		t.Error("a handler without options sets the watchdog")
	}
	health.Handler(&w, health.Stuck(0))
	stuck := goworker.Signs{Running: true, Started: true, AllStuck: time.Hour}
	if !w.lives(stuck) {
		t.Error("workers may be stuck, and the watchdog gets no sign of life")
	}
	health.Handler(&w, health.Stuck(time.Minute))
	if w.lives(stuck) {
		t.Error("all workers are stuck, and the watchdog gets a sign of life")
	}
	if stuck.AllStuck, stuck.Poller = 0, 2*time.Minute; w.lives(stuck) {
		t.Error("the poller hangs, and the watchdog gets a sign of life")
	}
}

type watched struct{ lives func(goworker.Signs) bool }

func (w *watched) Signs() goworker.Signs                   { return goworker.Signs{} }
func (w *watched) SetWatchdog(f func(goworker.Signs) bool) { w.lives = f }
