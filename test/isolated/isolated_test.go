//go:build unix

package isolated

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// What a handler, its middleware and its parts find in the child, and what comes back.
func TestRunsInAChild(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push(`{"class":"Sum","args":[40,2],"id":"a7","attempt":3}`)
	b.eventually("the job is done", func() bool { return b.stat("processed") == 1 })
	var pid, middleware int
	var rest string
	sum := b.noted("sum ")
	if len(sum) != 1 {
		t.Fatalf("it ran %d times", len(sum))
	}
	if _, err := fmt.Sscanf(sum[0], "%d", &pid); err != nil {
		t.Fatal(err)
	}
	_, rest, _ = strings.Cut(sum[0], " ")
	if pid == os.Getpid() || rest != "child=true database=true id=a7 attempt=3 queue=work" {
		t.Errorf("it ran in process %d of daemon %d with %s", pid, os.Getpid(), rest)
	}
	if m := b.noted("middleware "); len(m) != 1 {
		t.Errorf("middleware ran %d times", len(m))
	} else if _, _ = fmt.Sscan(m[0], &middleware); middleware != pid {
		t.Errorf("middleware ran in process %d, the handler in %d", middleware, pid)
	}
	if len(b.noted("database closed")) != 1 || len(b.noted("cache closed")) != 1 || len(b.noted("the server started")) != 0 {
		t.Errorf("the parts did %q %q", b.noted("database"), b.noted("the server"))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.results) != 1 || b.results[0] != "42" {
		t.Errorf("hooks got the results %q", b.results)
	}
}

// A job that has an alias of its class runs in a child as one of the class.
func TestAliasRunsInAChild(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push(`{"class":"Total","args":[40,2]}`)
	b.eventually("the job is done", func() bool { return b.stat("processed") == 1 })
	if len(b.noted("middleware ")) != 1 || len(b.noted("sum ")) != 1 {
		t.Errorf("noted are %q, %q", b.noted("middleware "), b.noted("sum "))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.results) != 1 || b.results[0] != "42" {
		t.Errorf("hooks got the results %q", b.results)
	}
}

// Each way to end becomes the failure of that job, and the daemon goes on.
func TestFailures(t *testing.T) { inBoth(t, testFailures) }

