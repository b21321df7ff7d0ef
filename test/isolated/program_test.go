//go:build unix

// Package isolated runs isolated jobs, with children that crash, hang and eat memory.
// The test binary is the worker program as well, and so the child: with a Redis named
// in its environment it works instead of testing.
package isolated

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/goworker/goworker"
)

// The environment of worker programs.
const (
	uriVar   = "GOWORKER_ISOLATED_TEST_URI"
	notesVar = "GOWORKER_ISOLATED_TEST_NOTES" // the file for what handlers note
	mainVar  = "GOWORKER_ISOLATED_TEST_MAIN"  // what main does instead of working, or before: return, hang, or run two daemons
)

// ample is the time limit of jobs that reach it in their handler. On a busy machine a child needs seconds until it is there.
const ample = 8 * time.Second

func TestMain(m *testing.M) {
	// The race detector would hold up each exit by a second.
	os.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE"))
	if uri := os.Getenv(uriVar); uri != "" {
		os.Exit(program(uri, os.Getenv(notesVar)))
	}
	flag.Parse()
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncLoopLogger).processQueue"),
		goleak.IgnoreAnyFunction("github.com/cihub/seelog.(*asyncAdaptiveLogger).processQueue"),
	)
}

func program(uri, notes string) int {
	switch os.Getenv(mainVar) {
	case "return":
		fmt.Fprintln(os.Stderr, "main has other plans")
		return 0
	case "hang":
		select {}
	case "slow":
		before, _ := os.ReadFile(notes)
		if file, err := os.OpenFile(notes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintln(file, "pids", os.Getpid())
			file.Close()
		}
		if len(before) == 0 {
			time.Sleep(15 * time.Second) // the first one is signalled meanwhile
		}
	case "two":
		other := goworker.New(goworker.WorkerSettings{URI: uri, QueuesString: "other"})
		other.Register("Sum", func() { panic("this is the other daemon's") }, goworker.Isolated())
		go func() { _ = other.Run(context.Background()) }()
		time.Sleep(100 * time.Millisecond) // it comes first
	case "other":
		uri += "/1"
	case "run":
		run := exec.Command(os.Args[0]) // takes itself for a daemon that was started
		run.Env = append(os.Environ(), mainVar+"=")
		out, err := run.CombinedOutput()
		fmt.Fprintf(os.Stderr, "%s%v\n", out, err)
		return 1
	}
	var d worker = goworker.New(goworker.WorkerSettings{URI: uri, QueuesString: "work", Concurrency: 4})
	if os.Getenv(mainVar) == "shards" {
		d = newShards(uri)
	}
	register(d, uri, notes)
	if err := d.Work(); err != nil {
		fmt.Fprintln(os.Stderr, "Work:", err)
		return 2
	}
	return 0
}

// errNoLuck and refusal are errors a program compares with.
var errNoLuck = errors.New("no luck")

type refusal struct {
	Code   int
	Reason string
}

func (r *refusal) Error() string { return fmt.Sprint("refused with ", r.Code, r.Reason) }

// worker is a Daemon or Shards.
type worker interface {
	Register(class string, handler any, opts ...goworker.Option)
	Use(middleware ...goworker.Middleware)
	AddPart(p goworker.Part)
	Work() error
}

// newShards is a worker of two shards, the first of which has no work.
func newShards(uri string) *goworker.Shards {
	return goworker.NewShards(goworker.WorkerSettings{Concurrency: 4},
		goworker.Shard{URI: uri + "/1", Queues: []string{"other"}}, goworker.Shard{URI: uri, Queues: []string{"work"}})
}

