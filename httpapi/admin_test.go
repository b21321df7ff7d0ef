package httpapi_test

import (
	"bufio"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// The calls of lmstfy's admin port, in their order, with their answers.
func TestLmstfyAdmin(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{})
	r := g.ask("POST", g.admin+"/token/shop?description=first", "")
	g.want("a token", r, 201, `{"token":"`)
	var made struct{ Token string }
	g.must(json.Unmarshal([]byte(r.body), &made))
	const own = "own-token-0123456789"
	form := "Content-Type: application/x-www-form-urlencoded"
	for _, tt := range []struct {
		method, path, body string
		status             int
		want               string // the whole body, unless it ends in …
	}{
		{"POST", "/token/shop", "", 400, `{"error":"invalid description"}`},
		{"POST", "/token/shop", "description=by+form&token=" + own, 201, `{"token":"` + own + `"}`},
		{"POST", "/token/shop", "description=again&token=" + own, 400, `{"error":"the token has already existed"}`},
		{"POST", "/token/shop", "description=short&token=0123456789", 400, `{"error":"the user token was too short"}`},
		{"POST", "/token/shop", "description=" + strings.Repeat("x", 64<<10), 400, `{"error":"invalid description"}`},
		{"POST", "/token/shop?pool=east", "description=x", 400, `{"error":"the pool was not exists"}`},
		{"POST", "/token/a.b", "description=x", 400, `{"error":"namespace name contains forbidden characters"}`},
		{"GET", "/token/shop", "", 200, `{"tokens":{"sha256:…`},
		{"GET", "/token/shop?pool=east", "", 400, `{"error":"the pool was not exists"}`},
		{"GET", "/token/blog", "", 200, `{"tokens":{}}`},
		{"GET", "/token/shop/" + own + "/limit", "", 404, `null`},
		{"POST", "/token/shop/" + own + "/limit", `{"read":10,"write":20,"interval":0}`, 400, `{"error":"interval should be > 0"}`},
		{"POST", "/token/shop/" + own + "/limit", `{`, 400, `{"error":"the body is not the JSON…`},
		{"POST", "/token/shop/none-of-these-tokens-at-all/limit", `{"read":10,"write":20,"interval":1}`, 404, `{"error":"no such token"}`},
		{"POST", "/token/shop/" + own + "/limit", `{"read":10,"write":20,"interval":30}`, 201, `{"limiter":{"interval":30,"read":10,"write":20}}`},
		{"POST", "/token/shop/" + own + "/limit", `{"read":10,"write":20,"interval":30}`, 409, `{"error":"throttler token(own-…) has already exists"}`},
		{"PUT", "/token/shop/" + own + "/limit", `{"read":11,"write":21,"interval":31}`, 200, `{"limiter":{"interval":31,"read":11,"write":21}}`},
		{"GET", "/token/shop/" + own + "/limit", "", 200, `{"interval":31,"read":11,"write":21}`},
		{"GET", "/limits", "", 200, `{"default/shop/sha256:…`},
		{"GET", "/limits?force_update=true", "", 200, `{"default/shop/sha256:…`},
		{"DELETE", "/token/shop/" + own + "/limit", "", 200, `{"msg":"success"}`},
		{"GET", "/limits", "", 200, `{}`},
		{"DELETE", "/token/shop/" + own, "", 204, ``},
		{"DELETE", "/token/shop/" + own, "", 204, ``},
		{"DELETE", "/token/shop/default:" + made.Token, "", 204, ``},
		{"GET", "/token/shop", "", 200, `{"tokens":{}}`},
		{"GET", "/pools", "", 200, `["default"]`},
		{"GET", "/pools/", "", 200, `["default"]`},
		{"GET", "/accesslog", "", 200, `{"status":"enabled"}`},
		{"POST", "/accesslog?status=disable", "", 200, `{"status":"disabled"}`},
		{"GET", "/accesslog", "", 200, `{"status":"disabled"}`},
		{"POST", "/accesslog?status=x", "", 400, `{"error":"invalid status"}`},
		{"POST", "/accesslog?status=enable", "", 200, `{"status":"enabled"}`},
		{"GET", "/version", "", 200, `{"build_commit":…`},
		{"GET", "/info", "", 200, "{}\n"},
		{"GET", "/info?pool=east", "", 400, `{"error":"the pool was not exists"}`},
		{"GET", "/debug/pprof/", "", 404, "…"},
	} {
		var headers []string
		if strings.Contains(tt.body, "description=") {
			headers = append(headers, form)
		}
		r := g.ask(tt.method, g.admin+tt.path, tt.body, headers...)
		start, open := strings.CutSuffix(tt.want, "…")
		if r.status != tt.status || open && !strings.HasPrefix(r.body, start) || !open && r.body != tt.want {
			t.Errorf("%s %s: %d %s, want %d %s", tt.method, tt.path, r.status, r.body, tt.status, tt.want)
		}
	}
	// By the name that the list shows.
	g.ask("POST", g.admin+"/token/shop?description=named", "")
	var list struct{ Tokens map[string]string }
	g.must(json.Unmarshal([]byte(g.ask("GET", g.admin+"/token/shop", "").body), &list))
	for name, description := range list.Tokens {
		if description != "named" {
			t.Errorf("%s is %q", name, description)
		}
		g.want("its limit by name", g.ask("POST", g.admin+"/token/shop/"+name+"/limit", `{"read":1,"write":1,"interval":1}`), 201, "limiter")
		g.want("of another namespace", g.ask("GET", g.admin+"/token/blog/"+name+"/limit", ""), 404, "null")
		g.want("its end by name", g.ask("DELETE", g.admin+"/token/shop/"+name, ""), 204, "")
	}
	token, _ := g.token(`{"namespace":"shop"}`)
	g.ask("PUT", g.url+"/api/shop/mail", "x", "X-Token: "+token)
	g.want("the queues", g.ask("GET", g.admin+"/info", ""), 200, "{\n    \"shop\": [\n        \"mail\"\n    ]\n}")
}

