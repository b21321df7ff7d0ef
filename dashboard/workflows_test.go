package dashboard_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// works runs a daemon that works the queue work, with four workers.
func (d *desk) works(register func(*goworker.Daemon), change ...func(*goworker.WorkerSettings)) *goworker.Daemon {
	d.Helper()
	s := goworker.WorkerSettings{URI: d.redis.URI(), QueuesString: "work", Concurrency: 4, PollInterval: time.Minute, Logger: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&s)
	}
	daemon := goworker.New(s)
	register(daemon)
	ctx, stop := context.WithCancel(context.Background())
	over := make(chan error, 1)
	go func() { over <- daemon.Run(ctx) }()
	d.Cleanup(func() {
		stop()
		if err := <-over; err != nil {
			d.Error(err)
		}
		daemon.Close()
	})
	return daemon
}

// start starts a workflow.
func (d *desk) start(n *goworker.Node, opts ...goworker.WorkflowOption) string {
	d.Helper()
	r, err := d.Client.Start(d.Context(), n, opts...)
	if err != nil {
		d.Fatal(err)
	}
	return r.ID
}

func step(class string, args ...any) *goworker.Node {
	return goworker.Step(goworker.NewJob("work", class, args...))
}

// flow is what the tests read of the JSON of a workflow.
type flow struct {
	State, Stalled string
	Steps          flowCounts
	Groups         []struct {
		Name, Class string
		Steps       flowCounts
		After       []int
	}
	Shown []struct {
		ID, Name, State, Error string
		Number                 int
		Args                   []any
		Since                  *time.Time `json:"outside_since"`
	} `json:"steps_shown"`
	Failure *struct{ Error string }
	Result  any
	Next    string
}

type flowCounts struct{ All, Waiting, Sent, Outside, Done, Failed, Not_run int }

func (d *desk) flow(id string, query ...string) flow {
	d.Helper()
	return decoded[flow](d, d.Get("/api/v1/workflows/"+id+strings.Join(query, ""), ""))
}

// graph is the graph of a workflow as lines: "Class ×2 after 0,1".
func (f flow) graph() (lines []string) {
	for n, g := range f.Groups {
		line := fmt.Sprintf("%d %s", n, g.Class)
		if g.Name != "" {
			line += " " + g.Name
		}
		if g.Steps.All > 1 {
			line += fmt.Sprintf(" ×%d", g.Steps.All)
		}
		if len(g.After) > 0 {
			line += fmt.Sprint(" after ", g.After)
		}
		lines = append(lines, line)
	}
	return lines
}

