// Package scraped runs a daemon on a real Redis, gives it jobs of all kinds, and scrapes it, for tests.
package scraped

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/metrics"
	"github.com/goworker/goworker/webhook"
)

// The jobs that a Daemon is given.
const (
	Done, Failed, Delayed = 5, 2, 3
)

type hook struct{}

func (hook) Stats() webhook.Stats { return webhook.Stats{Delivered: 7, Failed: 3, Dead: 1} }

// Daemon runs a daemon whose jobs give every metric a value: they are done and fail, wait for a limit, are delayed and come with a time;
// a schedule ticks, and a workflow goes on.
func Daemon(t *testing.T) *daemontest.Bundle {
	t.Helper()
	b := daemontest.Setup(t)
	b.Daemon.Register("Stamped", func() {}, goworker.Stamp())
	b.Daemon.Register("Limited", func() {}, goworker.MaxRunning(1))
	if err := b.Daemon.Schedule("nightly", goworker.Recurring{Every: 24 * time.Hour, Class: "Mark", Queue: "work", Args: []any{"night"}}); err != nil {
		t.Fatal(err)
	}
	b.Start()
	c, ctx := b.Daemon.Client(), context.Background()
	push := func(class string, args []any, opts ...goworker.EnqueueOption) {
		t.Helper()
		if _, err := c.Enqueue(ctx, goworker.NewJob("work", class, args...), opts...); err != nil {
			t.Fatal(err)
		}
	}
	for n := range Done {
		push("Mark", []any{fmt.Sprint("m", n)})
	}
	for n := range Failed {
		push("Fail", []any{fmt.Sprint("f", n)})
	}
	for n := range Delayed {
		push("Mark", []any{fmt.Sprint("later", n)}, goworker.ProcessIn(time.Hour))
	}
	push("Stamped", nil)
	push("Limited", nil)
	if _, err := c.Start(ctx, goworker.Chain(goworker.Step(goworker.NewJob("work", "Mark", "s1")), goworker.Step(goworker.NewJob("work", "Mark", "s2")))); err != nil {
		t.Fatal(err)
	}
	b.Reaches("all jobs to end", Done+Failed+4, func() int { return int(b.Daemon.Stats().Jobs.Done + b.Daemon.Stats().Jobs.Failed) })
	return b
}

// Options are those that show every metric.
func Options() []metrics.Option {
	return []metrics.Option{metrics.Fleet(), metrics.Webhook("ops", hook{}), metrics.Runtime()}
}

// Get asks a handler, and expects a status.
func Get(t *testing.T, h http.Handler, path string, status int, header ...string) (body []byte, contentType string) {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for n := 0; n < len(header); n += 2 {
		r.Header.Set(header[n], header[n+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	body, err := io.ReadAll(w.Body)
	if err != nil || w.Code != status {
		t.Fatalf("%s: %d, %v: %s", path, w.Code, err, body)
	}
	return body, w.Header().Get("Content-Type")
}
