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
	known(t, token, api)
	ask := func(method, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader("x"))
		r.Header.Set("X-Token", token.Token)
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		return w
	}
	const later = "?delay_ms=3600000"
	publish := func(query string, want int) {
		if w := ask("POST", "/v2/shop/queues/mail/jobs"+query); w.Code != want {
			t.Errorf("publish %s: %d %s, want %d", query, w.Code, w.Body, want)
		}
	}
	publish(later, 201)
	publish(later, 201)
	redistest.Eventually(t, patience, "the delayed jobs are counted", func() bool { // a count that is under way leaves new ones out
		return strings.Contains(ask("GET", "/v2/shop/queues/mail").Body.String(), `"delayed":2`)
	})
	publish(later, 429) // one delayed job too many, which does not count
	publish("", 201)
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
	redistest.Eventually(t, patience, "the token is refused", func() bool { return ask("GET", "/v2/shop/queues").Code == http.StatusUnauthorized })
}