// The calls that lmstfy has not.
func TestTokensOverHTTP(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{})
	type shown struct {
		ID, Token, Namespace, Pool, Description string
		Scopes, Queues                          []string
		Expires                                 string
		Limits                                  *struct{ Read, Write, Interval int }
	}
	parse := func(r got) (s shown) {
		t.Helper()
		if err := json.Unmarshal([]byte(r.body), &s); err != nil {
			t.Fatalf("%d %s: %v", r.status, r.body, err)
		}
		return s
	}
	r := g.ask("POST", g.admin+"/tokens", `{"namespace":"shop","scopes":["publish"],"queues":["mail"],"description":"d","limits":{"read":1,"write":2,"interval":3}}`)
	first := parse(r)
	if r.status != 201 || r.header.Get("Location") != "/tokens/"+first.ID || r.header.Get("Cache-Control") != "no-store" ||
		first.Namespace != "shop" || first.Pool != "default" || !slices.Equal(first.Scopes, []string{"publish"}) || first.Limits.Interval != 3 {
		t.Errorf("the token is %d %s %v", r.status, r.body, r.header)
	}
	if one := parse(g.ask("GET", g.admin+"/tokens/"+first.ID, "")); one.Token != "" || one.ID != first.ID {
		t.Errorf("it is read as %+v", one)
	}
	fresh := parse(g.ask("POST", g.admin+"/tokens/"+first.ID+"/rotate", `{"after_ms":3600000}`))
	for _, token := range []string{first.Token, fresh.Token} {
		g.want("both are valid", g.ask("POST", g.url+"/v2/shop/queues/mail/jobs", "x", bearer(token)), 201, "")
	}
	if old := parse(g.ask("GET", g.admin+"/tokens/"+first.ID, "")); old.Expires == "" {
		t.Error("the old one never ends")
	}
	if last := parse(g.ask("POST", g.admin+"/tokens/"+fresh.ID+"/rotate", `{"after_ms":0}`)); last.Token == "" {
		t.Error("no token was made")
	}
	g.want("one that ended at once", g.ask("POST", g.url+"/v2/shop/queues/mail/jobs", "x", bearer(fresh.Token)), 401, "bad-token")
	g.want("other limits", g.ask("PUT", g.admin+"/tokens/"+first.ID+"/limits", `{"read":9,"write":9,"interval":9}`), 200, `"read":9`)
	if one := parse(g.ask("DELETE", g.admin+"/tokens/"+first.ID+"/limits", "")); one.Limits != nil {
		t.Errorf("the limits are %+v", one.Limits)
	}
	var list struct{ Tokens []shown }
	g.must(json.Unmarshal([]byte(g.ask("GET", g.admin+"/tokens?namespace=shop", "").body), &list))
	if len(list.Tokens) < 2 {
		t.Errorf("the list has %d tokens", len(list.Tokens))
	}
	for _, tt := range []struct {
		method, path, body string
		status             int
		part               string
	}{
		{"POST", "/tokens", `{"namespace":"a.b"}`, 400, "namespace"},
		{"POST", "/tokens", `{"namespace":"shop","pool":"east"}`, 400, "east"},
		{"POST", "/tokens", `{"namespace":"shop","scopes":["fly"]}`, 400, "fly"},
		{"POST", "/tokens", `{"namespace":"shop","queues":[""]}`, 400, "queue"},
		{"POST", "/tokens", `{"namespace":"shop","limits":{"interval":100000}}`, 400, "longer than a day"},
		{"POST", "/tokens", `{"namespace":"shop","expires":"2020-01-01T00:00:00Z"}`, 400, "over already"},
		{"POST", "/tokens", `{"namespace":"shop","token":"short"}`, 400, "too short"},
		{"POST", "/tokens", `{"namspace":"shop"}`, 400, "namspace"},
		{"POST", "/tokens", `{"namespace":"shop"} x`, 400, "JSON"},
		{"POST", "/tokens", `{"namespace":"` + strings.Repeat("x", 70<<10) + `"}`, 413, "bytes"},
		{"POST", "/tokens/" + first.ID + "/rotate", `{"after_ms":-1}`, 400, "after_ms"},
		{"GET", "/tokens/0000000000000000", "", 404, "no such token"},
		{"DELETE", "/tokens/0000000000000000", "", 404, "no such token"},
		{"DELETE", "/tokens/" + first.ID, "", 204, ""},
		{"DELETE", "/tokens/" + first.ID, "", 404, ""},
	} {
		g.want(tt.method+" "+tt.path, g.ask(tt.method, g.admin+tt.path, tt.body), tt.status, tt.part)
	}
}

