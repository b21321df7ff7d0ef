package daemon

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/goworker/goworker"
	"github.com/goworker/goworker/internal/daemontest"
)

func TestStopWhileIdle(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Idle()
	began := time.Now()
	if err := b.Stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("an idle stop took %v", time.Since(began))
	b.OnlyTotals()
	<-b.Ended
	b.Start()
	b.Push(daemontest.Job("Mark", "again"))
	b.Eventually("it works when it is run again", func() bool { return b.Runs.Ends("again") == 1 })
}

// slowConn takes 20 ms for an exchange, as a Redis far away does. A daemon with
// short jobs then reserves ahead.
type slowConn struct{ redis.ConnWithTimeout }

func (c slowConn) Receive() (any, error) {
	time.Sleep(20 * time.Millisecond)
	return c.ConnWithTimeout.Receive()
}

// What was reserved ahead and no worker took goes back to the head of its queue,
// in its order and byte for byte.
func TestReservedGoesBack(t *testing.T) {
	t.Parallel()
	odd := []string{
		`{"class":"Odd","args":["first"]}`,
		"{ \"class\" : \"Odd\",\n\t\"args\" : [ 1.0, 1e3, -0 ] } ",
		`{"args":[],"class":"Odd","queue":"work","id":"x\u00e9","more":{"a":[null]}}`,
		"not json \x00\xff\xfe",
		"",
		`{"class":"Odd","args":["` + "\u2028<&>" + `"]}`,
		strings.Repeat("long ", 20_000),
		`{"class":"Odd","args":["first"]}`,
	}
	tests := []struct {
		name  string
		cause func(*daemontest.Bundle)
	}{
		{"workers that turn out slow", func(*daemontest.Bundle) {}},
		{"pause", func(b *daemontest.Bundle) { b.Daemon.Pause() }},
		{"pause of the fleet", func(b *daemontest.Bundle) { b.Redis.Do(b.T, "SET", "resque:pause-all-workers", "true") }},
		{"stop", func(b *daemontest.Bundle) { b.Cancel() }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := daemontest.Setup(t, func(s *goworker.WorkerSettings) {
				s.Concurrency = 2
				s.URI = strings.Replace(s.URI, "redis", "slow", 1)
			})
			b.Daemon.RegisterDialer("slow", func(ctx context.Context, uri string, o goworker.DialOptions) (goworker.Dialer, error) {
				return goworker.DialerFunc(func(context.Context) (redis.Conn, error) {
					c, err := redis.DialURL(strings.Replace(uri, "slow", "redis", 1))
					if err != nil {
						return nil, err
					}
					return slowConn{c.(redis.ConnWithTimeout)}, nil
				}), nil
			})
			b.Push(daemontest.Jobs("Mark", 40)...)
			b.Push(daemontest.Jobs("Hold", 2)...)
			b.Push(odd...)
			m := b.Redis.Monitor(t)
			b.Start()
			givenBack := func() bool {
				return slices.ContainsFunc(m.Inner(), func(c []string) bool { return c[0] == "LPUSH" && c[1] == "resque:queue:work" })
			}
			b.Eventually("the workers hold a job each, and more is reserved", func() bool {
				return b.Runs.Started() == 42 && (len(b.Queue("work")) < len(odd) || givenBack())
			})
			test.cause(b)
			b.Eventually("the queue is as it was", func() bool { return givenBack() && slices.Equal(b.Queue("work"), odd) })
			b.Cancel()
			b.Eventually("it takes no more jobs", func() bool { return b.Log.Count("taking no more jobs") == 1 }) // or a worker that becomes free takes one
			b.Open()
			if err := b.Wait(); err != nil {
				t.Fatal(err)
			}
			if q := b.Queue("work"); !slices.Equal(q, odd) {
				t.Errorf("the queue holds %.200q", q)
			}
			if n := b.Stat("processed"); n != 42 {
				t.Errorf("stat:processed is %d, want 42", n)
			}
			b.Redis.Do(t, "DEL", "resque:pause-all-workers")
			b.OnlyTotals()
		})
	}
}

