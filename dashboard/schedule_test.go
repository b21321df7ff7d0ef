package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/dashboard"
)

type scheduleRow struct {
	Name, State, Words, Cron, Zone, Class, Queue, Source, Owner, Digest, Broken string
	Kept                                                                        bool
	Next                                                                        string
	Args                                                                        []json.RawMessage
	Config                                                                      json.RawMessage
	Ticks                                                                       []string `json:"next_ticks"`
	Parameters                                                                  []struct{ Name, Default string }
}

type schedulePage struct {
	Schedules   []scheduleRow
	Environment string
	Locks       []struct{ Holder string }
	Differences []struct{ Name, What string }
	FileError   string   `json:"file_error"`
	OnDuty      []string `json:"on_duty"`
}

func (d *desk) schedules(user string) schedulePage {
	d.Helper()
	return decoded[schedulePage](d, d.Get("/api/v1/schedule", user))
}

func (p schedulePage) names() string {
	var all []string
	for _, s := range p.Schedules {
		all = append(all, s.Name)
	}
	return strings.Join(all, " ")
}

// plant keeps schedules as resque-scheduler does, and begins them.
func (d *desk) plant(pairs ...string) {
	d.Helper()
	for i := 0; i+1 < len(pairs); i += 2 {
		d.redis.Do(d, "HSET", "resque:persistent_schedules", pairs[i], pairs[i+1])
		d.redis.Do(d, "HSET", "resque:go:ticks", pairs[i], fmt.Sprint(time.Now().UnixMilli(), " host-1:7:x t"))
	}
}

// The page shows the schedules of Redis, those that only their ticks show, and those of Ruby, with what they will do.
func TestSchedule(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "schedule.yml")
	if err := os.WriteFile(file, []byte("sweep:\n  every: 10m\n  class: Sweep\n  queue: low\nnew:\n  cron: '0 3 * * *'\n  class: New\n  queue: low\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	d := setup(t, func(o *dashboard.Options) { o.Environment, o.ScheduleFile = "production", file })
	if a := d.Get("/schedule", ""); a.Status != http.StatusOK || !strings.Contains(a.Body, "There are no schedules") {
		t.Error(a.Status)
	}
	d = setup(t, func(o *dashboard.Options) { o.Environment, o.ScheduleFile = "production", file })
	d.plant("nightly", `{"class":"Report","cron":"0 18 * * mon-fri Europe/Berlin","queue":"reports","args":[{"password":"hunter2"}],"description":"<b>figures</b>"}`,
		"sweep", `{"class":"Sweep","every":"20m","queue":"low"}`, "staging", `{"class":"S","every":"1h","queue":"low","rails_env":"staging"}`, "broken", `{"class":"B","cron":"0 99 * * *","queue":"low"}`,
		"../x", `{"class":"<script>alert(1)</script>","every":"1h","queue":"a/b?c%d"}`)
	d.redis.Do(t, "HSET", "resque:go:ticks", "in code", fmt.Sprint(time.Now().UnixMilli(), " host-1:7:x t"))
	d.redis.Do(t, "HSET", "resque:delayed:last_enqueued_at", "rubys", "2026-11-21 03:00:00 +0000")
	d.redis.Do(t, "SET", "resque:resque:resque_scheduler_master_lock", "web-1:7", "EX", 180)
	p := d.schedules("")
	byName := map[string]scheduleRow{}
	for _, s := range p.Schedules {
		byName[s.Name] = s
	}
	if len(byName) != 7 || p.Environment != "production" || len(p.Locks) != 1 || p.Locks[0].Holder != "web-1:7" || len(p.OnDuty) != 1 {
		t.Errorf("%+v", p)
	}
	if s := byName["nightly"]; s.Words != "on weekdays at 18:00" || s.Zone != "Europe/Berlin" || s.Source != "Redis" || s.Next == "" || strings.Contains(string(s.Config), "hunter2") || !strings.Contains(string(s.Config), "0 18") {
		t.Errorf("%+v", s)
	}
	for name, want := range map[string]string{"staging": "elsewhere", "broken": "broken", "sweep": ""} {
		if byName[name].State != want {
			t.Errorf("%s is %q", name, byName[name].State)
		}
	}
	if byName["in code"].Source != "code or file" || byName["rubys"].Source != "Ruby's" {
		t.Errorf("%+v", byName)
	}
	var differs []string
	for _, f := range p.Differences {
		differs = append(differs, f.Name+" "+f.What)
	}
	if got := strings.Join(differs, ", "); !strings.Contains(got, "new only in the file") || !strings.Contains(got, "sweep differs") {
		t.Errorf("%s %s", got, p.FileError)
	}
	for path, wants := range map[string][]string{
		"/schedule":                  {"The next 24 hours", "on weekdays at 18:00", "web-1:7", "only in staging", "Redis and the file differ"},
		"/schedule/nightly":          {"Report", "Change it", "Run it now", "&lt;b&gt;figures"},
		"/schedule/..%2Fx":           {"every hour", "a/b?c%d"},
		"/schedule/in%20code":        {"Only its process knows them"},
		"/schedule/broken":           {"does not run"},
		"/schedule?q=repo":           {"nightly"},
		"/schedule?q=nosuchschedule": {"No schedule fits"},
	} {
		a := d.Get(path, "")
		for _, want := range wants {
			if a.Status != http.StatusOK || !strings.Contains(a.Body, want) {
				t.Errorf("%s: %d has no %q", path, a.Status, want)
			}
		}
		if strings.Contains(a.Body, "hunter2") || strings.Contains(a.Body, "<script>alert") || strings.Contains(a.Body, "ZgotmplZ") {
			t.Errorf("%s shows what it must not", path)
		}
	}
	if one := decoded[scheduleRow](d, d.Get("/api/v1/schedule/nightly", "")); len(one.Ticks) != 10 {
		t.Errorf("%v", one.Ticks)
	}
	if a := d.Get("/schedule/nosuch", ""); a.Status != http.StatusNotFound {
		t.Error(a.Status)
	}
	if a := d.Get("/schedule", "eve viewer"); strings.Contains(a.Body, "popovertarget=\"add\"") || strings.Contains(a.Body, "/run\"") {
		t.Error("a viewer sees buttons")
	}
	if got := d.schedules("eve viewer reports").names(); got != "nightly" {
		t.Errorf("a user of one queue sees %s", got)
	}
	for _, name := range []string{"sweep", "in%20code", "broken"} {
		if a := d.Get("/schedule/"+name, "eve viewer reports"); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d", name, a.Status)
		}
	}
}

