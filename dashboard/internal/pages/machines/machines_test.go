package machines_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/control/profile"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// An empty Redis, and one with a process, show in each list.
func TestLists(t *testing.T) {
	t.Parallel()
	d := setup(t, "")
	for _, path := range []string{"/processes", "/processes?by=worker", "/processes?by=queue"} {
		if a := d.Get(path, "eve viewer"); a.Status != http.StatusOK || strings.Count(a.Body, "<h1>") != 1 {
			t.Errorf("%s: %d", path, a.Status)
		}
	}
	id, _ := d.daemon("mailer", func(s *goworker.WorkerSettings, _ *goworker.Daemon) { s.AppVersion = "4f2c9e1" })
	d.redis.Do(t, "SADD", "resque:queues", "../x", "a/b?c%d", `<script>alert(1)</script>`)
	d.redis.Do(t, "RPUSH", "resque:queue:a/b?c%d", `{"class":"A","args":[]}`)
	var list struct {
		Processes []struct {
			ID, Name, State, Control string
			App                      string `json:"app_version"`
			Workers                  int
			Queues                   []string
		}
		Nobody []string `json:"queues_without_worker"`
	}
	redistest.Eventually(t, daemontest.Soon, "the process is listed", func() bool {
		d.read("/processes", &list)
		return len(list.Processes) == 1 && len(list.Nobody) == 1
	})
	if p := list.Processes[0]; p.ID != id || p.Name != "mailer" || p.App != "4f2c9e1" || p.Control != "on" || p.Workers != 2 || strings.Join(p.Queues, ",") != "work,mail" || list.Nobody[0] != "a/b?c%d" {
		t.Errorf("%+v", list)
	}
	d.Get("/processes", "eve viewer").Has(t, "mailer", `/queues/a%2Fb%3Fc%25d`)
	if a := d.Get("/processes?q=state:lost", "eve viewer"); !strings.Contains(a.Body, "No process fits") {
		t.Error("a filter that fits nothing does not say so")
	}
	a := d.Get("/processes?by=queue", "eve viewer")
	a.Has(t, "&lt;script&gt;", "/queues/..%2Fx")
	if strings.Contains(a.Body, "<script>alert") {
		t.Error("a name of a queue is markup")
	}
	d.Get("/processes?by=worker", "eve viewer").Has(t, ".go:")
	for _, path := range []string{"/processes", at(id), "/workers/web-1:7:mail"} {
		if a := d.Get(path, "lim admin mail"); a.Status != http.StatusNotFound {
			t.Errorf("a user of one queue gets %s: %d", path, a.Status)
		}
	}
	if a := d.Get("/processes/nobody:1:x", "eve viewer"); a.Status != http.StatusNotFound {
		t.Errorf("a process that is not there: %d", a.Status)
	}
	if a := d.Get("/processes/*", "eve viewer"); a.Status != http.StatusNotFound {
		t.Errorf("a pattern in place of a process: %d", a.Status)
	}
}

// From its page a process gets more workers, with a line in the audit, and the answer stands on the page.
func TestGrow(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	d := setup(t, key)
	id, daemon := d.daemon("mailer", func(s *goworker.WorkerSettings, _ *goworker.Daemon) {
		s.Control, s.ControlKeyFile = goworker.ControlFull, key
	})
	a := d.post(at(id, "concurrency"), "ann admin", "workers", "5", "why", "a test")
	a.Has(t, "runs 5 jobs at a time in place of 2", "Answer to concurrency", "until it ends")
	if n := daemon.Stats().Workers; n != 5 {
		t.Errorf("%d workers", n)
	}
	if e := d.audited("Control concurrency"); e.Who != "ann" || e.Face != "dashboard" || e.Why != "a test" {
		t.Errorf("the audit has %+v", e)
	}
	if status, out := d.act(at(id, "queues"), "ann admin", `{"change":"add","queues":["slow"]}`); status != http.StatusOK || !strings.Contains(out.Said, "slow") {
		t.Errorf("%d %+v", status, out)
	}
	if status, out := d.act(at(id, "autoscale"), "ann admin", `{"bounds":"2..4"}`); status != http.StatusOK || !strings.Contains(out.Said, "between 2 and 4") {
		t.Errorf("%d %+v", status, out)
	}
	for path, body := range map[string]string{
		"concurrency": `{"workers":"many"}`, "queues": `{"change":"swap","queues":["a"]}`, "autoscale": `{}`, "profile": `{"kind":"odd"}`, "verb": `{"verb":"pause"}`,
	} {
		if status, out := d.act(at(id, path), "ann admin", body); status != http.StatusBadRequest || out.Detail == "" {
			t.Errorf("%s %s: %d %+v", path, body, status, out)
		}
	}
	if status, _ := d.act(at("*", "pause"), "ann admin", `{}`); status != http.StatusNotFound {
		t.Errorf("a pattern is taken for a process: %d", status)
	}
}

