package terminal

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/goworker/goworker/internal/redistest"
)

// At 80×24 and 200×50 status --watch fills the screen, follows what changes, a resize, and a Redis that is away and comes back. Ctrl-C
// restores the screen and the terminal.
func TestWatch(t *testing.T) {
	t.Parallel()
	for _, size := range []struct{ columns, lines, otherColumns, otherLines int }{{80, 24, 200, 50}, {200, 50, 80, 24}} {
		t.Run(fmt.Sprintf("%dx%d", size.columns, size.lines), func(t *testing.T) {
			t.Parallel()
			s := many(t)
			x := open(t, size.columns, size.lines, s.URI())
			title := x.ask("#{pane_title}")
			x.line("echo before the watch")
			x.shows(`(?m)^before the watch`)
			x.line("goworker status --watch=300ms; echo it ended with $?")
			x.shows(`(?m)^queue-00 +1 `)
			x.until("it fills the screen", func(screen string) bool { return fills(screen, size.lines) }) // a frame may be half drawn
			if x.ask("#{alternate_on}") != "1" {
				t.Error("it draws over what was on the screen")
			}

			s.Do(t, "RPUSH", "resque:queue:queue-00", `{"class":"A","args":[]}`, `{"class":"A","args":[]}`)
			x.shows(`(?m)^queue-00 +3 `)

			x.tmux("resize-window", "-x", fmt.Sprint(size.otherColumns), "-y", fmt.Sprint(size.otherLines))
			x.until("it fills the other size", func(screen string) bool { return fills(screen, size.otherLines) })
			x.tmux("resize-window", "-x", "40", "-y", "10")
			x.until("it fits a small one", func(screen string) bool {
				return strings.Count(screen, "\n") == 10 && strings.Contains(screen, "QUEUE") && strings.Contains(screen, "q quit")
			})
			x.tmux("resize-window", "-x", fmt.Sprint(size.columns), "-y", fmt.Sprint(size.lines))
			x.until("it fills the first size again", func(screen string) bool { return fills(screen, size.lines) })

			s.Pause()
			x.until("it says that Redis is silent", func(screen string) bool {
				flat := strings.Join(strings.Fields(screen), " ")
				return strings.Contains(flat, "! Redis has not answered for ") && strings.Contains(flat, "; the numbers are those of 20")
			})
			s.Resume()
			x.until("it goes on", func(screen string) bool { return !strings.Contains(screen, "has not answered") })

			s.Kill()
			away := regexp.MustCompile(`(?m)^! .*(nothing listens|connection|no answer|EOF)`)
			x.until("it says so, beside the last sample", func(screen string) bool { return away.MatchString(screen) && strings.Contains(screen, "queue-00") })
			s.Restart(t)
			s.Do(t, "SADD", "resque:queues", "a-new-one")
			x.until("it goes on", func(screen string) bool {
				return strings.Contains(screen, "\na-new-one") && !strings.Contains(screen, "nothing listens")
			})

			x.key("C-c")
			after := x.shows(`(?m)^it ended with 130`)
			if !strings.Contains(after, "before the watch") || strings.Contains(after, "queue-00") {
				t.Errorf("the screen was not restored:\n%s", after)
			}
			restored(x)
			if now := x.ask("#{pane_title}"); now != title {
				t.Errorf("a name has changed the title of the terminal from %q to %q", title, now)
			}
		})
	}
}

// fills reports whether a frame has the whole screen: its first line has numbers, and its last one the keys.
func fills(screen string, lines int) bool {
	all := strings.Split(strings.TrimSuffix(screen, "\n"), "\n")
	if len(all) != lines || !strings.Contains(screen, "OLDEST") {
		return false
	}
	last := strings.TrimRight(strings.Join(all[lines-2:], "\n"), "\n ")
	return strings.HasSuffix(last, "q quit") && strings.TrimSpace(all[0]) != ""
}

// restored fails where the terminal is not as a shell wants it.
func restored(x *terminal) {
	x.t.Helper()
	if got := x.ask("#{alternate_on} #{cursor_flag} #{mouse_any_flag}"); got != "0 1 0" {
		x.t.Errorf("alternate screen, cursor and mouse are %s", got)
	}
	x.line("stty -a | tr ' ' '\\n' | grep -cxE 'icanon;?|echo;?|isig;?'")
	x.shows(`(?m)^3$`)
}

