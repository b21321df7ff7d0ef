package inspect_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// document writes a document as the feature does.
func document(t *testing.T, server *redistest.Server, id string, fields ...any) {
	t.Helper()
	server.Do(t, "HSET", append([]any{"resque:go:result:" + id}, fields...)...)
}

func TestStatus(t *testing.T) {
	i, server, _ := setup(t)
	ms := int64(1_800_000_000_000)
	at := func(n int64) time.Time { return time.UnixMilli(ms + n) }
	document(t, server, "j", "state", "done", "class", "Resize", "queue", "img", "enqueued", ms, "ttl", 60_000, "attempt", 2, "process", "p", "worker", "w",
		"began", ms+3, "ended", ms+4, "result", `[1,"a"]`, "exception", "E", "error", "was ill", "t1", fmt.Sprintf(`{"attempt":1,"state":"retrying","began":%d,"ended":%d,"process":"o","worker":"v","exception":"E","error":"was ill"}`, ms+1, ms+2))
	server.Do(t, "SET", "resque:go:progress:j", fmt.Sprintf(`{"done":3,"total":4,"note":"n","at":%d}`, ms+5))
	got, err := i.Status(t.Context(), "j")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(inspect.Status{
		ID: "j", State: inspect.StateDone, Class: "Resize", Queue: "img", Enqueued: at(0), TTL: time.Minute, Attempt: 2, Process: "p", Worker: "w",
		Began: at(3), Ended: at(4), Result: []byte(`[1,"a"]`), Exception: "E", Error: "was ill",
		Tries: []inspect.Try{
			{Attempt: 1, State: inspect.StateRetrying, Began: at(1), Ended: at(2), Process: "o", Worker: "v", Exception: "E", Error: "was ill"},
			{Attempt: 2, State: inspect.StateDone, Began: at(3), Ended: at(4), Process: "p", Worker: "w"},
		},
		Progress: &inspect.ProgressInfo{Done: 3, Total: 4, Note: "n", At: at(5)},
	}, got); diff != "" {
		t.Error(diff)
	}
	if _, err := i.Status(t.Context(), ""); !errors.Is(err, inspect.ErrNoResult) || !strings.HasPrefix(err.Error(), "goworker: a job without an id: ") {
		t.Errorf("no id: %v", err)
	}
	if _, err := i.Status(t.Context(), "unknown"); !errors.Is(err, inspect.ErrNoResult) || !strings.HasPrefix(err.Error(), "goworker: job unknown: ") {
		t.Errorf("an unknown job: %v", err)
	}
}

func TestStatusErrors(t *testing.T) {
	t.Parallel()
	s := func(state inspect.State) inspect.Status {
		return inspect.Status{ID: "j", Class: "C", Queue: "q", State: state, Exception: "IOError", Error: "goworker: no disk", Attempt: 3}
	}
	for state, want := range map[inspect.State]string{
		inspect.StateDone: "", inspect.StateRunning: "", inspect.StatePending: "", inspect.StateRetrying: "", "": "",
		inspect.StateFailed:    "goworker: job j of class C in queue q failed in attempt 3: IOError: no disk",
		inspect.StateDiscarded: "goworker: job j of class C in queue q was discarded in attempt 3: IOError: no disk",
		inspect.StateExpired:   "goworker: job j of class C in queue q: no worker took the job before it expired",
		inspect.StateCancelled: "goworker: job j of class C in queue q: the job was cancelled",
	} {
		err := s(state).Err()
		if text := fmt.Sprint(err); want == "" && err != nil || want != "" && text != want {
			t.Errorf("%s: %v", state, err)
		}
		failed := new(inspect.JobError)
		if is := state == inspect.StateFailed || state == inspect.StateDiscarded; errors.As(err, &failed) != is || is && failed.State != state {
			t.Errorf("%s: a JobError: %+v", state, failed)
		}
	}
	if err := s(inspect.StateExpired).Err(); !errors.Is(err, inspect.ErrExpired) {
		t.Error(err)
	}
	if err := s(inspect.StateCancelled).Err(); !errors.Is(err, inspect.ErrCancelled) {
		t.Error(err)
	}
	if text := (&inspect.JobError{ID: "j", Class: "C", Queue: "q", State: inspect.StateFailed}).Error(); text != "goworker: job j of class C in queue q failed" {
		t.Error(text)
	}
}

