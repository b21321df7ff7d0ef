package queues_test

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// A large queue is cleared at once while workers go on, and undo brings the same bytes back in the same order.
func TestClearsALargeQueue(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	f := openOn(t, b.Redis)
	const many = 100_000
	f.Redis.Do(t, "SADD", "resque:queues", "large")
	f.Redis.Do(t, "EVAL", `for n = 1, ARGV[1] do redis.call("RPUSH", KEYS[1], '{"class":"Mail",  "args":[' .. n .. ',9007199254740993]}') end`, 1, "resque:queue:large", many)
	before := f.waits("large")
	var page struct {
		Waiting struct{ Value int }
		Jobs    []any
		Next    string
	}
	f.json("/queues/large", &page)
	if page.Waiting.Value != many || len(page.Jobs) != 50 || page.Next != "50" {
		t.Errorf("the page says %d jobs, shows %d, and goes on at %q", page.Waiting.Value, len(page.Jobs), page.Next)
	}
	f.act(http.StatusConflict, "/queues/large/clear", `{"expect":50000}`)
	f.act(http.StatusOK, "/queues/large/clear", `{"dry_run":true}`)
	if n := len(f.waits("large")); n != many {
		t.Fatalf("%d jobs wait after a dry run", n)
	}
	commands := f.Redis.Int(t, "EVAL", `return tonumber(redis.call("INFO","commandstats"):match("cmdstat_lpop:calls=(%d+)") or 0)`, 0)
	out := f.act(http.StatusOK, "/queues/large/clear", `{"expect":100000,"why":"a test"}`)
	if out.Done != many || !out.Undo || len(f.waits("large")) != 0 {
		t.Fatalf("clearing answers %+v, and leaves %d", out, len(f.waits("large")))
	}
	if n := f.Redis.Int(t, "EVAL", `return tonumber(redis.call("INFO","commandstats"):match("cmdstat_lpop:calls=(%d+)") or 0)`, 0); n-commands > 100 {
		t.Errorf("clearing has popped %d jobs", n-commands)
	}
	// The workers work.
	if _, err := f.Client.Enqueue(t.Context(), goworker.NewJob("work", "Mark", "meanwhile")); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, daemontest.Soon, "a worker has a job", func() bool { return b.Runs.Starts("meanwhile") > 0 })
	for op, err := range f.in().By("ann", "").Operations().Undo(t.Context(), out.Operation) {
		if err != nil {
			t.Fatal(op, err)
		}
	}
	if after := f.waits("large"); !slices.Equal(after, before) {
		t.Errorf("undo brings %d jobs back, not the same in the same order", len(after))
	}
}

// Roles: each action needs its own, a GET does nothing, and a user of some queues stays within these.
func TestActionsNeedTheirRoles(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.push("mail", `{"class":"Mail","args":[1]}`, `{"class":"Mail","args":[2]}`)
	f.push("secret", `{"class":"Plan","args":["x"]}`)
	ref := refOf(f, "mail")
	before := f.Redis.Dump(t, "resque:")
	operator := map[string]string{
		"/queues/mail/pause": `{}`, "/queues/mail/resume": `{}`, "/queues/pause": `{}`, "/queues/resume": `{}`, "/queues/mail/jobs/front": `{"ids":["` + ref + `"]}`,
		"/queues/mail/jobs/move": `{"ids":["` + ref + `"],"to":"other"}`, "/queues/mail/jobs/delay": `{"ids":["` + ref + `"],"for":"1h"}`, "/queues/mail/jobs/cancel": `{"ids":["` + ref + `"]}`,
		"/running/cancel": `{"id":"x","queue":"mail"}`, "/running/stack": `{"process":"x"}`, "/running/release": `{"id":"x","queue":"mail"}`,
	}
	admin := map[string]string{
		"/queues/mail/clear": `{}`, "/queues/mail/remove": `{}`, "/queues/mail/jobs": `{"class":"Mail","args":[]}`,
		"/queues/mail/jobs/remove": `{"ids":["` + ref + `"]}`, "/queues/mail/jobs/edit": `{"ids":"` + ref + `","args":[]}`,
	}
	for path, body := range operator {
		f.act(http.StatusForbidden, path, body, path+" viewer")
	}
	for path, body := range admin {
		f.act(http.StatusForbidden, path, body, path+" viewer")
		f.act(http.StatusForbidden, path, body, path+" operator")
		if status, _ := f.ask(path); status != http.StatusMethodNotAllowed {
			t.Errorf("GET %s answers %d", path, status)
		}
	}
	// Of a queue that the user does not see nothing is said.
	const some = "bob admin mail*"
	for _, path := range []string{"/queues/secret", "/queues/secret/job?ref=" + refOf(f, "secret")} {
		if status, body := f.ask(path, some); status != http.StatusNotFound || strings.Contains(body, "Plan") {
			t.Errorf("GET %s answers %d", path, status)
		}
	}
	if body := f.get("/queues", some); strings.Contains(body, "secret") || !strings.Contains(body, "1 queue, 1 jobs wait") && !strings.Contains(body, "1 queue, 2 jobs wait") {
		t.Error("the list of queues says what the user must not see")
	}
	f.act(http.StatusNotFound, "/queues/secret/clear", `{}`, some)
	f.act(http.StatusNotFound, "/jobs", `{"queue":"secret","class":"Plan"}`, some)
	f.act(http.StatusBadRequest, "/jobs", `{"class":"Plan"}`, some)
	f.act(http.StatusNotFound, "/queues/pause", `{}`, some)
	f.act(http.StatusNotFound, "/running/stack", `{"process":"x"}`, some)
	f.act(http.StatusNotFound, "/queues/mail/jobs/move", `{"ids":["`+ref+`"],"to":"secret"}`, some)
	f.act(http.StatusNotFound, "/queues/mail/jobs/edit", `{"ids":"`+ref+`","to":"secret"}`, some)
	if after := f.Redis.Dump(t, "resque:"); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("refused actions have changed\n%v\nto\n%v", before, after)
	}
	for _, word := range []string{"Clear…", "Pause…", "Add job…", `name="ids"`} {
		if strings.Contains(f.get("/queues/mail", "eve viewer"), word) {
			t.Errorf("a viewer sees %q", word)
		}
		if !strings.Contains(f.get("/queues/mail"), word) {
			t.Errorf("an admin does not see %q", word)
		}
	}
}

