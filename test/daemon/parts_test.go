package daemon

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
	"github.com/goworker/goworker/internal/redistest"
)

var errPart = errors.New("the port is in use")

// quick is a Restart that does not keep a test waiting.
func quick(most int) *goworker.Backoff {
	return &goworker.Backoff{Min: time.Millisecond, Max: 5 * time.Millisecond, Most: most}
}

func stateOf(states []goworker.PartState, name string) goworker.PartState {
	for _, s := range states {
		if s.Name == name {
			return s
		}
	}
	return goworker.PartState{}
}

// A part is started again as often as it may. Then the daemon stops in order: the job that runs ends and is
// committed, and the error names the part. Log, go:log, vitals and PartStates say what happened.
func TestPartIsRestartedAndEndsTheDaemon(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	var runs atomic.Int64
	final := make(chan struct{})
	b.Daemon.AddPart(goworker.Part{
		Name: "metrics", Requires: []string{"poller"}, Restart: quick(3), Info: func() any { return fmt.Sprint(runs.Load(), " runs") },
		Run: func(ctx context.Context) error {
			if runs.Add(1) == 4 {
				<-final
			}
			return errPart
		},
	})
	b.Push(daemontest.Job("Hold", "a"))
	b.Start()
	b.Reaches("runs of the part", 4, func() int { return int(runs.Load()) })
	b.Reaches("jobs", 1, b.Runs.Started)
	b.Eventually("the states before the last failure", func() bool { // a part that is asked may be late
		states := b.Daemon.PartStates()
		s := stateOf(states, "metrics")
		return s.State == "running" && s.Restarts == 3 && errors.Is(s.Err, errPart) && s.Info == "4 runs" && stateOf(states, "workers").Info == "4 workers, 1 busy, 0 stuck"
	})
	close(final)
	b.Eventually("it stops", func() bool { return b.Log.Count("stopping: taking no more jobs") == 1 })
	b.Open()
	err := b.Wait()
	var failed *goworker.PartError
	if !errors.As(err, &failed) || failed.Part != "metrics" || !errors.Is(err, errPart) ||
		err.Error() != "goworker: part metrics failed: it was started 4 times in 10m0s, and failed again: the port is in use" {
		t.Errorf("Run returns %v", err)
	}
	if b.Runs.Ends("a") != 1 || b.Stat("processed") != 1 || len(b.Queue("work")) > 0 {
		t.Errorf("%d ends, %d committed, %q wait", b.Runs.Ends("a"), b.Stat("processed"), b.Queue("work"))
	}
	b.OnlyTotals()
	if n, m := b.Log.Count("part failed, starting it again"), b.Log.Count("part failed, stopping"); n != 3 || m != 1 {
		t.Errorf("the log has %d restarts and %d failures:\n%s", n, m, b.Log.Text())
	}
	entries, _, err := b.Inspect().Log(t.Context(), "", 100)
	var kinds []string
	for _, e := range entries {
		kinds = append(kinds, strings.TrimSpace(e.Kind+" "+e.More["part"]))
	}
	want := []string{"online", "part-restarted metrics", "part-restarted metrics", "part-restarted metrics", "part-failed metrics", "offline"}
	if err != nil || !slices.Equal(kinds, want) {
		t.Errorf("go:log has %q, %v, want %q", kinds, err, want)
	}
	for _, s := range b.Daemon.PartStates() {
		if want := map[bool]string{true: "failed", false: "stopped"}[s.Name == "metrics"]; s.State != want || s.Since.IsZero() {
			t.Errorf("at the end: %+v", s)
		}
	}
}

