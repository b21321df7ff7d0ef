package daemon

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// The Client of Shards inspects all of them, and that of a Daemon its own.
func TestClientsInspect(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	s := goworker.NewShards(goworker.WorkerSettings{Logger: daemontest.Quiet},
		goworker.Shard{URI: a.URI(), Queues: []string{"a"}}, goworker.Shard{URI: b.URI(), Queues: []string{"b"}})
	defer s.Close()
	client := s.Client()
	ctx := t.Context()
	for _, queue := range []string{"a", "b"} {
		if _, err := client.Enqueue(ctx, goworker.NewJob(queue, "Mark", 1)); err != nil {
			t.Fatal(err)
		}
	}
	var found []inspect.Entry
	for e, err := range client.Inspect().All(ctx, inspect.Query{Class: "Mark", Args: []any{1}}) {
		if err != nil {
			t.Fatal(err)
		}
		found = append(found, e)
	}
	if len(found) != 2 || found[0].Shard == found[1].Shard || found[1].Queue != "b" {
		t.Fatalf("found %v", found)
	}
	if n, err := client.Inspect().Remove(ctx, found...); n != 2 || err != nil {
		t.Errorf("removed %d, %v", n, err)
	}
	if _, err := s.Daemons()[0].Client().Enqueue(ctx, goworker.NewJob("a", "Mark", 2)); err != nil {
		t.Fatal(err)
	}
	page, err := s.Daemons()[0].Client().Inspect().List(ctx, "a", "", 9)
	if err != nil || len(page.Jobs) != 1 || page.Jobs[0].Shard != "" {
		t.Errorf("of one daemon: %v, %v", page.Jobs, err)
	}
}

// A question that Redis does not answer ends with its context, and the error says what it waited for.
func TestQuestionsEndWithTheirContext(t *testing.T) {
	t.Parallel()
	daemontest.Punctually(t, func() error { return questionsEnd(t) })
}

func questionsEnd(t *testing.T) error {
	server := redistest.Start(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI(), Connections: 1, Logger: daemontest.Quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	defer server.Resume()
	why := errors.New("the page was closed")
	for _, says := range []string{"did not answer before", "no answer came within"} { // the second time there is a connection
		server.Pause()
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(2*time.Second, func() { cancel(why) }) // by then it has connected, and asked
		if _, err := client.Inspect().Queues(ctx); !errors.Is(err, why) || !strings.Contains(err.Error(), says) {
			return fmt.Errorf("%w; want %q", err, says)
		}
		server.Resume()
		if _, err := client.Inspect().Queues(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	return nil
}
