package goworker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

func TestStopWhileIdle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.idle()
	began := time.Now()
	if err := b.stop(); err != nil {
		t.Fatal(err)
	}
	t.Logf("an idle stop took %v", time.Since(began))
	b.onlyTotals()
	<-b.ended
	b.start()
	b.push(job("Mark", "again"))
	b.eventually("it works when it is run again", func() bool { return b.runs.ends("again") == 1 })
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
		cause func(*bundle)
	}{
		{"workers that turn out slow", func(*bundle) {}},
		{"pause", func(b *bundle) { b.daemon.Pause() }},
		{"pause of the fleet", func(b *bundle) { b.redis.Do(b.t, "SET", "resque:pause-all-workers", "true") }},
		{"stop", func(b *bundle) { b.cancel() }},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(s *WorkerSettings) {
				s.Concurrency = 2
				s.URI = strings.Replace(s.URI, "redis", "slow", 1)
			})
			b.daemon.RegisterDialer("slow", func(ctx context.Context, uri string, o DialOptions) (Dialer, error) {
				return DialerFunc(func(context.Context) (redis.Conn, error) {
					c, err := redis.DialURL(strings.Replace(uri, "slow", "redis", 1))
					if err != nil {
						return nil, err
					}
					return slowConn{c.(redis.ConnWithTimeout)}, nil
				}), nil
			})
			b.push(jobs("Mark", 40)...)
			b.push(jobs("Hold", 2)...)
			b.push(odd...)
			m := b.redis.Monitor(t)
			b.start()
			givenBack := func() bool {
				return slices.ContainsFunc(m.Inner(), func(c []string) bool { return c[0] == "LPUSH" && c[1] == "resque:queue:work" })
			}
			b.eventually("the workers hold a job each, and more is reserved", func() bool {
				return b.runs.started() == 42 && (len(b.queue("work")) < len(odd) || givenBack())
			})
			test.cause(b)
			b.eventually("the queue is as it was", func() bool { return givenBack() && slices.Equal(b.queue("work"), odd) })
			b.cancel()
			b.open()
			if err := b.wait(); err != nil {
				t.Fatal(err)
			}
			if q := b.queue("work"); !slices.Equal(q, odd) {
				t.Errorf("the queue holds %.200q", q)
			}
			if n := b.stat("processed"); n != 42 {
				t.Errorf("stat:processed is %d, want 42", n)
			}
			b.redis.Do(t, "DEL", "resque:pause-all-workers")
			b.onlyTotals()
		})
	}
}

// At the shutdown timeout the contexts of running jobs are cancelled, and what
// their handlers make of it decides.
func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.Concurrency, s.ShutdownTimeout = 5, 50*time.Millisecond })
	untilCancelled := func(err error) func(context.Context, string) error {
		return func(ctx context.Context, id string) error {
			b.runs.start(id)
			<-ctx.Done()
			b.runs.cancelled(id, context.Cause(ctx))
			return err
		}
	}
	b.daemon.Register("Finish", untilCancelled(nil))
	b.daemon.Register("Complain", untilCancelled(errors.New("half done")))
	b.start()
	running := []string{job("Hold", "h"), job("Finish", "f"), job("Complain", "c"), job("Deaf", "d"), job("Deaf", "e")}
	waiting := []string{job("Mark", "w"), job("Mark", "v")}
	b.push(running...)
	b.push(waiting...)
	b.eventually("five run", func() bool { return b.runs.started() == 5 })

	err := b.stop()
	var stuck *ShutdownError
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
		if cause := b.runs.cause(id); !errors.Is(cause, ErrShutdown) {
			t.Errorf("job %s was cancelled with %v, want ErrShutdown", id, cause)
		}
	}
	q := b.queue("work")
	head, tail := slices.Clone(q[:max(0, len(q)-2)]), q[max(0, len(q)-2):]
	slices.Sort(head)
	if !slices.Equal(head, []string{job("Deaf", "d"), job("Deaf", "e"), job("Hold", "h")}) || !slices.Equal(tail, waiting) {
		t.Errorf("the queue holds %q", q)
	}
	if b.stat("processed") != 2 || b.stat("failed") != 1 {
		t.Errorf("%d processed and %d failed, want 2 and 1", b.stat("processed"), b.stat("failed"))
	}
	if f := b.failures(); len(f) != 1 || !strings.Contains(f[0].Error, "half done") {
		t.Errorf("failures %+v", f)
	}
	b.onlyTotals()

	// The deaf ones end after all, which counts for nothing.
	b.open()
	b.eventually("the deaf ones end", func() bool { return b.runs.ends("d")+b.runs.ends("e") == 2 })
	if n := b.stat("processed"); n != 2 || len(b.queue("work")) != 5 {
		t.Errorf("%d processed, queue %q", n, b.queue("work"))
	}
}

