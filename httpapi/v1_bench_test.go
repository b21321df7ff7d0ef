package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/goworker/goworker/httpapi"
)

// BenchmarkV1 asks without a connection: what it counts is the server's own work and Redis.
func BenchmarkV1(b *testing.B) {
	s := serve(b, httpapi.Settings{})
	token := s.token(b, "shop")
	body := strings.Repeat("x", 100)
	ask := func(method, path, body string, want int) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("X-Token", token)
		answer := httptest.NewRecorder()
		s.api.ServeHTTP(answer, r)
		if answer.Code != want {
			b.Error(answer.Code, answer.Body)
		}
		return answer
	}
	run := func(name string, before func(n int), f func()) {
		b.Run(name, func(b *testing.B) {
			before(b.N)
			b.SetParallelism(25)
			b.ReportAllocs()
			b.ResetTimer()
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					f()
				}
			})
		})
	}
	publish := func() { ask(http.MethodPut, "/api/shop/mail?ttl=0&tries=3", body, http.StatusCreated) }
	consume := func() {
		_, rest, _ := strings.Cut(ask(http.MethodGet, "/api/shop/mail?ttr=60&timeout=30", "", http.StatusOK).Body.String(), `"job_id":"`)
		id, _, _ := strings.Cut(rest, `"`)
		ask(http.MethodDelete, "/api/shop/mail/job/"+id, "", http.StatusNoContent)
	}
	run("publish", func(int) {}, publish)
	run("consume and acknowledge", func(n int) {
		for range n/64 + 1 {
			ask(http.MethodPut, "/api/shop/mail/bulk?ttl=0&tries=3", "["+strings.Repeat(`"`+body+`",`, 63)+"1]", http.StatusCreated)
		}
	}, consume)
	run("publish, consume and acknowledge", func(int) { ask(http.MethodDelete, "/api/shop/mail", "", http.StatusNoContent) }, func() { publish(); consume() })
}
