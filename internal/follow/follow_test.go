package follow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncLoopLogger).processQueue"),
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncAdaptiveLogger).processQueue"),
	)
}

// world is what the advisers say, and how the servers answer.
type world struct {
	mu      sync.Mutex
	says    map[string]string // what each adviser names; missing: it does not answer
	asked   []string          // every adviser that was asked, in order
	open    int               // connections to advisers
	refused map[string]error  // servers that will not have us
	silent  map[string]bool   // servers that do not answer a dial
	dials   int
	slow    func(ctx context.Context) // what an adviser does before it answers a dial; nil: nothing
}

// fakeConn is a connection that only knows whether it is open.
type fakeConn struct {
	redis.Conn
	mu     sync.Mutex
	addr   string
	closed func()
	err    error
}

func (c *fakeConn) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

func (c *fakeConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = errors.New("redigo: closed")
		if c.closed != nil {
			c.closed()
		}
	}
	return nil
}

func (w *world) dialAdviser(ctx context.Context, addr string) (redis.Conn, error) {
	if w.slow != nil {
		w.slow(ctx)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.says[addr] == "" {
		return nil, fmt.Errorf("no server at %s", addr)
	}
	w.open++
	return &fakeConn{addr: addr, closed: func() { w.mu.Lock(); w.open--; w.mu.Unlock() }}, nil
}

func (w *world) ask(c redis.Conn, at string) (string, error) {
	w.mu.Lock()
	w.asked = append(w.asked, at)
	says := w.says[at]
	w.mu.Unlock()
	if code, isError := strings.CutPrefix(says, "-"); isError {
		return "", redis.Error(code)
	}
	if says == "" {
		_ = c.Close()
		return "", errors.New("silence")
	}
	return says, nil
}

func (w *world) learn(redis.Conn, string) ([]string, error) { return []string{"a", "late"}, nil }

func (w *world) dial(ctx context.Context, addr string) (redis.Conn, error) {
	w.mu.Lock()
	refused, silent := w.refused[addr], w.silent[addr]
	w.dials++
	w.mu.Unlock()
	if silent {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	if refused != nil {
		return nil, refused
	}
	return &fakeConn{addr: addr}, nil
}

func (w *world) set(change func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	change()
}

// inWorld runs a test in a bubble of time, in which a and b say that x is the
// master.
func inWorld(t *testing.T, test func(t *testing.T, w *world, d *Dialer)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{says: map[string]string{"a": "x", "b": "x"}, refused: map[string]error{}, silent: map[string]bool{}}
		d := New(Config{
			Advisers: NewAdvisers("the wise", []string{"a", "b"}, w.dialAdviser, w.ask, w.learn),
			Dial:     w.dial, Limit: 5 * time.Second,
		})
		test(t, w, d)
		_ = d.Close()
		if w.open != 0 {
			t.Errorf("%d connections to advisers are left open", w.open)
		}
	})
}

func mustDial(t *testing.T, d *Dialer) *fakeConn {
	t.Helper()
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c.(*fakeConn)
}

func TestConnectionsToTheOldMasterAreClosed(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, d *Dialer) {
		one, two := mustDial(t, d), mustDial(t, d)
		time.Sleep(10 * lookEvery)
		if one.Err() != nil || two.Err() != nil {
			t.Fatal("closed without a reason")
		}
		w.set(func() { w.says["a"], w.says["b"] = "y", "y" })
		time.Sleep(2 * lookEvery)
		if one.Err() == nil || two.Err() == nil {
			t.Error("they are open still")
		}
		if c := mustDial(t, d); c.addr != "y" {
			t.Errorf("led to %s", c.addr)
		}
	})
}

// An adviser that does not answer does not say that the master has moved. One that names a
// server which refuses us is not believed. Then another adviser is asked.
func TestConnectionsAreKept(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, d *Dialer) {
		c := mustDial(t, d)
		w.set(func() { w.says = map[string]string{} })
		time.Sleep(5 * lookEvery)
		w.set(func() {
			w.says["a"], w.says["b"] = "stale", "x"
			w.refused["stale"] = errors.New("a replica")
		})
		time.Sleep(5 * lookEvery)
		w.set(func() { w.says["a"], w.says["b"] = "-CLUSTERDOWN", "-CLUSTERDOWN" })
		time.Sleep(5 * lookEvery)
		if c.Err() != nil {
			t.Error("the connection was closed")
		}
	})
}

// An attempt to reach a master that does not answer is given up when another is
// named.
func TestAnAttemptFollowsToo(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, d *Dialer) {
		w.set(func() { w.silent["x"] = true })
		time.AfterFunc(1500*time.Millisecond, func() { w.set(func() { w.says["a"] = "y" }) })
		began := time.Now()
		if c := mustDial(t, d); c.addr != "y" {
			t.Errorf("led to %s", c.addr)
		}
		if took := time.Since(began); took > 3*time.Second {
			t.Errorf("it took %v", took)
		}
	})
}