// What a part of the program does wrong, and what Run says of it.
func TestPartsThatFail(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	gate := make(chan struct{})
	t.Cleanup(func() { close(gate) })
	step := func(f func()) func(context.Context) error { return func(context.Context) error { f(); return nil } }
	panics, hangs := step(func() { panic(errPart) }), step(func() { <-gate })
	for name, tc := range map[string]struct {
		part  goworker.Part
		want  string
		stack bool
		left  []string
	}{
		"Run panics":        {goworker.Part{Run: panics}, "part bad failed: panic: the port is in use", true, nil},
		"Run returns":       {goworker.Part{Run: step(func() {})}, "part bad failed: its Run returned", false, nil},
		"Start panics":      {goworker.Part{Start: panics}, "part bad failed: panic: the port is in use", true, nil},
		"Stop panics":       {goworker.Part{Stop: panics}, "part bad failed: panic: the port is in use", true, nil},
		"Start hangs":       {goworker.Part{Start: hangs, Timeout: 10 * time.Millisecond}, "starting bad: it did not start in 10ms", false, []string{"bad"}},
		"Run is not ready":  {goworker.Part{Run: hangs, AwaitReady: true, Timeout: 10 * time.Millisecond}, "starting bad: it did not start in 10ms", false, []string{"bad"}},
		"Stop hangs":        {goworker.Part{Stop: hangs, Timeout: 10 * time.Millisecond}, "1 part did not stop in time and may still run: bad", false, []string{"bad"}},
		"Run does not stop": {goworker.Part{Run: hangs, Timeout: 10 * time.Millisecond}, "1 part did not stop in time and may still run: bad", false, []string{"bad"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := goworker.New(goworker.WorkerSettings{
				URI: server.URI(), Namespace: strings.ReplaceAll(name, " ", "-") + ":", QueuesString: "work", Concurrency: 1, AllowNoHandlers: true, LogLevel: "error",
			})
			defer d.Close()
			stopped := make(chan struct{})
			d.AddPart(goworker.Part{Name: "good", Stop: step(func() { close(stopped) })})
			tc.part.Name, tc.part.Requires = "bad", []string{"good"}
			d.AddPart(tc.part)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if tc.part.Stop != nil || strings.Contains(tc.want, "did not stop") {
				d.OnReady(cancel)
			}
			err := d.Run(ctx)
			var failed *goworker.PartError
			var late *goworker.ShutdownError
			if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.HasPrefix(err.Error(), "goworker: ") {
				t.Errorf("Run returns %v, want %q", err, tc.want)
			}
			if errors.As(err, &failed) != strings.HasPrefix(tc.want, "part bad") || failed != nil && (len(failed.Stack) > 0) != tc.stack {
				t.Errorf("Run returns %v", err)
			}
			if errors.As(err, &late) != (tc.left != nil) || late != nil && !slices.Equal(late.Parts, tc.left) {
				t.Errorf("%v was left behind, want %q", late, tc.left)
			}
			select {
			case <-stopped:
			default:
				t.Error("the part that it requires was not stopped")
			}
			if n := server.Int(t, "ZCARD", strings.ReplaceAll(name, " ", "-")+":go:processes"); n != 0 {
				t.Errorf("%d processes are in the fleet", n)
			}
		})
	}
}

// wildConn panics when a function of goworker uses it.
type wildConn struct {
	redis.ConnWithTimeout
	in   string
	wild *atomic.Bool
}

func (c wildConn) panics() {
	if c.wild.Load() && strings.Contains(string(debug.Stack()), c.in) && c.wild.CompareAndSwap(true, false) {
		panic(errPart)
	}
}

func (c wildConn) DoWithTimeout(d time.Duration, command string, args ...any) (any, error) {
	c.panics()
	return c.ConnWithTimeout.DoWithTimeout(d, command, args...)
}

func (c wildConn) Send(command string, args ...any) error {
	c.panics()
	return c.ConnWithTimeout.Send(command, args...)
}

func (c wildConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	c.panics()
	return c.ConnWithTimeout.ReceiveWithTimeout(d)
}

func (c wildConn) Do(command string, args ...any) (any, error) {
	c.panics()
	return c.ConnWithTimeout.Do(command, args...)
}

// A panic in a part of the daemon's own ends the daemon in order: what runs ends, and the parts of the
// program stop.
func TestPanicOfAnOwnPart(t *testing.T) {
	t.Parallel()
	for part, in := range map[string]string{"lease": "fleet.(*Lease).turn", "poller": "goworker.(*poller).run", "reaper": "fleet.(*reaper).turn"} {
		t.Run(part, func(t *testing.T) {
			t.Parallel()
			wild := new(atomic.Bool)
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.URI = strings.Replace(s.URI, "redis", "wild", 1) })
			b.Daemon.RegisterDialer("wild", func(_ context.Context, uri string, _ goworker.DialOptions) (goworker.Dialer, error) {
				return goworker.DialerFunc(func(context.Context) (redis.Conn, error) {
					c, err := redis.DialURL(strings.Replace(uri, "wild", "redis", 1))
					if err != nil {
						return nil, err
					}
					return wildConn{c.(redis.ConnWithTimeout), in, wild}, nil
				}), nil
			})
			stopped := make(chan struct{})
			b.Daemon.AddPart(goworker.Part{Name: "db", Stop: func(context.Context) error { close(stopped); return nil }})
			wild.Store(true)
			b.Start()
			err := b.Wait()
			var failed *goworker.PartError
			if !errors.As(err, &failed) || failed.Part != part || !errors.Is(err, errPart) || !strings.Contains(string(failed.Stack), in) {
				t.Errorf("Run returns %v", err)
			}
			select {
			case <-stopped:
			default:
				t.Error("the program's part was not stopped")
			}
		})
	}
}