// Schedules are paused and run by operators.
func TestScheduleOperators(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.plant("nightly", `{"class":"Report","cron":"0 3 * * *","queue":"reports","args":[{"all":true,"token":"hunter2"}],"parameters":{"day":{"description":"which","default":"today"},"api_key":{"default":"hunter2"}}}`, "plain", `{"class":"P","every":"1h","queue":"low","args":[9007199254740993]}`)
	for _, action := range []string{"run", "pause", "resume", "set", "delete"} {
		if a := d.Post("/schedule/nightly/"+action, "eve viewer", "queue", "q"); a.Status != http.StatusForbidden {
			t.Errorf("a viewer: %s %d", action, a.Status)
		}
		if a := d.Post("/schedule/nightly/"+action, "bob operator low", "queue", "q"); a.Status != http.StatusNotFound && a.Status != http.StatusForbidden {
			t.Errorf("a user of another queue: %s %d", action, a.Status)
		}
	}
	for _, action := range []string{"set", "delete"} {
		if a := d.Post("/schedule/plain/"+action, "bob operator"); a.Status != http.StatusForbidden {
			t.Errorf("%s: %d", action, a.Status)
		}
	}
	if a := d.Post("/schedule/plain/run", "bob operator low"); a.Status != http.StatusSeeOther {
		t.Error(a.Status, a.Body)
	}
	d.Post("/schedule/plain/run", "bob operator", "args", `["other"]`)
	if got := strings.Join(d.jobs("low"), " "); got != `{"class":"P","args":[9007199254740993]} {"class":"P","args":["other"]}` {
		t.Error(got)
	}
	page := d.Get("/schedule/nightly", "bob operator").Body
	if !strings.Contains(page, `name="p.day"`) || strings.Contains(page, "hunter2") {
		t.Error("parameters are not asked for, or not masked")
	}
	one := decoded[scheduleRow](d, d.Get("/api/v1/schedule/nightly", ""))
	if len(one.Parameters) != 2 {
		t.Fatalf("%+v", one)
	}
	d.Post("/schedule/nightly/run", "bob operator", "p.day", "monday", "p.api_key", one.Parameters[0].Default)
	var job struct{ Args []map[string]any }
	if all := d.jobs("reports"); len(all) != 1 || json.Unmarshal([]byte(all[0]), &job) != nil || fmt.Sprint(job.Args) != "[map[all:true api_key:hunter2 day:monday token:hunter2]]" {
		t.Errorf("%v", all)
	}
	if a := d.Post("/schedule/plain/run", "bob operator", "args", `{"a":1}`); a.Status != http.StatusBadRequest {
		t.Error(a.Status)
	}

	var both sync.WaitGroup
	for n := range 2 {
		both.Go(func() { d.Post("/schedule/plain/pause", fmt.Sprintf("bob%d operator", n)) })
	}
	both.Wait()
	if got := d.redis.List(t, "HKEYS", "resque:go:paused-schedules"); len(got) != 1 || got[0] != "plain" {
		t.Error(got)
	}
	if s := decoded[scheduleRow](d, d.Get("/api/v1/schedule/plain", "")); s.State != "paused" {
		t.Error(s.State)
	}
	d.Post("/schedule/plain/resume", "bob operator")
	if got := d.redis.List(t, "HKEYS", "resque:go:paused-schedules"); len(got) != 0 {
		t.Error(got)
	}
	for _, action := range []string{"run", "pause", "resume"} {
		if a := d.Post("/schedule/nosuch/"+action, "bob operator"); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d", action, a.Status)
		}
		if a := d.Get("/schedule/plain/"+action, ""); a.Status != http.StatusMethodNotAllowed && a.Status != http.StatusNotFound {
			t.Errorf("GET %s: %d", action, a.Status)
		}
	}
	d.redis.Do(t, "HSET", "resque:go:ticks", "in code", fmt.Sprint(time.Now().UnixMilli(), " host-1:7:x t"))
	if a := d.Post("/schedule/in%20code/run", "bob operator"); a.Status != http.StatusConflict {
		t.Error(a.Status)
	}
	if a := d.Post("/schedule/in%20code/pause", "bob operator"); a.Status != http.StatusSeeOther {
		t.Error(a.Status)
	}
}

