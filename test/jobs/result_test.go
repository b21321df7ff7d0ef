package jobs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// document returns the document of a job.
func document(t testing.TB, server *redistest.Server, id string) map[string]string {
	t.Helper()
	all := server.List(t, "HGETALL", "resque:go:result:"+id)
	fields := make(map[string]string)
	for pair := range slices.Chunk(all, 2) {
		fields[pair[0]] = pair[1]
	}
	return fields
}

// becomes waits until the document of a job has a state, and returns it.
func becomes(b *daemontest.Bundle, id, state string) map[string]string {
	b.T.Helper()
	b.Eventually("job "+id+" is "+state, func() bool { return b.Redis.Text(b.T, "HGET", "resque:go:result:"+id, "state") == state })
	return document(b.T, b.Redis, id)
}

// blurred puts words in the place of what differs from run to run, and checks that times are times.
func blurred(t testing.TB, doc map[string]string) map[string]string {
	t.Helper()
	doc = maps.Clone(doc)
	now := time.Now().UnixMilli()
	moment := func(name, text string) string {
		if ms, err := strconv.ParseInt(text, 10, 64); err != nil || ms < now-60_000 || ms > now+100*60_000 {
			t.Errorf("%s is %q, and it is %d now", name, text, now)
		}
		return "T"
	}
	for name, text := range doc {
		switch name {
		case "enqueued", "began", "ended", "due":
			doc[name] = moment(name, text)
		case "process", "worker":
			doc[name] = "W"
		}
		if name != "tries" && name != "ttl" && name[0] == 't' {
			var try map[string]any
			if err := json.Unmarshal([]byte(text), &try); err != nil {
				t.Errorf("the try %s is %s", name, text)
			}
			for _, field := range []string{"began", "ended"} {
				if ms, ok := try[field].(float64); ok {
					moment(name+"."+field, strconv.FormatInt(int64(ms), 10))
					delete(try, field)
				}
			}
			delete(try, "process")
			delete(try, "worker")
			short, _ := json.Marshal(try)
			doc[name] = string(short)
		}
	}
	return doc
}

var errOften = errors.New("not yet")

// enders registers classes that end in each way.
func enders(b *daemontest.Bundle) {
	var runs atomic.Int64
	d := b.Daemon
	d.Register("Value", func(n int) (map[string]int, error) { return map[string]int{"twice": 2 * n}, nil })
	d.Register("Nothing", func() error { return nil })
	d.Register("Null", func() (any, error) { return nil, nil })
	d.Register("Large", func(n int) (string, error) { return strings.Repeat("x", n-2), nil })
	d.Register("Odd", func() (any, error) { return make(chan int), nil })
	d.Register("Bad", func() (any, error) { return panicking{}, nil })
	d.Register("Fail", func() (int, error) { return 7, errors.New("no luck") })
	d.Register("Panic", func() { panic("oh no") })
	d.Register("Discard", func() error { return goworker.Discard(errors.New("no use")) })
	d.Register("Snooze", func() error { return goworker.Snooze(time.Hour) })
	d.Register("Retry", func() error { return errOften }, goworker.Retry(3, goworker.Delays{time.Hour}))
	d.Register("Now", func() error { return errOften }, goworker.Retry(25, goworker.Delays{0}))
	d.Register("Twice", func() (string, error) {
		if runs.Add(1) == 1 {
			return "", errOften
		}
		return "ok", nil
	}, goworker.Retry(3, goworker.Delays{0}))
	d.Register("Late", func() {}, goworker.OnExpired(func(context.Context, *goworker.Delivery) error { return errors.New("too late") }))
	d.Register("Lane", func(tenant string) (string, error) { return tenant, nil }, goworker.MaxRunning(1, goworker.PerKey(goworker.ByArg(0))))
}

type panicking struct{}

func (panicking) MarshalJSON() ([]byte, error) { panic("no form") }

