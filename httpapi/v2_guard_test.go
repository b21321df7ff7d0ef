package httpapi_test

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"

	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// TestV2TokensSeeTheirQueues narrows a token to some queues and some scopes.
func TestV2TokensSeeTheirQueues(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{})
	tokens := httpapi.NewTokens(p.jobs, "")
	token := func(of httpapi.Token) (made httpapi.Token, header []string) {
		made, err := tokens.Create(t.Context(), of)
		if err != nil {
			t.Fatal(err)
		}
		known(t, made, p.api)
		return made, []string{"Authorization", "Bearer " + made.Token}
	}
	_, all := token(httpapi.Token{Namespace: "shop"})
	_, publish := token(httpapi.Token{Namespace: "shop", Scopes: []string{"publish"}, Queues: []string{"mail"}})
	eye, peek := token(httpapi.Token{Namespace: "shop", Scopes: []string{"peek"}, Queues: []string{"m*"}})
	_, consume := token(httpapi.Token{Namespace: "shop", Scopes: []string{"consume", "ack"}})

	with := func(of []string, more ...string) []string { return append(slices.Clone(of), more...) }
	for _, q := range []string{"mail", "img"} {
		p.publish("/v2/shop/queues/"+q+"/jobs?result_ttl_ms=60000&id=x", "a", all...)
	}
	// A result is read in the token's queues alone, by who publishes or looks.
	ask[any](p, 204, "GET", "/v2/shop/queues/mail/jobs/x/result", "", publish...)
	ask[any](p, 204, "GET", "/v2/shop/queues/mail/jobs/x/result", "", peek...)
	p.problem("forbidden", 403, "GET", "/v2/shop/queues/img/jobs/x/result", "", publish...)
	p.problem("forbidden", 403, "GET", "/v2/shop/queues/img/jobs/x/result", "", peek...)
	p.problem("forbidden", 403, "GET", "/v2/shop/queues/mail/jobs/x/result", "", consume...)
	// A republish ends a job too.
	p.problem("forbidden", 403, "PUT", "/v2/shop/queues/mail/jobs/x", "b", publish...)
	p.problem("forbidden", 403, "POST", "/v2/shop/acks", `{"jobs":[{"queue":"mail","id":"x"}]}`, publish...)
	// Every call of another queue is refused, and of another namespace, wherever the request names it.
	_, narrow := token(httpapi.Token{Namespace: "shop", Queues: []string{"mail"}})
	_, other := token(httpapi.Token{Namespace: "other"})
	calls := [][3]string{
		{"POST", "/v2/shop/reservations", `{"queues":["mail","img"]}`}, {"GET", "/v2/shop/events?queues=mail,img", ""},
		{"POST", "/v2/shop/acks", `{"jobs":[{"queue":"mail","id":"x"},{"queue":"img","id":"x"}]}`},
	}
	for path, methods := range ask[struct{ Paths map[string]map[string]any }](p, 200, "GET", "/openapi.json", "").Paths {
		for method := range methods {
			if strings.Contains(path, "{queue}") && method != "parameters" {
				calls = append(calls, [3]string{strings.ToUpper(method), strings.NewReplacer("{ns}", "shop", "{queue}", "img", "{id}", "x").Replace(path), ""})
			}
		}
	}
	for _, call := range calls {
		p.problem("forbidden", 403, call[0], call[1], call[2], narrow...)
		p.problem("bad-token", 401, call[0], call[1], call[2], other...)
	}
	// Keys of two tokens are two keys.
	p.publish("/v2/shop/queues/mail/jobs", "a", with(all, "Idempotency-Key", "k")...)
	if r := p.send("POST", "/v2/shop/queues/mail/jobs", "b", with(publish, "Idempotency-Key", "k")...); r.status != 201 || r.header.Get("Idempotent-Replayed") != "" {
		t.Errorf("%+v", r)
	}
	list := ask[struct{ Queues []struct{ Name string } }](p, 200, "GET", "/v2/shop/queues", "", peek...)
	if len(list.Queues) != 1 || list.Queues[0].Name != "mail" {
		t.Errorf("%+v", list)
	}
	s := p.listen("", peek...)
	if others := s.until("mail", 3); len(others) > 0 {
		t.Errorf("the stream has %q", others)
	}

	// A revoked token ends its streams and its waits.
	waiter, wait := token(httpapi.Token{Namespace: "shop"})
	answers := make(chan reply, 2)
	go func() {
		answers <- p.send("POST", "/v2/shop/reservations", `{"queues":["empty"],"wait_ms":600000}`, wait...)
	}()
	go func() { answers <- p.send("GET", "/v2/shop/queues/mail/jobs/x/result?wait_ms=600000", "", wait...) }()
	redistest.Eventually(t, patience, "the consumer waits", func() bool { return p.api.Waiting() == 1 })
	for _, revoked := range []httpapi.Token{eye, waiter} {
		if err := tokens.Revoke(t.Context(), revoked.ID); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 {
		if r := <-answers; r.status != 401 || !strings.Contains(r.body, "#bad-token") {
			t.Errorf("%+v", r)
		}
	}
	for range s.events {
	}
}

