package fleet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

var (
	errLost     = errors.New("lost")
	errShutdown = errors.New("shutdown")
)

// bundle is a lease on a Redis of its own, and all that it talks to.
type bundle struct {
	*Lease
	t     *testing.T
	redis *redistest.Server
	log   *book
	late  atomic.Int64 // how far the lease's clock is ahead, in nanoseconds
	still time.Time    // the time at which the lease's clock stands, but for late; zero: it goes. Set before start

	calls book // of Owner, Rider and Heir
}

func setup(t *testing.T, change ...func(*Config)) *bundle {
	t.Helper()
	b := &bundle{t: t, redis: redistest.Start(t), log: new(book)}
	dialer, err := conn.NewDialer(t.Context(), conn.Config{URI: b.redis.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.NewTextHandler(b.log, nil))
	n := 0
	c := Config{
		Process: func(bool) resque.Process { n++; return process(fmt.Sprintf("me:%d", n)) },
		Workers: 2, Lost: errLost, Shutdown: errShutdown,
	}
	for _, f := range change {
		f(&c)
	}
	b.Lease = New(part.Base{Log: log, Outages: logging.NewOutages(log, b), Store: resque.New(""), Dialer: dialer, Clock: b}, c)
	b.Owner, b.Riders, b.Heir, b.Ends = b, []Rider{b}, b, b
	t.Cleanup(func() { b.reaper.line.Close() })
	return b
}

// process is a process with two workers.
func process(id string) resque.Process {
	return resque.Process{ID: id, Host: "h", PID: 1, Queues: "work", Concurrency: 2, Started: time.Now(), IDHead: id + "-", IDQueues: "work"}
}

func (b *bundle) Now() time.Time {
	now := b.still
	if now.IsZero() {
		now = time.Now()
	}
	return now.Add(time.Duration(b.late.Load()))
}

func (b *bundle) NewTimer(d time.Duration) clock.Timer { return clock.System.NewTimer(d) }

func (b *bundle) AfterFunc(d time.Duration, f func()) clock.Timer {
	return clock.System.AfterFunc(d, f)
}

func (b *bundle) LeaseHeld(s *Session) { b.calls.add("held " + s.Process.ID) }

func (b *bundle) RecordGone(s *Session) { b.calls.add("gone " + s.Process.ID) }

func (b *bundle) LeaseLost(s *Session) { b.calls.add("lost " + s.Process.ID) }

func (b *bundle) Answered(leads bool, due resque.Due) { b.calls.add(fmt.Sprint("answered ", leads)) }

func (b *bundle) Leaving(redis.Conn) error { b.calls.add("leaving"); return nil }

func (b *bundle) Died(_ redis.Conn, process string) error { b.calls.add("died " + process); return nil }

// start starts the lease and its status; the test's end stops both.
func (b *bundle) start() {
	b.t.Helper()
	if err := errors.Join(b.Start(b.t.Context()), b.Status.Start(b.t.Context())); err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		_ = b.Status.Stop(ctx)
		b.loop.Stop(ctx)
		b.registrar.loop.Stop(ctx)
		b.reaper.loop.Stop(ctx)
		b.line.Close()
	})
}

func (b *bundle) eventually(what string, cond func() bool) {
	b.t.Helper()
	redistest.Eventually(b.t, 30*time.Second, what, cond)
}

func (b *bundle) called(call string) bool { return b.calls.count(call) > 0 }

// dead puts a process into the fleet that died with these jobs, and returns its lease.
func (b *bundle) dead(p resque.Process, jobs ...string) resque.Lease {
	b.t.Helper()
	c := b.redis.Dial(b.t)
	now := time.Now()
	if err := errors.Join(b.base.Store.Enter(c, p, LeasePeriod, now), b.base.Store.Register(c, p.ID, p.WorkerIDs(), now, now)); err != nil {
		b.t.Fatal(err)
	}
	for i, job := range jobs {
		b.redis.Do(b.t, "HSET", "resque:go:inflight:"+p.ID, i+1, "4:work"+job)
	}
	return resque.Lease{Process: p.ID, Value: b.redis.Text(b.t, "ZSCORE", "resque:go:processes", p.ID)}
}

// book is a log, to be read while it is written.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) add(line string) { _, _ = b.Write([]byte(line + "\n")) }

func (b *book) count(part string) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Count(b.text.String(), part)
}

// Bury puts the job back.
func (b *bundle) Bury(d resque.DeadJob) []resque.Effect { return resque.New("").Head(d.Reserved) }
