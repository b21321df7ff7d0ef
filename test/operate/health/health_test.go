package health

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/health"
	"github.com/goworker/goworker/internal/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

// get asks one path.
func get(h http.Handler, path string) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// is waits until a path has a status, and returns the answer.
func is(b *daemontest.Bundle, h http.Handler, path string, status int) (body string) {
	b.T.Helper()
	b.Eventually(fmt.Sprintf("%s is %d", path, status), func() (yes bool) {
		var got int
		got, body = get(h, path)
		return got == status
	})
	return body
}

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
	is(b, h, "/healthz", 200)
	is(b, h, "/readyz", 200)
	b.Open()
	b.Reaches("jobs that ended", 4, b.Runs.Finished)
	b.Gate = make(chan struct{})
	b.Push(daemontest.Jobs("Slow", 4)...)
	if body := is(b, h, "/healthz", 503); !strings.Contains(body, `"workers":{"ok":false`) {
		t.Errorf("the answer is %s", body)
	}
	is(b, never, "/healthz", 200)
	is(b, h, "/readyz", 200)
	b.Cancel()
	if body := is(b, h, "/readyz", 503); !strings.Contains(body, "the daemon stops") {
		t.Errorf("the answer is %s", body)
	}
	is(b, never, "/healthz", 200)
	b.Open()
	if err := b.Wait(); err != nil {
		t.Error(err)
	}
	is(b, h, "/healthz", 200)
	is(b, h, "/startupz", 503)
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
			is(b, h, "/readyz", 200)
			leave(b)
			notReady := false
			for began := time.Now(); time.Since(began) < away; time.Sleep(100 * time.Millisecond) {
				if status, body := get(h, "/healthz"); status != 200 {
					t.Fatalf("after %v without Redis: %s", time.Since(began), body)
				}
				status, _ := get(h, "/readyz")
				notReady = status == 503
			}
			if !notReady {
				t.Error("it is ready without Redis")
			}
		})
	}
}
