package dashboard_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// later puts jobs into the two schedules, due in so long: goworker's, and resque-scheduler's.
func (d *desk) later(in time.Duration, queue string, payloads ...string) {
	d.Helper()
	for _, p := range payloads {
		d.redis.Do(d, "ZADD", "resque:go:schedule", time.Now().Add(in).UnixMilli(), fmt.Sprint(len(queue), ":", queue, p))
	}
}

func (d *desk) rubys(at int64, payloads ...string) {
	d.Helper()
	d.redis.Do(d, "ZADD", "resque:delayed_queue_schedule", at, at)
	for _, p := range payloads {
		d.redis.Do(d, "RPUSH", fmt.Sprint("resque:delayed:", at), p)
		d.redis.Do(d, "SADD", "resque:timestamps:"+p, fmt.Sprint("delayed:", at))
	}
}

type delayedRow struct {
	ID, Ref, Kind, Error, Class, Queue, Text, Home, Invalid string
	Attempt                                                 int
	Late                                                    bool
	Args                                                    []json.RawMessage
}

type delayedPage struct {
	Kind  string
	Jobs  []delayedRow
	Ahead *struct{ Columns []struct{ Value int } }
	Next  string
}

// delayed is a page of delayed jobs.
func (d *desk) delayed(user string, query ...string) delayedPage {
	d.Helper()
	q := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		q.Add(query[i], query[i+1])
	}
	return decoded[delayedPage](d, d.Get("/api/v1/delayed?"+q.Encode(), user))
}

// allDelayed is the first page with the jobs of all others: on a slow machine a page ends when its time is over.
func (d *desk) allDelayed(query string) (all delayedPage) {
	d.Helper()
	for after := ""; ; {
		p := decoded[delayedPage](d, d.Get("/api/v1/delayed?"+query+"&after="+after, ""))
		if after == "" {
			all.Ahead = p.Ahead
		}
		all.Jobs = append(all.Jobs, p.Jobs...)
		if after = p.Next; after == "" {
			return all
		}
	}
}

func (p delayedPage) names() string {
	var all []string
	for _, j := range p.Jobs {
		all = append(all, j.Class)
	}
	return strings.Join(all, " ")
}

