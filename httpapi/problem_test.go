package httpapi_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// TestV2EveryProblem brings a server to answer each problem that a request or the state of Redis leads to.
func TestV2EveryProblem(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{
		MaxBody: 10_000, Namespaces: map[string]httpapi.Namespace{"small": {MaxLength: 2}},
	})
	token := func(t httpapi.Token) []string {
		made, err := httpapi.NewTokens(p.jobs, "").Create(p.t.Context(), t)
		if err != nil {
			p.t.Fatal(err)
		}
		known(p.t, made, p.api)
		return []string{"Authorization", "Bearer " + made.Token}
	}
	all := token(httpapi.Token{Namespace: "shop"})
	small := token(httpapi.Token{Namespace: "small"})
	some := token(httpapi.Token{Namespace: "shop", Scopes: []string{"publish", "peek"}, Queues: []string{"a*"}})
	slow := token(httpapi.Token{Namespace: "shop", Limits: &httpapi.Limits{Write: 1, Interval: time.Hour}})
	with := func(headers []string, more ...string) []string { return append(slices.Clone(headers), more...) }
	const jobs = "/v2/shop/queues/q/jobs"
	deep := strings.Repeat("[", 200) + strings.Repeat("]", 200)
	for _, parameter := range []string{"at", "expires_at"} {
		for _, value := range []string{`"soon"`, `true`, `-1`, `1e3`, `{}`, `[1]`, `""`} {
			got := p.problem("invalid-parameter", 400, "POST", jobs, `{"`+parameter+`":`+value+`}`, with(all, "Content-Type", envelopeType)...)
			if got["parameter"] != parameter {
				t.Errorf("%v", got)
			}
		}
	}
	if got := p.problem("invalid-parameter", 400, "DELETE", "/v2/shop/queues/q/dead", `{"until":0.5}`, all...); got["parameter"] != "until" {
		t.Errorf("%v", got)
	}
	seen := make(map[string]bool)
	expect := func(name string, method, path, body string, headers []string) anything {
		t.Helper()
		seen[name] = true
		return p.problem(name, httpapi.ProblemTypes()[name], method, path, body, headers...)
	}

	for _, tt := range []struct{ name, method, path, body string }{
		{"no-route", "GET", "/v2/shop/nothing", ""},
		{"no-route", "GET", "/v2", ""},
		{"no-route", "GET", "/v2/", ""},
		{"method-not-allowed", "PATCH", jobs, ""},
		{"method-not-allowed", "POST", "/healthz", ""},
		{"no-queue", "GET", "/v2/shop/queues/none", ""},
		{"no-result", "GET", jobs + "/x/result", ""},
		{"no-job", "POST", jobs + "/x/ack", "{}"},
		{"body-too-large", "POST", jobs, strings.Repeat("x", 10_001)},
		{"invalid-json", "POST", "/v2/shop/reservations", `{"queues":`},
		{"invalid-json", "POST", "/v2/shop/reservations", `{"queues":["a"]} {}`},
		{"invalid-json", "POST", "/v2/shop/reservations", `["a"]`},
		{"invalid-json", "POST", "/v2/shop/reservations", "{\"queues\":[\"\xff\"]}"},
		{"invalid-parameter", "POST", "/v2/shop/reservations", `{}`},
		{"invalid-parameter", "POST", "/v2/shop/reservations", `{"queues":["a"],"count":501}`},
		{"invalid-parameter", "POST", "/v2/shop/reservations", `{"queues":["a"],"ttr_ms":999}`},
		{"invalid-parameter", "POST", "/v2/shop/reservations", `{"queues":["a"],"wait_ms":600001}`},
		{"invalid-parameter", "POST", "/v2/shop/reservations", `{"queues":"a"}`},
		{"invalid-parameter", "POST", "/v2/shop/reservations", `{"queues":["a"],"cuont":1}`},
		{"invalid-parameter", "POST", "/v2/shop/reservations", `{"queues":["a,b"]}`},
		{"invalid-parameter", "POST", jobs + "?delay=1", ""},
		{"invalid-parameter", "POST", jobs + "?tries=1&tries=2", ""},
		{"invalid-parameter", "POST", jobs + "?tries=many", ""},
		{"invalid-parameter", "POST", jobs + "?delay_ms=-1", ""},
		{"invalid-parameter", "POST", jobs + "?delay_ms=1&at=2030-01-01T00:00:00Z", ""},
		{"invalid-parameter", "POST", jobs + "?ttl_ms=1&expires_at=2030-01-01T00:00:00Z", ""},
		{"invalid-parameter", "POST", jobs + "?at=tomorrow", ""},
		{"invalid-parameter", "POST", jobs + "?id=a%20b", ""},
		{"invalid-parameter", "POST", jobs + "?priority=3", ""},
		{"invalid-parameter", "POST", "/v2/shop/queues/msgpack:x/jobs", ""},
		{"invalid-parameter", "POST", "/v2/shop/queues/%2A/jobs", ""},
		{"invalid-parameter", "POST", "/v2/shop/queues/%2E%2E/jobs", ""},
		{"invalid-parameter", "POST", "/v2/shop/queues/" + strings.Repeat("q", 256) + "/jobs", ""},
		{"invalid-parameter", "POST", jobs + "?%zz", ""},
		{"invalid-parameter", "GET", jobs + "/" + strings.Repeat("i", 129), ""},
	} {
		expect(tt.name, tt.method, tt.path, tt.body, all)
	}
	for _, body := range []string{
		`{"args":1}`, `{"args":[],"body":1}`, `{"body_base64":"#"}`, `{"unique":1}`, `{"unique":{"until":"never"}}`, `{"unique":{"until":"elapsed"}}`,
		`{"unique":{"keys":"a"}}`, `{"meta":{"a":1}}`, `{"at":true}`, `{"at":-1}`, `{"class":"\u0001"}`, `{"tries":65536}`, `{"id":""}`, `{"nonsense":1}`,
	} {
		expect("invalid-parameter", "POST", jobs, body, with(all, "Content-Type", envelopeType))
	}
	expect("invalid-json", "POST", jobs, "{", with(all, "Content-Type", "application/json"))
	expect("invalid-json", "POST", jobs, "", with(all, "Content-Type", "application/json"))
	if got := expect("invalid-json", "POST", jobs, "{\"class\":\n  nonsense}", with(all, "Content-Type", envelopeType)); got["line"] != 2.0 || got["column"] != 4.0 {
		t.Errorf("%v", got)
	}
	expect("too-deep", "POST", jobs, `{"args":`+deep+`}`, with(all, "Content-Type", envelopeType))
	expect("too-deep", "POST", jobs+"/x/ack", `{"result":`+deep+`}`, all)
	expect("too-much-metadata", "POST", jobs, "", with(all, "Goworker-Meta-A", strings.Repeat("x", 129)))
	expect("too-much-metadata", "POST", jobs, "", with(all, "Goworker-Meta-"+strings.Repeat("x", 33), "x"))
	many := all
	for i := range 17 {
		many = with(many, fmt.Sprint("Goworker-Meta-", i), "x")
	}
	expect("too-much-metadata", "POST", jobs, "", many)
	expect("too-many-jobs", "POST", jobs, strings.Repeat("{}\n", 1001), with(all, "Content-Type", "application/x-ndjson"))
	if got := expect("invalid-parameter", "POST", jobs, "{}\n{\"unique\":true}", with(all, "Content-Type", "application/x-ndjson")); got["parameter"] != "unique" || got["line"] != 2.0 {
		t.Errorf("a unique job among many: %v", got)
	}
	expect("body-too-large", "POST", jobs, `{"body":"`+strings.Repeat("x", 10_001)+`"}`, with(all, "Content-Type", "application/x-ndjson"))

	expect("no-token", "GET", "/v2/shop/queues", "", nil)
	expect("no-token", "GET", "/v2/shop/queues?token=x", "", nil)
	expect("bad-token", "GET", "/v2/shop/queues", "", []string{"X-Token", strings.Repeat("x", 26)})
	expect("bad-token", "GET", "/v2/shop/queues", "", small)
	expect("no-pool", "GET", "/v2/shop/queues", "", []string{"X-Token", "elsewhere:" + strings.Repeat("x", 26)})
	expect("forbidden", "POST", "/v2/shop/reservations", `{"queues":["a"]}`, some)
	expect("forbidden", "POST", jobs, "", some)
	expect("forbidden", "GET", "/v2/shop/events?queues=a,b", "", some)
	if r := p.send("GET", "/v2/shop/queues", ""); r.header.Get("WWW-Authenticate") == "" {
		t.Error("a 401 says not how to authenticate")
	}

	p.send("POST", jobs+"?id=first", "", all...)
	p.send("POST", "/v2/shop/reservations", `{"queues":["q"]}`, all...)
	expect("is-reserved", "DELETE", jobs+"/first", "", all)
	expect("lease-lost", "POST", jobs+"/first/ack", `{"lease":"1"}`, all)
	expect("exists", "POST", jobs+"?id=first", "", all)
	expect("key-reused", "POST", jobs, func() string {
		p.send("POST", jobs, "a", with(all, "Idempotency-Key", "k")...)
		return "b"
	}(), with(all, "Idempotency-Key", "k"))
	for range 2 {
		p.send("POST", "/v2/small/queues/q/jobs", "", small...)
	}
	if got := expect("queue-full", "POST", "/v2/small/queues/q/jobs", "", small); got["length"] != 2.0 || got["most"] != 2.0 {
		t.Errorf("%v", got)
	}
	p.send("POST", jobs, "", slow...)
	expect("rate-limited", "POST", jobs, "", slow)
	if r := p.send("POST", jobs, "", slow...); r.header.Get("Retry-After") == "" {
		t.Error("a 429 says not when to try again")
	}
	calls := make(chan reply, 1)
	go func() { calls <- p.send("POST", "/v2/shop/queues/calls/call?wait_ms=60000&id=c", "", all...) }()
	p.send("POST", "/v2/shop/reservations", `{"queues":["calls"],"wait_ms":30000}`, all...)
	p.send("POST", "/v2/shop/queues/calls/jobs/c/fail", "{}", all...)
	r := <-calls
	seen["job-failed"] = r.status == 422 && strings.Contains(r.body, "#job-failed")
	p.redis.Do(t, "EVAL", "for _ = 1, 60000 do redis.call('RPUSH', KEYS[1], ARGV[1]) end", 1, "resque:queue:shop.long", `{"class":"C","args":[]}`)
	expect("not-found-in-time", "GET", "/v2/shop/queues/long/jobs/none", "", all)

	// What is wrong with Redis.
	p.redis.Do(t, "SET", "resque:queue:shop.wrong", "x")
	if got := expect("wrong-type", "POST", "/v2/shop/queues/wrong/jobs", "", all); got["key"] != "resque:queue:shop.wrong" {
		t.Errorf("%v", got)
	}
	p.redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	expect("redis-full", "POST", jobs, "", all)
	p.redis.Do(t, "CONFIG", "SET", "maxmemory", "0")
	p.redis.Kill()
	redistest.Eventually(t, patience, "the server notices", func() bool { return p.send("POST", jobs, "", all...).status == 503 })
	expect("redis-away", "POST", jobs, "", all)
	expect("redis-away", "GET", "/readyz", "", nil)
	p.redis.Restart(t)
	p.api.Drain()
	expect("stopping", "GET", "/readyz", "", nil)

	others := map[string]string{
		"internal":         "no request leads to it",
		"too-slow":         "the tests of slow clients",
		"too-few-replicas": "TestV2TooFewReplicas",
	}
	for name := range httpapi.ProblemTypes() {
		if _, elsewhere := others[name]; !seen[name] && !elsewhere {
			t.Errorf("no request led to %s", name)
		}
	}
}