// At the shutdown timeout the contexts of running jobs are cancelled, and what
// their handlers make of it decides.
func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.Concurrency, s.ShutdownTimeout = 5, 50*time.Millisecond })
	untilCancelled := func(err error) func(context.Context, string) error {
		return func(ctx context.Context, id string) error {
			b.Runs.Start(id)
			<-ctx.Done()
			b.Runs.Cancelled(id, context.Cause(ctx))
			return err
		}
	}
	b.Daemon.Register("Finish", untilCancelled(nil))
	b.Daemon.Register("Complain", untilCancelled(errors.New("half done")))
	b.Start()
	running := []string{daemontest.Job("Hold", "h"), daemontest.Job("Finish", "f"), daemontest.Job("Complain", "c"), daemontest.Job("Deaf", "d"), daemontest.Job("Deaf", "e")}
	waiting := []string{daemontest.Job("Mark", "w"), daemontest.Job("Mark", "v")}
	b.Push(running...)
	b.Push(waiting...)
	b.Eventually("five run", func() bool { return b.Runs.Started() == 5 })

	err := b.Stop()
	var stuck *goworker.ShutdownError
	if !errors.As(err, &stuck) {
		t.Fatalf("Run returned %v, want a *ShutdownError", err)
	}
	slices.Sort(stuck.Unfinished)
	if !slices.Equal(stuck.Unfinished, []string{"Deaf of queue work", "Deaf of queue work"}) || stuck.Undelivered != 0 {
		t.Errorf("the error tells of %q and %d undelivered", stuck.Unfinished, stuck.Undelivered)
	}
	if !strings.Contains(err.Error(), "Deaf of queue work") {
		t.Errorf("the error %q does not name the job", err)
	}
	for _, id := range []string{"h", "f", "c"} {
		if cause := b.Runs.Cause(id); !errors.Is(cause, goworker.ErrShutdown) {
			t.Errorf("job %s was cancelled with %v, want ErrShutdown", id, cause)
		}
	}
	q := b.Queue("work")
	head, tail := slices.Clone(q[:max(0, len(q)-2)]), q[max(0, len(q)-2):]
	slices.Sort(head)
	if !slices.Equal(head, []string{daemontest.Job("Deaf", "d"), daemontest.Job("Deaf", "e"), daemontest.Job("Hold", "h")}) || !slices.Equal(tail, waiting) {
		t.Errorf("the queue holds %q", q)
	}
	if b.Stat("processed") != 2 || b.Stat("failed") != 1 {
		t.Errorf("%d processed and %d failed, want 2 and 1", b.Stat("processed"), b.Stat("failed"))
	}
	if f := b.Failures(); len(f) != 1 || !strings.Contains(f[0].Error, "half done") {
		t.Errorf("failures %+v", f)
	}
	b.OnlyTotals()

	// The deaf ones end after all, which counts for nothing.
	b.Open()
	b.Eventually("the deaf ones end", func() bool { return b.Runs.Ends("d")+b.Runs.Ends("e") == 2 })
	if n := b.Stat("processed"); n != 2 || len(b.Queue("work")) != 5 {
		t.Errorf("%d processed, queue %q", n, b.Queue("work"))
	}
}

// Without a limit a stop waits for the job, however long it takes.
func TestStopWaitsForJobs(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = goworker.NoTimeout })
	b.Start()
	b.Push(daemontest.Job("Hold", "h"))
	b.Eventually("it runs", func() bool { return b.Runs.Starts("h") == 1 })
	b.Cancel()
	b.Renewed(1) // the lease outlives the workers
	b.Push(daemontest.Job("Mark", "late"))
	select {
	case err := <-b.Ended:
		t.Fatalf("Run returned %v while a job ran", err)
	default:
	}
	b.Open()
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if b.Stat("processed") != 1 || b.Runs.Starts("late") != 0 || len(b.Queue("work")) != 1 {
		t.Errorf("%d processed, queue %q", b.Stat("processed"), b.Queue("work"))
	}
	b.OnlyTotals()
}

