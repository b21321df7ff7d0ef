package delayedpeer

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/delayedbridge"
	"github.com/goworker/goworker/internal/daemontest"
)

// calls are the calls of functions, for a test.
type calls struct {
	mu  sync.Mutex
	all []string
}

func (c *calls) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, fmt.Sprintf(format, args...))
}

func (c *calls) sorted() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(slices.Values(c.all))
}

// setup makes a daemon that works what a bridge of the queue "calc" makes of its tasks.
func setup(t *testing.T) *daemontest.Bundle {
	t.Helper()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.QueuesString = "msgpack:calc" })
	b.Daemon.AddPart(delayedbridge.Part(b.Daemon, delayedbridge.Queue{Name: "calc"}))
	return b
}

// Mail is a struct that Python sends as a list, or as a dict.
type Mail struct {
	To   string `json:"to"`
	Size int    `json:"size"`
}

func TestPythonCallsGo(t *testing.T) {
	t.Parallel()
	b, c := setup(t), new(calls)
	b.Daemon.Register("pkg.Add", func(x, y int) { c.note("Add %d %d", x, y) })
	b.Daemon.Register("pkg.None", func() { c.note("None") })
	b.Daemon.Register("pkg.Send", func(m Mail) { c.note("Send %+v", m) })
	b.Daemon.Register("pkg.Sum", func(name string, rest ...float64) { c.note("Sum %s %v", name, rest) })
	b.Start()
	enqueue(t, b.Redis, "calc",
		`{"go": "pkg.Add", "args": [1, 2]}`,
		`{"go": "pkg.None"}`,
		`{"go": "pkg.None", "args": []}`,
		`{"go": "pkg.Send", "args": ["a@b.c", 3]}`,
		`{"go": "pkg.Send", "args": {"to": "d@e.f", "size": 70000}}`,
		`{"go": "pkg.Sum", "args": ["x", [1, 2.5]]}`,
		`{"go": "pkg.Unknown", "args": ["x"]}`,
	)
	want := []string{"Add 1 2", "None", "None", "Send {To:a@b.c Size:3}", "Send {To:d@e.f Size:70000}", "Sum x [1 2.5]"}
	b.Eventually("all functions are called", func() bool { return len(c.sorted()) == len(want) && len(b.Failures()) == 1 })
	if got := c.sorted(); !slices.Equal(got, want) {
		t.Errorf("called %q, want %q", got, want)
	}
	if f := b.Failures()[0]; !strings.Contains(f.Error, "pkg.Unknown") {
		t.Errorf("the failure is %s", f.Error)
	}
}