// A workflow of groups, a chord and a failed step is drawn, retried, skipped and cancelled.
func TestWorkflow(t *testing.T) {
	t.Parallel()
	d := setup(t)
	var broken atomic.Bool
	broken.Store(true)
	d.works(func(w *goworker.Daemon) {
		w.Register("Fetch", func(string, map[string]any) (string, error) { return "s3://x", nil })
		w.Register("Resize", func(n int, _ ...any) (int, error) { return n, nil })
		w.Register("Price", func(n int, _ ...any) error {
			if n == 2 && broken.Load() {
				return errors.New("no price, password=hunter2")
			}
			return nil
		})
		w.Register("Index", func(...any) (string, error) { return "done", nil })
	})
	many := func(class string, n int) *goworker.Node {
		var all []*goworker.Node
		for i := range n {
			all = append(all, step(class, i))
		}
		return goworker.Group(all...)
	}
	id := d.start(goworker.Chain(step("Fetch", "<script>", map[string]any{"token": "s3cr3t", "n": 9007199254740993}), goworker.Group(goworker.Chord(many("Resize", 60), step("Index")), many("Price", 5)), step("Index")),
		goworker.WorkflowName("<b>import"), goworker.WithMeta(map[string]string{"tenant": "acme", "token": "s3cr3t"}))
	redistest.Eventually(t, time.Minute, "the workflow fails", func() bool { return d.flow(id).State == "failed" })
	f := d.flow(id)
	want := []string{"0 Fetch", "1 Resize ×60 after [0]", "2 Price ×5 after [0]", "3 Index after [2 4]", "4 Index after [1]"}
	if diff := cmp.Diff(want, f.graph()); diff != "" {
		t.Error(diff)
	}
	if f.Failure == nil || !strings.Contains(f.Failure.Error, "no price") || len(f.Shown) != 50 || f.Next == "" {
		t.Errorf("%+v", f)
	}
	if next := d.flow(id, "?after=", f.Next); len(next.Shown) != 18 || next.Next != "" {
		t.Errorf("the second page has %d steps, and then %q", len(next.Shown), next.Next)
	}
	if failed := d.flow(id, "?state=failed"); len(failed.Shown) != 1 || failed.Shown[0].State != "failed" {
		t.Errorf("%+v", failed.Shown)
	}
	if of := d.flow(id, "?step=61"); len(of.Shown) != 5 {
		t.Errorf("steps of the group: %+v", of.Shown)
	}
	for _, path := range []string{"/workflows", "/workflows/" + id, "/workflows?q=imp&state=failed", "/workflows?q=meta.tenant:acme", "/api/v1/workflows/" + id} {
		a := d.Get(path, "")
		if a.Status != 200 || strings.Contains(a.Body, "hunter2") || strings.Contains(a.Body, "s3cr3t") || strings.Contains(a.Body, "<b>import") || strings.Contains(a.Body, "<script>") {
			t.Errorf("%s: %d", path, a.Status)
		}
		if strings.Contains(path, "?q=") && !strings.Contains(a.Body, id) {
			t.Errorf("%s does not have the workflow", path)
		}
	}
	if a := d.Get("/api/v1/workflows/"+id, ""); !strings.Contains(a.Body, "9007199254740993") {
		t.Error("a number was rounded")
	}
	for path, status := range map[string]int{
		"/workflows/nosuch": 404, "/workflows?q=a+b": 400, "/workflows?q=meta.token:s3cr3t": 400, "/workflows?after=x": 400, "/workflows/" + id + "?after=x": 400, "/workflows?q=nothing": 200,
	} {
		if a := d.Get(path, ""); a.Status != status {
			t.Errorf("%s: %d", path, a.Status)
		}
	}

	// What is done with it, and by whom.
	base := "/workflows/" + id
	if a := d.Post(base+"/retry", "eve viewer"); a.Status != http.StatusForbidden {
		t.Errorf("a viewer: %d", a.Status)
	}
	if a := d.Post(base+"/skip", "olga operator", "step", "62"); a.Status != http.StatusForbidden {
		t.Errorf("an operator skips: %d", a.Status)
	}
	if a := d.Get(base+"/retry", ""); a.Status != http.StatusMethodNotAllowed {
		t.Errorf("GET: %d", a.Status)
	}
	if a := d.Post(base+"/pause", "olga operator"); a.Status != http.StatusSeeOther {
		t.Errorf("pause: %d %s", a.Status, a.Body)
	}
	if a := d.Post(base+"/resume", "olga operator"); a.Status != http.StatusSeeOther {
		t.Errorf("resume: %d %s", a.Status, a.Body)
	}
	if a := d.Post(base+"/skip", "", "step", "0"); a.Status != http.StatusConflict {
		t.Errorf("a step that is done is skipped: %d", a.Status)
	}
	failed := d.flow(id, "?state=failed").Shown[0].ID
	if a := d.Post(base+"/skip", "ann admin", "step", failed, "why", "no price for it"); a.Status != http.StatusSeeOther {
		t.Errorf("skip: %d %s", a.Status, a.Body)
	}
	if a := d.Post(base+"/skip", "ann admin", "step", failed); a.Status != http.StatusConflict {
		t.Errorf("it is skipped twice: %d", a.Status)
	}
	d.Post(base+"/retry", "olga operator") // what was not run; there may be nothing
	redistest.Eventually(t, time.Minute, "the workflow is done", func() bool { return d.flow(id).State == "done" })
	if a := d.Post(base+"/cancel", ""); a.Status != http.StatusConflict {
		t.Errorf("it is cancelled although it is done: %d", a.Status)
	}
	log := d.audited()
	for _, part := range []string{"dashboard ann: Workflows.Skip", "dashboard olga: Workflows.Pause", "dashboard olga: Workflows.Resume"} {
		if !strings.Contains(log, part) {
			t.Errorf("the audit has no %q: %s", part, log)
		}
	}
	if a := d.Post(base+"/forget", "", "confirm", "x"); a.Status != http.StatusBadRequest {
		t.Errorf("forgotten without its id: %d", a.Status)
	}
	if a := d.Post(base+"/forget", "", "confirm", id); a.Status != http.StatusSeeOther || d.Get(base, "").Status != 404 {
		t.Errorf("forget: %d %s", a.Status, a.Body)
	}
}

