package redistest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Monitor records every command that the server executes after its start.
type Monitor struct {
	server *Server
	t      testing.TB
	marks  atomic.Int64
	done   chan struct{} // closed by the reader when the connection is gone

	mu       sync.Mutex // guards the fields below: the reader writes, the test reads
	seen     chan struct{}
	marker   string
	commands [][]string
	inner    [][]string
}

// Monitor starts recording commands. The test's end stops it.
func (s *Server) Monitor(t testing.TB) *Monitor {
	t.Helper()
	c := s.dial(t)
	if _, err := c.Do("MONITOR"); err != nil {
		t.Fatalf("redistest: MONITOR: %v", err)
	}
	m := &Monitor{server: s, t: t, done: make(chan struct{})}
	go m.read(c)
	t.Cleanup(func() {
		_ = c.Close()
		<-m.done
	})
	return m
}

// Commands returns the commands of clients so far, names in upper case, those of
// this package (Do, Keys, Dump) included. Redis reports a command when
// it executes it; so every command answered before this call is there.
func (m *Monitor) Commands() [][]string {
	m.t.Helper()
	m.catchUp()
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.commands)
}

// Inner returns the commands that scripts called so far; those are not in Commands.
func (m *Monitor) Inner() [][]string {
	m.t.Helper()
	m.catchUp()
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.inner)
}

// catchUp sends a command that no other client sends and waits until Redis reports it. By then
// all earlier commands are recorded.
func (m *Monitor) catchUp() {
	m.t.Helper()
	seen := make(chan struct{})
	marker := fmt.Sprintf("redistest %p %d", m, m.marks.Add(1))
	m.mu.Lock()
	m.marker, m.seen = marker, seen
	m.mu.Unlock()
	m.server.Do(m.t, "PING", marker)
	select {
	case <-seen:
	case <-m.done:
		m.t.Fatalf("redistest: the connection that monitors %s was lost", m.server.Addr)
	}
}

func (m *Monitor) read(c redis.Conn) {
	defer close(m.done)
	for {
		line, err := redis.String(c.Receive())
		if err != nil {
			return
		}
		m.note(parseMonitor(line))
	}
}

func (m *Monitor) note(command []string, script bool) {
	if len(command) == 0 {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case len(command) == 2 && command[0] == "PING" && strings.HasPrefix(command[1], "redistest "):
		if command[1] == m.marker && m.seen != nil {
			close(m.seen)
			m.seen = nil
		}
	case script:
		m.inner = append(m.inner, command)
	default:
		m.commands = append(m.commands, command)
	}
}

// parseMonitor splits a line like
//
//	1339518083.107412 [0 127.0.0.1:60866] "set" "a" "b\x00\"c"
//
// The client is "lua" if a script called the command.
func parseMonitor(line string) (command []string, script bool) {
	_, rest, _ := strings.Cut(line, " [")
	client, rest, _ := strings.Cut(rest, `] "`)
	_, client, _ = strings.Cut(client, " ")
	rest = `"` + rest
	for {
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			break
		}
		// Redis' escapes are among Go's, hence the same parser.
		word, err := strconv.Unquote(quoted)
		if err != nil {
			break
		}
		command = append(command, word)
		rest = strings.TrimPrefix(rest[len(quoted):], " ")
	}
	if len(command) > 0 {
		command[0] = strings.ToUpper(command[0])
	}
	return command, client == "lua"
}