// The document after each kind of end.
func TestResultDocuments(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	enders(b)
	failedTry := func(state, exception, text string) string {
		return fmt.Sprintf(`{"attempt":1,"error":%q,"exception":%q,"state":%q}`, text, exception, state)
	}
	run := map[string]string{"attempt": "1", "process": "W", "worker": "W", "began": "T"}
	tests := map[string]struct {
		args  []any
		class string
		opts  []goworker.EnqueueOption
		state string
		ran   bool
		more  map[string]string
		ttl   time.Duration
	}{
		"a value":         {class: "Value", args: []any{21}, state: "done", ran: true, more: map[string]string{"result": `{"twice":42}`}},
		"no value":        {class: "Nothing", state: "done", ran: true},
		"a nil value":     {class: "Null", state: "done", ran: true},
		"just small":      {class: "Large", args: []any{goworker.MaxResult}, state: "done", ran: true, more: map[string]string{"result": `"` + strings.Repeat("x", goworker.MaxResult-2) + `"`}},
		"too large":       {class: "Large", args: []any{goworker.MaxResult + 1}, state: "done", ran: true, more: map[string]string{"left": "the result has 1048577 bytes as JSON, and at most 1048576 are kept; return where it lies instead"}},
		"no JSON":         {class: "Odd", state: "done", ran: true, more: map[string]string{"left": "the result cannot be written as JSON: json: unsupported type: chan int"}},
		"panicking JSON":  {class: "Bad", state: "done", ran: true, more: map[string]string{"left": "the result cannot be written as JSON: panic: no form"}},
		"failed":          {class: "Fail", state: "failed", ran: true, more: map[string]string{"exception": "Error", "error": "no luck", "tries": "1", "t1": failedTry("failed", "Error", "no luck")}},
		"discarded":       {class: "Discard", state: "discarded", ran: true, more: map[string]string{"exception": "Error", "error": "no use", "tries": "1", "t1": failedTry("discarded", "Error", "no use")}},
		"snoozed":         {class: "Snooze", state: "snoozed", ran: true, more: map[string]string{"due": "T", "tries": "1"}, ttl: goworker.PendingTTL + time.Hour},
		"retrying":        {class: "Retry", state: "retrying", ran: true, more: map[string]string{"due": "T", "exception": "Error", "error": "not yet", "tries": "1", "t1": failedTry("retrying", "Error", "not yet")}, ttl: goworker.PendingTTL + time.Hour},
		"expired":         {class: "Value", args: []any{1}, opts: []goworker.EnqueueOption{daemontest.Past()}, state: "expired"},
		"expired handler": {class: "Late", opts: []goworker.EnqueueOption{daemontest.Past()}, state: "failed", ran: true, more: map[string]string{"exception": "Error", "error": "too late", "tries": "1", "t1": failedTry("failed", "Error", "too late")}},
		"unknown class":   {class: "Nobody", state: "failed", more: map[string]string{"exception": "UnknownClass", "error": "U"}},
		"in a lane":       {class: "Lane", args: []any{"acme"}, state: "done", ran: true, more: map[string]string{"result": `"acme"`}},
		"delayed":         {class: "Value", args: []any{1}, opts: []goworker.EnqueueOption{goworker.ProcessIn(time.Hour)}, state: "pending", more: map[string]string{"due": "T"}, ttl: goworker.PendingTTL + time.Hour},
	}
	const ttl = 10 * time.Minute
	for id, tt := range tests {
		opts := append([]goworker.EnqueueOption{goworker.WithID(id), goworker.WithResult(ttl)}, tt.opts...)
		if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", tt.class, tt.args...), opts...); err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		pending := map[string]string{"state": "pending", "class": tt.class, "queue": "work", "enqueued": "T", "ttl": "600000"}
		if _, delayed := tt.more["due"]; delayed && !tt.ran {
			pending["due"] = "T"
		}
		if diff := cmp.Diff(pending, blurred(t, document(t, b.Redis, id))); diff != "" {
			t.Errorf("%s: the document at first (-want +got):\n%s", id, diff)
		}
	}
	b.Start()
	for id, tt := range tests {
		got := blurred(t, becomes(b, id, tt.state))
		want := map[string]string{"state": tt.state, "class": tt.class, "queue": "work", "enqueued": "T", "ttl": "600000"}
		if tt.ran {
			maps.Copy(want, run)
		}
		if tt.state != "pending" && tt.state != "snoozed" && tt.state != "retrying" {
			want["ended"] = "T"
		}
		if tt.ttl == 0 {
			tt.ttl = ttl
		}
		maps.Copy(want, tt.more)
		switch id {
		case "unknown class":
			got["error"], got["exception"] = "U", "UnknownClass"
		case "snoozed":
			delete(got, "t1")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: the document (-want +got):\n%s", id, diff)
		}
		if left := time.Duration(b.Redis.Int(t, "PTTL", "resque:go:result:"+id)) * time.Millisecond; left > tt.ttl || left < tt.ttl-time.Minute {
			t.Errorf("%s: the document stays %s, want %s", id, left, tt.ttl)
		}
	}
}

