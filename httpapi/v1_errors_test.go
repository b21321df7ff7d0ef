package httpapi_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
)

// raw asks with any request, and returns the answer as text: status and body.
func (c *oldClient) raw(t *testing.T, method, path string, body io.Reader) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, c.url+path, body)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Token", c.token)
	answer, err := c.http.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(answer.StatusCode, " ", string(text))
}

func TestV1Tokens(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	token := s.token(t, "shop")
	narrow := s.newToken(t, httpapi.Token{Namespace: "shop", Scopes: []string{"publish"}, Queues: []string{"mail"}})
	for _, tt := range []struct{ token, target, want string }{
		{"", "/api/shop/mail/size", `401 {"error":"token not found"}`},
		{"", "/api/shop/mail/size?token=" + token, `200 {"namespace":"shop","queue":"mail","size":0}`},
		{"", "/api/shop/mail/size?token=default:" + token, `200 {"namespace":"shop","queue":"mail","size":0}`},
		{"wrong", "/api/shop/mail/size", `401 {"error":"invalid token"}`},
		{token, "/api/other/mail/size", `401 {"error":"invalid token"}`},
		{"default:" + token, "/api/shop/mail/size", `200 {"namespace":"shop","queue":"mail","size":0}`},
		{"nowhere:" + token, "/api/shop/mail/size", `404 {"error":"pool not found"}`},
		{narrow, "/api/shop/mail", `403 {"error":"forbidden"}`},
		{token, "/api/shop/mail?token=wrong", `404 {"msg":"no job available"}`},
	} {
		c := &oldClient{url: s.url, token: tt.token, http: s.client}
		if got := c.raw(t, http.MethodGet, tt.target, nil); got != tt.want {
			t.Errorf("%s with the token %q: %s, want %s", tt.target, tt.token, got, tt.want)
		}
	}
	c := &oldClient{url: s.url, token: narrow, http: s.client}
	if got := c.raw(t, http.MethodPut, "/api/shop/mail", strings.NewReader("x")); !strings.HasPrefix(got, "201 ") {
		t.Error(got)
	}
	if got := c.raw(t, http.MethodPut, "/api/shop/other", strings.NewReader("x")); got != `403 {"error":"forbidden"}` {
		t.Error(got)
	}
}

func TestV1PublicSizes(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{PublicSizes: true})
	c := &oldClient{url: s.url, http: s.client}
	for target, want := range map[string]string{
		"/api/shop/mail/size":             `200 {"namespace":"shop","queue":"mail","size":0}`,
		"/api/shop/mail/deadletter/size":  `200 {"namespace":"shop","queue":"mail","size":0}`,
		"/api/shop/mail/size?token=x:y":   `404 {"error":"pool not found"}`,
		"/api/shop/mail/deadletter":       `401 {"error":"token not found"}`,
		"/api/shop/_mail/deadletter/size": `400 {"error":"queue name contains forbidden characters"}`,
	} {
		if got := c.raw(t, http.MethodGet, target, nil); got != want {
			t.Errorf("%s: %s, want %s", target, got, want)
		}
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	for want, d := range map[string]httpapi.Defaults{
		"Defaults.Tries is 65536":         {Tries: 65536},
		"Defaults.TTR is 13h0m0s":         {TTR: 13 * time.Hour},
		"Defaults.TTL is 500ms":           {TTL: 500 * time.Millisecond},
		"Defaults.Delay is -1s":           {Delay: -time.Second},
		"Defaults.Timeout is 11m0s":       {Timeout: 11 * time.Minute},
		"a job must live until it is due": {TTL: time.Minute, Delay: time.Hour},
		"":                                {TTL: goworker.NoTimeout, Delay: time.Hour, Tries: 3, Timeout: time.Minute},
	} {
		_, err := httpapi.New(client, httpapi.Settings{Defaults: d})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", d, err, want)
		}
	}
	if _, err := httpapi.New(nil, httpapi.Settings{}); err == nil {
		t.Error("an API without a client was made")
	}
}

