package redistest

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServerAnswersOnBothListeners(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Do(t, "SET", "a", "1")
	for network, address := range map[string]string{"tcp": s.Addr, "unix": s.Socket()} {
		c, err := redis.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := redis.String(c.Do("GET", "a")); got != "1" || err != nil {
			t.Errorf("%s: GET a gives %q, %v", network, got, err)
		}
		_ = c.Close()
	}
	c, err := redis.DialURL(s.URI())
	if err != nil {
		t.Fatalf("URI %s: %v", s.URI(), err)
	}
	_ = c.Close()
}

// A port is no other program's until the test ends, also while nothing listens on it.
func TestPortIsReserved(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no socket has a name without a file here")
	}
	port := 0
	t.Run("during", func(t *testing.T) {
		if port = FreePort(t); reserve(t, port) {
			t.Errorf("another program may have port %d", port)
		}
	})
	Eventually(t, time.Minute, "the port is free", func() bool { return reserve(t, port) }) // a process that another test starts has it until it runs its program
}

func TestServersAreSeparate(t *testing.T) {
	t.Parallel()
	a, b := Start(t), Start(t)
	a.Do(t, "SET", "k", "v")
	if keys := b.Keys(t); len(keys) != 0 {
		t.Errorf("the second server has %v", keys)
	}
	a.Kill()
	b.Do(t, "PING")
}

func TestRestartKeepsWhatArgsAskFor(t *testing.T) {
	t.Parallel()
	for name, kept := range map[string]bool{"yes": true, "no": false} {
		t.Run("appendonly "+name, func(t *testing.T) {
			t.Parallel()
			s := Start(t, "--appendonly", name, "--appendfsync", "always")
			addr := s.Addr
			s.Do(t, "SET", "k", "v")
			s.Kill()
			s.Kill()
			s.Restart(t)
			if got := s.Text(t, "GET", "k") == "v"; got != kept || s.Addr != addr {
				t.Errorf("after a restart at %s: kept %v, want %v at %s", s.Addr, got, kept, addr)
			}
		})
	}
}

// A server that died in the midst of writing what a script did starts without it, and must
// not do its first half at the start after.
func TestRestartForgetsHalfATransaction(t *testing.T) {
	t.Parallel()
	s := Start(t, "--appendonly", "yes", "--appendfsync", "always")
	take := func() {
		s.Do(t, "EVAL", "redis.call('LPOP', 'queue') redis.call('INCR', 'taken') return redis.call('INCR', 'taken')", 0)
	}
	s.Do(t, "RPUSH", "queue", "a", "b", "c")
	take()
	s.Kill()
	files, err := filepath.Glob(filepath.Join(s.Dir, "appendonlydir", "*.incr.aof"))
	if err != nil || len(files) != 1 {
		t.Fatalf("the server's file is not where Redis 7 has it: %q, %v", files, err)
	}
	whole, err := os.Stat(files[0])
	if err != nil {
		t.Fatal(err)
	}
	const end = len("taken\r\n*1\r\n$4\r\nEXEC\r\n")
	if err := os.Truncate(files[0], whole.Size()-int64(end)); err != nil {
		t.Fatal(err)
	}
	s.Restart(t)
	if left := s.List(t, "LRANGE", "queue", 0, -1); len(left) != 3 {
		t.Fatalf("the queue holds %q after the first start", left)
	}
	take()
	s.Restart(t)
	if left, taken := s.List(t, "LRANGE", "queue", 0, -1), s.Int(t, "GET", "taken"); len(left) != 2 || taken != 2 {
		t.Errorf("the queue holds %q, and %d is counted", left, taken)
	}
}

func TestStopSaves(t *testing.T) {
	t.Parallel()
	s := Start(t, "--save", "3600 1")
	s.Do(t, "SET", "k", "v")
	s.Stop()
	s.Restart(t)
	if got := s.Text(t, "GET", "k"); got != "v" {
		t.Errorf("GET k gives %q", got)
	}
}

func TestPasswordAndNoPort(t *testing.T) {
	t.Parallel()
	s := Start(t, "--requirepass", "open sesame", "--port", "0")
	if got := s.Int(t, "INCR", "n"); got != 1 {
		t.Errorf("INCR gives %d", got)
	}
}

