// Package dashtest serves a dashboard over a Redis, for tests.
package dashtest

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard"
)

// Desk is a dashboard and what asks it.
type Desk struct {
	*testing.T
	Client *goworker.Client
	Server *dashboard.Server
	Web    *httptest.Server
	Root   string // the path that the dashboard is mounted at
}

// Open serves a dashboard of the Redis at an URI until the test ends. Anybody is let in.
func Open(t *testing.T, uri string, change ...func(*dashboard.Options)) *Desk {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: uri, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	o := dashboard.Options{User: Anybody, Environment: "test", Logger: quiet}
	for _, f := range change {
		f(&o)
	}
	d := &Desk{T: t, Client: client}
	if d.Server, err = dashboard.New(client, o); err != nil {
		t.Fatal(err)
	}
	d.Serve("/", d.Server)
	return d
}

// Anybody lets the user in that a request names in its header, as "name role", and behind it the queues. A request without one is an
// administrator's.
func Anybody(r *http.Request) (dashboard.User, error) {
	words := strings.Fields(r.Header.Get("X-User"))
	if len(words) == 0 {
		return dashboard.User{Name: "ops", Role: dashboard.Admin}, nil
	}
	role, err := dashboard.ParseRole(words[1])
	u := dashboard.User{Name: words[0], Role: role}
	if len(words) > 2 {
		u.Queues = words[2:]
	}
	return u, err
}

// Serve mounts the dashboard, or what stands before it, at a path.
func (d *Desk) Serve(root string, h http.Handler) {
	mux := http.NewServeMux()
	mux.Handle(root, h)
	web := httptest.NewServer(mux)
	d.Web, d.Root = web, strings.TrimSuffix(root, "/")
	d.Cleanup(func() {
		if err := d.Server.Shutdown(context.Background()); err != nil {
			d.Error(err)
		}
		web.Close()
	})
}

// Answer is what a request got.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Has fails the test if the page has not all the words.
func (a Answer) Has(t testing.TB, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(a.Body, w) {
			t.Errorf("the page (%d) lacks %q", a.Status, w)
		}
	}
}

// Cookies are those that the answer sets.
func (a Answer) Cookies() []*http.Cookie { return (&http.Response{Header: a.Header}).Cookies() }

// Do sends a request of a user. It follows no redirect.
func (d *Desk) Do(method, path, user, kind, body string, cookies ...*http.Cookie) Answer {
	d.Helper()
	req, err := http.NewRequestWithContext(d.Context(), method, d.Web.URL+path, strings.NewReader(body))
	if err != nil {
		d.Fatal(err)
	}
	req.Header.Set("X-User", user)
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	for _, c := range cookies {
		req.AddCookie(c)
	}
	res, err := d.Web.Client().Transport.RoundTrip(req)
	if err != nil {
		d.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		d.Fatal(err)
	}
	return Answer{res.StatusCode, res.Header, string(text)}
}

// Get asks for a page, and again where Redis did not answer in the time of a page: that is no more than a busy machine.
func (d *Desk) Get(path, user string) (a Answer) {
	d.Helper()
	for range 6 {
		if a = d.Do(http.MethodGet, path, user, "", ""); a.Status != http.StatusServiceUnavailable || !strings.Contains(strings.ToLower(a.Body), "deadline exceeded") {
			break
		}
	}
	return a
}

// Read decodes the JSON of a page that is there.
func (d *Desk) Read(path, user string, into any) {
	d.Helper()
	a := d.Get("/api/v1"+path, user)
	if err := json.Unmarshal([]byte(a.Body), into); a.Status != http.StatusOK || err != nil {
		d.Fatalf("GET %s: %d, %v: %s", path, a.Status, err, a.Body)
	}
}

// Post sends a form of names and values.
func (d *Desk) Post(path, user string, pairs ...string) Answer {
	d.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Add(pairs[i], pairs[i+1])
	}
	return d.Do(http.MethodPost, path, user, "application/x-www-form-urlencoded", form.Encode())
}

// Act does an action over JSON, and decodes its answer.
func (d *Desk) Act(path, user, body string, into any) (status int) {
	d.Helper()
	a := d.Do(http.MethodPost, "/api/v1"+path, user, "application/json", body)
	if err := json.Unmarshal([]byte(a.Body), into); err != nil {
		d.Fatalf("POST %s: %d, %v: %s", path, a.Status, err, a.Body)
	}
	return a.Status
}
