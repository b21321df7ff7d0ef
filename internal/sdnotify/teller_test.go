package sdnotify

import (
	"bytes"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/goworker/goworker/internal/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// manager is a service manager's end of the socket.
type manager struct {
	t    *testing.T
	conn *net.UnixConn
}

func listen(t *testing.T, name string) manager {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return manager{t, conn}
}

// socket returns a name short enough for a socket.
func socket(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return filepath.Join(dir, "s")
}

// heard returns the messages that have come, with the lines of each after blanks.
func (m manager) heard() string {
	m.t.Helper()
	raw, err := m.conn.SyscallConn()
	if err != nil {
		m.t.Fatal(err)
	}
	var all []string
	for buffer := make([]byte, 4096); ; {
		var n int
		var failed error
		if err := raw.Read(func(fd uintptr) bool { n, failed = syscall.Read(int(fd), buffer); return true }); err != nil {
			m.t.Fatal(err)
		}
		if errors.Is(failed, syscall.EAGAIN) {
			return strings.Join(all, " | ")
		}
		if failed != nil {
			m.t.Fatal(failed)
		}
		all = append(all, strings.ReplaceAll(string(buffer[:n]), "\n", " + "))
	}
}

// want waits until everybody waits, and compares what has come.
func (m manager) want(what, want string) {
	m.t.Helper()
	synctest.Wait()
	if got := m.heard(); got != want {
		m.t.Errorf("%s the manager hears\n%q, want\n%q", what, got, want)
	}
}

// tell begins a Teller whose state the test changes.
func tell(name string, watchdog, stopTime time.Duration) (t *Teller, set func(State), stop func()) {
	var state atomic.Pointer[State]
	set = func(s State) { state.Store(&s) }
	set(State{Workers: 25, Live: true})
	stops := make(chan struct{})
	t = begin(Config{
		Clock: clock.System, Log: slog.New(slog.DiscardHandler), Stops: stops, StopTime: stopTime, Look: func() State { return *state.Load() },
	}, name, watchdog)
	go t.run()
	return t, set, func() { close(stops) }
}

func TestRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		name := socket(t)
		m := listen(t, name)
		teller, set, stop := tell(name, 30*time.Second, 25*time.Second)
		m.want("at first", "")
		time.Sleep(10 * time.Second)
		m.want("of a start that takes long", "STATUS=starting")
		teller.Ready()
		m.want("when all parts run", "READY=1 + STATUS=0 of 25 busy + WATCHDOG=1")
		time.Sleep(10 * time.Second)
		m.want("after a third of the watchdog's time", "WATCHDOG=1")
		s := State{22, 25, true, []string{"paused\nby the program", "2 jobs are stuck"}}
		set(s)
		time.Sleep(10 * time.Second)
		m.want("of a change", "STATUS=22 of 25 busy; paused by the program; 2 jobs are stuck + WATCHDOG=1")
		s.Live = false
		set(s)
		time.Sleep(30 * time.Second)
		m.want("of a process that hangs", "STATUS=22 of 25 busy; paused by the program; 2 jobs are stuck; the watchdog gets no sign of life")
		set(State{22, 25, true, nil})
		time.Sleep(10 * time.Second)
		m.want("when it does no more", "STATUS=22 of 25 busy + WATCHDOG=1")
		stop()
		m.want("when it stops", "STOPPING=1 + EXTEND_TIMEOUT_USEC=30000000 + STATUS=stopping, 22 of 25 busy + WATCHDOG=1")
		time.Sleep(8 * time.Second)
		set(State{3, 25, true, nil})
		time.Sleep(2 * time.Second)
		m.want("while it drains", "EXTEND_TIMEOUT_USEC=20000000 + STATUS=stopping, 3 of 25 busy + WATCHDOG=1")
		set(State{3, 25, false, nil})
		time.Sleep(30 * time.Second)
		m.want("of a stop that hangs, nothing that gives it more time",
			"EXTEND_TIMEOUT_USEC=10000000")
		teller.End()
		m.want("after the end", "")
	})
}

// A stop without a limit gets time as long as it goes on, and a service without a watchdog no signs of life.
func TestStopWithoutLimit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		name := socket(t)
		m := listen(t, name)
		teller, _, stop := tell(name, 0, 0)
		teller.Ready()
		m.want("when all parts run", "READY=1 + STATUS=0 of 25 busy")
		time.Sleep(time.Minute)
		m.want("of a process that does the same", "")
		stop()
		m.want("when it stops", "STOPPING=1 + EXTEND_TIMEOUT_USEC=30000000 + STATUS=stopping, 0 of 25 busy")
		for range 360 { // an hour; a socket holds ten messages
			time.Sleep(10 * time.Second)
			m.want("each ten seconds", "EXTEND_TIMEOUT_USEC=30000000")
		}
		teller.End()
	})
}

