package httpapi_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// gate is a Server with both of its listeners, and all that it has logged.
type gate struct {
	testing.TB
	redis      *redistest.Server
	api        *httpapi.API
	said       *transcript
	url, admin string
	others     []*httpapi.API // of the same Redis, started before tokens were made
	client     *http.Client
	stop       func() error // ends Run and returns its error
}

// transcript is what a server printed, and what it answered.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *transcript) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *transcript) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// guarded starts a Redis and a Server.
func guarded(t testing.TB, settings httpapi.Settings, change ...func(*httpapi.Server)) *gate {
	t.Helper()
	return guardedOn(t, redistest.Start(t), settings, change...)
}

func (g *gate) another(settings httpapi.Settings, change ...func(*httpapi.Server)) *gate {
	g.Helper()
	other := guardedOn(g.TB, g.redis, settings, change...)
	g.others = append(g.others, other.api)
	return other
}

func guardedOn(t testing.TB, redis *redistest.Server, settings httpapi.Settings, change ...func(*httpapi.Server)) *gate {
	t.Helper()
	g := &gate{TB: t, redis: redis, said: new(transcript)}
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: redis.URI(), Logger: slog.New(slog.NewJSONHandler(g.said, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	g.must(err)
	t.Cleanup(client.Close)
	g.api, err = httpapi.New(client, settings)
	g.must(err)
	server := httpapi.Server{API: g.api, Listen: "127.0.0.1:0", AdminListen: "127.0.0.1:0"}
	ready := make(chan struct{})
	server.Ready = func(listen, admin net.Addr) {
		g.url, g.admin = "http://"+listen.String(), "http://"+admin.String()
		close(ready)
	}
	for _, f := range change {
		f(&server)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	g.stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() {
		if err := g.stop(); err != nil {
			t.Errorf("the server ended with %v", err)
		}
	})
	select {
	case <-ready:
	case err := <-ended:
		t.Fatalf("the server did not begin: %v", err)
	}
	g.eventually("it is connected", g.api.Connected)
	transport := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	t.Cleanup(transport.CloseIdleConnections)
	g.client = &http.Client{Transport: transport}
	return g
}

func (g *gate) must(err error) {
	g.Helper()
	if err != nil {
		g.Fatal(err)
	}
}

// got is an answer.
type got struct {
	status int
	header http.Header
	body   string
}

// ask sends a request. Headers are given as "Name: value".
func (g *gate) ask(method, url, body string, headers ...string) got {
	g.Helper()
	r, err := g.try(g.Context(), method, url, body, headers...)
	g.must(err)
	return r
}

func (g *gate) try(ctx context.Context, method, url, body string, headers ...string) (got, error) {
	request, err := http.NewRequestWithContext(ctx, method, url, strings.NewReader(body))
	if err != nil {
		return got{}, err
	}
	for _, h := range headers {
		name, value, _ := strings.Cut(h, ": ")
		request.Header.Add(name, value)
		if name == "Host" {
			request.Host = value
		}
	}
	answer, err := g.client.Do(request)
	if err != nil {
		return got{}, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	return got{answer.StatusCode, answer.Header, string(text)}, err
}

// want compares an answer: its status, and a part of its body.
func (g *gate) want(what string, r got, status int, part string) {
	g.Helper()
	if r.status != status || !strings.Contains(r.body, part) {
		g.Errorf("%s: %d %s, want %d with %s", what, r.status, r.body, status, part)
	}
}

// token makes a token by the admin handler, and returns it with its id.
func (g *gate) token(body string) (token, id string) {
	g.Helper()
	r := g.ask("POST", g.admin+"/tokens", body)
	if r.status != http.StatusCreated {
		g.Fatalf("no token was made: %d %s", r.status, r.body)
	}
	var made struct{ Token, ID string }
	g.must(json.Unmarshal([]byte(r.body), &made))
	var of httpapi.Token
	g.must(json.Unmarshal([]byte(body), &struct{ Namespace *string }{&of.Namespace}))
	of.Token = made.Token
	known(g, of, append(g.others, g.api)...)
	return made.Token, made.ID
}

func bearer(token string) string { return "Authorization: Bearer " + token }

func (g *gate) eventually(what string, f func() bool) {
	g.Helper()
	redistest.Eventually(g.TB, patience, what, f)
}

func (g *gate) waiters() int { return g.api.Stats().Pools["default"].Waiters }

// Who asks decides what is answered: the token, where it stands, its namespace, scopes and queues.
func TestWhoAsks(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{Namespaces: map[string]httpapi.Namespace{"ruby": {Bare: true, Queues: []string{"a.b"}}}})
	all, _ := g.token(`{"namespace":"shop","description":"all"}`)
	some, _ := g.token(`{"namespace":"shop","scopes":["publish"],"queues":["mail","img-*"]}`)
	ruby, _ := g.token(`{"namespace":"ruby"}`)
	own, _ := g.token(`{"namespace":"shop","token":"my-own-token-of-mine"}`)
	over, _ := g.token(`{"namespace":"shop","expires":"` + time.Now().Add(time.Hour).Format(time.RFC3339) + `"}`)
	publish := func(ns, queue string, headers ...string) got {
		return g.ask("POST", g.url+"/v2/"+ns+"/queues/"+queue+"/jobs", "hello", headers...)
	}
	for _, tt := range []struct {
		what   string
		got    got
		status int
		part   string
	}{
		{"no token", publish("shop", "mail"), 401, "problems.md#no-token"},
		{"a bearer", publish("shop", "mail", bearer(all)), 201, `"id"`},
		{"in another case", publish("shop", "mail", "Authorization: bearer "+all), 201, `"id"`},
		{"X-Token", publish("shop", "mail", "X-Token: "+all), 201, `"id"`},
		{"its own token", publish("shop", "mail", bearer(own)), 201, `"id"`},
		{"one that ends later", publish("shop", "mail", bearer(over)), 201, `"id"`},
		{"the query of v2", g.ask("POST", g.url+"/v2/shop/queues/mail/jobs?token="+all, "hello"), 401, "no-token"},
		{"Basic", publish("shop", "mail", "Authorization: Basic "+all), 401, "no-token"},
		{"a guess", publish("shop", "mail", bearer("0123456789012345678901234567890")), 401, "bad-token"},
		{"a long one", publish("shop", "mail", bearer(strings.Repeat("x", 5000))), 401, "bad-token"},
		{"an empty one", publish("shop", "mail", bearer("default:")), 401, "no-token"},
		{"of another namespace", publish("blog", "mail", bearer(all)), 401, "bad-token"},
		{"of no pool", publish("shop", "mail", bearer("east:"+all)), 404, "no-pool"},
		{"with its pool", publish("shop", "mail", bearer("default:"+all)), 201, `"id"`},
		{"a queue it has", publish("shop", "img-1", bearer(some)), 201, `"id"`},
		{"a queue it has not", publish("shop", "video", bearer(some)), 403, "video"},
		{"a scope it has not", g.ask("POST", g.url+"/v2/shop/reservations", `{"queues":["mail"]}`, bearer(some)), 403, "consume"},
		{"one queue of two", g.ask("POST", g.url+"/v2/shop/reservations", `{"queues":["mail","other"]}`, bearer(some)), 403, ""},
		{"a namespace that is none", publish("a.b", "c", bearer(all)), 400, "namespace"},
		{"one that is too long", publish(strings.Repeat("x", 256), "c", bearer(all)), 401, "bad-token"},
		{"a bare queue", publish("ruby", "mail", bearer(ruby)), 201, `"id"`},
		{"a bare queue with a dot", publish("ruby", "a.b", bearer(ruby)), 201, `"id"`},
		{"a queue of another namespace", publish("ruby", "shop.mail", bearer(ruby)), 403, "forbidden"},
		{"one of goworker's own", publish("ruby", "msgpack:mail", bearer(ruby)), 400, "msgpack:"},
		{"v1 by the query", g.ask("PUT", g.url+"/api/shop/mail?token="+all, "hello"), 201, "job_id"},
		{"v1 without", g.ask("PUT", g.url+"/api/shop/mail", "hello"), 401, `{"error":"token not found"}`},
		{"v1 with a guess", g.ask("PUT", g.url+"/api/shop/mail?token=x", "hello"), 401, `{"error":"invalid token"}`},
		{"v1 of no pool", g.ask("PUT", g.url+"/api/shop/mail?token=east:x", "hello"), 404, `{"error":"pool not found"}`},
	} {
		g.want(tt.what, tt.got, tt.status, tt.part)
	}
	if n := g.redis.Int(t, "LLEN", "resque:queue:shop.mail"); n != 7 {
		t.Errorf("the queue of shop has %d jobs, want 7", n)
	}
	if n := g.redis.Int(t, "LLEN", "resque:queue:mail"); n != 1 {
		t.Errorf("the bare queue has %d jobs, want 1", n)
	}
	quiet := g.another(httpapi.Settings{NoQueryTokens: true})
	g.want("a query where none may be", quiet.ask("PUT", quiet.url+"/api/shop/mail?token="+all, "hello"), 401, "token not found")
}

// A token that is revoked on one server is refused by both, and what waits under it ends with 401.
func TestRevokedToken(t *testing.T) {
	t.Parallel()
	one := guarded(t, httpapi.Settings{})
	two := one.another(httpapi.Settings{})
	token, id := one.token(`{"namespace":"shop"}`)
	kept, _ := one.token(`{"namespace":"shop"}`)
	answers := make(chan got, 4)
	for _, g := range []*gate{one, two} {
		for _, call := range [][3]string{
			{"GET", "/api/shop/mail?timeout=600", ""},
			{"POST", "/v2/shop/reservations", `{"queues":["mail"],"wait_ms":600000}`},
		} {
			go func() {
				r, err := g.try(context.Background(), call[0], g.url+call[1], call[2], "X-Token: "+token)
				if err != nil {
					t.Error(err)
				}
				answers <- r
			}()
		}
	}
	stream, err := http.NewRequestWithContext(t.Context(), "GET", two.url+"/v2/shop/events", nil)
	one.must(err)
	stream.Header.Set("X-Token", token)
	events, err := two.client.Do(stream)
	one.must(err)
	defer events.Body.Close()
	for _, g := range []*gate{one, two} {
		g.eventually("requests wait", func() bool { return g.waiters() == 2 })
	}
	one.want("the revocation", one.ask("DELETE", one.admin+"/tokens/"+id, ""), 204, "")
	for range cap(answers) {
		if r := <-answers; r.status != 401 {
			t.Errorf("a request that waited got %d %s", r.status, r.body)
		}
	}
	if _, err := io.ReadAll(events.Body); err != nil {
		t.Errorf("the stream of events ended with %v", err)
	}
	for _, g := range []*gate{one, two} {
		g.want("a request with the revoked token", g.ask("GET", g.url+"/api/shop/mail", "", "X-Token: "+token), 401, "invalid token")
		g.want("one with the other token", g.ask("GET", g.url+"/api/shop/mail", "", "X-Token: "+kept), 404, "no job available")
	}
}

// Known tokens stay valid while Redis is away.
func TestTokensWithoutRedis(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{})
	token, _ := g.token(`{"namespace":"shop"}`)
	g.want("before", g.ask("GET", g.url+"/api/shop/mail", "", "X-Token: "+token), 404, "no job available")
	g.redis.Kill()
	g.want("no request is wanted", g.ask("GET", g.url+"/readyz", ""), 503, "redis-away")
	g.want("and no restart of the server", g.ask("GET", g.url+"/healthz", ""), 200, "ok")
	g.want("a known token", g.ask("PUT", g.url+"/v2/shop/queues/mail/jobs/x", "", "X-Token: "+token), 503, "redis-away")
	g.want("an unknown token", g.ask("PUT", g.url+"/v2/shop/queues/mail/jobs/x", "", "X-Token: another-token-of-20-chars"), 503, "redis-away")
	g.redis.Restart(t)
}

// The servers together serve no more than the limit; what came to nothing does not count.
func TestLimits(t *testing.T) {
	t.Parallel()
	one := guarded(t, httpapi.Settings{Namespaces: map[string]httpapi.Namespace{"shop": {MaxLength: 30}}})
	two := one.another(httpapi.Settings{Namespaces: map[string]httpapi.Namespace{"shop": {MaxLength: 30}}})
	token, _ := one.token(`{"namespace":"shop","limits":{"read":5,"write":20,"interval":3600}}`)
	free, _ := one.token(`{"namespace":"shop","limits":{"read":100,"write":100,"interval":3600}}`)
	for range 10 {
		for _, g := range []*gate{one, two} {
			g.want("an empty consume", g.ask("GET", g.url+"/api/shop/mail", "", "X-Token: "+token), 404, "no job available")
			g.want("a publish that is wrong", g.ask("PUT", g.url+"/api/shop/mail?delay=x", "", "X-Token: "+token), 400, "invalid delay")
			g.want("an empty reservation", g.ask("POST", g.url+"/v2/shop/reservations", `{"queues":["mail"]}`, bearer(token)), 204, "")
			r := g.ask("POST", g.url+"/v2/shop/reservations", `{"queues":["mail"]}`, bearer(token))
			if policy := r.header.Get("RateLimit-Policy"); policy != `"consume";q=5;w=3600` || r.header.Get("RateLimit") != "" {
				t.Errorf("an answer within the limit has RateLimit-Policy %q, RateLimit %q", policy, r.header.Get("RateLimit"))
			}
		}
	}
	published, refused := 0, 0
	for i := range 30 {
		g := []*gate{one, two}[i%2]
		switch r := g.ask("PUT", g.url+"/api/shop/mail", "hello", "X-Token: "+token); r.status {
		case 201:
			published++
		case 429:
			refused++
			if want := `{"msg":"token(` + token[:4] + `…) produce reach the limit rate, please retry later"}`; r.body != want || r.header.Get("Retry-After") == "" {
				t.Errorf("the refusal is %s, Retry-After %q, want %s", r.body, r.header.Get("Retry-After"), want)
			}
			if rest, want := r.header.Get("RateLimit"), `"publish";r=0;t=`+r.header.Get("Retry-After"); rest != want {
				t.Errorf("the refusal has RateLimit %q, want %q", rest, want)
			}
		default:
			t.Errorf("a publish got %d %s", r.status, r.body)
		}
	}
	if published != 20 || refused != 10 {
		t.Errorf("%d were published and %d refused, want 20 and 10", published, refused)
	}
	one.want("v2's refusal", two.ask("POST", two.url+"/v2/shop/queues/mail/jobs", "x", bearer(token)), 429, "rate-limited")
	for i := range 10 {
		one.want("the queue's quota", one.ask("PUT", one.url+"/api/shop/mail", "hello", "X-Token: "+free), 201, "")
		_ = i
	}
	one.want("a full queue", one.ask("PUT", one.url+"/api/shop/mail", "hello", "X-Token: "+free), 429, "queue is full")
	one.want("a full queue", two.ask("POST", two.url+"/v2/shop/queues/mail/jobs", "x", bearer(free)), 429, "queue-full")
	taken := 0
	for i := range 10 {
		g := []*gate{one, two}[i%2]
		if r := g.ask("GET", g.url+"/api/shop/mail", "", "X-Token: "+token); r.status == 200 {
			taken++
		} else {
			g.want("a consume behind the limit", r, 429, "consume reach the limit rate")
		}
	}
	if taken != 5 {
		t.Errorf("%d jobs were taken, the limit is 5", taken)
	}
}

// A token has so many waiters and listeners at a time, and no more.
func TestWaitersOfToken(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{Waiters: 2, Listeners: 1})
	token, _ := g.token(`{"namespace":"shop"}`)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	for range 2 {
		all.Go(func() { _, _ = g.try(ctx, "GET", g.url+"/api/shop/mail?timeout=600", "", "X-Token: "+token) })
	}
	g.eventually("two wait", func() bool { return g.waiters() == 2 })
	g.want("a third", g.ask("POST", g.url+"/v2/shop/reservations", `{"queues":["mail"],"wait_ms":60000}`, bearer(token)), 429, "rate-limited")
	g.want("one that does not wait", g.ask("GET", g.url+"/api/shop/mail", "", "X-Token: "+token), 404, "")
	cancel()
	all.Wait()
	listen, stop := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(listen, "GET", g.url+"/v2/shop/events", nil)
	g.must(err)
	request.Header.Set("X-Token", token)
	answer, err := g.client.Do(request)
	g.must(err)
	g.want("a second listener", g.ask("GET", g.url+"/v2/shop/events", "", bearer(token)), 429, "rate-limited")
	stop()
	_ = answer.Body.Close()
	g.eventually("the places are free", func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		r, err := g.try(ctx, "GET", g.url+"/v2/shop/events", "", bearer(token))
		return err != nil || r.status != 429
	})
}

