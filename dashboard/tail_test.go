package dashboard_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// Among the jobs done a plain job appears as it ends, for users who see its queue. Other states have no tail.
func TestDoneAppear(t *testing.T) {
	t.Parallel()
	d := setup(t)
	w := goworker.New(goworker.WorkerSettings{URI: d.redis.URI(), QueuesString: "mail", Concurrency: 1, Logger: slog.New(slog.DiscardHandler)})
	t.Cleanup(w.Close)
	w.Register("Send", func(context.Context, string) error { return nil })
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
	const page = "/api/v1/jobs?state=done"
	if a := d.Get("/api/v1/jobs", ""); !strings.Contains(a.Body, `"tail":null`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	redistest.Eventually(t, time.Minute, "a job appears as it ends", func() bool {
		d.push("mail", "Send", nil, "ann") // a process sends ends from the moment it hears of the reader
		return strings.Contains(d.Get(page, "").Body, `"class":"Send","queue":"mail"`)
	})
	if a := d.Get("/jobs?state=done", ""); !strings.Contains(a.Body, "Done while you look") || !strings.Contains(a.Body, ">Send<") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := d.Get(page, "eve viewer other"); strings.Contains(a.Body, "Send") {
		t.Errorf("a user who sees other queues: %s", a.Body)
	}
}