// Whatever comes at once is sent in its order, and a start that was broken off is never ready.
func TestShortRuns(t *testing.T) {
	t.Parallel()
	for range 50 { // a select chooses at random
		synctest.Test(t, func(t *testing.T) {
			name := socket(t)
			m := listen(t, name)
			teller, _, stop := tell(name, 0, time.Second)
			teller.Ready()
			stop()
			teller.End()
			m.want("of a short run", "READY=1 + STATUS=0 of 25 busy | STOPPING=1 + EXTEND_TIMEOUT_USEC=6000000 + STATUS=stopping, 0 of 25 busy")
			teller, _, stop = tell(name, 0, time.Second)
			stop()
			synctest.Wait()
			teller.Ready()
			teller.End()
			m.want("of a start that was broken off", "STOPPING=1 + EXTEND_TIMEOUT_USEC=6000000 + STATUS=stopping, 0 of 25 busy")
		})
	}
}

// The manager hears of a reload only while the service runs: READY would end its start, or its stop.
func TestReloading(t *testing.T) {
	name := "@goworker-" + filepath.Base(socket(t)) + filepath.Base(filepath.Dir(socket(t)))
	t.Setenv("NOTIFY_SOCKET", name)
	t.Setenv("WATCHDOG_USEC", "30000000")
	synctest.Test(t, func(t *testing.T) {
		m := listen(t, name) // an abstract one
		Reloading()()
		m.want("without a run", "")
		stops := make(chan struct{})
		c := Config{Clock: clock.System, Log: slog.New(slog.DiscardHandler), Stops: stops, StopTime: time.Second, Look: func() State { return State{Live: true} }}
		teller := Begin(c)
		if second := Begin(c); second != nil {
			t.Error("two runs speak for one process")
			second.End()
		}
		Reloading()()
		m.want("before it is ready", "")
		teller.Ready()
		m.want("when all parts run", "READY=1 + STATUS=0 of 0 busy + WATCHDOG=1")
		done := Reloading()
		synctest.Wait()
		if got := m.heard(); !strings.HasPrefix(got, "RELOADING=1 + MONOTONIC_USEC=") {
			t.Errorf("a reload is %q", got)
		}
		done()
		m.want("after the reload", "READY=1")
		done = Reloading()
		close(stops)
		synctest.Wait()
		m.heard()
		done()
		Reloading()()
		m.want("of reloads during a stop", "")
		teller.End()
		if teller = Begin(c); teller == nil {
			t.Fatal("after the end of a run no other one tells")
		}
		teller.End()
	})
}

// Without a socket, and with one that nobody reads, a run goes on.
func TestNobodyHears(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", "")
	if teller := Begin(Config{}); teller != nil {
		t.Error("it tells without a socket")
	} else {
		teller.Ready()
		teller.End()
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		teller := begin(Config{Clock: clock.System, Log: slog.New(slog.NewTextHandler(&log, nil)), Look: func() State { return State{Live: true} }}, "/nowhere/socket", 3*time.Second)
		go teller.run()
		teller.Ready()
		time.Sleep(time.Minute)
		teller.End()
		if n := strings.Count(log.String(), "the service manager cannot be told"); n != 1 || !strings.Contains(log.String(), "/nowhere/socket") {
			t.Errorf("the log says %d times so: %s", n, &log)
		}
	})
}

// A manager that does not read holds up a message for a second at most, and no run for ever.
func TestFullSocket(t *testing.T) {
	t.Parallel()
	name := socket(t)
	listen(t, name)
	for range 10_000 {
		if err := send(clock.System, name, "STATUS="+strings.Repeat("x", 1000)); err != nil {
			if !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a full socket is %v", err)
			}
			return
		}
	}
	t.Error("the socket never fills")
}

func TestEnvironment(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]struct {
		socket   string
		watchdog time.Duration
	}{
		"":                               {"", 0},
		"NOTIFY_SOCKET=/run/s":           {"/run/s", 0},
		"NOTIFY_SOCKET=@s":               {"@s", 0},
		"NOTIFY_SOCKET=vsock:2:1234":     {"", 0}, // of a virtual machine, whose own manager has another
		"NOTIFY_SOCKET=s":                {"", 0},
		"NOTIFY_SOCKET=@s WATCHDOG_USEC": {"@s", 0},
		"NOTIFY_SOCKET=@s WATCHDOG_USEC=30000000":                 {"@s", 30 * time.Second},
		"NOTIFY_SOCKET=@s WATCHDOG_USEC=30000000 WATCHDOG_PID=7":  {"@s", 30 * time.Second},
		"NOTIFY_SOCKET=@s WATCHDOG_USEC=30000000 WATCHDOG_PID=17": {"@s", 0},
		"NOTIFY_SOCKET=@s WATCHDOG_USEC=-1":                       {"@s", 0},
		"WATCHDOG_USEC=30000000":                                  {"", 0},
	} {
		set := make(map[string]string)
		for _, v := range strings.Fields(given) {
			name, value, _ := strings.Cut(v, "=")
			set[name] = value
		}
		if socket, watchdog := environment(func(name string) string { return set[name] }, 7); socket != want.socket || watchdog != want.watchdog {
			t.Errorf("%s is %q, %s", given, socket, watchdog)
		}
	}
	environ := []string{"A=1", "NOTIFY_SOCKET=/run/s", "WATCHDOG_PID=1", "WATCHDOG_USEC=1", "NOTIFY_SOCKETS=2"}
	if got := Without(environ); !slices.Equal(got, []string{"A=1", "NOTIFY_SOCKETS=2"}) || environ[1] != "NOTIFY_SOCKET=/run/s" {
		t.Errorf("a child has %q", got)
	}
}