// The page lists the jobs of both schedules by their times, and finds some of them.
func TestDelayed(t *testing.T) {
	t.Parallel()
	d := setup(t)
	if a := d.Get("/delayed", ""); !strings.Contains(a.Body, "Nothing is delayed") {
		t.Error(a.Status)
	}
	now := time.Now().Unix()
	d.later(30*time.Minute, "mail", `{"class":"Second","args":[9007199254740993,{"password":"hunter2"}],"id":"abc"}`)
	d.later(2*time.Hour, "mail", `{"class":"Fourth","args":[],"attempt":3,"error":"Net::ReadTimeout: no answer"}`)
	d.rubys(now+60, `{"class":"First","args":["a"],"queue":"low"}`, `{"class":"<script>alert(1)</script>","args":["`+strings.Repeat("x", 1<<18)+`"],"queue":"../x"}`)
	d.rubys(now+3600, `{"class":"Third","args":["a"],"queue":"low"}`)
	d.redis.Do(t, "SET", "resque:resque-retry:Third:86f7e437faa5a7fce15d1ddcb9eaeaea377667b8", 0)
	d.redis.Do(t, "SET", "resque:failure-resque-retry:Third:86f7e437faa5a7fce15d1ddcb9eaeaea377667b8", `{"exception":"Timeout","error":"late"}`)
	p := d.allDelayed("")
	if got := p.names(); got != "First <script>alert(1)</script> Second Third Fourth" || p.Ahead == nil || len(p.Ahead.Columns) != 72 {
		t.Errorf("%s", got)
	}
	if r := p.Jobs[2]; string(r.Args[0]) != "9007199254740993" || strings.Contains(string(r.Args[1]), "hunter2") || r.Home != "goworker" {
		t.Errorf("%+v", r)
	}
	if r := p.Jobs[3]; r.Kind != "retrying" || r.Attempt != 2 || r.Error != "Timeout: late" || r.Home != "resque-scheduler" {
		t.Errorf("%+v", r)
	}
	if r := p.Jobs[4]; r.Kind != "retrying" || r.Attempt != 3 || r.Error != "Net::ReadTimeout: no answer" {
		t.Errorf("%+v", r)
	}
	if r := p.Jobs[1]; r.Args != nil || len(r.Text) > 300 {
		t.Errorf("%d bytes of a large job", len(r.Text))
	}
	for _, c := range []struct{ query, want string }{
		{"kind=retry", "Third Fourth"}, {"kind=delayed", "First <script>alert(1)</script> Second"}, {"q=class:Fi*", "First"}, {"q=arg.1.password:hunter2", ""}, {"q=hunter2", ""},
		{fmt.Sprintf("from=%d&to=%d", now+60, now+60), "First <script>alert(1)</script>"}, {fmt.Sprintf("from=%d&to=%d&q=class:First", now+60, now+61), "First"}, {"kind=snoozed", p.names()},
		{"q=" + url.QueryEscape(`class:"First" args:"[\"a\"]"`), "First"},
	} {
		got := d.allDelayed(c.query)
		if got.names() != c.want {
			t.Errorf("%s: %s, want %s", c.query, got.names(), c.want)
		}
		if a := d.Get("/delayed?"+c.query, ""); a.Status != http.StatusOK || strings.Contains(a.Body, "<script>alert") || strings.Contains(a.Body, "hunter2\"") && !strings.Contains(c.query, "hunter2") || len(a.Body) > 200_000 {
			t.Errorf("%s: %d, %d bytes", c.query, a.Status, len(a.Body))
		}
	}
	a := d.Get("/delayed?q="+url.QueryEscape("class:F* queue:low"), "")
	if !strings.Contains(a.Body, ">queue:low<") || !strings.Contains(a.Body, `href="/delayed?q=queue%3Alow"`) {
		t.Error("no chips of the conditions")
	}
	a = d.Get("/delayed?q="+url.QueryEscape(`class:A nosuch:"x`), "")
	if a.Status != http.StatusOK || !strings.Contains(a.Body, `id="wrong"`) {
		t.Error(a.Status)
	}
	for _, bad := range []string{"q=%22", "from=tomorrow", "after=x", "q=state:failed"} {
		if a := d.Get("/api/v1/delayed?"+bad, ""); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d", bad, a.Status)
		}
	}
	if a := d.Get("/delayed/"+fmt.Sprint(now+60), ""); a.Status != http.StatusMovedPermanently || !strings.Contains(d.Get(a.Header.Get("Location"), "").Body, "First") {
		t.Error(a.Status)
	}
}

// Pages of a kind, and of a user's queues, begin where the one before ended.
func TestDelayedPages(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 300 {
		d.later(time.Hour+time.Duration(n)*time.Second, []string{"mail", "low", "secret"}[n%3], fmt.Sprintf(`{"class":"C%03d","args":[],"attempt":%d}`, n, 1+n%2))
	}
	for user, want := range map[string]int{"ops admin": 150, "eve viewer mail low": 100} {
		seen, last := 0, ""
		for after := ""; ; {
			p := d.delayed(user, "kind", "retry", "after", after)
			for _, j := range p.Jobs {
				if j.Class <= last || j.Queue == "secret" && user != "ops admin" {
					t.Errorf("%s: %s behind %s", user, j.Class, last)
				}
				last = j.Class
			}
			if seen += len(p.Jobs); len(p.Jobs) > 50 {
				t.Errorf("%d rows", len(p.Jobs))
			}
			if after = p.Next; after == "" {
				break
			}
		}
		if seen != want {
			t.Errorf("%s sees %d, want %d", user, seen, want)
		}
	}
	if a := d.Get("/delayed", "eve viewer mail"); strings.Contains(a.Body, "300 wait") || strings.Contains(a.Body, "secret") || strings.Contains(a.Body, `id="ahead"`) {
		t.Error("a user of one queue sees totals")
	}
}

