package daemon

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// newAdminDaemon is a daemon that never runs: the administrative calls need no
// queues and no handlers.
func newAdminDaemon(t *testing.T, settings goworker.WorkerSettings) (*goworker.Daemon, *redistest.Server) {
	t.Helper()
	server := redistest.Start(t)
	settings.URI = server.URI()
	d := goworker.New(settings)
	t.Cleanup(d.Close)
	return d, server
}

func failureText(n int, queue string) string {
	return fmt.Sprintf(`{"failed_at":"2026/11/21 02:41:26 UTC","payload":{"class":"J","args":[%d],"id":"x"},"exception":"E","error":"it broke","backtrace":["a","b"],"worker":"h:1:q","queue":%q}`, n, queue)
}

func TestDequeue(t *testing.T) {
	t.Parallel()
	golden := redistest.Golden(t, "dequeue")
	last := golden.Commands[len(golden.Commands)-1]
	if last[3] != `{"class":"Echo","args":[1,"<é&>",1.0]}` {
		t.Fatalf("the recording has changed: %q", last)
	}
	for _, rails := range []bool{false, true} {
		d, server := newAdminDaemon(t, goworker.WorkerSettings{RailsJSON: rails})
		job := func(args ...any) *goworker.Job {
			return &goworker.Job{Queue: "low", Payload: goworker.Payload{Class: "Echo", Args: args}}
		}
		for _, payload := range []string{
			last[3], last[3], `{"class":"Echo","args":[1,"\u003cé\u0026\u003e",1.0]}`,
			`{"class":"Echo","args":[]}`, `{"args":[],"class":"Echo"}`, `{"class":"Other","args":[]}`,
		} {
			server.Do(t, "RPUSH", "resque:queue:low", payload)
		}
		want := 2
		if rails {
			want = 1
		}
		for _, step := range []struct {
			name string
			job  *goworker.Job
			want int
		}{
			{"other arguments", job(1, "x"), 0},
			{"these arguments", job(1, "<é&>", literal("1.0")), want},
			{"empty arguments", &goworker.Job{Queue: "low", Payload: goworker.Payload{Class: "Echo", Args: []any{}}}, 2},
			{"the class", &goworker.Job{Queue: "low", Payload: goworker.Payload{Class: "Echo", Args: nil}}, 3 - want},
			{"the class again", &goworker.Job{Queue: "low", Payload: goworker.Payload{Class: "Echo", Args: nil}}, 0},
		} {
			if n, err := d.Dequeue(step.job); n != step.want || err != nil {
				t.Errorf("rails %v, %s: removed %d, %v; want %d", rails, step.name, n, err, step.want)
			}
		}
		if left := server.List(t, "LRANGE", "resque:queue:low", 0, -1); len(left) != 1 {
			t.Errorf("left %q", left)
		}
	}
}

// literal prints as it is written.
type literal string

func (l literal) MarshalJSON() ([]byte, error) { return []byte(l), nil }

func TestDequeueWithoutJob(t *testing.T) {
	t.Parallel()
	d := goworker.New(goworker.WorkerSettings{})
	t.Cleanup(d.Close)
	for _, test := range []struct {
		job  *goworker.Job
		says string
	}{
		{nil, "no job"},
		{&goworker.Job{}, "no queue"},
		{&goworker.Job{Queue: "q"}, "no class"},
		{&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "J", Args: []any{make(chan int)}}}, "dequeueing J"},
	} {
		if _, err := d.Dequeue(test.job); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%v: %v; want %q", test.job, err, test.says)
		}
	}
}

