package openapi

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers/gorillamux"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/metrics"
)

// The exporter's /scale answers as its document says: for queues with jobs, without and unknown ones, without a queue, and without Redis.
func TestScale(t *testing.T) {
	t.Parallel()
	doc, err := openapi3.NewLoader().LoadFromFile("../../metrics/scale.yaml")
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
	server := redistest.Start(t)
	server.Do(t, "SADD", "resque:queues", "mail", "idle")
	server.Do(t, "RPUSH", "resque:queue:mail", `{"class":"A","args":[],"queued_at":1795262400000}`)
	for _, tt := range []struct {
		uri, query string
		status     int
	}{
		{server.URI(), "?queue=mail", 200}, {server.URI(), "?queue=idle", 200}, {server.URI(), "?queue=unknown", 200}, {server.URI(), "", 400},
		{"redis://127.0.0.1:1/", "?queue=mail", 503},
	} {
		c, err := goworker.NewClient(goworker.WorkerSettings{URI: tt.uri})
		if err != nil {
			t.Fatal(err)
		}
		r, w := httptest.NewRequest(http.MethodGet, "/scale"+tt.query, nil), httptest.NewRecorder()
		metrics.Exporter(c).ServeHTTP(w, r)
		c.Close()
		route, params, err := router.FindRoute(r)
		if err != nil {
			t.Fatal(err)
		}
		in := &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route}
		out := &openapi3filter.ResponseValidationInput{RequestValidationInput: in, Status: w.Code, Header: w.Header(), Options: &openapi3filter.Options{IncludeResponseStatus: true}}
		out.SetBodyBytes(w.Body.Bytes())
		if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil || w.Code != tt.status {
			t.Errorf("%s: %d, %v: %s", tt.query, w.Code, err, w.Body)
		}
	}
}