// The level of the log changes, and comes back.
func TestLogLevel(t *testing.T) {
	t.Parallel()
	d := setup(t, "")
	id, _ := d.daemon("mailer", func(s *goworker.WorkerSettings, _ *goworker.Daemon) { s.Logger, s.LogLevel = nil, "error" })
	a := d.post(at(id, "log"), "oli operator", "level", "debug", "for", "1s")
	a.Has(t, "logs at the level debug for 1 s; before it was error")
	redistest.Eventually(t, daemontest.Soon, "the level is back", func() bool {
		time.Sleep(1500 * time.Millisecond) // each look changes it for a second
		_, out := d.act(at(id, "log"), "oli operator", `{"level":"debug","for":"1s"}`)
		return strings.Contains(out.Said, "before it was error")
	})
}

// The stacks show on the page of their user only, and what is asked twice in ten seconds is refused in the process's words.
func TestStacks(t *testing.T) {
	t.Parallel()
	d := setup(t, "")
	id, _ := d.daemon("mailer")
	a := d.Do(http.MethodPost, at(id, "stacks"), "oli operator", "application/x-www-form-urlencoded", "")
	to := a.Header.Get("Location")
	if a.Status != http.StatusSeeOther || !strings.Contains(to, "answer=") {
		t.Fatal(a.Status, to)
	}
	if status, out := d.act(at(id, "stacks"), "oli operator", `{}`); status != http.StatusConflict || len(out.Refused) != 1 {
		t.Errorf("%d %+v", status, out)
	}
	d.Get(to, "oli operator").Has(t, "Answer to stacks", "goroutine", "runtime")
	if a := d.Get(to, "eve viewer"); strings.Contains(a.Body, "Answer to stacks") {
		t.Error("another user reads the answer")
	}
}

// What needs the key is refused without it, in the process's words, and done with it.
func TestKey(t *testing.T) {
	t.Parallel()
	key := keyFile(t)
	d := setup(t, "")
	full := func(s *goworker.WorkerSettings, daemon *goworker.Daemon) {
		s.Control, s.ControlKeyFile = goworker.ControlFull, key
		daemon.AddVerb(profile.Verb())
		daemon.AddVerb(goworker.Verb{Name: "flush", Help: "Flush the cache", Harmless: true, Do: func(_ context.Context, args json.RawMessage) (any, error) {
			return map[string]any{"password": "hunter2hunter2", "flushed": 7}, nil
		}})
	}
	id, _ := d.daemon("mailer", full)
	a := d.post(at(id, "shutdown"), "ann admin")
	a.Has(t, "shutdown was not done", "it is not signed")
	a = d.post(at(id, "verb"), "ann admin", "verb", "flush", "args", `{"all":true}`)
	a.Has(t, "has answered", "flushed")
	if strings.Contains(a.Body, "hunter2") {
		t.Error("a secret of the program's answer is shown")
	}
	d.Get(at(id)+"?ask=verbs", "ann admin").Has(t, "Flush the cache")

	signed := setup(t, key)
	id, _ = signed.daemon("mailer", full)
	p := signed.Do(http.MethodPost, at(id, "profile"), "ann admin", "application/x-www-form-urlencoded", "kind=heap")
	if p.Status != http.StatusOK || !strings.Contains(p.Header.Get("Content-Disposition"), "heap-") || !strings.HasPrefix(p.Body, "\x1f\x8b") {
		t.Errorf("%d %v", p.Status, p.Header)
	}
	if status, out := signed.act("/processes/shutdown", "ann admin", fmt.Sprintf(`{"ids":[%q]}`, id)); status != http.StatusOK || out.Done != 1 {
		t.Errorf("%d %+v", status, out)
	}
}

