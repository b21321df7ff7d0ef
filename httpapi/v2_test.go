package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// place is a server of jobs on a Redis of its own, as clients of v2 see it.
type place struct {
	t     *testing.T
	redis *redistest.Server
	jobs  *goworker.Client
	api   *httpapi.API
	url   string
	http  *http.Client

	settings goworker.WorkerSettings // of the client
}

// serveV2 starts a server that asks for no token.
func serveV2(t *testing.T, settings httpapi.Settings) *place {
	t.Helper()
	p := &place{t: t, redis: redistest.Start(t)}
	p.open(settings)
	return p
}

// open starts a server on the Redis.
func (p *place) open(settings httpapi.Settings) {
	p.t.Helper()
	if p.settings.URI == "" {
		p.settings.URI = p.redis.URI()
	}
	var err error
	if p.jobs, err = goworker.NewClient(p.settings); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { p.jobs.Close() })
	settings.QuietAccess = true
	if p.api, err = httpapi.New(p.jobs, settings); err != nil {
		p.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := p.api.Start(ctx); err != nil {
		p.t.Fatal(err)
	}
	redistest.Eventually(p.t, patience, "it is connected", p.api.Connected)
	on := httptest.NewServer(p.api)
	p.url, p.http = on.URL, on.Client()
	p.http.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	p.t.Cleanup(func() {
		if err := p.api.Stop(context.Background()); err != nil {
			p.t.Error(err)
		}
		p.http.CloseIdleConnections()
		on.Close()
	})
}

// reply is an answer of the server.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends a request. Headers come in pairs.
func (p *place) send(method, path, body string, headers ...string) reply {
	p.t.Helper()
	r, err := http.NewRequest(method, p.url+path, strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	if body == "" {
		r.Body, r.ContentLength = http.NoBody, 0
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := p.http.Do(r)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatalf("%s %s: %v", method, path, err)
	}
	return reply{res.StatusCode, res.Header, string(text)}
}

// ask sends a request, expects a status, and reads the answer's JSON.
func ask[T any](p *place, status int, method, path, body string, headers ...string) (out T) {
	p.t.Helper()
	r := p.send(method, path, body, headers...)
	if r.status != status {
		p.t.Fatalf("%s %s: %d %s", method, path, r.status, r.body)
	}
	if r.body != "" {
		if err := json.Unmarshal([]byte(r.body), &out); err != nil {
			p.t.Fatalf("%s %s: %v: %s", method, path, err, r.body)
		}
	}
	return out
}

type anything = map[string]any

// problem expects a problem of a type, and returns its members.
func (p *place) problem(name string, status int, method, path, body string, headers ...string) anything {
	p.t.Helper()
	r := p.send(method, path, body, headers...)
	var out anything
	if err := json.Unmarshal([]byte(r.body), &out); err != nil {
		p.t.Fatalf("%s %s: %d %s: %v", method, path, r.status, r.body, err)
	}
	kind, _ := out["type"].(string)
	if r.status != status || !strings.HasSuffix(kind, "#"+name) || r.header.Get("Content-Type") != "application/problem+json" {
		p.t.Fatalf("%s %s: %d %s, want %d %s", method, path, r.status, r.body, status, name)
	}
	for _, member := range []string{"title", "detail", "instance"} {
		if text, _ := out[member].(string); text == "" {
			p.t.Errorf("%s: no %s in %s", name, member, r.body)
		}
	}
	if r.header.Get("X-Request-Id") != out["instance"] {
		p.t.Errorf("%s: the instance is %v, and the request %s", name, out["instance"], r.header.Get("X-Request-Id"))
	}
	return out
}

// given is a job as a reservation answers it.
type given struct {
	ID, Queue, Lease, Class string
	Args                    json.RawMessage
	Body                    *string
	BodyBase64              string `json:"body_base64"`
	Meta                    map[string]string
	Attempt, Tries          int
	PublishedAt             string `json:"published_at"`
	ExpiresAt               string `json:"expires_at"`
}

// take reserves jobs.
func (p *place) take(body string) []given {
	p.t.Helper()
	r := p.send("POST", "/v2/shop/reservations", body)
	if r.status == http.StatusNoContent {
		return nil
	}
	var out struct{ Jobs []given }
	if err := json.Unmarshal([]byte(r.body), &out); err != nil || r.status != http.StatusOK {
		p.t.Fatalf("reserving: %d %s", r.status, r.body)
	}
	return out.Jobs
}

// one reserves one job of a queue, which is there.
func (p *place) one(queue string) given {
	p.t.Helper()
	jobs := p.take(`{"queues":["` + queue + `"],"wait_ms":60000}`)
	if len(jobs) != 1 {
		p.t.Fatalf("the queue %s gave %d jobs", queue, len(jobs))
	}
	return jobs[0]
}

func (p *place) publish(path, body string, headers ...string) string {
	p.t.Helper()
	return ask[struct{ ID string }](p, http.StatusCreated, "POST", path, body, headers...).ID
}

const envelopeType = "application/vnd.goworker.job+json"

// TestV2BodiesComeBack publishes bodies of several types, and takes them.
func TestV2BodiesComeBack(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	for _, tt := range []struct{ contentType, body, args, back string }{
		{"", "hello", `["hello"]`, "hello"},
		{"application/x-www-form-urlencoded", "a=1&b=2", `["a=1&b=2"]`, "a=1&b=2"},
		{"text/plain; charset=utf-8", "zażółć", `["zażółć"]`, "zażółć"},
		{"application/json", ` {"a":[1, 2.50]} `, `[{"a":[1, 2.50]}]`, `{"a":[1, 2.50]}`},
		{"application/json", `"text"`, `["\"text\""]`, `"text"`},
		{"application/octet-stream", "\xff\x00\x01", `[{"base64":"/wAB"}]`, "\xff\x00\x01"},
		{"", "", `[""]`, ""},
		{envelopeType, `{"body":"x\ny","class":"Mail"}`, `["x\ny"]`, "x\ny"},
		{envelopeType, `{"body":{"n":12345678901234567890}}`, `[{"n":12345678901234567890}]`, `{"n":12345678901234567890}`},
		{envelopeType, `{"body_base64":"/wAB"}`, `[{"base64":"/wAB"}]`, "\xff\x00\x01"},
		{envelopeType, `{"args":["ada",3]}`, `["ada",3]`, `["ada",3]`},
		{envelopeType, `{}`, `[]`, `[]`},
	} {
		var headers []string
		if tt.contentType != "" {
			headers = []string{"Content-Type", tt.contentType}
		}
		id := p.publish("/v2/shop/queues/mail/jobs", tt.body, headers...)
		j := p.one("mail")
		back := j.BodyBase64
		if j.Body != nil {
			back = *j.Body
		} else {
			var raw []byte
			_ = json.Unmarshal([]byte(`"`+back+`"`), &raw)
			back = string(raw)
		}
		if j.ID != id || back != tt.back || !sameJSON(j.Args, tt.args) || j.Attempt != 1 || j.Tries != 1 || j.PublishedAt == "" || j.Lease == "" || j.Queue != "mail" {
			t.Errorf("%s %q came back as %+v, args %s", tt.contentType, tt.body, j, j.Args)
		}
		ask[any](p, http.StatusNoContent, "POST", "/v2/shop/queues/mail/jobs/"+id+"/ack", `{"lease":"`+j.Lease+`"}`)
	}
}

func sameJSON(a []byte, b string) bool {
	var x, y bytes.Buffer
	return json.Compact(&x, a) == nil && json.Compact(&y, []byte(b)) == nil && x.String() == y.String()
}

// TestV2Options publishes with all options in the query and in an envelope, which are one payload.
func TestV2Options(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	trace := "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	p.publish("/v2/shop/queues/a/jobs?class=Mail&tries=3&ttl_ms=60000&id=x.1&priority=0", "hi",
		"Goworker-Meta-Tenant", "acme", "traceparent", trace, "tracestate", "k=v")
	p.publish("/v2/shop/queues/b/jobs", `{"class":"Mail","body":"hi","tries":3,"ttl_ms":60000,"id":"x.1","meta":{"tenant":"acme"}}`,
		"Content-Type", envelopeType, "traceparent", trace, "tracestate", "k=v")
	a, b := p.one("a"), p.one("b")
	want := map[string]string{"tenant": "acme", "traceparent": trace, "tracestate": "k=v"}
	for _, j := range []given{a, b} {
		if j.ID != "x.1" || j.Class != "Mail" || j.Tries != 3 || !maps.Equal(j.Meta, want) || j.ExpiresAt == "" || j.PublishedAt != "" {
			t.Errorf("%+v", j)
		}
	}
	p.publish("/v2/shop/queues/c/jobs?delay_ms=60000", "later")
	if jobs := p.take(`{"queues":["c"]}`); jobs != nil {
		t.Errorf("a delayed job was given: %+v", jobs)
	}
	p.publish("/v2/shop/queues/c/jobs?at=2001-01-01T00:00:00Z", "now")
	if j := p.one("c"); *j.Body != "now" {
		t.Errorf("%+v", j)
	}
}