// What is too much is refused: of bytes, of jobs, of requests that wait.
func TestV1Limits(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{
		MaxBody: 1000, MaxBatch: 2500, Waiters: 1, Namespaces: map[string]httpapi.Namespace{"shop": {MaxLength: 2}},
		Defaults: httpapi.Defaults{TTL: time.Minute, Tries: 2, TTR: time.Hour},
	})
	c := s.old(t, "shop")
	put := func(path, body string) string {
		t.Helper()
		return c.raw(t, http.MethodPut, "/api/shop/"+path, strings.NewReader(body))
	}
	large := strings.Repeat("x", 1001)
	for _, tt := range []struct{ path, body, want string }{
		{"mail", large, `413 {"error":"body too large"}`},
		{"mail/job/x", large, `413 {"error":"body too large"}`},
		{"mail/bulk", `["` + large + `"]`, `413 {"error":"job too large"}`},
		{"mail/bulk", `["` + large + large + large + `"]`, `413 {"error":"body too large"}`},
		{"mail/bulk", `[1,2,3]`, `429 {"msg":"the queue is full, please retry later"}`},
		{"mail", large[1:], `201 `},
		{"mail", large[1:], `201 `},
		{"mail", "x", `429 {"msg":"the queue is full, please retry later"}`},
	} {
		if got := put(tt.path, tt.body); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s with %d bytes: %s, want %s", tt.path, len(tt.body), got, tt.want)
		}
	}
	j, err := c.peek(t.Context(), "mail", "peek")
	if err != nil || j.TTL < 30 || j.TTL > 60 || j.RemainTries != 2 {
		t.Errorf("the defaults made %+v, %v", j, err)
	}

	ctx, leave := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { _, _ = c.consume(ctx, 1, 300, "none"); close(ended) }()
	redisEventually(t, "one waits", func() bool { return s.waiters() == 1 })
	if got := c.raw(t, http.MethodGet, "/api/shop/none?timeout=300", nil); !strings.HasPrefix(got, "429 ") || strings.Contains(got, c.token) {
		t.Error(got)
	}
	if got := c.raw(t, http.MethodGet, "/api/shop/none", nil); got != `404 {"msg":"no job available"}` {
		t.Error(got)
	}
	leave()
	<-ended
}