func testFailures(t *testing.T, b *bundle) {
	large := strings.Repeat("x", 1<<20)
	for _, tt := range []struct {
		job, exception, text string // text is a pattern
		frame                string // in the first line of the backtrace
		check                func(error) bool
	}{
		{
			job: `{"class":"Exit","args":[3]}`, exception: "Resque::DirtyExit", text: `the child process of Exit exited with status 3 before the handler returned`,
			check: func(err error) bool {
				var crash *goworker.CrashError
				return errors.As(err, &crash) && crash.ExitCode == 3 && crash.Signal == 0
			},
		},
		{job: `{"class":"Exit","args":[0]}`, exception: "Resque::DirtyExit", text: `the child process of Exit exited with status 0 before .*`},
		{job: `{"class":"Crash","args":[]}`, exception: "Resque::DirtyExit", text: `the child process of Crash exited with status 2 before .*: panic: boom.*`, frame: "panic: boom"},
		{
			job: `{"class":"Killed","args":[]}`, exception: "Resque::DirtyExit", text: `the child process of Killed was killed by signal 9 \(killed\) before the handler returned, perhaps by the kernel .*`,
			check: func(err error) bool {
				var crash *goworker.CrashError
				return errors.As(err, &crash) && crash.Signal == 9
			},
		},
		{job: `{"class":"Unready","args":["` + large + `"]}`, exception: "Resque::DirtyExit", text: `.* exited with status 0 before it called Work or Run, .*`, frame: "main has other plans"},
		{
			job: `{"class":"Panic","args":[]}`, exception: "PanicError", text: "panic: refused with 7", frame: "program_test.go:",
			check: func(err error) bool {
				var p *goworker.PanicError
				var r *refusal
				return errors.As(err, &p) && len(p.Stack) > 0 && p.Value == "refused with 7" && errors.As(err, &r) && r.Code == 7
			},
		},
		{
			job: `{"class":"Goexit","args":[]}`, exception: "Error", text: regexp.QuoteMeta(goworker.ErrGoexit.Error()),
			check: func(err error) bool { return errors.Is(err, goworker.ErrGoexit) },
		},
		{
			job: `{"class":"Fail","args":[]}`, exception: "isolated.refusal", text: "no luck today: refused with 42",
			check: func(err error) bool {
				var r *refusal
				return errors.Is(err, errNoLuck) && errors.As(err, &r) && r.Code == 42 && !errors.Is(err, context.Canceled)
			},
		},
		{
			job: `{"class":"Sum","args":["x",2]}`, exception: "ArgumentError", text: "argument 1 of Sum is a string where int is expected; .*",
			check: func(err error) bool {
				var a *goworker.ArgumentError
				return errors.As(err, &a) && a.Index == 1 && a.Want == "int" && a.Found == "a string"
			},
		},
		{
			job: `{"class":"Soft","args":[]}`, exception: "context.deadlineExceededError", text: "Soft ran longer than its timeout of 50ms: .*",
			check: func(err error) bool { return errors.Is(err, context.DeadlineExceeded) },
		},
		{
			job: `{"class":"Late","args":[]}`, exception: "goworker.TimeLimitError", frame: "program_test.go:",
			text: "Late reached its hard time limit of 8s and was cancelled: context deadline exceeded",
		},
		{
			job: `{"class":"HangShortly","args":["` + large + `"]}`, exception: "goworker.TimeLimitError",
			text: "HangShortly reached its hard time limit of 500ms and was killed; .*",
		},
		{
			job: `{"class":"LargeError","args":[]}`, exception: "isolated.refusal", text: "refused with 0x{1000}.*",
			check: func(err error) bool { return len(err.Error()) < 1<<20 },
		},
		{job: `{"class":"Garble","args":["Content-Type: text/html"]}`, exception: "Resque::DirtyExit", text: `.* because something else than goworker wrote to the pipe between them \(file 4\): a message of 1131376244 bytes`},
		{job: `{"class":"Garble","args":["\u0000\u0000\u0000\u0002no"]}`, exception: "Resque::DirtyExit", text: `.* because something else .* invalid character .*`},
		{
			job: `{"class":"Inherited","args":[""]}`, exception: "Resque::DirtyExit", text: ".*exited with status 1 .*",
			frame: "Work: goworker: GOWORKER_ISOLATED is set, but this process was not started by that daemon",
		},
	} {
		t.Run(tt.job[:min(len(tt.job), 40)], func(t *testing.T) {
			f, err := b.failure(tt.job)
			if f.Exception != tt.exception || !regexp.MustCompile("^(?:"+tt.text+")$").MatchString(f.Error) {
				t.Errorf("the record says %s: %s\nwant %s: %s", f.Exception, f.Error, tt.exception, tt.text)
			}
			if f.Backtrace == nil || tt.frame != "" && (len(f.Backtrace) == 0 || !strings.HasPrefix(f.Backtrace[0], tt.frame)) {
				t.Errorf("the backtrace is %q, want %s first", f.Backtrace, tt.frame)
			}
			if tt.check != nil && !tt.check(err) {
				t.Errorf("hooks got %#v", err)
			}
		})
	}
	done := b.stat("processed")
	b.push(`{"class":"Sum","args":[1,2]}`, `{"class":"Large","args":[]}`)
	b.eventually("the daemon goes on", func() bool { return b.stat("processed") == done+2 })
	b.mu.Lock()
	defer b.mu.Unlock()
	slices.Sort(b.results)
	if len(b.results) != 2 || b.results[0] != "" || b.results[1] != "3" {
		t.Errorf("results of %d bytes each, want one that is too large and one of 3", len(strings.Join(b.results, "")))
	}
}

