// Package ages tests what operators see of how long jobs wait, in fleets of daemons and servers of HTTP.
package ages

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/httpapi"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// fleet is daemons and a server of HTTP that take from the queue mail.
type fleet struct {
	t     *testing.T
	redis *redistest.Server
	c     redis.Conn

	given atomic.Int64 // jobs that clients got over HTTP
}

func newFleet(t *testing.T) *fleet {
	t.Helper()
	f := &fleet{t: t, redis: redistest.Start(t)}
	f.c = f.redis.Dial(t)
	return f
}

// daemon starts a daemon whose two workers take so long for a job, and returns what ends it.
func (f *fleet) daemon(each time.Duration) (stop func()) {
	f.t.Helper()
	d := goworker.New(goworker.WorkerSettings{
		QueuesString: "mail", Concurrency: 2, URI: f.redis.URI(), Logger: slog.New(slog.DiscardHandler),
	})
	d.Register("HTTPJob", func(ctx context.Context, _ json.RawMessage) { sleep(ctx, each) })
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-ended; err != nil {
				f.t.Error(err)
			}
			d.Close()
		}
	}
	f.t.Cleanup(stop)
	return stop
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// server starts a server of HTTP with a client that takes a job each so often.
func (f *fleet) server(each time.Duration) {
	f.t.Helper()
	client, err := goworker.NewClient(goworker.WorkerSettings{URI: f.redis.URI(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		f.t.Fatal(err)
	}
	api, err := httpapi.New(client, httpapi.Settings{Open: true, QuietAccess: true, Namespaces: map[string]httpapi.Namespace{"bare": {Bare: true}}})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := api.Start(f.t.Context()); err != nil {
		f.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	ask := func(method, path string) *httptest.ResponseRecorder {
		answer, request := httptest.NewRecorder(), httptest.NewRequestWithContext(ctx, method, "/api/bare/mail"+path, nil)
		request.Host, request.RemoteAddr = "localhost", "127.0.0.1:1"
		api.ServeHTTP(answer, request)
		return answer
	}
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			answer := ask(http.MethodGet, "?timeout=1&ttr=60")
			if _, id, ok := strings.Cut(answer.Body.String(), `"job_id":"`); ok {
				id, _, _ = strings.Cut(id, `"`)
				ask(http.MethodDelete, "/job/"+id)
				f.given.Add(1)
				sleep(ctx, each)
			}
		}
	}()
	f.t.Cleanup(func() {
		cancel()
		api.Drain()
		<-ended
		if err := api.Stop(context.Background()); err != nil {
			f.t.Error(err)
		}
		client.Close()
	})
}

// push pushes jobs that say when they were pushed.
func (f *fleet) push(n int) {
	f.t.Helper()
	f.redis.Do(f.t, "SADD", "resque:queues", "mail")
	for i := range n {
		now := time.Now().UnixMilli()
		f.redis.Do(f.t, "RPUSH", "resque:queue:mail", fmt.Sprintf(`{"class":"HTTPJob","args":["%d"],"id":"%d-%d"}`, now, now, i))
	}
}

// head returns when the job at the head was pushed; zero: there is none.
func (f *fleet) head() time.Time {
	f.t.Helper()
	raw := f.redis.Text(f.t, "LINDEX", "resque:queue:mail", 0)
	_, text, _ := strings.Cut(raw, `"args":["`)
	text, _, _ = strings.Cut(text, `"`)
	ms, err := strconv.ParseInt(text, 10, 64)
	if raw == "" || err != nil {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

func (f *fleet) depth() resque.Depth {
	f.t.Helper()
	all, err := resque.New("").Depths(f.c)
	if err != nil {
		f.t.Fatal(err)
	}
	return all["mail"]
}

func (f *fleet) eventually(what string, cond func() bool) {
	f.t.Helper()
	redistest.Eventually(f.t, time.Minute, what, cond)
}

// counted waits until the keeper has looked at the queue, and returns by how much it is wrong about the age of the job at the
// head, and how old that is.
func (f *fleet) counted() (off, age time.Duration) {
	f.t.Helper()
	var d resque.Depth
	before := f.depth().At
	f.eventually("the keeper has looked", func() bool { d = f.depth(); return d.At.After(before) })
	head := f.head()
	if d.Method != resque.AgeCounted || head.IsZero() || d.Oldest.IsZero() {
		f.t.Fatalf("the head is of %v, and the keeper says %+v", head, d)
	}
	return d.Oldest.Sub(head).Abs(), d.At.Sub(head)
}

// The ages that the keeper counts are right while two daemons and a client over HTTP take jobs, also when the keeper changes.
// When a Ruby worker registers, it says only that the job waits longer than it was seen, and when that has gone it counts again.
func TestAges(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	stopFirst, stopSecond := f.daemon(400*time.Millisecond), f.daemon(400*time.Millisecond)
	f.server(300 * time.Millisecond)
	f.eventually("the fleet is there", func() bool {
		return f.redis.Int(t, "ZCARD", "resque:go:processes") == 2 && f.redis.Int(t, "ZCARD", "resque:go:takers") == 1
	})
	f.push(1)
	f.eventually("the keeper counts the queue", func() bool { d := f.depth(); return d.Method == resque.AgeCounted && d.Length == 0 })

	right := func(when string) {
		t.Helper()
		off, age := f.counted()
		if off > max(5*time.Second, age/20) {
			t.Errorf("%s: off by %v at an age of %v", when, off, age)
		}
		t.Logf("%s: off by %v at an age of %v", when, off.Round(time.Millisecond), age.Round(time.Millisecond))
	}
	f.push(260) // for about twenty seconds
	for end := time.Now().Add(12 * time.Second); time.Now().Before(end); {
		f.push(8)
		right("while jobs come")
	}
	if f.given.Load() == 0 {
		t.Fatal("the client over HTTP took nothing")
	}

	// The keeper stops. The next one goes on with what it knew.
	if first := f.redis.List(t, "ZRANGE", "resque:go:processes", 0, -1); len(first) != 2 {
		t.Fatalf("processes %q", first)
	}
	before := f.depth()
	stopFirst()
	f.eventually("the fleet has one process", func() bool { return f.redis.Int(t, "ZCARD", "resque:go:processes") == 1 })
	f.eventually("the keeper has looked again", func() bool { d := f.depth(); return d.At.Sub(before.At) > 5*time.Second })
	right("after a change of the keeper")

	f.redis.Do(t, "SADD", "resque:workers", "ruby-1:77:high,mail")
	f.eventually("the age is a lower bound", func() bool { d := f.depth(); return d.Method != resque.AgeCounted })
	f.redis.Do(t, "DEL", "resque:queue:mail") // what is there goes, and a job comes that nobody takes
	f.redis.Do(t, "SADD", "resque:go:paused", "mail")
	f.push(2)
	pushed := time.Now()
	f.eventually("the head is seen for a while", func() bool {
		d := f.depth()
		return d.Method == resque.AgeSeen && !d.Oldest.Before(pushed.Add(-time.Second)) && time.Since(d.Oldest) > 4*time.Second
	})
	f.redis.Do(t, "SREM", "resque:workers", "ruby-1:77:high,mail")
	f.eventually("it counts again", func() bool {
		f.push(1)
		d := f.depth()
		return d.In > 0 && (d.Method == resque.AgeCounted || d.Method == resque.AgeSeen)
	})
	stopSecond()
	// Only the server is left: it keeps the ages.
	before = f.depth()
	f.eventually("the server is the keeper", func() bool { return f.depth().At.After(before.At.Add(3 * time.Second)) })
}

// What processes and servers say they took, and what is there, add up to what was pushed, also where jobs go back at a stop.
func TestTakenAddsUp(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.push(300)
	stop := f.daemon(20 * time.Millisecond)
	f.server(10 * time.Millisecond)
	taken := func() int { return f.redis.Int(t, "HGET", "resque:go:taken", "mail") }
	there := func() int { return f.redis.Int(t, "LLEN", "resque:queue:mail") }
	f.eventually("a third was taken", func() bool { return there() < 200 })
	stop()
	f.daemon(time.Millisecond)
	f.eventually("all were taken", func() bool { return there() == 0 && f.redis.Int(t, "ZCARD", "resque:go:leases") == 0 })
	f.eventually("all that were pushed are counted", func() bool { return taken() >= 300 })
	if n := taken(); n != 300 || f.given.Load() == 0 {
		t.Errorf("%d of 300 jobs were counted, %d of them were taken over HTTP", n, f.given.Load())
	}
}

// A client holds a job, and the server of HTTP has gone: another program takes jobs and counts none.
func TestLeasesWithoutServer(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.daemon(time.Millisecond)
	f.push(1)
	f.eventually("the keeper counts the queue", func() bool { return f.depth().Method == resque.AgeCounted })
	f.redis.Do(t, "ZADD", "resque:go:leases", time.Now().Add(time.Hour).UnixMilli(), "4:mailx")
	f.eventually("it is not counted", func() bool { return f.depth().Method == resque.AgeUnknown && !f.depth().At.IsZero() })
	f.redis.Do(t, "DEL", "resque:go:leases")
	f.eventually("it is counted", func() bool { return f.depth().Method == resque.AgeCounted })
}

// Keys of another type cost what is written to them, and are named once. Jobs run, and leases are renewed.
func TestWrongType(t *testing.T) {
	t.Parallel()
	f := newFleet(t)
	f.redis.Do(t, "SET", "resque:go:taken", "x")
	f.redis.Do(t, "RPUSH", "resque:go:depths", "x")
	f.daemon(time.Millisecond)
	for range 3 {
		f.push(5)
		f.eventually("the jobs are done", func() bool { return f.redis.Int(t, "LLEN", "resque:queue:mail") == 0 })
		lease := f.redis.List(t, "ZRANGE", "resque:go:processes", 0, -1, "WITHSCORES")
		f.eventually("the lease is renewed", func() bool {
			return !equal(lease, f.redis.List(t, "ZRANGE", "resque:go:processes", 0, -1, "WITHSCORES"))
		})
	}
}

func equal(a, b []string) bool { return strings.Join(a, " ") == strings.Join(b, " ") }
