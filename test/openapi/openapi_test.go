package openapi

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) {
	for _, contentType := range []string{"application/x-ndjson", "text/event-stream", "application/x-www-form-urlencoded"} {
		openapi3filter.RegisterBodyDecoder(contentType, openapi3filter.FileBodyDecoder)
	}
	redistest.Main(m)
}

// checker checks what goes through it against the document.
type checker struct {
	t      *testing.T
	url    string
	token  string
	router routers.Router
	doc    *openapi3.T

	mu   sync.Mutex
	seen map[string]map[int]bool // operation → statuses
}

// newChecker serves the API.
func newChecker(t *testing.T) *checker {
	t.Helper()
	redis := redistest.Start(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: redis.URI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { client.Close() })
	api, err := httpapi.New(client, httpapi.Settings{QuietAccess: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	on := httptest.NewServer(api)
	t.Cleanup(func() {
		if err := api.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		http.DefaultClient.CloseIdleConnections()
		on.Close()
	})
	made, err := httpapi.NewTokens(client, "").Create(t.Context(), httpapi.Token{Namespace: "shop"})
	if err != nil {
		t.Fatal(err)
	}
	c := &checker{t: t, url: on.URL, token: made.Token, seen: make(map[string]map[int]bool)}
	redistest.Eventually(t, time.Minute, "the server is connected, and has the token", func() bool { // one that connects slowly refuses
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/api/shop/none", nil)
		r.Header.Set("X-Token", made.Token)
		answer := httptest.NewRecorder()
		api.ServeHTTP(answer, r)
		return answer.Code == http.StatusNotFound
	})

	// The document is the one that the server answers.
	res, err := http.Get(on.URL + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	if file, err := os.ReadFile("../../httpapi/openapi.json"); err != nil || !bytes.Equal(file, text) {
		t.Errorf("the server answers another document than the file: %v", err)
	}
	if c.doc, err = openapi3.NewLoader().LoadFromData(text); err != nil {
		t.Fatal(err)
	}
	if err := c.doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	if c.router, err = gorillamux.NewRouter(c.doc); err != nil {
		t.Fatal(err)
	}
	return c
}

// call makes a call as the document describes it. Headers come in pairs.
func (c *checker) call(status int, method, path, body string, headers ...string) map[string]any {
	c.t.Helper()
	return c.send(true, status, method, path, body, headers...)
}

// wrong makes a call that is not as the document describes it: the answer is checked alone.
func (c *checker) wrong(status int, method, path, body string, headers ...string) map[string]any {
	c.t.Helper()
	return c.send(false, status, method, path, body, headers...)
}

func (c *checker) send(right bool, status int, method, path, body string, headers ...string) (out map[string]any) {
	c.t.Helper()
	newRequest := func() *http.Request {
		r, err := http.NewRequest(method, c.url+path, strings.NewReader(body))
		if err != nil {
			c.t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+c.token)
		if body == "" {
			r.Body, r.ContentLength = http.NoBody, 0
		} else if method != http.MethodGet {
			r.Header.Set("Content-Type", "application/json")
		}
		for i := 0; i < len(headers); i += 2 {
			r.Header.Set(headers[i], headers[i+1])
		}
		return r
	}
	route, params, err := c.router.FindRoute(newRequest())
	if err != nil {
		c.t.Fatalf("%s %s: %v", method, path, err)
	}
	input := &openapi3filter.RequestValidationInput{
		Request: newRequest(), PathParams: params, Route: route,
		Options: &openapi3filter.Options{AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true},
	}
	if err := openapi3filter.ValidateRequest(context.Background(), input); right != (err == nil) {
		c.t.Errorf("the request %s %s %s: right %v, and the document says: %v", method, path, body, right, err)
	}
	res, err := http.DefaultClient.Do(newRequest())
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	if res.StatusCode != status {
		c.t.Fatalf("%s %s: %d %s, want %d", method, path, res.StatusCode, text, status)
	}
	err = openapi3filter.ValidateResponse(context.Background(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: res.StatusCode, Header: res.Header, Body: io.NopCloser(bytes.NewReader(text)),
		Options: input.Options,
	})
	if err != nil {
		c.t.Errorf("the answer to %s %s: %d %s: %v", method, path, res.StatusCode, text, err)
	}
	c.note(route.Operation.OperationID, status)
	if len(text) > 0 {
		if err := json.Unmarshal(text, &out); err != nil {
			c.t.Fatalf("%s %s: %v", method, path, err)
		}
	}
	return out
}

func (c *checker) note(operation string, status int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.seen[operation] == nil {
		c.seen[operation] = make(map[int]bool)
	}
	c.seen[operation][status] = true
}

// reserve takes a job that is there, and returns its id and its lease.
func (c *checker) reserve(queue string) (id, lease string) {
	c.t.Helper()
	out := c.call(200, "POST", "/v2/shop/reservations", `{"queues":["`+queue+`"],"count":1,"ttr_ms":60000,"wait_ms":20000}`)
	job := out["jobs"].([]any)[0].(map[string]any)
	return job["id"].(string), job["lease"].(string)
}

// TestAnswersAreAsDescribed makes every call of the document, and checks requests and answers.
func TestAnswersAreAsDescribed(t *testing.T) {
	t.Parallel()
	c := newChecker(t)
	const envelope, many, q = "application/vnd.goworker.job+json", "application/x-ndjson", "/v2/shop/queues/q"

	// Publishing.
	c.call(201, "POST", q+"/jobs", "hello", "Content-Type", "text/plain")
	c.call(201, "POST", q+"/jobs", "a=1", "Content-Type", "application/x-www-form-urlencoded")
	c.call(201, "POST", q+"/jobs", `[1]`, "Idempotency-Key", "k", "Goworker-Meta-A", "b")
	c.call(201, "POST", q+"/jobs", `[1]`, "Idempotency-Key", "k", "Goworker-Meta-A", "b")
	c.call(422, "POST", q+"/jobs", `[2]`, "Idempotency-Key", "k", "Goworker-Meta-A", "b")
	c.call(201, "POST", q+"/jobs?class=Mail&id=own&delay_ms=0&ttl_ms=600000&tries=3&timeout_ms=1000&priority=1&result_ttl_ms=60000", `{"a":1}`)
	c.call(201, "POST", q+"/jobs?at=2001-01-01T00:00:00Z&expires_at=4000000000000&unique=key", `true`)
	c.call(409, "POST", q+"/jobs?unique=key", `true`)
	c.call(201, "POST", q+"/jobs", `{"class":"Mail","args":[1,"a",{"b":null}],"delay_ms":600000,"ttl_ms":700000,"tries":5,"timeout_ms":1000,
		"priority":2,"meta":{"a":"b"},"unique":{"key":"x","until":"done","for_ms":60000},"result_ttl_ms":1000,"id":"a.b:c"}`, "Content-Type", envelope)
	c.call(201, "POST", q+"/jobs", "{\"body\":\"1\"}\n{\"body_base64\":\"/wAB\"}", "Content-Type", many)
	c.wrong(400, "POST", q+"/jobs?tries=0", `{}`)
	c.wrong(400, "POST", q+"/jobs", `{"nonsense":1}`, "Content-Type", envelope)
	c.wrong(400, "POST", "/v2/shop/queues/a,b/jobs", strings.Repeat("x", 300)) // nothing in the document forbids the comma: the query does
	c.wrong(401, "POST", q+"/jobs?tries=0", `1`, "Authorization", "Bearer nothing")

	// Looking.
	c.call(200, "GET", q+"/jobs", "")
	for _, state := range []string{"ready", "delayed", "reserved", "dead"} {
		c.call(200, "GET", q+"/jobs?limit=2&state="+state, "")
	}
	c.wrong(400, "GET", q+"/jobs?state=lost", "")
	c.call(200, "GET", q+"/jobs/own", "")
	c.call(200, "GET", "/v2/shop/queues?limit=1", "")
	c.call(200, "GET", q+"?delays=1m,1h", "")
	c.call(404, "GET", "/v2/shop/queues/none", "")
	c.call(401, "GET", q, "", "Authorization", "Bearer nothing")

	// Ending.
	for range 7 {
		id, lease := c.reserve("q")
		c.call(204, "POST", q+"/jobs/"+id+"/ack", `{"lease":"`+lease+`","result":{"a":[1]}}`)
		c.call(404, "POST", q+"/jobs/"+id+"/ack", `{}`)
	}
	c.call(200, "GET", q+"/jobs/own/result", "")
	c.call(404, "GET", q+"/jobs/none/result?wait_ms=1", "")
	c.call(204, "POST", "/v2/shop/reservations", `{"queues":["none"]}`)
	c.wrong(400, "POST", "/v2/shop/reservations", `{"queues":[]}`)
	c.call(201, "POST", q+"/jobs?tries=3", `1`)
	id, lease := c.reserve("q")
	at := q + "/jobs/" + id
	c.call(200, "GET", at, "")
	for _, how := range []string{"ack", "nack", "fail", "release", "touch"} {
		c.call(409, "POST", at+"/"+how, `{"lease":"1"}`)
	}
	lease = c.call(200, "POST", at+"/touch", `{"lease":"`+lease+`","ttr_ms":30000}`)["lease"].(string)
	c.call(204, "POST", at+"/release", `{"lease":"`+lease+`"}`)
	c.reserve("q")
	c.call(204, "POST", at+"/nack", `{"delay_ms":0,"error":"ill"}`)
	c.reserve("q")
	c.call(409, "DELETE", at, "")
	c.call(204, "POST", at+"/fail", `{"error":"too ill"}`)
	dead := c.call(200, "GET", q+"/jobs?state=dead", "")["jobs"].([]any)[0].(map[string]any)
	c.call(200, "POST", q+"/dead", `{"ids":["`+dead["dead_id"].(string)+`"]}`)
	c.call(409, "POST", q+"/dead", `{"ids":["`+dead["dead_id"].(string)+`"]}`)
	c.call(200, "DELETE", q+"/dead", `{"class":"HTTPJob","text":"ill","until":"2100-01-01T00:00:00Z","limit":10}`)
	c.wrong(400, "DELETE", q+"/dead", `{"ids":["x"]}`)
	c.reserve("q")
	again := c.call(201, "PUT", at+"?tries=2", `"other"`)["id"].(string)
	c.reserve("q")
	out := c.call(200, "POST", "/v2/shop/acks", `{"jobs":[{"queue":"q","id":"`+again+`"},{"queue":"q","id":"none","lease":"1.5"}]}`)
	if fmt.Sprint(out["results"]) != "[acked unknown]" {
		t.Errorf("%v", out)
	}
	c.call(202, "DELETE", q+"/jobs/not.there?force=true", "")
	c.call(204, "DELETE", q+"/jobs/"+c.call(201, "POST", q+"/jobs?delay_ms=60000", `1`)["id"].(string), "")

	// Calls.
	called := make(chan map[string]any, 1)
	go func() { called <- c.call(200, "POST", "/v2/shop/queues/calls/call?wait_ms=20000", `{"n":1}`) }()
	id, _ = c.reserve("calls")
	c.call(204, "POST", "/v2/shop/queues/calls/jobs/"+id+"/ack", `{"result":2}`)
	if out := <-called; out["result"] != 2.0 {
		t.Errorf("%v", out)
	}
	id = c.call(202, "POST", "/v2/shop/queues/calls/call?wait_ms=1", `1`)["id"].(string)
	c.call(204, "GET", "/v2/shop/queues/calls/jobs/"+id+"/result", "")
	c.reserve("calls")
	c.call(204, "POST", "/v2/shop/queues/calls/jobs/"+id+"/fail", `{}`)
	c.call(422, "GET", "/v2/shop/queues/calls/jobs/"+id+"/result", "")

	// The queue itself.
	c.call(204, "POST", q+"/pause", "")
	c.call(204, "POST", q+"/resume", "")
	c.call(204, "DELETE", q, "")
	c.listen()

	// The server.
	c.call(200, "GET", "/openapi.json", "")
	c.call(200, "GET", "/healthz", "")
	c.call(200, "GET", "/readyz", "")

	for path, item := range c.doc.Paths.Map() {
		for method, operation := range item.Operations() {
			statuses := c.seen[operation.OperationID]
			if len(statuses) == 0 {
				t.Errorf("%s %s was not called", method, path)
			}
			for status := range operation.Responses.Map() {
				if status < "300" && !statuses[number(status)] {
					t.Errorf("%s %s: no answer with the status %s; there were %v", method, path, status, slices.Collect(maps.Keys(statuses)))
				}
			}
		}
	}
}

func number(text string) (n int) {
	_, _ = fmt.Sscan(text, &n)
	return n
}

// listen reads one event, and checks the counts in it.
func (c *checker) listen() {
	c.t.Helper()
	ctx, cancel := context.WithTimeout(c.t.Context(), 2*time.Minute)
	defer cancel()
	r, _ := http.NewRequestWithContext(ctx, "GET", c.url+"/v2/shop/events?queues=q", nil)
	r.Header.Set("Authorization", "Bearer "+c.token)
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	var text []byte
	for !bytes.Contains(text, []byte("event: counts\ndata: ")) || !bytes.HasSuffix(text, []byte("\n\n")) {
		piece := make([]byte, 4096)
		n, err := res.Body.Read(piece)
		if text = append(text, piece[:n]...); err != nil {
			c.t.Fatalf("the stream ended: %v: %s", err, text)
		}
	}
	_, data, _ := bytes.Cut(text, []byte("data: "))
	var event struct{ Queues map[string]any }
	if err := json.Unmarshal(bytes.TrimSpace(data), &event); err != nil {
		c.t.Fatalf("%v: %s", err, text)
	}
	if err := c.doc.Components.Schemas["Counts"].Value.VisitJSON(event.Queues["q"]); err != nil {
		c.t.Error(err)
	}
	c.note("listen", res.StatusCode)
}