// Of several daemons in a program the one that took the job runs it in the child; long
// arguments and results come through.
func TestTwoDaemonsAndLongJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, class := range []string{"SecondOfTwo", "Echo"} {
		b.push(fmt.Sprintf(`{"class":%q,"args":[%q]}`, class, strings.Repeat(class, 200_000)))
	}
	b.eventually("the jobs are done", func() bool { return b.stat("processed") == 2 })
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.results) != 2 || len(b.results[0])+len(b.results[1]) != 200_000*len("SecondOfTwoEcho")+4 {
		t.Errorf("%d results, failures %v", len(b.results), b.errs)
	}
}

func TestShards(t *testing.T) {
	t.Parallel()
	b := &bundle{t: t, redis: redistest.Start(t), notes: filepath.Join(t.TempDir(), "notes")}
	s := newShards(b.redis.URI())
	register(s, b.redis.URI(), b.notes)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	b.push(`{"class":"Sharded","args":["x"]}`)
	b.eventually("the job is done", func() bool { return b.stat("processed") == 1 })
	if n := b.stat("failed"); n != 0 {
		t.Errorf("it failed: %q", b.redis.List(t, "LRANGE", "resque:failed", 0, -1))
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error("Run:", err)
	}
	s.Close()
}

// A program whose main runs other daemons in the child than in the parent.
func TestDaemonIsNotThere(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f, _ := b.failure(`{"class":"Strange","args":[""]}`)
	if !strings.Contains(f.Error, "exited with status 2 before it called Work") || len(f.Backtrace) == 0 ||
		!strings.Contains(f.Backtrace[0], "was to run a job of a daemon with other settings") {
		t.Errorf("the record says %s, with %q", f.Error, f.Backtrace)
	}
}

// What a handler asks for about its job reaches the daemon, and a crash counts as a
// failed run.
func TestRetries(t *testing.T) { inBoth(t, testRetries) }

func testRetries(t *testing.T, b *bundle) {
	f, _ := b.failure(`{"class":"Retried","args":[]}`)
	if f.Exception != "Resque::DirtyExit" {
		t.Errorf("the last failure is %s: %s", f.Exception, f.Error)
	}
	if runs := b.noted("run "); len(runs) != 2 || runs[0] != "1, 1 left" || runs[1] != "2, 0 left" {
		t.Errorf("the runs were %q", runs)
	}
	b.push(`{"class":"Discarded","args":[]}`)
	b.eventually("it is discarded", func() bool { return b.stat("processed") == 3 })
	if n := b.stat("failed"); n != 1 {
		t.Errorf("%d have failed, want 1", n)
	}
	b.push(`{"class":"Snoozed","args":[]}`)
	b.eventually("it is snoozed", func() bool { return b.redis.Int(t, "ZCARD", "resque:go:schedule") == 1 })
	if p, f := b.stat("processed"), b.stat("failed"); p != 4 || f != 1 {
		t.Errorf("processed %d, failed %d", p, f)
	}
}

// What stands in the payload of one job holds in its child too.
func TestOptionsOfOneJob(t *testing.T) { inBoth(t, testOptionsOfOneJob) }

func testOptionsOfOneJob(t *testing.T, b *bundle) {
	f, err := b.failure(`{"class":"Own","args":[],"retries":0,"timeout_ms":50,"meta":{"tenant":"acme"}}`)
	if !errors.Is(err, context.DeadlineExceeded) || !strings.HasPrefix(f.Error, "Own ran longer than its timeout of 50ms: ") {
		t.Errorf("the record says %s: %s; hooks got %v", f.Exception, f.Error, err)
	}
	if runs := b.noted("own "); len(runs) != 1 || runs[0] != "0 left, tenant acme" {
		t.Errorf("the runs were %q", runs)
	}
}

