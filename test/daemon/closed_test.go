package daemon

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

// reopening are the methods that make usable again what was closed.
var reopening = map[string]bool{"Init": true, "Run": true, "Work": true}

// closedCalls calls every exported method of v that returns an error, but those that
// reopen it, with zero arguments. It returns the errors by method.
func closedCalls(v any) map[string]error {
	value := reflect.ValueOf(v)
	errs := make(map[string]error)
	for i := range value.NumMethod() {
		name, method := value.Type().Method(i).Name, value.Method(i)
		results := method.Type().NumOut()
		if results == 0 || method.Type().Out(results-1) != reflect.TypeFor[error]() || reopening[name] {
			continue
		}
		var args []reflect.Value
		for n := range method.Type().NumIn() {
			switch in := method.Type().In(n); {
			case method.Type().IsVariadic() && n == method.Type().NumIn()-1:
			case in == reflect.TypeFor[context.Context]():
				args = append(args, reflect.ValueOf(context.Background()))
			default:
				args = append(args, reflect.Zero(in))
			}
		}
		err, _ := method.Call(args)[results-1].Interface().(error)
		errs[name] = err
	}
	return errs
}

// wantClosed expects ErrClosed of every method of what can be closed and of its views.
func wantClosed(t *testing.T, when string, views ...any) {
	t.Helper()
	for _, view := range views {
		calls := closedCalls(view)
		if len(calls) < 6 {
			t.Errorf("%s: %T has only the methods %v", when, view, calls)
		}
		for name, err := range calls {
			if !errors.Is(err, goworker.ErrClosed) {
				t.Errorf("%s: %T.%s returns %v, want ErrClosed", when, view, name, err)
			}
		}
	}
}

