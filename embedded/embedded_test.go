package embedded_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/embedded"
	"github.com/goworker/goworker/internal/redistest"
)

func TestMain(m *testing.M) {
	// seelog, the default log sink, starts two goroutines at import.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncLoopLogger).processQueue"))
}

func open(t *testing.T, uri string) *embedded.Server {
	t.Helper()
	d, err := embedded.Open(t.Context(), uri, goworker.DialOptions{
		ConnectTimeout: 5 * time.Second, ReadTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	s := d.(*embedded.Server)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func dial(t *testing.T, d goworker.Dialer) redis.Conn {
	t.Helper()
	c, err := d.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

func TestOneServerForAllConnections(t *testing.T) {
	t.Parallel()
	s, other := open(t, "embedded:"), open(t, "embedded://")
	a, b, c := dial(t, s), dial(t, s), dial(t, other)
	if _, err := a.Do("SET", "k", "v"); err != nil {
		t.Fatal(err)
	}
	if text, err := redis.String(b.Do("GET", "k")); text != "v" || err != nil {
		t.Errorf("the second connection sees %q, %v", text, err)
	}
	if _, err := redis.String(c.Do("GET", "k")); err != redis.ErrNil {
		t.Errorf("another server has the key: %v", err)
	}
	_ = a.Close()
	_ = b.Close()
	if text, err := redis.String(dial(t, s).Do("GET", "k")); text != "v" || err != nil {
		t.Errorf("the data went with the connections: %q, %v", text, err)
	}
	if s.PollInterval() != 20*time.Millisecond {
		t.Error(s.PollInterval())
	}
}

func TestCloseBreaksConnections(t *testing.T) {
	t.Parallel()
	s := open(t, "embedded:")
	c := dial(t, s)
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Do("PING"); err == nil {
		t.Error("a connection outlives the server")
	}
	if _, err := s.Dial(t.Context()); err == nil || err.Error() != "redis: the embedded Redis was closed, and its data is gone" {
		t.Error(err)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	// Not a port the system gave: once closed, the system may give it to another program.
	addr := fmt.Sprintf("127.0.0.1:%d", redistest.FreePort(t))
	s := open(t, "embedded://"+addr)
	if s.Addr() != addr {
		t.Errorf("listens on %s, want %s", s.Addr(), addr)
	}
	c, err := redis.DialURL("redis://" + open(t, "embedded:").Addr())
	if err != nil {
		t.Fatal(err)
	}
	_ = c.Close()
	_, err = embedded.Open(t.Context(), "embedded://"+addr, goworker.DialOptions{})
	if err == nil || !strings.Contains(err.Error(), addr) {
		t.Errorf("a port in use: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	var again goworker.Dialer
	redistest.Eventually(t, time.Minute, "the port is free", func() bool { // a process that another test starts has it until it runs its program
		again, err = embedded.Open(t.Context(), "embedded://"+addr+"/", goworker.DialOptions{})
		return err == nil
	})
	t.Cleanup(func() { _ = again.(*embedded.Server).Close() })
	if got := again.(*embedded.Server).Addr(); got != addr {
		t.Errorf("listens on %s, want %s", got, addr)
	}
	for uri, want := range map[string]string{
		"redis://x":                 "opened by the URI embedded:",
		"embedded:x":                "is embedded: or embedded://127.0.0.1:<port>",
		"embedded://x":              "is embedded: or embedded://127.0.0.1:<port>",
		"embedded://:s3cret@x:1":    "is embedded: or embedded://127.0.0.1:<port>",
		"embedded://127.0.0.1:1/3":  "is embedded: or embedded://127.0.0.1:<port>",
		"embedded://:6379":          "listens on this machine only",
		"embedded://0.0.0.0:6379":   "listens on this machine only",
		"embedded://example.com:80": "listens on this machine only",
	} {
		_, err := embedded.Open(t.Context(), uri, goworker.DialOptions{})
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("Open(%q): %v; want %q", uri, err, want)
		}
	}
	if _, err := embedded.Start("nonsense", goworker.DialOptions{}); err == nil {
		t.Error("an address without a port is taken")
	}
}

func TestDialContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(t, "embedded:").Dial(ctx); err == nil {
		t.Error("dialed for a caller who had left")
	}
}

func TestKeysExpire(t *testing.T) {
	t.Parallel()
	c := dial(t, open(t, "embedded:"))
	for _, args := range [][]any{{"short", "v", "EX", 1}, {"long", "v", "EX", 1000}} {
		if _, err := c.Do("SET", args...); err != nil {
			t.Fatal(err)
		}
	}
	redistest.Eventually(t, 30*time.Second, "the key expires", func() bool {
		n, err := redis.Int(c.Do("EXISTS", "short"))
		return err == nil && n == 0
	})
	if ttl, err := redis.Int(c.Do("TTL", "long")); err != nil || ttl < 900 || ttl > 1000 {
		t.Errorf("the other lives %d more seconds, %v", ttl, err)
	}
}
