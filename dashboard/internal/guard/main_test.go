package guard

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// hand is a clock that a test sets.
type hand struct {
	clock.Clock
	mu  sync.Mutex
	now time.Time
}

func newHand() *hand {
	return &hand{Clock: clock.System, now: time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)}
}

func (h *hand) Now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now
}

func (h *hand) pass(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.now = h.now.Add(d)
}

// lines is what a logger wrote.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// site is a small dashboard behind a guard, on a real server.
type site struct {
	*Guard
	address string // 127.0.0.1:port
	log     *lines
	client  *http.Client
}

// serve starts a site. Its handler has a route of each kind.
func serve(t *testing.T, s Settings) *site {
	t.Helper()
	log := &lines{}
	s.Log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	g, err := New(s)
	if err != nil {
		t.Fatal(err)
	}
	handler := g.Wrap(routes(g))
	if prefix := g.settings.Prefix(nil); prefix != "" {
		mux := http.NewServeMux()
		mux.Handle(prefix+"/", handler)
		handler = mux
	}
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return &site{Guard: g, address: server.Listener.Addr().String(), log: log, client: &http.Client{
		Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// routes are a page, a page of a queue, JSON, a stream, an action of an operator, one of an admin, and what is open.
func routes(g *Guard) http.Handler {
	prefix := g.settings.Prefix(nil)
	mux := http.NewServeMux()
	say := func(w http.ResponseWriter, r *http.Request) {
		user, _ := UserOf(r.Context())
		fmt.Fprintf(w, "hello %s %s", user.Name, user.Role)
	}
	act := func(action string, need Role) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			user, _ := UserOf(r.Context())
			if queue := r.PathValue("queue"); !user.Sees(queue) {
				g.Refuse(w, r, http.StatusNotFound, "No such queue", "There is no such queue.", "other queue")
			} else if !user.May(action, need, Target{Queue: queue}) {
				g.Refuse(w, r, http.StatusForbidden, "Not yours to do", "This needs another role.", "role")
			} else {
				io.Copy(io.Discard, r.Body)
				say(w, r)
			}
		}
	}
	mux.HandleFunc("GET "+prefix+"/{$}", say)
	mux.HandleFunc("GET "+prefix+"/queues/{queue}", act("look", Viewer))
	mux.HandleFunc("GET "+prefix+"/api/v1/queues/{queue}", act("look", Viewer))
	mux.HandleFunc("GET "+prefix+"/live", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: 1\n\n")
		http.NewResponseController(w).Flush()
	})
	mux.HandleFunc("POST "+prefix+"/queues/{queue}/pause", act("pause", Operator))
	mux.HandleFunc("POST "+prefix+"/queues/{queue}/clear", act("clear", Admin))
	mux.HandleFunc("POST "+prefix+"/api/v1/queues/{queue}/pause", act("pause", Operator))
	for _, open := range []string{"/assets/", "/healthz", "/readyz"} {
		mux.HandleFunc("GET "+prefix+open, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "open") })
	}
	return mux
}

// answer is an answer with its body.
type answer struct {
	*http.Response
	text string
}

// ask sends a request. Each header is written as Name: value; Host sets the name that it is sent to.
func (s *site) ask(t *testing.T, method, target string, headers ...string) answer {
	t.Helper()
	return send(t, s.client, method, "http://"+s.address+target, headers...)
}

func send(t *testing.T, client *http.Client, method, url string, headers ...string) answer {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		if name == "Host" {
			r.Host = value
		} else {
			r.Header.Add(name, value)
		}
	}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{response, string(text)}
}

// raw sends bytes, for what no client sends, and returns the status line.
func (s *site) raw(t *testing.T, request string) string {
	t.Helper()
	conn, err := net.Dial("tcp", s.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, request); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	line, _, _ := strings.Cut(string(text), "\r\n")
	return line
}

// as lets everybody in as one user.
func as(u User) Identify { return func(*http.Request) (User, error) { return u, nil } }

// want compares a status.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.StatusCode != status {
		t.Errorf("%s %s is answered with %d, want %d: %s", a.Request.Method, a.Request.URL, a.StatusCode, status, a.text)
	}
	return a
}

// says looks for a text in the answer.
func (a answer) says(t *testing.T, text string) answer {
	t.Helper()
	if !strings.Contains(a.text, text) {
		t.Errorf("the answer of %s %s does not say %q: %s", a.Request.Method, a.Request.URL, text, a.text)
	}
	return a
}
