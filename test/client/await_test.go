package client

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/goworkertest"
	"github.com/goworker/goworker/internal/redistest"
)

// document writes a document as a worker does.
func document(t testing.TB, s *redistest.Server, id, state string, fields ...any) {
	t.Helper()
	s.Do(t, "HSET", append([]any{"resque:go:result:" + id, "state", state, "class", "C", "queue", "q"}, fields...)...)
}

type answer struct {
	N    int
	Text string
}

// Await returns the result as its type, or the error with which the job ended.
func TestAwait(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, _ := newClient(t, s.URI(), goworker.WorkerSettings{})
	ctx := t.Context()
	document(t, s, "struct", "done", "result", `{"N":7,"Text":"a"}`)
	if v, err := goworker.Await[answer](ctx, client, "struct"); err != nil || v != (answer{7, "a"}) {
		t.Errorf("%+v, %v", v, err)
	}
	if v, err := goworker.Await[*answer](ctx, client, "struct"); err != nil || v == nil || v.N != 7 {
		t.Errorf("a pointer: %+v, %v", v, err)
	}
	class := goworker.Define[goworker.None, answer]("C")
	if v, err := class.Await(ctx, client, "struct"); err != nil || v.N != 7 {
		t.Errorf("of a class: %+v, %v", v, err)
	}
	document(t, s, "list", "done", "result", `[1,"a"]`)
	if v, err := goworker.Await[[]any](ctx, client, "list"); err != nil || len(v) != 2 {
		t.Errorf("%v, %v", v, err)
	}
	if v, err := goworker.Await[answer](ctx, client, "list"); err == nil || v != (answer{}) || !strings.Contains(err.Error(), "the result of job list of class C does not fit client.answer") {
		t.Errorf("a result of another type: %+v, %v", v, err)
	}
	for _, id := range []string{"struct", "list"} {
		if _, err := goworker.Await[goworker.None](ctx, client, id); err != nil {
			t.Errorf("None of %s: %v", id, err)
		}
	}
	document(t, s, "none", "done")
	if v, err := goworker.Await[int](ctx, client, "none"); err != nil || v != 0 {
		t.Errorf("no result: %v, %v", v, err)
	}
	document(t, s, "left", "done", "left", "it has 2 MiB, and 1 MiB is allowed")
	if _, err := goworker.Await[int](ctx, client, "left"); err == nil || !strings.Contains(err.Error(), "it has 2 MiB") {
		t.Errorf("a result that was not kept: %v", err)
	}
	if _, err := goworker.Await[goworker.None](ctx, client, "left"); err != nil {
		t.Errorf("None of a result that was not kept: %v", err)
	}
	document(t, s, "failed", "failed", "exception", "E", "error", "boom", "attempt", 2)
	failed := new(goworker.JobError)
	if _, err := goworker.Await[goworker.None](ctx, client, "failed"); !errors.As(err, &failed) ||
		*failed != (goworker.JobError{ID: "failed", Class: "C", Queue: "q", Exception: "E", Message: "boom", Attempt: 2, State: goworker.StateFailed}) {
		t.Errorf("%+v, %v", failed, err)
	}
	for state, want := range map[string]error{"cancelled": goworker.ErrCancelled, "expired": goworker.ErrExpired} {
		document(t, s, state, state)
		if _, err := goworker.Await[int](ctx, client, state); !errors.Is(err, want) {
			t.Errorf("%s: %v", state, err)
		}
	}
	if _, err := goworker.Await[int](ctx, client, "unknown"); !errors.Is(err, goworker.ErrNoResult) {
		t.Errorf("unknown: %v", err)
	}
}

// end is what an Await returned.
type end struct {
	n   int
	err error
}

// await starts an Await.
func await(ctx context.Context, client *goworker.Client, id string) <-chan end {
	ends := make(chan end, 1)
	go func() {
		n, err := goworker.Await[int](ctx, client, id)
		ends <- end{n, err}
	}()
	return ends
}

// waits returns when so many connections of clients are notified of changes.
func waits(t *testing.T, s *redistest.Server, pairs int) {
	t.Helper()
	redistest.Eventually(t, time.Minute, fmt.Sprint(pairs, " clients wait"), func() bool {
		return strings.Count(s.Text(t, "CLIENT", "LIST", "TYPE", "pubsub"), "sub=1") == pairs
	})
}

