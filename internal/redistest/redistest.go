// Package redistest runs a real redis-server for a test and looks into it:
// what is stored, which commands were sent, and what Ruby Resque sent and left
// behind in the same situation.
//
// A server costs a test a few milliseconds, so each test starts its own and
// runs in parallel with the others.
package redistest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// startLimit is generous because a loaded machine is no reason to fail.
	startLimit = time.Minute
	// portTries bounds how often a port that another process took is replaced.
	portTries = 50
)

// Server is a running redis-server. Several goroutines may call its methods,
// except that methods which take a testing.TB belong to the test's
// own, as always with testing.TB.
type Server struct {
	Addr string // host:port of the TCP listener
	Dir  string // working directory: socket, log, and data if it keeps any

	binary   string
	port     int
	ca       *Authority // if the one port speaks TLS
	sentinel string     // the configuration of a Sentinel; a server for data has none
	args     []string
	password string
	login    string // user and password for the URI, or nothing

	mu      sync.Mutex // guards process
	process *os.Process
}

// Start runs a redis-server on a free loopback port, in a temporary directory
// of its own, and returns when it answers. It keeps nothing on disk unless args
// say so: they follow on the command line and win, for instance
// "--appendonly", "yes", or "--port", "0", "--tls-port", "…" for a server that
// speaks only TLS. The test's end stops it.
//
// The program is redis-server from the PATH, or the one REDIS_SERVER names.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s := &Server{args: args}
	if asMinimalUser() {
		s.login = "minimal:" + ACLPassword + "@"
		s.args = append(minimalUsers(t), args...)
	}
	return launch(t, s)
}

// launch finds a place for a server and starts it there.
func launch(t testing.TB, s *Server) *Server {
	t.Helper()
	binary := os.Getenv("REDIS_SERVER")
	if binary == "" {
		binary = "redis-server"
	}
	if _, err := exec.LookPath(binary); err != nil {
		t.Fatalf("redistest: the program %s was not found (%v); install Redis or name the program in REDIS_SERVER", binary, err)
	}
	// Not t.TempDir: with a long test name the socket's path would pass the
	// system's limit of about a hundred bytes.
	dir, err := os.MkdirTemp(parent(), "redis")
	if err != nil {
		t.Fatalf("redistest: no temporary directory for redis-server: %v", err)
	}
	s.Dir, s.binary = dir, binary
	for i, a := range s.args {
		if a == "--requirepass" && i+1 < len(s.args) {
			s.password = s.args[i+1]
		}
	}
	t.Cleanup(func() {
		s.Kill()
		_ = os.RemoveAll(dir)
	})
	for range portTries {
		s.port = FreePort(t)
		s.Addr = net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port))
		if err = s.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return s
}

// parent is the directory of the servers' directories: in memory if there is plenty, else ""
// (the system's place for temporary files). The tests are about what a killed server leaves to
// the system. A disk that other programs keep busy can delay a server by seconds if it syncs
// each write.
func parent() string {
	const memory, plenty = "/dev/shm", 2 << 30
	var s syscall.Statfs_t
	if err := syscall.Statfs(memory, &s); err != nil || uint64(s.Bavail)*uint64(s.Bsize) < plenty {
		return ""
	}
	return memory
}

// FreePort returns a loopback port on which no process listens now. It is below
// the range systems give to outgoing connections, and so is the port of a
// cluster's bus, 10000 above it. So a server that is down for a moment finds both
// free afterwards, and an address that is to be dead stays so: no other server of
// this program gets the port, and none of another program of tests before the
// test ends.
func FreePort(t testing.TB) int {
	t.Helper()
	for range portTries {
		port := lowestPort + rand.IntN(10000)
		if _, given := portsGiven.LoadOrStore(port, true); given || !reserve(t, port) {
			continue
		}
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			_ = l.Close()
			return port
		}
	}
	t.Fatalf("redistest: none of %d ports between %d and %d was free on 127.0.0.1", portTries, lowestPort, lowestPort+9999)
	return 0
}

const lowestPort = 10000

var portsGiven sync.Map

// reserve keeps a port from the other programs of tests on this machine, until the test ends, by a socket that has a name and no file. Several
// programs run at a time, and each starts a few servers a second.
func reserve(t testing.TB, port int) bool {
	if runtime.GOOS != "linux" {
		return true
	}
	l, err := net.Listen("unix", "@goworker-redistest-"+strconv.Itoa(port))
	if err != nil {
		return false
	}
	t.Cleanup(func() { _ = l.Close() })
	return true
}

var errPortTaken = errors.New("the port was taken")