// With accounts the admin handler serves who has one; without, this machine only, and no page of another site.
func TestAdminIsGuarded(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{})
	g.want("another host", g.ask("GET", g.admin+"/tokens", "", "Host: evil.example"), 403, "localhost")
	g.want("another site", g.ask("POST", g.admin+"/tokens", `{"namespace":"shop"}`, "Origin: https://evil.example", "Sec-Fetch-Site: cross-site"), 403, "")
	locked := g.another(httpapi.Settings{Accounts: map[string]string{"ada": "secret-of-ada"}, Pprof: true})
	basic := func(name, password string) string {
		r := httptest.NewRequest("GET", "/", nil)
		r.SetBasicAuth(name, password)
		return "Authorization: " + r.Header.Get("Authorization")
	}
	for _, tt := range []struct {
		path, auth string
		status     int
	}{
		{"/tokens", "", 401}, {"/tokens", basic("ada", "guess"), 401}, {"/tokens", basic("bob", "secret-of-ada"), 401}, {"/tokens", basic("ada", "secret-of-ada"), 200},
		{"/token/shop", "", 401}, {"/limits", "", 401}, {"/debug/pprof/", "", 401}, {"/debug/pprof/", basic("ada", "secret-of-ada"), 200},
		{"/metrics", "", 200}, {"/version", "", 200}, {"/info", "", 200}, {"/pools", "", 200}, {"/accesslog", "", 200},
	} {
		var headers []string
		if tt.auth != "" {
			headers = append(headers, tt.auth)
		}
		r := locked.ask("GET", locked.admin+tt.path, "", headers...)
		if r.status != tt.status || (tt.status == 401) != (r.header.Get("WWW-Authenticate") != "") {
			t.Errorf("%s with %q: %d %v", tt.path, tt.auth, r.status, r.header)
		}
	}
	locked.want("a change without an account", locked.ask("POST", locked.admin+"/accesslog?status=disable", ""), 401, "account")
	made := locked.ask("POST", locked.admin+"/tokens", `{"namespace":"shop"}`, basic("ada", "secret-of-ada"))
	locked.want("a change with one", made, 201, "token")
	if audit := locked.redis.List(t, "LRANGE", "resque:go:audit", 0, -1); len(audit) != 1 || !strings.Contains(audit[0], `"who":"ada"`) {
		t.Errorf("the audit is %q", audit)
	}
	for _, address := range []string{"0.0.0.0:0", ":0", "[::]:0", "10.1.2.3:0"} {
		s := httpapi.Server{API: g.api, Listen: "127.0.0.1:0", AdminListen: address}
		if err := s.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "set accounts") {
			t.Errorf("the admin address %s: %v", address, err)
		}
	}
	for _, settings := range []httpapi.Settings{
		{Pprof: true}, {Accounts: map[string]string{"": "x"}}, {MaxBody: -1}, {Namespaces: map[string]httpapi.Namespace{"a.b": {}}},
		{Namespaces: map[string]httpapi.Namespace{"a": {Bare: true}, "b": {Bare: true}}}, {Namespaces: map[string]httpapi.Namespace{"a": {Queues: []string{"x"}}}},
		{Pools: map[string]httpapi.Pool{"east": {}}}, {Pools: map[string]httpapi.Pool{"a:b": {}}}, {Certificates: map[string]string{"cn": ""}},
		{Namespaces: map[string]httpapi.Namespace{"a": {MaxLength: -1}}},
	} {
		client, err := goworker.NewClient(goworker.WorkerSettings{URI: g.redis.URI()})
		g.must(err)
		if _, err := httpapi.New(client, settings); err == nil {
			t.Errorf("the settings %+v are taken", settings)
		}
		client.Close()
	}
}