// A Client waits on one pair of connections, whatever else it does. Close ends its waits.
func TestAwaitClose(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, _ := newClient(t, s.URI(), goworker.WorkerSettings{})
	document(t, s, "a", "pending")
	document(t, s, "b", "pending")
	a, b := await(t.Context(), client, "a"), await(t.Context(), client, "b")
	waits(t, s, 1)
	document(t, s, "a", "done", "result", 7)
	if e := <-a; e.n != 7 || e.err != nil {
		t.Errorf("%+v", e)
	}
	waits(t, s, 1)
	client.Close()
	if e := <-b; !errors.Is(e.err, goworker.ErrClosed) {
		t.Errorf("after Close: %v", e.err)
	}
	if _, err := client.Wait(t.Context(), "b"); !errors.Is(err, goworker.ErrClosed) {
		t.Errorf("a Wait after Close: %v", err)
	}
	for _, err := range client.Watch(t.Context(), "b") {
		if !errors.Is(err, goworker.ErrClosed) {
			t.Errorf("a Watch after Close: %v", err)
		}
	}
}

// The other calls about a job go through the same Client.
func TestResultCalls(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, _ := newClient(t, s.URI(), goworker.WorkerSettings{})
	ctx := t.Context()
	document(t, s, "j", "running")
	s.Do(t, "RPUSH", "resque:go:logs:j", `{"msg":"hello"}`)
	s.Do(t, "SET", "resque:go:progress:j", `{"done":1,"total":2}`)
	if status, err := client.Status(ctx, "j"); err != nil || status.State != goworker.StateRunning || status.Progress.Total != 2 {
		t.Errorf("%+v, %v", status, err)
	}
	if lines, err := client.Logs(ctx, "j"); err != nil || len(lines) != 1 || lines[0].Message != "hello" {
		t.Errorf("%+v, %v", lines, err)
	}
	for status, err := range client.Results(ctx, goworker.ResultFilter{State: goworker.StateRunning}) {
		if err != nil || status.ID != "j" {
			t.Errorf("%+v, %v", status, err)
		}
	}
	var states []goworker.JobState
	for status, err := range client.Watch(ctx, "j") {
		if err != nil {
			t.Fatal(err)
		}
		if states = append(states, status.State); len(states) == 1 {
			document(t, s, "j", "done")
		}
	}
	if !slices.Equal(states, []goworker.JobState{goworker.StateRunning, goworker.StateDone}) {
		t.Errorf("watched %q", states)
	}
	if err := client.Forget(ctx, "j"); err != nil {
		t.Error(err)
	}
	if _, err := client.Status(ctx, "j"); !errors.Is(err, goworker.ErrNoResult) {
		t.Errorf("a forgotten job: %v", err)
	}
}

// Where nothing can be notified, as in an embedded Redis, a Client asks again and again, and says nothing about it.
func TestAwaitEmbedded(t *testing.T) {
	t.Parallel()
	log := new(logged)
	d := goworker.New(goworker.WorkerSettings{URI: "embedded:", Logger: slog.New(slog.NewTextHandler(log, nil))})
	defer d.Close()
	d.RegisterDialer("embedded", embedded.Open)
	client, ctx := d.Client(), t.Context()
	c, err := d.GetConn()
	if err != nil {
		t.Fatal(err)
	}
	defer d.PutConn(c)
	do := func(args ...any) {
		t.Helper()
		if _, err := c.Do(args[0].(string), args[1:]...); err != nil {
			t.Fatal(err)
		}
	}
	do("HSET", "resque:go:result:j", "state", "pending")
	j := await(ctx, client, "j")
	var states []goworker.JobState
	for status, err := range client.Watch(ctx, "j") {
		if err != nil {
			t.Fatal(err)
		}
		switch states = append(states, status.State); len(states) {
		case 1:
			do("SET", "resque:go:progress:j", `{"done":1}`)
		case 2:
			do("HSET", "resque:go:result:j", "state", "done", "result", 7)
		}
	}
	if want := []goworker.JobState{goworker.StatePending, goworker.StatePending, goworker.StateDone}; !slices.Equal(states, want) {
		t.Errorf("watched %q", states)
	}
	if e := <-j; e.n != 7 || e.err != nil {
		t.Errorf("%+v", e)
	}
	do("HSET", "resque:go:result:j", "state", "running")
	j = await(ctx, client, "j")
	if err := client.Forget(ctx, "j"); err != nil {
		t.Error(err)
	}
	if e := <-j; !errors.Is(e.err, goworker.ErrNoResult) {
		t.Errorf("after Forget: %v", e.err)
	}
	if text := log.String(); text != "" {
		t.Errorf("it logged %s", text)
	}
}