// The text of a limit has no more of the token than lmstfy's users see at its beginning.
func TestV1RateLimit(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	token := s.newToken(t, httpapi.Token{Namespace: "shop", Limits: &httpapi.Limits{Read: 1, Write: 1, Interval: time.Hour}})
	c := &oldClient{url: s.url, namespace: "shop", token: token, http: s.client}
	for range 3 { // an empty consume is given back
		if got := c.raw(t, http.MethodGet, "/api/shop/mail", nil); got != `404 {"msg":"no job available"}` {
			t.Fatal(got)
		}
	}
	publish := func() string { return c.raw(t, http.MethodPut, "/api/shop/mail", strings.NewReader("x")) }
	if got := publish(); !strings.HasPrefix(got, "201 ") {
		t.Fatal(got)
	}
	if got, want := publish(), fmt.Sprintf(`429 {"msg":"token(%s…) produce reach the limit rate, please retry later"}`, token[:4]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if got := c.raw(t, http.MethodGet, "/api/shop/mail", nil); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
	if got, want := c.raw(t, http.MethodGet, "/api/shop/mail", nil), fmt.Sprintf(`429 {"msg":"token(%s…) consume reach the limit rate, please retry later"}`, token[:4]); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// A key of the wrong type is the failure of its own queue, and the client learns nothing of Redis.
func TestV1WrongType(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	s.redis.Do(t, "SET", "resque:queue:shop.broken", "x")
	const failed = `500 {"error":"internal error"}`
	for method, path := range map[string]string{http.MethodPut: "broken", http.MethodGet: "broken/peek", http.MethodDelete: "broken"} {
		if got := c.raw(t, method, "/api/shop/"+path, nil); got != failed {
			t.Errorf("%s %s: %s", method, path, got)
		}
	}
	if got := c.raw(t, http.MethodGet, "/api/shop/broken", nil); got != failed {
		t.Error(got)
	}
	if got := c.raw(t, http.MethodPut, "/api/shop/mail", strings.NewReader("x")); !strings.HasPrefix(got, "201 ") {
		t.Error(got)
	}
	if got := c.raw(t, http.MethodGet, "/api/shop/broken,mail", nil); !strings.HasPrefix(got, "200 ") {
		t.Error(got)
	}
}

// A Redis without memory takes no jobs, and gives those that it has.
func TestV1FullRedis(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	if _, err := c.bulk(t.Context(), "mail", []any{1, 2}, 0, 2, 0); err != nil {
		t.Fatal(err)
	}
	s.redis.Do(t, "CONFIG", "SET", "maxmemory", "1")
	if got := c.raw(t, http.MethodPut, "/api/shop/mail", strings.NewReader("x")); got != `500 {"error":"internal error"}` {
		t.Error(got)
	}
	for range 2 {
		j, err := c.consume(t.Context(), 60, 0, "mail")
		if err != nil || j == nil {
			t.Fatal(j, err)
		}
		if err := c.ack(t.Context(), "mail", j.ID); err != nil {
			t.Error(err)
		}
	}
}

// While Redis is away each call fails, and none waits for it. What was done before is there when it is back.
func TestV1RedisAway(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	if _, err := c.publish(t.Context(), oldPublish{queue: "mail", data: []byte("x"), tries: 1}); err != nil {
		t.Fatal(err)
	}
	s.redis.Pause()
	ends := make(chan string, 6)
	calls := []string{"GET mail?timeout=0", "PUT mail", "DELETE mail/job/x", "GET mail/size", "GET mail/peek", "PUT mail/job/x/nack"}
	for _, call := range calls {
		go func() {
			method, path, _ := strings.Cut(call, " ")
			ends <- call + ": " + c.raw(t, method, "/api/shop/"+path, strings.NewReader("y"))
		}()
	}
	for range calls {
		if got := <-ends; !strings.HasSuffix(got, `: 500 {"error":"internal error"}`) {
			t.Error(got)
		}
	}
	s.redis.Resume()
	redisEventually(t, "the job comes", func() bool {
		j, err := c.consume(t.Context(), 60, 0, "mail")
		return err == nil && j != nil && string(j.Data) == "x"
	})
}

// Bytes in a queue that are no job are given as they are.
func TestV1NoJob(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	for _, raw := range []string{"hello", "", "\xff{", `{"args":[1]}`, "[]"} {
		s.redis.Do(t, "RPUSH", "resque:queue:shop.mail", raw)
		j, err := c.consume(t.Context(), 60, 0, "mail")
		if err != nil || j == nil || string(j.Data) != raw {
			t.Fatalf("%q came as %+v, %v", raw, j, err)
		}
		if err := c.ack(t.Context(), "mail", j.ID); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.redis.Int(t, "HLEN", "resque:go:leased"); n != 0 {
		t.Errorf("%d are left", n)
	}
}

// deafWriter is the connection of a client that has gone without a word.
type deafWriter struct{ *httptest.ResponseRecorder }

func (deafWriter) Write([]byte) (int, error) { return 0, errors.New("the client has gone") }

// A job whose answer cannot be written goes to the next client, with all its tries.
func TestUnwrittenAnswerBurnsNoTry(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	ids, err := c.bulk(t.Context(), "mail", []any{1, 2, 3}, 0, 1, 0)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodGet, "/api/shop/mail?count=2", nil)
	r.Header.Set("X-Token", c.token)
	s.api.ServeHTTP(deafWriter{httptest.NewRecorder()}, r)
	back := func() bool { return s.redis.Int(t, "LLEN", "resque:queue:shop.mail") == 3 }
	redisEventually(t, "the jobs of v1 are back", back)
	r = httptest.NewRequest(http.MethodPost, "/v2/shop/reservations", strings.NewReader(`{"queues":["mail"],"count":2}`))
	r.Header.Set("X-Token", c.token)
	s.api.ServeHTTP(deafWriter{httptest.NewRecorder()}, r)
	redisEventually(t, "the jobs of v2 are back", back)
	if n := s.api.Stats().Pools["default"].Returned; n != 4 {
		t.Errorf("%d jobs went back, want 4", n)
	}
	var got []string
	redisEventually(t, "the jobs come again", func() bool {
		jobs, err := c.batch(t.Context(), 10, 60, 0, "mail")
		if err != nil {
			t.Fatal(err)
		}
		for _, j := range jobs {
			got = append(got, j.ID)
		}
		return len(got) == 3
	})
	if strings.Join(got, " ") != strings.Join(ids, " ") && !strings.HasPrefix(strings.Join(got, " "), ids[2]) {
		t.Errorf("the jobs came as %v, want %v", got, ids)
	}
	if n := s.redis.Int(t, "HLEN", "resque:go:leased"); n != 3 {
		t.Errorf("%d jobs are reserved", n)
	}
}

// half asks, and closes its half of the connection when the server has what it waits for.
func (s *site) half(t *testing.T, request string, ready func() bool) (answer string) {
	t.Helper()
	at, err := url.Parse(s.url)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", at.Host)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, request)
	redisEventually(t, "the request is there", ready)
	if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
		t.Fatal(err)
	}
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimSpace(line)
}

// A client that closes its half of the connection has gone, as net/http sees it: its wait ends, and takes no job. What it
// has published is published, and the answer says so.
func TestHalfClosedConnection(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	got := s.half(t, "GET /api/shop/mail?timeout=300 HTTP/1.1\r\nHost: x\r\nX-Token: "+c.token+"\r\n\r\n", func() bool { return s.waiters() == 1 })
	if got != "HTTP/1.1 404 Not Found" {
		t.Errorf("the consumer got %q", got)
	}
	got = s.half(t, "PUT /api/shop/mail HTTP/1.0\r\nContent-Length: 1\r\nX-Token: "+c.token+"\r\n\r\nx", func() bool { return true })
	if got != "HTTP/1.0 201 Created" {
		t.Errorf("the producer got %q", got)
	}
	if j, err := c.consume(t.Context(), 60, 30, "mail"); err != nil || j == nil || string(j.Data) != "x" {
		t.Errorf("the next client got %+v, %v", j, err)
	}
}

// Whatever a path and a query have, the answer is one of those that there are, and takes nothing from Redis.
func FuzzV1(f *testing.F) {
	for _, seed := range []string{
		"GET /api/shop/mail?ttr=1&timeout=0&count=3", "PUT /api/shop/mail?delay=1&ttl=5&tries=2", "PUT /api/shop/mail/bulk", "DELETE /api/shop/mail/job/x",
		"GET /api/shop//peek", "GET /api/../shop", "PUT /api/shop/mail/deadletter?limit=-1", "POST /api/shop/mail/acks", "GET /api/shop/%2e%2e/size", "GET /api/shop/a%2fb",
		"HEAD /api/shop/mail", "PUT /api/shop/mail/job/%00/nack?delay=9", "GET /v2/shop/queues", "GET //x", "GET /api/shop/mail?timeout=1;x=%zz", "OPTIONS *",
	} {
		f.Add(seed, `["x"]`)
	}
	s := serve(f, httpapi.Settings{})
	token := s.token(f, "shop")
	allowed := map[int]bool{200: true, 201: true, 204: true, 400: true, 401: true, 403: true, 404: true, 405: true, 413: true, 422: true}
	f.Fuzz(func(t *testing.T, line, body string) {
		method, target, _ := strings.Cut(line, " ")
		at, err := url.ParseRequestURI(target)
		if err != nil || strings.Contains(target, "timeout") || strings.Contains(target, "wait_ms") || strings.Contains(at.Path, "events") {
			return
		}
		r := httptest.NewRequest(http.MethodGet, "/", strings.NewReader(body))
		r.Method, r.URL, r.RequestURI = method, at, target
		r.Header.Set("X-Token", token)
		answer := httptest.NewRecorder()
		s.api.ServeHTTP(answer, r)
		if !allowed[answer.Code] || strings.Contains(answer.Header().Get("Location"), "token") {
			t.Fatalf("%q: %d %s", line, answer.Code, answer.Body)
		}
		if strings.HasPrefix(at.Path, "/api/") && answer.Body.Len() > 0 && answer.Header().Get("Content-Type") != "application/json; charset=utf-8" {
			t.Fatalf("%q: %s", line, answer.Body)
		}
	})
}

// With a key a publish, a bulk or a republish that is repeated makes no second job.
func TestV1Idempotency(t *testing.T) {
	t.Parallel()
	g := guarded(t, httpapi.Settings{})
	token, _ := g.token(`{"namespace":"shop"}`)
	put := func(path, body, key string) got {
		return g.ask("PUT", g.url+"/api/shop/"+path, body, "X-Token: "+token, "Idempotency-Key: "+key)
	}
	old := g.ask("PUT", g.url+"/api/shop/old?delay=600", "x", "X-Token: "+token)
	g.want("a publish", old, 201, `"job_id"`)
	for i, call := range [][2]string{{"mail", "a"}, {"mail/bulk", `["a"]`}, {"mail/job/" + member(t, old, "job_id"), "a"}} {
		key := fmt.Sprint("k", i)
		first, again := put(call[0], call[1], key), put(call[0], call[1], key)
		g.want(call[0], first, 201, "published")
		if again.body != first.body || again.status != 201 || first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %s, and again %s %v", call[0], first.body, again.body, again.header)
		}
		g.want("another body", put(call[0], `["b"]`, key), 422, "the idempotency key was used for another request")
		if n := g.redis.Int(t, "LLEN", "resque:queue:shop.mail"); n != i+1 {
			t.Errorf("%s: the queue has %d jobs, want %d", call[0], n, i+1)
		}
	}
	g.want("a key that is too long", put("mail", "a", strings.Repeat("k", 256)), 400, "too long")
}
