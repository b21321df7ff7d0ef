package metrics_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/metrics"
	"github.com/goworker/goworker/metrics/internal/scraped"
)

// The metrics of an HTTP API that the program serves stand beside its own, with their values.
func TestHTTP(t *testing.T) {
	t.Parallel()
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: redistest.Start(t).URI()})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	api, err := httpapi.New(c, httpapi.Settings{Open: true})
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
	for range 3 {
		w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "http://localhost/v2/shop/queues/mail/jobs", strings.NewReader("hello"))
		if api.ServeHTTP(w, r); w.Code != http.StatusCreated {
			t.Fatal(w.Code, w.Body)
		}
	}
	text, _ := scraped.Get(t, metrics.ClientHandler(c, metrics.Also(metrics.HTTP(api))), "/metrics", http.StatusOK)
	all := families(t, text)
	if n := value(all["goworker_http_published_total"], "ns", "shop", "queue", "mail"); n != 3 {
		t.Errorf("%v jobs were published", n)
	}
	if n := value(all["goworker_http_request_seconds"]); n != 3 {
		t.Errorf("%v requests were timed", n)
	}
	if all["goworker_build_info"] == nil {
		t.Error("the client's own metrics are not beside them")
	}
}
