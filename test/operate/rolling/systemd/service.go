package systemd

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Service runs one program by a unit. Its methods are safe for concurrent use; Start, Stop and Restart are called by one goroutine at a time.
type Service struct {
	unit     *Unit
	instance string
	root     string // where the paths of the unit begin
	log      io.Writer
	run      string // has the socket and the credentials
	socket   *net.UnixConn
	reader   chan struct{} // closed when the socket is read no more

	mu       sync.Mutex
	current  *life
	stopping bool
	again    *time.Timer // starts the program again
	closed   bool
	happened []string
}

// life is one process of a service. All fields but cmd and the channels are guarded by the service's mu.
type life struct {
	cmd      *exec.Cmd
	ready    chan struct{} // closed by READY=1
	ended    chan struct{}
	heard    chan struct{} // closed when all that it said was read
	isReady  bool
	stops    bool        // it said STOPPING=1
	deadline *time.Timer // kills it: the watchdog's, or that of a stop
	until    time.Time   // when its stop must be over
	beats    int         // of the watchdog
	killed   bool        // its stop took too long
	err      error       // of its end
}

// New makes a service of a unit, whose paths begin at root. What the program writes goes to log. Close ends it.
func New(u *Unit, instance, root string, log io.Writer) (*Service, error) {
	run, err := os.MkdirTemp("", "unit") // the name of a socket has 108 bytes at most
	if err != nil {
		return nil, err
	}
	socket, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(run, "notify"), Net: "unixgram"})
	if err != nil {
		os.RemoveAll(run)
		return nil, err
	}
	s := &Service{unit: u, instance: instance, root: root, log: log, run: run, socket: socket, reader: make(chan struct{})}
	go s.hear()
	return s, nil
}

// Reload gives the service another unit, for the next start: daemon-reload.
func (s *Service) Reload(u *Unit) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.unit = u
}

// Start starts the program, and returns when it has said that it is ready.
func (s *Service) Start() error {
	s.mu.Lock()
	s.stopping = false
	l, err := s.begin()
	s.mu.Unlock()
	if err != nil {
		return err
	}
	return s.Ready(l.cmd.Process.Pid)
}

// Ready waits until the process has said that it is ready.
func (s *Service) Ready(pid int) error {
	s.mu.Lock()
	l, timeout := s.current, s.unit.StartTimeout
	s.mu.Unlock()
	if l == nil || l.cmd.Process.Pid != pid {
		return fmt.Errorf("%s: process %d is not there", s.instance, pid)
	}
	select {
	case <-l.ready:
		return nil
	case <-l.ended:
		return fmt.Errorf("%s: the program ended before it was ready: %v", s.instance, l.err)
	case <-time.After(timeout):
		return fmt.Errorf("%s: the program was not ready within %v", s.instance, timeout)
	}
}

// begin starts a process. mu is locked.
func (s *Service) begin() (*life, error) {
	if s.closed || s.current != nil {
		return nil, fmt.Errorf("%s: it runs, or is closed", s.instance)
	}
	credentials := filepath.Join(s.run, "credentials")
	if err := errors.Join(os.RemoveAll(credentials), os.Mkdir(credentials, 0o700)); err != nil {
		return nil, err
	}
	env := map[string]string{
		"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin", "LANG": "C.UTF-8", "NOTIFY_SOCKET": filepath.Join(s.run, "notify"),
		"INVOCATION_ID": strings.Repeat("0", 32),
	}
	if s.unit.Watchdog > 0 {
		env["WATCHDOG_USEC"] = strconv.FormatInt(s.unit.Watchdog.Microseconds(), 10)
	}
	for name, path := range s.unit.Credentials {
		data, err := os.ReadFile(filepath.Join(s.root, path))
		if err == nil {
			err = os.WriteFile(filepath.Join(credentials, name), data, 0o400)
		}
		if err != nil {
			return nil, err
		}
		env["CREDENTIALS_DIRECTORY"] = credentials
	}
	for _, word := range s.unit.Environment {
		word, err := expand(word, s.instance, credentials, nil)
		if err != nil {
			return nil, err
		}
		name, value, _ := strings.Cut(word, "=")
		env[name] = value
	}
	var args []string
	for _, word := range s.unit.Exec {
		word, err := expand(word, s.instance, credentials, env)
		if err != nil {
			return nil, err
		}
		args = append(args, word)
	}
	l := &life{cmd: exec.Command(filepath.Join(s.root, args[0]), args[1:]...), ready: make(chan struct{}), ended: make(chan struct{}), heard: make(chan struct{})}
	l.cmd.Dir, l.cmd.Stdout, l.cmd.Stderr = "/", s.log, s.log
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for name, value := range env {
		l.cmd.Env = append(l.cmd.Env, name+"="+value)
	}
	// WATCHDOG_PID is left out: it is that of a process that is not there yet. The program then takes it for itself.
	if err := l.cmd.Start(); err != nil {
		return nil, err
	}
	s.current = l
	s.note("started")
	go s.wait(l)
	return l, nil
}