// Delayed jobs have quotas of their own, by queue and by namespace, and readers see how many there are.
func TestDelayedQuotas(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{Namespaces: map[string]httpapi.Namespace{"shop": {MaxDelayedQueue: 3, MaxDelayed: 5}, "free": {}}})
	shop, _ := g.token(`{"namespace":"shop"}`)
	free, _ := g.token(`{"namespace":"free"}`)
	delay := func(ns, queue, token string) got {
		return g.ask("POST", g.url+"/v2/"+ns+"/queues/"+queue+"/jobs?delay_ms=3600000", "x", bearer(token))
	}
	for i := range 3 {
		g.want(fmt.Sprint("delayed job ", i), delay("shop", "mail", shop), 201, "")
		g.want("of another namespace", delay("free", "mail", free), 201, "")
	}
	counted := func(queue, jobs string) { // a count that is under way leaves new jobs out
		g.eventually("the delayed jobs are counted", func() bool {
			return strings.Contains(g.ask("GET", g.url+"/v2/shop/queues/"+queue, "", bearer(shop)).body, `"delayed":`+jobs)
		})
	}
	counted("mail", "3")
	g.want("one too many for its queue", delay("shop", "mail", shop), 429, "queue-full")
	g.want("one that is due now", g.ask("POST", g.url+"/v2/shop/queues/mail/jobs", "x", bearer(shop)), 201, "")
	for range 2 {
		g.want("another queue", delay("shop", "sms", shop), 201, "")
	}
	counted("sms", "2")
	g.want("one too many for the namespace", delay("shop", "sms", shop), 429, "queue-full")
	g.want("the metrics", g.ask("GET", g.admin+"/metrics", ""), 200, `goworker_queue_delayed{pool="default",queue="shop.mail"} 3`)
	// A server that begins later counts those that it has not published.
	late := g.another(httpapi.Settings{Namespaces: map[string]httpapi.Namespace{"shop": {MaxDelayedQueue: 3}}})
	late.eventually("the other server has counted", func() bool {
		return strings.Contains(late.ask("GET", late.url+"/v2/shop/queues/mail", "", bearer(shop)).body, `"delayed":3`)
	})
	g.want("by the other server", late.ask("POST", late.url+"/v2/shop/queues/mail/jobs?delay_ms=3600000", "x", bearer(shop)), 429, "queue-full")
}

