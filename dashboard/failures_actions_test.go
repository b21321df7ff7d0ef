package dashboard_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/dashboard/internal/dashtest"
	"github.com/goworker/goworker/dashboard/internal/live"
	"github.com/goworker/goworker/dashboard/internal/mask"
	"github.com/goworker/goworker/dashboard/internal/site"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

// outcome is what an action answers as JSON.
type outcome struct {
	Said          string
	Done, Missing int64
	Operation     string
	Undo          bool
	Data          json.RawMessage
}

// act does an action over JSON.
func (d *desk) act(path, user, body string) dashtest.Answer {
	d.Helper()
	return d.Do(http.MethodPost, "/api/v1"+path, user, "application/json", body)
}

// jobs are the jobs that wait in a queue.
func (d *desk) jobs(queue string) []string {
	d.Helper()
	return d.redis.List(d, "LRANGE", "resque:queue:"+queue, 0, -1)
}

// each returns the failures by their class.
func (d *desk) each() map[string]failureRow {
	d.Helper()
	all := make(map[string]failureRow)
	for _, f := range d.failures("by", "each").Failures {
		all[f.Class] = f
	}
	return all
}

// ended waits until an operation has ended.
func (d *desk) ended(id string) (op inspect.Operation) {
	d.Helper()
	redistest.Eventually(d, 5*time.Minute, "the operation ends", func() bool {
		var err error
		if op, err = d.Client.Inspect().Operations().Get(d.Context(), id); err != nil {
			d.Fatal(err)
		}
		return op.State == inspect.OperationDone || op.State == inspect.OperationStopped
	})
	return op
}

func (d *desk) audited() string {
	d.Helper()
	all, err := d.Client.Inspect().Audit(d.Context(), 100)
	if err != nil {
		d.Fatal(err)
	}
	var lines []string
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("%s %s: %s %s", e.Face, e.Who, e.What, e.On))
	}
	return strings.Join(lines, "\n")
}

// One of three groups is retried, after a page that says what would be done, and taken back.
func TestFailureGroupRetried(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 4 {
		for _, class := range []string{"A", "B", "C"} {
			d.fail(failure{class: class, args: fmt.Sprint("[", n, "]")})
		}
	}
	before := d.redis.List(t, "LRANGE", "resque:failed", 0, -1)
	b := d.failures("q", "class:B").Groups[0].ID
	path := "/failures/groups/" + b + "/retry"
	if a := d.Post(path, ""); a.Status != http.StatusOK || !strings.Contains(a.Body, "Retry: 4 jobs") || len(d.jobs("mail")) != 0 {
		t.Fatal(a.Status, a.Body)
	}
	if out := decoded[outcome](d, d.act(path, "", `{"dry_run":true}`)); out.Said != "4 jobs would be retried." || len(d.jobs("mail")) != 0 {
		t.Error(out)
	}
	if a := d.act(path, "", `{"expect":9}`); a.Status != http.StatusConflict {
		t.Error(a.Status, a.Body)
	}
	out := decoded[outcome](d, d.act(path, "ann operator", `{"why":"mended","expect":4}`))
	if op := d.ended(out.Operation); op.Done != 4 || op.Who != "ann" || op.Reason != "mended" {
		t.Errorf("%+v", op)
	}
	if jobs := d.jobs("mail"); len(jobs) != 4 || strings.Count(strings.Join(jobs, ""), `"B"`) != 4 {
		t.Error(jobs)
	}
	if text := d.audited(); !strings.Contains(text, "dashboard ann: Operations.retry") {
		t.Error(text)
	}
	for _, err := range d.Client.Inspect().Operations().Undo(t.Context(), out.Operation) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if after := d.redis.List(t, "LRANGE", "resque:failed", 0, -1); !slices.Equal(before, after) || len(d.jobs("mail")) != 0 {
		t.Errorf("after undo: %q", after)
	}
	// Removal is the admin's, and all of it is in the bin.
	path = "/failures/groups/" + b + "/remove"
	if a := d.act(path, "ann operator", `{}`); a.Status != http.StatusForbidden {
		t.Error(a.Status)
	}
	out = decoded[outcome](d, d.act(path, "", `{}`))
	if op := d.ended(out.Operation); op.Done != 4 || op.Binned != 4 || d.redis.Int(t, "LLEN", "resque:failed") != 8 {
		t.Errorf("%+v", op)
	}
}

