package openapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/internal/redistest"
)

// TestDashboard gets every page of the dashboard as JSON, of a fleet that has something of everything, and checks each answer
// against the document that the dashboard serves.
func TestDashboard(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	settings := goworker.WorkerSettings{URI: redis.URI(), QueuesString: "work,slow", Concurrency: 3, Logger: slog.New(slog.DiscardHandler)}
	d := goworker.New(settings)
	t.Cleanup(d.Close)
	done, release := make(chan struct{}), make(chan struct{})
	d.Register("Done", func(context.Context, string) (string, error) { return "fine", nil })
	d.Register("Fails", func(context.Context, int) error { return errors.New("no luck at 10.0.0.1:443") }, goworker.Retry(2))
	d.Register("Runs", func(context.Context) error { close(done); <-release; return nil }, goworker.MaxRunning(1))
	ctx, stop := context.WithCancel(t.Context())
	over := make(chan error, 1)
	go func() { over <- d.Run(ctx) }()
	t.Cleanup(func() {
		close(release)
		stop()
		if err := <-over; err != nil {
			t.Error(err)
		}
	})
	client := d.Client()
	enqueue := func(queue, class string, args []any, opts ...goworker.EnqueueOption) string {
		t.Helper()
		r, err := client.Enqueue(t.Context(), goworker.NewJob(queue, class, args...), opts...)
		if err != nil {
			t.Fatal(err)
		}
		return r.ID
	}
	id := enqueue("work", "Done", []any{"ann"}, goworker.WithResult(time.Hour))
	enqueue("work", "Fails", []any{1})
	enqueue("work", "Done", []any{"later"}, goworker.ProcessIn(time.Hour))
	enqueue("idle", "Done", []any{"waits"}, goworker.WithMeta(map[string]string{"tenant": "acme"}))
	enqueue("slow", "Runs", nil)
	<-done
	flow, err := client.Start(t.Context(), goworker.Group(goworker.Step(goworker.NewJob("idle", "Done", "a")), goworker.Step(goworker.NewJob("idle", "Done", "b"))))
	if err != nil {
		t.Fatal(err)
	}
	redis.Do(t, "RPUSH", "resque:failed", `{"failed_at":"2026/11/27 12:00:00 UTC","payload":{"class":"Old","args":[1]},"exception":"E","error":"e","backtrace":["x"],"worker":"w:1:q","queue":"idle"}`)
	if _, err := client.Wait(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	s, err := dashboard.New(client, dashboard.Options{Logger: slog.New(slog.DiscardHandler), User: func(*http.Request) (dashboard.User, error) {
		return dashboard.User{Name: "ops", Role: dashboard.Admin}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(s)
	t.Cleanup(func() {
		if err := s.Shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		web.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	read := func(path string) (*http.Response, []byte) {
		t.Helper()
		res, err := http.Get(web.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, text
	}
	_, text := read("/api/v1/openapi.json")
	doc, err := openapi3.NewLoader().LoadFromData(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := doc.Validate(t.Context()); err != nil {
		t.Fatal(err)
	}
	router, err := gorillamux.NewRouter(doc)
	if err != nil {
		t.Fatal(err)
	}
	processes, err := client.Inspect().Processes(t.Context())
	if err != nil || len(processes) == 0 {
		t.Fatal(processes, err)
	}
	workers, err := client.Inspect().Workers(t.Context())
	if err != nil || len(workers) == 0 {
		t.Fatal(workers, err)
	}
	failures, err := client.Inspect().Failures().List(t.Context(), -1, 1)
	if err != nil || len(failures) == 0 {
		t.Fatal(failures, err)
	}
	waiting, err := client.Inspect().List(t.Context(), "idle", "", 1)
	if err != nil || len(waiting.Jobs) == 0 {
		t.Fatal(waiting, err)
	}
	queries := map[string]string{
		"/api/v1/jobs":               "?state=done",
		"/api/v1/queues/{queue}/job": "?ref=" + waiting.Jobs[0].Ref, "/api/v1/running/stack": "?process=" + url.QueryEscape(processes[0].ID),
	}
	known := map[string]string{
		"{queue}": "idle", "{class}": "Done", "/jobs/{id}": id, "/failures/{id}": failures[0].ID, "/workflows/{id}": flow.ID, "{process}": processes[0].ID, "/workers/{id}": workers[0].ID,
		"/redis/keys/{key}": "resque:queues",
	}
	for _, path := range slices.Sorted(func(yield func(string) bool) {
		for path := range doc.Paths.Map() {
			if !yield(path) {
				return
			}
		}
	}) {
		if doc.Paths.Find(path).Get == nil {
			continue
		}
		at := path
		for wildcard, value := range known {
			if strings.Contains(at, wildcard) {
				name := wildcard[strings.Index(wildcard, "{"):]
				at = strings.Replace(at, name, url.PathEscape(value), 1)
			}
		}
		res, body := read(at + queries[path])
		if strings.Contains(at, "{") {
			if res.StatusCode != http.StatusNotFound {
				t.Errorf("%s: %d %s", at, res.StatusCode, body)
			}
		} else if res.StatusCode != http.StatusOK {
			t.Errorf("%s: %d %s", at, res.StatusCode, body)
		}
		req, err := http.NewRequest(http.MethodGet, at, nil)
		if err != nil {
			t.Fatal(err)
		}
		route, params, err := router.FindRoute(req)
		if err != nil {
			t.Errorf("%s: %v", at, err)
			continue
		}
		err = openapi3filter.ValidateResponse(t.Context(), &openapi3filter.ResponseValidationInput{
			RequestValidationInput: &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route},
			Status:                 res.StatusCode, Header: res.Header, Body: io.NopCloser(strings.NewReader(string(body))),
		})
		if err != nil {
			t.Errorf("%s: %.1500s\n%s", at, fmt.Sprint(err), body)
		}
	}
}
