package client

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// A reply that is lost is asked for again: one workflow starts, and each member of a batch is added once.
func TestWorkflowLostReplies(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	way := newProxy(t, server)
	client, _ := newClient(t, way.uri(), goworker.WorkerSettings{ReadTimeout: time.Minute})
	for _, cut := range []int32{before, halfway, after, afterText} {
		for name, opts := range map[string][]goworker.WorkflowOption{"an id of its own": nil, "a chosen id": {goworker.WithID("w")}} {
			server.Do(t, "FLUSHALL")
			if cut == afterText {
				server.Do(t, "SCRIPT", "FLUSH")
			}
			way.cut.Store(cut)
			r, err := client.Start(t.Context(), goworker.Chain(goworker.Step(job(1)), goworker.Step(job(2))), opts...)
			if err != nil || r.ID == "" || opts == nil && r.Existed {
				t.Errorf("cut %d, %s: %+v, %v", cut, name, r, err)
			}
			if n := len(queued(t, server)); n != 1 {
				t.Errorf("cut %d, %s: %d jobs, want 1", cut, name, n)
			}
		}

		server.Do(t, "FLUSHALL")
		batch, err := client.NewBatch(t.Context(), goworker.Batch{})
		if err != nil {
			t.Fatal(err)
		}
		sequence := func(yield func(goworker.Item, error) bool) {
			for i := range 3000 {
				if i%1000 == 500 {
					way.cut.Store(cut)
				}
				if !yield(goworker.Item{Job: job(i)}, nil) {
					return
				}
			}
		}
		if err := batch.AddSeq(t.Context(), sequence); err != nil {
			t.Errorf("cut %d: %v", cut, err)
		}
		for i := range 5 {
			way.cut.Store(cut)
			if err := batch.Add(t.Context(), goworker.Step(job(i))); err != nil {
				t.Errorf("cut %d: %v", cut, err)
			}
		}
		way.cut.Store(cut)
		if err := batch.Close(t.Context()); err != nil {
			t.Errorf("cut %d: %v", cut, err)
		}
		if n := len(queued(t, server)); n != 3005 {
			t.Errorf("cut %d: %d jobs, want 3005", cut, n)
		}
		way.cut.Store(pass)
	}
}

// A workflow that is too large for one call is begun, and its jobs are sent once all else is there. A program that is cut off goes
// on with the same nodes, whatever was sent before.
func TestLargeWorkflow(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client, _ := newClient(t, server.URI(), goworker.WorkerSettings{})
	const members = 1500
	make := func(first int) *goworker.Node {
		var nodes []*goworker.Node
		for i := range members {
			nodes = append(nodes, goworker.Chain(goworker.Step(job(first+i)), goworker.Step(job(-1))))
		}
		return goworker.Chord(goworker.Group(nodes...), goworker.Step(job(-2)))
	}
	r, err := client.Start(t.Context(), make(0), goworker.WithID("large"))
	if err != nil || r.Existed {
		t.Fatalf("%+v, %v", r, err)
	}
	if n := len(queued(t, server)); n != members {
		t.Errorf("%d jobs, want %d", n, members)
	}
	want := dump(t, server, "large")
	for pieces, over := 0, false; !over; pieces++ {
		server.Do(t, "FLUSHALL")
		way := newProxy(t, server)
		cutter, _ := newClient(t, way.uri(), goworker.WorkerSettings{})
		ctx, end := context.WithCancel(t.Context())
		way.end = end
		way.last.Store(int32(pieces + 1))
		_, err := cutter.Start(ctx, make(0), goworker.WithID("large"))
		end()
		over = err == nil
		if r, again := client.Start(t.Context(), make(0), goworker.WithID("large")); again != nil || r.ID != "large" {
			t.Errorf("after %d calls: %+v, %v; before that: %v", pieces, r, again, err)
		}
		if n := len(queued(t, server)); n != members {
			t.Errorf("after %d calls: %d jobs, want %d", pieces, n, members)
		}
		if got := dump(t, server, "large"); got != want {
			t.Errorf("after %d calls: the workflow is\n%s\nwant\n%s", pieces, got, want)
		}
	}
}

// dump returns how many fields a workflow has, its letters and its first join.
func dump(t *testing.T, server *redistest.Server, id string) string {
	t.Helper()
	letters := server.Text(t, "GET", "resque:go:wf-steps:"+id)
	return fmt.Sprintf("%d fields, %d letters %.20s, join 0 %s", server.Int(t, "HLEN", "resque:go:wf:"+id), len(letters), letters,
		server.Text(t, "HGET", "resque:go:wf:"+id, "j0"))
}