// An operation of many failures is paced, and goes on with another dashboard when the first one stops: each job runs once.
func TestFailuresRetriedAcrossDashboards(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const many = 2000 // a hundred seconds at this pace, however late the page is
	d.redis.Do(t, "EVAL", `for n = 1, ARGV[1] do redis.call('RPUSH', 'resque:failed', (ARGV[2]:gsub('NUMBER', n))) end`, 0, many, failure{class: "Many", args: "[NUMBER]"}.record())
	out := decoded[outcome](d, d.act("/failures/retry", "", `{"all":true,"filter":"class:Many","pace":20}`))
	redistest.Eventually(t, time.Minute, "some are retried", func() bool { return d.redis.Int(t, "LLEN", "resque:queue:mail") > 0 })
	if p := d.Get("/failures", ""); !strings.Contains(p.Body, "Retrying") {
		t.Errorf("the page does not say that an operation runs: %s", p.Body)
	}
	if err := d.Server.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("the first dashboard stopped after %d", d.redis.Int(t, "LLEN", "resque:queue:mail"))
	key := "resque:go:operation:" + out.Operation
	fast := strings.Replace(d.redis.Text(t, "HGET", key, "plan"), `"Pace":20,`, `"Pace":0,`, 1)
	d.redis.Do(t, "HSET", key, "plan", fast) // the test does not wait for the other steps
	next := site.NewFleet("main", d.Client, nil, mask.New(mask.Rules{}), live.Settings{Log: slog.New(slog.DiscardHandler)})
	defer next.Close(context.Background()) //nolint:errcheck // nothing streams
	next.RunOn("bob", out.Operation)
	if op := d.ended(out.Operation); op.State != inspect.OperationDone || op.Done != many {
		t.Errorf("%+v", op)
	}
	jobs := d.jobs("mail")
	slices.Sort(jobs)
	if len(slices.Compact(jobs)) != many || d.redis.Int(t, "LLEN", "resque:queue:mail") != many {
		t.Errorf("%d jobs, %d different ones", d.redis.Int(t, "LLEN", "resque:queue:mail"), len(slices.Compact(jobs)))
	}
}

// The brake stops a retry whose jobs fail again.
func TestFailuresBrake(t *testing.T) {
	t.Parallel()
	d := setup(t)
	const many = 3000 // two minutes at this pace, which leaves a late worker time to let a fifth of them fail
	for n := range many {
		d.fail(failure{class: "Bad", args: fmt.Sprint("[", n, "]")})
	}
	stop, gone := make(chan struct{}), make(chan struct{})
	c := d.redis.Dial(t)
	go func() { // a worker whose jobs all fail
		defer close(gone)
		for {
			select {
			case <-stop:
				return
			default:
			}
			reply, err := redis.ByteSlices(c.Do("BLPOP", "resque:queue:mail", 1))
			if err == nil {
				_, err = c.Do("RPUSH", "resque:failed", fmt.Sprintf(`{"failed_at":"2026/11/27 10:00:00 UTC","payload":%s,"exception":"E","error":"again","backtrace":[],"worker":"w","queue":"mail"}`, reply[1]))
			}
			if err != nil && err != redis.ErrNil {
				return
			}
		}
	}()
	defer func() { close(stop); <-gone }()
	out := decoded[outcome](d, d.act("/failures/retry", "", `{"all":true,"filter":"class:Bad until:0s","pace":25}`))
	if op := d.ended(out.Operation); op.State != inspect.OperationStopped || !strings.HasPrefix(op.Why, "brake:") || op.Done >= many {
		t.Errorf("%+v", op)
	}
	redistest.Eventually(t, time.Minute, "the page says why it stopped", func() bool { return strings.Contains(d.Get("/failures", "").Body, "have failed again, more than 20 %") })
}