// TestV2OtherPlaces names a job that is reserved, with its id and its lease, in another namespace and in another queue of its own:
// there it is no job, and nothing happens to it.
func TestV2OtherPlaces(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	p.publish("/v2/shop/queues/mail/jobs?tries=5&result_ttl_ms=60000&id=x", "a")
	j := p.one("mail")
	before := p.redis.Text(t, "ZSCORE", "resque:go:leases", "9:shop.mailx")
	for _, queue := range []string{"/v2/blog/queues/mail", "/v2/shop/queues/img"} {
		at := queue + "/jobs/x"
		for _, how := range []string{"ack", "nack", "fail", "release", "touch"} {
			p.problem("no-job", 404, "POST", at+"/"+how, lease(j))
			p.problem("no-job", 404, "POST", at+"/"+how, `{}`)
		}
		p.problem("no-result", 404, "GET", at+"/result", "")
		p.problem("no-job", 404, "GET", at, "")
		redistest.Eventually(t, patience, "the queue may be searched again", func() bool { return p.send("DELETE", at+"?force=true", "").status == 202 })
		ns, queue := queue[len("/v2/"):len("/v2/shop")], queue[len("/v2/shop/queues/"):]
		out := ask[struct{ Results []string }](p, 200, "POST", "/v2/"+ns+"/acks", `{"jobs":[{"queue":"`+queue+`","id":"x"}]}`)
		if !slices.Equal(out.Results, []string{"unknown"}) {
			t.Errorf("%q", out.Results)
		}
	}
	p.problem("invalid-parameter", 400, "GET", "/v2/"+strings.Repeat("x", 256)+"/queues/mail", "")
	p.publish("/v2/blog/queues/mail/jobs", "b") // so that the queue can be destroyed
	ask[any](p, 204, "DELETE", "/v2/blog/queues/mail", "")
	if after := p.redis.Text(t, "ZSCORE", "resque:go:leases", "9:shop.mailx"); after != before {
		t.Errorf("the lease was %s and is %s", before, after)
	}
	if n := p.redis.Int(t, "EXISTS", "resque:queue:shop.mail", "resque:shop.mail_failed", "resque:go:returned", "resque:go:schedule"); n != 0 {
		t.Errorf("%d keys tell of an end", n)
	}
	p.end(204, j, "ack", lease(j, `"result":1`))
	if r := p.send("GET", "/v2/shop/queues/mail/jobs/x/result", ""); !strings.Contains(r.body, `"result":1`) {
		t.Errorf("%+v", r)
	}
}

// TestV2JobsOfRuby takes jobs that Ruby has pushed, from a namespace whose queues are Resque's own.
func TestV2JobsOfRuby(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true, Namespaces: map[string]httpapi.Namespace{"shop": {Bare: true, Queues: []string{"a.b"}}}})
	p.redis.Do(t, "RPUSH", "resque:queue:mail", `{"class":"Mail","args":["ada",3]}`)
	p.redis.Do(t, "RPUSH", "resque:queue:a.b", `{"class":"Mail","args":["ada"]}`)
	for queue, body := range map[string]string{"mail": `["ada",3]`, "a.b": "ada"} {
		j := p.one(queue)
		if j.Class != "Mail" || *j.Body != body || j.ID == "" || j.Tries != 1 {
			t.Errorf("%+v", j)
		}
		p.end(204, j, "ack", lease(j))
	}
	p.problem("forbidden", 403, "GET", "/v2/shop/queues/other.mail", "")
	p.publish("/v2/shop/queues/mail/jobs?class=Mail", "grace")
	if got := p.redis.List(t, "LRANGE", "resque:queue:mail", 0, -1); len(got) != 1 || !strings.HasPrefix(got[0], `{"class":"Mail","args":["grace"]`) {
		t.Errorf("%q", got)
	}
}

// TestV2HalfClosed publishes by a client that closes its half of the connection at once, and reads the answer.
func TestV2HalfClosed(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	for i := range 20 {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.WriteString(c, "POST /v2/shop/queues/q/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\na")
		_ = c.(*net.TCPConn).CloseWrite()
		text, err := io.ReadAll(c)
		c.Close()
		if err != nil || !strings.HasPrefix(string(text), "HTTP/1.1 201 ") {
			t.Fatalf("%d: %v: %s", i, err, text)
		}
	}
	if n := p.redis.Int(t, "LLEN", "resque:queue:shop.q"); n != 20 {
		t.Errorf("there are %d jobs", n)
	}
}

// TestV2ClientGoes lets a consumer go that waits: it gets no job, and uses up no try.
func TestV2ClientGoes(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	for range 3 {
		c, err := net.Dial("tcp", strings.TrimPrefix(p.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		body := `{"queues":["q"],"wait_ms":600000}`
		_, _ = io.WriteString(c, "POST /v2/shop/reservations HTTP/1.1\r\nHost: localhost\r\nContent-Length: 33\r\n\r\n"+body)
		redistest.Eventually(t, patience, "the consumer waits", func() bool { return p.api.Waiting() == 1 })
		c.Close()
		redistest.Eventually(t, patience, "the consumer has gone", func() bool { return p.api.Waiting() == 0 })
	}
	p.publish("/v2/shop/queues/q/jobs", "a")
	if j := p.one("q"); j.Attempt != 1 {
		t.Errorf("%+v", j)
	}
}
