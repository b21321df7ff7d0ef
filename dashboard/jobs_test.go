package dashboard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

const (
	exact  = "9007199254740993"
	secret = "hunter2-is-secret"
)

// daemon runs a daemon of one class, Deliver, until the test calls stop. Its first run of a job fails with the secret in its error.
func (d *desk) daemon(queue string) (stop func()) {
	d.Helper()
	w := goworker.New(goworker.WorkerSettings{URI: d.redis.URI(), QueuesString: queue, Concurrency: 2, PollInterval: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	w.Register("Deliver", func(ctx context.Context, job map[string]any) error {
		goworker.Logger(ctx).Info("posting with "+secret, "password", "x1y2z3", "to", secret)
		return errors.New("503 for " + secret)
	}, goworker.Retry(3, goworker.Delays{time.Hour}))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	stop = func() {
		cancel()
		if err := <-ended; err != nil && !errors.Is(err, context.Canceled) {
			d.Error(err)
		}
		w.Close()
	}
	return stop
}

func (d *desk) push(queue, class string, opts []goworker.EnqueueOption, args ...any) string {
	d.Helper()
	r, err := d.Client.Enqueue(d.Context(), &goworker.Job{Queue: queue, Payload: goworker.Payload{Class: class, Args: args}}, opts...)
	if err != nil {
		d.Fatal(err)
	}
	return r.ID
}

// api is the JSON of a page.
func (d *desk) api(path, user string) map[string]any {
	d.Helper()
	a := d.Get("/api/v1"+path, user)
	var v map[string]any
	if a.Status != http.StatusOK || json.Unmarshal([]byte(a.Body), &v) != nil {
		d.Fatalf("%s: %d %s", path, a.Status, a.Body)
	}
	return v
}

func (d *desk) eventually(what string, cond func() bool) {
	d.Helper()
	redistest.Eventually(d.T, time.Minute, what, cond)
}

// awaitJob asks for a job until it is found: a look for it ends after 150 ms, which on a busy machine may be too early.
func (d *desk) awaitJob(path, user string) {
	d.Helper()
	d.eventually("there is "+path, func() bool { return d.Get(path, user).Status == http.StatusOK })
}

// search returns the jobs and failures of a search that goes on to its end.
func (d *desk) search(q string) (all []any) {
	d.Helper()
	for after := ""; ; {
		v := d.api("/search?q="+q+"&after="+after, "")
		all = append(append(all, v["jobs"].([]any)...), v["failures"].([]any)...)
		if after, _ = v["next"].(string); after == "" {
			return all
		}
	}
}

// silent asks all pages, JSON and searches that concern a job, and looks for what is masked in it.
func (d *desk) silent(id string) {
	d.Helper()
	for _, path := range []string{
		"/jobs/" + id, "/api/v1/jobs/" + id, "/jobs", "/api/v1/jobs", "/search?q=" + id, "/search?q=id:" + id, "/api/v1/search?q=class:Deliver", "/search?q=class:Deliver",
		"/palette?q=" + id, "/palette?q=hunter2", "/search?q=state:delayed,failed",
	} {
		if a := d.Get(path, ""); a.Status >= 500 || strings.Contains(a.Body, secret) || strings.Contains(a.Body, "x1y2z3") {
			d.Errorf("%s: %d, and has a secret: %s", path, a.Status, a.Body)
		}
	}
	for _, q := range []string{secret, "arg.0.token:" + secret, "error:" + secret, "arg.0.token:hunter2*"} {
		if v := d.search(q); len(v) > 0 {
			d.Errorf("a search for %s finds %v", q, v)
		}
	}
}

// One job is followed from its push over a failed try and an HTTP lease to its result.
func TestJobFollowed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	args := map[string]any{"order": json.Number(exact), "token": secret}
	id := d.push("hooks", "Deliver", []goworker.EnqueueOption{goworker.WithResult(time.Hour), goworker.CaptureLogs(), goworker.Retry(3)}, args)
	is := func(state, place string) map[string]any {
		t.Helper()
		var v map[string]any
		d.eventually("the job is "+state+" in "+place, func() bool {
			v = d.api("/jobs/"+id, "")
			return v["state"] == state && (v["where"].(map[string]any)["place"] == place || place == "" && v["where"].(map[string]any)["place"] == nil)
		})
		if a := d.Get("/jobs/"+id, ""); a.Status != 200 || !strings.Contains(a.Body, ">"+state) && !strings.Contains(a.Body, " "+state) {
			t.Errorf("the page does not say %s: %d %s", state, a.Status, a.Body)
		}
		d.silent(id)
		return v
	}
	is("pending", "queued")
	if a := d.Get("/jobs/"+id, ""); !strings.Contains(a.Body, exact) || !strings.Contains(a.Body, "••••••") {
		t.Error(a.Body)
	}
	if v := d.search("arg.0.order:" + exact); len(v) != 1 {
		t.Error("the exact number is not found:", v)
	}
	if v := d.search("arg.0.order:9007199254740992"); len(v) != 0 {
		t.Error("another number is found:", v)
	}

	stop := d.daemon("hooks")
	v := is("retrying", "delayed")
	stop()
	lines := v["timeline"].([]any)
	if len(lines) != 3 || !strings.Contains(fmt.Sprint(lines[1]), "Try 1 failed") || !strings.Contains(fmt.Sprint(lines[0]), "Try 2 is due") || v["life"] == nil || v["logs"] == nil {
		t.Errorf("%v", v)
	}

	// Edited: the secret stays, and so does the number.
	ref := v["ref"].(string)
	if a := d.Post("/jobs/"+id+"/edit-run", "oda operator", "ref", ref, "args", "[]"); a.Status != http.StatusForbidden {
		t.Error("an operator edits:", a.Status)
	}
	a := d.Post("/jobs/"+id+"/edit-run", "ada admin", "ref", ref, "queue", "http", "class", "Deliver", "args", `[{"order":`+exact+`,"token":"••••••","more":1}]`, "why", "test")
	if a.Status != http.StatusSeeOther {
		t.Fatal(a.Status, a.Body)
	}
	got := d.redis.List(t, "LRANGE", "resque:queue:http", "0", "-1")
	if len(got) != 1 || !strings.Contains(got[0], `"order":`+exact) || !strings.Contains(got[0], secret) || !strings.Contains(got[0], `"more":1`) {
		t.Fatal(got)
	}
	if audit, err := d.Client.Inspect().Audit(t.Context(), 10); err != nil || len(audit) < 2 || audit[0].Who != "ada" || audit[0].Why != "test" || audit[0].Face != "dashboard" {
		t.Error(audit, err)
	}
	if a := d.Post("/api/v1/jobs/"+id+"/edit-run", "ada admin", "ref", ref, "args", "[]"); a.Status != http.StatusConflict {
		t.Error("what is seen no longer is edited:", a.Status, a.Body)
	}

	// A client of HTTP takes it, and ends it with a result.
	api, err := httpapi.New(d.Client, httpapi.Settings{Open: true, QuietAccess: true, Namespaces: map[string]httpapi.Namespace{"shop": {Bare: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(api)
	t.Cleanup(func() {
		web.Close()
		if err := api.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	send := func(path, body string) (int, string) {
		res, err := web.Client().Post(web.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, _ := io.ReadAll(res.Body)
		return res.StatusCode, string(text)
	}
	d.eventually("a client has the job", func() bool {
		status, body := send("/v2/shop/reservations", `{"queues":["http"]}`)
		return status < 300 && strings.Contains(body, id)
	})
	v = is("leased", "leased")
	if v["where"].(map[string]any)["until"] == nil {
		t.Error(v)
	}
	if status, body := send("/v2/shop/queues/http/jobs/"+id+"/ack", `{"result":{"sent":`+exact+`}}`); status != http.StatusNoContent {
		t.Fatal(status, body)
	}
	is("done", "")
	if a := d.Get("/api/v1/jobs/"+id, ""); !strings.Contains(a.Body, `"result":{"sent":`+exact+`}`) {
		t.Error(a.Body)
	}
	if a := d.Get("/jobs?state=done", ""); !strings.Contains(a.Body, id) || !strings.Contains(a.Body, exact) {
		t.Error(a.Body)
	}
	if a := d.Get("/jobs/"+id, ""); !strings.Contains(a.Body, "Redis no longer has its arguments") {
		t.Error("nothing says why its texts are not shown:", a.Body)
	}
	if a := d.Post("/jobs/"+id+"/reveal", "ada admin"); a.Status != http.StatusOK || !strings.Contains(a.Body, "503 for "+secret) || !strings.Contains(a.Body, "posting with "+secret) {
		t.Error(a.Status, a.Body)
	}
	if a := d.Post("/api/v1/jobs/"+id+"/again", "ada admin"); a.Status != http.StatusConflict {
		t.Error("Redis no longer knows the arguments:", a.Status, a.Body)
	}
	if a := d.Post("/jobs/"+id+"/forget", "ada admin"); a.Status != http.StatusSeeOther || a.Header.Get("Location") != "/jobs" {
		t.Error(a.Status, a.Header)
	}
	if a := d.Get("/jobs/"+id, ""); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "/search?q="+id) {
		t.Error(a.Status, a.Body)
	}
}

// A failed job is retried once by two people, run again as a copy, and revealed to an admin.
func TestJobFailed(t *testing.T) {
	t.Parallel()
	var log daemontest.SafeBuffer
	d := setup(t, func(o *dashboard.Options) {
		o.Logger = slog.New(slog.NewTextHandler(&log, nil))
		o.Links = []dashboard.Link{{Name: "Logs", URL: "https://logs.example/?job={id}&q={queue}"}, {Name: "Host", URL: "https://hosts.example/{host}"}}
	})
	job := `{"class":"Charge","args":[{"order":` + exact + `,"token":"` + secret + `"}],"id":"j1"}`
	d.redis.Do(t, "SADD", "resque:queues", "pay")
	d.redis.Do(t, "RPUSH", "resque:failed", `{"failed_at":"2026/10/14 10:00:00 UTC","payload":`+job+`,"exception":"Net::Timeout","error":"no answer for `+secret+`","backtrace":["a.rb:1 `+secret+`"],"worker":"h:1:pay","queue":"pay"}`)
	d.silent("j1")
	d.awaitJob("/api/v1/jobs/j1", "")
	v := d.api("/jobs/j1", "")
	if v["state"] != "failed" || v["failure"] == nil || !strings.Contains(fmt.Sprint(v["links"]), "job=j1&q=pay") || strings.Contains(fmt.Sprint(v["links"]), "hosts") {
		t.Error(v)
	}
	d.awaitJob("/jobs/"+v["ref"].(string), "")
	d.awaitJob("/jobs/j1", "eve viewer")
	if a := d.Get("/jobs/j1", "eve viewer"); a.Status != http.StatusOK || strings.Contains(a.Body, "/jobs/j1/") {
		t.Error("a viewer has buttons", a.Status)
	}
	for _, user := range []string{"eve viewer pay", "bob admin mail"} {
		if a := d.Post("/jobs/j1/reveal", user); a.Status < 400 || strings.Contains(a.Body, secret) {
			t.Errorf("%s: %d %s", user, a.Status, a.Body)
		}
	}
	if a := d.Get("/jobs/j1", "bob admin mail"); a.Status != http.StatusNotFound {
		t.Error("a job of another queue:", a.Status)
	}
	if a := d.Get("/api/v1/search?q=class:Charge", "bob admin mail"); a.Status != http.StatusOK || strings.Contains(a.Body, "j1") || !strings.Contains(a.Body, `"of":0`) {
		t.Error(a.Body)
	}
	if a := d.Get("/palette?q=pay", "bob admin mail"); strings.Contains(a.Body, `"pay"`) {
		t.Error(a.Body)
	}
	a := d.Post("/jobs/j1/reveal", "ada admin")
	if a.Status != http.StatusOK || !strings.Contains(a.Body, secret) || !strings.Contains(a.Body, exact) || a.Header.Get("Cache-Control") != "no-store" {
		t.Error(a.Status, a.Body)
	}
	if got := log.String(); !strings.Contains(got, "user=ada") || !strings.Contains(got, "id=j1") || strings.Contains(got, secret) {
		t.Error(got)
	}
	d.silent("j1")

	retried := make(chan int, 2)
	for _, user := range []string{"ada admin", "oda operator"} {
		go func() { retried <- d.Post("/api/v1/jobs/j1/retry", user, "ref", v["ref"].(string)).Status }()
	}
	if x, y := <-retried, <-retried; min(x, y) != http.StatusOK || max(x, y) < 400 {
		t.Error(x, y)
	}
	if n := d.redis.Int(t, "LLEN", "resque:queue:pay"); n != 1 {
		t.Errorf("%d jobs", n)
	}
	if a := d.Post("/jobs/j1/again", "ada admin"); a.Status != http.StatusSeeOther || !strings.HasPrefix(a.Header.Get("Location"), "/jobs/") {
		t.Error(a.Status, a.Body)
	}
	if got := d.redis.List(t, "LRANGE", "resque:queue:pay", "0", "-1"); len(got) != 2 || !strings.Contains(got[1], exact) || !strings.Contains(got[1], secret) {
		t.Error(got)
	}
}

// What waits is rescheduled, run, cancelled and let go again.
func TestJobWaits(t *testing.T) {
	t.Parallel()
	d := setup(t)
	id := d.push("mail", "Send", []goworker.EnqueueOption{goworker.WithResult(time.Hour)}, "a")
	post := func(verb, user string, want int, pairs ...string) {
		t.Helper()
		if a := d.Post("/api/v1/jobs/"+id+"/"+verb, user, pairs...); a.Status != want {
			t.Errorf("%s by %s: %d %s", verb, user, a.Status, a.Body)
		}
	}
	post("reschedule", "oda operator", http.StatusBadRequest)
	post("reschedule", "oda operator", http.StatusBadRequest, "at", "tomorrow")
	post("reschedule", "oda operator", http.StatusOK, "in", "2h")
	if v := d.api("/jobs/"+id, ""); v["where"].(map[string]any)["place"] != "delayed" {
		t.Error(v)
	}
	post("run", "oda operator mail", http.StatusOK)
	post("run", "oda operator other", http.StatusNotFound)
	post("run", "eve viewer", http.StatusForbidden)
	post("cancel", "oda operator", http.StatusOK)
	if v := d.api("/jobs/"+id, ""); v["state"] != "cancelled" {
		t.Error(v)
	}
	post("lift", "oda operator", http.StatusOK)
	if v := d.api("/jobs/"+id, ""); v["state"] != "pending" {
		t.Error(v)
	}
	post("retry", "oda operator", http.StatusConflict)
	post("forget", "oda operator", http.StatusForbidden)
	for path, want := range map[string]int{"/jobs/nosuch": 404, "/jobs/" + strings.Repeat("a", 28): 404, "/jobs/nosuch?after=x": 400, "/jobs?after=x": 400, "/search?after=x&q=a": 400} {
		if a := d.Get(path, ""); a.Status != want {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
}

// Lists of jobs have pages, and name what is hostile.
func TestJobsList(t *testing.T) {
	t.Parallel()
	d := setup(t)
	if a := d.Get("/jobs", ""); !strings.Contains(a.Body, "A plain job leaves nothing when it is done") {
		t.Error(a.Body)
	}
	for n := range 120 {
		d.redis.Do(t, "HSET", fmt.Sprintf("resque:go:result:j%03d", n), "state", "done", "class", "<script>alert(1)</script>", "queue", "../x", "enqueued", 1700000000000+n, "ended", 1700000001000+n, "result", `"`+strings.Repeat("x", 5000)+`"`)
	}
	d.redis.Do(t, "HSET", "resque:go:result:other", "state", "failed", "class", "Mail", "queue", "mail", "enqueued", 1700000000000, "exception", "E", "error", secret)
	seen, path := map[string]bool{}, "/jobs?state=done"
	for pages := 0; path != ""; pages++ {
		if pages > 5 {
			t.Fatal("the pages do not end")
		}
		v := d.api(path, "")
		for n, one := range v["jobs"].([]any) {
			id := one.(map[string]any)["id"].(string)
			if seen[id] {
				t.Errorf("%s comes twice", id)
			}
			if seen[id] = true; pages == 0 && n == 0 && id != "j119" {
				t.Errorf("the first is %s", id)
			}
		}
		path = ""
		if next, _ := v["next"].(string); next != "" {
			path = "/jobs?state=done&after=" + next
		}
	}
	if len(seen) != 120 {
		t.Errorf("%d jobs", len(seen))
	}
	a := d.Get("/jobs", "")
	if strings.Contains(a.Body, "<script>alert") || !strings.Contains(a.Body, "/queues") || len(a.Body) > 200_000 {
		t.Errorf("%d bytes", len(a.Body))
	}
	if a := d.Get("/jobs?q=other", ""); !strings.Contains(a.Body, "other") || strings.Contains(a.Body, "j001") || strings.Contains(a.Body, secret) {
		t.Error(a.Body)
	}
	if v := d.api("/jobs", "eve viewer mail"); len(v["jobs"].([]any)) != 1 {
		t.Error(v)
	}
}

// Large and broken jobs, and searches that have a mistake or do not end.
func TestSearch(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "SADD", "resque:queues", "a/b?c%d", "../x")
	d.redis.Do(t, "RPUSH", "resque:queue:a/b?c%d", `{"class":"<b>Big</b>","args":["`+strings.Repeat("y", 1<<18)+`"],"id":"big"}`, "\xff\xfe not JSON", `{"class":"Send","args":[`+exact+`,"Pa\u0000ss"],"id":"s"}`)
	for _, path := range []string{"/search?q=class:*", "/search?q=" + strings.Repeat("z", 5000), "/jobs/big", "/search?q=id:big", "/search", "/search?q=arg.0:" + exact, "/search?q=%ff%fe", "/search?q=%00"} {
		a := d.Get(path, "")
		if a.Status >= 500 || strings.Contains(a.Body, "<b>Big") || len(a.Body) > 150_000 {
			t.Errorf("%s: %d with %d bytes", path, a.Status, len(a.Body))
		}
	}
	if a := d.Get("/search?q=class:Send+nonsense:1", ""); a.Status != 200 || !strings.Contains(a.Body, "<mark>nonsense") {
		t.Error(a.Body)
	}
	if a := d.Get("/api/v1/search?q=nonsense:1", ""); a.Status != http.StatusBadRequest {
		t.Error(a.Status)
	}
	if a := d.Get("/search?q=queue:x+-class:Send", ""); !strings.Contains(a.Body, `href="/search?q=queue%3Ax"`) {
		t.Error("no chip to take away:", a.Body)
	}
	var many []any
	for n := range 9000 {
		many = append(many, fmt.Sprintf(`{"class":"Fill","args":[%d]}`, n))
	}
	d.redis.Do(t, "SADD", "resque:queues", "fill")
	for len(many) > 0 {
		d.redis.Do(t, "RPUSH", append([]any{"resque:queue:fill"}, many[:1000]...)...)
		many = many[1000:]
	}
	v := d.api("/search?q=class:Nobody", "")
	if v["next"] == nil || v["looked"].(float64) > 8000 || v["of"].(float64) < 9000 {
		t.Error(v)
	}
	if a := d.Get("/search?q=class:Nobody", ""); !strings.Contains(a.Body, "None among") || !strings.Contains(a.Body, "Search all") {
		t.Error(a.Body)
	}
	for pages := 0; v["next"] != nil; pages++ {
		if v = d.api("/search?q=class:Nobody&after="+v["next"].(string), ""); pages > 1000 {
			t.Fatal("the search does not end")
		}
	}
	d.eventually("the queue is found by its name", func() bool { // a sample may be two seconds old
		return strings.Contains(fmt.Sprint(d.api("/search?q=fill", "")["named"]), "/queues/fill")
	})
}

func TestPalette(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "SADD", "resque:queues", "webhooks", "mail")
	id := d.push("mail", "Send", []goworker.EnqueueOption{goworker.WithResult(time.Hour)}, "a")
	ask := func(q, user string) string { return d.Get("/palette?q="+q, user).Body }
	for q, want := range map[string]string{"web": "/queues/webhooks", "hook": "/queues/webhooks", "wbhk": "/queues/webhooks", id: "/jobs/" + id, "que": "/queues", "": "/queues"} {
		var rows []map[string]string
		got := ask(q, "")
		if err := json.Unmarshal([]byte(got), &rows); err != nil || len(rows) > 20 || !strings.Contains(got, `"url":"`+want+`"`) {
			t.Errorf("%q: %s", q, got)
		}
	}
	if !strings.Contains(ask("pause", "oda operator"), "Pause or resume a queue") || strings.Contains(ask("pause", "eve viewer"), "Pause or resume a queue") {
		t.Error("commands do not obey the role")
	}
	if got := ask(id, "bob admin webhooks"); strings.Contains(got, "Job "+id) {
		t.Error(got)
	}
}
