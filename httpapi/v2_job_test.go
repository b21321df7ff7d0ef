package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

const patience = time.Minute

// TestV2FindAndCancel looks for jobs in each state, and cancels them.
func TestV2FindAndCancel(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	ready := p.publish("/v2/shop/queues/q/jobs", "a")
	delayed := p.publish("/v2/shop/queues/q/jobs?delay_ms=600000", "b")
	p.publish("/v2/shop/queues/r/jobs", "c")
	reserved := p.one("r")
	for _, tt := range []struct{ queue, id, state, body string }{{"q", ready, "ready", "a"}, {"q", delayed, "delayed", "b"}, {"r", reserved.ID, "reserved", "c"}} {
		got := ask[anything](p, 200, "GET", "/v2/shop/queues/"+tt.queue+"/jobs/"+tt.id, "")
		if got["state"] != tt.state || got["body"] != tt.body || got["id"] != tt.id || got["lease"] != nil {
			t.Errorf("%v", got)
		}
	}
	redistest.Eventually(t, patience, "the queue may be searched again", func() bool { // for a job of another queue
		return p.send("GET", "/v2/shop/queues/q/jobs/"+reserved.ID, "").status == 404
	})
	p.problem("is-reserved", 409, "DELETE", "/v2/shop/queues/r/jobs/"+reserved.ID, "")
	ask[any](p, 204, "DELETE", "/v2/shop/queues/r/jobs/"+reserved.ID+"?force=true", "")
	p.problem("no-job", 404, "POST", "/v2/shop/queues/r/jobs/"+reserved.ID+"/ack", lease(reserved))
	ask[any](p, 204, "DELETE", "/v2/shop/queues/q/jobs/"+delayed, "")
	p.problem("invalid-parameter", 400, "DELETE", "/v2/shop/queues/q/jobs/"+ready+"?force=1", "")
	redistest.Eventually(t, patience, "the queue may be searched again", func() bool {
		return p.send("DELETE", "/v2/shop/queues/q/jobs/"+ready, "").status == 204
	})
	if jobs := p.take(`{"queues":["q","r"]}`); jobs != nil {
		t.Errorf("%+v is left", jobs)
	}
}

// TestV2Republish puts a job in the place of another one.
func TestV2Republish(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	p.publish("/v2/shop/queues/q/jobs", "a")
	j := p.one("q")
	r := p.send("PUT", "/v2/shop/queues/q/jobs/"+j.ID+"?tries=4", "b")
	var out struct{ ID string }
	if err := json.Unmarshal([]byte(r.body), &out); err != nil || r.status != 201 || r.header.Get("Location") != "./"+out.ID {
		t.Fatalf("%d %s %s", r.status, r.body, r.header.Get("Location"))
	}
	p.problem("no-job", 404, "POST", "/v2/shop/queues/q/jobs/"+j.ID+"/ack", lease(j))
	if next := p.one("q"); *next.Body != "b" || next.Tries != 4 || next.ID != out.ID {
		t.Errorf("%+v", next)
	}
	p.problem("invalid-parameter", 400, "PUT", "/v2/shop/queues/q/jobs/"+out.ID+"?tries=x", "b")

	// With a key a repetition makes no second job, whether a consumer has the old one or it waits.
	for i, reserved := range []bool{true, false} {
		queue := fmt.Sprintf("once%d", i)
		old := p.publish("/v2/shop/queues/"+queue+"/jobs", "a")
		if reserved {
			p.one(queue)
		}
		first, again := "", ""
		for _, id := range []*string{&first, &again} {
			r := p.send("PUT", "/v2/shop/queues/"+queue+"/jobs/"+old, "b", "Idempotency-Key", "k")
			*id = r.body
			if r.status != 201 || (r.header.Get("Idempotent-Replayed") != "") != (id == &again) {
				t.Errorf("%d %s %v", r.status, r.body, r.header)
			}
		}
		if next := p.one(queue); first != again || *next.Body != "b" {
			t.Errorf("%s and then %s; the job is %+v", first, again, next)
		}
		if n := p.redis.Int(t, "LLEN", "resque:queue:shop."+queue); n != 0 {
			t.Errorf("%d jobs more are in the queue", n)
		}
		p.problem("key-reused", 422, "PUT", "/v2/shop/queues/"+queue+"/jobs/"+old, "c", "Idempotency-Key", "k")
	}
	p.problem("invalid-parameter", 400, "PUT", "/v2/shop/queues/q/jobs/"+out.ID, "{}", "Content-Type", "application/x-ndjson")
}