// A Dialer of the program that panics on one of the poller's goroutines, or a connection of it, ends the daemon in order too. The jobs
// that ran end and are committed, or run again when the process was found dead.
func TestPanicOfADialer(t *testing.T) {
	t.Parallel()
	for name, in := range map[string]string{
		"while it dials":      "link.(*Keeper).Dial.func",
		"with an exchange":    "link.(*Link).do",
		"with a notification": "link.(*Pair).hear",
		"while it subscribes": "link.(*Pair).subscribe",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wild := new(atomic.Bool)
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.URI = strings.Replace(s.URI, "redis", "wild", 1) })
			b.Daemon.RegisterDialer("wild", func(_ context.Context, uri string, _ goworker.DialOptions) (goworker.Dialer, error) {
				return goworker.DialerFunc(func(context.Context) (redis.Conn, error) {
					c, err := redis.DialURL(strings.Replace(uri, "wild", "redis", 1))
					if err != nil {
						return nil, err
					}
					w := wildConn{c.(redis.ConnWithTimeout), in, wild}
					w.panics()
					return w, nil
				}), nil
			})
			b.Start()
			b.Push(daemontest.Job("Hold", "a"))
			b.Reaches("jobs that run", 1, b.Runs.Started)
			wild.Store(true)
			b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
			b.Redis.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
			b.Push(daemontest.Job("Mark", "b"))
			b.Eventually("it stops", func() bool { return b.Log.Count("stopping: taking no more jobs") == 1 })
			b.Open()
			err := b.Wait()
			var failed *goworker.PartError
			if !errors.As(err, &failed) || !slices.Contains([]string{"poller", "schedule"}, failed.Part) || // whichever needs its connection first
				!errors.Is(err, errPart) || !strings.Contains(string(failed.Stack), in) {
				t.Errorf("Run returns %v", err)
			}
			next := daemontest.SetupOn(t, b.Redis)
			next.Open()
			next.Start()
			next.Eventually("both jobs are committed", func() bool { return next.Stat("processed") == 2 })
			if next.Stat("failed") != 0 || len(next.Queue("work")) > 0 || b.Runs.Ends("a")+next.Runs.Ends("a") == 0 {
				t.Errorf("%d failed, %q wait", next.Stat("failed"), next.Queue("work"))
			}
		})
	}
}