// Schedules in Redis are added, changed and deleted by admins, and deleting is taken back.
func TestScheduleAdmins(t *testing.T) {
	t.Parallel()
	d := setup(t)
	a := d.Post("/schedule/set", "", "name", "nightly", "was", "new", "cron", "0 3 * * *", "class", "Echo", "queue", "low", "args", `["a"]`, "description", "d")
	if a.Status != http.StatusSeeOther || a.Header.Get("Location") != "/schedule/nightly" {
		t.Fatal(a.Status, a.Body)
	}
	kept := func(name string) string { return d.redis.Text(t, "HGET", "resque:persistent_schedules", name) }
	// as resque-scheduler's set_schedule keeps it
	if got := kept("nightly"); got != `{"class":"Echo","cron":"0 3 * * *","queue":"low","args":["a"],"description":"d"}` {
		t.Error(got)
	}
	if got := d.redis.List(t, "SMEMBERS", "resque:schedules_changed"); len(got) != 1 {
		t.Error(got)
	}
	if a := d.Post("/schedule/set", "", "name", "nightly", "was", "new", "every", "1h", "queue", "low"); a.Status != http.StatusConflict {
		t.Error(a.Status)
	}
	for _, bad := range [][]string{{"queue", "low"}, {"every", "1h"}, {"cron", "x", "queue", "low"}, {"cron", "@daily", "every", "1h", "queue", "low"}, {"every", "1h", "queue", "low", "args", "{}"}, {"config", "[]"}, {"every", "1h", "queue", "low", "args", `["•••"]`}} {
		if a := d.Post("/schedule/x/set", "", bad...); a.Status != http.StatusBadRequest && kept("x") == "" {
			t.Errorf("%v: %d %s", bad, a.Status, a.Body)
		}
	}
	d.plant("secret", `{"class":"S","cron":"0 3 * * *","queue":"low","args":[{"password":"hunter2","day":1}],"custom":"kept"}`)
	s := decoded[scheduleRow](d, d.Get("/api/v1/schedule/secret", ""))
	args := strings.Replace(fmt.Sprint("[", string(s.Args[0]), "]"), `"day":1`, `"day":2`, 1)
	if a := d.Post("/schedule/secret/set", "", "was", s.Digest, "cron", "0 4 * * *", "class", "S", "queue", "low", "args", args); a.Status != http.StatusSeeOther {
		t.Fatal(a.Status, a.Body)
	}
	if got := kept("secret"); !strings.Contains(got, "hunter2") || !strings.Contains(got, `"day":2`) || !strings.Contains(got, `"custom":"kept"`) || !strings.Contains(got, "0 4") {
		t.Error(got)
	}
	if a := d.Post("/schedule/secret/set", "", "was", s.Digest, "every", "1h", "queue", "low"); a.Status != http.StatusConflict {
		t.Error("a change of what is other than was seen:", a.Status)
	}
	if a := d.Post("/schedule/secret/delete", "", "was", s.Digest); a.Status != http.StatusConflict {
		t.Error(a.Status)
	}
	before := kept("secret")
	a = d.act("/schedule/secret/delete", "ada admin", "{}")
	var out struct {
		Back struct {
			Path   string
			Fields map[string]string
		}
	}
	if json.Unmarshal([]byte(a.Body), &out) != nil || out.Back.Path != "/schedule/secret/set" || strings.Contains(a.Body, "hunter2") {
		t.Fatal(a.Body)
	}
	if a := d.Post("/schedule/secret/delete", ""); a.Status != http.StatusConflict { // its ticks are known still
		t.Error(a.Status)
	}
	body, _ := json.Marshal(out.Back.Fields)
	if a := d.act(out.Back.Path, "bob operator", string(body)); a.Status != http.StatusForbidden {
		t.Error(a.Status)
	}
	if a := d.act(out.Back.Path, "", string(body)); a.Status != http.StatusOK {
		t.Error(a.Status, a.Body)
	}
	if got := kept("secret"); len(got) != len(before) || !strings.Contains(got, "hunter2") {
		t.Errorf("%s, and it was %s", got, before)
	}
	if a := d.act("/schedule/never/set", "", `{"undo":"1"}`); a.Status != http.StatusNotFound {
		t.Error(a.Status)
	}
	a = d.Post("/schedule/secret/delete", "")
	if a = d.Do(http.MethodGet, "/schedule", "", "", "", a.Cookies()...); !strings.Contains(a.Body, `action="/schedule/secret/set"`) {
		t.Error("the answer has no Undo")
	}
}