func TestQueuesAndInfo(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	d, server := newAdminDaemon(t, goworker.WorkerSettings{})
	for _, q := range []string{"mail", "mail", "low"} {
		if err := d.Enqueue(&goworker.Job{Queue: q, Payload: goworker.Payload{Class: "J", Args: []any{1}}}); err != nil {
			t.Fatal(err)
		}
	}
	server.Do(t, "SADD", "resque:workers", "h.go:1-0:mail,low", "h")
	server.Do(t, "SET", "resque:worker:h.go:1-0:mail,low", `{"queue":"mail","run_at":"2026-11-21T02:41:26Z","payload":{"class":"J","args":[1]}}`)
	server.Do(t, "RPUSH", "resque:failed", failureText(1, "mail"))

	if got, err := d.Queues(); !slices.Equal(got, []string{"low", "mail"}) || err != nil {
		t.Errorf("queues %q, %v", got, err)
	}
	if n, err := d.QueueSize("mail"); n != 2 || err != nil {
		t.Errorf("size %d, %v; want 2", n, err)
	}
	workers, err := d.Workers()
	if err != nil || len(workers) != 2 || workers[0].ID != "h" || workers[0].Working != nil ||
		workers[1].Host != "h.go" || workers[1].Working == nil || workers[1].Working.Class != "J" {
		t.Errorf("workers %+v, %v", workers, err)
	}
	info, err := d.Info()
	want := goworker.FleetInfo{Pending: 3, Failed: 1, Queues: 2, Workers: 2, Working: 1, Servers: []string{server.URI()},
		Environment: info.Environment, QueueSizes: map[string]int64{"mail": 2, "low": 1}}
	if diff := cmp.Diff(want, info); diff != "" || err != nil || info.Environment == "" {
		t.Errorf("info: %v (-want +got):\n%s", err, diff)
	}
	text, err := d.StatsText()
	if want := "resque.pending=3\nresque.processed+=0\nresque.failed+=1\nresque.workers=2\nresque.working=1\nqueues.low=1\nqueues.mail=2"; text != want || err != nil {
		t.Errorf("stats %q, %v; want %q", text, err, want)
	}
	if err := d.RemoveQueue("mail"); err != nil {
		t.Error(err)
	}
	if got, err := d.Queues(); !slices.Equal(got, []string{"low"}) || err != nil {
		t.Errorf("queues %q, %v", got, err)
	}
	server.Kill()
	if _, err := d.Info(); err == nil {
		t.Error("Info of a Redis that is gone: no error")
	}
	if _, err := d.StatsText(); err == nil {
		t.Error("StatsText of a Redis that is gone: no error")
	}
	if _, err := d.Failures().List(0, -1); err == nil {
		t.Error("List of a Redis that is gone: no error")
	}
}

func TestFailureList(t *testing.T) {
	t.Parallel()
	d, server := newAdminDaemon(t, goworker.WorkerSettings{})
	for i := range 3 {
		server.Do(t, "RPUSH", "resque:failed", failureText(i, "mail"))
	}
	server.Do(t, "RPUSH", "resque:failed", "not JSON", "")
	all := d.Failures()
	if n, err := all.Count(); n != 5 || err != nil {
		t.Errorf("count %d, %v; want 5", n, err)
	}
	list, err := all.List(0, -1)
	if err != nil || len(list) != 4 {
		t.Fatalf("%+v, %v; want 4", list, err)
	}
	f := list[0]
	if f.Class != "J" || f.Error != "it broke" || f.Queue != "mail" || len(f.Backtrace) != 2 || f.RetriedAt != "" || f.Invalid != nil || string(f.Raw) != failureText(0, "mail") {
		t.Errorf("first %+v", f)
	}
	if list[3].Invalid == nil || string(list[3].Raw) != "not JSON" {
		t.Errorf("last %+v", list[3])
	}
	if err := all.Retry(f); err != nil {
		t.Error(err)
	}
	if err := all.Retry(f); !errors.Is(err, goworker.ErrNoFailure) {
		t.Errorf("retried twice: %v", err)
	}
	if err := all.Retry(list[1]); err != nil {
		t.Error(err)
	}
	if n, err := all.RetryAll(); n != 1 || err == nil || !strings.Contains(err.Error(), "1 failure of list failed could not be retried") {
		t.Errorf("retried %d, %v", n, err)
	}
	want := []string{`{"class":"J","args":[0],"id":"x"}`, `{"class":"J","args":[1],"id":"x"}`, `{"class":"J","args":[2],"id":"x"}`}
	if got := server.List(t, "LRANGE", "resque:queue:mail", 0, -1); !slices.Equal(got, want) {
		t.Errorf("queue %q; want %q", got, want)
	}
	if list, err := all.List(-5, 1); err != nil || len(list) != 1 || list[0].RetriedAt == "" {
		t.Errorf("%+v, %v; want a retried one", list, err)
	}
	if n, err := all.ClearRetried(); n != 3 || err != nil {
		t.Errorf("cleared %d, %v; want 3", n, err)
	}
	if err := all.Remove(list[3]); err != nil {
		t.Error(err)
	}
	if err := all.Remove(list[3]); !errors.Is(err, goworker.ErrNoFailure) {
		t.Errorf("removed twice: %v", err)
	}
	for _, err := range []error{all.Retry(goworker.Failure{}), all.Remove(goworker.Failure{Raw: f.Raw})} {
		if err == nil || !strings.Contains(err.Error(), "does not come from List") {
			t.Errorf("not listed: %v", err)
		}
	}
	if n, err := all.Count(); n != 0 || err != nil {
		t.Errorf("count %d, %v; want 0", n, err)
	}
}