// OnReady is called when all parts run, and OnStopping before the first of them stops.
func TestOnReadyAndOnStopping(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	seen := make(chan string, 10)
	b.Daemon.AddPart(goworker.Part{
		Name: "web", Requires: []string{"poller"}, AwaitReady: true,
		Run: func(ctx context.Context) error {
			seen <- "web starts"
			goworker.PartReady(ctx)
			<-ctx.Done()
			seen <- "web stops"
			return ctx.Err()
		},
	})
	for _, s := range b.Daemon.PartStates() {
		if s.State != "waiting" {
			t.Errorf("before the run: %+v", s)
		}
	}
	b.Daemon.OnReady(func() {
		for _, s := range b.Daemon.PartStates() {
			if s.State != "running" {
				t.Errorf("when all run: %+v", s)
			}
		}
		seen <- "ready"
		b.Cancel()
	})
	b.Daemon.OnStopping(func() {
		if s := stateOf(b.Daemon.PartStates(), "web"); s.State != "running" {
			t.Errorf("before it stops: %+v", s)
		}
		seen <- "stopping"
	})
	b.Start()
	if err := b.Wait(); err != nil {
		t.Error(err)
	}
	close(seen)
	var got []string
	for s := range seen {
		got = append(got, s)
	}
	if want := []string{"web starts", "ready", "stopping", "web stops"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, line := range []string{"started process=", " parts=", "part started", "part stopped"} {
		if !strings.Contains(b.Log.Text(), line) {
			t.Errorf("the log lacks %q:\n%s", line, b.Log.Text())
		}
	}
}

// From the stop on the daemon takes no jobs, also if a part that requires the poller still starts. The hooks of the run are called once
// if it still comes up, and not at all if it does not.
func TestStopWhileAPartStarts(t *testing.T) {
	t.Parallel()
	for name, starts := range map[string]error{"it starts": nil, "it does not": errPart} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = daemontest.Soon })
			starting, release := make(chan struct{}), make(chan struct{})
			b.Daemon.AddPart(goworker.Part{Name: "web", Requires: []string{"poller"}, Start: func(context.Context) error {
				close(starting)
				<-release
				return starts
			}})
			var calls, ready, stopping atomic.Int64
			b.Daemon.OnReady(func() { ready.Store(calls.Add(1)) })
			b.Daemon.OnStopping(func() { stopping.Store(calls.Add(1)) })
			b.Start()
			<-starting
			b.Push(daemontest.Job("Hold", "before"))
			b.Reaches("jobs that run", 1, b.Runs.Started)
			b.Cancel()
			b.Eventually("it takes no more jobs", func() bool { return b.Daemon.Health().Stopping })
			b.Push(daemontest.Job("Mark", "after"))
			b.Open()
			b.Reaches("committed jobs", 1, func() int { return b.Stat("processed") })
			close(release)
			if err := b.Wait(); err != nil && (starts == nil || !errors.Is(err, errPart)) {
				t.Error(err)
			}
			if b.Runs.Starts("after") > 0 || b.Runs.Ends("before") != 1 || b.Stat("processed") != 1 || len(b.Queue("work")) != 1 {
				t.Errorf("the later job ran %d times, %d were processed, %q wait", b.Runs.Starts("after"), b.Stat("processed"), b.Queue("work"))
			}
			if up := starts == nil; up && (ready.Load() != 1 || stopping.Load() != 2) || calls.Load() != map[bool]int64{true: 2}[up] {
				t.Errorf("the hooks were called %d times, OnReady at %d and OnStopping at %d", calls.Load(), ready.Load(), stopping.Load())
			}
		})
	}
}

// A part around several shards that fails ends them all. PartStates has it, and the log of each Redis.
func TestPartAroundShardsFails(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 2, LogLevel: "error"},
		goworker.Shard{URI: servers[0].URI(), Queues: []string{"a"}}, goworker.Shard{URI: servers[1].URI(), Queues: []string{"b"}})
	defer s.Close()
	s.Register("Nop", func() {})
	began := make(chan struct{}, 2)
	for _, d := range s.Daemons() {
		d.OnReady(func() { began <- struct{}{} })
	}
	stopping := 0
	s.OnStopping(func() { stopping++ })
	s.AddPart(goworker.Part{Name: "web", Requires: []string{"poller"}, Run: func(ctx context.Context) error {
		<-began
		<-began
		return errPart
	}})
	err := s.Run(t.Context())
	var failed *goworker.PartError
	if !errors.As(err, &failed) || failed.Part != "web" || !errors.Is(err, errPart) {
		t.Errorf("Run returns %v", err)
	}
	if got := s.PartStates(); stateOf(got, "web").State != "failed" || stateOf(got, "poller").State != "stopped" || stopping != 1 {
		t.Errorf("%+v, OnStopping was called %d times", got, stopping)
	}
	for i, server := range servers {
		if n := server.Int(t, "ZCARD", "resque:go:processes"); n != 0 {
			t.Errorf("%d processes are on shard %d", n, i)
		}
		if lines := fmt.Sprintf("%s", server.Do(t, "XRANGE", "resque:go:log", "-", "+")); !strings.Contains(lines, "part-failed") {
			t.Errorf("the log of shard %d is %s", i, lines)
		}
	}
}

// A part of one shard that fails ends all shards.
func TestPartOfOneShardFails(t *testing.T) {
	t.Parallel()
	servers := []*redistest.Server{redistest.Start(t), redistest.Start(t)}
	s := goworker.NewShards(goworker.WorkerSettings{Concurrency: 2, LogLevel: "error"},
		goworker.Shard{URI: servers[0].URI(), Queues: []string{"a"}}, goworker.Shard{URI: servers[1].URI(), Queues: []string{"b"}})
	defer s.Close()
	s.Register("Nop", func() {})
	s.Daemons()[1].AddPart(goworker.Part{Name: "own", Requires: []string{"poller"}, Run: func(context.Context) error { return errPart }})
	err := s.Run(t.Context())
	var failed *goworker.PartError
	if !errors.As(err, &failed) || failed.Part != "own" {
		t.Errorf("Run returns %v", err)
	}
}
