package health_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/health"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// probed starts a daemon that runs until the test ends, and returns a probe of it.
func probed(tb testing.TB) (probe func()) {
	tb.Helper()
	d := goworker.New(goworker.WorkerSettings{URI: redistest.Start(tb).URI(), QueuesString: "work", AllowNoHandlers: true, LogLevel: "error"})
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan struct{}), make(chan error)
	d.OnReady(func() { close(ready) })
	go func() { ended <- d.Run(ctx) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Error(err)
		}
		d.Close()
	})
	<-ready
	h := health.Handler(d)
	w, r := discard{make(http.Header)}, httptest.NewRequest(http.MethodGet, "/healthz", nil)
	return func() { h.ServeHTTP(w, r) }
}

// BenchmarkHealthz is one probe of a daemon that runs.
func BenchmarkHealthz(b *testing.B) {
	probe := probed(b)
	b.ReportAllocs()
	for b.Loop() {
		probe()
	}
}

// A probe allocates nothing. What the daemon does meanwhile is counted too, so one of many tries shows it.
func TestProbeAllocatesNothing(t *testing.T) {
	probe := probed(t)
	redistest.Eventually(t, daemontest.Soon, "a probe allocates nothing", func() bool { return testing.AllocsPerRun(100, probe) == 0 })
}
