package doctor

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/inspect/checks"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// rubys is a world whose namespace is that of the recordings of Ruby.
func rubys(t *testing.T) *world {
	w := newWorld(t, redistest.Start(t, durable...), nil)
	w.ns = "resque:"
	w.as(w.uri)
	return w
}

// fix has the checks mend all that they find.
func (w *world) fix(numbers ...int) {
	w.t.Helper()
	for _, f := range bad(w.look(numbers...)) {
		if changed, err := checks.Fix(w.t.Context(), w.inspect(), f); !changed || err != nil {
			w.t.Fatalf("the fix of %q: %v, %v", f.Sentence, changed, err)
		}
	}
}

// keys are all keys but the lock of those that prune, which Ruby's worker left to expire.
func (w *world) keys() map[string]any {
	keys := redistest.Values(w.server.Snapshot(w.t, ""))
	delete(keys, "resque:pruning_dead_workers_in_progress")
	return keys
}

// TestDeadWorkerGoesAsRubyPrunesIt: the fix of check 28 leaves what a Ruby worker left that pruned the same worker.
func TestDeadWorkerGoesAsRubyPrunesIt(t *testing.T) {
	t.Parallel()
	r, w := redistest.Golden(t, "prune_expired"), rubys(t)
	for _, command := range r.Commands[:5] {
		args := make([]any, len(command)-1)
		for n, a := range command[1:] {
			args[n] = a
		}
		w.do(command[0], args...)
	}
	// The recorded heartbeat is older than 300 s by any clock. This server's clock gives the failure its time.
	w.fix(28)
	want := redistest.Values(r.KeysAfter)
	delete(want, "resque:pruning_dead_workers_in_progress")
	got := w.keys()
	for _, keys := range []map[string]any{want, got} {
		list, _ := keys["resque:failed"].([]string)
		for n, raw := range list {
			f, err := payload.ParseFailure([]byte(raw))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := time.Parse("2006/01/02 15:04:05 MST", f.FailedAt); err != nil {
				t.Errorf("the time of the failure: %v", err)
			}
			list[n] = strings.Replace(raw, f.FailedAt, "then", 1)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Ruby's keys and ours (-Ruby +doctor):\n%s", diff)
	}
}

// TestLostSecondIsAsRubyWroteIt: the fix of check 41 leaves the schedule as resque-scheduler had it.
func TestLostSecondIsAsRubyWroteIt(t *testing.T) {
	t.Parallel()
	r, w := redistest.Golden(t, "schedule_pump"), rubys(t)
	end := slices.IndexFunc(r.Commands, func(c []string) bool { return c[0] == "LRANGE" })
	for _, command := range r.Commands[2:end] { // behind those that enqueued jobs
		args := make([]any, len(command)-1)
		for n, a := range command[1:] {
			args[n] = a
		}
		if command[0] != "ZADD" {
			w.do(command[0], args...)
		}
	}
	w.fix(41)
	want := redistest.Values(r.Snapshots["due"])
	if diff := cmp.Diff(want, w.keys()); diff != "" {
		t.Errorf("Ruby's keys and ours (-Ruby +doctor):\n%s", diff)
	}
}