// An endless loop ends at the limit, with the processes it started.
func TestKilledAtTheLimit(t *testing.T) {
	t.Parallel()
	b := setup(t)
	f, err := b.failure(`{"class":"Spin","args":[]}`)
	var limit *goworker.TimeLimitError
	if !errors.As(err, &limit) || limit.Limit != ample || limit.Err != nil {
		t.Errorf("hooks got %#v", err)
	}
	if f.Exception != "goworker.TimeLimitError" || f.Error != "Spin reached its hard time limit of 8s and was killed; its work may be half done" {
		t.Errorf("the record says %s: %s", f.Exception, f.Error)
	}
	if trace := strings.Join(f.Backtrace, "\n"); !strings.Contains(trace, "isolated.spin") {
		t.Errorf("the backtrace does not show where it was:\n%s", trace)
	}
	b.gone(3)
}

// What a job leaves running ends with it.
func TestLeavesNoProcess(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push(`{"class":"Leave","args":[]}`)
	b.eventually("the job is done", func() bool { return b.stat("processed") == 1 && b.stat("failed") == 0 })
	b.gone(3)
}

func TestMaxMemory(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, job := range []string{`{"class":"Eat","args":[4096]}`, `{"class":"EatBeside","args":[]}`} {
		if strings.Contains(job, "Beside") && runtime.GOOS != "linux" {
			continue
		}
		f, err := b.failure(job)
		var m *goworker.MemoryLimitError
		if !errors.As(err, &m) || m.Limit != 256<<20 || m.Used <= m.Limit {
			t.Errorf("hooks got %#v", err)
		}
		if f.Exception != "goworker.MemoryLimitError" || !strings.Contains(f.Error, "more than its limit of 256.0 MiB") {
			t.Errorf("the record says %s: %s", f.Exception, f.Error)
		}
	}
}

// The context ends in the child as it would in the daemon, with the same cause.
func TestCancel(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push(`{"class":"Hold","args":[]}`)
	b.eventually("the job runs", func() bool { return len(b.pids()) == 1 })
	b.daemon.CancelJobs()
	b.eventually("it is a failure", func() bool { return b.stat("failed") == 1 })
	if cause := b.noted("cause "); len(cause) != 1 || cause[0] != goworker.ErrCancelled.Error() {
		t.Errorf("its context was cancelled with %q", cause)
	}
	list := b.redis.List(t, "LRANGE", "resque:failed", 0, -1)
	if len(list) != 1 || !strings.Contains(list[0], "Resque::DirtyExit") {
		t.Errorf("failures %q", list)
	}
	b.gone(1)
}

// At a shutdown jobs go back to their queue, those too that do not heed their context,
// and nothing is left running.
func TestShutdown(t *testing.T) {
	t.Parallel()
	daemontest.Punctually(t, func() error { // a child that is not heard within a second is killed
		b := setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = 100 * time.Millisecond })
		b.judged = true
		b.push(`{"class":"Hold","args":[]}`, `{"class":"Forever","args":[]}`)
		b.eventually("the jobs run", func() bool { return len(b.pids()) == 4 })
		if err := b.stop(); err != nil {
			return fmt.Errorf("the stop leaves %w", err)
		}
		b.gone(4)
		if cause := b.noted("cause "); len(cause) != 1 || cause[0] != goworker.ErrShutdown.Error() {
			return fmt.Errorf("the context was cancelled with %q", cause)
		}
		if queue := b.redis.List(t, "LRANGE", "resque:queue:work", 0, -1); len(queue) != 2 || b.stat("processed") != 0 {
			return fmt.Errorf("%d processed, in the queue %q", b.stat("processed"), queue)
		}
		return nil
	})
}

