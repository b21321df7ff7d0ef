package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque/workflows"
)

// Each way in which this program removes waiting jobs ends the steps among them as failed, and Retry sends them again.
func TestRemovedSteps(t *testing.T) {
	i, server, _ := setup(t)
	later := func(p *workflows.Plan) {
		for n := range p.Jobs {
			p.Jobs[n].At = time.Now().Add(time.Hour)
		}
	}
	query := inspect.Query{Queue: "q"}
	for name, way := range map[string]struct {
		delayed bool
		remove  func(ctx context.Context) error
	}{
		"Remove": {false, func(ctx context.Context) error {
			page, err := i.Find(ctx, query, "", 10)
			if err == nil {
				_, err = i.Remove(ctx, page.Jobs...)
			}
			return err
		}},
		"RemoveWhere": {false, func(ctx context.Context) error {
			_, err := i.RemoveWhere(ctx, query, "")
			return err
		}},
		"RemoveWhere of delayed ones": {true, func(ctx context.Context) error {
			_, err := i.RemoveWhere(ctx, query, "")
			return err
		}},
		"Dequeue": {false, func(ctx context.Context) error {
			_, err := i.Dequeue(ctx, &inspect.Job{Queue: "q", Class: "Part"})
			return err
		}},
		"RemoveQueue": {false, func(ctx context.Context) error { return i.RemoveQueue(ctx, "q") }},
		"Operations.remove": {false, func(context.Context) error {
			op := run(t, i, inspect.Plan{Verb: inspect.Drop, Query: query})
			want(t, "ended", int64(3), op.Ended, nil)
			want(t, "in the bin", int64(1), op.Binned, nil)
			return nil
		}},
		"Operations.remove of delayed ones": {true, func(context.Context) error {
			run(t, i, inspect.Plan{Verb: inspect.Drop, Query: query})
			return nil
		}},
		"Operations.clear": {false, func(context.Context) error {
			op := run(t, i, inspect.Plan{Verb: inspect.ClearQueue, Query: query})
			want(t, "ended", int64(3), op.Ended, nil)
			return nil
		}},
		"Delayed.Remove": {true, func(ctx context.Context) error {
			jobs, err := i.Delayed().List(ctx, time.Time{}, 0, -1)
			if err == nil {
				_, err = i.Delayed().Remove(ctx, jobs...)
			}
			return err
		}},
		"Delayed.Clear": {true, func(ctx context.Context) error { return i.Delayed().Clear(ctx) }},
	} {
		server.Do(t, "FLUSHALL")
		if way.delayed {
			started(t, server, "W", later)
		} else {
			started(t, server, "W")
			server.Do(t, "RPUSH", "resque:queue:q", `{"class":"Part","args":[9]}`)
		}
		if err := way.remove(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		w, err := i.Workflows().Get(t.Context(), "W")
		want(t, name, inspect.WorkflowCounts{Waiting: 1, Failed: 3}, w.Counts, err)
		want(t, name, inspect.State("removed"), w.Err.State, nil)
		want(t, "the queue after "+name, 0, len(queue(t, server, "q")), nil)
		want(t, name, nil, i.Workflows().Retry(t.Context(), "W"), nil)
		want(t, "the queue after the retry", 3, len(queue(t, server, "q")), nil)
	}
}

// A failure that is removed from the list changes nothing of its workflow, and neither does a move.
func TestRemovedFailure(t *testing.T) {
	i, server, _ := setup(t)
	started(t, server, "W")
	page, err := i.Find(t.Context(), inspect.Query{ID: "W.1"}, "", 10)
	if err != nil || len(page.Jobs) != 1 {
		t.Fatalf("%+v, %v", page, err)
	}
	server.Do(t, "RPUSH", "resque:failed", fmt.Sprintf(`{"failed_at":"2026/11/20 10:00:00 UTC","payload":%s,"exception":"E","error":"e","backtrace":[],"worker":"w","queue":"q"}`, page.Jobs[0].Payload))
	if _, err := i.Move(t.Context(), "r", page.Jobs...); err != nil {
		t.Fatal(err)
	}
	if err := i.Failures().Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	w, err := i.Workflows().Get(t.Context(), "W")
	want(t, "counts", inspect.WorkflowCounts{Waiting: 1, Sent: 2, Outside: 1}, w.Counts, err)
}

// Where the workflow cannot be written, the jobs are removed all the same, and the error says what waits.
func TestRemovedSpoiled(t *testing.T) {
	i, server, _ := setup(t)
	started(t, server, "W")
	spoil(t, server, "resque:go:wf:W")
	_, err := i.RemoveWhere(t.Context(), inspect.Query{Queue: "q"}, "")
	if err == nil || errors.Is(err, inspect.ErrNoJob) {
		t.Errorf("no error: %v", err)
	}
	want(t, "the queue", 0, len(queue(t, server, "q")), nil)
}

func spoil(t *testing.T, server *redistest.Server, key string) {
	t.Helper()
	server.Do(t, "DEL", key)
	server.Do(t, "SET", key, "x")
}
