package live_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goworker/goworker/dashboard/internal/live"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk is a Hub behind an HTTP server, with pages that a test changes.
type desk struct {
	*testing.T
	hub    *live.Hub
	server *httptest.Server

	mu      sync.Mutex
	regions map[string][]live.Region // by page
	away    error
	looks   atomic.Int64
	renders atomic.Int64
}

func setup(t *testing.T, change ...func(*live.Settings)) *desk {
	d := &desk{T: t, regions: map[string][]live.Region{"/": {{ID: "a", HTML: []byte(`<p id="a">1</p>`)}, {ID: "b", HTML: []byte(`<p id="b">2</p>`)}}}}
	s := live.Settings{Every: 5 * time.Millisecond, Look: func(context.Context) error {
		d.looks.Add(1)
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.away
	}}
	for _, f := range change {
		f(&s)
	}
	d.hub = live.New(s)
	d.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		page := r.URL.Path
		if err := d.hub.Stream(w, r, r.URL.Query().Get("user"), page, func(context.Context) ([]live.Region, error) {
			d.renders.Add(1)
			d.mu.Lock()
			defer d.mu.Unlock()
			return slices.Clone(d.regions[page]), nil
		}); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	}))
	t.Cleanup(func() {
		if err := d.hub.Close(context.Background()); err != nil {
			t.Error(err)
		}
		d.server.Close()
		http.DefaultClient.CloseIdleConnections()
	})
	return d
}

func (d *desk) set(page, id, html string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := slices.DeleteFunc(slices.Clone(d.regions[page]), func(r live.Region) bool { return r.ID == id })
	d.regions[page] = append(all, live.Region{ID: id, HTML: []byte(html)})
}

// tab is a reader of a page.
type tab struct {
	*desk
	lines *bufio.Scanner
	close func()
}

func (d *desk) open(path string) *tab {
	d.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	req, _ := http.NewRequestWithContext(ctx, http.MethodGet, d.server.URL+path, nil)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		d.Fatal(err)
	}
	if res.StatusCode != http.StatusOK {
		d.Fatal(res.Status)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, 4<<20)
	t := &tab{d, lines, func() { cancel(); res.Body.Close() }}
	d.Cleanup(t.close)
	return t
}

// next returns the next event: its kind and its data.
func (t *tab) next() (kind, data string) {
	t.Helper()
	var lines []string
	for t.lines.Scan() {
		switch line := t.lines.Text(); {
		case strings.HasPrefix(line, "event: "):
			kind = line[7:]
		case strings.HasPrefix(line, "data: "):
			lines = append(lines, line[6:])
		case line == "" && kind == "hello":
			kind, lines = "", nil
		case line == "" && kind != "":
			return kind, strings.Join(lines, "\n")
		}
	}
	return "end", ""
}

// until reads events until one is as wanted.
func (t *tab) until(kind, part string) string {
	t.Helper()
	for {
		k, data := t.next()
		if k == "end" {
			t.Fatalf("the stream ended before an event %s with %q", kind, part)
		}
		if k == kind && strings.Contains(data, part) {
			return data
		}
	}
}

// A region whose bytes did not change is sent once; one that did is sent again, with all its lines.
func TestRegions(t *testing.T) {
	d := setup(t)
	tab := d.open("/")
	for _, want := range []string{`a <p id="a">1</p>`, `b <p id="b">2</p>`} {
		if kind, data := tab.next(); kind != "region" || data != want {
			t.Fatalf("%s %q, want %q", kind, data, want)
		}
	}
	d.set("/", "b", "<p id=\"b\">\r\n3\nevent: away\n</p>")
	if kind, data := tab.next(); kind != "region" || data != "b <p id=\"b\">\n3\nevent: away\n</p>" {
		t.Fatalf("%s %q", kind, data)
	}
}

// Any number of readers of a page is one look and one rendering a tick.
func TestReadersShare(t *testing.T) {
	d := setup(t, func(s *live.Settings) { s.Own = 100 })
	var tabs []*tab
	for range 50 {
		tabs = append(tabs, d.open("/"))
	}
	for _, tab := range tabs {
		tab.until("region", `b <p`)
	}
	looks, renders := d.looks.Load(), d.renders.Load()
	d.set("/", "a", `<p id="a">4</p>`)
	for _, tab := range tabs {
		tab.until("region", `>4<`)
	}
	r := d.renders.Load() - renders // before the looks: what comes between adds to these
	if l := d.looks.Load() - looks; r > l+1 {
		t.Errorf("%d renderings in %d looks", r, l)
	}
}