// After Close every method that returns an error returns ErrClosed, whatever it is given;
// Init makes them work again.
func TestClosed(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	d, mark := b.Daemon, &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: []any{"m"}}}
	failures, delayed := d.Failures(), d.Delayed()
	//lint:ignore SA1019 it is deprecated and still there
	views := []any{d, failures, failures.In("q"), failures.KeepPayload(), delayed}

	d.Close()
	wantClosed(t, "a daemon that was never used", views...)
	d.SetSettings(goworker.WorkerSettings{URI: b.Redis.URI(), Namespace: "app", QueuesString: "work", Logger: daemontest.Quiet, ExitOnComplete: true})
	wantClosed(t, "a daemon with new settings", views...)
	if got := d.Namespace(); got != "app:" {
		t.Errorf("Namespace is %q after Close, want that of the settings", got)
	}
	if err := d.Init(); err != nil {
		t.Fatal(err)
	}
	d.Register("Later", func() {}, goworker.Unique())
	lent, err := d.GetConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(d.Enqueue(mark), d.Enqueue(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Later", Args: nil}})); err != nil {
		t.Fatal(err)
	}
	connections := func() (n int) {
		_, rest, _ := strings.Cut(b.Redis.Text(t, "INFO", "stats"), "total_connections_received:")
		if _, err := fmt.Sscan(rest, &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	d.Close()
	before := connections()
	for range 2 {
		wantClosed(t, "a daemon that was used", views...)
		for what, err := range map[string]error{
			"Enqueue":           d.Enqueue(mark),
			"Enqueue, unique":   d.Enqueue(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Later", Args: nil}}),
			"EnqueueAll":        d.EnqueueAll(mark, mark),
			"EnqueueAt":         d.EnqueueAt(time.Now().Add(time.Hour), mark),
			"EnqueueAt, unique": d.EnqueueAt(time.Now().Add(time.Hour), &goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Later", Args: nil}}),
			"EnqueueAllAt":      d.EnqueueAllAt(time.Now().Add(time.Hour), mark),
			"PauseQueue":        d.PauseQueue("work"),
			"Schedule":          d.Schedule("tick", goworker.Recurring{Every: time.Hour, Queue: "work"}),
		} {
			if !errors.Is(err, goworker.ErrClosed) {
				t.Errorf("%s returns %v, want ErrClosed", what, err)
			}
		}
		d.Close() // a second one changes nothing
	}
	if n := connections() - before; n != 1 { // the one that asks
		t.Errorf("calls on a closed daemon made %d connections", n-1)
	}
	if _, err := lent.Do("PING"); err != nil {
		t.Errorf("a connection that was lent before Close: %v", err)
	}
	d.PutConn(lent)

	// Methods without an error go on, and a run opens the daemon.
	d.Register("Later", func() {})
	d.LimitQueue("work", goworker.MaxRunning(2))
	d.Pause()
	d.Resume()
	d.CancelJobs()
	if jobs := d.StuckJobs(); len(jobs) > 0 {
		t.Errorf("stuck: %v", jobs)
	}
	if err := d.Run(t.Context()); err != nil || b.Runs.Ends("m") != 1 {
		t.Fatalf("Run after Close ran %d jobs: %v", b.Runs.Ends("m"), err)
	}
	if _, err := d.Queues(); err != nil {
		t.Errorf("after Run: %v", err)
	}
	if err := d.Work(); err != nil {
		t.Error(err)
	}
	wantClosed(t, "after Work", views...)
	d.SetSettings(goworker.WorkerSettings{Concurrency: -1})
	if err := d.Init(); err == nil {
		t.Error("Init accepts a Concurrency of -1")
	}
	wantClosed(t, "after an Init that failed", views...)
}

func TestShardsClosed(t *testing.T) {
	t.Parallel()
	one, two := redistest.Start(t), redistest.Start(t)
	s := goworker.NewShards(goworker.WorkerSettings{Logger: daemontest.Quiet, ExitOnComplete: true}, goworker.Shard{URI: one.URI(), Queues: []string{"one"}}, goworker.Shard{URI: two.URI(), Queues: []string{"two"}})
	ran := make(chan struct{}, 100)
	s.Register("Mark", func() { ran <- struct{}{} })
	all := []*goworker.Job{{Queue: "one", Payload: goworker.Payload{Class: "Mark", Args: nil}}, {Queue: "two", Payload: goworker.Payload{Class: "Mark", Args: nil}}}
	closed := func(when string) {
		t.Helper()
		wantClosed(t, when, s, s.Daemons()[0], s.Daemons()[1])
		if err := errors.Join(s.EnqueueAll(all...)); !errors.Is(err, goworker.ErrClosed) {
			t.Errorf("%s: EnqueueAll returns %v", when, err)
		}
	}
	s.Close()
	closed("never used")
	if err := s.Init(); err != nil {
		t.Fatal(err)
	}
	if err := s.EnqueueAll(all...); err != nil {
		t.Fatal(err)
	}
	s.Close()
	closed("used")
	if err := s.Work(); err != nil || len(ran) != 2 {
		t.Fatalf("Work after Close ran %d jobs: %v", len(ran), err)
	}
	closed("after Work")

	broken := goworker.NewShards(goworker.WorkerSettings{Logger: daemontest.Quiet}, goworker.Shard{URI: one.URI(), Queues: []string{"one"}}, goworker.Shard{URI: "ftp://x", Queues: []string{"two"}})
	broken.Close()
	if err := broken.Init(); err == nil {
		t.Error("Init accepts ftp")
	}
	wantClosed(t, "after an Init that failed", broken, broken.Daemons()[0], broken.Daemons()[1])
}

// Calls under way when Close is called end as they would or with ErrClosed, and nothing
// that is said to be enqueued is missing.
func TestCloseMeanwhile(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Connections = 2 })
	for range 5 {
		if err := b.Daemon.Init(); err != nil {
			t.Fatal(err)
		}
		b.Redis.Do(t, "DEL", "resque:queue:work")
		var wg sync.WaitGroup
		var mu sync.Mutex
		enqueued := 0
		begun := make(chan struct{}, 8)
		for range 8 {
			wg.Go(func() {
				for i := range 10_000 {
					err := b.Daemon.Enqueue(&goworker.Job{Queue: "work", Payload: goworker.Payload{Class: "Mark", Args: []any{"x"}}})
					if i == 0 {
						begun <- struct{}{}
					}
					if err != nil {
						if !errors.Is(err, goworker.ErrClosed) {
							t.Errorf("Enqueue returned %v, want ErrClosed", err)
						}
						return
					}
					mu.Lock()
					enqueued++
					mu.Unlock()
				}
			})
		}
		for range 8 {
			<-begun
		}
		b.Daemon.Close()
		wg.Wait()
		if n := b.Redis.Int(t, "LLEN", "resque:queue:work"); n != enqueued {
			t.Errorf("%d jobs are in the queue, Enqueue returned nil for %d", n, enqueued)
		}
	}
}

// slowDialer never gets through. It says when it is asked to.
type slowDialer chan struct{}

func (d slowDialer) Dial(ctx context.Context) (redis.Conn, error) {
	d <- struct{}{}
	<-ctx.Done()
	return nil, ctx.Err()
}

// A call that waits for a connection says why it got none: the daemon was closed, or its
// settings were replaced, which closes nothing.
func TestCallsThatWait(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		end    func(*goworker.Daemon) error
		closed bool
		says   string
	}{
		"Close": {func(d *goworker.Daemon) error { d.Close(); return nil }, true, "Init makes a daemon usable again"},
		"other settings": {func(d *goworker.Daemon) error {
			d.SetSettings(goworker.WorkerSettings{URI: "slow://other", QueuesString: "q", Logger: daemontest.Quiet})
			return d.Init()
		}, false, "the settings were replaced"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dialing := make(slowDialer)
			d := goworker.New(goworker.WorkerSettings{URI: "slow://one", QueuesString: "q", Logger: daemontest.Quiet})
			defer d.Close()
			d.RegisterDialer("slow", func(context.Context, string, goworker.DialOptions) (goworker.Dialer, error) { return dialing, nil })
			enqueued := make(chan error, 1)
			go func() {
				enqueued <- d.Enqueue(&goworker.Job{Queue: "q", Payload: goworker.Payload{Class: "Mark", Args: nil}})
			}()
			<-dialing
			if err := tt.end(d); err != nil {
				t.Fatal(err)
			}
			if err := <-enqueued; err == nil || errors.Is(err, goworker.ErrClosed) != tt.closed || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("Enqueue returned %v", err)
			}
		})
	}
}

