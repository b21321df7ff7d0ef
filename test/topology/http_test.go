package topology

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
)

// httpSite asks a server of jobs, without a connection of HTTP.
type httpSite struct {
	t   *testing.T
	api *httpapi.API
}

// try makes a request, and returns its status and the body of its answer.
func (s httpSite) try(method, path, body string) (int, string) {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Host = "localhost"
	answer := httptest.NewRecorder()
	s.api.ServeHTTP(answer, r)
	return answer.Code, answer.Body.String()
}

// must makes a request that has a status.
func (s httpSite) must(status int, method, path, body string) string {
	s.t.Helper()
	code, answer := s.try(method, path, body)
	if code != status {
		s.t.Errorf("%s %s: %d %s, want %d", method, path, code, answer, status)
	}
	return answer
}

// id is the id in an answer.
func id(answer string) string {
	_, rest, _ := strings.Cut(answer, `"job_id":"`)
	id, _, _ := strings.Cut(rest, `"`)
	return id
}

// servesHTTP takes jobs from their publishing to their end over HTTP. Consumers wait, also while connections break, and a
// worker takes its share.
func servesHTTP(t *testing.T, shape shape, d *goworker.Daemon) {
	ran := make(chan string, 1)
	d.Register("HTTPJob", func(body httpapi.Body) { ran <- string(body) })
	api, err := httpapi.New(d.Client(), httpapi.Settings{Open: true, QuietAccess: true, Namespaces: map[string]httpapi.Namespace{"bare": {Bare: true}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := api.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	s := httpSite{t, api}

	for _, breaks := range []func(*testing.T){nil, shape.cut} {
		got := make(chan string, 1)
		go func() {
			_, answer := s.try(http.MethodGet, "/api/shop/none,mail?timeout=300&ttr=600", "")
			got <- answer
		}()
		eventually(t, "the consumer waits", func() bool { return api.Stats().Pools["default"].Waiters == 1 })
		if breaks != nil {
			breaks(t)
		}
		var published string
		eventually(t, "a job is published", func() bool {
			code, answer := s.try(http.MethodPut, "/api/shop/mail?tries=2", "hello")
			published = answer
			return code == http.StatusCreated
		})
		answer := <-got
		if id(answer) != id(published) {
			t.Fatalf("%s came as %s", published, answer)
		}
		job := "/api/shop/mail/job/" + id(answer)
		s.must(http.StatusNoContent, http.MethodPut, job+"/touch?ttr=1200", "")
		s.must(http.StatusNoContent, http.MethodPut, job+"/nack", "")
		s.must(http.StatusOK, http.MethodGet, "/api/shop/mail?ttr=1", "") // until its lease is over
		eventually(t, "the job is a dead letter", func() bool {
			return strings.Contains(s.must(http.StatusOK, http.MethodGet, "/api/shop/mail/deadletter", ""), id(answer))
		})
		s.must(http.StatusOK, http.MethodPut, "/api/shop/mail/deadletter", "")
		s.must(http.StatusOK, http.MethodGet, job, "")
		s.must(http.StatusOK, http.MethodGet, "/api/shop/mail", "")
		s.must(http.StatusNoContent, http.MethodDelete, job, "")
		s.must(http.StatusNotFound, http.MethodGet, job, "")
	}

	s.must(http.StatusCreated, http.MethodPut, "/api/shop/many/bulk?tries=3", `[1,{"two":2},"three"]`)
	s.must(http.StatusCreated, http.MethodPut, "/api/shop/many?delay=3600", "later")
	s.must(http.StatusOK, http.MethodGet, "/api/shop/many?count=2", "")
	s.must(http.StatusNoContent, http.MethodDelete, "/api/shop/many", "")
	if answer := s.must(http.StatusNotFound, http.MethodGet, "/api/shop/many", ""); answer != `{"msg":"no job available"}` {
		t.Error(answer)
	}

	defer start(t, d)()
	for n, query := range []string{"", "?delay=1", "?ttl=60&tries=3"} {
		body := fmt.Sprint("for the worker ", n)
		s.must(http.StatusCreated, http.MethodPut, "/api/bare/work"+query, body)
		select {
		case got := <-ran:
			if got != body {
				t.Errorf("the worker ran %q, want %q", got, body)
			}
		case <-time.After(soon):
			t.Fatal("the worker did not run a job")
		}
	}
}