// Jobs are run, rescheduled and cancelled by what they are, and that is taken back.
func TestDelayedActions(t *testing.T) {
	t.Parallel()
	d := setup(t)
	now := time.Now().Unix()
	d.later(time.Hour, "mail", `{"class":"A","args":[1],"id":"a"}`, `{"class":"B","args":[2],"id":"b"}`)
	d.later(2*time.Hour, "mail", `{"class":"C","args":[3],"id":"c"}`)
	d.rubys(now+60, `{"class":"R","args":["a"],"queue":"low"}`, `{"class":"S","args":["a"],"queue":"low"}`)
	ids := map[string]string{}
	for _, j := range d.allDelayed("").Jobs {
		ids[j.Class] = j.ID
	}
	for _, action := range []string{"run", "reschedule", "cancel", "clear"} {
		if a := d.Post("/delayed/"+action, "eve viewer", "ids", ids["A"], "all", "1", "in", "1h"); a.Status != http.StatusForbidden {
			t.Errorf("a viewer: %s %d", action, a.Status)
		}
		if a := d.Get("/delayed/"+action, ""); a.Status != http.StatusMethodNotAllowed && a.Status != http.StatusNotFound {
			t.Errorf("GET %s: %d", action, a.Status)
		}
	}
	if a := d.Post("/delayed/clear", "bob operator", "all", "1"); a.Status != http.StatusForbidden {
		t.Error(a.Status)
	}
	if a := d.Post("/delayed/cancel", "bob operator low", "ids", ids["A"]); a.Status != http.StatusSeeOther || d.redis.Int(t, "ZCARD", "resque:go:schedule") != 3 {
		t.Error("a user of another queue cancels a job")
	}

	var both sync.WaitGroup
	for n := range 2 {
		both.Go(func() { d.Post("/delayed/run", fmt.Sprintf("bob%d operator", n), "ids", ids["A"]) })
	}
	both.Wait()
	if got := d.redis.List(t, "LRANGE", "resque:queue:mail", 0, -1); len(got) != 1 || !strings.Contains(got[0], `"A"`) {
		t.Errorf("two who run a job: %v", got)
	}
	out := decoded[outcome](d, d.Do(http.MethodPost, "/api/v1/delayed/run", "bob operator", "application/json", fmt.Sprintf(`{"ids":[%q,%q],"to":"head"}`, ids["B"], ids["R"])))
	if out.Done != 2 || out.Operation == "" {
		t.Errorf("%+v", out)
	}
	if got := d.redis.List(t, "LRANGE", "resque:queue:mail", 0, -1); len(got) != 2 || !strings.Contains(got[0], `"B"`) || d.redis.Int(t, "LLEN", "resque:queue:low") != 1 {
		t.Errorf("%v", got)
	}
	out = decoded[outcome](d, d.Do(http.MethodPost, "/api/v1/delayed/run", "bob operator", "application/json", fmt.Sprintf(`{"ids":[%q]}`, ids["A"])))
	if out.Done != 0 || out.Missing != 1 {
		t.Errorf("a job that has gone: %+v", out)
	}

	out = decoded[outcome](d, d.Do(http.MethodPost, "/api/v1/delayed/reschedule", "bob operator", "application/json", fmt.Sprintf(`{"ids":[%q],"in":"10m"}`, ids["C"])))
	p := d.allDelayed("q=class:C")
	if out.Done != 1 || len(p.Jobs) != 1 || p.Jobs[0].ID == ids["C"] {
		t.Errorf("%+v %+v", out, p.Jobs)
	}
	for _, body := range []string{`{"ids":["x"],"in":"1h"}`, `{"ids":["1-a"]}`, `{"ids":["1-a"],"in":"1h","at":"2030-01-01"}`, `{"ids":["1-a"],"at":"soon"}`, `{"in":"1h"}`} {
		if a := d.Do(http.MethodPost, "/api/v1/delayed/reschedule", "bob operator", "application/json", body); a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", body, a.Status, a.Body)
		}
	}

	out = decoded[outcome](d, d.Do(http.MethodPost, "/api/v1/delayed/cancel", "bob operator", "application/json", fmt.Sprintf(`{"ids":[%q,%q]}`, p.Jobs[0].ID, ids["S"])))
	if out.Done != 2 || !out.Undo || d.redis.Int(t, "ZCARD", "resque:go:schedule") != 0 || d.redis.Int(t, "ZCARD", "resque:delayed_queue_schedule") != 0 {
		t.Errorf("%+v", out)
	}
	for _, err := range d.Client.Inspect().Operations().Undo(t.Context(), out.Operation) {
		if err != nil {
			t.Fatal(err)
		}
	}
	if got := d.allDelayed("").names(); got != "S C" {
		t.Errorf("taken back: %s", got)
	}
	entries, err := d.Client.Inspect().Audit(t.Context(), 100)
	if err != nil {
		t.Fatal(err)
	}
	by := 0
	for _, e := range entries {
		if e.Who == "bob" && e.Face == "dashboard" {
			by++
		}
	}
	if by < 3 {
		t.Errorf("%+v", entries)
	}
}