// Without a limit a stop waits for the job, however long it takes.
func TestStopWaitsForJobs(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.ShutdownTimeout = NoTimeout })
	b.start()
	b.push(job("Hold", "h"))
	b.eventually("it runs", func() bool { return b.runs.starts("h") == 1 })
	b.cancel()
	b.renewed(1) // the lease outlives the workers
	b.push(job("Mark", "late"))
	select {
	case err := <-b.ended:
		t.Fatalf("Run returned %v while a job ran", err)
	default:
	}
	b.open()
	if err := b.wait(); err != nil {
		t.Fatal(err)
	}
	if b.stat("processed") != 1 || b.runs.starts("late") != 0 || len(b.queue("work")) != 1 {
		t.Errorf("%d processed, queue %q", b.stat("processed"), b.queue("work"))
	}
	b.onlyTotals()
}

// StopNow ends a stop that waits for a job, which then goes back to its queue.
func TestStopNow(t *testing.T) {
	t.Parallel()
	b := setup(t, func(s *WorkerSettings) { s.ShutdownTimeout = NoTimeout })
	b.start()
	b.push(job("Hold", "h"))
	b.eventually("it runs", func() bool { return b.runs.starts("h") == 1 })
	b.cancel()
	b.daemon.StopNow()
	if err := b.wait(); err != nil {
		t.Fatal(err)
	}
	if cause := b.runs.cause("h"); !errors.Is(cause, ErrShutdown) {
		t.Errorf("the job was cancelled with %v, want ErrShutdown", cause)
	}
	if q := b.queue("work"); !slices.Equal(q, []string{job("Hold", "h")}) {
		t.Errorf("the queue holds %q", q)
	}
	b.daemon.StopNow() // without a run it does nothing
}

// A stop ends although Redis is away, and says what could not be delivered. That
// is in the in-flight record still, and others find it.
func TestStopWithoutRedis(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		away func(*bundle)
	}{
		{"down", func(b *bundle) { b.redis.Kill() }},
		{"silent", func(b *bundle) { b.redis.Pause() }},
	}
	for _, test := range tests {
		for _, work := range []bool{false, true} {
			name := test.name + ", idle"
			if work {
				name = test.name + ", with jobs"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				b := setup(t, func(s *WorkerSettings) { s.ShutdownTimeout = 200 * time.Millisecond })
				b.start()
				b.idle()
				if work {
					b.push(jobs("Hold", 3)...)
					b.push(job("Deaf", "d"))
					b.eventually("they run", func() bool { return b.runs.started() == 5 })
				}
				test.away(b)
				began := time.Now()
				err := b.stop()
				t.Logf("the stop took %v and returned: %v", time.Since(began), err)
				if err == nil {
					t.Error("no error tells that the workers are registered still")
				}
				var stuck *ShutdownError
				if work != errors.As(err, &stuck) {
					t.Fatalf("Run returned %v", err)
				}
				if work && (len(stuck.Unfinished) != 1 || stuck.Undelivered != 4) {
					t.Errorf("unfinished %q, undelivered %d; want 1 and 4", stuck.Unfinished, stuck.Undelivered)
				}
				b.open() // lets the deaf one end
			})
		}
	}
}

// CancelJobs makes failures of what runs now and leaves the rest alone.
func TestCancelJobs(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.start()
	b.push(jobs("Hold", 4)...)
	b.eventually("they run", func() bool { return b.runs.started() == 4 })
	b.daemon.CancelJobs()
	b.eventually("they are failures", func() bool { return b.stat("failed") == 4 })
	for _, f := range b.failures() {
		if f.Exception != "Resque::DirtyExit" {
			t.Errorf("the exception is %s", f.Exception)
		}
	}
	b.push(job("Hold", "next"))
	b.eventually("the next one runs", func() bool { return b.runs.starts("next") == 1 })
	b.open()
	b.eventually("and ends", func() bool { return b.stat("processed") == 5 })
	if n := b.stat("failed"); n != 4 {
		t.Errorf("stat:failed is %d, want 4", n)
	}
}
