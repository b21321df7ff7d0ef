package daemontest

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// Get asks a handler for a path.
func Get(h http.Handler, path string) (status int, body string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w.Code, w.Body.String()
}

// Answers waits until a handler answers a path with a status, and returns the body.
func Answers(t testing.TB, h http.Handler, path string, status int) (body string) {
	t.Helper()
	redistest.Eventually(t, Soon, fmt.Sprintf("%s is %d", path, status), func() bool {
		var got int
		got, body = Get(h, path)
		return got == status
	})
	return body
}