// Two people who press a button make one change.
func TestTwoAtATime(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.push("mail", `{"class":"Mail","args":[1]}`, `{"class":"Mail","args":[2]}`)
	body := `{"ids":["` + refOf(f, "mail") + `.1"],"to":"other"}`
	var wg sync.WaitGroup
	outs := make([]outcome, 2)
	for n := range outs {
		wg.Go(func() {
			outs[n] = f.act(http.StatusOK, "/queues/mail/jobs/move", body, fmt.Sprintf("user%d admin", n))
		})
	}
	wg.Wait()
	done := int64(0)
	for _, out := range outs {
		done += out.Done
	}
	if done != 1 || len(f.waits("other")) != 1 || len(f.waits("mail")) != 1 {
		t.Errorf("%d jobs were moved; there are %q and %q: %+v", done, f.waits("mail"), f.waits("other"), outs)
	}
}

// All that fit a filter: the form first shows what would be done, and asks for the number where much is removed.
func TestAllThatFit(t *testing.T) {
	t.Parallel()
	f := open(t)
	for n := range 150 {
		f.push("mail", fmt.Sprintf(`{"class":"Mail","args":[%d]}`, n), fmt.Sprintf(`{"class":"Other","args":[%d]}`, n))
	}
	form := url.Values{"all": {"1"}, "in": {"queue"}, "filter": {"class:Mail"}}
	status, page, _ := f.post("/queues/mail/jobs/remove", form)
	if status != http.StatusOK || !strings.Contains(page, "Remove: 150 jobs") || !strings.Contains(page, "Type 150 to go on") {
		t.Fatalf("the plan answers %d: %s", status, page)
	}
	if n := len(f.waits("mail")); n != 300 {
		t.Fatalf("a plan has left %d jobs", n)
	}
	form.Set("go", "1")
	form.Set("confirm", "150")
	form.Set("expect", "150")
	if status, page, _ := f.post("/queues/mail/jobs/remove", form); status != http.StatusSeeOther {
		t.Fatalf("removing answers %d: %s", status, page)
	}
	redistest.Eventually(t, daemontest.Soon, "the jobs are removed", func() bool { return len(f.waits("mail")) == 150 })
	f.act(http.StatusAccepted, "/queues/mail/jobs/move", `{"all":true,"to":"moved","expect":150}`)
	redistest.Eventually(t, daemontest.Soon, "the queue is moved", func() bool { return len(f.waits("moved")) == 150 && len(f.waits("mail")) == 0 })
	if got := f.waits("moved"); got[0] != `{"class":"Other","args":[0]}` || got[149] != `{"class":"Other","args":[149]}` {
		t.Errorf("the moved queue begins with %s and ends with %s", got[0], got[149])
	}
}

