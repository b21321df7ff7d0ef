package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
)

// work runs a daemon with a handler until the test ends.
func (s *site) work(t *testing.T, queue, class string, handler any) {
	t.Helper()
	d := goworker.New(goworker.WorkerSettings{URI: s.redis.URI(), QueuesString: queue, Concurrency: 1})
	d.Register(class, handler)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		d.Close()
	})
}

type delivered struct {
	body string
	meta map[string]string
	id   string
}

// A Go worker runs what was published over HTTP: with the bytes of its body, its metadata and its id.
func TestGoWorkerRunsWhatIsPublished(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{Namespaces: map[string]httpapi.Namespace{"shop": {Class: "Mail"}}})
	c := s.old(t, "shop")
	got := make(chan delivered, 1)
	s.work(t, "shop.mail", "Mail", func(ctx context.Context, body httpapi.Body) error {
		d := goworker.FromContext(ctx)
		got <- delivered{string(body), d.Meta, d.ID}
		return nil
	})
	const traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	for _, body := range []string{"hello", "", "\xff\x00", `{"base64":"/wAB"}`, strings.Repeat("long ", 10_000)} {
		header := http.Header{"Enable-Job-Version": {"YES"}, "Job-Attr-Tenant": {"ada"}, "Traceparent": {traceparent}, "Tracestate": {"x=1"}}
		var said struct {
			ID string `json:"job_id"`
		}
		if err := c.do(t.Context(), http.MethodPut, "/mail", nil, []byte(body), header, http.StatusCreated, &said); err != nil {
			t.Fatal(err)
		}
		d := <-got
		want := map[string]string{"tenant": "ada", "traceparent": traceparent, "tracestate": "x=1"}
		if d.body != body || !maps.Equal(d.meta, want) || d.id != said.ID {
			t.Errorf("%.20q ran as %.20q, %v, %s", body, d.body, d.meta, d.id)
		}
	}
	if _, err := c.bulk(t.Context(), "mail", []any{map[string]any{"to": "ada"}, "text", []byte{255}}, 0, 1, 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`{"to":"ada"}`, `"text"`, `"/w=="`} {
		if d := <-got; d.body != want {
			t.Errorf("a body ran as %q, want %q", d.body, want)
		}
	}
}

// A handler of other types has the value of a body that is JSON.
func TestGoWorkerReadsJSON(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	type mail struct{ To string }
	got := make(chan mail, 1)
	s.work(t, "shop.mail", "HTTPJob", func(m mail) { got <- m })
	if _, err := c.bulk(t.Context(), "mail", []any{mail{"ada"}}, 0, 1, 0); err != nil {
		t.Fatal(err)
	}
	if m := <-got; m.To != "ada" {
		t.Errorf("the handler got %+v", m)
	}
}