func TestGoCallsPython(t *testing.T) {
	t.Parallel()
	b := setup(t)
	type options struct {
		Format string `json:"format"`
		Pages  []int  `json:"pages"`
	}
	client := b.Daemon.Client()
	err := delayedbridge.Enqueue(t.Context(), client, "reports",
		delayedbridge.PyTask("app:build", []any{2026, "x", nil, 1.0, true}, nil),
		delayedbridge.PyTask("app:empty", nil, nil),
		delayedbridge.PyTask("app:named", nil, map[string]any{"a": 1}),
		delayedbridge.PyTask("app:both", []any{Mail{"a@b.c", 3}, map[string]int{"one": 1}}, options{"pdf", []int{1, 2}}),
		delayedbridge.GoTask("pkg.Add", 1, 2),
		delayedbridge.GoTask("pkg.Send", Mail{"a@b.c", 3}),
	)
	if err != nil {
		t.Fatal(err)
	}
	peer(t, b.Redis, "", "work", "reports", "notes")
	want := []string{
		`["app:build", [2026, "x", null, 1.0, true], {}]`,
		`["app:empty", [], {}]`,
		`["app:named", [], {"a": 1}]`,
		`["app:both", [{"to": "a@b.c", "size": 3}, {"one": 1}], {"format": "pdf", "pages": [1, 2]}]`,
		`["pkg.Add", [1, 2]]`,
		`["pkg.Send", ["a@b.c", 3]]`,
	}
	b.Eventually("Python has run all tasks", func() bool { return b.Redis.Int(t, "LLEN", "notes") == len(want) })
	if got := b.Redis.List(t, "LRANGE", "notes", 0, -1); !slices.Equal(got, want) {
		t.Errorf("Python ran\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := b.Redis.Int(t, "EXISTS", "reports", "reports_noti"); n != 0 {
		t.Errorf("%d of delayed's keys are left", n)
	}
}

// A worker of delayed and a bridge work the same queue: each task runs once.
func TestWorkersOfBothBesideEachOther(t *testing.T) {
	t.Parallel()
	b, c := setup(t), new(calls)
	b.Daemon.Register("pkg.Note", func(id string) { c.note(`["pkg.Note", "%s"]`, id) })
	peer(t, b.Redis, "", "work", "calc", "notes")
	var tasks, want []string
	for i := range 300 {
		tasks = append(tasks, fmt.Sprintf(`{"go": "pkg.Note", "args": "task%03d"}`, i))
		want = append(want, fmt.Sprintf(`["pkg.Note", "task%03d"]`, i))
	}
	enqueue(t, b.Redis, "calc", tasks[:150]...)
	b.Eventually("Python works", func() bool { return b.Redis.Int(t, "LLEN", "notes") > 0 })
	b.Start()
	enqueue(t, b.Redis, "calc", tasks[150:]...)
	b.Eventually("all tasks have run", func() bool {
		return len(c.sorted())+b.Redis.Int(t, "LLEN", "notes") >= 300 && b.Redis.Int(t, "EXISTS", "calc", "calc_processing") == 0
	})
	got := slices.Sorted(slices.Values(slices.Concat(c.sorted(), b.Redis.List(t, "LRANGE", "notes", 0, -1))))
	if !slices.Equal(got, want) {
		t.Errorf("%d tasks ran: %q", len(got), got)
	}
	if len(b.Failures()) > 0 {
		t.Errorf("failures: %+v", b.Failures())
	}
	t.Logf("the bridge took %d of 300", len(c.sorted()))
}

// The task that a killed worker of delayed had in hand comes back, and only when its key is gone.
func TestKilledWorkerOfDelayed(t *testing.T) {
	t.Parallel()
	b, c := setup(t), new(calls)
	b.Daemon.Register("pkg.Note", func(id string) { c.note("%s", id) })
	holder := peer(t, b.Redis, "", "hold", "calc", "notes")
	enqueue(t, b.Redis, "calc", `{"go": "pkg.Note", "args": "held"}`)
	b.Eventually("the worker has the task", func() bool {
		return b.Redis.Int(t, "HLEN", "calc_processing") == 1 && b.Redis.Int(t, "LLEN", "notes") == 1
	})
	_ = holder.Process.Kill()
	enqueue(t, b.Redis, "calc", `{"go": "pkg.Note", "args": "first"}`)
	b.Start()
	b.Eventually("the next task runs", func() bool { return slices.Equal(c.sorted(), []string{"first"}) })
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	if n := b.Redis.Int(t, "HLEN", "calc_processing"); n != 1 {
		t.Fatalf("%d tasks are in hand of workers; the key of the worker is there still", n)
	}

	b.Redis.Do(t, "DEL", b.Redis.List(t, "LRANGE", "notes", 0, 0)[0]) // its 60 seconds are over
	again := daemontest.SetupOn(t, b.Redis, func(s *goworker.WorkerSettings) { s.QueuesString = "msgpack:calc" })
	again.Daemon.Register("pkg.Note", func(id string) { c.note("%s", id) })
	again.Daemon.AddPart(delayedbridge.Part(again.Daemon, delayedbridge.Queue{Name: "calc"}))
	again.Start()
	again.Eventually("the task runs", func() bool { return slices.Equal(c.sorted(), []string{"first", "held"}) })
	if n := b.Redis.Int(t, "EXISTS", "calc", "calc_noti", "calc_processing"); n != 0 {
		t.Errorf("%d of delayed's keys are left", n)
	}
}