// A step that ends outside says since when; it is marked as done, and a workflow that waits is cancelled and retried.
func TestWorkflowOutside(t *testing.T) {
	t.Parallel()
	d := setup(t)
	id := d.start(goworker.Chain(goworker.Step(goworker.NewJob("ruby", "Ask"), goworker.External(time.Hour), goworker.Named("ask")), goworker.Step(goworker.NewJob("ruby", "Tell"), goworker.Named("tell"))))
	f := d.flow(id)
	if diff := cmp.Diff([]string{"0 Ask ask", "1 Tell tell after [0]"}, f.graph()); diff != "" {
		t.Error(diff)
	}
	if s := f.Shown[0]; s.State != "outside" || s.Since == nil || time.Since(*s.Since) > time.Minute || time.Since(*s.Since) < -time.Minute {
		t.Errorf("%+v", s)
	}
	_, token, _ := strings.Cut(d.jobs("ruby")[0], id+".0.")
	token, _, _ = strings.Cut(token, `"`)
	for _, path := range []string{"/workflows/" + id, "/api/v1/workflows/" + id} {
		if a := d.Get(path, ""); !strings.Contains(a.Body, "outside") || token == "" || strings.Contains(a.Body, token) {
			t.Errorf("%s: it does not say that the step waits outside, or tells its token", path)
		}
	}
	base := "/workflows/" + id
	if a := d.act(base+"/done", "", `{"step":"ask","result":"{\"n\":9007199254740993}"}`); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if f := d.flow(id); f.Shown[0].State != "done" || f.Shown[1].State != "sent" {
		t.Errorf("%+v", f.Shown)
	}
	if a := d.Get("/api/v1/workflows/"+id, ""); !strings.Contains(a.Body, `"result":{"n":9007199254740993}`) {
		t.Errorf("the result is not shown: %s", a.Body)
	}
	if a := d.act(base+"/done", "", `{"step":"tell","result":"{x"}`); a.Status != 400 {
		t.Errorf("no JSON: %d", a.Status)
	}
	if a := d.act(base+"/cancel", "", `{}`); a.Status != 200 || d.flow(id).State != "cancelled" {
		t.Errorf("cancel: %d %s", a.Status, a.Body)
	}
	if a := d.Get("/workflows/"+id, "eve viewer"); a.Status != 200 || strings.Contains(a.Body, "/retry") {
		t.Errorf("a viewer sees a button: %d", a.Status)
	}
}

// Names and arguments of any kind do no harm, and a page has a part of large arguments only.
func TestWorkflowHostile(t *testing.T) {
	t.Parallel()
	d := setup(t)
	id := d.start(goworker.Chain(goworker.Step(goworker.NewJob("../x", "a/b?c%d<i>", strings.Repeat("x", 1<<19), "\x00\x1b[31m"), goworker.Named("../<b>")), goworker.Step(goworker.NewJob("a/b?c%d", "B"))),
		goworker.WorkflowName("</title><script>"), goworker.WithMeta(map[string]string{"<i>": "<script>"}))
	for _, path := range []string{"/workflows", "/workflows/" + id, "/workflows/" + id + "?step=0", "/api/v1/workflows/" + id} {
		a := d.Get(path, "")
		if a.Status != 200 || len(a.Body) > 200_000 || strings.Contains(a.Body, "<i>") || strings.Contains(a.Body, "<script>") || strings.ContainsAny(a.Body, "\x00\x1b") {
			t.Errorf("%s: %d, %d bytes", path, a.Status, len(a.Body))
		}
	}
	if a := d.Get("/workflows/"+id, "eve viewer ../x a/b*"); a.Status != 200 {
		t.Errorf("of its queues: %d", a.Status)
	}
	if a := d.act("/workflows/"+id+"/done", "", `{"step":"../<b>"}`); a.Status != 200 {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	d.redis.Do(t, "SET", "resque:go:workflows", "x")
	if a := d.Get("/workflows", ""); a.Status < 400 || !strings.Contains(a.Body, "go:workflows") {
		t.Errorf("a key of another type: %d", a.Status)
	}
}

// A user of some queues sees the workflows that are all in these.
func TestWorkflowsOfSomeQueues(t *testing.T) {
	t.Parallel()
	d := setup(t)
	in := func(queues ...string) string {
		var all []*goworker.Node
		for _, queue := range queues {
			all = append(all, goworker.Step(goworker.NewJob(queue, "A")))
		}
		return d.start(goworker.Chain(all...))
	}
	mine, both := in("mail", "mail"), in("mail", "money")
	const user = "mia admin mail"
	if a := d.Get("/api/v1/workflows", user); !strings.Contains(a.Body, mine) || strings.Contains(a.Body, both) {
		t.Errorf("%s", a.Body)
	}
	if a, b := d.Get("/workflows/"+mine, user), d.Get("/workflows/"+both, user); a.Status != 200 || b.Status != 404 || strings.Contains(b.Body, "money") {
		t.Errorf("%d and %d", a.Status, b.Status)
	}
	if a := d.Post("/workflows/"+both+"/cancel", user); a.Status != 404 || d.flow(both).State != "running" {
		t.Errorf("it was cancelled: %d", a.Status)
	}
}