// A variable that was forgotten does not make one queue's list all there are.
func TestFailuresOfNoQueue(t *testing.T) {
	t.Parallel()
	d, server := newAdminDaemon(t, goworker.WorkerSettings{})
	server.Do(t, "RPUSH", "resque:failed", failureText(1, "a"))
	for _, l := range []*goworker.FailureList{d.Failures().In(""), d.Failures().In("a").In("")} {
		for what, ask := range map[string]func() error{
			"Clear":        l.Clear,
			"Count":        func() error { _, err := l.Count(); return err },
			"List":         func() error { _, err := l.List(0, -1); return err },
			"RetryAll":     func() error { _, err := l.RetryAll(); return err },
			"ClearRetried": func() error { _, err := l.ClearRetried(); return err },
			"Get":          func() error { _, err := l.Get("x"); return err },
			"Search":       func() error { _, _, err := l.Search(goworker.FailureFilter{}, "", 1); return err },
			"Groups":       func() error { _, err := l.Groups(goworker.FailureFilter{}); return err },
			"RetryID":      func() error { _, err := l.RetryID("x"); return err },
			"RetryWhere":   func() error { _, err := l.RetryWhere(goworker.FailureFilter{}); return err },
			"RemoveID":     func() error { _, err := l.RemoveID("x"); return err },
			"RemoveWhere":  func() error { _, err := l.RemoveWhere(goworker.FailureFilter{}); return err },
		} {
			if err := ask(); err == nil || !strings.Contains(err.Error(), "has no name") {
				t.Errorf("%s: %v", what, err)
			}
		}
	}
	if n, err := d.Failures().Count(); n != 1 || err != nil {
		t.Errorf("count %d, %v; want 1", n, err)
	}
}

func TestFailureListOfEachQueue(t *testing.T) {
	t.Parallel()
	d, server := newAdminDaemon(t, goworker.WorkerSettings{FailureBackend: goworker.FailureRedisMultiQueue})
	for i, list := range []string{"a_failed", "b_failed", "b_failed", "failed"} {
		server.Do(t, "RPUSH", "resque:"+list, failureText(i, list[:1]))
	}
	server.Do(t, "SADD", "resque:failed_queues", "a_failed", "b_failed")
	all, b := d.Failures(), d.Failures().In("b")
	if n, err := all.Count(); n != 4 || err != nil {
		t.Errorf("count %d, %v; want 4", n, err)
	}
	if n, err := b.Count(); n != 2 || err != nil {
		t.Errorf("count of b %d, %v; want 2", n, err)
	}
	if i, err := d.Info(); i.Failed != 4 || err != nil {
		t.Errorf("info: failed %d, %v; want 4", i.Failed, err)
	}
	list, err := all.List(1, 2)
	if err != nil || len(list) != 2 || list[0].Queue != "b" || list[1].Queue != "b" {
		t.Fatalf("%+v, %v; want both of b", list, err)
	}
	if err := all.Retry(list[1]); err != nil {
		t.Error(err)
	}
	if n, err := b.RetryAll(); n != 1 || err != nil {
		t.Errorf("retried %d of b, %v; want 1", n, err)
	}
	if got, want := server.List(t, "LRANGE", "resque:queue:b", 0, -1), []string{`{"class":"J","args":[2],"id":"x"}`, `{"class":"J","args":[1],"id":"x"}`}; !slices.Equal(got, want) {
		t.Errorf("queue b %q; want %q", got, want)
	}
	if n, err := all.RetryAll(); n != 2 || err != nil {
		t.Errorf("retried %d of all, %v; want 2", n, err)
	}
	if n, err := b.ClearRetried(); n != 2 || err != nil {
		t.Errorf("cleared %d of b, %v; want 2", n, err)
	}
	if err := all.Clear(); err != nil {
		t.Error(err)
	}
	if n, err := all.Count(); n != 0 || err != nil {
		t.Errorf("count %d, %v; want 0", n, err)
	}
	server.Do(t, "SET", "resque:failed_queues", "x")
	if err := all.Clear(); err == nil {
		t.Error("failed_queues of another type: no error")
	}
}
