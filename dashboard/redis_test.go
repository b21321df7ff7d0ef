package dashboard_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/dashboard/internal/dashtest"
	"github.com/goworker/goworker/internal/redistest"
)

// as is a dashboard over the same Redis under another user of it.
func (d *desk) as(name string, rules ...any) *desk {
	d.Helper()
	redistest.OwnUser(d.T)
	d.redis.Do(d, "ACL", append([]any{"SETUSER", name, "reset", "on"}, rules...)...)
	uri := strings.Replace(d.redis.URI(), "redis://", "redis://"+name+":"+redistest.ACLPassword+"@", 1)
	return &desk{dashtest.Open(d.T, uri), d.redis}
}

// rules are those of users of docs/redis.md, without some.
func rulesOf(t *testing.T, without []string, users ...string) (all []any) {
	for _, user := range users {
		for _, rule := range redistest.ACL(t, user)[1:] {
			if !slices.Contains(without, rule) && (rule != "-@all" || all == nil) && !slices.Contains(all, any(rule)) {
				all = append(all, rule)
			}
		}
	}
	if at := slices.Index(all, any("-@all")); at > 0 { // it takes away what comes before it
		all = append([]any{"-@all"}, slices.Delete(all, at, at+1)...)
	}
	return all
}

type redisPage struct {
	Servers  []map[string]any
	Families *struct {
		Measured string
		Families []struct {
			Name string
			Keys int64
		}
		Others struct{ Keys int64 } `json:"other_programs"`
		Whole  bool
	}
	Checks *struct {
		Found []redisFinding
		Rest  []struct{ State, Rule string }
	}
	Refused []string
}

type redisFinding struct {
	ID, Check, Text, Command string
	Fixable                  bool
}

// The page of Redis says how it is, what takes the memory and what is wrong, and a finding that can be mended is mended once, by an admin.
func TestRedisPage(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fillQueue("mail", 3)
	for n := range 7 {
		d.redis.Do(t, "SET", fmt.Sprint("secretprogram:", n), "x")
	}
	d.redis.Do(t, "RPUSH", "resque:delayed:1791981136", `{"class":"Later","args":[],"queue":"mail"}`)
	var p redisPage
	at := -1
	redistest.Eventually(t, 2*time.Minute, "the checks have seen all", func() bool {
		p = redisPage{}
		d.Read("/redis", "", &p)
		if p.Checks == nil {
			return false
		}
		at = slices.IndexFunc(p.Checks.Found, func(f redisFinding) bool { return f.Fixable })
		if at < 0 { // on a busy machine their time is over before they have, and a dashboard keeps that for a quarter of an hour
			d = &desk{dashtest.Open(t, d.redis.URI()), d.redis}
		}
		return at >= 0
	})
	if len(p.Servers) != 1 || p.Servers[0]["role"] != "master" || p.Servers[0]["memory_bytes"].(float64) < 1000 || len(p.Refused) > 0 {
		t.Errorf("%+v", p)
	}
	if f := p.Families; f == nil || f.Others.Keys != 7 || !f.Whole || len(f.Families) < 3 {
		t.Errorf("%+v", f)
	}
	mend := "/redis/checks/" + p.Checks.Found[at].ID + "/fix"
	a := d.Get("/redis", "")
	if !strings.Contains(a.Body, mend) || !strings.Contains(a.Body, "data-copy") || strings.Contains(a.Body, "secretprogram") {
		t.Error(a.Body)
	}
	if a := d.Get("/redis", "bob operator"); strings.Contains(a.Body, mend) {
		t.Error("an operator has the button")
	}
	if a := d.Post(mend, "bob operator"); a.Status != http.StatusForbidden {
		t.Error(a.Status)
	}
	if a := d.act(mend, "", `{"why":"doctor says so"}`); a.Status != http.StatusOK || !strings.Contains(a.Body, `"done":1`) {
		t.Error(a.Status, a.Body)
	}
	if n := d.redis.Int(t, "ZCARD", "resque:delayed_queue_schedule"); n != 1 {
		t.Errorf("%d seconds are named", n)
	}
	if a := d.act(mend, "", ""); a.Status != http.StatusNotFound {
		t.Error(a.Status, a.Body)
	}
	if !strings.Contains(d.audited(), "dashboard ops: ") {
		t.Error(d.audited())
	}
}

