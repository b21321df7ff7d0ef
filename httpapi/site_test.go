package httpapi_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// site is a server of jobs, and its Redis.
type site struct {
	redis  *redistest.Server
	jobs   *goworker.Client
	api    *httpapi.API
	url    string
	client *http.Client
}

// serve starts a Redis and a server of jobs.
func serve(t testing.TB, settings httpapi.Settings) *site {
	t.Helper()
	return serveOn(t, redistest.Start(t), settings)
}

// another starts one more server of the same Redis.
func (s *site) another(t *testing.T, settings httpapi.Settings) *site {
	t.Helper()
	return serveOn(t, s.redis, settings)
}

func serveOn(t testing.TB, redis *redistest.Server, settings httpapi.Settings) *site {
	t.Helper()
	s := &site{redis: redis}
	var err error
	if s.jobs, err = goworker.NewClient(goworker.WorkerSettings{URI: s.redis.URI()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.jobs.Close() })
	settings.QuietAccess = true
	if s.api, err = httpapi.New(s.jobs, settings); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := s.api.Start(ctx); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, patience, "it is connected", s.api.Connected)
	on := newServer(t, s.api)
	s.url, s.client = on.URL, on.Client()
	s.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	t.Cleanup(func() {
		if err := s.api.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return s
}

// newServer starts a server of HTTP. The test's end stops it after what was started later.
func newServer(t testing.TB, h http.Handler) *httptest.Server {
	on := httptest.NewServer(h)
	t.Cleanup(on.Close)
	return on
}

// token makes a token for a namespace.
func (s *site) token(t testing.TB, namespace string) string {
	t.Helper()
	return s.newToken(t, httpapi.Token{Namespace: namespace})
}

func (s *site) newToken(t testing.TB, token httpapi.Token) string {
	t.Helper()
	made, err := httpapi.NewTokens(s.jobs, "").Create(t.Context(), token)
	if err != nil {
		t.Fatal(err)
	}
	known(t, made, s.api)
	return made.Token
}

// known waits until servers have a token in memory.
func known(t testing.TB, token httpapi.Token, by ...*httpapi.API) {
	t.Helper()
	for _, api := range by {
		redistest.Eventually(t, patience, "the server has the token", func() bool { return api.Knows(token.Namespace, token.Token) })
	}
}

func redisEventually(t *testing.T, what string, cond func() bool) {
	t.Helper()
	redistest.Eventually(t, patience, what, cond)
}

// waiters is how many requests wait.
func (s *site) waiters() int { return s.api.Stats().Pools["default"].Waiters }

// listen serves an API, and writes its address to the standard output.
func listen(api *httpapi.API) error {
	on, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Printf("http://%s\n", on.Addr())
	return http.Serve(on, api)
}