// TestV2TooFewReplicas publishes where a replica is wanted and none is there: the job is there, and the problem has its id.
func TestV2TooFewReplicas(t *testing.T) {
	t.Parallel()
	p := &place{t: t, redis: redistest.Start(t), settings: goworker.WorkerSettings{WaitReplicas: 1}}
	p.open(httpapi.Settings{Open: true})
	got := p.problem("too-few-replicas", 503, "POST", "/v2/shop/queues/q/jobs", "a")
	ids, _ := got["ids"].([]any)
	if len(ids) != 1 || got["wanted"] != 1.0 {
		t.Fatalf("%v", got)
	}
	if j := p.one("q"); j.ID != ids[0] {
		t.Errorf("%+v", j)
	}
	first := p.problem("too-few-replicas", 503, "POST", "/v2/shop/queues/q/jobs", "b", "Idempotency-Key", "k")
	again := p.problem("too-few-replicas", 503, "POST", "/v2/shop/queues/q/jobs", "b", "Idempotency-Key", "k")
	if fmt.Sprint(first["ids"]) != fmt.Sprint(again["ids"]) || p.redis.Int(t, "LLEN", "resque:queue:shop.q") != 1 {
		t.Errorf("%v, and then %v", first, again)
	}
}

// TestV2ReplayInAFullQueue repeats a publish with its key when its own jobs are what fills the queue: it gets its answer.
func TestV2ReplayInAFullQueue(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true, Namespaces: map[string]httpapi.Namespace{"shop": {MaxLength: 2, MaxDelayedQueue: 2}}})
	own := "{\"body\":\"x\",\"id\":\"x.1\"}\n{\"body\":\"y\",\"id\":\"x.2\"}"
	for _, c := range []struct{ path, jobs string }{{"q/jobs", "{\"body\":\"x\"}\n{\"body\":\"y\"}"}, {"r/jobs", "{\"body\":\"x\",\"delay_ms\":60000}\n{\"body\":\"y\",\"delay_ms\":60000}"}, {"own/jobs", own}} {
		header := []string{"Content-Type", "application/x-ndjson", "Idempotency-Key", "k"}
		first := p.send("POST", "/v2/shop/queues/"+c.path, c.jobs, header...)
		again := p.send("POST", "/v2/shop/queues/"+c.path, c.jobs, header...)
		if first.status != 201 || again.status != 201 || first.body != again.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %d %s, and then %d %s", c.path, first.status, first.body, again.status, again.body)
		}
	}
}

// TestProblemsAreDocumented holds the page of problems against the table.
func TestProblemsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/http-problems.md")
	if err != nil {
		t.Fatal(err)
	}
	types := httpapi.ProblemTypes()
	for _, heading := range regexp.MustCompile(`(?m)^## ([a-z-]+)$`).FindAllStringSubmatch(string(text), -1) {
		if types[heading[1]] == 0 {
			t.Errorf("the page describes %s, which is no problem", heading[1])
		}
		delete(types, heading[1])
	}
	for _, name := range slices.Sorted(maps.Keys(types)) {
		t.Errorf("the page does not describe %s", name)
	}
	for name, status := range httpapi.ProblemTypes() {
		if http.StatusText(status) == "" {
			t.Errorf("%s has the status %d", name, status)
		}
	}
}

// TestNotStarted asks an API that its program has not started: it says so, and does not look like one without jobs.
func TestNotStarted(t *testing.T) {
	t.Parallel()
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	api, err := httpapi.New(c, httpapi.Settings{Open: true, QuietAccess: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/shop/mail", "/v2/shop/queues/mail", "/readyz"} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequest("GET", "http://localhost"+path, nil))
		if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "has not started") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
	}
}