// All that fit, and all, are changed as operations that say first what they would do.
func TestDelayedAll(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 120 {
		d.later(time.Hour+time.Duration(n)*time.Minute, "mail", fmt.Sprintf(`{"class":"A","args":[%d],"id":"a%d","attempt":%d}`, n, n, 1+n%2))
	}
	if a := d.Post("/delayed/cancel", "", "all", "1", "filter", "class:B"); a.Status != http.StatusSeeOther {
		t.Error(a.Status)
	}
	a := d.Post("/delayed/run", "", "all", "1", "kind", "retry", "due_to", fmt.Sprint(time.Now().Add(90*time.Minute).Unix()))
	if a.Status != http.StatusOK || !strings.Contains(a.Body, "15 jobs") || !strings.Contains(a.Body, `name="go"`) {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := d.Post("/delayed/cancel", "", "all", "1", "kind", "delayed"); a.Status != http.StatusBadRequest {
		t.Error(a.Status)
	}
	if a := d.Post("/delayed/clear", "", "all", "1", "filter", "class:A"); a.Status != http.StatusBadRequest {
		t.Error(a.Status)
	}
	if a := d.Post("/delayed/clear", ""); a.Status != http.StatusBadRequest {
		t.Error(a.Status)
	}
	a = d.Post("/delayed/clear", "", "all", "1")
	if a.Status != http.StatusOK || !strings.Contains(a.Body, "120") || !strings.Contains(a.Body, `name="confirm"`) {
		t.Errorf("%d", a.Status)
	}
	if a = d.Post("/delayed/clear", "", "all", "1", "go", "1", "expect", "120", "confirm", "12"); d.redis.Int(t, "ZCARD", "resque:go:schedule") != 120 {
		t.Error("a wrong number clears")
	}
	if a = d.Post("/delayed/clear", "", "all", "1", "go", "1", "expect", "120", "confirm", "120"); a.Status != http.StatusSeeOther {
		t.Error(a.Status, a.Body)
	}
	redistest.Eventually(t, time.Minute, "no job is delayed", func() bool { return d.redis.Int(t, "ZCARD", "resque:go:schedule") == 0 })
}

// Jobs that equal each other are as many as are named, and one of a second with thousands of jobs is found.
func TestDelayedEqual(t *testing.T) {
	t.Parallel()
	d := setup(t)
	at := time.Now().Add(time.Hour).Unix()
	d.redis.Do(t, "EVAL", `for n = 1, 1500 do redis.call('RPUSH', KEYS[1], '{"class":"R","args":[' .. n .. '],"queue":"low"}') end`, 1, fmt.Sprint("resque:delayed:", at))
	same := `{"class":"Same","args":[],"queue":"low"}`
	d.rubys(at, same, same, same)
	p := d.allDelayed("q=class:Same")
	if len(p.Jobs) != 3 || p.Jobs[0].ID != p.Jobs[2].ID {
		t.Fatalf("%+v", p.Jobs)
	}
	d.Post("/delayed/cancel", "", "ids", p.Jobs[0].ID, "ids", p.Jobs[1].ID)
	if n := d.redis.Int(t, "LLEN", fmt.Sprint("resque:delayed:", at)); n != 1501 {
		t.Errorf("%d are left", n)
	}
}

// A page of the delayed jobs costs few commands, however many there are.
func TestDelayedBudget(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for n := range 200 {
		d.rubys(time.Now().Add(time.Duration(n)*time.Second).Unix(), fmt.Sprintf(`{"class":"R","args":[%d],"queue":"low"}`, n))
	}
	d.Get("/", "")
	before := d.redis.Int(t, "DBSIZE")
	m := d.redis.Monitor(t)
	d.Get("/delayed", "")
	if n := len(m.Commands()); n > 130 { // two for each second of resque-scheduler's
		t.Errorf("%d commands", n)
	}
	if after := d.redis.Int(t, "DBSIZE"); after > before+2 {
		t.Errorf("%d keys, and %d before", after, before)
	}
}