// A job that is retried has the runs before; when it is done it has no error. Of many tries the last 20 stay.
func TestResultTries(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	enders(b)
	for _, class := range []string{"Twice", "Now"} {
		if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", class), goworker.WithID(class), goworker.WithResult(0)); err != nil {
			t.Fatal(err)
		}
	}
	b.Start()
	got := becomes(b, "Twice", "done")
	if got["attempt"] != "2" || got["tries"] != "1" || got["error"]+got["exception"]+got["due"] != "" || got["result"] != `"ok"` || got["ttl"] != "3600000" || !strings.Contains(got["t1"], "not yet") {
		t.Errorf("the document of a job that was done at its second run is %v", got)
	}
	got = becomes(b, "Now", "failed")
	var tries []string
	for name := range got {
		if n, err := strconv.Atoi(strings.TrimPrefix(name, "t")); err == nil {
			tries = append(tries, fmt.Sprintf("%02d", n))
		}
	}
	slices.Sort(tries)
	if got["tries"] != "26" || len(tries) != 20 || tries[0] != "07" || tries[19] != "26" || got["attempt"] != "26" || !strings.Contains(got["t26"], `"state":"failed"`) || !strings.Contains(got["t25"], `"state":"retrying"`) {
		t.Errorf("the tries are %q of %v", tries, got)
	}
}

// What was forgotten stays so, and a job without the option leaves nothing.
func TestResultForgotten(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Daemon.Register("Tell", func(ctx context.Context, id string) (string, error) {
		b.Runs.Start(id)
		<-b.Gate
		goworker.Progress(ctx, 1, 2, "half")
		goworker.Logger(ctx).Info("half")
		return id, nil
	})
	id := b.MustEnqueue("Tell", "a", goworker.WithResult(time.Hour), goworker.CaptureLogs()).ID
	b.MustEnqueue("Tell", "b")
	b.Start()
	becomes(b, id, "running")
	b.Redis.Do(t, "DEL", "resque:go:result:"+id)
	b.Open()
	b.Eventually("both have ended", func() bool { return b.Stat("processed") == 2 })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	b.OnlyTotals()
}

// Jobs without the option have the bytes that they always had; the fields of the others precede expires_at and id.
func TestResultPayload(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	kept := goworker.Define[int, goworker.None]("K", goworker.OnQueue("work"), goworker.WithResult(time.Minute), goworker.CaptureLogs())
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI()}, goworker.Classes(kept))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	job := goworker.NewJob("work", "C", 1)
	at := goworker.ExpiresAt(time.UnixMilli(9e12))
	items := []goworker.Item{
		{Job: job}, {Job: job, Options: []goworker.EnqueueOption{goworker.WithID("i")}},
		{Job: job, Options: []goworker.EnqueueOption{goworker.WithID("i"), goworker.WithResult(1), at, goworker.WithMeta(map[string]string{"a": "b"})}},
		{Job: job, Options: []goworker.EnqueueOption{goworker.WithID("i"), goworker.CaptureLogs(), goworker.WithResult(0)}},
		kept.Item(2, goworker.WithID("i")),
	}
	want := []string{
		`{"class":"C","args":[1]}`, `{"class":"C","args":[1],"id":"i"}`,
		`{"class":"C","args":[1],"meta":{"a":"b"},"result":1,"expires_at":9000000000000,"id":"i"}`,
		`{"class":"C","args":[1],"result":3600000,"logs":true,"id":"i"}`,
		`{"class":"K","args":[2],"result":60000,"logs":true,"id":"i"}`,
	}
	if _, err := client.EnqueueMany(t.Context(), items...); err != nil {
		t.Fatal(err)
	}
	if got := server.List(t, "LRANGE", "resque:queue:work", 0, -1); !slices.Equal(got, want) {
		t.Errorf("the payloads are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	for text, opts := range map[string][]goworker.EnqueueOption{
		"goworker: enqueueing C: CaptureLogs: the job's log lines stay as long as its result, and it keeps none; add WithResult; nothing was enqueued": {goworker.CaptureLogs()},
		"goworker: enqueueing C: WithResult(-1s): it cannot be negative; give 0 for 1h0m0s; nothing was enqueued":                                      {goworker.WithResult(-time.Second)},
		"goworker: enqueueing C: WithResult(1s) and WithResult(2s) both say how long the job's result is kept; give one of them; nothing was enqueued": {goworker.WithResult(time.Second), goworker.WithResult(2 * time.Second)},
	} {
		if _, err := client.Enqueue(t.Context(), job, opts...); err == nil || err.Error() != text {
			t.Errorf("the error is\n%v\nwant\n%s", err, text)
		}
	}
}

