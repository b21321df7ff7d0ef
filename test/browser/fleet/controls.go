package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/goworker/goworker"
)

// controls are what the journeys change beside the dashboard.
func (f *fleet) controls() http.Handler {
	mux := http.NewServeMux()
	handle := func(path string, do func(r *http.Request) (string, error)) {
		mux.HandleFunc("POST "+path, func(w http.ResponseWriter, r *http.Request) {
			said, err := do(r)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			fmt.Fprintln(w, said)
		})
	}
	handle("/push", func(r *http.Request) (string, error) {
		q := r.URL.Query()
		n, err := strconv.Atoi(q.Get("n"))
		if err != nil {
			return "", err
		}
		last := ""
		for i := range n {
			args := []any{i}
			switch q.Get("class") {
			case "SendMail":
				args = []any{fmt.Sprintf("ann%d@example.com", i), "Hello"}
			case "ChargeCard":
				args = []any{2000 + i, "acme"}
			case "Report":
				args = []any{"2027-01"}
			}
			last = goworker.NewID()
			opts := []goworker.EnqueueOption{goworker.WithID(last), goworker.WithMeta(map[string]string{"tenant": "acme"})}
			if q.Get("class") == "Follow" { // this client knows no classes
				opts = append(opts, goworker.WithResult(time.Hour))
			}
			if _, err := f.client.Enqueue(r.Context(), goworker.NewJob(q.Get("queue"), q.Get("class"), args...), opts...); err != nil {
				return "", err
			}
		}
		return last, nil
	})
	handle("/mend", func(*http.Request) (string, error) { f.mended.Store(true); return "", nil })
	handle("/break", func(*http.Request) (string, error) { f.mended.Store(false); return "", nil })
	handle("/rest", func(*http.Request) (string, error) { f.rest.Do(func() { close(f.rested) }); return "", nil })
	handle("/follow", func(*http.Request) (string, error) { f.follow.Do(func() { close(f.followed) }); return "", nil })
	handle("/redis/stop", func(*http.Request) (string, error) { f.redis.stop(); return "", nil })
	handle("/redis/start", func(r *http.Request) (string, error) { return "", f.redis.start(context.WithoutCancel(r.Context())) })
	return mux
}