// TestV2Pages lists jobs page by page.
func TestV2Pages(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	var lines strings.Builder
	for i := range 25 {
		fmt.Fprintf(&lines, "{\"body\":\"r%d\"}\n{\"body\":\"d%d\",\"delay_ms\":%d}\n", i, i, 600000+i*1000)
	}
	p.send("POST", "/v2/shop/queues/q/jobs", lines.String(), "Content-Type", "application/x-ndjson")
	for state, letter := range map[string]string{"ready": "r", "delayed": "d"} {
		seen, after := map[string]bool{}, ""
		for pages := 0; ; pages++ {
			out := ask[struct {
				Jobs []anything
				Next string
			}](p, 200, "GET", "/v2/shop/queues/q/jobs?limit=10&state="+state+after, "")
			for _, j := range out.Jobs {
				seen[j["body"].(string)] = true
			}
			if after = "&after=" + url.QueryEscape(out.Next); out.Next == "" {
				break
			}
			if pages > 20 {
				t.Fatal("the pages do not end")
			}
		}
		for i := range 25 {
			if !seen[letter+fmt.Sprint(i)] || len(seen) != 25 {
				t.Errorf("%s: %v", state, seen)
			}
		}
	}
	p.problem("invalid-parameter", 400, "GET", "/v2/shop/queues/q/jobs?state=lost", "")
	p.problem("invalid-parameter", 400, "GET", "/v2/shop/queues/q/jobs?limit=0", "")
	for _, state := range []string{"ready", "delayed", "reserved", "dead"} {
		p.problem("invalid-parameter", 400, "GET", "/v2/shop/queues/q/jobs?after=%00&state="+state, "")
	}
}

// TestV2Idempotency repeats publishes with one key.
func TestV2Idempotency(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	const at = "/v2/shop/queues/q/jobs"
	first := p.send("POST", at+"?tries=2", "a", "Idempotency-Key", "k1", "Goworker-Meta-A", "1")
	again := p.send("POST", at+"?tries=2", "a", "Idempotency-Key", "k1", "Goworker-Meta-A", "1")
	if first.status != 201 || again.status != 201 || first.body != again.body || again.header.Get("Idempotent-Replayed") != "true" ||
		first.header.Get("Idempotent-Replayed") != "" || again.header.Get("Location") != first.header.Get("Location") {
		t.Errorf("%+v\n%+v", first, again)
	}
	for _, other := range [][]string{{at, "a", "1"}, {at + "?tries=2", "b", "1"}, {at + "?tries=2", "a", "2"}} {
		p.problem("key-reused", 422, "POST", other[0], other[1], "Idempotency-Key", "k1", "Goworker-Meta-A", other[2])
	}
	p.publish("/v2/shop/queues/r/jobs?tries=2", "a", "Idempotency-Key", "k1", "Goworker-Meta-A", "1") // another path
	p.publish("/v2/other/queues/q/jobs?tries=2", "a", "Idempotency-Key", "k1", "Goworker-Meta-A", "1")
	many := []string{"POST", at, "{\"body\":\"x\"}\n{\"body\":\"y\"}", "Content-Type", "application/x-ndjson", "Idempotency-Key", "k2"}
	b := p.send(many[0], many[1], many[2], many[3:]...)
	c := p.send(many[0], many[1], many[2], many[3:]...)
	if b.status != 201 || b.body != c.body || c.header.Get("Idempotent-Replayed") != "true" {
		t.Errorf("%+v\n%+v", b, c)
	}
	if n := p.redis.Int(t, "LLEN", "resque:queue:shop.q"); n != 3 {
		t.Errorf("the queue has %d jobs", n)
	}
	p.problem("invalid-parameter", 400, "POST", at, "a", "Idempotency-Key", strings.Repeat("k", 256))
	p.problem("invalid-parameter", 400, "POST", at, "a", "Idempotency-Key", "a", "Idempotency-Key", "b")
}

