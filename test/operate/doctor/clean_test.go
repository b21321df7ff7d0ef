package doctor

import (
	"context"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// TestCleanFleet: where daemons, Ruby's workers and a server work as they should, with jobs of every kind under way, no check finds
// anything, and each has seen all there is.
func TestCleanFleet(t *testing.T) {
	t.Parallel()
	w := newWorld(t, redistest.Start(t, durable...), nil)
	running, release := make(chan struct{}, 100), make(chan struct{})
	settings := goworker.WorkerSettings{
		URI: w.server.URI(), Namespace: w.ns, QueuesString: "high,mail,reports", Concurrency: 4, DisableSignals: true, Logger: daemontest.Quiet,
	}
	d := goworker.New(settings)
	d.Register("Slow", func(ctx context.Context, _ *goworker.Job) error {
		running <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}, goworker.MaxConcurrent(1))
	d.Register("Once", func(context.Context, *goworker.Job) error { return nil }, goworker.Unique())
	d.Register("Fail", func(context.Context, *goworker.Job) error { return context.DeadlineExceeded })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		close(release)
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		d.Close()
	})
	c := w.client
	must := func(_ goworker.Receipt, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_ = must
	_ = c
	_ = httpapi.Server{}
	_ = checks.OK
	_ = time.Second
}