// A pool is another namespace of Resque, or another Redis, and its tokens say so. One that migrates publishes to the new one, and
// takes of both.
func TestPools(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	client := func(namespace string) *goworker.Client {
		c, err := goworker.NewClient(goworker.WorkerSettings{URI: redis.URI(), Namespace: namespace, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(c.Close)
		return c
	}
	old, fresh := client("old:"), client("fresh:")
	first := guardedOn(t, redis, httpapi.Settings{Pools: map[string]httpapi.Pool{"east": {Client: old}}})
	token, _ := first.token(`{"namespace":"shop","pool":"east"}`)
	if !strings.HasPrefix(token, "east:") {
		t.Fatalf("the token of a pool is %s", token)
	}
	publish := func(g *gate, body string) {
		t.Helper()
		g.want("a publish", g.ask("PUT", g.url+"/api/shop/mail", body, "X-Token: "+token), 201, "")
	}
	publish(first, "one")
	publish(first, "two")
	if n := redis.Int(t, "LLEN", "old:queue:shop.mail"); n != 2 {
		t.Errorf("the pool has %d jobs, want 2", n)
	}
	g := guardedOn(t, redis, httpapi.Settings{Pools: map[string]httpapi.Pool{"east": {Client: old, MigrateTo: "west"}, "west": {Client: fresh}}})
	publish(g, "three")
	if n := redis.Int(t, "LLEN", "fresh:queue:shop.mail"); n != 1 {
		t.Errorf("the new pool has %d jobs, want 1", n)
	}
	g.want("the sum", g.ask("GET", g.url+"/api/shop/mail/size", "", "X-Token: "+token), 200, `"size":3`)
	for _, body := range []string{"b25l", "dHdv", "dGhyZWU="} {
		r := g.ask("GET", g.url+"/api/shop/mail?timeout=10", "", "X-Token: "+token)
		g.want("the next job", r, 200, `"data":"`+body+`"`)
		var job struct {
			ID string `json:"job_id"`
		}
		g.must(json.Unmarshal([]byte(r.body), &job))
		g.want("its end", g.ask("DELETE", g.url+"/api/shop/mail/job/"+job.ID, "", "X-Token: "+token), 204, "")
	}
	for _, namespace := range []string{"old:", "fresh:"} {
		if n := redis.Int(t, "EXISTS", namespace+"go:leased", namespace+"go:leases", namespace+"queue:shop.mail"); n != 0 {
			t.Errorf("jobs are left in %s", namespace)
		}
	}
	g.want("the pools", g.ask("GET", g.admin+"/pools", ""), 200, `["default","east","west"]`)
	if _, err := httpapi.New(old, httpapi.Settings{Pools: map[string]httpapi.Pool{"east": {Client: old, MigrateTo: "north"}}}); err == nil || !strings.Contains(err.Error(), "north") {
		t.Errorf("a pool that migrates nowhere: %v", err)
	}
}