// A daemon that is killed takes its children with it, and theirs.
func TestDaemonKilled(t *testing.T) {
	t.Parallel()
	b, cmd := daemonProcess(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	b.push(`{"class":"Forever","args":[]}`, `{"class":"Forever","args":[]}`, `{"class":"Hold","args":[]}`)
	b.eventually("the jobs run", func() bool { return len(b.pids()) == 7 })
	for _, pid := range b.pids() {
		if !alive(pid) {
			t.Errorf("process %d is not there", pid)
		}
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.gone(7)
}

// A daemon that is killed when a job is over, and before it has heard of it, leaves
// nothing of that job either.
func TestDaemonKilledAtTheEnd(t *testing.T) {
	t.Parallel()
	b, cmd := daemonProcess(t)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	b.push(`{"class":"LeaveWhenTold","args":[]}`)
	b.eventually("the job runs", func() bool { return len(b.pids()) == 3 })
	child := b.pids()[0]
	for _, send := range []struct {
		pid    int
		signal syscall.Signal
	}{{cmd.Process.Pid, syscall.SIGSTOP}, {child, syscall.SIGUSR2}} {
		if err := syscall.Kill(send.pid, send.signal); err != nil {
			t.Fatal(err)
		}
	}
	b.eventually("the child ends", func() bool { return !alive(child) })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	b.gone(3)
}

// A service manager signals all processes of a service at once, and pkill all of a name:
// the children go on until their daemon says otherwise.
func TestSignalsDoNotEndAChild(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push(`{"class":"Hold","args":[]}`)
	b.eventually("the job runs", func() bool { return len(b.pids()) == 1 })
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2} {
		if err := syscall.Kill(b.pids()[0], s); err != nil {
			t.Fatal(err)
		}
	}
	b.push(`{"class":"Sum","args":[1,2]}`)
	b.eventually("another job is done", func() bool { return b.stat("processed") == 1 })
	if b.stat("failed") != 0 || !alive(b.pids()[0]) {
		t.Error("the signal ended the child")
	}
	b.daemon.CancelJobs()
	b.eventually("it ends", func() bool { return b.stat("failed") == 1 })
	if cause := b.noted("cause "); len(cause) != 1 {
		t.Error("it did not end by its context")
	}
}

// Nor does it cost a job that its child was signalled before it began.
func TestSignalBeforeTheJobBegan(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.push(`{"class":"Slow","args":["x"]}`)
	b.eventually("the child has begun", func() bool { return len(b.pids()) == 1 })
	if err := syscall.Kill(b.pids()[0], syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	b.eventually("the job ends", func() bool { return b.stat("processed") == 1 })
	if b.stat("failed") != 0 || len(b.pids()) != 2 {
		t.Errorf("failures %q after %d children", b.redis.List(t, "LRANGE", "resque:failed", 0, -1), len(b.pids()))
	}
}

// TestLeaksNothing runs alone: it counts what belongs to the whole process.
func TestLeaksNothing(t *testing.T) {
	b := setup(t)
	count := func() (files, goroutines int) {
		entries, err := os.ReadDir("/dev/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries), runtime.NumGoroutine()
	}
	many := func(n int) {
		before := b.stat("processed")
		for i := range n {
			b.push([]string{`{"class":"Nothing","args":[]}`, `{"class":"Exit","args":[1]}`, `{"class":"Sum","args":[1,2]}`}[i%3])
		}
		b.eventually("the jobs are done", func() bool { return b.stat("processed") == before+n })
	}
	many(10)
	files, goroutines := count()
	const hundreds = 3
	for range hundreds {
		many(100)
	}
	// One that a hundred runs leave behind is one too many. A part of the daemon opens its connection when it has something
	// to say, the history's after ten seconds.
	redistest.Eventually(t, soon, "no hundred runs have left a file or goroutine behind", func() bool {
		f, g := count()
		return f < files+hundreds && g < goroutines+hundreds
	})
	if pid, _ := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid > 0 {
		t.Errorf("process %d was a zombie", pid)
	}
	if n := b.stat("failed"); n == 0 {
		t.Error("none has failed")
	}
}

// The process of a job does not speak for the daemon: it does not have the socket of the service manager.
func TestChildHasNoServiceManager(t *testing.T) {
	t.Setenv("NOTIFY_SOCKET", filepath.Join(t.TempDir(), "none"))
	t.Setenv("WATCHDOG_USEC", "30000000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))
	b := setup(t)
	b.push(`{"class":"Manager","args":[]}`)
	b.eventually("the job has ended", func() bool {
		b.mu.Lock()
		defer b.mu.Unlock()
		return len(b.results) == 1
	})
	if b.results[0] != `["","",""]` {
		t.Errorf("the child has %s", b.results[0])
	}
}
