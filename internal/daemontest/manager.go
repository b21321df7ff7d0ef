package daemontest

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
)

// Manager is a service manager that has started this process, as systemd does for a unit of Type=notify. It hears what daemons tell.
type Manager struct {
	t    testing.TB
	mu   sync.Mutex
	said []string
}

// Managed sets the environment of a process with a manager and, unless it is 0, with a watchdog. Such a test is not parallel.
func Managed(t *testing.T, watchdog time.Duration) *Manager {
	t.Helper()
	dir, err := os.MkdirTemp("", "managed") // the name of a socket has 108 bytes at most
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("NOTIFY_SOCKET", filepath.Join(dir, "notify"))
	if watchdog > 0 {
		t.Setenv("WATCHDOG_USEC", strconv.FormatInt(watchdog.Microseconds(), 10))
	}
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	m, ended := &Manager{t: t}, make(chan struct{})
	go func() {
		defer close(ended)
		for buffer := make([]byte, 4096); ; {
			n, err := conn.Read(buffer)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			m.mu.Lock()
			m.said = append(m.said, string(buffer[:n]))
			m.mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		conn.Close()
		<-ended
		os.RemoveAll(dir)
	})
	return m
}

// Heard returns all messages, each with blanks between its lines.
func (m *Manager) Heard() (all []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, said := range m.said {
		all = append(all, strings.ReplaceAll(said, "\n", " "))
	}
	return all
}

// Await waits until a message after the first so many holds all of these parts, and returns the number of messages up to it.
func (m *Manager) Await(after int, parts ...string) (n int) {
	m.t.Helper()
	defer func() {
		if n == 0 {
			m.t.Logf("the manager hears %q", m.Heard())
		}
	}()
	redistest.Eventually(m.t, Soon, "the manager hears "+strings.Join(parts, " "), func() bool {
		for i, said := range m.Heard() {
			if i < after {
				continue
			}
			holds := true
			for _, p := range parts {
				holds = holds && strings.Contains(said, p)
			}
			if holds {
				n = i + 1
				return true
			}
		}
		return false
	})
	return n
}

// Count returns how many messages hold a part.
func (m *Manager) Count(part string) (n int) {
	for _, said := range m.Heard() {
		if strings.Contains(said, part) {
			n++
		}
	}
	return n
}
