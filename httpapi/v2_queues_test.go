package httpapi_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// TestV2Queues lists queues with their counts, pauses one and destroys it.
func TestV2Queues(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	p.problem("no-queue", 404, "GET", "/v2/shop/queues/mail", "")
	for range 3 {
		p.publish("/v2/shop/queues/mail/jobs", "a")
	}
	for _, delay := range []string{"55000", "120000", "7200000"} {
		p.publish("/v2/shop/queues/mail/jobs?delay_ms="+delay, "b")
	}
	p.publish("/v2/shop/queues/img-a%2Fb/jobs", "c")
	p.publish("/v2/other/queues/x/jobs", "d")
	j := p.one("mail")
	type counts struct {
		Name                  string
		Ready, Reserved, Dead int
		Paused                bool
		Oldest                *int64 `json:"oldest_ready_ms"`
		Delays                struct {
			Within []struct{ Ms, Jobs int64 }
			Later  int
		}
	}
	c := ask[counts](p, 200, "GET", "/v2/shop/queues/mail?delays=1m,1h,1d", "")
	if c.Name != "mail" || c.Ready != 2 || c.Reserved != 1 || c.Dead != 0 || c.Paused || c.Oldest == nil ||
		fmt.Sprint(c.Delays.Within) != "[{60000 1} {3600000 2} {86400000 3}]" || c.Delays.Later != 0 {
		t.Errorf("%+v", c)
	}
	for _, wrong := range []string{"x", "1h,1m", "-1s", "1s,1s", "0s", strings.Repeat("1s,", 20) + "1s"} {
		p.problem("invalid-parameter", 400, "GET", "/v2/shop/queues/mail?delays="+wrong, "")
	}
	list := ask[struct {
		Queues []counts
		Next   string
	}](p, 200, "GET", "/v2/shop/queues?limit=1", "")
	if len(list.Queues) != 1 || list.Queues[0].Name != "img-a/b" || list.Next != "img-a/b" {
		t.Errorf("%+v", list)
	}
	list = ask[struct {
		Queues []counts
		Next   string
	}](p, 200, "GET", "/v2/shop/queues?after=img-a%2Fb", "")
	if len(list.Queues) != 1 || list.Queues[0].Name != "mail" || list.Queues[0].Ready != 2 || list.Next != "" {
		t.Errorf("%+v", list)
	}

	ask[any](p, 204, "POST", "/v2/shop/queues/mail/pause", "")
	if c := ask[counts](p, 200, "GET", "/v2/shop/queues/mail", ""); !c.Paused {
		t.Errorf("%+v", c)
	}
	if jobs := p.take(`{"queues":["mail"]}`); jobs != nil {
		t.Errorf("a paused queue gave %+v", jobs)
	}
	waits := make(chan given)
	go func() { waits <- p.one("mail") }()
	ask[any](p, 204, "POST", "/v2/shop/queues/mail/resume", "")
	if got := <-waits; *got.Body != "a" {
		t.Errorf("%+v", got)
	}

	p.end(204, j, "fail", lease(j))
	ask[any](p, 204, "DELETE", "/v2/shop/queues/mail", "")
	if c := ask[counts](p, 200, "GET", "/v2/shop/queues/mail", ""); c.Ready+c.Reserved != 0 || c.Dead != 1 {
		t.Errorf("%+v", c)
	}
	if n := p.redis.Int(t, "ZCARD", "resque:go:schedule"); n != 0 {
		t.Errorf("%d delayed jobs are left", n)
	}

	// The audit has what was done with the whole queue, and by whom.
	ask[any](p, 200, "DELETE", "/v2/shop/queues/mail/dead", `{"all":true}`)
	audit := strings.Join(p.redis.List(t, "LRANGE", "resque:go:audit", 0, -1), "\n")
	for _, what := range []string{"PauseQueue", "ResumeQueue", "DestroyQueue", "RemoveDead"} {
		if !strings.Contains(audit, `"`+what+`"`) || !strings.Contains(audit, `"shop.mail"`) || !strings.Contains(audit, "HTTP, namespace shop") {
			t.Errorf("the audit has no %s of the queue: %s", what, audit)
		}
	}
}

