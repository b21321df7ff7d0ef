package health

import (
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/health"
	"github.com/goworker/goworker/internal/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

// Jobs on all workers are no reason to restart. Jobs that all run past their time limits are one, after a
// while. A daemon that stops is live and not ready.
func TestBusyAndStuckWorkers(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Slow", func(id string) { b.Runs.Start(id); <-b.Gate; b.Runs.End(id) }, goworker.Timeout(time.Millisecond))
	h, never := health.Handler(b.Daemon, health.Stuck(time.Millisecond)), health.Handler(b.Daemon, health.Stuck(0))
	b.Start()
	b.Push(daemontest.Jobs("Deaf", 1)...)
	b.Push(daemontest.Jobs("Slow", 3)...)
	b.Reaches("jobs that run", 4, b.Runs.Started)
	b.Eventually("three are stuck", func() bool { return len(b.Daemon.StuckJobs()) == 3 })
	daemontest.Answers(t, h, "/healthz", 200)
	daemontest.Answers(t, h, "/readyz", 200)
	b.Open()
	b.Reaches("jobs that ended", 4, b.Runs.Finished)
	b.Gate = make(chan struct{})
	b.Push(daemontest.Jobs("Slow", 4)...)
	if body := daemontest.Answers(t, h, "/healthz", 503); !strings.Contains(body, `"workers":{"ok":false`) {
		t.Errorf("the answer is %s", body)
	}
	daemontest.Answers(t, never, "/healthz", 200)
	daemontest.Answers(t, h, "/readyz", 200)
	b.Cancel()
	if body := daemontest.Answers(t, h, "/readyz", 503); !strings.Contains(body, "the daemon stops") {
		t.Errorf("the answer is %s", body)
	}
	daemontest.Answers(t, never, "/healthz", 200)
	b.Open()
	if err := b.Wait(); err != nil {
		t.Error(err)
	}
	daemontest.Answers(t, h, "/healthz", 200)
	daemontest.Answers(t, h, "/startupz", 503)
}

// away is how long Redis is away: longer than a loop may stand.
const away = health.DefaultHung + 5*time.Second

// A daemon whose workers are all busy is live through a minute in which Redis is gone or does not answer.
func TestLiveWithoutRedis(t *testing.T) {
	t.Parallel()
	for name, leave := range map[string]func(*daemontest.Bundle){
		"gone":   func(b *daemontest.Bundle) { b.Redis.Kill() },
		"silent": func(b *daemontest.Bundle) { b.Redis.Pause() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = time.Second })
			h := health.Handler(b.Daemon)
			b.Push(daemontest.Jobs("Hold", 4)...)
			b.Start()
			b.Reaches("jobs that run", 4, b.Runs.Started)
			daemontest.Answers(t, h, "/readyz", 200)
			leave(b)
			notReady := false
			for began := time.Now(); time.Since(began) < away; time.Sleep(100 * time.Millisecond) {
				if status, body := daemontest.Get(h, "/healthz"); status != 200 {
					t.Fatalf("after %v without Redis: %s", time.Since(began), body)
				}
				status, _ := daemontest.Get(h, "/readyz")
				notReady = status == 503
			}
			if !notReady {
				t.Error("it is ready without Redis")
			}
		})
	}
}
