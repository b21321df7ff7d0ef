package inspect_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/access"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

var errClosed = errors.New("closed")

// lender is what a daemon is for an Inspector, with one connection for each call.
type lender struct {
	server   *redistest.Server
	t        *testing.T
	settings access.Settings
	closed   bool
	login    string // user and password; "": the server's
	mortal   *redistest.Mortal
}

func (l *lender) Usable() error {
	if l.closed {
		return errClosed
	}
	return nil
}

func (l *lender) Settings() (access.Settings, error) { return l.settings, l.Usable() }

func (l *lender) Do(ctx context.Context, f func(s resque.Store, c redis.Conn) error) error {
	if err := errors.Join(l.Usable(), ctx.Err()); err != nil {
		return err
	}
	uri := l.server.URI()
	if l.login != "" {
		uri = "redis://" + l.login + "@" + l.server.Addr
	}
	c, err := redis.DialURLContext(ctx, uri)
	if err != nil {
		return err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if l.mortal != nil {
		c = l.mortal.Conn(c)
	}
	return f(resque.New(""), c)
}

func setup(t *testing.T) (*inspect.Inspector, *redistest.Server, *lender) {
	t.Helper()
	t.Parallel()
	server := redistest.Start(t)
	l := &lender{server: server, t: t, settings: access.Settings{Style: payload.Plain, MaxPayload: 1 << 20, Server: "redis://:***@cache"}}
	return inspect.New(l), server, l
}

func job(queue, class string, args ...any) *inspect.Job {
	return &inspect.Job{Queue: queue, Class: class, Args: args}
}

func want(t *testing.T, what string, want, got any, err error) {
	t.Helper()
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%s: %v (-want +got):\n%s", what, err, diff)
	}
}

func TestQueues(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	for _, queue := range []string{"mail", "low"} {
		server.Do(t, "SADD", "resque:queues", queue)
		server.Do(t, "RPUSH", "resque:queue:"+queue, `{"class":"A","args":[1]}`, `{"class":"A","args":[2]}`, `{"class":"B","args":[]}`)
	}
	names, err := i.Queues(ctx)
	want(t, "queues", []string{"low", "mail"}, names, err)
	n, err := i.Dequeue(ctx, job("low", "A", 1))
	want(t, "dequeued", 1, n, err)
	n, err = i.Dequeue(ctx, job("low", "B", []any{}...))
	want(t, "dequeued of a class", 1, n, err)
	size, err := i.QueueSize(ctx, "low")
	want(t, "size", int64(1), size, err)
	if err := i.RemoveQueue(ctx, "low"); err != nil {
		t.Error(err)
	}

	if err := i.PauseQueue(ctx, "mail"); err != nil {
		t.Error(err)
	}
	names, err = i.PausedQueues(ctx)
	want(t, "paused", []string{"mail"}, names, err)
	if err := i.ResumeQueue(ctx, "mail"); err != nil {
		t.Error(err)
	}
	waiting, err := i.Waiting(ctx, "mail")
	want(t, "waiting", []inspect.WaitingInfo{}, waiting, err)

	text, err := i.StatsText(ctx)
	want(t, "stats", "resque.pending=3\nresque.processed+=0\nresque.failed+=0\nresque.workers=0\nresque.working=0\nqueues.mail=3", text, err)
	info, err := i.Fleet(ctx)
	want(t, "info", inspect.FleetInfo{Pending: 3, Queues: 1, Servers: []string{"redis://:***@cache"}, QueueSizes: map[string]int64{"mail": 3}},
		withoutEnvironment(info), err)
}

func withoutEnvironment(i inspect.FleetInfo) inspect.FleetInfo {
	i.Environment = ""
	return i
}

func TestWorkers(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "SADD", "resque:workers", "h:1:a,b", "h:2:*")
	server.Do(t, "SET", "resque:worker:h:2:*", `{"queue":"a","run_at":"2026-11-21T12:00:00Z","payload":{"class":"J","args":[]}}`)
	server.Do(t, "SET", "resque:stat:processed:h:1:a,b", "7")
	workers, err := i.Workers(t.Context())
	want(t, "workers", []inspect.WorkerInfo{
		{ID: "h:1:a,b", Host: "h", PID: "1", Queues: []string{"a", "b"}, Processed: 7},
		{ID: "h:2:*", Host: "h", PID: "2", Queues: []string{"*"}, Working: &inspect.WorkingInfo{
			Queue: "a", Class: "J", RunAt: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC), Payload: json.RawMessage(`{"class":"J","args":[]}`)}},
	}, workers, err)
}

func record(class string, n int) string {
	return string(payload.Failure{
		FailedAt: "2026/11/21 12:00:00 UTC", Payload: fmt.Appendf(nil, `{"class":%q,"args":[%d],"id":"x"}`, class, n),
		Exception: "EOF", Error: "it broke", Worker: "h:1:q", Queue: "q",
	}.Encode())
}