// TestV2Dead retries and removes dead letters.
func TestV2Dead(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	for _, body := range []string{"a", "b", "c", "d"} {
		p.publish("/v2/shop/queues/q/jobs?class="+strings.ToUpper(body), body)
		p.end(204, p.one("q"), "fail", `{"error":"no `+body+`"}`)
	}
	type letter struct {
		ID, State, Body, Error string
		DeadID                 string `json:"dead_id"`
		RetriedAt              string `json:"retried_at"`
	}
	type page struct {
		Jobs []letter
		Next string
	}
	list := func() page { return ask[page](p, 200, "GET", "/v2/shop/queues/q/jobs?state=dead", "") }
	dead := list()
	if len(dead.Jobs) != 4 || dead.Jobs[0].Body != "d" || dead.Jobs[0].Error != "no d" {
		t.Fatalf("%+v", dead)
	}
	if found := ask[letter](p, 200, "GET", "/v2/shop/queues/q/jobs/"+dead.Jobs[2].ID, ""); found != dead.Jobs[2] || found.State != "dead" {
		t.Errorf("found %+v, want %+v", found, dead.Jobs[2])
	}
	redistest.Eventually(t, patience, "a dead letter cannot be cancelled", func() bool { // its queue may rest from a search
		r := p.send("DELETE", "/v2/shop/queues/q/jobs/"+dead.Jobs[2].ID, "")
		return r.status == 404 && strings.Contains(r.body, "#no-job")
	})
	type change struct {
		Changed int
		Next    string
	}
	const at = "/v2/shop/queues/q/dead"
	if c := ask[change](p, 200, "POST", at, `{"ids":["`+dead.Jobs[0].DeadID+`"]}`); c.Changed != 1 {
		t.Errorf("%+v", c)
	}
	if j := p.one("q"); *j.Body != "d" || j.Attempt != 1 {
		t.Errorf("%+v", j)
	} else {
		p.end(204, j, "ack", lease(j))
	}
	p.problem("exists", 409, "POST", at, `{"ids":["`+dead.Jobs[0].DeadID+`"]}`)
	p.problem("no-job", 404, "POST", at, `{"ids":["`+strings.Repeat("0", 28)+`"]}`)
	if c := ask[change](p, 200, "POST", at, `{"class":"A"}`); c.Changed != 1 || c.Next != "" {
		t.Errorf("%+v", c)
	}
	if c := ask[change](p, 200, "DELETE", at, `{"limit":1}`); c.Changed != 1 || c.Next == "" {
		t.Errorf("%+v", c)
	}
	if c := ask[change](p, 200, "DELETE", at, `{"text":"NO B"}`); c.Changed != 1 {
		t.Errorf("%+v", c)
	}
	if c := ask[change](p, 200, "DELETE", at, `{"until":"2001-01-01T00:00:00Z"}`); c.Changed != 0 {
		t.Errorf("%+v", c)
	}
	if c := ask[change](p, 200, "DELETE", at, `{"all":true}`); c.Changed != 2 {
		t.Errorf("%+v", c)
	}
	if dead := list(); len(dead.Jobs) != 0 {
		t.Errorf("%+v", dead)
	}
	for _, wrong := range []string{`{}`, `{"ids":["x"]}`, `{"ids":[],"all":true}`, `{"limit":0}`, `{"until":"soon"}`, `{"nonsense":1}`, `{"all":true,"after":"x"}`, `{"limit":1,"after":"x"}`} {
		p.problem("invalid-parameter", 400, "DELETE", at, wrong)
	}
	p.problem("too-many-jobs", 413, "DELETE", at, `{"ids":[`+strings.Repeat(`"`+strings.Repeat("0", 28)+`",`, 1000)+`"`+strings.Repeat("0", 28)+`"]}`)
}

