package interop

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// A Node worker runs the middle of a chain, and replies with a plain job. It also runs what comes when all has ended. A
// reply with an error fails the workflow.
func TestNodeRunsSteps(t *testing.T) {
	server, peer := setup(t)
	worker := peer.start(t, "worker.mjs", "node")
	d := newDaemon(server, "go")
	d.Register("First", func() (int, error) { return 7, nil })
	d.Register("Last", func(_ context.Context, own string, reply map[string][]any) (map[string]any, error) {
		return map[string]any{own: reply["approved"]}, nil
	})
	d.run(t)
	client := d.Client()
	begin := func(question string) string {
		t.Helper()
		receipt, err := client.Start(t.Context(), goworker.Chain(
			goworker.Step(goworker.NewJob("go", "First")),
			goworker.Step(goworker.NewJob("node", "Approve", question), goworker.External(time.Hour)),
			goworker.Step(goworker.NewJob("go", "Last", "answers")),
		).OnComplete(goworker.NewJob("node", "Echo", "over", question)))
		if err != nil {
			t.Fatal(err)
		}
		return receipt.ID
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()

	result, err := goworker.Await[json.RawMessage](ctx, client, begin("yes"))
	if want := `{"answers":["yes",7]}`; err != nil || !sameJSON(t, result, []byte(want)) {
		t.Errorf("the result is %s, %v; want %s", result, err, want)
	}
	echo := worker.next(t, "success")
	for echo.Class != "Echo" {
		echo = worker.next(t, "success")
	}
	if !sameJSON(t, echo.Result, []byte(`["over","yes"]`)) {
		t.Errorf("what comes in the end was given %s", echo.Result)
	}

	id := begin("no")
	_, err = goworker.Await[json.RawMessage](ctx, client, id)
	var failed *goworker.WorkflowError
	if !errors.As(err, &failed) || failed.Message != "refused by Node" || failed.Class != "Approve" || failed.Queue != "node" {
		t.Fatalf("%+v", err)
	}
	if err := client.Workflows().MarkDone(ctx, id, "1", map[string]any{"approved": []any{"by hand"}}); err != nil {
		t.Fatal(err)
	}
	result, err = goworker.Await[json.RawMessage](ctx, client, id)
	if want := `{"answers":["by hand"]}`; err != nil || !sameJSON(t, result, []byte(want)) {
		t.Errorf("the result is %s, %v; want %s", result, err, want)
	}
	redistest.Eventually(t, patience, "Node's jobs have ended", func() bool { return server.Int(t, "LLEN", "resque:queue:node") == 0 })
	if n := server.Int(t, "LLEN", "resque:failed"); n != 0 {
		t.Errorf("%d failures, want none", n)
	}
}
