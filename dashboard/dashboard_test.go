package dashboard_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/dashboard"
	"github.com/goworker/goworker/dashboard/internal/dashtest"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

// desk is a dashboard over a Redis of its own.
type desk struct {
	*dashtest.Desk
	redis *redistest.Server
}

func setup(t *testing.T, change ...func(*dashboard.Options)) *desk {
	t.Helper()
	redis := redistest.Start(t)
	return &desk{dashtest.Open(t, redis.URI(), change...), redis}
}

// document is the part of openapi.json that names the routes.
type document struct {
	Paths map[string]map[string]json.RawMessage `json:"paths"`
}

// routes are the paths of all pages and actions, with a word for each wildcard.
func (d *desk) routes() (pages, actions []string) {
	d.Helper()
	var doc document
	if err := json.Unmarshal([]byte(d.Get(d.Root+"/api/v1/openapi.json", "").Body), &doc); err != nil {
		d.Fatal(err)
	}
	for path, item := range doc.Paths {
		parts := strings.Split(strings.TrimPrefix(path, "/api/v1"), "/")
		for n, part := range parts {
			if strings.HasPrefix(part, "{") {
				if parts[n] = "x"; parts[n-1] == "workers" {
					parts[n] = "x:1:q" // the address /workers/x is resque-web's of a host
				}
			}
		}
		path = strings.Join(parts, "/")
		if path == "" {
			path = "/"
		}
		if item["get"] != nil {
			pages = append(pages, path)
		}
		if item["post"] != nil {
			actions = append(actions, path)
		}
	}
	slices.Sort(pages)
	slices.Sort(actions)
	if len(pages) < 4 || len(actions) < 2 {
		d.Fatalf("pages %v, actions %v", pages, actions)
	}
	return pages, actions
}

// Without Options.User nobody is let in, on no path, loopback included; the page says how to set it.
func TestNobodyWithoutUser(t *testing.T) {
	t.Parallel()
	pages, actions := setup(t).routes()
	d := setup(t, func(o *dashboard.Options) { o.User = nil })
	d.redis.Do(t, "SADD", "resque:queues", "secretqueue")
	for _, path := range append(append(pages, "/live?page=/", "/palette?q=s", "/api/v1/queues", "/nosuch"), actions...) {
		a := d.Get(path, "")
		if a.Status != http.StatusForbidden || strings.Contains(a.Body, "secretqueue") {
			t.Errorf("GET %s: %d", path, a.Status)
		}
	}
	if a := d.Get("/", ""); !strings.Contains(a.Body, "dashboard.Options") {
		t.Errorf("the page does not say what to set: %s", a.Body)
	}
	for _, path := range actions {
		if a := d.Post(path, ""); a.Status != http.StatusForbidden {
			t.Errorf("POST %s: %d", path, a.Status)
		}
	}
}

// A viewer changes nothing on any route, nor does a GET, and read-only takes the routes away.
func TestNobodyChangesAnything(t *testing.T) {
	t.Parallel()
	d := setup(t)
	read := setup(t, func(o *dashboard.Options) { o.ReadOnly = true })
	_, actions := d.routes()
	before := d.redis.Dump(t, "resque:")
	for n, path := range actions {
		for _, user := range []string{fmt.Sprintf("eve%d viewer", n), fmt.Sprintf("mail%d viewer mail", n)} { // each may do so much a second
			for _, prefix := range []string{"", "/api/v1"} {
				if a := d.Post(prefix+path, user); a.Status != http.StatusForbidden && a.Status != http.StatusNotFound {
					t.Errorf("POST %s%s by %s: %d %s", prefix, path, user, a.Status, a.Body)
				}
			}
		}
		if a := d.Get(path, ""); a.Status != http.StatusMethodNotAllowed && a.Status != http.StatusNotFound && a.Status != http.StatusOK && a.Status != http.StatusMovedPermanently {
			t.Errorf("GET %s: %d", path, a.Status)
		}
		if a := read.Post(path, ""); a.Status < 400 {
			t.Errorf("POST %s on a dashboard that only shows: %d", path, a.Status)
		}
	}
	if after := d.redis.Dump(t, "resque:"); len(after) != len(before) {
		t.Errorf("Redis has %v, and had %v", after, before)
	}
}

