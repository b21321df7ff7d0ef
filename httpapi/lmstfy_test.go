package httpapi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker/httpapi"
)

// oldClient does what the published clients of lmstfy do: the token in a header, the parameters in the query, data in base64, and
// a status that is not the expected one is an error with the text of "error". There is no job where the status is 404.
type oldClient struct {
	url, namespace, token string
	http                  *http.Client
}

type oldJob struct {
	Namespace   string            `json:"namespace"`
	Queue       string            `json:"queue"`
	Data        []byte            `json:"data"`
	ID          string            `json:"job_id"`
	TTL         int64             `json:"ttl"`
	Elapsed     int64             `json:"elapsed_ms"`
	RemainTries int64             `json:"remain_tries"`
	Attributes  map[string]string `json:"attributes"`
}

func (s *site) old(t *testing.T, namespace string) *oldClient {
	return &oldClient{url: s.url, namespace: namespace, token: s.token(t, namespace), http: s.client}
}

// oldError is what a client gets that asked for something else.
type oldError struct {
	status int
	reason string
}

func (e *oldError) Error() string { return fmt.Sprintf("%d: %s", e.status, e.reason) }

func (c *oldClient) do(ctx context.Context, method, path string, query url.Values, body []byte, header http.Header, status int, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, c.url+"/api/"+c.namespace+path+"?"+query.Encode(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, values := range header {
		r.Header[name] = values
	}
	r.Header.Set("X-Token", c.token)
	answer, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return err
	}
	if answer.StatusCode != status {
		var said struct {
			Error string `json:"error"`
		}
		_ = json.Unmarshal(text, &said)
		return &oldError{answer.StatusCode, said.Error}
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(text, into)
}

func params(pairs ...any) url.Values {
	q := url.Values{}
	for i := 0; i < len(pairs); i += 2 {
		q.Set(pairs[i].(string), fmt.Sprint(pairs[i+1]))
	}
	return q
}

type oldPublish struct {
	queue, instead    string
	data              []byte
	ttl, tries, delay int
	attributes        map[string]string
}

func (c *oldClient) publish(ctx context.Context, p oldPublish) (id string, err error) {
	path := "/" + p.queue
	if p.instead != "" {
		path += "/job/" + p.instead
	}
	header := http.Header{}
	if len(p.attributes) > 0 {
		header.Set("Enable-Job-Version", "YES")
		for name, value := range p.attributes {
			header.Set("Job-Attr-"+strings.ToTitle(name), value)
		}
	}
	var said struct {
		ID string `json:"job_id"`
	}
	err = c.do(ctx, http.MethodPut, path, params("ttl", p.ttl, "tries", p.tries, "delay", p.delay), p.data, header, http.StatusCreated, &said)
	return said.ID, err
}

func (c *oldClient) bulk(ctx context.Context, queue string, bodies []any, ttl, tries, delay int) (ids []string, err error) {
	body, err := json.Marshal(bodies)
	if err != nil {
		return nil, err
	}
	var said struct {
		IDs []string `json:"job_ids"`
	}
	err = c.do(ctx, http.MethodPut, "/"+queue+"/bulk", params("ttl", ttl, "tries", tries, "delay", delay), body, nil, http.StatusCreated, &said)
	return said.IDs, err
}

// consume returns nil for no job.
func (c *oldClient) consume(ctx context.Context, ttr, timeout int, queues ...string) (*oldJob, error) {
	j := new(oldJob)
	err := c.do(ctx, http.MethodGet, "/"+strings.Join(queues, ","), params("ttr", ttr, "timeout", timeout, "freeze_tries", false), nil, nil, http.StatusOK, j)
	if missing(err) {
		return nil, nil
	}
	return j, err
}

func (c *oldClient) batch(ctx context.Context, count, ttr, timeout int, queues ...string) (jobs []*oldJob, err error) {
	err = c.do(ctx, http.MethodGet, "/"+strings.Join(queues, ","), params("ttr", ttr, "count", count, "timeout", timeout), nil, nil, http.StatusOK, &jobs)
	if missing(err) {
		return nil, nil
	}
	return jobs, err
}

func (c *oldClient) ack(ctx context.Context, queue, id string) error {
	return c.do(ctx, http.MethodDelete, "/"+queue+"/job/"+id, nil, nil, nil, http.StatusNoContent, nil)
}

func (c *oldClient) size(ctx context.Context, path string) (int, error) {
	var said struct {
		Size int `json:"size"`
	}
	err := c.do(ctx, http.MethodGet, "/"+path+"/size", nil, nil, nil, http.StatusOK, &said)
	return said.Size, err
}

// peek returns a job by the path behind its queue: "peek", or "job/" and its id; nil if there is none.
func (c *oldClient) peek(ctx context.Context, queue, what string) (*oldJob, error) {
	j := new(oldJob)
	err := c.do(ctx, http.MethodGet, "/"+queue+"/"+what, nil, nil, nil, http.StatusOK, j)
	if missing(err) {
		return nil, nil
	}
	return j, err
}

func (c *oldClient) deadLetter(ctx context.Context, queue string) (size int, head string, err error) {
	var said struct {
		Size int    `json:"deadletter_size"`
		Head string `json:"deadletter_head"`
	}
	err = c.do(ctx, http.MethodGet, "/"+queue+"/deadletter", nil, nil, nil, http.StatusOK, &said)
	return said.Size, said.Head, err
}

func (c *oldClient) respawn(ctx context.Context, queue string, limit, ttl int) (count int, err error) {
	var said struct {
		Count int `json:"count"`
	}
	err = c.do(ctx, http.MethodPut, "/"+queue+"/deadletter", params("limit", limit, "ttl", ttl), nil, nil, http.StatusOK, &said)
	return said.Count, err
}

func missing(err error) bool {
	var e *oldError
	return errors.As(err, &e) && e.status == http.StatusNotFound
}

// A client of lmstfy does its work from the first call to the last.
func TestOldClient(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := serve(t, httpapi.Settings{}).old(t, "shop")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, got, want any) {
		t.Helper()
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("%s: %s", what, diff)
		}
	}

	body := []byte("hello \x00\xff")
	id, err := c.publish(ctx, oldPublish{queue: "mail", data: body, ttl: 600, tries: 2, attributes: map[string]string{"tenant": "Ada"}})
	must(err)
	size, err := c.size(ctx, "mail")
	must(err)
	want("the size", size, 1)
	j, err := c.peek(ctx, "mail", "peek")
	must(err)
	want("the head", j.ID, id)
	j, err = c.consume(ctx, 60, 30, "mail")
	must(err)
	if j.Elapsed < 0 || j.Elapsed > 60_000 || j.TTL < 540 || j.TTL > 600 {
		t.Errorf("%d ms have gone, %d s are left", j.Elapsed, j.TTL)
	}
	j.Elapsed, j.TTL = 0, 0
	want("the job", j, &oldJob{Namespace: "shop", Queue: "mail", Data: body, ID: id, RemainTries: 1, Attributes: map[string]string{"tenant": "Ada"}})
	fresh, err := c.publish(ctx, oldPublish{queue: "mail", instead: id, data: []byte("again"), ttl: 600, tries: 1})
	must(err)
	j, err = c.peek(ctx, "mail", "job/"+id)
	must(err)
	want("the job that was republished", j, (*oldJob)(nil))
	must(c.ack(ctx, "mail", id))
	j, err = c.consume(ctx, 1, 30, "other", "mail")
	must(err)
	want("the job in its place", j.ID, fresh)

	redisEventually(t, "a job without tries is a dead letter", func() bool {
		size, head, err := c.deadLetter(ctx, "mail")
		return err == nil && size == 1 && head == fresh
	})
	count, err := c.respawn(ctx, "mail", 10, 600)
	must(err)
	want("respawned", count, 1)
	j, err = c.consume(ctx, 60, 30, "mail")
	must(err)
	want("the respawned job", []any{j.ID, string(j.Data), j.RemainTries}, []any{fresh, "again", int64(0)})
	must(c.ack(ctx, "mail", j.ID))

	ids, err := c.bulk(ctx, "mail", []any{map[string]any{"n": 1}, "two", 3.5, nil}, 0, 1, 0)
	must(err)
	jobs, err := c.batch(ctx, 3, 60, 30, "mail")
	must(err)
	more, err := c.batch(ctx, 3, 60, 0, "none", "mail")
	must(err)
	var got []string
	for i, j := range append(jobs, more...) {
		want("the id of "+strconv.Itoa(i), j.ID, ids[i])
		got = append(got, string(j.Data))
		must(c.ack(ctx, "mail", j.ID))
	}
	want("the bodies", got, []string{`{"n":1}`, `"two"`, "3.5", "null"})
	jobs, err = c.batch(ctx, 3, 60, 0, "mail")
	must(err)
	want("what is left", len(jobs), 0)

	_, err = c.publish(ctx, oldPublish{queue: "mail", data: body, ttl: 5, delay: 6, tries: 1})
	want("the error", err.Error(), "400: ttl is shorter than delay")
}