// register makes a daemon know the classes of these tests. Those of the child find
// their Redis and their file of notes by the environment.
func register(d worker, uri, notes string, more ...goworker.IsolatedOption) {
	note := func(format string, values ...any) {
		file, err := os.OpenFile(notes, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err == nil {
			_, err = fmt.Fprintf(file, format+"\n", values...)
			err = errors.Join(err, file.Close())
		}
		if err != nil {
			panic(err)
		}
	}
	env := goworker.ChildEnv(uriVar+"="+uri, notesVar+"="+notes)
	isolated := func(opts ...goworker.IsolatedOption) goworker.Option {
		return goworker.Isolated(append(append(opts, env), more...)...)
	}
	d.Use(func(next goworker.Handler) goworker.Handler {
		return goworker.HandlerFunc(func(ctx context.Context, d *goworker.Delivery) error {
			if d.Class == "Sum" {
				note("middleware %d", os.Getpid())
			}
			return next.Perform(ctx, d)
		})
	})
	database := false
	d.AddPart(goworker.Part{
		Name: "database", Requires: []string{"lease"}, Isolated: true,
		Start: func(context.Context) error { database = true; return nil },
		Stop: func(context.Context) error {
			if goworker.IsolatedChild() {
				note("database closed")
			}
			return nil
		},
	})
	running := false
	d.AddPart(goworker.Part{
		Name: "cache", Requires: []string{"database"}, Isolated: true, AwaitReady: true,
		Run: func(ctx context.Context) error {
			running = true
			goworker.PartReady(ctx)
			<-ctx.Done()
			if goworker.IsolatedChild() {
				note("cache closed")
			}
			return ctx.Err()
		},
	})
	d.AddPart(goworker.Part{Name: "server", Start: func(context.Context) error {
		if goworker.IsolatedChild() {
			note("the server started in a child")
		}
		return nil
	}})

	d.Register("Sum", func(ctx context.Context, a, b int) (int, error) {
		run := goworker.FromContext(ctx)
		note("sum %d child=%v database=%v id=%s attempt=%d queue=%s", os.Getpid(), goworker.IsolatedChild(), database && running, run.ID, run.Attempt, run.Queue)
		fmt.Fprintln(os.Stderr, "a child writes to stderr")
		return a + b, nil
	}, isolated(goworker.HardTimeout(time.Minute)), goworker.Alias("Total"))
	d.Register("Nothing", func() {}, isolated())
	d.Register("Manager", func() ([]string, error) {
		return []string{os.Getenv("NOTIFY_SOCKET"), os.Getenv("WATCHDOG_USEC"), os.Getenv("WATCHDOG_PID")}, nil
	}, isolated())
	registerSteps(d, isolated)
	if apart, ok := d.(*goworker.Daemon); ok {
		registerLong(apart, note, isolated)
		registerKept(apart, note, env)
	}
	d.Register("Plain", func() {})
	d.Register("Exit", func(code int) { os.Exit(code) }, isolated())
	d.Register("Panic", func() { panic(&refusal{Code: 7}) }, isolated())
	d.Register("Goexit", func() { runtime.Goexit() }, isolated())
	d.Register("Crash", func() { go panic("boom"); select {} }, isolated())
	d.Register("Killed", func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL); select {} }, isolated())
	d.Register("Fail", func() error { return fmt.Errorf("%w today: %w", errNoLuck, &refusal{Code: 42}) }, isolated())
	for class, does := range map[string]string{"Unready": "return", "SecondOfTwo": "two", "Strange": "other", "Inherited": "run", "Sharded": "shards", "Slow": "slow"} {
		d.Register(class, func(data string) (string, error) { return data, nil },
			goworker.Isolated(env, goworker.ChildEnv(mainVar+"="+does), goworker.HardTimeout(20*time.Second)))
	}
	d.Register("Retried", func(ctx context.Context) error {
		run := goworker.FromContext(ctx)
		note("run %d, %d left", run.Attempt, run.RetriesLeft)
		if run.Attempt == 1 {
			return goworker.RetryIn(0, errNoLuck)
		}
		os.Exit(1)
		return nil
	}, goworker.Retry(1, goworker.NoRetryOn(errNoLuck)), isolated())
	d.Register("Discarded", func() error { return goworker.Discard(errNoLuck) }, isolated())
	d.Register("Snoozed", func() error { return fmt.Errorf("not yet: %w", goworker.Snooze(time.Hour)) }, isolated())
	d.Register("Tells", func(ctx context.Context, end string) (map[string]string, error) {
		for n := range int64(20_000) {
			goworker.Progress(ctx, n+1, 20_000, "in the child")
		}
		goworker.Logger(ctx).Info("said in the child", "n", 1)
		switch end {
		case "exit":
			os.Exit(3)
		case "goexit":
			runtime.Goexit()
		case "hang":
			select {}
		}
		return map[string]string{"end": end}, nil
	}, isolated(goworker.KillGrace(time.Second), goworker.HardTimeout(ample)))
	d.Register("Own", func(ctx context.Context) error {
		run := goworker.FromContext(ctx)
		note("own %d left, tenant %s", run.RetriesLeft, run.Meta["tenant"])
		<-ctx.Done()
		return ctx.Err()
	}, goworker.Timeout(time.Hour), isolated())
	d.Register("Large", func() ([]byte, error) { return make([]byte, 13<<20), nil }, isolated())
	d.Register("LargeError", func() error { return &refusal{Reason: strings.Repeat("x", 1<<20)} }, isolated())
	d.Register("Garble", func(garbage string) { _, _ = syscall.Write(4, []byte(garbage)); select {} }, isolated())
	d.Register("Echo", func(data string) (string, error) { return data, nil }, isolated())
	d.Register("HangShortly", func(string) {}, goworker.Isolated(env, goworker.ChildEnv(mainVar+"=hang"), goworker.HardTimeout(500*time.Millisecond)))
	d.Register("Soft", func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }, goworker.Timeout(50*time.Millisecond), isolated())

	// family starts two more processes, notes all three, and says when it is done.
	family := func() {
		sleep := exec.Command("sh", "-c", "sleep 1000 & echo $!; exec sleep 1000")
		out, err := sleep.StdoutPipe()
		if err == nil {
			err = sleep.Start()
		}
		var second int
		if err == nil {
			_, err = fmt.Fscan(out, &second)
		}
		if err != nil {
			panic(err)
		}
		note("pids %d %d %d", os.Getpid(), sleep.Process.Pid, second)
	}
	d.Register("Spin", func() {
		signal.Ignore(syscall.SIGHUP)
		family()
		spin()
	}, isolated(goworker.HardTimeout(ample), goworker.KillGrace(5*time.Second)))
	d.Register("Forever", func() { family(); select {} }, isolated(goworker.KillGrace(200*time.Millisecond)))
	d.Register("Leave", func() { family() }, isolated())
	d.Register("LeaveWhenTold", func() {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGUSR2)
		family()
		<-signals
	}, isolated())
	d.Register("Late", func(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }, isolated(goworker.HardTimeout(ample), goworker.KillGrace(time.Minute)))
	d.Register("Hold", func(ctx context.Context) error {
		note("pids %d", os.Getpid())
		<-ctx.Done()
		note("cause %v", context.Cause(ctx))
		return ctx.Err()
	}, isolated())
	d.Register("Eat", func(stepKiB int) {
		var kept [][]byte
		for range 1 << 30 / (stepKiB << 10) { // a GiB, then give up
			b := make([]byte, stepKiB<<10)
			for i := 0; i < len(b); i += 4096 {
				b[i] = 1
			}
			kept = append(kept, b)
			time.Sleep(5 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		runtime.KeepAlive(kept)
	}, isolated(goworker.MaxMemory(256<<20)))
	d.Register("EatBeside", func() error {
		return exec.Command("sh", "-c", "(head -c 400M /dev/zero; sleep 100) | tail").Run()
	}, isolated(goworker.MaxMemory(256<<20)))
}

// spin never ends and never waits.
func spin() {
	for n := 0; ; n++ {
		if strings.Count("", "") > 1 {
			slog.Info("unreachable", "n", n)
		}
	}
}
