// Package terminal tries goworker's views in a real terminal.
package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goworker/goworker/internal/redistest"
)

// binary is the command, built from this tree.
var binary string

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "goworker")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "goworker")
	build := exec.Command("go", "build", "-ldflags=-s", "-o", binary, ".")
	build.Dir, build.Stdout, build.Stderr = filepath.Join("..", "..", "..", "cmd", "goworker"), os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building goworker:", err)
		return 1
	}
	code := m.Run()
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// terminal is a terminal of so many columns and lines, with a shell in it.
type terminal struct {
	t      *testing.T
	socket string
}

// open opens a terminal whose shell asks a Redis.
func open(t *testing.T, columns, lines int, uri string) *terminal {
	t.Helper()
	term := &terminal{t, filepath.Join(t.TempDir(), "tmux")}
	begin := term.command("new-session", "-d", "-x", fmt.Sprint(columns), "-y", fmt.Sprint(lines),
		"env", "REDIS_URL="+uri, "PATH="+filepath.Dir(binary)+":"+os.Getenv("PATH"), "HOME="+t.TempDir(), "sh")
	if out, err := begin.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Cleanup(func() { term.command("kill-server").Run() })
	term.until("the shell asks for a command", func(screen string) bool { return strings.ContainsAny(screen, "#$") })
	return term
}

func (x *terminal) command(args ...string) *exec.Cmd {
	return exec.Command("tmux", append([]string{"-S", x.socket, "-f", "/dev/null"}, args...)...)
}

func (x *terminal) tmux(args ...string) string {
	x.t.Helper()
	out, err := x.command(args...).CombinedOutput()
	if err != nil {
		x.t.Fatalf("tmux %q: %v\n%s", args, err, out)
	}
	return string(out)
}

// key presses keys, by the names that tmux has for them.
func (x *terminal) key(names ...string) {
	x.t.Helper()
	x.tmux(append([]string{"send-keys"}, names...)...)
}

// line types a line and enters it.
func (x *terminal) line(text string) {
	x.t.Helper()
	x.tmux("send-keys", "-l", text)
	x.key("Enter")
}

// screen is what the terminal shows.
func (x *terminal) screen() string {
	x.t.Helper()
	return x.tmux("capture-pane", "-p")
}

// until waits until the screen is as wanted, and returns it.
func (x *terminal) until(what string, is func(screen string) bool) (screen string) {
	x.t.Helper()
	const within = 2 * time.Minute // a busy machine is no reason to fail
	for end := time.Now().Add(within); ; time.Sleep(20 * time.Millisecond) {
		if screen = x.screen(); is(screen) {
			return screen
		}
		if time.Now().After(end) {
			x.t.Fatalf("not within %s: %s. The screen is\n%s", within, what, screen)
		}
	}
}

// shows waits until the screen matches an expression.
func (x *terminal) shows(expression string) string {
	x.t.Helper()
	is := regexp.MustCompile(expression)
	return x.until("the screen matches "+expression, is.MatchString)
}

// ask is what tmux says of the terminal.
func (x *terminal) ask(format string) string {
	x.t.Helper()
	return strings.TrimSpace(x.tmux("display-message", "-p", format))
}

// many is a Redis with queues of which some have names that want something of a terminal.
func many(t *testing.T) *redistest.Server {
	s := redistest.Start(t)
	for n := range 60 {
		name := fmt.Sprintf("queue-%02d", n)
		s.Do(t, "SADD", "resque:queues", name)
		s.Do(t, "RPUSH", "resque:queue:"+name, fmt.Sprintf(`{"class":"Job%d","args":[%d]}`, n, n))
	}
	for _, name := range []string{"\x1b]2;owned\x07title", "\x1b[2Jclear", "\u202eegnp", "long-" + strings.Repeat("x", 300), "日本語"} {
		s.Do(t, "SADD", "resque:queues", name)
		s.Do(t, "RPUSH", "resque:queue:"+name, `{"class":"\u001b[2J","args":["\u001b]2;owned\u0007"]}`)
	}
	return s
}
