//go:build unix

package isolated

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
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

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/redistest"
)

const soon = time.Minute

// bundle is a Redis, a daemon on it in this process, and what its hooks saw.
type bundle struct {
	t      *testing.T
	redis  *redistest.Server
	daemon *goworker.Daemon
	notes  string

	mu      sync.Mutex
	results []string
	errs    []error
	log     strings.Builder

	stop   func() error // ends the run and returns its error
	judged bool         // the test looks at that error itself
}

func setup(t *testing.T, change ...func(*goworker.WorkerSettings)) *bundle {
	t.Helper()
	return setupWith(t, nil, change...)
}

// inBoth runs a test with a child a job, and where it can be with children that run one job after the other.
func inBoth(t *testing.T, test func(*testing.T, *bundle)) {
	t.Parallel()
	t.Run("a child a job", func(t *testing.T) {
		t.Parallel()
		test(t, setup(t))
	})
	if runtime.GOOS == "linux" {
		t.Run("kept", func(t *testing.T) {
			t.Parallel()
			test(t, setupWith(t, []goworker.IsolatedOption{goworker.Reuse(1000)}))
		})
	}
}

// setupWith isolates the classes with these options too.
func setupWith(t *testing.T, more []goworker.IsolatedOption, change ...func(*goworker.WorkerSettings)) *bundle {
	t.Helper()
	b := &bundle{t: t, redis: redistest.Start(t), notes: filepath.Join(t.TempDir(), "notes")}
	s := goworker.WorkerSettings{URI: b.redis.URI(), QueuesString: "work", Concurrency: 4, Logger: slog.New(slog.NewTextHandler(b, nil))}
	for _, c := range change {
		c(&s)
	}
	b.daemon = goworker.New(s)
	register(b.daemon, b.redis.URI(), b.notes, more...)
	b.daemon.AddHooks(goworker.Hooks{
		Success: func(_ context.Context, d *goworker.Delivery) {
			b.mu.Lock()
			defer b.mu.Unlock()
			raw, _ := d.Result.(json.RawMessage)
			b.results = append(b.results, string(raw))
		},
		Failure: func(_ context.Context, _ *goworker.Delivery, err error) {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.errs = append(b.errs, err)
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.daemon.Run(ctx) }()
	b.stop = sync.OnceValue(func() error {
		cancel()
		defer b.daemon.Close()
		return <-ended
	})
	t.Cleanup(func() {
		if err := b.stop(); err != nil && !b.judged {
			t.Error("Run:", err)
		}
		if t.Failed() {
			t.Log(b.logged())
		}
	})
	return b
}

// daemonProcess is a daemon to be started as a process of its own.
func daemonProcess(t *testing.T) (*bundle, *exec.Cmd) {
	t.Helper()
	b := &bundle{t: t, redis: redistest.Start(t), notes: filepath.Join(t.TempDir(), "notes")}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), uriVar+"="+b.redis.URI(), notesVar+"="+b.notes)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	return b, cmd
}

// Write takes the daemon's log.
func (b *bundle) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.Write(p)
}

func (b *bundle) logged() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.log.String()
}

func (b *bundle) push(payloads ...string) {
	b.t.Helper()
	args := []any{"resque:queue:work"}
	for _, p := range payloads {
		args = append(args, p)
	}
	b.redis.Do(b.t, "SADD", "resque:queues", "work")
	b.redis.Do(b.t, "RPUSH", args...)
}

func (b *bundle) eventually(what string, cond func() bool) {
	b.t.Helper()
	redistest.Eventually(b.t, soon, what, cond)
}

func (b *bundle) stat(name string) int { return b.redis.Int(b.t, "GET", "resque:stat:"+name) }

// failure pushes a job and returns the record of its failure, and the error that
// hooks saw.
func (b *bundle) failure(payload string) (record, error) {
	b.t.Helper()
	before := b.stat("failed")
	b.push(payload)
	b.eventually("the job fails: "+payload, func() bool { return b.stat("failed") == before+1 })
	f := b.lastFailure()
	b.mu.Lock()
	defer b.mu.Unlock()
	return f, b.errs[len(b.errs)-1]
}

// lastFailure returns the latest record of a failure.
func (b *bundle) lastFailure() (f record) {
	b.t.Helper()
	list := b.redis.List(b.t, "LRANGE", "resque:failed", -1, -1)
	if err := json.Unmarshal([]byte(list[0]), &f); err != nil {
		b.t.Fatal(err)
	}
	return f
}

type record struct {
	Exception, Error string
	Backtrace        []string
}

// noted returns the lines that handlers noted and that begin so.
func (b *bundle) noted(prefix string) (lines []string) {
	b.t.Helper()
	text, err := os.ReadFile(b.notes)
	if err != nil && !os.IsNotExist(err) {
		b.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line, found := strings.CutPrefix(strings.TrimSuffix(line, "\n"), prefix); found {
			lines = append(lines, line)
		}
	}
	return lines
}

// pids are all processes that handlers noted.
func (b *bundle) pids() (pids []int) {
	b.t.Helper()
	for _, line := range b.noted("pids ") {
		for _, text := range strings.Fields(line) {
			pid, err := strconv.Atoi(text)
			if err != nil {
				b.t.Fatal(err)
			}
			pids = append(pids, pid)
		}
	}
	return pids
}

// gone waits until none of the noted processes is there.
func (b *bundle) gone(want int) {
	b.t.Helper()
	pids := b.pids()
	if len(pids) != want {
		b.t.Fatalf("the handlers noted the processes %v, want %d", pids, want)
	}
	b.eventually("their processes are gone", func() bool {
		for _, pid := range pids {
			if alive(pid) {
				return false
			}
		}
		return true
	})
}

// alive reports whether a process runs. A killed process without a wait for it
// does not.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, after, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(after, "Z")
}