func TestPauses(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.push("mail", `{"class":"Mail","args":[1]}`)
	f.push("img", `{"class":"Img","args":[1]}`)
	if status, _, head := f.post("/queues/mail/pause", url.Values{"for": {"1h"}, "why": {"deploy"}, "back": {"/queues/mail"}}); status != http.StatusSeeOther || head.Get("Location") != "/queues/mail" {
		t.Errorf("pausing answers %d to %s", status, head.Get("Location"))
	}
	rules, err := f.in().Rules(t.Context())
	if err != nil || len(rules) != 1 || rules[0].About != "mail" || rules[0].Until.IsZero() || rules[0].By != "ann" || rules[0].Why != "deploy" {
		t.Errorf("the rules are %+v: %v", rules, err)
	}
	out := f.act(http.StatusOK, "/queues/pause", `{}`)
	if paused, _ := f.in().PausedQueues(t.Context()); out.Done != 2 || len(paused) != 2 || !strings.Contains(out.Said, "SET resque:pause-all-workers true") {
		t.Errorf("pausing all answers %+v, and pauses %q", out, paused)
	}
	if out := f.act(http.StatusOK, "/queues/resume", `{}`); out.Done != 2 {
		t.Errorf("resuming all answers %+v", out)
	}
	f.act(http.StatusNotFound, "/queues/nosuch/resume", `{}`)
	if status, body := f.ask("/queues/nosuch"); status != http.StatusNotFound || !strings.Contains(body, "no queue nosuch") {
		t.Errorf("a queue that is not there answers %d: %s", status, body)
	}
}

// A Redis where only Ruby works: nothing is made up.
func TestRubyOnly(t *testing.T) {
	t.Parallel()
	f := open(t, func(o *dashboard.Options) { o.Columns = []string{"arg.0", "meta.tenant"} })
	f.push("mail", `{"class":"Mail","args":["ann"]}`, `{"class":"ActiveJob::QueueAdapters::ResqueAdapter::JobWrapper","args":[{"job_class":"Welcome","job_id":"j1","arguments":[7]}]}`)
	f.push("old", `{"class":"Report","args":[]}`)
	f.Redis.Do(t, "SADD", "resque:workers", "host:1:mail")
	f.Redis.Do(t, "HSET", "resque:workers:heartbeat", "host:1:mail", "2999-01-01T00:00:00+00:00")
	f.Redis.Do(t, "SET", "resque:worker:host:1:mail", `{"queue":"mail","run_at":"2026-11-22T08:00:00Z","payload":{"class":"Mail","args":["bob",{"token":"s3cr3t"}]}}`)
	f.Redis.Do(t, "SADD", "resque:workers", "host:2:old")
	f.Redis.Do(t, "HSET", "resque:workers:heartbeat", "host:2:old", "2020-01-01T00:00:00+00:00")
	var list struct {
		Queues []struct {
			Name, State string
			Pushed      struct{ Kind string }
			Worked_Last *struct{ Worker string }
		}
	}
	f.json("/queues?sort=name", &list)
	if len(list.Queues) != 2 || list.Queues[0].State != "working" || list.Queues[1].State != "nobody" || list.Queues[1].Worked_Last == nil || list.Queues[1].Worked_Last.Worker != "host:2:old" {
		t.Errorf("the queues are %+v", list.Queues)
	}
	if body := f.get("/queues"); !strings.Contains(body, "worker host:2:old worked it last") {
		t.Error("the list does not say who worked a queue last")
	}
	body := f.get("/queues/mail")
	for _, want := range []string{"via ActiveJob", "Welcome", ">ann<", ">arg.0<"} {
		if !strings.Contains(body, want) {
			t.Errorf("the page of the queue lacks %q", want)
		}
	}
	body = f.get("/running")
	if !strings.Contains(body, "host:1:mail") || strings.Contains(body, "s3cr3t") || !strings.Contains(body, "its worker keeps no times") {
		t.Errorf("the page of running jobs is %s", body)
	}
	if !strings.Contains(f.get("/running?q=s3cr3t"), "No running job fits") || !strings.Contains(f.get("/running?q="+url.QueryEscape("class:Ma* worker:host for:>1h")), "host:1:mail") {
		t.Error("the filter of running jobs is wrong")
	}
	if status, _ := f.ask("/running?q=state:running"); status != http.StatusOK {
		t.Logf("state: answers %d", status)
	}
	for _, path := range []string{"/queues/mail?in=limits", "/queues/mail?in=running", "/queues/mail?in=delayed", "/queues/mail?in=failed", "/queues/mail?in=kept", "/queues/mail?ask=clear"} {
		f.get(path)
	}
}