// TestV2Call publishes jobs and awaits their results, of a consumer and of a Go worker.
func TestV2Call(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	type outcome struct {
		ID, State string
		Result    json.RawMessage
	}
	answers := make(chan reply)
	go func() { answers <- p.send("POST", "/v2/shop/queues/sum/call?wait_ms=30000", "1+1") }()
	j := p.one("sum")
	p.end(204, j, "ack", lease(j, `"result":{"n":2}`))
	a := <-answers
	var o outcome
	if err := json.Unmarshal([]byte(a.body), &o); err != nil || a.status != 200 || o.ID != j.ID || o.State != "done" || string(o.Result) != `{"n":2}` {
		t.Errorf("%+v", a)
	}
	again := ask[outcome](p, 200, "GET", "/v2/shop/queues/sum/jobs/"+j.ID+"/result", "")
	if string(again.Result) != `{"n":2}` {
		t.Errorf("%+v", again)
	}

	// The document is of the place: another queue has none, though the id is right.
	p.problem("no-result", 404, "GET", "/v2/shop/queues/other/jobs/"+j.ID+"/result", "")
	p.problem("no-result", 404, "GET", "/v2/other/queues/sum/jobs/"+j.ID+"/result?wait_ms=1000", "")

	// A job that does not end in time goes on.
	r := p.send("POST", "/v2/shop/queues/sum/call?wait_ms=1", "2+2")
	if r.status != 202 || !strings.HasPrefix(r.header.Get("Location"), "jobs/") || !strings.HasSuffix(r.header.Get("Location"), "/result") {
		t.Fatalf("%+v", r)
	}
	at := "/v2/shop/queues/sum/" + r.header.Get("Location")
	ask[any](p, 204, "GET", at+"?wait_ms=1", "")
	ask[any](p, 204, "GET", at, "")
	j = p.one("sum")
	p.end(204, j, "fail", `{"error":"too large"}`)
	got := p.problem("job-failed", 422, "GET", at+"?wait_ms=10000", "")
	if got["state"] != "failed" || got["error"] != "too large" || got["id"] != j.ID {
		t.Errorf("%v", got)
	}

	// A worker of Go returns the result too.
	d := goworker.New(goworker.WorkerSettings{URI: p.redis.URI(), QueuesString: "shop.work", Concurrency: 1, PollInterval: 100 * time.Millisecond})
	d.Register("Sum", func(_ context.Context, text string) (int, error) { return len(text), nil })
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	t.Cleanup(d.Close)
	go func() { ended <- d.Run(ctx) }()
	o = ask[outcome](p, 200, "POST", "/v2/shop/queues/work/call?class=Sum&wait_ms=30000", "four")
	if string(o.Result) != "4" {
		t.Errorf("%+v", o)
	}
	stop()
	if err := <-ended; err != nil && ctx.Err() == nil {
		t.Error(err)
	}
	p.problem("invalid-parameter", 400, "POST", "/v2/shop/queues/sum/call?wait_ms=x", "")
	p.problem("invalid-parameter", 400, "POST", "/v2/shop/queues/sum/call", "{}", "Content-Type", "application/x-ndjson")
	p.publish("/v2/shop/queues/sum/jobs?id=plain", "")
	p.problem("no-result", 404, "GET", "/v2/shop/queues/sum/jobs/plain/result", "")
}