// A check that cannot look again does not say that all is well.
func TestFixUnseen(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "RPUSH", "resque:delayed:1791981136", `{"class":"Later","args":[],"queue":"mail"}`)
	var all *desk
	var p redisPage
	at := -1
	redistest.Eventually(t, 2*time.Minute, "the checks have seen all", func() bool {
		all, p = d.as("all", rulesOf(t, nil, "operator", "watcher", "doctor")...), redisPage{}
		redistest.Eventually(t, 2*time.Minute, "the checks have looked", func() bool { all.Read("/redis", "", &p); return p.Checks != nil })
		at = slices.IndexFunc(p.Checks.Found, func(f redisFinding) bool { return f.Fixable })
		return at >= 0
	})
	d.redis.Do(t, "ACL", "SETUSER", "all", "-scan")
	if a := all.act("/redis/checks/"+p.Checks.Found[at].ID+"/fix", "", ""); a.Status != http.StatusServiceUnavailable || strings.Contains(a.Body, "no longer wrong") {
		t.Error(a.Status, a.Body)
	}
	if n := d.redis.Int(t, "ZCARD", "resque:delayed_queue_schedule"); n != 0 {
		t.Errorf("%d seconds are named", n)
	}
}

// What takes the memory is measured once a minute, and again when asked.
func TestMeasureAgain(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fillQueue("mail", 3)
	_, form, found := strings.Cut(d.Get("/redis", "").Body, `name="fresh" value="`)
	if !found {
		t.Fatal("there is no button")
	}
	seen, _, _ := strings.Cut(form, `"`)
	d.fillQueue("pay", 3)
	queues := func(query string) int64 {
		var p redisPage
		d.Read("/redis"+query, "", &p)
		for _, f := range p.Families.Families {
			if f.Name == "queue" {
				return f.Keys
			}
		}
		return 0
	}
	if n := queues(""); n != 1 {
		t.Errorf("%d queues, a moment later", n)
	}
	if n := queues("?fresh=" + seen); n != 2 {
		t.Errorf("%d queues, measured again", n)
	}
	d.fillQueue("low", 3)
	if n := queues("?fresh=" + seen); n != 2 {
		t.Errorf("%d queues: the same address measures each time", n)
	}
}

// Keys of the namespace are listed and shown, masked; those of other programs are a number.
func TestKeyPages(t *testing.T) {
	t.Parallel()
	d := setup(t, func(o *dashboard.Options) { o.MaskArgs = map[string][]string{"Charge": {"0"}} })
	d.redis.Do(t, "SADD", "resque:queues", "mail", `a/b?c%d <script>`)
	long := strings.Repeat("x", 3000)
	for _, job := range []string{
		`{"class":"Charge","args":["hidden-short"]}`, `{"class":"Charge","args":["hidden-long","` + long + `"]}`, `{"args":["hidden-first","` + long + `"],"class":"Charge"}`,
		`{"class":"Send","args":[{"password":"hidden-word","to":"ann"},"` + long + `"]}`, "hidden-text password=hidden-text " + long, `{"class":"<script>alert(1)</script>","args":[9007199254740993]}`,
	} {
		d.redis.Do(t, "RPUSH", "resque:queue:mail", job)
		d.redis.Do(t, "RPUSH", `resque:queue:a/b?c%d <script>`, job)
	}
	d.redis.Do(t, "RPUSH", "resque:failed", `{"error":"hidden-error","payload":{"class":"Charge","args":["hidden-error"]},"backtrace":["`+long+`"]}`)
	d.redis.Do(t, "SET", "resque:mine", "hidden-mine", "EX", 1000)
	d.redis.Do(t, "HSET", "resque:go:http:tokens", "hidden-digest", "hidden-record")
	d.redis.Do(t, "SET", "hidden:1", "hidden-value")
	var list struct {
		Keys []struct {
			Name, Family, Type string
			TTL                int64 `json:"ttl_ms"`
		}
		Looked int64
		Others int64 `json:"other_programs"`
	}
	d.Read("/redis/keys", "", &list)
	if list.Looked != 7 || list.Others != 1 || len(list.Keys) != 6 {
		t.Errorf("%+v", list)
	}
	pages := []string{"/redis/keys", "/redis/slow"}
	for _, k := range list.Keys {
		pages = append(pages, "/redis/keys/"+url.PathEscape(k.Name))
		if k.Name == "resque:mine" && (k.TTL < 900_000 || k.Type != "string" || k.Family != "other") {
			t.Errorf("%+v", k)
		}
	}
	for _, path := range pages {
		for _, prefix := range []string{"", "/api/v1"} {
			a := d.Get(prefix+path, "eve viewer")
			if a.Status != http.StatusOK || strings.Contains(a.Body, "hidden-") || strings.Contains(a.Body, "hidden:") || prefix == "" && strings.Contains(a.Body, "<script>") {
				t.Errorf("%s%s: %d %s", prefix, path, a.Status, a.Body)
			}
		}
	}
	a := d.Get("/redis/keys/"+url.PathEscape("queue:mail"), "") // as resque-web links it
	for _, want := range []string{"9007199254740993", "Too long to be masked in part", "resque:queue:mail", "ann"} {
		if !strings.Contains(a.Body, want) {
			t.Errorf("the page of the queue lacks %q: %s", want, a.Body)
		}
	}
	for _, name := range []string{"hidden:1", "resque:nosuch", "x"} {
		if a := d.Get("/redis/keys/"+url.PathEscape(name), ""); a.Status != http.StatusNotFound {
			t.Errorf("%s: %d %s", name, a.Status, a.Body)
		}
	}
	if d.Read("/redis/keys?match=queue:*", "", &list); len(list.Keys) != 2 {
		t.Errorf("%+v", list)
	}
	if a := d.Get("/redis/keys?match=nosuch*", ""); !strings.Contains(a.Body, "No key fits") {
		t.Error(a.Body)
	}
	if a := d.Get("/redis/keys?after=x", ""); a.Status != http.StatusBadRequest {
		t.Error(a.Status)
	}
}