// A client of HTTP takes what Ruby and Go programs have pushed, and a job without an id gets one.
func TestHTTPTakesWhatOthersPush(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{Namespaces: map[string]httpapi.Namespace{"ruby": {Bare: true, Queues: []string{"mail.slow"}}}})
	c := s.old(t, "ruby")
	for payload, body := range map[string]string{
		`{"class":"Mail","args":["ada"]}`:                "ada",
		`{"class":"Mail","args":["ada",3]}`:              `["ada",3]`,
		`{"class":"Mail","args":[]}`:                     "[]",
		`{"class":"Mail","args":[{"to":"ada","n":1.0}]}`: `{"to":"ada","n":1.0}`,
	} {
		s.redis.Do(t, "SADD", "resque:queues", "mail")
		s.redis.Do(t, "RPUSH", "resque:queue:mail", payload)
		j, err := c.consume(t.Context(), 60, 30, "mail")
		if err != nil || j == nil || string(j.Data) != body || j.ID == "" || j.Queue != "mail" || j.TTL != 0 || j.RemainTries != 0 {
			t.Fatalf("%s came as %+v, %v", payload, j, err)
		}
		if err := c.ack(t.Context(), "mail", j.ID); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.redis.Int(t, "ZCARD", "resque:go:leases"); n != 0 {
		t.Errorf("%d leases are left", n)
	}
	job := &goworker.Job{Queue: "mail", Payload: goworker.Payload{Class: "Mail", Args: []any{httpapi.Body("\xff\x00")}}}
	if _, err := s.jobs.Enqueue(t.Context(), job, goworker.WithMeta(map[string]string{"k": "v"})); err != nil {
		t.Fatal(err)
	}
	if j, err := c.consume(t.Context(), 60, 30, "mail"); err != nil || j == nil || string(j.Data) != "\xff\x00" || j.Attributes["k"] != "v" {
		t.Errorf("Go's job came as %+v, %v", j, err)
	}
	id, err := c.publish(t.Context(), oldPublish{queue: "mail", data: []byte("x"), tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.redis.List(t, "LRANGE", "resque:queue:mail", 0, -1); len(got) != 1 || got[0] != `{"class":"HTTPJob","args":["x"],"id":"`+id+`"}` {
		t.Errorf("Ruby finds %q", got)
	}
}

// A Go worker answers a call too: by Enqueue to the queue with the name of the job.
func TestGoWorkerAnswersCall(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	s.work(t, "shop.sum", "HTTPJob", func(ctx context.Context, body httpapi.Body) error {
		d := goworker.FromContext(ctx)
		answer := goworker.Payload{Class: "HTTPJob", Args: []any{httpapi.Body("sum of " + string(body))}}
		_, err := s.jobs.Enqueue(ctx, &goworker.Job{Queue: "shop." + d.ID, Payload: answer})
		return err
	})
	id, err := c.publish(t.Context(), oldPublish{queue: "sum", data: []byte("1+2"), ttl: 60, tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	if j, err := c.consume(t.Context(), 60, 60, id); err != nil || j == nil || string(j.Data) != "sum of 1+2" {
		t.Errorf("the answer is %+v, %v", j, err)
	}
}

// What a consumer failed is a record of its queue's own list, with which resque-web's button does what it does with each: it marks
// the record, and pushes the class and the arguments to the queue of the record.
func TestRubyRetriesDeadLetter(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	for _, body := range []string{"hello", "\xff\x00", ""} {
		id, err := c.publish(t.Context(), oldPublish{queue: "mail", data: []byte(body), tries: 1, ttl: 60, attributes: map[string]string{"k": "v"}})
		if err != nil {
			t.Fatal(err)
		}
		if j, err := c.consume(t.Context(), 60, 0, "mail"); err != nil || j == nil || j.ID != id {
			t.Fatal(j, err)
		}
		if got := c.raw(t, http.MethodPut, "/api/shop/mail/job/"+id+"/nack", nil); got != "204 " {
			t.Fatal(got)
		}
		text := s.redis.Text(t, "LINDEX", "resque:shop.mail_failed", -1)
		record := make(map[string]any)
		if err := json.Unmarshal([]byte(text), &record); err != nil {
			t.Fatal(err)
		}
		for _, field := range []string{"failed_at", "payload", "exception", "error", "backtrace", "worker", "queue"} { // what its page shows
			if _, ok := record[field]; !ok {
				t.Errorf("the record has no %s: %s", field, text)
			}
		}
		record["retried_at"] = "2026/11/23 19:00:00"
		marked, _ := json.Marshal(record)
		payload, _ := record["payload"].(map[string]any)
		again, _ := json.Marshal(map[string]any{"class": payload["class"], "args": payload["args"]})
		s.redis.Do(t, "LSET", "resque:shop.mail_failed", -1, marked)
		s.redis.Do(t, "SADD", "resque:queues", record["queue"])
		s.redis.Do(t, "RPUSH", "resque:queue:"+record["queue"].(string), again)
		j, err := c.consume(t.Context(), 60, 30, "mail")
		if err != nil || j == nil || string(j.Data) != body || j.RemainTries != 0 || j.TTL != 0 {
			t.Fatalf("%q came as %+v, %v", body, j, err)
		}
		if err := c.ack(t.Context(), "mail", j.ID); err != nil {
			t.Fatal(err)
		}
	}
	if names := s.redis.List(t, "SMEMBERS", "resque:failed_queues"); len(names) != 1 || names[0] != "shop.mail_failed" {
		t.Errorf("the lists of failures are %q", names)
	}
}

// Body takes each form of a body, in a struct too.
func TestBody(t *testing.T) {
	t.Parallel()
	for argument, want := range map[string]string{
		`"ada"`: "ada", `{"base64":"/wAB"}`: "\xff\x00\x01", `{"a":1}`: `{"a":1}`, "null": "null", "3.5": "3.5", `""`: "",
	} {
		var b httpapi.Body
		if err := json.Unmarshal([]byte(argument), &b); err != nil || string(b) != want {
			t.Errorf("%s is the body %q, %v", argument, b, err)
		}
		text, err := json.Marshal(b)
		var again httpapi.Body
		if err == nil {
			err = json.Unmarshal(text, &again)
		}
		if err != nil || !bytes.Equal(b, again) {
			t.Errorf("%q came back as %q, %v", b, again, err)
		}
	}
}

// The API serves below a path.
func TestBelowPath(t *testing.T) {
	t.Parallel()
	s := serve(t, httpapi.Settings{})
	mux := http.NewServeMux()
	mux.Handle("/queue/", http.StripPrefix("/queue", s.api))
	on := newServer(t, mux)
	r, err := http.NewRequest(http.MethodPut, on.URL+"/queue/api/shop/mail", strings.NewReader("hello"))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Token", s.token(t, "shop"))
	answer, err := on.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, _ := io.ReadAll(answer.Body); answer.StatusCode != http.StatusCreated {
		t.Errorf("%d: %s", answer.StatusCode, text)
	}
}
