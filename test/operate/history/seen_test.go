package history

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// What a daemon and a server of HTTP did is seen through the public face: how long jobs waited whose payloads say when they came, a job
// that runs on past its limit, and how jobs ended that clients took. Classes have their names where a handler is registered or the server's
// settings name them.
func TestWhatOperatorsSee(t *testing.T) {
	t.Parallel()
	f := &fleet{t: t, redis: redistest.Start(t)}
	quiet := slog.New(slog.DiscardHandler)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI(), Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	f.in = client.Inspect()

	const waits = 40 * time.Second
	for n := range 12 {
		f.redis.Do(t, "RPUSH", "resque:queue:work", fmt.Sprintf(`{"class":"Stamped","args":[%d],"queued_at":%d}`, n, time.Now().Add(-waits).UnixMilli()))
	}
	f.redis.Do(t, "RPUSH", "resque:queue:work", `{"class":"Hang","args":[],"id":"hangs"}`)
	hung := make(chan struct{})
	d := goworker.New(goworker.WorkerSettings{QueuesString: "work", Concurrency: 3, URI: f.redis.URI(), Logger: quiet})
	d.Register("Stamped", func(int) {})
	d.Register("Hang", func() { <-hung }, goworker.Timeout(100*time.Millisecond))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	free := func() {
		if ctx.Err() == nil {
			close(hung)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
			d.Close()
		}
	}
	t.Cleanup(free)

	server := serve(t, client, httpapi.Settings{
		Open: true, QuietAccess: true, Classes: []string{"Report"}, Namespaces: map[string]httpapi.Namespace{"shop": {Bare: true, Class: "ShopJob"}},
	})
	for class, end := range map[string]string{"": "DELETE", "Report": "nack", "Invented": "DELETE"} {
		server(http.MethodPut, "/api/shop/mail?tries=2&class="+class, "a body")
		_, id, _ := strings.Cut(server(http.MethodGet, "/api/shop/mail?timeout=5&ttr=60", ""), `"job_id":"`)
		id, _, _ = strings.Cut(id, `"`)
		if end == "nack" {
			server(http.MethodPut, "/api/shop/mail/job/"+id+"/nack", "")
			_, id, _ = strings.Cut(server(http.MethodGet, "/api/shop/mail?timeout=5&ttr=60", ""), `"job_id":"`)
			id, _, _ = strings.Cut(id, `"`)
		}
		server(http.MethodDelete, "/api/shop/mail/job/"+id, "")
	}

	var total inspect.HistoryRow
	f.eventually("the history has all that ended", func() bool {
		h, err := f.in.History(context.Background(), inspect.HistoryQuery{})
		if err != nil {
			t.Fatal(err)
		}
		total = h.Total()
		return total.Queues["mail"].Done == 3 && total.Classes["Stamped"].Done == 12
	})
	stamped := total.Classes["Stamped"].Waits
	if stamped.Count() != 12 || stamped.Mean() < waits || stamped.Mean() > waits+daemontest.Soon || stamped.Quantile(0.5) < waits*8/10 {
		t.Errorf("%d jobs waited %s in the mean, half of them %s", stamped.Count(), stamped.Mean(), stamped.Quantile(0.5))
	}
	shop, report, unknown := total.Classes["ShopJob"], total.Classes["Report"], total.Classes[inspect.UnknownClass]
	if shop.Done != 1 || report.Done != 1 || report.Retried != 1 || unknown.Done != 1 || len(total.Classes) != 4 || total.Queues["mail"].Taken != 4 {
		t.Errorf("over HTTP: %+v, %+v, %+v, queue %+v", shop, report, unknown, total.Queues["mail"])
	}

	f.eventually("the process says that a job is stuck", func() bool {
		all, err := f.in.Processes(context.Background())
		if err != nil || len(all) != 1 {
			t.Fatalf("%+v, %v", all, err)
		}
		if len(all[0].Stuck) == 0 {
			return false
		}
		sample, err := f.in.Sample(context.Background())
		for _, stuck := range [][]inspect.StuckJob{all[0].Stuck, sample.Stuck} {
			if err != nil || len(stuck) != 1 || stuck[0].Class != "Hang" || stuck[0].Queue != "work" || stuck[0].ID != "hangs" || stuck[0].Process != all[0].ID ||
				stuck[0].Worker == "" || stuck[0].Limit != 100*time.Millisecond || stuck[0].For < goworker.StuckAfter {
				t.Errorf("stuck %+v, %v", stuck, err)
			}
		}
		return true
	})
	f.eventually("the history says it too", func() bool {
		h, err := f.in.History(context.Background(), inspect.HistoryQuery{})
		return err == nil && h.Total().Fleet.Stuck.Most == 1
	})
	free()
	f.eventually("the job that was stuck is in the history", func() bool {
		h, err := f.in.History(context.Background(), inspect.HistoryQuery{Class: "Hang"})
		return err == nil && h.Total().Classes["Hang"].Processed == 1
	})
}

// serve starts a server of HTTP and returns what makes a request there and returns the body of the answer.
func serve(t *testing.T, client *goworker.Client, s httpapi.Settings) func(method, path, body string) string {
	t.Helper()
	api, err := httpapi.New(client, s)
	if err != nil {
		t.Fatal(err)
	}
	if err := api.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		api.Drain()
		if err := api.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	})
	send := func(method, path, body string) *httptest.ResponseRecorder {
		answer, request := httptest.NewRecorder(), httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
		request.Host, request.RemoteAddr = "localhost", "127.0.0.1:1"
		api.ServeHTTP(answer, request)
		return answer
	}
	redistest.Eventually(t, daemontest.Soon, "the server is connected", func() bool { // one that connects slowly refuses
		return send(http.MethodGet, "/api/shop/none", "").Code == http.StatusNotFound
	})
	return func(method, path, body string) string {
		t.Helper()
		answer := send(method, path, body)
		if answer.Code >= 300 {
			t.Fatalf("%s %s: %d %s", method, path, answer.Code, answer.Body)
		}
		return answer.Body.String()
	}
}

// A server of HTTP whose client has HistoryOff counts nothing. Its last renewal carries what another one has counted.
func TestServerWithoutHistory(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]int{goworker.HistoryOn: 1, goworker.HistoryOff: 0} {
		server := redistest.Start(t)
		t.Run(setting, func(t *testing.T) {
			client, err := goworker.NewClient(goworker.WorkerSettings{URI: server.URI(), Logger: slog.New(slog.DiscardHandler), History: setting})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(client.Close)
			ask := serve(t, client, httpapi.Settings{Open: true, QuietAccess: true})
			ask(http.MethodPut, "/api/shop/mail", "a body")
			_, id, _ := strings.Cut(ask(http.MethodGet, "/api/shop/mail?timeout=5&ttr=60", ""), `"job_id":"`)
			id, _, _ = strings.Cut(id, `"`)
			ask(http.MethodDelete, "/api/shop/mail/job/"+id, "")
		})
		if n := server.Int(t, "EXISTS", "resque:go:tally"); n != want {
			t.Errorf("%s: the tally exists: %d", setting, n)
		}
		if n := server.Int(t, "EXISTS", "resque:go:log"); n != want {
			t.Errorf("%s: the log exists: %d", setting, n)
		}
	}
}