// A key of another type under the name of a document: the push is refused. At the end it holds no job up.
func TestResultWrongType(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	enders(b)
	b.Redis.Do(t, "SET", "resque:go:result:taken", "x")
	_, err := b.Daemon.EnqueueWith(goworker.NewJob("work", "Value", 1), goworker.WithID("taken"), goworker.WithResult(0))
	if err == nil || !strings.Contains(err.Error(), "resque:go:result:taken") || b.Redis.Int(t, "LLEN", "resque:queue:work") != 0 {
		t.Errorf("the push ended with %v", err)
	}
	for i, id := range []string{"a", "b", "c"} {
		if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", "Value", i), goworker.WithID(id), goworker.WithResult(0)); err != nil {
			t.Fatal(err)
		}
	}
	b.Redis.Do(t, "SET", "resque:go:result:b", "x")
	b.Redis.Do(t, "RPUSH", "resque:go:logs:c", "x")
	b.Start()
	b.Eventually("all are done", func() bool { return b.Stat("processed") == 3 })
	becomes(b, "a", "done")
	becomes(b, "c", "done")
	b.Eventually("the refusal is logged", func() bool { return strings.Contains(b.Log.Text(), "resque:go:result:b") })
	if got := b.Redis.Text(t, "GET", "resque:go:result:b"); got != "x" {
		t.Errorf("the key of another program is %q", got)
	}
}

// A second job of an id starts a new document.
func TestResultSameID(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	enders(b)
	b.Redis.Do(t, "HSET", "resque:go:result:same", "state", "failed", "error", "old", "tries", "7", "t7", "{}")
	b.Redis.Do(t, "SET", "resque:go:progress:same", "old")
	b.Redis.Do(t, "RPUSH", "resque:go:logs:same", "old")
	if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", "Value", 4), goworker.WithID("same"), goworker.WithResult(0)); err != nil {
		t.Fatal(err)
	}
	got := document(t, b.Redis, "same")
	if got["state"] != "pending" || len(got) != 5 || b.Redis.Int(t, "EXISTS", "resque:go:progress:same", "resque:go:logs:same") != 0 {
		t.Errorf("the document begins as %v", got)
	}
	b.Start()
	if got := becomes(b, "same", "done"); got["result"] != `{"twice":8}` || got["tries"] != "" {
		t.Errorf("the document is %v", got)
	}
}

// A job that an operator retries from the failed list goes on with its document.
func TestResultRetriedByHand(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var broken atomic.Bool
	broken.Store(true)
	b.Daemon.Register("Mend", func(ctx context.Context) (string, error) {
		if broken.Load() {
			return "", errors.New("broken")
		}
		<-b.Gate
		return "whole", nil
	})
	b.Start()
	if _, err := b.Daemon.EnqueueWith(goworker.NewJob("work", "Mend"), goworker.WithID("m"), goworker.WithResult(0)); err != nil {
		t.Fatal(err)
	}
	becomes(b, "m", "failed")
	broken.Store(false)
	b.Eventually("it is filed", func() bool { return b.Stat("failed") == 1 })
	if n, err := b.Daemon.Failures().RetryAll(); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	got := becomes(b, "m", "running")
	if got["ended"] != "" || b.Redis.Int(t, "PTTL", "resque:go:result:m") < int(goworker.PendingTTL.Milliseconds())-60_000 {
		t.Errorf("while it runs the document is %v", got)
	}
	b.Open()
	got = becomes(b, "m", "done")
	if got["result"] != `"whole"` || got["error"] != "" || got["tries"] != "1" || got["ended"] == "" {
		t.Errorf("the document is %v", got)
	}
}