// Each page answers as HTML and as JSON, in its layout, with the strict policy, and what is not there is a page too.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	d := setup(t)
	pages, _ := d.routes()
	for _, path := range pages {
		a := d.Get(path, "")
		if a.Status != http.StatusOK && a.Status != http.StatusNotFound && a.Status != http.StatusBadRequest {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
		if strings.HasPrefix(a.Header.Get("Content-Type"), "text/html") {
			for _, want := range []string{`<h1`, `id="main"`, `lang="en"`} {
				if strings.Count(a.Body, want) != 1 {
					t.Errorf("%s has %d of %s", path, strings.Count(a.Body, want), want)
				}
			}
			for _, never := range []string{"style=", "<script>", "ZgotmplZ", "%!", "\x00", "onclick"} {
				if strings.Contains(a.Body, never) {
					t.Errorf("%s has %q", path, never)
				}
			}
		}
		if !strings.Contains(a.Header.Get("Content-Security-Policy"), "default-src 'none'") || a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %v", path, a.Header)
		}
		j := d.Get("/api/v1"+strings.TrimSuffix(path, "/"), "")
		if j.Status != a.Status || !json.Valid([]byte(j.Body)) {
			t.Errorf("%s as JSON: %d, as HTML %d: %s", path, j.Status, a.Status, j.Body)
		}
	}
	if a := d.Get("/nosuch", ""); a.Status != http.StatusNotFound || !strings.Contains(a.Body, "/nosuch") {
		t.Error(a.Status)
	}
	if a := d.Get("/api/v1/nosuch", ""); a.Status != http.StatusNotFound || a.Header.Get("Content-Type") != "application/problem+json" {
		t.Error(a.Status, a.Header)
	}
}

// Names of any text make addresses that lead back to them.
func TestNamesInAddresses(t *testing.T) {
	t.Parallel()
	for _, root := range []string{"/", "/jobs/", "/a/b/"} {
		d := setup(t)
		d.Serve(root, d.Server)
		for _, name := range []string{"mail", "../x", ".", "..", "~a", "a/b&c%d", "a b", "ü", `"><script>`, "a#b", "%2e%2e", "//evil.example", "\xff"} {
			d.redis.Do(t, "SADD", "resque:queues", name)
			d.redis.Do(t, "RPUSH", "resque:queue:"+name, `{"class":"C","args":[]}`)
		}
		for part := range strings.SplitSeq(d.Get(d.Root+"/queues", "").Body, `title="Pause…"`) {
			before := part[strings.LastIndex(part, `href="`)+len(`href="`):]
			address, asks := strings.CutSuffix(html.UnescapeString(strings.TrimRight(before, `" `)), "?ask=pause")
			if !asks {
				continue
			}
			if a := d.Post(address+"/pause", ""); a.Status != http.StatusSeeOther {
				t.Errorf("POST %s: %d %s", address, a.Status, a.Body)
			}
		}
		if paused := d.redis.List(t, "SMEMBERS", "resque:go:paused"); len(paused) != 13 {
			t.Errorf("%s: %q are paused", root, paused)
		}
	}
}

// The pages of resque-web lead to their like.
func TestOldAddresses(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.Serve("/jobs/", d.Server)
	for old, want := range map[string]string{
		"/overview": "/", "/working": "/running", "/failed?start=40&class=X": "/failures?by=each&q=class%3AX", "/failed/mail_failed": "/failures?by=each&q=queue%3Amail",
		"/workers/all": "/processes?by=worker", "/workers/web-1": "/processes?by=worker&q=host%3Aweb-1", "/workers": "/processes?by=worker", "/stats/resque": "/redis",
		"/stats/keys": "/redis/keys", "/stats/keys/queue:mail": "/redis/keys/queue:mail", "/delayed/1791981136": "/delayed?from=1791981136&to=1791981136",
	} {
		a := d.Get("/jobs"+old, "")
		if got := a.Header.Get("Location"); a.Status != http.StatusMovedPermanently || got != "/jobs"+want {
			t.Errorf("%s: %d to %s, want %s", old, a.Status, got, want)
		}
	}
}