// wait waits until a process ends, and does what the unit says of that.
func (s *Service) wait(l *life) {
	err := l.cmd.Wait()
	s.hearOut(l)
	s.mu.Lock()
	defer s.mu.Unlock()
	if l.deadline != nil {
		l.deadline.Stop()
	}
	l.err = err
	s.current = nil
	_ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL) // what is left of its group, as systemd does
	s.note("ended: %v", l.cmd.ProcessState)
	close(l.ended)
	if s.stopping || s.closed || s.unit.Restart == "no" || s.unit.Restart == "on-failure" && err == nil {
		return
	}
	s.again = time.AfterFunc(s.unit.RestartAfter, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.stopping || s.closed || s.current != nil {
			return
		}
		s.note("restarted")
		if _, err := s.begin(); err != nil {
			s.note("cannot start: %v", err)
		}
	})
}

// Stop ends the program as the unit says, and returns when it has ended. The error says that it had to be killed, or that it ended by an error.
func (s *Service) Stop() error {
	s.mu.Lock()
	s.stopping = true
	l := s.current
	if l == nil {
		s.mu.Unlock()
		return nil
	}
	s.note("stop")
	l.until = time.Now().Add(s.unit.StopTimeout)
	s.kill(l, s.unit.StopTimeout, func() { l.killed = true }, syscall.SIGKILL)
	target := l.cmd.Process.Pid
	if !s.unit.Mixed {
		target = -target
	}
	err := syscall.Kill(target, s.unit.Signal)
	s.mu.Unlock()
	if err != nil {
		return err
	}
	<-l.ended
	switch {
	case l.killed:
		return fmt.Errorf("%s: the program did not end within %v, and was killed", s.instance, s.unit.StopTimeout)
	case !l.stops:
		return fmt.Errorf("%s: the program did not say STOPPING=1", s.instance)
	}
	return l.err
}

// Restart is Stop and Start.
func (s *Service) Restart() error {
	if err := s.Stop(); err != nil {
		return err
	}
	return s.Start()
}

// Signal sends a signal to the program and nothing else: a test's own attack.
func (s *Service) Signal(sig syscall.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current != nil {
		_ = s.current.cmd.Process.Signal(sig)
	}
}

// PID returns the process of the program; 0: none runs.
func (s *Service) PID() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return 0
	}
	return s.current.cmd.Process.Pid
}

// Happened returns what has happened, in order.
func (s *Service) Happened() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.happened)
}

// Close kills what runs.
func (s *Service) Close() {
	s.mu.Lock()
	s.closed = true
	if s.again != nil {
		s.again.Stop()
	}
	l := s.current
	if l != nil {
		_ = syscall.Kill(-l.cmd.Process.Pid, syscall.SIGKILL)
	}
	s.mu.Unlock()
	if l != nil {
		<-l.ended
	}
	s.socket.Close()
	<-s.reader
	os.RemoveAll(s.run)
}

// kill sends a signal to the group of a process unless it ends, or tells the manager to wait, within a time. mu is locked.
func (s *Service) kill(l *life, after time.Duration, noted func(), sig syscall.Signal) {
	if l.deadline != nil {
		l.deadline.Stop()
	}
	l.deadline = time.AfterFunc(after, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.current == l {
			noted()
			s.note("%v after %v", sig, after)
			_ = syscall.Kill(-l.cmd.Process.Pid, sig)
		}
	})
}

// allSaid is what the service says to itself behind the last word of a process that has ended.
const allSaid = "ALL_SAID"

// hearOut returns when all was read that an ended process has said: a socket keeps the order.
func (s *Service) hearOut(l *life) {
	c, err := net.Dial("unixgram", filepath.Join(s.run, "notify"))
	if err != nil {
		return
	}
	defer c.Close()
	if _, err := c.Write([]byte(allSaid)); err == nil {
		select {
		case <-l.heard:
		case <-s.reader:
		}
	}
}

// hear reads what programs say.
func (s *Service) hear() {
	defer close(s.reader)
	for buffer := make([]byte, 4096); ; {
		n, err := s.socket.Read(buffer)
		if err != nil {
			return
		}
		s.mu.Lock()
		for _, line := range strings.Split(string(buffer[:n]), "\n") {
			s.obey(line)
		}
		s.mu.Unlock()
	}
}

// obey does what one line says. mu is locked.
func (s *Service) obey(line string) {
	l := s.current
	if l == nil {
		return
	}
	name, value, _ := strings.Cut(line, "=")
	switch {
	case line == "READY=1" && !l.isReady:
		l.isReady = true
		close(l.ready)
		s.note("ready")
		s.watch(l)
	case line == allSaid:
		close(l.heard)
	case line == "STOPPING=1":
		l.stops = true
		s.note("stopping")
	case line == "WATCHDOG=1" && !s.stopping:
		l.beats++
		s.watch(l)
	case name == "EXTEND_TIMEOUT_USEC" && s.stopping:
		us, err := strconv.ParseInt(value, 10, 64)
		until := time.Now().Add(time.Duration(us) * time.Microsecond)
		if err == nil && until.After(l.until) { // it never shortens the time
			l.until = until
			s.kill(l, time.Until(until), func() { l.killed = true }, syscall.SIGKILL)
		}
	}
}

// watch gives a process the time of the watchdog. mu is locked.
func (s *Service) watch(l *life) {
	if s.unit.Watchdog > 0 && l.isReady && !s.stopping {
		s.kill(l, s.unit.Watchdog, func() {}, syscall.SIGABRT)
	}
}

func (s *Service) note(format string, args ...any) {
	s.happened = append(s.happened, fmt.Sprintf(format, args...))
}
