package gateway_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/gateway"
	"github.com/goworker/goworker/internal/neighbor"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// start starts a gateway on a Redis, and returns when it is connected: a request before that is refused where connecting takes more than
// two seconds, as on a busy machine.
func start(t testing.TB, uri string, change ...func(*goworker.WorkerSettings, *gateway.Options)) *gateway.Gateway {
	t.Helper()
	g := unstarted(t, uri, change...)
	if err := g.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, long, "it is connected", func() bool { return g.Stats().Tracking })
	return g
}

// unstarted returns a gateway on a Redis.
func unstarted(t testing.TB, uri string, change ...func(*goworker.WorkerSettings, *gateway.Options)) *gateway.Gateway {
	t.Helper()
	settings := goworker.WorkerSettings{URI: uri, Connections: 8, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))}
	var o gateway.Options
	for _, f := range change {
		f(&settings, &o)
	}
	client, err := goworker.NewClient(settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	var n neighbor.Neighbor
	if err := goworker.Beside(&n, client); err != nil {
		t.Fatal(err)
	}
	g := gateway.New(&n, o)
	t.Cleanup(func() { g.Stop(context.Background()) })
	return g
}

// body is a publication with a text as its argument.
func body(queue, text string) gateway.Publication {
	arg, _ := json.Marshal([]string{text})
	return gateway.Publication{Queue: queue, Args: arg}
}

func publish(t testing.TB, g *gateway.Gateway, jobs ...gateway.Publication) []string {
	t.Helper()
	ids, err := g.Publish(t.Context(), jobs...)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

// reserve asks for jobs with a minute for each.
func reserve(t testing.TB, g *gateway.Gateway, wait time.Duration, count int, queues ...string) []gateway.Job {
	t.Helper()
	jobs, err := g.Reserve(t.Context(), gateway.Ask{Queues: queues, TTR: time.Minute, Wait: wait, Count: count})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func ack(t testing.TB, g *gateway.Gateway, j gateway.Job) gateway.What {
	t.Helper()
	whats, err := g.Ack(t.Context(), gateway.Ack{Queue: j.Queue, ID: j.ID, Lease: j.Lease})
	if err != nil {
		t.Fatal(err)
	}
	return whats[0]
}