func TestFailures(t *testing.T) {
	i, server, l := setup(t)
	ctx := t.Context()
	server.Do(t, "RPUSH", "resque:failed", record("A", 0), record("B", 1), record("A", 2), record("B", 3))
	f := i.Failures()
	all, err := f.List(ctx, 0, -1)
	want(t, "classes", []string{"A", "B", "A", "B"}, classes(all), err)
	one, err := f.Get(ctx, all[2].ID)
	want(t, "the one with an id", string(all[2].Raw), string(one.Raw), err)
	found, next, err := f.Search(ctx, inspect.FailureFilter{Class: "B"}, "", 1)
	want(t, "found", string(all[3].Raw), string(found[0].Raw), err)
	found, next, err = f.Search(ctx, inspect.FailureFilter{Class: "B"}, next, 9)
	want(t, "found next", []string{"B", ""}, append(classes(found), next), err)
	groups, err := f.Groups(ctx, inspect.FailureFilter{})
	if len(groups) != 2 || groups[0].Class != "A" || groups[0].Count != 2 || err != nil {
		t.Errorf("groups: %+v, %v", groups, err)
	}

	if err := f.KeepPayload().Retry(ctx, all[0]); err != nil {
		t.Error(err)
	}
	n, err := f.RetryID(ctx, all[0].ID, all[1].ID, "none")
	if n != 1 || !errors.Is(err, inspect.ErrRetried) || !errors.Is(err, inspect.ErrNoFailure) {
		t.Errorf("retried by id: %d, %v", n, err)
	}
	n, err = f.RetryWhere(ctx, inspect.FailureFilter{Class: "A"})
	want(t, "retried where", 1, n, err)
	n, err = f.RetryAll(ctx)
	want(t, "retried all", 1, n, err)
	want(t, "queue", []string{`{"class":"A","args":[0],"id":"x"}`, `{"class":"B","args":[1],"id":"x"}`,
		`{"class":"A","args":[2],"id":"x"}`, `{"class":"B","args":[3],"id":"x"}`}, server.List(t, "LRANGE", "resque:queue:q", 0, -1), nil)
	if all, err = f.List(ctx, 0, -1); err != nil {
		t.Fatal(err)
	}
	if err := f.Remove(ctx, all[0]); err != nil {
		t.Error(err)
	}
	if err := f.Remove(ctx, all[0]); !errors.Is(err, inspect.ErrNoFailure) {
		t.Errorf("removed twice: %v", err)
	}
	n, err = f.RemoveID(ctx, all[1].ID)
	want(t, "removed by id", 1, n, err)
	n, err = f.RemoveWhere(ctx, inspect.FailureFilter{Class: "A"})
	want(t, "removed where", 1, n, err)
	n, err = f.ClearRetried(ctx)
	want(t, "cleared", 1, n, err)

	l.settings.MultiQueue = true
	server.Do(t, "SADD", "resque:failed_queues", "q_failed")
	server.Do(t, "RPUSH", "resque:q_failed", record("A", 0))
	count, err := f.Count(ctx)
	want(t, "count over all lists", int64(1), count, err)
	count, err = f.In("other").Count(ctx)
	want(t, "count of another list", int64(0), count, err)
	if err := f.Clear(ctx); err != nil || server.Int(t, "EXISTS", "resque:q_failed") != 0 {
		t.Errorf("not cleared: %v", err)
	}
}

func classes(failures []inspect.Failure) (names []string) {
	for _, f := range failures {
		names = append(names, f.Class)
	}
	return names
}