func TestDialTriesAgain(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, d *Dialer) {
		for name, err := range map[string]error{
			"the Cluster is down": fmt.Errorf("x: %w", redis.Error("CLUSTERDOWN no")),
			"a replica":           errors.New("a replica"),
			"not there":           errors.New("refused"),
			"loading":             redis.Error("LOADING"),
		} {
			w.set(func() { w.refused["x"] = err })
			time.AfterFunc(3*time.Second, func() { w.set(func() { delete(w.refused, "x") }) })
			if _, err := d.Dial(t.Context()); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		w.set(func() { w.says["a"], w.says["b"] = "-CLUSTERDOWN no", "-CLUSTERDOWN no" })
		time.AfterFunc(3*time.Second, func() { w.set(func() { w.says["a"] = "x" }) })
		if _, err := d.Dial(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// What will not pass is not waited for, and nothing longer than the limit.
func TestDialGivesUp(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, d *Dialer) {
		try := func(want string, takes time.Duration) {
			t.Helper()
			began := time.Now()
			_, err := d.Dial(t.Context())
			if err == nil || !strings.Contains(err.Error(), want) || time.Since(began) != takes {
				t.Errorf("%v after %v; want %q after %v", err, time.Since(began), want, takes)
			}
		}
		w.set(func() { w.refused["x"] = redis.Error("WRONGPASS no") })
		try("WRONGPASS", 0)
		w.set(func() { w.refused["x"] = errors.New("a replica") })
		try("a replica", 5*time.Second)
		w.set(func() { w.refused, w.silent["x"] = nil, true })
		try("context deadline exceeded", 5*time.Second)
		w.set(func() { w.says = map[string]string{} })
		try("redis: no master was found by way of the wise; none of them answers: ", 0)
		w.set(func() { w.says = map[string]string{"b": "-NOPERM no"} })
		try("redis: no master was found by way of the wise: NOPERM no", 0)
		w.set(func() { w.says["b"] = "x" })
		_ = d.Close()
		try("the way to Redis was closed", 0)
	})
}

// Close ends a search for the master that is under way. The error says that, and not what the advisers had answered before.
func TestCloseEndsASearch(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, d *Dialer) {
		closed := make(chan struct{})
		w.set(func() {
			w.says = map[string]string{"b": "x"}
			w.slow = func(ctx context.Context) {
				go func() {
					defer close(closed)
					_ = d.Close()
				}()
				<-ctx.Done()
			}
		})
		if _, err := d.Dial(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("the error is %v", err)
		}
		<-closed
	})
}

// Without connections no adviser is asked, and the adviser's connection is closed.
func TestLooksOnlyWhileThereAreConnections(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, d *Dialer) {
		c := mustDial(t, d)
		time.Sleep(10*lookEvery + lookEvery/2)
		w.set(func() {
			if n := len(w.asked); n != 11 || w.open != 1 || w.dials != 1 {
				t.Errorf("asked %d times over %d connections; %d dials", n, w.open, w.dials)
			}
		})
		_ = c.Close()
		time.Sleep(10 * lookEvery)
		w.set(func() {
			if len(w.asked) != 11 || w.open != 0 {
				t.Errorf("asked %d times, %d connections", len(w.asked), w.open)
			}
		})
		mustDial(t, d)
		time.Sleep(2*lookEvery + lookEvery/2)
		w.set(func() {
			if len(w.asked) != 14 {
				t.Errorf("asked %d times", len(w.asked))
			}
		})
	})
}

// The advisers that were learned are asked when the others are gone.
func TestAdvisersAreLearned(t *testing.T) {
	inWorld(t, func(t *testing.T, w *world, d *Dialer) {
		mustDial(t, d)
		w.set(func() { w.says = map[string]string{"late": "y"} })
		if c := mustDial(t, d); c.addr != "y" {
			t.Errorf("led to %s", c.addr)
		}
	})
}

func TestParseURI(t *testing.T) {
	t.Parallel()
	u, err := ParseURI(" Rediss+X://u:p%40@h,[::1],g:1/a%2Fb//2/?k=v&k=w#m ", "9")
	if err != nil {
		t.Fatal(err)
	}
	if u.Scheme != "rediss+x" || !u.TLS() || u.Fragment != "m" || len(u.Query["k"]) != 2 ||
		!slices.Equal(u.Hosts, []string{"h:9", "[::1]:9", "g:1"}) || !slices.Equal(u.Path, []string{"a/b", "2"}) {
		t.Errorf("%+v", u)
	}
	if got := u.Server("g:1", 2); got != "rediss://u:p%40@g:1/2" {
		t.Error(got)
	}
	if u, _ = ParseURI("redis+x://h", "9"); u.Server("h:9", 0) != "redis://h:9/0" || u.TLS() {
		t.Errorf("%+v", u)
	}
}

// Whatever is in a URI, its parts do not panic and no error shows the password.
func FuzzParseURI(f *testing.F) {
	f.Add("redis+sentinel://u:hush@h:1,g/m/0?db=1#x")
	f.Add("redis+cluster://:hush@[::1]")
	f.Fuzz(func(t *testing.T, uri string) {
		u, err := ParseURI(uri, "9")
		if err != nil {
			if strings.Contains(err.Error(), "hush") {
				t.Error(err)
			}
			return
		}
		for _, h := range u.Hosts {
			if !strings.Contains(u.Server(h, 0), h) {
				t.Errorf("%q lost its host", h)
			}
		}
	})
}