// A caller waits for the answer in a queue with the name of its job, and nothing of the call is left.
func TestSyncCall(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	id, err := c.publish(ctx, oldPublish{queue: "sum", data: []byte("1+2"), ttl: 60, tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	worker := make(chan error, 1)
	go func() {
		j, err := c.consume(ctx, 60, 30, "sum")
		if err == nil {
			_, err = c.publish(ctx, oldPublish{queue: j.ID, data: []byte("3"), ttl: 0, tries: 1})
		}
		if err == nil {
			err = c.ack(ctx, "sum", j.ID)
		}
		worker <- err
	}()
	answer, err := c.consume(ctx, 60, 30, id)
	if err != nil || answer == nil || string(answer.Data) != "3" || answer.Queue != id || answer.TTL < 540 || answer.TTL > 600 {
		t.Fatalf("the answer is %+v, %v", answer, err)
	}
	if err := c.ack(ctx, id, answer.ID); err != nil {
		t.Fatal(err)
	}
	if err := <-worker; err != nil {
		t.Fatal(err)
	}
	if queues := s.redis.List(t, "SMEMBERS", "resque:queues"); len(queues) != 1 || queues[0] != "shop.sum" {
		t.Errorf("there are the queues %v", queues)
	}
}

// An answer that its caller does not take goes after ten minutes at most, and one that it takes and does not acknowledge is no failure.
func TestSyncCallWithoutCaller(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	s := serve(t, httpapi.Settings{})
	c := s.old(t, "shop")
	id, err := c.publish(ctx, oldPublish{queue: "sum", data: []byte("1+2"), ttl: 60, tries: 1})
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := c.publish(ctx, oldPublish{queue: id, data: []byte("3"), ttl: 0, tries: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if left := s.redis.Int(t, "PTTL", "resque:queue:shop."+id); left <= 0 || left > int(10*time.Minute/time.Millisecond) {
		t.Errorf("the answers stay %d ms", left)
	}
	if j, err := c.consume(ctx, 1, 0, id); err != nil || j == nil {
		t.Fatal(j, err)
	}
	redisEventually(t, "a lease of an answer ends", func() bool { return s.redis.Int(t, "ZCARD", "resque:go:leases") == 0 })
	if size, _, err := c.deadLetter(ctx, id); size != 0 || err != nil {
		t.Errorf("%d answers are dead letters, %v", size, err)
	}
}