// A change comes back to the page it was made on, which says once what was done.
func TestFlash(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "SADD", "resque:queues", "mail")
	for back, want := range map[string]string{"/queues?sort=name": "/queues?sort=name", "//evil.example": "/", "https://evil.example/": "/", "/\\evil.example": "/", "": "/"} {
		a := d.Post("/queues/mail/pause", "", "back", back)
		if a.Status != http.StatusSeeOther || a.Header.Get("Location") != want {
			t.Errorf("back to %q: %d %s", back, a.Status, a.Header.Get("Location"))
		}
		if all := a.Header.Get("Set-Cookie"); !strings.Contains(all, "HttpOnly") || !strings.Contains(all, "SameSite=Strict") {
			t.Error(all)
		}
		a = d.Do(http.MethodGet, "/queues", "", "", "", a.Cookies()...)
		if !strings.Contains(a.Body, "Queue mail is paused") || !strings.Contains(a.Header.Get("Set-Cookie"), "Max-Age=0") {
			t.Errorf("%s", a.Header)
		}
	}
	if a := d.Get("/queues", ""); strings.Contains(a.Body, "Queue mail is paused") {
		t.Error("it is said again")
	}
}

// The same idempotency key makes one change.
func TestIdempotencyKey(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "SADD", "resque:queues", "mail")
	const body = `{"idempotency_key":"k1","why":"a test"}`
	for range 3 {
		if a := d.Do(http.MethodPost, "/api/v1/queues/mail/pause", "", "application/json", body); a.Status != http.StatusOK || !strings.Contains(a.Body, `"done":1`) {
			t.Fatal(a.Status, a.Body)
		}
	}
	if n := d.redis.Int(t, "LLEN", "resque:go:audit"); n != 1 {
		t.Errorf("the audit has %d lines", n)
	}
}

// The stream of a page sends its regions; with Redis away it says so, and goes on when Redis is back. Pages that are asked for meanwhile
// answer 503.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	d := setup(t)
	d.redis.Do(t, "SADD", "resque:queues", "mail")
	if a := d.Get("/queues", ""); a.Status != http.StatusOK {
		t.Fatal(a.Body)
	}
	res, err := http.Get(d.Web.URL + "/live?page=" + url.QueryEscape("/queues"))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 1<<20)
	until := func(want string) {
		t.Helper()
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), want) {
				return
			}
		}
		t.Fatalf("the stream ended before %q: %v", want, lines.Err())
	}
	until("data: queues <section")
	d.redis.Kill()
	until("event: away")
	redistest.Eventually(t, time.Minute, "a page says that Redis is away", func() bool { return d.Get("/queues", "").Status == http.StatusServiceUnavailable })
	if a := d.Get("/readyz", ""); a.Status != http.StatusServiceUnavailable {
		t.Error(a.Status, a.Body)
	}
	if a := d.Post("/queues/mail/pause", ""); a.Status != http.StatusServiceUnavailable {
		t.Error(a.Status, a.Body)
	}
	d.redis.Restart(t)
	until("event: back")
	redistest.Eventually(t, time.Minute, "pages are back", func() bool { return d.Get("/queues", "").Status == http.StatusOK })
}

// A Redis that can only be read gives a dashboard without buttons; a change that is tried all the same is refused with Redis's reason.
func TestRedisTakesNoChanges(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t)
	master.Do(t, "SADD", "resque:queues", "mail")
	d := setup(t)
	host, port, _ := strings.Cut(master.Addr, ":")
	d.redis.Do(t, "REPLICAOF", host, port)
	redistest.Eventually(t, time.Minute, "the replica has the queue", func() bool { return len(d.redis.List(t, "SMEMBERS", "resque:queues")) == 1 })
	a := d.Get("/queues", "")
	if a.Status != http.StatusOK || strings.Contains(a.Body, "/pause\"") || !strings.Contains(a.Body, "This dashboard only shows") {
		t.Errorf("%d %s", a.Status, a.Body)
	}
	if a := d.Post("/queues/mail/pause", ""); a.Status != http.StatusServiceUnavailable {
		t.Errorf("%d %s", a.Status, a.Body)
	}
}

// With nobody looking the dashboard sends nothing, and after its Shutdown it has no connection.
func TestNothingIsAsked(t *testing.T) {
	t.Parallel()
	d := setup(t)
	monitor := d.redis.Monitor(t)
	time.Sleep(50 * time.Millisecond) // a dashboard that asked before its first request would have
	if sent := monitor.Commands(); len(sent) > 0 {
		t.Errorf("before the first request: %q", sent)
	}
	d.Get("/", "")
	sent := len(monitor.Commands())
	redistest.Eventually(t, daemontest.Soon, "no more commands after those of the page, and of what it has left to the background", func() bool {
		before := sent
		time.Sleep(2500 * time.Millisecond) // more than a tick
		sent = len(monitor.Commands())
		return sent > 5 && sent == before
	})
}