// Two people who retry one failure make one job. A second time it is said that it was retried, and once more is a button of its own.
func TestFailureRetriedOnce(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fail(failure{class: "A", args: `[9007199254740993]`}, failure{class: "Other"})
	id := d.each()["A"].ID
	var all sync.WaitGroup
	var mu sync.Mutex
	made := 0
	for n := range 6 {
		all.Go(func() {
			a := d.act("/failures/"+id+"/retry", fmt.Sprintf("user%d operator", n), `{}`)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case a.Status == http.StatusOK:
				made++
			case a.Status != http.StatusConflict || !strings.Contains(a.Body, "again"):
				t.Error(a.Status, a.Body)
			}
		})
	}
	all.Wait()
	if jobs := d.jobs("mail"); made != 1 || len(jobs) != 1 || jobs[0] != `{"class":"A","args":[9007199254740993]}` {
		t.Fatalf("%d retries, jobs %q", made, jobs)
	}
	a := d.Post("/failures/"+id+"/retry", "", "back", "/failures")
	if a.Status != http.StatusSeeOther || a.Header.Get("Location") != "/failures/"+id {
		t.Error(a.Status, a.Header)
	}
	page := d.Get("/failures/"+id, "")
	if !strings.Contains(page.Body, "Run once more") || !strings.Contains(page.Body, "/failures/"+id+"/again") {
		t.Error(page.Body)
	}
	retried := decoded[failureRow](d, d.Get("/api/v1/failures/"+id, "")).RetriedAt
	again := fmt.Sprintf(`{"retried_at":%q}`, retried)
	if a := d.act("/failures/"+id+"/again", "", `{}`); a.Status != http.StatusConflict {
		t.Error(a.Status, a.Body)
	}
	time.Sleep(time.Until(time.Now().Truncate(time.Second).Add(time.Second))) // retried_at has whole seconds
	if a := d.act("/failures/"+id+"/again", "ann operator", again); a.Status != http.StatusOK || len(d.jobs("mail")) != 2 {
		t.Error(a.Status, a.Body)
	}
	if a := d.act("/failures/"+id+"/again", "", again); a.Status != http.StatusConflict || len(d.jobs("mail")) != 2 {
		t.Error(a.Status, a.Body)
	}
	if f := d.each()["Other"]; f.RetriedAt != "" {
		t.Error("another failure was retried")
	}
}

// A record that resque-web removes between the list and the click hurts no other: it removes by place, and ids stay.
func TestFailureRemovedMeanwhile(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fail(failure{class: "A"}, failure{class: "B"}, failure{class: "C"}, failure{class: "D"})
	listed := d.each()
	d.redis.Do(t, "LSET", "resque:failed", 1, "") // as Ruby removes by place
	d.redis.Do(t, "LREM", "resque:failed", 1, "")
	for _, path := range []string{"retry", "remove", "edit", "again"} {
		if a := d.act("/failures/"+listed["B"].ID+"/"+path, "", `{}`); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if a := d.Get("/failures/"+listed["B"].ID, ""); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "removed") {
		t.Error(a.Status, a.Body)
	}
	if out := decoded[outcome](d, d.act("/failures/retry", "", fmt.Sprintf(`{"ids":[%q,%q]}`, listed["B"].ID, listed["C"].ID))); out.Done != 1 || out.Missing != 1 || !out.Undo {
		t.Errorf("%+v", out)
	}
	if jobs := d.jobs("mail"); len(jobs) != 1 || !strings.Contains(jobs[0], `"C"`) {
		t.Error(jobs)
	}
	out := decoded[outcome](d, d.act("/failures/"+listed["D"].ID+"/remove", "", `{}`))
	if left := d.each(); out.Done != 1 || !out.Undo || len(left) != 2 || left["A"].ID == "" || left["C"].RetriedAt == "" {
		t.Errorf("%+v, left %+v", out, left)
	}
	if a := d.Post("/failures/remove", "", "ids", listed["A"].ID, "ids", listed["A"].ID, "back", "/failures?by=each"); a.Status != http.StatusSeeOther || len(d.each()) != 1 {
		t.Error(a.Status, a.Body)
	}
}

// A removal of more than a hundred wants the number typed, also where the form was made by hand.
func TestFailuresRemovedTyped(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 120 {
		d.fail(failure{class: "A", args: fmt.Sprint("[", n, "]")}, failure{class: "B", queue: "low"})
	}
	d.Post("/failures/remove", "", "all", "1", "filter", "queue:mail", "go", "1", "confirm", "119")
	if n := d.redis.Int(t, "LLEN", "resque:failed"); n != 240 {
		t.Fatalf("%d are left", n)
	}
	if a := d.Post("/failures/remove", "", "all", "1", "filter", "queue:mail", "go", "1", "confirm", "120"); a.Status != http.StatusSeeOther {
		t.Error(a.Status, a.Body)
	}
	redistest.Eventually(t, time.Minute, "the removal ends", func() bool { return d.redis.Int(t, "LLEN", "resque:failed") == 120 })
	if p := d.failures("by", "each", "q", "queue:mail"); len(p.Failures) != 0 {
		t.Error(p.names())
	}
}