var sample = regexp.MustCompile(`^[a-z_:]+(\{[a-z_]+="(\\.|[^"\\])*"(,[a-z_]+="(\\.|[^"\\])*")*\})? -?[0-9.e+-]+$`)

// Every line of the metrics is in the text format, the numbers are those of what was done, and there are not more series than may
// be, whatever clients send.
func TestMetrics(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{LmstfyMetrics: true})
	token, _ := g.token(`{"namespace":"shop"}`)
	for range 3 {
		g.want("a publish", g.ask("PUT", g.url+"/api/shop/mail", "x", "X-Token: "+token), 201, "")
	}
	r := g.ask("GET", g.url+"/api/shop/mail", "", "X-Token: "+token)
	g.want("a consume", r, 200, "job_id")
	var job struct {
		ID string `json:"job_id"`
	}
	g.must(json.Unmarshal([]byte(r.body), &job))
	g.want("an end", g.ask("DELETE", g.url+"/api/shop/mail/job/"+job.ID, "", "X-Token: "+token), 204, "")
	// One job goes back by a nack and then dies of another one, another goes back when its lease ends, and one dies so.
	for queue, tries := range map[string]string{"late": "2", "slow": "1"} {
		g.want("a publish", g.ask("PUT", g.url+"/api/shop/"+queue+"?tries="+tries, "x", "X-Token: "+token), 201, "")
		g.want("a consume", g.ask("GET", g.url+"/api/shop/"+queue+"?ttr=1", "", "X-Token: "+token), 200, "")
	}
	g.want("a publish", g.ask("PUT", g.url+"/api/shop/ill?tries=2", "x", "X-Token: "+token), 201, "")
	for range 2 {
		r := g.ask("GET", g.url+"/api/shop/ill?timeout=30", "", "X-Token: "+token)
		g.must(json.Unmarshal([]byte(r.body), &job))
		g.want("a nack", g.ask("PUT", g.url+"/api/shop/ill/job/"+job.ID+"/nack", "", "X-Token: "+token), 204, "")
	}
	redisEventually(t, "the leases end", func() bool {
		stats := g.api.Stats().Pools["default"]
		return stats.Returned == 2 && stats.Dead == 2
	})
	for i := range 600 {
		g.ask("GET", g.url+"/api/shop/x"+strconv.Itoa(i), "", "X-Token: "+token)
	}
	for _, path := range []string{"/nothing", "/v2/x/y", `/api/"/`, "/api/shop/queue%22%0A"} {
		g.ask("GET", g.url+path, "")
	}
	g.ask("BREW", g.url+"/api/shop/mail", "")
	for i := range 600 {
		g.redis.Do(t, "SADD", "resque:queues", `zodd"queue\`+strconv.Itoa(i))
	}
	text := g.ask("GET", g.admin+"/metrics", "").body
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	seen := make(map[string]bool)
	for _, line := range lines {
		if strings.HasPrefix(line, "# ") {
			continue
		}
		if !sample.MatchString(line) {
			t.Errorf("a line is not in the text format: %s", line)
		}
		series := line[:strings.LastIndexByte(line, ' ')]
		if seen[series] {
			t.Errorf("%s is there twice", series)
		}
		seen[series] = true
	}
	if len(lines) > 8000 {
		t.Errorf("there are %d lines", len(lines))
	}
	for _, want := range []string{
		`goworker_http_returned_total{pool="default",why="nacked"} 1`, `goworker_http_returned_total{pool="default",why="ttr"} 1`,
		`goworker_http_returned_total{pool="default",why="released"} 0`, `goworker_http_dead_total{pool="default"} 2`,
		`goworker_queue_dead{pool="default",queue="shop.ill"} 1`, `goworker_queue_dead{pool="default",queue="shop.slow"} 1`,
		`goworker_http_published_total{ns="shop",queue="mail"} 3`, `goworker_http_reserved_total{ns="shop",queue="mail"} 1`,
		`goworker_http_acked_total{ns="shop",queue="mail"} 1`, `goworker_http_wait_seconds_count 4`, `goworker_http_ack_seconds_count 1`,
		`goworker_http_redis_up{pool="default"} 1`, `goworker_http_tokens 1`, `infra_lmstfy_redis_publish_queue_jobs{namespace="shop",queue="mail"} 3`,
		`# TYPE goworker_http_request_seconds histogram`,
	} {
		if !slices.Contains(lines, want) {
			t.Errorf("there is no line %s", want)
		}
	}
	if stats := g.api.Stats(); stats.Tokens != 1 || stats.Requests < 600 || stats.Pools["default"].Published != 6 || stats.Pools["default"].Acked != 1 {
		t.Errorf("the numbers are %+v", stats)
	}
}