// TestV2Many publishes many jobs, all or none.
func TestV2Many(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	const many = "application/x-ndjson"
	out := ask[struct{ IDs []string }](p, http.StatusCreated, "POST", "/v2/shop/queues/mail/jobs",
		"{\"body\":\"1\"}\n\n{\"body\":\"2\",\"id\":\"two\"}\r\n{\"args\":[3],\"delay_ms\":600000}", "Content-Type", many)
	if len(out.IDs) != 3 || out.IDs[1] != "two" {
		t.Fatalf("%q", out.IDs)
	}
	if got := p.problem("invalid-parameter", 400, "POST", "/v2/shop/queues/mail/jobs", "{\"body\":\"4\"}\n{\"tries\":0}", "Content-Type", many); got["line"] != 2.0 || got["parameter"] != "tries" {
		t.Errorf("%v", got)
	}
	if got := p.problem("invalid-json", 400, "POST", "/v2/shop/queues/mail/jobs", "{\"body\":\"4\"}\n{", "Content-Type", many); got["line"] != 2.0 {
		t.Errorf("%v", got)
	}
	p.problem("too-many-jobs", 413, "POST", "/v2/shop/queues/mail/jobs", strings.Repeat("{}\n", 1001), "Content-Type", many)
	p.problem("invalid-json", 400, "POST", "/v2/shop/queues/mail/jobs", "\n", "Content-Type", many)
	jobs := p.take(`{"queues":["mail"],"count":10}`)
	if len(jobs) != 2 || jobs[0].ID != out.IDs[0] || jobs[1].ID != "two" {
		t.Errorf("%+v", jobs)
	}
}