// Several fleets stand below an address of their own each, and share no cookie path.
func TestFleets(t *testing.T) {
	t.Parallel()
	other := redistest.Start(t)
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: other.URI(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	d := setup(t, func(o *dashboard.Options) { o.Name = "eu"; o.Fleets = []dashboard.Fleet{{Name: "us", Client: client}} })
	d.redis.Do(t, "SADD", "resque:queues", "inEurope")
	other.Do(t, "SADD", "resque:queues", "inAmerica")
	if a := d.Get("/", ""); a.Status != http.StatusSeeOther || a.Header.Get("Location") != "/fleets/eu/" {
		t.Fatal(a.Status, a.Header)
	}
	for fleet, want := range map[string]string{"eu": "inEurope", "us": "inAmerica"} {
		a := d.Get("/fleets/"+fleet+"/queues", "")
		if !strings.Contains(a.Body, want) || !strings.Contains(a.Body, `href="/fleets/us/"`) || strings.Contains(a.Body, `href="/queues`) {
			t.Errorf("%s: %s", fleet, a.Body)
		}
	}
	if a := d.Get("/fleets/asia/", ""); a.Status != http.StatusNotFound {
		t.Error(a.Status)
	}
	if a := d.Post("/fleets/us/queues/inAmerica/pause", "", "back", "/queues"); a.Header.Get("Location") != "/fleets/us/queues" {
		t.Error(a.Status, a.Header)
	}
	if n := d.redis.Int(t, "EXISTS", "resque:go:paused"); n != 0 {
		t.Error("the other fleet was paused")
	}
}

// Mistakes in the options are errors of New, and the page of Handler.
func TestOptions(t *testing.T) {
	t.Parallel()
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://127.0.0.1:1/", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	for _, tt := range []struct {
		o    dashboard.Options
		want string
	}{
		{dashboard.Options{Links: []dashboard.Link{{Name: "x", URL: "javascript:alert(1)"}}}, "http://"},
		{dashboard.Options{Pages: []dashboard.Page{{Name: "x", Path: "a/b"}}}, "path of letters"},
		{dashboard.Options{Fleets: []dashboard.Fleet{{Name: "main", Client: client}}}, "two fleets"},
		{dashboard.Options{Fleets: []dashboard.Fleet{{Name: "a b", Client: client}}}, "needs a name"},
		{dashboard.Options{Fleets: []dashboard.Fleet{{Name: "b"}}}, "no client"},
		{dashboard.Options{Prefix: "/x/"}, "to end without one"},
	} {
		if _, err := dashboard.New(client, tt.o); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v, want %q", err, tt.want)
		}
		w := httptest.NewRecorder()
		dashboard.Handler(client, tt.o).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if w.Code != http.StatusInternalServerError || !strings.Contains(w.Body.String(), tt.want) {
			t.Error(w.Code, w.Body)
		}
	}
	if _, err := dashboard.New(nil, dashboard.Options{}); err == nil {
		t.Error("no client is no error")
	}
}

// A page of the program stands behind the same checks, and knows the user.
func TestOwnPage(t *testing.T) {
	t.Parallel()
	d := setup(t, func(o *dashboard.Options) {
		o.User = func(r *http.Request) (dashboard.User, error) {
			if r.Header.Get("X-User") == "" {
				return dashboard.User{}, errors.New("who are you?")
			}
			return dashtest.Anybody(r)
		}
		o.Pages = []dashboard.Page{{Name: "Orders", Path: "orders", Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			u, _ := dashboard.UserOf(r.Context())
			fmt.Fprint(w, u.Name, " at ", r.URL.Path)
		})}}
	})
	if a := d.Get("/orders/7", ""); a.Status != http.StatusUnauthorized {
		t.Error(a.Status, a.Body)
	}
	if a := d.Get("/orders/7", "ann viewer"); a.Body != "ann at /7" {
		t.Error(a.Status, a.Body)
	}
	if a := d.Get("/queues", "ann viewer"); !strings.Contains(a.Body, `href="/orders"`) {
		t.Error("the rail has no link to it")
	}
}