// A handler may use the daemon as long as its run has not ended, at a stop too.
func TestEnqueueWhileStopping(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	running, result := make(chan struct{}), make(chan error, 1)
	b.Daemon.Register("Chain", func(ctx context.Context) error {
		close(running)
		<-b.Gate
		err := b.Daemon.Enqueue(&goworker.Job{Queue: "next", Payload: goworker.Payload{Class: "Mark", Args: []any{"n"}}})
		result <- err
		return err
	})
	b.Start()
	b.Push(`{"class":"Chain","args":[]}`)
	<-running
	b.Cancel()
	b.Eventually("the daemon stops", func() bool { return b.Log.Count("stopping") == 1 })
	b.Open()
	if err := <-result; err != nil {
		t.Errorf("Enqueue at a stop: %v", err)
	}
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if n := b.Redis.Int(t, "LLEN", "resque:queue:next"); n != 1 {
		t.Errorf("%d jobs were enqueued at the stop, want 1", n)
	}
}

// Each function of the package that works on the default daemon is one call of its method
// of that name, so that what holds for the methods after Close holds for it.
func TestFunctionsAreMethods(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../*.go")
	if err != nil {
		t.Fatal(err)
	}
	whole := regexp.MustCompile(`(?m)^func (\w+)\(.*\{\s*(?:return )?std\(\)\.(\w+)\(.*\)\s*\}$`)
	found := 0
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		calls := whole.FindAllSubmatch(source, -1)
		for _, call := range calls {
			if string(call[1]) != string(call[2]) {
				t.Errorf("%s calls the method %s, want that of its own name", call[1], call[2])
			}
		}
		if n := strings.Count(string(source), "std()."); n != len(calls) {
			t.Errorf("%s has %d calls of the default daemon's methods, and %d functions that are nothing else", file, n, len(calls))
		}
		found += len(calls)
	}
	if found < 40 {
		t.Errorf("%d functions call the default daemon, want all", found)
	}
}
