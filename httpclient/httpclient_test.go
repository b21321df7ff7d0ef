package httpclient_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/httpclient"
	"github.com/goworker/goworker/internal/redistest"
)

const patience = 30 * time.Second

// setup serves the API, with what may come between it and the client.
func setup(t *testing.T, between ...func(http.Handler) http.Handler) (*httpclient.Client, *redistest.Server) {
	t.Helper()
	redis := redistest.Start(t)
	jobs, err := goworker.NewClient(goworker.WorkerSettings{URI: redis.URI()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { jobs.Close() })
	api, err := httpapi.New(jobs, httpapi.Settings{Open: true, QuietAccess: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	var handler http.Handler = http.StripPrefix("/jobs", api)
	for _, b := range between {
		handler = b(handler)
	}
	on := httptest.NewServer(handler)
	t.Cleanup(func() {
		if err := api.Stop(context.Background()); err != nil {
			t.Error(err)
		}
		on.Client().CloseIdleConnections()
		on.Close()
	})
	client, err := httpclient.New(on.URL+"/jobs", "shop", httpclient.HTTPClient(on.Client()))
	if err != nil {
		t.Fatal(err)
	}
	return client, redis
}

// lost has the answer of each n-th request to a path get lost, after the server has done what it asks for.
func lost(suffix string, nth int64) (func(http.Handler) http.Handler, *atomic.Int64) {
	count := new(atomic.Int64)
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, suffix) && count.Add(1)%nth == 0 {
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	}, count
}

func TestPublishAndReserve(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	ctx := t.Context()
	id, err := c.Publish(ctx, "mail/a", []byte("hello"), httpclient.Class("Mail"), httpclient.Tries(3), httpclient.TTL(time.Hour), httpclient.Meta("tenant", "acme"), httpclient.ID("x.1"))
	if err != nil || id != "x.1" {
		t.Fatal(id, err)
	}
	if _, err := c.Publish(ctx, "mail/a", []byte("\xff\x00")); err != nil {
		t.Fatal(err)
	}
	if _, err := c.PublishJSON(ctx, "mail/a", map[string]int{"n": 1}, httpclient.At(time.Unix(1e9, 0)), httpclient.Priority(0)); err != nil {
		t.Fatal(err)
	}
	ids, err := c.PublishAll(ctx, "other", httpclient.Message{Body: []byte("1")}, httpclient.Message{Args: json.RawMessage(`[1,2]`), Options: []httpclient.PublishOption{httpclient.Delay(time.Hour)}})
	if err != nil || len(ids) != 2 {
		t.Fatal(ids, err)
	}
	if ids, err := c.PublishAll(ctx, "other"); ids != nil || err != nil {
		t.Fatal(ids, err)
	}
	jobs, err := c.Reserve(ctx, httpclient.Reservation{Queues: []string{"mail/a", "other"}, Count: 10, TTR: time.Minute})
	if err != nil || len(jobs) != 4 {
		t.Fatal(jobs, err)
	}
	j := jobs[0]
	if j.ID != "x.1" || j.Queue != "mail/a" || j.Class != "Mail" || string(j.Body) != "hello" || j.Meta["tenant"] != "acme" || j.Attempt != 1 || j.Tries != 3 || j.ExpiresAt.IsZero() {
		t.Errorf("%+v", j)
	}
	if string(jobs[1].Body) != "\xff\x00" || string(jobs[2].Body) != `{"n":1}` || jobs[2].PublishedAt.IsZero() || string(jobs[3].Args) != `["1"]` {
		t.Errorf("%q %q %q", jobs[1].Body, jobs[2].Body, jobs[3].Args)
	}
	if words, err := c.Acks(ctx, jobs[1:]...); err != nil || !slices.Equal(words, []string{"acked", "acked", "acked"}) {
		t.Error(words, err)
	}
	old := *j
	if err := c.Touch(ctx, j, time.Hour); err != nil || j.Lease == old.Lease {
		t.Error(err)
	}
	if err := c.Ack(ctx, &old, nil); !errors.Is(err, httpclient.ErrLeaseLost) {
		t.Error(err)
	}
	if err := c.Nack(ctx, j, 0, strings.Repeat("ö", 10_000)); err != nil {
		t.Error(err)
	}
	again, err := c.Reserve(ctx, httpclient.Reservation{Queues: []string{"mail/a"}, Wait: patience})
	if err != nil || len(again) != 1 || again[0].Attempt != 2 {
		t.Fatal(again, err)
	}
	if err := c.Release(ctx, again[0]); err != nil {
		t.Error(err)
	}
	if again, err = c.Reserve(ctx, httpclient.Reservation{Queues: []string{"mail/a"}}); err != nil || len(again) != 1 {
		t.Fatal(again, err)
	}
	if err := c.Fail(ctx, again[0], "no good"); err != nil {
		t.Error(err)
	}
	if err := c.Ack(ctx, &httpclient.Job{Queue: "mail/a", ID: "none"}, nil); !errors.Is(err, httpclient.ErrNotFound) {
		t.Error(err)
	}
	if none, err := c.Reserve(ctx, httpclient.Reservation{Queues: []string{"mail/a"}}); none != nil || err != nil {
		t.Error(none, err)
	}
	var p *httpclient.Problem
	if _, err := c.Publish(ctx, "a,b", nil); !errors.As(err, &p) || p.Name != "invalid-parameter" || p.Status != 400 || string(p.Members["parameter"]) != `"queue"` || p.Instance == "" {
		t.Errorf("%v, %+v", err, p)
	}
}

// TestAnswersThatAreLost repeats what may be repeated, and nothing else.
func TestAnswersThatAreLost(t *testing.T) {
	t.Parallel()
	between, count := lost("/jobs", 1)
	c, redis := setup(t, func(next http.Handler) http.Handler {
		broken := between(next)
		var n atomic.Int64
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if n.Add(1) == 2 { // the first publish is lost, its repetition is answered
				next.ServeHTTP(w, r)
				return
			}
			broken.ServeHTTP(w, r)
		})
	})
	if id, err := c.Publish(t.Context(), "q", []byte("a"), httpclient.IdempotencyKey("")); err != nil || id == "" {
		t.Error(id, err)
	}
	if _, err := c.Publish(t.Context(), "q", []byte("b")); err == nil || count.Load() != 2 {
		t.Errorf("%v after %d lost answers", err, count.Load())
	}
	if n := redis.Int(t, "LLEN", "resque:queue:shop.q"); n != 2 {
		t.Errorf("there are %d jobs", n)
	}
}