// A command reaches the processes of a selection together. A process that is silent is named with the reason, and so is one of an older release.
func TestSilent(t *testing.T) {
	t.Parallel()
	d := setup(t, "")
	id, daemon := d.daemon("mailer")
	c := d.redis.Dial(t)
	renew := func() {
		lease := time.Now().Add(8 * time.Second).UnixMilli() // as far as a renewal puts it: one further ahead is of another clock
		_, _ = c.Do("ZADD", "resque:go:processes", lease, "stopped:1:aa", lease, "old:2:bb")
	}
	renew()
	over, renewed := make(chan struct{}), make(chan struct{})
	go func() { // else they are found dead, and the dashboard waits five seconds for their answer
		defer close(renewed)
		for {
			select {
			case <-over:
				return
			case <-time.After(100 * time.Millisecond):
				renew()
			}
		}
	}()
	defer func() { close(over); <-renewed }()
	d.redis.Do(t, "HSET", "resque:go:process:stopped:1:aa", "epoch", 1, "host", "stopped", "version", "v1.0.0", "control", "on")
	d.redis.Do(t, "HSET", "resque:go:process:old:2:bb", "epoch", 1, "host", "old", "version", "v0.8.2")
	status, out := d.act("/processes/pause", "oli operator", fmt.Sprintf(`{"ids":[%q,"stopped:1:aa","old:2:bb","gone:3:cc"]}`, id))
	refused := strings.Join(out.Refused, "\n")
	if status != http.StatusOK || out.Done != 1 || out.Missing != 1 || !strings.Contains(refused, "Process stopped:1:aa: it is silent") || !strings.Contains(refused, "Process old:2:bb: it is too old: v0.8.2") {
		t.Errorf("%d %+v", status, out)
	}
	if daemon.Health().Ready {
		t.Error("the process does not pause")
	}
	if e := d.audited("Control pause"); e.Who != "oli" {
		t.Errorf("%+v", e)
	}
	d.post(at("old:2:bb", "pause"), "oli operator").Has(t, "pause was not done", "too old: v0.8.2")
	d.Get(at("old:2:bb"), "oli operator").Has(t, "its release knows no commands")
	d.Get(at("stopped:1:aa")+"?ask=conf", "eve viewer").Has(t, "is silent")
	if status, out := d.act(at(id, "resume"), "oli operator", `{}`); status != http.StatusOK || !strings.Contains(out.Said, "takes jobs again") {
		t.Errorf("%d %+v", status, out)
	}
}

// A viewer can do none of it, an operator not what is an admin's, and a GET does nothing.
func TestRoles(t *testing.T) {
	t.Parallel()
	d := setup(t, "")
	id, _ := d.daemon("mailer")
	operators := map[string]bool{"pause": true, "resume": true, "log": true, "stacks": true}
	for _, verb := range []string{"pause", "resume", "log", "stacks", "shutdown", "concurrency", "autoscale", "queues", "profile", "verb"} {
		for _, path := range []string{at(id, verb), "/processes/" + verb} {
			if path == "/processes/"+verb && verb != "pause" && verb != "resume" && verb != "shutdown" {
				continue
			}
			if a := d.Do(http.MethodPost, path, "eve viewer", "application/json", fmt.Sprintf(`{"ids":[%q]}`, id)); a.Status != http.StatusForbidden {
				t.Errorf("%s by a viewer: %d", path, a.Status)
			}
			if a := d.Do(http.MethodPost, path, "lim admin mail", "application/json", `{}`); a.Status != http.StatusNotFound {
				t.Errorf("%s by a user of one queue: %d", path, a.Status)
			}
			if a := d.Do(http.MethodPost, path, "oli operator", "application/json", `{}`); (a.Status == http.StatusForbidden) == operators[verb] {
				t.Errorf("%s by an operator: %d", path, a.Status)
			}
		}
		if a := d.Get(at(id, verb), "ann admin"); a.Status != http.StatusMethodNotAllowed {
			t.Errorf("GET %s: %d", verb, a.Status)
		}
	}
	if a := d.Get(at(id), "eve viewer"); strings.Contains(a.Body, `method="post"`) {
		t.Error("a viewer has a form")
	}
	if n := d.redis.Int(t, "ZCARD", "resque:go:processes"); n != 1 {
		t.Errorf("%d processes", n)
	}
}