// What goworker's processes have counted is on the pages.
func TestCountedByAFleet(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	f := openOn(t, b.Redis)
	for n := range 4 {
		class := "Mark"
		if n == 0 {
			class = "Fail"
		}
		if _, err := f.Client.Enqueue(t.Context(), goworker.NewJob("work", class, fmt.Sprint(n))); err != nil {
			t.Fatal(err)
		}
	}
	var page struct {
		Failing   *float64
		Processes int
		Past      struct {
			Seen bool `json:"seen_only"`
		}
		Tabs []struct {
			In   string
			Jobs struct{ Value *int }
		}
	}
	redistest.Eventually(t, daemontest.Soon, "the fleet has counted all four", func() bool {
		f.json("/queues/work", &page)
		failed := page.Tabs[4]
		return page.Failing != nil && *page.Failing == 25 && failed.In == "failed" && failed.Jobs.Value != nil && *failed.Jobs.Value == 1
	})
	if page.Processes != 1 || page.Past.Seen {
		t.Errorf("the page counts %d processes, and says of the past seen only: %t", page.Processes, page.Past.Seen)
	}
	if body := f.get("/queues/work?in=failed"); !strings.Contains(body, "25.0<small>%") || !strings.Contains(body, "no luck") || !strings.Contains(body, "Pushed and taken") {
		t.Error("the page lacks what the fleet has counted")
	}
	if body := f.get("/queues"); !strings.Contains(body, "25.0 %") || !strings.Contains(body, "4 workers in 1 process") {
		t.Error("the list lacks what the fleet has counted")
	}
}

// A page asks Redis little, whatever the size of the fleet.
func TestBudgets(t *testing.T) {
	t.Parallel()
	f := open(t)
	f.Redis.Do(t, "EVAL", `
		for q = 1, 400 do redis.call("SADD", "resque:queues", "q" .. q); redis.call("RPUSH", "resque:queue:q" .. q, '{"class":"Mail","args":[]}') end
		for w = 1, 1000 do local id = "host:" .. w .. ":*"; redis.call("SADD", "resque:workers", id); redis.call("HSET", "resque:workers:heartbeat", id, "2999-01-01T00:00:00+00:00") end
		for n = 1, 100000 do redis.call("RPUSH", "resque:queue:q1", '{"class":"Mail","args":[' .. n .. ']}') end`, 0)
	ref := refOf(f, "q1")
	for _, path := range []string{"/queues", "/queues?sort=size", "/queues/q1", "/queues/q1?after=90000", "/queues/q1?q=class:Mail", "/queues/q1?q=class:None", "/queues/q1?in=running", "/queues/q1?in=limits", "/queues/q1?in=delayed", "/queues/q1/job?ref=" + ref + "&place=1", "/running"} {
		m := f.Redis.Monitor(t)
		body := f.get(path)
		sent := m.Commands()
		if n := len(sent); n > 25+30+1 { // those of the Sample, those of the page, and the mark of the monitor
			t.Errorf("%s sends %d commands: %q", path, n, names(sent))
		}
		if len(body) > 400_000 {
			t.Errorf("%s has %d bytes", path, len(body))
		}
	}
	var found struct {
		Searched struct {
			Fit, Looked int
			More        bool
		}
		Jobs []any
	}
	sought := 77777                                                                               // another one each time, or the answer is the one before
	redistest.Eventually(t, daemontest.Soon, "a search looks at some hundred jobs", func() bool { // a slow machine looks at few in its time
		sought++
		f.json(fmt.Sprint("/queues/q1?q=class:None", sought), &found)
		if s := found.Searched; s.Fit != 0 || !s.More || s.Looked > 13_000 {
			t.Errorf("the search has looked at %+v", s)
		}
		return found.Searched.Looked >= 500
	})
	redistest.Eventually(t, daemontest.Soon, "the search of all goes further", func() bool { // a slow machine does not come to the end in time
		sought++
		f.json(fmt.Sprint("/queues/q1?all=1&q=arg.0:", sought), &found)
		return !found.Searched.More || found.Searched.Looked >= 10_000
	})
	if s := found.Searched; !s.More && (s.Fit != 1 || s.Looked != 100_001 || len(found.Jobs) != 1) {
		t.Errorf("the search of all has looked at %+v", s)
	}
}

func names(commands [][]string) (all []string) {
	for _, c := range commands {
		all = append(all, strings.Join(c[:min(2, len(c))], " "))
	}
	return all
}
