package health_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/health"
	"github.com/goworker/goworker/internal/redistest"
)

// discard is a ResponseWriter that keeps nothing.
type discard struct{ header http.Header }

func (d discard) Header() http.Header         { return d.header }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

// BenchmarkHealthz is one probe of a daemon that runs.
func BenchmarkHealthz(b *testing.B) {
	d := goworker.New(goworker.WorkerSettings{URI: redistest.Start(b).URI(), QueuesString: "work", AllowNoHandlers: true, LogLevel: "error"})
	defer d.Close()
	ctx, cancel := context.WithCancel(b.Context())
	ready, ended := make(chan struct{}), make(chan error)
	d.OnReady(func() { close(ready) })
	go func() { ended <- d.Run(ctx) }()
	<-ready
	h := health.Handler(d)
	w, r := discard{make(http.Header)}, httptest.NewRequest(http.MethodGet, "/healthz", nil)
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
	b.StopTimer()
	cancel()
	if err := <-ended; err != nil {
		b.Error(err)
	}
}