// start runs the process and waits until it answers.
func (s *Server) start() error {
	log, err := os.Create(s.logPath())
	if err != nil {
		return fmt.Errorf("no log file for redis-server: %w", err)
	}
	defer log.Close()
	_ = os.Remove(s.Socket())

	args := []string{
		"--port", strconv.Itoa(s.port), "--bind", "127.0.0.1", "--unixsocket", s.Socket(), "--dir", s.Dir,
		"--daemonize", "no", "--loglevel", "warning",
	}
	if s.ca != nil {
		args[1] = "0"
		args = append(append(args, s.ca.Args(s.port, "server", "yes")...), "--tls-replication", "yes", "--tls-cluster", "yes")
	}
	if s.sentinel == "" {
		args = append(args, "--save", "", "--appendonly", "no")
	} else {
		// A file, because a Sentinel writes into it what it learns.
		file := filepath.Join(s.Dir, "sentinel.conf")
		if err := os.WriteFile(file, []byte(s.sentinel), 0o600); err != nil {
			return fmt.Errorf("no configuration for a Sentinel: %w", err)
		}
		args = append([]string{file, "--sentinel"}, args...)
	}
	// A log that is a file, not a buffer, needs no goroutine to copy it. A leak check
	// during a test would find that goroutine.
	cmd := exec.Command(s.binary, append(args, s.args...)...)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("%s did not start: %w", s.binary, err)
	}
	s.mu.Lock()
	s.process = cmd.Process
	s.mu.Unlock()

	for deadline := time.Now().Add(startLimit); ; time.Sleep(time.Millisecond) {
		if s.answers() {
			return nil
		}
		var status syscall.WaitStatus
		pid, _ := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil)
		if pid != cmd.Process.Pid && time.Now().Before(deadline) {
			continue
		}
		s.Kill()
		text := s.Log()
		if strings.Contains(text, "Address already in use") {
			return fmt.Errorf("redis-server cannot listen on %s: %w", s.Addr, errPortTaken)
		}
		return fmt.Errorf("redis-server did not come up on %s; its log:\n%s", s.Addr, text)
	}
}

// answers reports whether the server has loaded its data and serves. A demand for a
// password is an answer too.
func (s *Server) answers() bool {
	c, err := redis.Dial("unix", s.Socket(), redis.DialConnectTimeout(time.Second), redis.DialReadTimeout(time.Second))
	if err != nil {
		return false
	}
	defer c.Close()
	_, err = c.Do("PING")
	if err == nil {
		return true
	}
	var refusal redis.Error
	return errors.As(err, &refusal) && !strings.HasPrefix(string(refusal), "LOADING")
}

// URI is the server's address as a setting, without the password. With REDISTEST_ACL
// in the environment it is that of the user with the least permissions.
func (s *Server) URI() string { return "redis://" + s.login + s.Addr }

// OperatorsURI is the URI for what operators do: with REDISTEST_ACL that of the user operator of docs/redis.md.
func (s *Server) OperatorsURI() string {
	return strings.Replace(s.URI(), "minimal:", "operating:", 1)
}

// Shown is the URI as errors and logs show it.
func (s *Server) Shown() string {
	return strings.Replace(s.URI(), ":"+ACLPassword+"@", ":***@", 1)
}

// Socket is the path of the Unix socket, on which the server always listens too.
func (s *Server) Socket() string { return filepath.Join(s.Dir, "redis.sock") }

// Log is what the server has written since it was started last.
func (s *Server) Log() string {
	text, err := os.ReadFile(s.logPath())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func (s *Server) logPath() string { return filepath.Join(s.Dir, "redis.log") }

// Kill ends the server as a crash would. It returns when the process is gone,
// and does nothing if it is already.
func (s *Server) Kill() { s.end(syscall.SIGKILL) }

// Stop ends the server as an operator would: it may save its data first, if it
// keeps any. It does nothing if the server is down. A paused server has to be
// resumed first.
func (s *Server) Stop() { s.end(syscall.SIGTERM) }

func (s *Server) end(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process == nil {
		return
	}
	_ = s.process.Signal(sig)
	_, _ = s.process.Wait()
	s.process = nil
}

// Restart kills the server if it runs and starts it on the same port and
// directory. It has its data again only if it keeps any on disk.
func (s *Server) Restart(t testing.TB) {
	t.Helper()
	s.Kill()
	if err := s.cutAppendOnlyFile(); err != nil {
		t.Fatalf("redistest: restart: %v", err)
	}
	deadline := time.Now().Add(startLimit)
	err := s.start()
	for errors.Is(err, errPortTaken) && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
		err = s.start()
	}
	if err != nil {
		t.Fatalf("redistest: restart: %v", err)
	}
}

// cutAppendOnlyFile removes a transaction from the end of the file that the server did
// not write completely. Redis 7.0 by itself leaves its first commands there when it starts
// and runs them at the next start, with those written since: it then takes from a
// list twice. docs/redis.md says what operators do about that.
func (s *Server) cutAppendOnlyFile() error {
	manifest := filepath.Join(s.Dir, "appendonlydir", "appendonly.aof.manifest")
	if _, err := os.Stat(manifest); err != nil {
		return nil // it keeps nothing, or in another place
	}
	check := exec.Command(strings.Replace(s.binary, "-server", "-check-aof", 1), "--fix", manifest)
	check.Stdin = strings.NewReader("y\n")
	if out, err := check.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", check, err, out)
	}
	return nil
}

// Pause stops the process without ending it: connections stay open and get no
// answers, as when a machine stalls. After Resume it serves everything that
// has arrived meanwhile.
func (s *Server) Pause() { s.signal(syscall.SIGSTOP) }

// Resume ends a Pause.
func (s *Server) Resume() { s.signal(syscall.SIGCONT) }

func (s *Server) signal(sig os.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		_ = s.process.Signal(sig)
	}
}