// A worker of a pattern that would fail the jobs of HTTP is named once, with the exclusion to add.
func TestLookout(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	for _, id := range []string{"ruby:1:*", "ruby:2:mail,*", "ruby:3:shop.mail", "ruby:4:*,!shop.*", "ruby:5:other"} {
		redis.Do(t, "SADD", "resque:workers", id)
	}
	g := guardedOn(t, redis, httpapi.Settings{})
	token, _ := g.token(`{"namespace":"shop"}`)
	g.want("a publish", g.ask("POST", g.url+"/v2/shop/queues/mail/jobs", "x", bearer(token)), 201, "")
	g.eventually("the takers are named", func() bool {
		return strings.Contains(g.ask("GET", g.url+"/v2/shop/queues/mail", "", bearer(token)).body, `"taken_by":["ruby:1:*","ruby:2:mail,*","ruby:3:shop.mail"]`)
	})
	events, err := http.NewRequestWithContext(t.Context(), "GET", g.url+"/v2/shop/events", nil)
	g.must(err)
	events.Header.Set("X-Token", token)
	stream, err := g.client.Do(events)
	g.must(err)
	defer stream.Body.Close()
	event := ""
	for lines := bufio.NewScanner(stream.Body); event == "" && lines.Scan(); {
		if text, is := strings.CutPrefix(lines.Text(), "data: "); is {
			event = text
		}
	}
	if !strings.Contains(event, `"taken_by":["ruby:1:*"`) {
		t.Errorf("the event names no takers: %s", event)
	}
	said := g.said.String()
	if strings.Count(said, "Ruby worker fails those") != 2 || !strings.Contains(said, `"exclude":"*,!shop.*"`) || !strings.Contains(said, `"queue":"shop.mail"`) {
		t.Errorf("the log is\n%s", said)
	}
}

// Tokens can be made without a server, too.
func TestTokensOfClient(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{})
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: g.redis.URI(), Logger: slog.New(slog.DiscardHandler)})
	g.must(err)
	defer client.Close()
	all := httpapi.NewTokens(client, "ada")
	made, err := all.Create(t.Context(), httpapi.Token{Namespace: "shop", Scopes: []string{"peek"}, Limits: &httpapi.Limits{Read: 3, Interval: 1e9}})
	g.must(err)
	known(t, made, g.api)
	g.want("it is valid", g.ask("GET", g.url+"/v2/shop/queues", "", bearer(made.Token)), 200, "")
	g.want("it may not publish", g.ask("POST", g.url+"/v2/shop/queues/mail/jobs", "x", bearer(made.Token)), 403, "publish")
	if _, err := all.Create(t.Context(), httpapi.Token{Namespace: "shop", Token: made.Token}); err != httpapi.ErrTokenExists {
		t.Errorf("the same token: %v", err)
	}
	for _, bad := range []httpapi.Token{{}, {Namespace: "shop", Token: "short"}, {Namespace: "shop", Limits: &httpapi.Limits{}}, {Namespace: "shop", Limits: &httpapi.Limits{Interval: 1}}} {
		if _, err := all.Create(t.Context(), bad); err == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
	g.must(all.SetLimits(t.Context(), made.ID, nil))
	fresh, err := all.Rotate(t.Context(), made.ID, 0)
	g.must(err)
	list, err := all.List(t.Context(), "shop")
	g.must(err)
	if !slices.ContainsFunc(list, func(one httpapi.Token) bool {
		return one.ID == fresh.ID && one.Token == "" && one.Limits == nil && one.Pool == "default"
	}) {
		t.Errorf("the list is %+v", list)
	}
	g.must(all.Revoke(t.Context(), fresh.ID))
	if err := all.Revoke(t.Context(), fresh.ID); err != httpapi.ErrNoToken {
		t.Errorf("revoked again: %v", err)
	}
	g.eventually("it is refused", func() bool {
		return g.ask("GET", g.url+"/v2/shop/queues", "", bearer(fresh.Token)).status == http.StatusUnauthorized
	})
}