// The keys choose, filter, sort, peek and pause, and a pause asks before.
func TestKeys(t *testing.T) {
	t.Parallel()
	s := many(t)
	for range 8 {
		s.Do(t, "RPUSH", "resque:queue:queue-17", `{"class":"Seventeen","args":["\u001b[2J"]}`)
	}
	x := open(t, 100, 30, s.URI())
	x.line("goworker status --watch=300ms; echo it ended with $?")
	x.shows(`(?m)^queue-00 `)
	x.key("w")
	x.shows(`OLDEST.*\nqueue-17 +9 `)
	x.key("?")
	x.shows(`any key goes back`)
	x.key("x")
	x.tmux("send-keys", "-l", "/queue-17")
	x.shows(`/queue-17`)
	x.until("only that queue is there", func(screen string) bool { return !regexp.MustCompile(`(?m)^queue-40`).MatchString(screen) })
	x.key("Enter", "Down", "Enter")
	x.shows(`Seventeen\("\\u001b\[2J"\)`)
	x.key("Escape")
	x.shows(`OLDEST`)

	x.key("p")
	x.shows(`Pause the queue queue-17 in the whole fleet\? \[y/N\]`)
	x.key("n")
	x.shows(`q quit`)
	if n := s.Int(t, "SCARD", "resque:go:paused"); n != 0 {
		t.Fatalf("%d queues are paused without a yes", n)
	}
	x.key("p")
	x.shows(`Pause the queue queue-17`)
	x.key("y")
	x.shows(`queue-17  \(paused\)`)
	if paused := s.List(t, "SMEMBERS", "resque:go:paused"); len(paused) != 1 || paused[0] != "queue-17" {
		t.Fatalf("paused are %q", paused)
	}
	x.key("p")
	x.shows(`Resume the queue queue-17\? \[y/N\]`)
	x.key("y")
	x.until("it is not paused", func(screen string) bool { return !strings.Contains(screen, "(paused)") })

	// Keys that come at once are obeyed one by one.
	x.tmux("send-keys", "-l", "?xnq")
	x.shows(`(?m)^it ended with 0`)
	restored(x)
}

// With --read-only the watch pauses nothing.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	s := many(t)
	x := open(t, 80, 24, s.URI())
	x.line("GOWORKER_READ_ONLY=1 goworker status --watch=300ms")
	x.shows(`(?m)^queue-00 `)
	x.key("Down", "p")
	x.shows(`forbids changes`)
	x.key("q")
}

// Where Redis is away from the beginning the watch says so, goes on trying, and shows what there is once it is back. A signal restores the
// screen as Ctrl-C does.
func TestWatchBeginsWithoutRedis(t *testing.T) {
	t.Parallel()
	s := many(t)
	s.Kill()
	x := open(t, 80, 24, s.URI())
	x.line("sh -c 'echo $$ >pid; exec goworker status --watch=300ms'; echo it ended with $?")
	x.shows(`nothing listens at`)
	s.Restart(t)
	s.Do(t, "SADD", "resque:queues", "back-again")
	x.shows(`(?m)^back-again `)
	x.tmux("run-shell", "kill -TERM $(cat "+x.ask("#{pane_current_path}")+"/pid)")
	x.shows(`(?m)^it ended with 130`)
	restored(x)
	os.Remove(x.ask("#{pane_current_path}") + "/pid")
}

// A shot of status on a terminal has the terminal's width, and looks twice.
func TestShot(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	s.Do(t, "SADD", "resque:queues", "mail", strings.Repeat("x", 120))
	for _, columns := range []int{80, 200} {
		x := open(t, columns, 50, s.URI())
		x.line("goworker status --sample=100ms; echo it ended with $?")
		screen := x.shows(`(?m)^it ended with 0`)
		for line := range strings.SplitSeq(screen, "\n") {
			if columns == 200 && strings.HasPrefix(line, strings.Repeat("x", 120)) {
				return
			}
			if strings.HasPrefix(line, "xxx") && !strings.Contains(line, "…") {
				t.Errorf("%d columns: %q", columns, line)
			}
		}
	}
	t.Error("200 columns have no room for a name of 120")
}

// A command that draws nothing sends the terminal nothing but its text: it does not ask for colours, which can take seconds.
func TestNothingIsAsked(t *testing.T) {
	t.Parallel()
	run := exec.CommandContext(t.Context(), "script", "-qec", binary+" version", "/dev/null")
	run.Env = append(os.Environ(), "TERM=xterm-256color", "CI=")
	out, err := run.CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "goworker ") || strings.Contains(string(out), "\x1b") {
		t.Errorf("%q, %v", out, err)
	}
}
