package health_test

import (
	"context"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/health"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) { daemontest.Main(m) }

type signs goworker.Signs

func (s signs) Signs() goworker.Signs { return goworker.Signs(s) }

// Each reason for a 503, and what is none.
func TestPaths(t *testing.T) {
	t.Parallel()
	well := signs{Running: true, Started: true, LeaseHeld: true, Patience: 50 * time.Second}
	with := func(change func(*signs)) signs { s := well; change(&s); return s }
	for name, tc := range map[string]struct {
		signs signs
		opts  []health.Option
		bad   string // the paths that answer 503
		why   string
	}{
		"all is well":                   {well, nil, "", ""},
		"before the run":                {signs{Exchanged: -1, Renewed: -1}, nil, "readyz startupz", "the daemon does not run"},
		"while it starts":               {signs{Running: true, Exchanged: -1, Renewed: time.Second, LeaseHeld: true}, nil, "readyz startupz", "not all parts of the daemon run yet"},
		"the poller waits for Redis":    {with(func(s *signs) { s.Poller = 110 * time.Second }), nil, "", ""},
		"the poller hangs":              {with(func(s *signs) { s.Poller = 111 * time.Second }), nil, "healthz", "the loop of the poller"},
		"the poller hangs, sooner":      {with(func(s *signs) { s.Poller = 52 * time.Second }), []health.Option{health.Hung(time.Second)}, "healthz", "the loop of the poller"},
		"the lease hangs":               {with(func(s *signs) { s.Lease = 111 * time.Second }), nil, "healthz", "the loop that renews the lease"},
		"all are stuck for a while":     {with(func(s *signs) { s.AllStuck = 9 * time.Minute }), nil, "", ""},
		"all are stuck":                 {with(func(s *signs) { s.AllStuck = 10 * time.Minute }), nil, "healthz", "all workers are stuck"},
		"all are stuck, and may":        {with(func(s *signs) { s.AllStuck = time.Hour }), []health.Option{health.Stuck(0)}, "", ""},
		"all are stuck, sooner":         {with(func(s *signs) { s.AllStuck = time.Minute }), []health.Option{health.Stuck(time.Minute)}, "healthz", "all workers are stuck"},
		"it stops":                      {with(func(s *signs) { s.Stopping = true }), nil, "readyz", "the daemon stops"},
		"Redis is away":                 {with(func(s *signs) { s.LeaseHeld, s.Renewed, s.Exchanged = false, time.Hour, time.Hour }), nil, "readyz", "Redis has not answered"},
		"the queues do not move":        {with(func(s *signs) { s.Exchanged = time.Hour }), nil, "", ""},
		"only exchanges are answered":   {with(func(s *signs) { s.Renewed = 11 * time.Second }), nil, "", ""},
		"nothing has been answered yet": {with(func(s *signs) { s.Exchanged, s.Renewed = -1, -1 }), nil, "readyz", "Redis has not answered"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := health.Handler(tc.signs, tc.opts...)
			whys := ""
			for _, path := range []string{"healthz", "readyz", "startupz"} {
				bad := strings.Contains(tc.bad, path)
				status, body := daemontest.Get(h, "/"+path)
				var answer struct {
					OK     bool
					Checks map[string]struct {
						OK  bool
						Age *float64
						Why string
					}
				}
				if err := json.Unmarshal([]byte(body), &answer); err != nil {
					t.Fatalf("%s: %s", body, err)
				}
				if want := map[bool]int{false: 200, true: 503}[bad]; status != want || answer.OK == bad {
					t.Errorf("%s is %d: %s", path, status, body)
				}
				for _, c := range answer.Checks {
					if c.OK == (c.Why != "") || c.Age != nil && *c.Age < 0 {
						t.Errorf("%s: %s", path, body)
					}
					whys += c.Why
				}
			}
			if !strings.Contains(whys, tc.why) {
				t.Errorf("the reasons are %q, want %q", whys, tc.why)
			}
		})
	}
}