// TestV2TimeForRedis waits for results, and sends a body, longer than a call has for its questions to Redis.
func TestV2TimeForRedis(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	const longer = "3000"
	p.api.HasForRedis(2 * time.Second)
	p.publish("/v2/shop/queues/q/jobs?id=mine&result_ttl_ms=60000", "")
	var wg sync.WaitGroup
	for _, row := range []struct {
		status       int
		method, path string
	}{{204, "GET", "/v2/shop/queues/q/jobs/mine/result?wait_ms=" + longer}, {202, "POST", "/v2/shop/queues/q/call?wait_ms=" + longer}} {
		wg.Go(func() {
			if r := p.send(row.method, row.path, ""); r.status != row.status {
				t.Errorf("%s: %d %s", row.path, r.status, r.body)
			}
		})
	}
	wg.Go(func() {
		for tries := 0; ; tries++ {
			body, send := io.Pipe()
			time.AfterFunc(2500*time.Millisecond, func() { send.Close() })
			res, err := p.http.Post(p.url+"/v2/shop/queues/q/jobs", "text/plain", body)
			if err == nil {
				res.Body.Close()
			}
			if tries < 9 && (err != nil || res.StatusCode == http.StatusRequestTimeout) {
				continue // a busy machine took longer for it than the five seconds that a body has
			}
			if err != nil || res.StatusCode != http.StatusCreated {
				t.Errorf("a slow body: %+v, %v", res, err)
			}
			return
		}
	})
	wg.Wait()
}

// TestV2HeadOfEvents asks for the headers of a stream. The connection is free for the next request then.
func TestV2HeadOfEvents(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	p.http.Transport.(*http.Transport).MaxConnsPerHost = 1
	if r := p.send("HEAD", "/v2/shop/events", ""); r.status != 200 || r.header.Get("Content-Type") != "text/event-stream" {
		t.Errorf("%+v", r)
	}
	if r := p.send("GET", "/healthz", ""); r.status != 200 {
		t.Errorf("%+v", r)
	}
}

// TestV2ReplayedWithoutRoom repeats publishes whose first answer was lost, when there is no room for another job.
func TestV2ReplayedWithoutRoom(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true, Namespaces: map[string]httpapi.Namespace{"tight": {MaxLength: 1}, "later": {MaxDelayed: 1}}})
	for _, at := range []string{"/v2/tight/queues/q/jobs", "/v2/later/queues/q/jobs?delay_ms=600000", "/v2/shop/queues/q/jobs?unique=true", "/v2/shop/queues/r/jobs?id=mine"} {
		first := p.send("POST", at, "a", "Idempotency-Key", "k")
		again := p.send("POST", at, "a", "Idempotency-Key", "k")
		if first.status != 201 || again.status != 201 || again.body != first.body || again.header.Get("Idempotent-Replayed") != "true" {
			t.Errorf("%s: %d %s, then %d %s", at, first.status, first.body, again.status, again.body)
		}
		p.problem("key-reused", 422, "POST", at, "b", "Idempotency-Key", "k")
	}
	p.problem("queue-full", 429, "POST", "/v2/tight/queues/q/jobs", "a", "Idempotency-Key", "other")
}

// TestV2Over publishes jobs whose time is over: nobody gets them.
func TestV2Over(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	for _, at := range []string{"1960-01-01T00:00:00Z", "5", "2001-01-01T00:00:00Z", "2011-01-01T00:00:00Z"} {
		p.publish("/v2/shop/queues/q/jobs?expires_at="+at, at)
	}
	if jobs := p.take(`{"queues":["q"],"count":9}`); jobs != nil {
		t.Errorf("%+v", jobs)
	}
	for _, query := range []string{"ttl_ms=1000&delay_ms=1000", "at=2030-01-01T00:00:00Z&expires_at=2029-01-01T00:00:00Z"} {
		p.problem("invalid-parameter", 400, "POST", "/v2/shop/queues/q/jobs?"+query, "")
	}
}

// TestV2Unreadable takes what other programs have pushed that is no job, and what no JSON of an answer can have.
func TestV2Unreadable(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	deep := `{"class":"A","args":[` + strings.Repeat("[", 10020) + strings.Repeat("]", 10020) + `]}`
	for _, text := range []string{"no json", `{"args":[1]}`, deep} {
		p.redis.Int(t, "RPUSH", "resque:queue:shop.q", text)
		if j := p.one("q"); *j.Body != text {
			t.Errorf("%q has the body %q", text[:min(len(text), 50)], (*j.Body)[:min(len(*j.Body), 50)])
		}
	}
}