// What a process answers to questions is on its page, and is asked once for all in ten seconds.
func TestAsked(t *testing.T) {
	t.Parallel()
	d := setup(t, "")
	id, _ := d.daemon("mailer", func(_ *goworker.WorkerSettings, daemon *goworker.Daemon) {
		daemon.Register("SendEmail", func() {}, goworker.Timeout(30*time.Second))
	})
	for verb, want := range map[string]string{
		"conf": "PollInterval", "registered": "SendEmail", "report": "poller", "stats": "exchanges", "queues": "Takes jobs", "active": "No job", "reserved": "No job", "verbs": "work-queues",
	} {
		redistest.Eventually(t, daemontest.Soon, "the process says "+want, func() bool { // a busy one may be silent for the time of a question
			return strings.Contains(d.Get(at(id)+"?ask="+verb, "eve viewer").Body, want)
		})
	}
	if a := d.Get(at(id)+"?ask=shutdown", "eve viewer"); a.Status != http.StatusBadRequest {
		t.Errorf("a command is asked: %d", a.Status)
	}
	d.Get(at(id), "eve viewer").Has(t, "online", "mailer")
}

// A dead worker is removed once, a live one is not.
func TestWorkers(t *testing.T) {
	t.Parallel()
	d := setup(t, "")
	d.redis.Do(t, "SET", "resque:pruning_dead_workers_in_progress", "another") // or the daemon removes the dead worker itself
	_, _ = d.daemon("mailer")
	now := time.Now()
	for id, beat := range map[string]time.Time{"web-1:7:mail": now.Add(-time.Hour), "web-2:8:mail,<b>": now} {
		d.redis.Do(t, "SADD", "resque:workers", id)
		d.redis.Do(t, "HSET", "resque:workers:heartbeat", id, beat.UTC().Format(time.RFC3339))
		d.redis.Do(t, "SET", "resque:worker:"+id+":started", now.Add(-2*time.Hour).UTC().Format("2006-01-02 15:04:05 -0700"))
		d.redis.Do(t, "SET", "resque:worker:"+id, fmt.Sprintf(`{"queue":"mail","run_at":%q,"payload":{"class":"Ada<i>","args":[{"password":"hunter2hunter2"},9007199254740993]}}`, now.UTC().Format(time.RFC3339)))
	}
	a := d.Get("/processes?by=worker", "ann admin")
	a.Has(t, "web-1", "web-2", "Ada&lt;i&gt;", "9007199254740993")
	if strings.Contains(a.Body, "hunter2") {
		t.Error("a secret is shown")
	}
	if a := d.Get("/processes?by=worker&q=host:web-2", "ann admin"); strings.Contains(a.Body, "web-1") || !strings.Contains(a.Body, "web-2") {
		t.Error("the filter of hosts does not filter")
	}
	page := d.Get("/workers/"+url.PathEscape("web-1:7:mail"), "ann admin")
	page.Has(t, "Remove…", "Ada&lt;i&gt;", "9007199254740993")
	if strings.Contains(page.Body, "hunter2") {
		t.Error("a secret is shown")
	}
	if a := d.Get("/workers/nobody:1:x", "ann admin"); a.Status != http.StatusNotFound {
		t.Errorf("a worker that is not there: %d", a.Status)
	}
	if status, out := d.act("/workers/"+url.PathEscape("web-2:8:mail,<b>")+"/remove", "ann admin", `{}`); status != http.StatusConflict || !strings.Contains(out.Detail, "may live") {
		t.Errorf("%d %+v", status, out)
	}
	if status, _ := d.act("/workers/"+url.PathEscape("web-1:7:mail")+"/remove", "oli operator", `{}`); status != http.StatusForbidden {
		t.Errorf("an operator removes a worker: %d", status)
	}
	var wg sync.WaitGroup
	got := make([]int, 2)
	for n := range got {
		wg.Go(func() {
			got[n] = d.Do(http.MethodPost, "/api/v1/workers/"+url.PathEscape("web-1:7:mail")+"/remove", "ann admin", "application/json", `{}`).Status
		})
	}
	wg.Wait()
	for _, status := range got { // the second may find it gone, or find that it is removed as it wants
		if status != http.StatusOK && status != http.StatusNotFound {
			t.Errorf("two at a time get %v", got)
		}
	}
	if n := d.redis.Int(t, "LLEN", "resque:failed"); n != 1 {
		t.Errorf("%d failures", n)
	}
	if e := d.audited("RemoveWorker"); e.Who != "ann" {
		t.Errorf("%+v", e)
	}
	if status, out := d.act("/workers/remove", "ann admin", `{"ids":["web-1:7:mail","web-2:8:mail,<b>"]}`); status != http.StatusOK || out.Missing != 1 || len(out.Refused) != 1 || out.Done != 0 {
		t.Errorf("%d %+v", status, out)
	}
}
