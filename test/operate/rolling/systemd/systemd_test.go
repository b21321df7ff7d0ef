package systemd_test

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/test/operate/rolling/systemd"
)

// TestMain is a service too, where an argument says what it does.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && strings.HasPrefix(os.Args[1], "do:") {
		serve(os.Args[1:])
		return
	}
	redistest.Main(m)
}

func serve(args []string) {
	tell := func(line string) {
		c, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
		if err != nil {
			panic(err)
		}
		defer c.Close()
		fmt.Fprint(c, line)
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGTERM)
	credential, _ := os.ReadFile(filepath.Join(os.Getenv("CREDENTIALS_DIRECTORY"), "secret"))
	fmt.Printf("%q in %q has %q\n", args[1:], os.Getenv("COLOUR"), credential)
	if args[0] == "do:fail" {
		os.Exit(3)
	}
	tell("READY=1")
	if args[0] == "do:hang" {
		select {}
	}
	<-signals
	tell("STOPPING=1")
	if args[0] == "do:drag" {
		tell("EXTEND_TIMEOUT_USEC=100000\nSTATUS=nearly")
		select {}
	}
}

// unit makes a service of lines of a unit. Its program is this one.
func unit(t *testing.T, lines ...string) (*systemd.Service, *bytes.Buffer) {
	t.Helper()
	root := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(root, "program")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(root, "etc", "secret"), "sesame")
	u, err := systemd.Read(write(t, filepath.Join(root, "a.service"), "[Service]\nType=notify\n"+strings.Join(lines, "\n")))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	s, err := systemd.New(u, "7", root, &log)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s, &log
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestRead(t *testing.T) {
	t.Parallel()
	first := write(t, filepath.Join(t.TempDir(), "a.service"), `# a comment
[Unit]
Description=A=B
[Service]
Type=notify
ExecStart=/bin/a "two words" \
   last
Environment=A=1 'B=2 3'
TimeoutStopSec=1min 30s
WatchdogSec=30
`)
	u, err := systemd.Read(first, write(t, filepath.Join(t.TempDir(), "b.conf"), "[Service]\nExecStart=\nExecStart=/bin/b\nEnvironment=C=%i\n"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(u.Exec, []string{"/bin/b"}) || !slices.Equal(u.Environment, []string{"A=1", "B=2 3", "C=%i"}) || u.StopTimeout != 90*time.Second || u.Watchdog != 30*time.Second {
		t.Errorf("the unit is %+v", u)
	}
	_, err = systemd.Read(write(t, filepath.Join(t.TempDir(), "c.service"), "[Service]\nType=simple\nExecStart=/a\nExecStart=/b\nMemorySwapMax=0\nRestartSec=soon\nLoadCredential=a\nnothing\n"))
	if err == nil {
		t.Fatal("a unit with six mistakes is read")
	}
	for _, want := range []string{"c.service:2: ", "c.service:4: ", "c.service:5: Service.MemorySwapMax", "c.service:6: ", "c.service:7: ", "c.service:8: "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	s, log := unit(t, "ExecStart=/program do:serve %i ${COLOUR}", "Environment=COLOUR=red", "LoadCredential=secret:/etc/secret", "KillMode=mixed", "Restart=always", "RestartSec=10ms")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
	pid := s.PID()
	s.Signal(syscall.SIGKILL)
	redistest.Eventually(t, 10*time.Second, "it is started again", func() bool { now := s.PID(); return now != 0 && now != pid && s.Ready(now) == nil })
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	want := []string{"started", "ready", "stop", "stopping", "ended: exit status 0", "started", "ready", "ended: signal: killed", "restarted", "started", "ready",
		"stop", "stopping", "ended: exit status 0"}
	if got := s.Happened(); !slices.Equal(got, want) {
		t.Errorf("it happened %q", got)
	}
	if got := log.String(); got != strings.Repeat("[\"7\" \"red\"] in \"red\" has \"sesame\"\n", 3) {
		t.Errorf("the program wrote %s", got)
	}
}

func TestBadPrograms(t *testing.T) {
	t.Parallel()
	s, _ := unit(t, "ExecStart=/program do:fail")
	if err := s.Start(); err == nil || !strings.Contains(err.Error(), "ended before it was ready") {
		t.Errorf("a program that fails: %v", err)
	}

	s, _ = unit(t, "ExecStart=/program do:drag", "TimeoutStopSec=20ms")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "was killed") {
		t.Errorf("a program that does not end: %v", err)
	}

	s, _ = unit(t, "ExecStart=/program do:hang", "WatchdogSec=50ms", "Restart=on-failure", "RestartSec=10ms")
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, 10*time.Second, "the watchdog ends it, and it is started again", func() bool {
		happened := s.Happened()
		return slices.Contains(happened, "aborted after 50ms") && slices.Contains(happened, "restarted")
	})
}
