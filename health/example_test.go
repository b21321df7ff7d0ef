package health_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/health"
)

func ExampleHandler() {
	d := goworker.New(goworker.WorkerSettings{QueuesString: "mail"})
	defer d.Close()

	h := health.Handler(d, health.Stuck(30*time.Minute))
	for _, path := range []string{"/healthz", "/startupz"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Print(w.Code, " ", w.Body)
	}
	// Output:
	// 200 {"ok":true,"checks":{"poller":{"ok":true,"age":0.000},"lease":{"ok":true,"age":0.000},"workers":{"ok":true,"age":0.000}}}
	// 503 {"ok":false,"checks":{"started":{"ok":false,"why":"the daemon does not run: call Run or Work"}}}
}