func TestDecode(t *testing.T) {
	t.Parallel()
	s := inspect.Status{ID: "j", Class: "C", State: inspect.StateDone, Result: []byte(`{"N":7}`)}
	var v struct{ N int }
	if err := s.Decode(&v); err != nil || v.N != 7 {
		t.Errorf("%+v, %v", v, err)
	}
	n := 5
	if err := s.Decode(&n); err == nil || !strings.Contains(err.Error(), "the result of job j of class C does not fit int") {
		t.Errorf("a result of another type: %v", err)
	}
	n, s.Result = 5, nil
	if err := s.Decode(&n); err != nil || n != 5 {
		t.Errorf("no result: %d, %v", n, err)
	}
	s.ResultLeft = "it has 2 MiB"
	if err := s.Decode(&n); err == nil || !strings.Contains(err.Error(), "it has 2 MiB") {
		t.Errorf("a result that was not kept: %v", err)
	}
	s.State = inspect.StateRunning
	if err := s.Decode(&n); err == nil || !strings.Contains(err.Error(), "is running and has no result yet") {
		t.Errorf("a job that runs: %v", err)
	}
	s.State = inspect.StateExpired
	if err := s.Decode(&n); !errors.Is(err, inspect.ErrExpired) {
		t.Errorf("a job that expired: %v", err)
	}
}

func ids(t *testing.T, i *inspect.Inspector, f inspect.ResultFilter) (found []string, failed error) {
	t.Helper()
	for s, err := range i.Results(t.Context(), f) {
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		found = append(found, s.ID)
	}
	return found, failed
}