// Nobody looks: nothing is asked.
func TestNobodyLooks(t *testing.T) {
	d := setup(t)
	tab := d.open("/")
	tab.until("region", "a")
	tab.close()
	redistest.Eventually(t, time.Minute, "the stream ends", func() bool { return d.hub.Streams() == 0 })
	var looks int64
	redistest.Eventually(t, time.Minute, "no more looks", func() bool {
		before := looks
		looks = d.looks.Load()
		time.Sleep(20 * time.Millisecond) // four ticks in which a look could come
		return before == looks
	})
}

// Redis is away and comes back: the readers hear of both.
func TestAway(t *testing.T) {
	d := setup(t)
	tab := d.open("/")
	tab.until("region", "a")
	d.mu.Lock()
	d.away = errors.New("redis is away")
	d.mu.Unlock()
	tab.until("away", "redis is away")
	d.set("/", "a", `<p id="a">5</p>`)
	d.mu.Lock()
	d.away = nil
	d.mu.Unlock()
	tab.until("back", "")
	tab.until("region", ">5<")
}

// A reader that does not read keeps nobody waiting, and its stream ends.
func TestDeafReader(t *testing.T) {
	d := setup(t, func(s *live.Settings) { s.Patience = time.Second })
	c, err := net.Dial("tcp", strings.TrimPrefix(d.server.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	d.set("/large", "a", "")
	fmt.Fprintf(c, "GET /large HTTP/1.1\r\nHost: x\r\n\r\n")
	redistest.Eventually(t, time.Minute, "it is there", func() bool { return d.hub.Streams() == 1 })
	tab := d.open("/?user=other") // whose events find room in the buffers of its connection, however late it reads
	tab.until("region", "a")
	for n := 0; d.hub.Streams() > 1; n++ {
		d.set("/large", "a", fmt.Sprintf(`<p id="a">%d %s</p>`, n, strings.Repeat("x", 1<<20)))
		d.set("/", "b", fmt.Sprintf(`<p id="b">%d</p>`, n))
		tab.until("region", fmt.Sprintf(`<p id="b">%d</p>`, n))
	}
}

// Beyond the bounds a reader is turned away, and another one leaves room.
func TestBounds(t *testing.T) {
	d := setup(t, func(s *live.Settings) { s.Streams, s.Own = 3, 2 })
	one, _ := d.open("/?user=a"), d.open("/?user=a")
	refused := func(user string) {
		t.Helper()
		res, err := http.Get(d.server.URL + "/?user=" + user)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if res.StatusCode != http.StatusServiceUnavailable {
			t.Error(res.Status)
		}
	}
	refused("a")
	d.open("/?user=b")
	refused("c")
	one.close()
	redistest.Eventually(t, time.Minute, "a stream ends", func() bool { return d.hub.Streams() == 2 })
	d.open("/?user=c").until("region", "a")
}

// A budget that is spent leaves pages for the next tick; those that waited longest come first.
func TestBudget(t *testing.T) {
	var spent atomic.Int64
	d := setup(t, func(s *live.Settings) {
		s.Budget = 2
		s.Count = func(ctx context.Context) (context.Context, func() int) {
			spent.Store(0)
			return ctx, func() int { return int(spent.Add(1)) - 1 }
		}
	})
	var tabs []*tab
	for n := range 7 {
		page := fmt.Sprintf("/%d", n)
		d.set(page, "a", `<p id="a">first</p>`)
		tabs = append(tabs, d.open(page))
	}
	for n, tab := range tabs {
		tab.until("region", "first")
		d.set(fmt.Sprintf("/%d", n), "a", `<p id="a">second</p>`)
	}
	for _, tab := range tabs {
		tab.until("region", "second")
	}
}

// A stream ends after its time, and when the server stops, with a word about it.
func TestBye(t *testing.T) {
	d := setup(t, func(s *live.Settings) { s.Lifetime = 20 * time.Millisecond })
	d.open("/").until("bye", "")
	d = setup(t)
	tab := d.open("/")
	tab.until("region", "a")
	if err := d.hub.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	tab.until("bye", "")
	res, err := http.Get(d.server.URL + "/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusServiceUnavailable {
		t.Error(res.Status)
	}
}