// stream is a client that listens.
type stream struct {
	t      *testing.T
	events chan anything // of the counts: the queues
	stop   context.CancelFunc
}

func (p *place) listen(query string, headers ...string) *stream {
	p.t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	s := &stream{t: p.t, events: make(chan anything, 100), stop: stop}
	p.t.Cleanup(stop)
	r, _ := http.NewRequestWithContext(ctx, "GET", p.url+"/v2/shop/events"+query, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	res, err := p.http.Do(r)
	if err != nil || res.StatusCode != 200 || res.Header.Get("Content-Type") != "text/event-stream" {
		p.t.Fatalf("listening: %v %+v", err, res)
	}
	go func() {
		defer close(s.events)
		defer res.Body.Close()
		name := ""
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			if n, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = n
			}
			if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok && name == "counts" {
				var out struct{ Queues anything }
				if json.Unmarshal([]byte(data), &out) == nil {
					s.events <- out.Queues
				}
			}
		}
	}()
	return s
}

// until waits for an event in which a queue has so many ready jobs; -1: the queue is gone.
func (s *stream) until(queue string, ready float64) (others []string) {
	s.t.Helper()
	for timeout := time.After(patience); ; {
		select {
		case e, open := <-s.events:
			if !open {
				s.t.Fatal("the stream has ended")
			}
			for name := range e {
				if name != queue {
					others = append(others, name)
				}
			}
			if counts, there := e[queue]; there {
				c, _ := counts.(anything)
				if c == nil && ready == -1 || c != nil && c["ready"] == ready {
					return others
				}
			}
		case <-timeout:
			s.t.Fatalf("no event says that %s has %v ready jobs", queue, ready)
		}
	}
}

// TestV2Events listens to the counts of queues.
func TestV2Events(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	p.publish("/v2/shop/queues/a/jobs", "1")
	p.publish("/v2/other/queues/a/jobs", "1")
	all, some := p.listen(""), p.listen("?queues=b,c")
	all.until("a", 1)
	p.publish("/v2/shop/queues/b/jobs", "2")
	if others := all.until("b", 1); len(others) != 0 {
		t.Errorf("the events have %q, which did not change", others)
	}
	for _, name := range some.until("b", 1) {
		if name != "c" {
			t.Errorf("the events have %q, for which nothing listens", name)
		}
	}
	p.problem("invalid-parameter", 400, "GET", "/v2/shop/events?queues=*", "")
	p.problem("invalid-parameter", 400, "GET", "/v2/shop/events?queue=a", "")

	// Without listeners nothing looks.
	all.stop()
	some.stop()
	for range all.events {
	}
	for range some.events {
	}
	redistest.Eventually(t, patience, "the look has ended", func() bool { return p.api.Looks() == 0 })
}

// TestV2StopEndsWaits stops a server that has a listener and a waiting call.
func TestV2StopEndsWaits(t *testing.T) {
	t.Parallel()
	p := serveV2(t, httpapi.Settings{Open: true})
	s := p.listen("")
	calls := make(chan reply, 1)
	go func() { calls <- p.send("POST", "/v2/shop/queues/q/call?wait_ms=600000", "a") }()
	takes := make(chan reply, 1)
	go func() { takes <- p.send("POST", "/v2/shop/reservations", `{"queues":["other"],"wait_ms":600000}`) }()
	redistest.Eventually(t, patience, "the call is published", func() bool { return p.redis.Int(t, "LLEN", "resque:queue:shop.q") == 1 })
	redistest.Eventually(t, patience, "the consumer waits", func() bool { return p.api.Waiting() >= 1 })
	p.api.Drain()
	p.problem("stopping", 503, "GET", "/readyz", "")
	if r := <-calls; r.status != 202 {
		t.Errorf("%+v", r)
	}
	if r := <-takes; r.status != 204 {
		t.Errorf("%+v", r)
	}
	for range s.events {
	}
}