func TestResults(t *testing.T) {
	i, server, _ := setup(t)
	for n := range 60 {
		document(t, server, fmt.Sprint(n), "state", []string{"done", "failed"}[n%2], "class", []string{"A", "B", "C"}[n%3], "queue", []string{"q", "r"}[n/30])
	}
	server.Do(t, "SET", "resque:go:result:text", "x")
	for _, tt := range []struct {
		f    inspect.ResultFilter
		want int
	}{
		{inspect.ResultFilter{}, 60},
		{inspect.ResultFilter{State: inspect.StateFailed}, 30},
		{inspect.ResultFilter{State: inspect.StateFailed, Class: "A"}, 10},
		{inspect.ResultFilter{State: inspect.StateFailed, Class: "A", Queue: "r"}, 5},
		{inspect.ResultFilter{State: inspect.StateRunning}, 0},
		{inspect.ResultFilter{Limit: 7}, 7},
		{inspect.ResultFilter{Limit: 70}, 60},
	} {
		found, err := ids(t, i, tt.f)
		want(t, fmt.Sprintf("%+v", tt.f), tt.want, len(found), err)
	}
	if _, err := ids(t, i, inspect.ResultFilter{Limit: -1}); err == nil {
		t.Error("a negative limit")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n := 0
	for _, err := range i.Results(ctx, inspect.ResultFilter{}) {
		if n++; !errors.Is(err, context.Canceled) {
			t.Errorf("a context that is over: %v", err)
		}
	}
	want(t, "answers to it", 1, n, nil)
	for range i.Results(t.Context(), inspect.ResultFilter{}) {
		break
	}
}

func TestForget(t *testing.T) {
	i, server, _ := setup(t)
	document(t, server, "j", "state", "done")
	server.Do(t, "SET", "resque:go:progress:j", "{}")
	server.Do(t, "RPUSH", "resque:go:logs:j", "{}")
	if err := i.By("ann", "private").Forget(t.Context(), "j"); err != nil {
		t.Fatal(err)
	}
	if err := i.By("ann", "private").Forget(t.Context(), "j"); !errors.Is(err, inspect.ErrNoResult) {
		t.Errorf("twice: %v", err)
	}
	want(t, "keys", 1, len(server.Keys(t)), nil) // the record
	entries, err := i.Audit(t.Context(), 10)
	if err != nil || len(entries) != 1 || entries[0].What != "Forget" || entries[0].On != "job j" || entries[0].Changed != 1 {
		t.Errorf("recorded: %+v, %v", entries, err)
	}
}

func TestJobLogs(t *testing.T) {
	i, server, _ := setup(t)
	document(t, server, "j", "state", "done")
	lines, err := i.JobLogs(t.Context(), "j")
	want(t, "lines", 0, len(lines), err)
	server.Do(t, "RPUSH", "resque:go:logs:j", `{"time":"2026-11-21T12:00:00Z","level":"WARN+1","msg":"hot","degrees":90,"of":{"a":"b"}}`, "no JSON", `[1]`, `null`, `{"time":7,"msg":"m"}`)
	lines, err = i.JobLogs(t.Context(), "j")
	if err != nil || len(lines) != 5 {
		t.Fatalf("%+v, %v", lines, err)
	}
	first := lines[0]
	if !first.Time.Equal(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)) || first.Level != slog.LevelWarn+1 || first.Message != "hot" ||
		len(first.Attrs) != 2 || string(first.Attrs["degrees"]) != "90" || string(first.Attrs["of"]) != `{"a":"b"}` {
		t.Errorf("%+v", first)
	}
	if lines[1].Message != "no JSON" || lines[2].Message != "[1]" || lines[3].Message != "null" || lines[4].Message != "m" || !lines[4].Time.IsZero() {
		t.Errorf("%+v", lines[1:])
	}
	if _, err := i.JobLogs(t.Context(), "unknown"); !errors.Is(err, inspect.ErrNoResult) {
		t.Errorf("an unknown job: %v", err)
	}
}

// Each shard is asked, and the one that knows answers, also while another is away.
func TestStatusOverShards(t *testing.T) {
	i, servers := sharded(t)
	ctx := t.Context()
	for n, server := range servers {
		document(t, server, fmt.Sprint("j", n), "state", "done", "class", "C")
		server.Do(t, "RPUSH", fmt.Sprint("resque:go:logs:j", n), "{}")
	}
	found, err := ids(t, i, inspect.ResultFilter{})
	want(t, "results", 3, len(found), err)
	found, err = ids(t, i, inspect.ResultFilter{Limit: 2})
	want(t, "two results", 2, len(found), err)
	servers[1].Kill()
	for _, id := range []string{"j0", "j2"} {
		if s, err := i.Status(ctx, id); err != nil || s.ID != id {
			t.Errorf("%s: %+v, %v", id, s, err)
		}
		if lines, err := i.JobLogs(ctx, id); err != nil || len(lines) != 1 {
			t.Errorf("lines of %s: %v, %v", id, lines, err)
		}
	}
	if _, err := i.Status(ctx, "j1"); !errors.Is(err, inspect.ErrNoResult) || !strings.Contains(err.Error(), "shard redis://shard1: ") || strings.Contains(err.Error(), "shard0") {
		t.Errorf("a job of the shard that is away: %v", err)
	}
	found, err = ids(t, i, inspect.ResultFilter{})
	if len(found) != 2 || err == nil || !strings.Contains(err.Error(), "shard redis://shard1") {
		t.Errorf("results of the shards that answer: %v, %v", found, err)
	}
	if err := i.Forget(ctx, "j2"); err != nil {
		t.Error(err)
	}
	servers[1].Restart(t)
	if _, err := i.Status(ctx, "j2"); !errors.Is(err, inspect.ErrNoResult) || strings.Contains(err.Error(), "shard") {
		t.Errorf("a forgotten job: %v", err)
	}
}