// StopNow ends a stop that waits for a job, which then goes back to its queue.
func TestStopNow(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = goworker.NoTimeout })
	b.Start()
	b.Push(daemontest.Job("Hold", "h"))
	b.Eventually("it runs", func() bool { return b.Runs.Starts("h") == 1 })
	b.Cancel()
	b.Daemon.StopNow()
	if err := b.Wait(); err != nil {
		t.Fatal(err)
	}
	if cause := b.Runs.Cause("h"); !errors.Is(cause, goworker.ErrShutdown) {
		t.Errorf("the job was cancelled with %v, want ErrShutdown", cause)
	}
	if q := b.Queue("work"); !slices.Equal(q, []string{daemontest.Job("Hold", "h")}) {
		t.Errorf("the queue holds %q", q)
	}
	b.Daemon.StopNow() // without a run it does nothing
}

// A stop ends although Redis is away, and says what could not be delivered. That
// is in the in-flight record still, and others find it.
func TestStopWithoutRedis(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		away func(*daemontest.Bundle)
	}{
		{"down", func(b *daemontest.Bundle) { b.Redis.Kill() }},
		{"silent", func(b *daemontest.Bundle) { b.Redis.Pause() }},
	}
	for _, test := range tests {
		for _, work := range []bool{false, true} {
			name := test.name + ", idle"
			if work {
				name = test.name + ", with jobs"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				daemontest.Punctually(t, func() error {
					b := daemontest.Setup(t, func(s *goworker.WorkerSettings) { s.ShutdownTimeout = 200 * time.Millisecond })
					b.Start()
					b.Idle()
					if work {
						b.Push(daemontest.Jobs("Hold", 3)...)
						b.Push(daemontest.Job("Deaf", "d"))
						b.Eventually("they run", func() bool { return b.Runs.Started() == 5 })
					}
					test.away(b)
					began := time.Now()
					err := b.Stop()
					t.Logf("the stop took %v and returned: %v", time.Since(began), err)
					defer b.Open() // lets the deaf one end
					var stuck *goworker.ShutdownError
					switch {
					case err == nil:
						return errors.New("no error says that the workers are registered still")
					case work != errors.As(err, &stuck):
						return fmt.Errorf("Run returned %w", err)
					case work && (len(stuck.Unfinished) != 1 || stuck.Undelivered != 4):
						return fmt.Errorf("unfinished %q, undelivered %d; want 1 and 4", stuck.Unfinished, stuck.Undelivered)
					}
					return nil
				})
			})
		}
	}
}

// CancelJobs makes failures of what runs now and leaves the rest alone.
func TestCancelJobs(t *testing.T) {
	t.Parallel()
	b := daemontest.Setup(t)
	b.Start()
	b.Push(daemontest.Jobs("Hold", 4)...)
	b.Eventually("they run", func() bool { return b.Runs.Started() == 4 })
	b.Daemon.CancelJobs()
	b.Eventually("they are failures", func() bool { return b.Stat("failed") == 4 })
	for _, f := range b.Failures() {
		if f.Exception != "Resque::DirtyExit" {
			t.Errorf("the exception is %s", f.Exception)
		}
	}
	b.Push(daemontest.Job("Hold", "next"))
	b.Eventually("the next one runs", func() bool { return b.Runs.Starts("next") == 1 })
	b.Open()
	b.Eventually("and ends", func() bool { return b.Stat("processed") == 5 })
	if n := b.Stat("failed"); n != 4 {
		t.Errorf("stat:failed is %d, want 4", n)
	}
}