// TestLostAcknowledgement acknowledges a job, and the answer is lost. The repetition finds no such job, which is no error.
func TestLostAcknowledgement(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	c, _ := setup(t, func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "/ack") && n.Add(1) == 1 {
				next.ServeHTTP(httptest.NewRecorder(), r)
				panic(http.ErrAbortHandler)
			}
			next.ServeHTTP(w, r)
		})
	})
	if _, err := c.Publish(t.Context(), "q", []byte("a")); err != nil {
		t.Fatal(err)
	}
	jobs, err := c.Reserve(t.Context(), httpclient.Reservation{Queues: []string{"q"}})
	if err != nil || len(jobs) != 1 {
		t.Fatal(jobs, err)
	}
	if err := c.Ack(t.Context(), jobs[0], nil); err != nil || n.Load() != 2 {
		t.Errorf("after %d requests: %v", n.Load(), err)
	}
	if err := c.Ack(t.Context(), jobs[0], nil); !errors.Is(err, httpclient.ErrNotFound) {
		t.Errorf("another acknowledgement: %v", err)
	}
}

// TestCall awaits results.
func TestCall(t *testing.T) {
	t.Parallel()
	c, _ := setup(t)
	consumer := httpclient.Consumer{
		Client: c, Queues: []string{"sum"}, Concurrency: 2, Log: quiet(),
		Handler: func(_ context.Context, j *httpclient.Job) error {
			if string(j.Body) == "bad" {
				return httpclient.Discard(errors.New("no number"))
			}
			return j.SetResult(len(j.Body))
		},
	}
	stop := start(t, &consumer)
	var n int
	if err := c.Call(t.Context(), "sum", []byte("four"), &n); err != nil || n != 4 {
		t.Error(n, err)
	}
	var failed *httpclient.JobError
	if err := c.Call(t.Context(), "sum", []byte("bad"), nil); !errors.As(err, &failed) || failed.State != "failed" || failed.Message != "no number" || failed.ID == "" {
		t.Error(err)
	}
	if err := c.Call(t.Context(), "sum", []byte("xy"), nil); err != nil {
		t.Error(err)
	}
	stop()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	var pending *httpclient.PendingError
	if err := c.Call(ctx, "sum", []byte("late"), &n); !errors.As(err, &pending) && !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	id, err := c.Publish(t.Context(), "sum", []byte("again"), httpclient.Result(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	start(t, &consumer)
	if err := c.Result(t.Context(), "sum", id, &n); err != nil || n != 5 {
		t.Error(n, err)
	}
	if err := c.Result(t.Context(), "sum", "none", &n); !errors.Is(err, httpclient.ErrNotFound) {
		t.Error(err)
	}
}

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

// start runs a consumer until stop, or the end of the test.
func start(t *testing.T, c *httpclient.Consumer) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// TestConsumer runs many jobs, while every fifth acknowledgement and every touch but the first lose their answers.
func TestConsumer(t *testing.T) {
	t.Parallel()
	acks, _ := lost("/acks", 5)
	touches, touched := lost("/touch", 2)
	c, redis := setup(t, acks, touches)
	const many = 300
	var messages []httpclient.Message
	for i := range many {
		messages = append(messages, httpclient.Message{Body: fmt.Append(nil, i), Options: []httpclient.PublishOption{httpclient.Tries(3)}})
	}
	if _, err := c.PublishAll(t.Context(), "q", messages...); err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	runs := make(map[string]int)
	release := make(chan struct{})
	stop := start(t, &httpclient.Consumer{
		Client: c, Queues: []string{"q"}, Concurrency: 20, TTR: 6 * time.Second, Log: quiet(), Backoff: func(int) time.Duration { return 0 },
		Handler: func(ctx context.Context, j *httpclient.Job) error {
			body := string(j.Body)
			mu.Lock()
			runs[body]++
			n := runs[body]
			mu.Unlock()
			switch {
			case body == "0": // longer than its lease
				select {
				case <-release:
				case <-ctx.Done():
					return context.Cause(ctx)
				}
			case body == "1" && n == 1:
				return errors.New("once more")
			case body == "2" && n == 1:
				panic("once more")
			}
			return nil
		},
	})
	redistest.Eventually(t, patience, "the long job was touched several times", func() bool { return touched.Load() >= 3 })
	close(release)
	redistest.Eventually(t, patience, "all jobs are done", func() bool { return redis.Int(t, "GET", "resque:stat:processed") >= many })
	stop()
	mu.Lock()
	defer mu.Unlock()
	for i := range many {
		want := 1
		if i == 1 || i == 2 {
			want = 2
		}
		if n := runs[fmt.Sprint(i)]; n != want {
			t.Errorf("job %d ran %d times, want %d", i, n, want)
		}
	}
	for _, key := range redis.Keys(t) {
		if key == "resque:go:leases" || key == "resque:queue:shop.q" || strings.HasSuffix(key, "_failed") {
			t.Errorf("%s is left", key)
		}
	}
}

// TestConsumerStops gives jobs back whose handlers do not end in time.
func TestConsumerStops(t *testing.T) {
	t.Parallel()
	c, redis := setup(t)
	if _, err := c.Publish(t.Context(), "q", []byte("long")); err != nil {
		t.Fatal(err)
	}
	began := make(chan struct{})
	stop := start(t, &httpclient.Consumer{
		Client: c, Queues: []string{"q"}, StopTimeout: 10 * time.Millisecond, Log: quiet(),
		Handler: func(ctx context.Context, j *httpclient.Job) error {
			close(began)
			<-ctx.Done()
			return ctx.Err()
		},
	})
	<-began
	stop()
	if n := redis.Int(t, "LLEN", "resque:queue:shop.q"); n != 1 {
		t.Errorf("the queue has %d jobs", n)
	}
	if jobs, err := c.Reserve(t.Context(), httpclient.Reservation{Queues: []string{"q"}}); err != nil || len(jobs) != 1 || jobs[0].Attempt != 1 {
		t.Errorf("%+v, %v", jobs, err)
	}
}

// TestLeaseIsLost ends the context of a handler whose job another consumer has.
func TestLeaseIsLost(t *testing.T) {
	t.Parallel()
	c, redis := setup(t)
	if _, err := c.Publish(t.Context(), "q", []byte("a"), httpclient.Tries(2)); err != nil {
		t.Fatal(err)
	}
	causes := make(chan error, 1)
	start(t, &httpclient.Consumer{
		Client: c, Queues: []string{"q"}, TTR: time.Second, Log: quiet(),
		Handler: func(ctx context.Context, j *httpclient.Job) error {
			redis.Do(t, "ZADD", "resque:go:leases", "1895405611754", redis.List(t, "ZRANGE", "resque:go:leases", 0, 0)[0])
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return nil
		},
	})
	if err := <-causes; !errors.Is(err, httpclient.ErrLeaseLost) {
		t.Error(err)
	}
}

// TestMistakes names what is wrong with a program.
func TestMistakes(t *testing.T) {
	t.Parallel()
	for _, server := range []string{"", "jobs.example.com", "ftp://x", "http://u:p@x", "http://x?a=b", "http://[x"} {
		if _, err := httpclient.New(server, "shop"); err == nil || strings.Contains(err.Error(), "u:p") {
			t.Errorf("%q: %v", server, err)
		}
	}
	if _, err := httpclient.New("http://x", ""); err == nil {
		t.Error("no namespace is no mistake")
	}
	for _, opt := range []httpclient.Option{httpclient.HTTPClient(nil), httpclient.Retries(-1), httpclient.Timeout(0)} {
		if _, err := httpclient.New("http://x", "shop", opt); err == nil {
			t.Error("a wrong option is no mistake")
		}
	}
	c, err := httpclient.New("http://127.0.0.1:1", "shop", httpclient.Retries(1), httpclient.Token("secret-token"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Publish(t.Context(), "q", nil); err == nil || strings.Contains(err.Error(), "secret") {
		t.Error(err)
	}
	handler := func(context.Context, *httpclient.Job) error { return nil }
	for _, consumer := range []httpclient.Consumer{
		{}, {Client: c}, {Client: c, Handler: handler}, {Client: c, Handler: handler, Queues: []string{"q"}, TTR: time.Millisecond},
		{Client: c, Handler: handler, Queues: []string{"q"}, Concurrency: -1},
	} {
		if err := consumer.Run(t.Context()); err == nil {
			t.Errorf("%+v is no mistake", consumer)
		}
	}

	// What the server refuses for good ends the consumer.
	good, _ := setup(t)
	wrong := httpclient.Consumer{Client: good, Handler: handler, Queues: []string{"a,b"}, Log: quiet()}
	var p *httpclient.Problem
	if err := wrong.Run(t.Context()); !errors.As(err, &p) || p.Name != "invalid-parameter" {
		t.Error(err)
	}
}

// TestProxyAnswers reads errors of what is between client and server.
func TestProxyAnswers(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	on := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1) == 1 {
			w.Header().Set("Retry-After", "0")
			http.Error(w, "<html>bad gateway", http.StatusBadGateway)
			return
		}
		http.Error(w, "<html>teapot", http.StatusTeapot)
	}))
	defer on.Close()
	c, err := httpclient.New(on.URL, "shop", httpclient.HTTPClient(on.Client()))
	if err != nil {
		t.Fatal(err)
	}
	var p *httpclient.Problem
	err = c.Result(t.Context(), "q", "x", nil)
	if !errors.As(err, &p) || p.Name != "" || p.Status != http.StatusTeapot || n.Load() != 2 {
		t.Errorf("%v after %d requests", err, n.Load())
	}
}
