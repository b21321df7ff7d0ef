package tail_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard/internal/dashtest"
	"github.com/goworker/goworker/internal/daemontest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

// desk is a dashboard beside a daemon.
type desk struct {
	*daemontest.Bundle
	web *dashtest.Desk
}

func setup(t *testing.T, change ...func(*goworker.WorkerSettings)) *desk {
	t.Helper()
	b := daemontest.Setup(t, change...)
	return &desk{b, dashtest.Open(t, b.Redis.OperatorsURI())}
}

// get asks for a page as a user of some queues; "": of all.
func (d *desk) get(path, queues string) (status int, body string) {
	d.T.Helper()
	a := d.web.Get(path, "eve viewer "+queues)
	return a.Status, a.Body
}

type page struct {
	Events []struct {
		Kind, Queue, Class, ID, Text, Process string
		Count                                 int64
	}
}

func (d *desk) events(query, queues string) (p page) {
	d.T.Helper()
	status, body := d.get("/api/v1/events"+query, queues)
	if err := json.Unmarshal([]byte(body), &p); err != nil || status != http.StatusOK {
		d.T.Fatalf("%d %s", status, body)
	}
	return p
}

// has reports whether a page has an event.
func (p page) has(kind, class string) bool {
	for _, e := range p.Events {
		if e.Kind == kind && e.Class == class {
			return true
		}
	}
	return false
}

// While a reader looks, jobs appear as they end, with what they said masked, to those who see their queue.
func TestEvents(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.Daemon.Register("Secret", func() error { return fmt.Errorf("login failed: password=hunter2hunter2 <b>") })
	if p := d.events("", ""); len(p.Events) != 0 {
		t.Errorf("%+v", p)
	}
	if _, body := d.get("/events", ""); !strings.Contains(body, "Nothing has happened yet") {
		t.Error("an empty page does not say so")
	}
	d.events("", "work")
	d.events("", "other")
	d.Start()
	d.Idle()
	d.Eventually("a job appears as it ends", func() bool {
		p := d.events("", "")
		d.Push(daemontest.Job("Mark", "m"), `{"class":"Secret","args":[]}`)
		return p.has("done", "Mark") && p.has("failed", "Secret") && p.has("online", "")
	})
	if p := d.events("?kind=done", ""); p.has("failed", "Secret") {
		t.Errorf("the filter of kinds lets others pass: %+v", p)
	}
	status, body := d.get("/events", "")
	if status != http.StatusOK || !strings.Contains(body, "login failed") || strings.Contains(body, "hunter2") || strings.Contains(body, "<b>") && strings.Contains(body, "failed: <b>") {
		t.Errorf("%d %s", status, body)
	}
	var p page
	d.Eventually("a user of the queue sees its events", func() bool { // a watcher that nobody looked at for a while has begun again
		d.Push(`{"class":"Secret","args":[]}`)
		p = d.events("", "work")
		return p.has("failed", "Secret")
	})
	for _, e := range p.Events {
		if e.Process != "" || e.Queue != "work" && e.Kind != "missed" {
			t.Errorf("a user of one queue learns of %+v", e)
		}
	}
	for _, e := range d.events("", "other").Events {
		if e.Kind != "missed" || e.Process+e.Queue+e.Text != "" {
			t.Errorf("a user of another queue learns of %+v", e)
		}
	}
}

// A filter that cannot be is refused, and so is the 17th at a time.
func TestFilters(t *testing.T) {
	t.Parallel()
	d := setup(t)
	for _, query := range []string{"?kind=odd", "?queue=%5B", "?class=a%5C"} {
		if status, body := d.get("/events"+query, ""); status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
	filter := func(n int) string { return "/events?queue=" + url.QueryEscape(fmt.Sprintf("<q%d>", n)) }
	for range 2 { // the first look at each waits for what Redis still has, and a filter that is not looked at again makes room in a while
		var all sync.WaitGroup
		for n := range 16 {
			all.Go(func() {
				if a := d.web.Get(filter(n), "eve viewer"); a.Status != http.StatusOK || !strings.Contains(a.Body, "&lt;q") {
					t.Errorf("filter %d: %d", n, a.Status)
				}
			})
		}
		all.Wait()
	}
	if status, _ := d.get(filter(16), ""); status == http.StatusOK {
		t.Error("a 17th filter is watched")
	}
	if status, _ := d.get("/events?queue=%3Cq3%3E", ""); status != http.StatusOK {
		t.Errorf("a filter that is watched: %d", status)
	}
}