func TestDelayed(t *testing.T) {
	i, server, _ := setup(t)
	ctx := t.Context()
	at := time.Unix(1_900_000_000, 0)
	for n := range 3 {
		item := fmt.Sprintf(`{"class":"A","args":[%d],"queue":"low"}`, n)
		second := fmt.Sprint(at.Unix() + int64(n))
		server.Do(t, "RPUSH", "resque:delayed:"+second, item)
		server.Do(t, "SADD", "resque:timestamps:"+item, "delayed:"+second)
		server.Do(t, "ZADD", "resque:delayed_queue_schedule", second, second)
	}
	server.Do(t, "ZADD", "resque:go:schedule", at.UnixMilli()+5, `3:low{"class":"A","args":[0],"attempt":3,"error":"Error: no luck","id":"own"}`)
	d := i.Delayed()
	count, err := d.Count(ctx)
	want(t, "count", int64(4), count, err)
	own, err := d.Find(ctx, "own", time.Time{})
	if len(own) != 1 || own[0].Plain || own[0].ID != "own" || own[0].Attempt != 3 || own[0].LastError != "Error: no luck" || err != nil {
		t.Errorf("found %+v, %v", own, err)
	}
	page, err := i.Find(ctx, inspect.Query{ID: "own"}, "", 10)
	if len(page.Jobs) != 1 || page.Jobs[0].Attempt != 3 || page.Jobs[0].LastError != "Error: no luck" || err != nil {
		t.Errorf("found %+v, %v", page.Jobs, err)
	}
	times, err := i.DelayedUntil(ctx, job("low", "A", 0))
	want(t, "times", []time.Time{at, at.Add(5 * time.Millisecond)}, times, err)
	n, err := i.RemoveDelayedFrom(ctx, at, job("low", "A", 0))
	want(t, "removed from a time", 1, n, err)
	n, err = i.PromoteDelayed(ctx, job("low", "A", 1))
	want(t, "enqueued", 1, n, err)
	n, err = d.Reschedule(ctx, at.Add(time.Hour), own...)
	want(t, "rescheduled", 1, n, err)
	n, err = d.Remove(ctx, own...)
	want(t, "removed, as it was listed", 1, n, err)
	n, err = i.RemoveDelayed(ctx, job("low", "A", 0))
	want(t, "removed", 0, n, err)
	left, err := d.List(ctx, time.Time{}, 0, -1)
	want(t, "left", []string{`{"class":"A","args":[2]}`}, payloads(left), err)
	n, err = d.Promote(ctx, left...)
	want(t, "enqueued, listed", 1, n, err)
	want(t, "queue", []string{`{"class":"A","args":[1]}`, `{"class":"A","args":[2]}`}, server.List(t, "LRANGE", "resque:queue:low", 0, -1), nil)
	if err := d.Clear(ctx); err != nil {
		t.Error(err)
	}
}

func payloads(jobs []inspect.DelayedJob) (texts []string) {
	for _, j := range jobs {
		texts = append(texts, string(j.Payload))
	}
	return texts
}

// Mistakes are refused before Redis is asked, and a closed owner before the mistakes.
func TestMistakes(t *testing.T) {
	i, _, l := setup(t)
	ctx := t.Context()
	f, d := i.Failures(), i.Delayed()
	calls := map[string]func() error{
		"given no job":       func() error { _, err := i.Dequeue(ctx, nil); return err },
		"names no queue":     func() error { _, err := i.Dequeue(ctx, job("", "A")); return err },
		"names no class":     func() error { _, err := i.Dequeue(ctx, job("q", "")); return err },
		"cannot be encoded":  func() error { _, err := i.Dequeue(ctx, job("q", "A", func() {})); return err },
		"has no name":        func() error { return i.PauseQueue(ctx, "") },
		"pause each queue":   func() error { return i.PauseQueue(ctx, "a*") },
		"resume each queue":  func() error { return i.ResumeQueue(ctx, "!a") },
		"no job to look":     func() error { _, err := i.DelayedUntil(ctx, nil); return err },
		"look for names no":  func() error { _, err := d.Like(ctx, job("", "A")); return err },
		"MaxPayload":         func() error { _, err := d.Like(ctx, job("q", "A", strings.Repeat("x", 2<<20))); return err },
		"at least 1":         func() error { _, _, err := f.Search(ctx, inspect.FailureFilter{}, "", 0); return err },
		"not where a search": func() error { _, _, err := f.Search(ctx, inspect.FailureFilter{}, "x", 1); return err },
		"both Retried and": func() error {
			_, err := f.Groups(ctx, inspect.FailureFilter{Retried: true, Unretried: true})
			return err
		},
		"does not come from":       func() error { return f.Retry(ctx, inspect.Failure{}) },
		"does not come  from":      func() error { return f.Remove(ctx, inspect.Failure{}) },
		"whose failures are meant": func() error { _, err := f.In("").Count(ctx); return err },
	}
	for text, call := range calls {
		text = strings.ReplaceAll(text, "  ", " ")
		if err := call(); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want an error with %q", err, text)
		}
	}
	l.closed = true
	for text, call := range calls {
		if err := call(); !errors.Is(err, errClosed) {
			t.Errorf("%s: %v after the owner was closed", text, err)
		}
	}
}

// A call ends with its context, also while Redis is silent.
func TestContext(t *testing.T) {
	i, server, _ := setup(t)
	server.Do(t, "CLIENT", "PAUSE", 120_000)
	for name, call := range map[string]func(context.Context) error{
		"a command":  func(ctx context.Context) error { _, err := i.Queues(ctx); return err },
		"a pipeline": func(ctx context.Context) error { _, err := i.Fleet(ctx); return err },
		"a script": func(ctx context.Context) error {
			_, err := i.Failures().RemoveWhere(ctx, inspect.FailureFilter{})
			return err
		},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		began := time.Now()
		if err := call(ctx); err == nil || time.Since(began) > time.Minute {
			t.Errorf("%s: %v after %v", name, err, time.Since(began))
		}
		cancel()
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := i.Queues(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that is over: %v", err)
	}
}