func TestPause(t *testing.T) {
	t.Parallel()
	s := Start(t)
	c := s.Dial(t)
	s.Pause()
	if _, err := redis.DoWithTimeout(c, 20*time.Millisecond, "PING"); err == nil {
		t.Error("a paused server answered")
	}
	s.Resume()
	s.Do(t, "PING")
	s.Pause() // the end of the test has to cope with a paused server
}

func TestDump(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Do(t, "SET", "n:*s", "\x00<é>", "EX", 60)
	s.Do(t, "RPUSH", "n:*l", "b", "a", "b")
	s.Do(t, "SADD", "n:*set", "b", "a")
	s.Do(t, "HSET", "n:*h", "f", "v")
	s.Do(t, "ZADD", "n:*z", "1.5", "m")
	s.Do(t, "SET", "other", "x")
	want := map[string]any{
		"n:*s":   "\x00<é>",
		"n:*l":   []string{"b", "a", "b"},
		"n:*set": []string{"a", "b"},
		"n:*h":   map[string]string{"f": "v"},
		"n:*z":   map[string]float64{"m": 1.5},
	}
	if diff := cmp.Diff(want, s.Dump(t, "n:*")); diff != "" {
		t.Error(diff)
	}
	if got := len(s.Dump(t, "")); got != 6 {
		t.Errorf("all keys: %d, want 6", got)
	}
	for _, k := range s.Snapshot(t, "n:") {
		if expires := k.TTL > 0; expires != (k.Key == "n:*s") {
			t.Errorf("%s has the TTL %d", k.Key, k.TTL)
		}
	}
}

func TestMonitor(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Do(t, "SET", "before", "x")
	m := s.Monitor(t)
	odd := "q\"\\\n\r\t\a\b\x00\xffé] \""
	s.Do(t, "set", "k", odd)
	s.Do(t, "EVAL", "return redis.call('get', KEYS[1])", 1, "k")
	want := [][]string{{"SET", "k", odd}, {"EVAL", "return redis.call('get', KEYS[1])", "1", "k"}}
	if diff := cmp.Diff(want, m.Commands()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]string{{"GET", "k"}}, m.Inner()); diff != "" {
		t.Error(diff)
	}
}

func TestGolden(t *testing.T) {
	t.Parallel()
	files, err := os.ReadDir("testdata/golden")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d recordings, %v", len(files), err)
	}
	for _, f := range files {
		name := f.Name()[:len(f.Name())-len(".json")]
		if r := Golden(t, name); r.Scenario != name || len(r.Commands) == 0 {
			t.Errorf("%s: scenario %q with %d commands", name, r.Scenario, len(r.Commands))
		}
	}
}

// What Ruby sent, sent again, leaves the keys that Ruby left: recordings and
// Dump speak of the same thing.
func TestGoldenReplay(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"enqueue", "work_success", "schedule_recurring"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, r := Start(t), Golden(t, name)
			for _, c := range r.Commands {
				args := make([]any, 0, len(c))
				for _, a := range c[1:] {
					args = append(args, a)
				}
				s.Do(t, c[0], args...)
			}
			if diff := cmp.Diff(Values(r.KeysAfter), s.Dump(t, "")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestEventually(t *testing.T) {
	t.Parallel()
	calls := 0
	Eventually(t, time.Minute, "three calls", func() bool { calls++; return calls == 3 })
	if calls != 3 {
		t.Errorf("%d calls", calls)
	}
}

func TestStartErrors(t *testing.T) {
	t.Parallel()
	first := Start(t)
	second := &Server{Addr: first.Addr, Dir: t.TempDir(), binary: first.binary, port: first.port}
	if err := second.start(); !errors.Is(err, errPortTaken) {
		t.Errorf("a second server on %s: %v", first.Addr, err)
	}
	second.args = []string{"--no-such-setting", "1"}
	if err := second.start(); err == nil || !strings.Contains(err.Error(), "no-such-setting") {
		t.Errorf("the server's own words are missing in: %v", err)
	}
}
