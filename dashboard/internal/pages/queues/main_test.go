package queues_test

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/dashboard/internal/dashtest"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// face is a dashboard on a Redis of its own, and what asks it.
type face struct {
	*dashtest.Desk
	Redis *redistest.Server
}

func open(t *testing.T, change ...func(*dashboard.Options)) *face {
	return openOn(t, redistest.Start(t), change...)
}

func openOn(t *testing.T, server *redistest.Server, change ...func(*dashboard.Options)) *face {
	t.Helper()
	return &face{dashtest.Open(t, server.URI(), change...), server}
}

// in asks Redis beside the dashboard.
func (f *face) in() *inspect.Inspector { return f.Client.Inspect() }

// by is the user of a request: an administrator, unless who names another.
func by(who []string) string {
	if len(who) > 0 {
		return who[0]
	}
	return "ann admin"
}

// get returns a page that is there.
func (f *face) get(path string, who ...string) string {
	f.Helper()
	status, body := f.ask(path, who...)
	if status != http.StatusOK {
		f.Fatalf("GET %s answers %d: %s", path, status, body)
	}
	return body
}

func (f *face) ask(path string, who ...string) (int, string) {
	f.Helper()
	a := f.Get(path, by(who))
	return a.Status, a.Body
}

// json decodes the JSON of a page, with its numbers as they stand.
func (f *face) json(path string, v any) {
	f.Helper()
	d := json.NewDecoder(strings.NewReader(f.get("/api/v1" + path)))
	d.UseNumber()
	if err := d.Decode(v); err != nil {
		f.Fatalf("GET %s: %v", path, err)
	}
}

// post sends a form.
func (f *face) post(path string, form url.Values, who ...string) (int, string, http.Header) {
	f.Helper()
	a := f.Do(http.MethodPost, path, by(who), "application/x-www-form-urlencoded", form.Encode())
	return a.Status, a.Body, a.Header
}

// outcome is the answer of an action.
type outcome struct {
	Said      string          `json:"said"`
	Done      int64           `json:"done"`
	Missing   int64           `json:"missing"`
	Operation string          `json:"operation"`
	Undo      bool            `json:"undo"`
	Data      json.RawMessage `json:"data"`
}

// act does an action over JSON and wants a status.
func (f *face) act(status int, path, body string, who ...string) (out outcome) {
	f.Helper()
	if got := f.Act(path, by(who), body, &out); got != status {
		f.Fatalf("POST %s %s answers %d, want %d: %+v", path, body, got, status, out)
	}
	return out
}

// push puts payloads into a queue as Ruby does.
func (f *face) push(queue string, payloads ...string) {
	f.Helper()
	f.Redis.Do(f, "SADD", "resque:queues", queue)
	for _, p := range payloads {
		f.Redis.Do(f, "RPUSH", "resque:queue:"+queue, p)
	}
}

// waits are the payloads in a queue.
func (f *face) waits(queue string) []string {
	f.Helper()
	return f.Redis.List(f, "LRANGE", "resque:queue:"+queue, 0, -1)
}
