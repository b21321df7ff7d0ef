package running_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard/internal/dashtest"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque/leases"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

// face is a dashboard on a fleet.
type face struct{ *dashtest.Desk }

func open(t *testing.T, redis *redistest.Server) *face { return &face{dashtest.Open(t, redis.URI())} }

// ask sends a request: a GET, or with a body a POST of JSON. only are the queues that its user may see; none: all.
func (f *face) ask(path, body string, only ...string) (int, string) {
	f.Helper()
	user := strings.Join(append([]string{"ann operator"}, only...), " ")
	a := f.Get(path, user)
	if body != "" {
		a = f.Do(http.MethodPost, path, user, "application/json", body)
	}
	return a.Status, a.Body
}

// job is a job of the page as JSON.
type job struct {
	Class, ID, Queue, Source, Process, Began string
	Ticket                                   int64
	For                                      int64 `json:"for_ms"`
}

func (f *face) jobs(query string) (jobs []job) {
	f.Helper()
	var page struct {
		Jobs []job
		Seen int `json:"seen"`
		Of   int `json:"seen_of"`
	}
	status, text := f.ask("/api/v1/running?q="+url.QueryEscape(query), "")
	if err := json.Unmarshal([]byte(text), &page); status != http.StatusOK || err != nil {
		f.Fatalf("/running answers %d: %s", status, text)
	}
	return page.Jobs
}

func TestCancelsWhatRuns(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	f := open(t, b.Redis)
	for _, name := range []string{"plain", "tracked"} {
		var options []goworker.EnqueueOption
		if name == "tracked" {
			options = append(options, goworker.WithResult(time.Hour))
		}
		if _, err := f.Client.Enqueue(t.Context(), goworker.NewJob("work", "Hold", name), options...); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, daemontest.Soon, "two jobs run for a while", func() bool {
		jobs := f.jobs("class:Hold")
		return len(jobs) == 2 && jobs[0].Began != "" && jobs[1].Began != ""
	})
	var plain, tracked job
	for _, j := range f.jobs("queue:work") {
		if j.ID == "" {
			plain = j
		} else {
			tracked = j
		}
	}
	if plain.Process == "" || tracked.ID == "" || plain.Source != "goworker" {
		t.Fatalf("the jobs are %+v and %+v", plain, tracked)
	}
	if jobs := f.jobs("-class:Hold"); len(jobs) != 0 {
		t.Errorf("others run: %+v", jobs)
	}
	status, page := f.ask("/running", "")
	if status != http.StatusOK || !strings.Contains(page, "workers, processes and leases seen") || strings.Count(page, "<h1>") != 1 {
		t.Errorf("the page answers %d: %s", status, page)
	}
	if status, text := f.ask("/running?q=retried", ""); status != http.StatusBadRequest {
		t.Errorf("a filter that cannot be answers %d: %s", status, text)
	}
	// Who sees other queues only neither finds nor cancels the job.
	if status, text := f.ask("/api/v1/running", "", "other"); status != http.StatusOK || strings.Contains(text, "Hold") {
		t.Errorf("a user of another queue gets %d: %s", status, text)
	}
	body, _ := json.Marshal(map[string]any{"process": plain.Process, "ticket": plain.Ticket})
	if status, text := f.ask("/api/v1/running/cancel", string(body), "other"); status != http.StatusOK || !strings.Contains(text, "nothing was cancelled") {
		t.Errorf("a user of another queue cancels: %d: %s", status, text)
	}
	// The stacks of the process are on a page.
	stack, _ := json.Marshal(map[string]any{"process": plain.Process})
	if status, text := f.ask("/api/v1/running/stack", string(stack)); status != http.StatusOK || !strings.Contains(text, "goroutine") {
		t.Errorf("the stacks answer %d: %s", status, text)
	}
	if status, text := f.ask("/running/stack?process="+url.QueryEscape(plain.Process), ""); status != http.StatusOK || !strings.Contains(text, "daemontest") || strings.Index(text, "daemontest") > 12_000 {
		t.Errorf("the page of stacks answers %d: %.2000s", status, text)
	}
	if status, _ := f.ask("/api/v1/running/stack", `{"process":"no:1:such"}`); status != http.StatusNotFound {
		t.Errorf("a process that is not there answers %d", status)
	}
	// A plain job is cancelled by its process and ticket, one with an id by that.
	if status, text := f.ask("/api/v1/running/cancel", string(body)); status != http.StatusOK || !strings.Contains(text, "is cancelled") {
		t.Errorf("cancelling the plain job answers %d: %s", status, text)
	}
	if status, text := f.ask("/api/v1/running/cancel", `{"id":"`+tracked.ID+`"}`); status != http.StatusOK || !strings.Contains(text, "is cancelled") {
		t.Errorf("cancelling the tracked job answers %d: %s", status, text)
	}
	redistest.Eventually(t, daemontest.Soon, "nothing runs", func() bool { return len(f.jobs("")) == 0 })
	if status, text := f.ask("/api/v1/running/cancel", `{"id":"`+tracked.ID+`"}`); status != http.StatusOK || !strings.Contains(text, "does not run any more") {
		t.Errorf("cancelling what has ended answers %d: %s", status, text)
	}
	if status, page := f.ask("/running", ""); status != http.StatusOK || !strings.Contains(page, "Nothing runs") {
		t.Errorf("the empty page answers %d", status)
	}
	audit, err := f.Client.Inspect().Audit(t.Context(), 10)
	if err != nil || len(audit) != 2 || audit[0].Who != "ann" || audit[0].What != "Cancel" || audit[1].What != "CancelRunning" {
		t.Errorf("the audit is %+v: %v", audit, err)
	}
}

// A lease is released if it is the one that the page showed.
func TestReleasesALease(t *testing.T) {
	t.Parallel()
	redis := redistest.Start(t)
	f := open(t, redis)
	ends := time.Now().Add(time.Hour).UnixMilli()
	for _, id := range []string{"a", "b"} {
		redis.Do(t, "HSET", "resque:go:leased", leases.Place("mail", id), `{"class":"Send","args":[{"password":"hunter2"}],"id":"`+id+`"}`)
		redis.Do(t, "ZADD", "resque:go:leases", ends, leases.Place("mail", id))
	}
	status, page := f.ask("/running", "")
	if status != http.StatusOK || !strings.Contains(page, "its lease ends") || !strings.Contains(page, "Release its lease") || strings.Contains(page, "hunter2") {
		t.Errorf("the page answers %d: %s", status, page)
	}
	release := func(want int, ends int64, headers ...string) {
		t.Helper()
		if status, text := f.ask("/api/v1/running/release", fmt.Sprintf(`{"queue":"mail","id":"a","ends":%d}`, ends), headers...); status != want {
			t.Errorf("releasing answers %d, want %d: %s", status, want, text)
		}
	}
	release(http.StatusConflict, ends-1)
	release(http.StatusNotFound, ends, "other")
	if n := redis.Int(t, "ZCOUNT", "resque:go:leases", ends, ends); n != 2 {
		t.Errorf("%d leases are left", n)
	}
	release(http.StatusOK, ends)
	if n := redis.Int(t, "ZCOUNT", "resque:go:leases", ends, ends); n != 1 {
		t.Errorf("%d leases are left", n)
	}
}