// The slow log shows which commands were slow, and nothing of their arguments.
func TestSlowPage(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "0")
	d.redis.Do(t, "RPUSH", "resque:queue:mail", "hidden-job")
	d.redis.Do(t, "RPUSH", "other:list", "hidden-other")
	d.redis.Do(t, "CONFIG", "SET", "slowlog-log-slower-than", "-1")
	a := d.Get("/redis/slow", "")
	if !strings.Contains(a.Body, "RPUSH") || !strings.Contains(a.Body, "resque:queue:mail") || strings.Contains(a.Body, "hidden-") || strings.Contains(a.Body, "other:list") {
		t.Error(a.Body)
	}
}

// /stats.txt has the bytes of resque-web, for users who may look.
func TestStatsText(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fillQueue("mail", 2)
	d.redis.Do(t, "SET", "resque:stat:processed", 7)
	a := d.Get("/stats.txt", "eve viewer")
	if want := "resque.pending=2\nresque.processed+=7\nresque.failed+=0\nresque.workers=0\nresque.working=0\nqueues.mail=2"; a.Body != want || !strings.HasPrefix(a.Header.Get("Content-Type"), "text/plain") {
		t.Errorf("%q %v", a.Body, a.Header)
	}
	d.redis.Kill()
	redistest.Eventually(t, redisGone, "it says that Redis is away", func() bool { return d.Get("/stats.txt", "").Status == http.StatusServiceUnavailable })
}

// As the users of docs/redis.md the pages show all, and without a rule they leave its part out and name the rule.
func TestRulesOfRedis(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.fillQueue("mail", 3)
	pages := []string{"/redis", "/redis/keys", "/redis/keys/queue:mail", "/redis/slow", "/operations", "/bin", "/audit", "/http", "/http?v=tokens", "/stats.txt"}
	all := d.as("all", rulesOf(t, nil, "operator", "watcher", "doctor")...)
	for _, path := range pages {
		if a := all.Get(path, ""); a.Status != http.StatusOK || strings.Contains(a.Body, "ACL rule") {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
	alone := map[string]*desk{"watcher": d.as("watches", rulesOf(t, nil, "watcher")...), "operator": d.as("operates", rulesOf(t, nil, "operator")...)}
	for _, tt := range []struct{ user, path, rule string }{
		{"watcher", "/operations", "+zrange"}, {"watcher", "/bin", "+zrange"}, {"watcher", "/http?v=tokens", "+hgetall"}, {"watcher", "/http", "+zrangebyscore"},
		{"operator", "/redis", "+config|get"}, {"operator", "/redis", "+memory|usage"}, {"operator", "/redis/slow", "+slowlog|get"}, {"operator", "/redis/keys", "+type"},
	} {
		if a := alone[tt.user].Get(tt.path, ""); a.Status != http.StatusOK || !strings.Contains(html.UnescapeString(a.Body), "ACL rule "+tt.rule) {
			t.Errorf("%s as %s: %d %s", tt.path, tt.user, a.Status, a.Body)
		}
	}
	for n, tt := range []struct{ path, rule string }{
		{"/redis", "+config|get"}, {"/redis", "+memory|usage"}, {"/redis", "+dbsize"}, {"/redis/keys", "+type"}, {"/redis/keys", "+pttl"}, {"/redis/keys/queue:mail", "+object|encoding"}, {"/redis/slow", "+slowlog|get"},
		{"/http?v=tokens", "+hgetall"}, {"/audit", "+lrange"},
	} {
		few := d.as(fmt.Sprint("few", n), rulesOf(t, []string{tt.rule}, "operator", "watcher")...)
		if a := few.Get(tt.path, ""); a.Status != http.StatusOK || !strings.Contains(html.UnescapeString(a.Body), "ACL rule "+tt.rule) {
			t.Errorf("%s without %s: %d %s", tt.path, tt.rule, a.Status, a.Body)
		}
	}
}
