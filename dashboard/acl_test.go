package dashboard_test

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

// asUser is a dashboard as a user of docs/dashboard.md.
func (d *desk) asUser(name string, without ...string) *desk {
	d.Helper()
	var rules []any
	for _, rule := range redistest.ACLOn(d.T, "dashboard.md", name)[1:] {
		if !slices.Contains(without, rule) {
			rules = append(rules, rule)
		}
	}
	return d.as(name, rules...)
}

// refused are the commands, keys and channels that Redis has refused to a user, by its own log.
func (d *desk) refused(user string) (all []string) {
	d.Helper()
	for _, entry := range d.redis.Do(d, "ACL", "LOG", "1000").([]any) {
		fields := make(map[string]string)
		for pairs := entry.([]any); len(pairs) > 1; pairs = pairs[2:] {
			fields[fmt.Sprintf("%s", pairs[0])] = fmt.Sprintf("%s", pairs[1])
		}
		if fields["username"] == user {
			all = append(all, fields["reason"]+" "+fields["object"])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// fill puts something on every page.
func (d *desk) fill() (job string) {
	d.Helper()
	d.fillQueue("mail", 3)
	d.fail(failure{class: "Send"}, failure{class: "Send", queue: "pay"})
	job = d.push("hooks", "Deliver", []goworker.EnqueueOption{goworker.WithResult(time.Hour), goworker.CaptureLogs(), goworker.Retry(3)}, map[string]any{"to": "ann"})
	d.later(time.Hour, "mail", `{"class":"Later","args":[1]}`)
	d.rubys(time.Now().Add(time.Hour).Unix(), `{"class":"Ruby","args":[1],"queue":"mail"}`)
	d.plant("sweep", `{"every":"10m","class":"Sweep","queue":"low"}`)
	d.push("mail", "Once", []goworker.EnqueueOption{goworker.Unique()}, 7)
	d.redis.Do(d, "SADD", "resque:workers", "web-1:77:mail")
	d.redis.Do(d, "SET", "resque:worker:web-1:77:mail", `{"queue":"mail","run_at":"2026-01-02T03:04:05Z","payload":{"class":"Send","args":[1]}}`)
	d.start(goworker.Chain(goworker.Step(goworker.NewJob("low", "First")), goworker.Step(goworker.NewJob("low", "Second"))), goworker.WithID("import"))
	d.redis.Do(d, "SADD", "resque:workers", "broken") // the checks find it
	d.Post("/queues/pay/jobs", "", "class", "Charge", "args", "[1]")
	d.Post("/queues/pay/clear", "", "confirm", "pay")
	d.Post("/http/tokens/create", "", "namespace", "shop", "scopes", "publish")
	return job
}

// look opens each page, those of one thing too, and returns those that lack something.
func (d *desk) look(job string) (lacks []string) {
	d.Helper()
	pages, _ := d.routes()
	pages = slices.DeleteFunc(pages, func(path string) bool { return strings.HasSuffix(path, "/x") })
	pages = append(pages, "/jobs/"+job, "/queues/mail", "/queues/mail?in=limits", "/queues/mail?in=running", "/queues/mail?in=delayed", "/queues/mail?in=failed", "/queues/mail?in=kept", "/queues/mail?q=class:Send",
		"/failures?by=each", "/delayed?span=7d", "/delayed?q=class:Later", "/schedule/sweep", "/search?q=class:Send", "/search?q=mail", "/palette?q=mail", "/redis/keys/queue:mail", "/processes?by=worker", "/processes?by=queue",
		"/workers/web-1:77:mail", "/http?v=tokens", "/http?v=leases", "/?span=24h", "/history?step=10m", "/failures/export?q=class:Send", "/audit/export", "/workflows/import", "/workflows/import?step=1", "/classes/Deliver", "/classes?span=90d", "/limits?v=locks", "/limits?v=groups", "/limits?v=turns")
	for _, find := range []struct{ path, link string }{{"/limits?v=locks", `/locks/[^"?/]+`}, {"/failures", `/failures/groups/[0-9a-f]+`}, {"/failures?by=each", `/failures/[0-9a-f]{28}`}, {"/operations", `/operations/[0-9a-z]{8,}`}, {"/processes", `/processes/[^"?/]+`}} {
		if at := regexp.MustCompile(find.link).FindString(d.Get(find.path, "").Body); at != "" {
			pages = append(pages, at)
		}
	}
	for _, path := range pages {
		a := d.Get(path, "")
		if body := strings.ReplaceAll(html.UnescapeString(a.Body), "ACL rule +del", ""); a.Status >= 500 || strings.Contains(body, "ACL rule") { // of a Redis that can only be read all pages say so
			lacks = append(lacks, fmt.Sprint(path, " ", a.Status))
			_, why, _ := strings.Cut(body, "ACL rule")
			lacks = append(lacks, why[:min(len(why), 100)])
		}
	}
	return lacks
}

// The users of docs/dashboard.md do what the page says, and Redis refuses them nothing else: its own log says what it refused.
func TestDashboardsUsers(t *testing.T) {
	t.Parallel()
	d := setup(t)
	stop := d.daemon("hooks")
	defer stop()
	job := d.fill()
	d.eventually("the job has failed once", func() bool { return strings.Contains(d.Get("/jobs/"+job, "").Body, "503") })
	d.redis.Do(t, "ACL", "LOG", "RESET")

	reader := d.asUser("reader")
	if lacks := reader.look(job); len(lacks) > 0 {
		t.Errorf("the reader's pages lack something: %q", lacks)
	}
	if all := reader.refused("reader"); !slices.Equal(all, []string{"command del", "command hdel"}) { // DEL finds out that it may not write, and a listener to events leaves with HDEL
		t.Errorf("Redis refused %q to the reader", all)
	}
	before := d.audited()
	if a := reader.Get("/queues", ""); strings.Contains(a.Body, `method="post"`) {
		t.Error("the reader has buttons")
	}
	if a := reader.Post("/queues/mail/pause", ""); a.Status != http.StatusServiceUnavailable || d.audited() != before {
		t.Errorf("%d %s", a.Status, a.Body)
	}

	follower := d.asUser("follower")
	if lacks := follower.look(job); len(lacks) > 0 {
		t.Errorf("the follower's pages lack something: %q", lacks)
	}
	d.hides(follower)
	if all := follower.refused("follower"); len(all) > 0 {
		t.Errorf("Redis refused %q to the follower", all)
	}
	if a := follower.Post("/queues/mail/jobs", "", "class", "Send", "args", "[1]"); a.Status < 400 {
		t.Errorf("the follower adds a job: %d", a.Status)
	}

	all := d.asUser("dashboard")
	if lacks := all.look(job); len(lacks) > 0 {
		t.Errorf("the dashboard's pages lack something: %q", lacks)
	}
	d.hides(all)
	d.mends(all, job)
	if all := all.refused("dashboard"); len(all) > 0 {
		t.Errorf("Redis refused %q to the dashboard", all)
	}
}

// hides hides a notice and shows it again, as another user of Redis.
func (d *desk) hides(as *desk) {
	d.Helper()
	var page struct{ Notices []struct{ ID string } }
	as.Read("/notices", "", &page)
	if len(page.Notices) == 0 {
		d.Fatal("there is no notice")
	}
	for _, verb := range []string{"/hide", "/show"} {
		if a := as.act("/notices/"+page.Notices[0].ID+verb, "", `{"for":"10m","why":"known"}`); a.Status != http.StatusOK {
			d.Errorf("%s: %d %s", verb, a.Status, a.Body)
		}
	}
}

// mends does something of each kind, as another user of Redis.
func (d *desk) mends(as *desk, job string) {
	d.Helper()
	var failed struct{ Failures []struct{ ID string } }
	as.Read("/failures?by=each", "", &failed)
	var waiting struct{ Jobs []struct{ Ref string } }
	as.Read("/queues/mail", "", &waiting)
	for n, tt := range []struct{ path, body string }{
		{"/queues/mail/pause", `{"for":"10m"}`}, {"/queues/mail/resume", ""}, {"/queues/pause", ""}, {"/queues/resume", ""},
		{"/queues/mail/jobs", `{"class":"Send","args":[9007199254740993]}`}, {"/queues/mail/jobs", `{"class":"Send","args":[1],"where":"head"}`}, {"/queues/mail/jobs", `{"class":"Send","args":[1],"for":"1h"}`},
		{"/queues/mail/jobs/edit", `{"ids":["` + waiting.Jobs[0].Ref + `"],"class":"Send","args":[7]}`}, {"/queues/mail/jobs/front", `{"ids":["` + waiting.Jobs[1].Ref + `"]}`},
		{"/queues/mail/jobs/delay", `{"ids":["` + waiting.Jobs[2].Ref + `"],"for":"1h"}`}, {"/queues/mail/jobs/move", `{"all":true,"filter":"class:Send","to":"low"}`},
		{"/queues/low/jobs/remove", `{"all":true,"filter":"class:Send"}`}, {"/queues/mail/jobs/cancel", `{"all":true,"filter":"class:Once"}`},
		{"/failures/" + failed.Failures[0].ID + "/retry", ""}, {"/failures/" + failed.Failures[1].ID + "/remove", ""},
		{"/jobs/" + job + "/run", ""},
		{"/delayed/run", `{"all":true,"filter":"class:Later"}`}, {"/delayed/clear", `{"all":true}`},
		{"/schedule/sweep/run", ""}, {"/schedule/sweep/pause", ""}, {"/schedule/sweep/resume", ""}, {"/schedule/set", `{"name":"new","every":"1h","class":"New","queue":"low"}`}, {"/schedule/new/delete", ""},
		{"/workers/web-1:77:mail/remove", ""}, {"/http/tokens/create", `{"namespace":"shop","scopes":"peek"}`}, {"/deploys", `{"version":"v2"}`},
		{"/workflows/import/pause", ""}, {"/workflows/import/resume", ""}, {"/workflows/import/skip", `{"step":"0"}`}, {"/workflows/import/cancel", ""}, {"/workflows/import/retry", ""},
		{"/classes/Deliver/pause", `{"for":"10m"}`}, {"/classes/Deliver/resume", ""}, {"/classes/Deliver/limit", `{"numbers":"3"}`}, {"/classes/Deliver/timeout", `{"timeout":"30s"}`}, {"/classes/Deliver/reset", ""},
		{"/queues/mail/clear", ""}, {"/bin/empty", `{"all":true}`}, {"/queues/low/remove", ""},
	} {
		if tt.path == "/bin/empty" {
			tt.body = fmt.Sprintf(`{"all":true,"confirm":%q}`, regexp.MustCompile(`give the number (\d+)`).FindStringSubmatch(as.act(tt.path, "", tt.body).Body)[1])
		}
		a := as.act(tt.path, fmt.Sprintf("ann%d admin", n), tt.body) // each may change so much a second
		if a.Status >= 300 {
			d.Errorf("%s: %d %s", tt.path, a.Status, a.Body)
		}
		var out struct{ Operation string }
		if json.Unmarshal([]byte(a.Body), &out) == nil && out.Operation != "" {
			d.ended(out.Operation)
		}
	}
}
