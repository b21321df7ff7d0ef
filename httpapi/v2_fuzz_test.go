package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/payload"
)

// FuzzEnvelope reads envelopes: each is a problem of a client, or a job whose arguments are a list that a payload may have.
func FuzzEnvelope(f *testing.F) {
	for _, text := range []string{
		`{}`, `{"class":"Mail","args":["ada",3],"delay_ms":1000,"ttl_ms":5,"tries":3,"timeout_ms":1,"priority":2,"meta":{"a":"b"},"unique":true,"result_ttl_ms":1,"id":"x"}`,
		`{"body":"text","at":"2030-01-01T00:00:00Z","expires_at":1795405611754,"unique":{"key":"k","until":"elapsed","for_ms":1}}`,
		`{"body":{"a":[1,2.5e3,null,"\ud800"]}}`, `{"body_base64":"/wAB"}`, `{"args":[[[[]]]]}`, `{"unique":{"until":7}}`, `{"at":1e400}`, "{\"body\":\"\xff\"}", `{"args":[] }x`,
	} {
		f.Add([]byte(text), "a=b&tries=3", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
	}
	f.Fuzz(func(t *testing.T, body []byte, query, header string) {
		h := http.Header{"Goworker-Meta-A": {header}, "Traceparent": {header}, "Tracestate": {header}}
		check := func(e *envelope, err error) {
			if err == nil {
				p, wrong := e.publication("shop.q", metaOf(h))
				if err = wrong; err == nil {
					text := append(append([]byte(`{"class":"C","args":`), p.Args...), `,"id":"x"}`...)
					parsed, wrong := payload.Parse(text)
					if wrong != nil || parsed.ID != "x" || !json.Valid(text) {
						t.Fatalf("%q became the arguments %q: %v", body, p.Args, wrong)
					}
					viewOf(text, &parsed, "x", 1, 1)
					if len(p.Meta) > maxMeta+2 || p.Tries < 0 || p.Delay < 0 || p.TTL < 0 || p.Result < 0 || p.Timeout < 0 {
						t.Fatalf("%+v", p)
					}
				}
			}
			var wrong *problem
			if err != nil && (!errors.As(err, &wrong) || wrong.of.status >= 500) {
				t.Fatalf("%q: %v", body, err)
			}
			if wrong != nil && !json.Valid(wrong.body("id")) {
				t.Fatalf("%q: %s", body, wrong.body("id"))
			}
		}
		var e envelope
		check(&e, decode(body, &e))
		var o envelope
		values, err := url.ParseQuery(query)
		if err == nil {
			check(&o, o.query(values))
		}
		if args, err := argumentOf(body, false); err != nil || !json.Valid(args) {
			t.Fatalf("%q became %q: %v", body, args, err)
		}
		if args, err := argumentOf(body, true); err == nil && !json.Valid(args) {
			t.Fatalf("%q became %q", body, args)
		}
	})
}

// FuzzPaths sends requests of any path: each is answered by a call, or by a problem.
func FuzzPaths(f *testing.F) {
	for _, r := range v2Routes {
		f.Add(r.method, strings.NewReplacer("{ns}", "shop", "{queue}", "a%2Fb", "{id}", "x").Replace(r.path), "wait_ms=1&force=true")
	}
	f.Add("GET", "/v2/%2e%2e/queues/..%2f", "%zz")
	f.Add("GET", "/v2//queues//jobs/%00/ack", ";")
	f.Add("TRACE", "/v2/shop/queues/\xff/jobs", "a=\xff")
	mux := http.NewServeMux()
	v := newV2(&API{guard: &guard{settings: Settings{MaxBody: 1000, MaxBatch: 1000}, drained: context.Background()}})
	v.routes(mux)
	f.Fuzz(func(t *testing.T, method, path, query string) {
		u, err := url.ParseRequestURI(path)
		if err != nil || !strings.HasPrefix(path, "/v2/") || u.Host != "" || u.RawQuery != "" {
			return
		}
		r, err := http.NewRequest(method, "http://x/", nil)
		if err != nil {
			return
		}
		u.RawQuery = query
		r.URL = u
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		switch {
		case w.Code >= 300 && w.Code < 400 || r.Method == http.MethodConnect: // of the mux, which cleans paths
		case w.Code < 400 || w.Code >= 500:
			t.Fatalf("%s %q: %d %s", method, path, w.Code, w.Body)
		case !json.Valid(w.Body.Bytes()) || w.Header().Get("Content-Type") != "application/problem+json":
			t.Fatalf("%s %q: %d %s", method, path, w.Code, w.Body)
		}
	})
}