func TestAnswer(t *testing.T) {
	t.Parallel()
	h := health.Handler(signs{Running: true, Started: true, LeaseHeld: true, Renewed: 1500 * time.Millisecond, Exchanged: 20 * time.Second, Stopping: true})
	_, body := daemontest.Get(h, "/readyz")
	want := `{"ok":false,"checks":{"started":{"ok":true},"stopping":{"ok":false,"why":"the daemon stops: it takes no more jobs"},"lease":{"ok":true,"age":1.500},"redis":{"ok":true,"age":1.500}}}` + "\n"
	if diff := cmp.Diff(want, body); diff != "" {
		t.Error(diff)
	}
	for path, want := range map[string]int{"/": 404, "/healthz/": 404, "/metrics": 404} {
		if status, _ := daemontest.Get(h, path); status != want {
			t.Errorf("%s is %d", path, status)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/healthz", nil))
	if w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
		t.Errorf("a POST is %d, %v", w.Code, w.Header())
	}
}

// heldConn waits for a gate when a function of goworker uses it.
type heldConn struct {
	redis.ConnWithTimeout
	in   string
	held *atomic.Bool
	gate chan struct{}
}

func (c heldConn) holds() {
	if c.held.Load() && strings.Contains(string(debug.Stack()), c.in) {
		<-c.gate
	}
}

func (c heldConn) Do(command string, args ...any) (any, error) {
	c.holds()
	return c.ConnWithTimeout.Do(command, args...)
}

func (c heldConn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	c.holds()
	return c.ConnWithTimeout.DoWithTimeout(d, command, args...)
}

// holding returns a dialer of such connections to the Redis that a URI of another scheme names.
func holding(in string, held *atomic.Bool, gate chan struct{}) goworker.Opener {
	return func(_ context.Context, uri string, _ goworker.DialOptions) (goworker.Dialer, error) {
		return goworker.DialerFunc(func(context.Context) (redis.Conn, error) {
			c, err := redis.DialURL(strings.Replace(uri, "held", "redis", 1))
			if err != nil {
				return nil, err
			}
			return heldConn{c.(redis.ConnWithTimeout), in, held, gate}, nil
		}), nil
	}
}

// A daemon is live while a loop of its own turns, whatever Redis and the jobs do. A loop that stands is a
// reason to restart, and the answer names it.
func TestLoopThatStands(t *testing.T) {
	t.Parallel()
	for loop, in := range map[string]string{"poller": "goworker.(*poller).run", "lease": "fleet.(*Lease).turn"} {
		t.Run(loop, func(t *testing.T) {
			t.Parallel()
			held, gate := new(atomic.Bool), make(chan struct{})
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
				s.URI = strings.Replace(s.URI, "redis", "held", 1)
				s.ConnectTimeout, s.ReadTimeout, s.WriteTimeout = 100*time.Millisecond, 100*time.Millisecond, 100*time.Millisecond
			})
			b.Daemon.RegisterDialer("held", holding(in, held, gate))
			h := health.Handler(b.Daemon, health.Hung(100*time.Millisecond))
			daemontest.Answers(t, h, "/healthz", 200)
			daemontest.Answers(t, h, "/startupz", 503)
			b.Start()
			b.Idle()
			daemontest.Answers(t, h, "/startupz", 200)
			daemontest.Answers(t, h, "/readyz", 200)
			daemontest.Answers(t, h, "/healthz", 200)
			held.Store(true)
			b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			b.Daemon.Pause()
			b.Daemon.Resume()                                     // the poller looks again, finds its connection broken, and reads its record back on another
			b.Eventually("the loop alone is named", func() bool { // a busy machine may delay the other one too
				status, body := daemontest.Get(h, "/healthz")
				return status == 503 && strings.Contains(body, `"`+loop+`":{"ok":false`) && strings.Count(body, `"ok":false`) == 2
			})
			close(gate)
			daemontest.Answers(t, h, "/healthz", 200)
		})
	}
}

// Shards are ready if one of them is, and live while no loop of any stands.
func TestShards(t *testing.T) {
	t.Parallel()
	server, gone := redistest.Start(t), redistest.Start(t)
	gone.Kill()
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 2, LogLevel: "error"},
		goworker.Shard{URI: gone.URI(), Queues: []string{"a"}}, goworker.Shard{URI: server.URI(), Queues: []string{"b"}})
	defer s.Close()
	s.Register("Nop", func() {})
	h := health.Handler(s)
	daemontest.Answers(t, h, "/startupz", 503)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error)
	go func() { ended <- s.Run(ctx) }()
	daemontest.Answers(t, h, "/startupz", 200)
	daemontest.Answers(t, h, "/readyz", 200)
	daemontest.Answers(t, h, "/healthz", 200)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	daemontest.Answers(t, h, "/readyz", 503)
}

// The part of docs/health.md answers while the daemon runs, and its end is no error of the stop.
func TestPartOfThePage(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	d, address := b.Daemon, make(chan string, 1)
	d.AddPart(goworker.Part{Name: "health", Restart: &goworker.Backoff{}, Run: func(ctx context.Context) error {
		server := &http.Server{Addr: "127.0.0.1:0", Handler: health.Handler(d), BaseContext: func(l net.Listener) context.Context {
			address <- l.Addr().String()
			return context.Background()
		}}
		defer context.AfterFunc(ctx, func() { _ = server.Close() })()
		if err := server.ListenAndServe(); ctx.Err() == nil {
			return err
		}
		return nil // the stop has closed it
	}})
	b.Start()
	b.Idle()
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	r, err := c.Get("http://" + <-address + "/startupz")
	if err != nil {
		t.Fatal(err)
	}
	if _ = r.Body.Close(); r.StatusCode != http.StatusOK {
		t.Errorf("it answers %s", r.Status)
	}
	if err := b.Stop(); err != nil {
		t.Error(err)
	}
}