// The Client of package goworkertest waits too.
func TestAwaitInTests(t *testing.T) {
	t.Parallel()
	client := goworkertest.NewClient(t)
	if _, err := client.Wait(t.Context(), "unknown"); !errors.Is(err, goworker.ErrNoResult) {
		t.Errorf("unknown: %v", err)
	}
	if err := client.Client.Forget(t.Context(), "unknown"); !errors.Is(err, goworker.ErrNoResult) {
		t.Errorf("forgetting it: %v", err)
	}
}

// A daemon whose tracking is turned off, in a program whose Client waits.
func TestAwaitWithoutTracking(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	client, log := newClient(t, s.URI(), goworker.WorkerSettings{DisableTracking: true})
	document(t, s, "j", "pending")
	j := await(t.Context(), client, "j")
	redistest.Eventually(t, time.Minute, "its document is read more than once", func() bool {
		return regexp.MustCompile(`cmdstat_hgetall:calls=[2-9]`).MatchString(s.Text(t, "INFO", "commandstats"))
	})
	waits(t, s, 0)
	document(t, s, "j", "done", "result", 7)
	if e := <-j; e.n != 7 || e.err != nil {
		t.Errorf("%+v", e)
	}
	if text := log.String(); text != "" {
		t.Errorf("it logged %s", text)
	}
}

// Over shards the one waits that knows the job, and one that is away hides no other.
func TestAwaitOverShards(t *testing.T) {
	t.Parallel()
	a, b := redistest.Start(t), redistest.Start(t)
	shards := goworker.NewShards(goworker.WorkerSettings{}, goworker.Shard{URI: a.URI(), Queues: []string{"a"}}, goworker.Shard{URI: b.URI(), Queues: []string{"b"}})
	defer shards.Close()
	client, ctx := shards.Client(), t.Context()
	document(t, a, "a", "pending")
	document(t, b, "b", "pending")
	for _, s := range []*redistest.Server{a, b} {
		id := map[*redistest.Server]string{a: "a", b: "b"}[s]
		ends := await(ctx, client, id)
		waits(t, a, 1)
		waits(t, b, 1)
		document(t, s, id, "done", "result", 7)
		if e := <-ends; e.n != 7 || e.err != nil {
			t.Errorf("%s: %+v", id, e)
		}
	}
	if _, err := client.Wait(ctx, "unknown"); !errors.Is(err, goworker.ErrNoResult) || strings.Contains(err.Error(), "shard") {
		t.Errorf("unknown: %v", err)
	}
	b.Kill()
	if status, err := client.Wait(ctx, "a"); err != nil || status.ID != "a" {
		t.Errorf("while another shard is away: %+v, %v", status, err)
	}
	for status, err := range client.Watch(ctx, "a") {
		if err != nil || status.ID != "a" {
			t.Errorf("a Watch while another shard is away: %+v, %v", status, err)
		}
	}
	if _, err := client.Wait(ctx, "b"); !errors.Is(err, goworker.ErrNoResult) || !strings.Contains(err.Error(), "shard redis://") || !strings.Contains(err.Error(), b.Addr) {
		t.Errorf("a job of the shard that is away: %v", err)
	}
}

// A producer with the rules that docs/redis.md has for it waits without polling, and cannot read jobs.
func TestAwaitACL(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	page, err := os.ReadFile("../../docs/redis.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```acl\nuser waiter (.*?)```").FindSubmatch(page)
	if block == nil {
		t.Fatal("docs/redis.md shows no user that waits")
	}
	s := redistest.Start(t)
	args := []any{"SETUSER", "waiter"}
	for _, rule := range strings.Fields(strings.ReplaceAll(string(block[1]), ">PASSWORD", ">pw")) {
		args = append(args, rule)
	}
	s.Do(t, "ACL", args...)
	client, log := newClient(t, "redis://waiter:pw@"+s.Addr, goworker.WorkerSettings{})
	document(t, s, "j", "pending")
	s.Do(t, "SET", "resque:go:progress:j", `{"done":1}`)
	j := await(t.Context(), client, "j")
	waits(t, s, 1)
	if status, err := client.Status(t.Context(), "j"); err != nil || status.Progress.Done != 1 {
		t.Errorf("%+v, %v", status, err)
	}
	if _, err := client.Logs(t.Context(), "j"); err != nil {
		t.Error(err)
	}
	document(t, s, "j", "done", "result", 7)
	if e := <-j; e.n != 7 || e.err != nil {
		t.Errorf("%+v", e)
	}
	if text := log.String(); text != "" {
		t.Errorf("it logged %s", text)
	}
	if _, err := client.Inspect().List(t.Context(), "q", "", 1); err == nil || !strings.Contains(err.Error(), "NOPERM") {
		t.Errorf("reading jobs: %v", err)
	}
}