// An edit keeps what is masked and was not touched, and numbers exactly. The record stays, as retried.
func TestFailureEdited(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fail(failure{class: "Pay", args: `[{"password":"hunter2hunter2","order":9007199254740993},1.50]`})
	id := d.each()["Pay"].ID
	form := d.Get("/failures/"+id+"?edit=1", "")
	if strings.Contains(form.Body, "hunter2") || !strings.Contains(form.Body, "9007199254740993") || !strings.Contains(form.Body, mask.Mark) {
		t.Error(form.Body)
	}
	if a := d.Get("/failures/"+id+"?edit=1", "ann operator"); strings.Contains(a.Body, "<textarea") {
		t.Error("an operator gets the form")
	}
	for body, want := range map[string]int{
		`{"args":"no JSON"}`: 400, `{"args":["` + mask.Mark + `"]}`: 400, `{"args":{"a":1}}`: 400, `{"queue":""}`: 200,
	} {
		a := d.act("/failures/"+id+"/edit", "", strings.Replace(body, "{", `{"dry_run":true,`, 1))
		if a.Status != want {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}
	if a := d.act("/failures/"+id+"/edit", "ann operator", `{}`); a.Status != http.StatusForbidden {
		t.Error(a.Status)
	}
	a := d.Post("/failures/"+id+"/edit", "", "retried_at", "", "queue", "low", "class", "Pay2", "args", `[ {"password": "`+mask.Mark+`", "order": 9007199254740995}, 1.50 ]`, "back", "/failures/"+id)
	if a.Status != http.StatusSeeOther {
		t.Fatal(a.Status, a.Body)
	}
	if jobs := d.jobs("low"); len(jobs) != 1 || jobs[0] != `{"class":"Pay2","args":[{"password":"hunter2hunter2","order":9007199254740995},1.50]}` {
		t.Error(jobs)
	}
	if f := d.each()["Pay"]; f.RetriedAt == "" {
		t.Error("the record is not marked as retried")
	}
	if a := d.act("/failures/"+id+"/edit", "", `{"args":[2]}`); a.Status != http.StatusConflict || len(d.jobs("mail")) != 0 {
		t.Error(a.Status, a.Body) // it was retried since the form was made
	}
	if text := d.audited(); strings.Contains(text, "hunter2") || !strings.Contains(text, "dashboard ops: Edit") {
		t.Error(text)
	}
}

// A user who sees some queues only learns of no other failure, and changes none.
func TestFailuresOfSomeQueues(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 3 {
		d.fail(failure{class: "Mine", args: fmt.Sprint("[", n, "]")}, failure{class: "Theirs", queue: "billing", args: fmt.Sprint("[", n, "]")}, failure{class: "Both"}, failure{class: "Both", queue: "billing"})
	}
	all, theirs := d.failures().Groups, d.each()["Theirs"]
	const user = "mia admin mail"
	for _, path := range []string{"/failures", "/failures?by=each", "/failures?q=queue:billing", "/failures?by=each&q=queue:billing", "/failures/export"} {
		for _, prefix := range []string{"", "/api/v1"} {
			a := d.Get(prefix+path, user)
			if a.Status != http.StatusOK || strings.Contains(a.Body, "Theirs") || strings.Contains(a.Body, `"of":12`) {
				t.Errorf("%s%s: %d %s", prefix, path, a.Status, a.Body)
			}
		}
	}
	if p := decoded[failuresPage](d, d.Get("/api/v1/failures?q=class:Theirs", user)); p.Fit != 0 || p.Groups != nil {
		t.Errorf("%+v", p)
	}
	p := decoded[failuresPage](d, d.Get("/api/v1/failures?sort=count", user))
	if p.Fit != 6 || len(p.Groups) != 2 || p.Groups[0].Count != 3 || p.Groups[1].Count != 3 {
		t.Errorf("%+v", p)
	}
	for _, g := range all {
		path := "/failures/groups/" + g.ID
		if a := d.Get(path, user); g.Class == "Theirs" && a.Status != http.StatusNotFound || strings.Contains(a.Body, "billing") {
			t.Errorf("%s: %d %s", g.Class, a.Status, a.Body)
		}
		if a := d.act(path+"/retry", user, `{"queue":"billing"}`); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", g.Class, a.Status, a.Body)
		}
		if g.Class == "Both" {
			out := decoded[outcome](d, d.act(path+"/retry", user, `{}`))
			d.ended(out.Operation)
		}
	}
	for _, path := range []string{"", "/retry", "/remove", "/edit", "/again"} {
		a := d.Get("/failures/"+theirs.ID, user)
		if path != "" {
			a = d.act("/failures/"+theirs.ID+path, user, `{}`)
		}
		if a.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	if out := decoded[outcome](d, d.act("/failures/retry", user, fmt.Sprintf(`{"ids":[%q]}`, theirs.ID))); out.Done != 0 {
		t.Errorf("%+v", out)
	}
	if a := d.act("/failures/retry", user, `{"all":true}`); a.Status != http.StatusForbidden {
		t.Error(a.Status, a.Body)
	}
	for _, filter := range []string{"queue:billing", "queue:m*", "class:Theirs"} {
		if a := d.act("/failures/retry", user, fmt.Sprintf(`{"all":true,"filter":%q}`, filter)); a.Status != http.StatusForbidden {
			t.Errorf("%s: %d %s", filter, a.Status, a.Body)
		}
	}
	if a := d.act("/failures/"+d.each()["Mine"].ID+"/edit", user, `{"queue":"billing"}`); a.Status != http.StatusForbidden {
		t.Error(a.Status, a.Body)
	}
	if n := len(d.jobs("billing")); n != 0 || len(d.jobs("mail")) != 3 {
		t.Errorf("%d jobs of billing, %d of mail", n, len(d.jobs("mail")))
	}
}

// User.Can decides about each action by what it is of.
func TestFailuresByPermission(t *testing.T) {
	t.Parallel()
	d := setup(t, func(o *dashboard.Options) {
		o.User = func(*http.Request) (dashboard.User, error) {
			return dashboard.User{Name: "can", Can: func(action string, on dashboard.Target) bool {
				return action == "failure.retry" && on.Class != "Locked" || action == "look"
			}}, nil
		}
	})
	d.fail(failure{class: "Locked"}, failure{class: "Free"})
	all := d.each()
	if a := d.act("/failures/"+all["Locked"].ID+"/retry", "", `{}`); a.Status != http.StatusForbidden {
		t.Error(a.Status, a.Body)
	}
	if a := d.Get("/failures/"+all["Locked"].ID, ""); strings.Contains(a.Body, "/retry\"") || strings.Contains(a.Body, "/remove\"") {
		t.Error("it has a button that does nothing")
	}
	if a := d.act("/failures/"+all["Free"].ID+"/retry", "", `{}`); a.Status != http.StatusOK || len(d.jobs("mail")) != 1 {
		t.Error(a.Status, a.Body)
	}
}

// An export has each failure that fits once, and goes on where it was cut.
func TestFailuresExported(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 450 {
		d.fail(failure{class: []string{"A", "B"}[n%2], args: fmt.Sprint("[", n, "]")})
	}
	seen, after, answers := make(map[string]bool), "", 0
	for answers == 0 || after != "" {
		a := d.Get("/failures/export?q=class:A&limit=100&after="+after, "")
		if a.Status != http.StatusOK || a.Header.Get("Content-Type") != "application/x-ndjson" {
			t.Fatal(a.Status, a.Body)
		}
		after, answers = "", answers+1
		for line := range strings.SplitSeq(strings.TrimSpace(a.Body), "\n") {
			var one struct {
				ID, Next string
				Record   struct{ Payload struct{ Class string } }
			}
			if err := json.Unmarshal([]byte(line), &one); err != nil {
				t.Fatal(err)
			}
			if after = one.Next; one.ID != "" {
				seen[one.ID] = one.Record.Payload.Class == "A"
			}
		}
	}
	if len(seen) != 225 || answers != 3 {
		t.Errorf("%d failures in %d answers", len(seen), answers)
	}
	for _, query := range []string{"q=nope:x", "limit=0", "limit=100001", "after=x"} {
		if a := d.Get("/failures/export?"+query, ""); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, a.Status, a.Body)
		}
	}
}
