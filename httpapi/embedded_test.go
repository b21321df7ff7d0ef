package httpapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
)

// Tokens, their limits and revocation, and the count of delayed jobs work on the embedded Redis too.
func TestGuardOnEmbedded(t *testing.T) {
	t.Parallel()
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "embedded://127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}, goworker.WithDialer("embedded", embedded.Open))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	api, err := httpapi.New(client, httpapi.Settings{QuietAccess: true, Namespaces: map[string]httpapi.Namespace{"shop": {MaxDelayedQueue: 2}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = api.Stop(context.Background()) }()
	all := httpapi.NewTokens(client, "ada")
	token, err := all.Create(t.Context(), httpapi.Token{Namespace: "shop", Limits: &httpapi.Limits{Write: 5, Interval: time.Hour}})
	if err != nil {
		t.Fatal(err)
	}
	ask := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader("x"))
		r.Header.Set("X-Token", token.Token)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w
	}
	for i, want := range []int{201, 201, 429, 201} { // the third is one delayed job too many, and does not count
		path := "/v2/shop/queues/mail/jobs"
		if i < 3 {
			path += "?delay_ms=3600000"
		}
		if w := ask("POST", path); w.Code != want {
			t.Errorf("publish %d: %d %s, want %d", i, w.Code, w.Body, want)
		}
	}
	redistest.Eventually(t, 30*time.Second, "the delayed jobs are counted", func() bool {
		return strings.Contains(ask("GET", "/v2/shop/queues/mail").Body.String(), `"delayed":2`)
	})
	passed := 0
	for range 5 {
		if ask("PUT", "/api/shop/mail").Code == http.StatusCreated {
			passed++
		}
	}
	if passed != 2 {
		t.Errorf("%d writes passed behind three, the limit is 5", passed)
	}
	if err := all.Revoke(t.Context(), token.ID); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, 30*time.Second, "the token is refused", func() bool { return ask("GET", "/v2/shop/queues").Code == http.StatusUnauthorized })
}
