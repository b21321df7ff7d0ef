package config_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// worker is a program that runs with a file.
type worker struct {
	t     *testing.T
	redis *redistest.Server
	file  string
	cmd   *exec.Cmd
	out   *daemontest.SafeBuffer
}

func startWorker(t *testing.T, text string, env ...string) *worker {
	t.Helper()
	w := &worker{t: t, redis: redistest.Start(t), file: filepath.Join(t.TempDir(), "worker.yaml"), out: new(daemontest.SafeBuffer)}
	w.write(text)
	w.cmd = exec.Command(os.Args[0], "-config", w.file)
	w.cmd.Env = append(append(os.Environ(), programVariable+"=1"), env...)
	w.cmd.Stdout, w.cmd.Stderr = w.out, w.out
	if err := w.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := sync.OnceValue(w.cmd.Wait)
	t.Cleanup(func() {
		_ = w.cmd.Process.Signal(syscall.SIGTERM)
		if err := ended(); err != nil {
			t.Errorf("the program ended with %v:\n%s", err, w.out)
		}
	})
	w.awaits("ready\n")
	return w
}

// write writes the file; URI stands for that of the Redis.
func (w *worker) write(text string) {
	w.t.Helper()
	if err := os.WriteFile(w.file, []byte(strings.ReplaceAll(text, "URI", w.redis.URI())), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// reload writes the file and sends SIGHUP.
func (w *worker) reload(text string) {
	w.t.Helper()
	w.write(text)
	if err := w.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		w.t.Fatal(err)
	}
}

// awaits waits until the program has written all of these.
func (w *worker) awaits(texts ...string) {
	w.t.Helper()
	for _, text := range texts {
		redistest.Eventually(w.t, daemontest.Soon, text, func() bool {
			return strings.Contains(w.out.String(), text)
		})
		if w.t.Failed() {
			w.t.Fatal(w.out)
		}
	}
}

func (w *worker) push(queue, payload string) {
	w.t.Helper()
	w.redis.Do(w.t, "SADD", "resque:queues", queue)
	w.redis.Do(w.t, "RPUSH", "resque:queue:"+queue, payload)
}

// A signal with a mistake in the file changes nothing and says the line. A program's section arrives, also after a reload.
func TestHangUp(t *testing.T) {
	t.Parallel()
	w := startWorker(t, `uri: URI
queues: [work]
concurrency: 2
billing:
  rate: 5
  timeout: 1m30s
  key: k1
`)
	w.push("work", `{"class":"Charge","args":[]}`)
	w.awaits("charged at 5 within 1m30s by k1\n")

	w.reload(`uri: URI
queues: [work, more]
concurrency: many
biling: {rate: 7}
billing:
  rate: 101
`)
	w.awaits(`mistake="`+w.file+`:3:14: concurrency is \"many\"`, `mistake="`+w.file+`:4:1: unknown key biling; did you mean billing?"`,
		`mistake="`+w.file+`:6:3: billing: the rate is 101, and the bank takes 100"`)
	w.push("work", `{"class":"Charge","args":[]}`)
	redistest.Eventually(t, daemontest.Soon, "the second charge", func() bool { return strings.Count(w.out.String(), "charged at 5 ") == 2 })
	w.push("work", `{"class":"Isolated","args":[]}`) // its process reads what was accepted, not the broken file
	w.awaits("isolated at 5\n")
	if strings.Contains(w.out.String(), "configuration reloaded") || strings.Contains(w.out.String(), "changed from") {
		t.Errorf("a file with mistakes changed something:\n%s", w.out)
	}

	w.reload(`uri: URI
namespace: other
queues: [work, more]
concurrency: 3
log-level: debug
classes:
  Slow: {timeout: 10ms}
billing: {rate: 9, timeout: 2s}
`)
	w.awaits("changed from 5 to 9\n", "configuration reloaded", "queues work → work,more", "concurrency 2 → 3", "log-level info → debug",
		"classes.Slow.timeout as registered → 10ms", `needs_restart="namespace resque: → other:"`)
	w.push("more", `{"class":"Charge","args":[]}`)
	w.awaits("charged at 9 within 2s by \n")
	w.push("more", `{"class":"Slow","args":[]}`)
	w.awaits("context deadline exceeded")
	w.push("more", `{"class":"Isolated","args":[]}`)
	w.awaits("isolated at 9\n")
	redistest.Eventually(t, daemontest.Soon, "three workers are registered", func() bool { return len(w.redis.List(t, "SMEMBERS", "resque:workers")) == 3 })
}

// A child that is kept knows the file of its start. After a reload the next job has a new one, and after a signal that changes
// nothing it goes on.
func TestHangUpOfAKeptChild(t *testing.T) {
	t.Parallel()
	if runtime.GOOS != "linux" {
		t.Skip("no child is kept here")
	}
	const file = "uri: URI\nqueues: [work]\nconcurrency: 1\nbilling: {rate: %s}\n"
	w := startWorker(t, fmt.Sprintf(file, "5"))
	ran := func(n, rate int) (pid string) {
		w.push("work", `{"class":"Kept","args":[]}`)
		var lines [][]string
		redistest.Eventually(t, daemontest.Soon, "the job is done", func() bool {
			lines = regexp.MustCompile(`(?m)^kept at (\d+) in (\d+)\n`).FindAllStringSubmatch(w.out.String(), -1)
			return len(lines) == n && w.redis.Int(t, "GET", "resque:stat:processed") == n
		})
		if t.Failed() {
			t.Fatal(w.out)
		}
		if last := lines[n-1]; last[1] != fmt.Sprint(rate) {
			t.Errorf("job %d ran with the rate %s, want %d", n, last[1], rate)
		}
		return lines[n-1][2]
	}
	first := ran(1, 5)
	if next := ran(2, 5); next != first {
		t.Errorf("the jobs before the reload ran in %s and %s", first, next)
	}
	w.reload(fmt.Sprintf(file, "101"))
	w.awaits("the bank takes 100")
	if next := ran(3, 5); next != first {
		t.Errorf("after a file with a mistake the child %s does not go on", first)
	}
	w.reload(fmt.Sprintf(file, "9"))
	w.awaits("configuration reloaded")
	second := ran(4, 9)
	if second == first {
		t.Errorf("the child %s goes on after the reload", first)
	}
	if next := ran(5, 9); next != second {
		t.Errorf("the jobs after the reload ran in %s and %s", second, next)
	}
}
