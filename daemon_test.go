package goworker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// soon is how long a test waits for what should happen at once.
const soon = time.Minute

// bundle is what most tests of a running daemon need: a Redis of their own, a
// daemon on it, and a book of what ran.
type bundle struct {
	t      *testing.T
	redis  *redistest.Server
	daemon *Daemon
	log    *logBook
	runs   *runBook
	ended  chan error // the result of Run

	cancel context.CancelFunc
	gate   chan struct{} // closed by open: Hold and Deaf end
}

// setup starts a Redis and makes a daemon that works the queue "work" with four
// workers, wakes by signal only and knows these classes:
//
//	Mark id      ends at once
//	Nap id ms    ends after a while
//	Hold id      ends when the gate opens or its context is cancelled
//	Deaf id      ends when the gate opens, whatever its context says
//	Fail id      returns an error
//
// All are noted in the book of runs.
func setup(t *testing.T, change ...func(*WorkerSettings)) *bundle {
	t.Helper()
	return setupOn(t, redistest.Start(t), change...)
}

func setupOn(t *testing.T, server *redistest.Server, change ...func(*WorkerSettings)) *bundle {
	t.Helper()
	b := &bundle{t: t, redis: server, log: new(logBook), runs: newRunBook(), ended: make(chan error, 1), gate: make(chan struct{})}
	s := WorkerSettings{
		QueuesString: "work", Concurrency: 4, PollInterval: time.Minute,
		URI: server.URI(), Logger: slog.New(b.log),
	}
	for _, c := range change {
		c(&s)
	}
	b.daemon = New(s)
	b.register(b.daemon)
	return b
}

func (b *bundle) register(d *Daemon) {
	d.Register("Mark", func(id string) { b.runs.start(id); b.runs.end(id) })
	d.Register("Nap", func(id string, ms int) {
		b.runs.start(id)
		time.Sleep(time.Duration(ms) * time.Millisecond)
		b.runs.end(id)
	})
	d.Register("Fail", func(id string) error { b.runs.start(id); b.runs.end(id); return errors.New("no luck") })
	d.Register("Hold", func(ctx context.Context, id string) error {
		b.runs.start(id)
		select {
		case <-b.gate:
			b.runs.end(id)
			return nil
		case <-ctx.Done():
			b.runs.cancelled(id, context.Cause(ctx))
			return ctx.Err()
		}
	})
	d.Register("Deaf", func(id string) { b.runs.start(id); <-b.gate; b.runs.end(id) })
}

// start runs the daemon; the test's end stops it.
func (b *bundle) start() {
	b.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.cancel = cancel
	go func() { b.ended <- b.daemon.Run(ctx) }()
	b.t.Cleanup(func() {
		b.open()
		b.redis.Resume()
		cancel()
		select {
		case err := <-b.ended:
			b.ended <- err
		case <-time.After(3 * soon):
			b.t.Error("Run did not return")
		}
		b.daemon.Close()
	})
}

// stop ends the run and returns its error.
func (b *bundle) stop() error {
	b.t.Helper()
	b.cancel()
	return b.wait()
}

func (b *bundle) wait() error {
	b.t.Helper()
	select {
	case err := <-b.ended:
		b.ended <- err
		return err
	case <-time.After(2 * soon):
		b.t.Fatal("Run did not return")
		return nil
	}
}

func (b *bundle) open() {
	select {
	case <-b.gate:
	default:
		close(b.gate)
	}
}

// idle waits until the daemon is in the fleet and sleeps: the exchange that armed
// it is answered.
func (b *bundle) idle() {
	b.t.Helper()
	b.push(job("Mark", "idle"))
	b.eventually("a first job runs", func() bool { return b.runs.ends("idle") == 1 && b.stat("processed") == 1 })
	b.redis.Do(b.t, "DEL", "resque:stat:processed")
}

func job(class, id string) string { return fmt.Sprintf(`{"class":%q,"args":[%q]}`, class, id) }

func jobs(class string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = job(class, fmt.Sprintf("%s%03d", class, i))
	}
	return all
}

// naps are n jobs that take from 0 to the given number of milliseconds.
func naps(n, most int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"class":"Nap","args":["nap%05d",%d]}`, i, i%(most+1))
	}
	return all
}

// push enqueues as Ruby does.
func (b *bundle) push(payloads ...string) { b.t.Helper(); b.pushTo("work", payloads...) }

func (b *bundle) pushTo(queue string, payloads ...string) {
	b.t.Helper()
	b.redis.Do(b.t, "SADD", "resque:queues", queue)
	args := []any{"resque:queue:" + queue}
	for _, p := range payloads {
		args = append(args, p)
	}
	b.redis.Do(b.t, "RPUSH", args...)
}

func (b *bundle) stat(name string) int {
	b.t.Helper()
	return b.redis.Int(b.t, "GET", "resque:stat:"+name)
}

func (b *bundle) queue(name string) []string {
	b.t.Helper()
	return b.redis.List(b.t, "LRANGE", "resque:queue:"+name, 0, -1)
}

func (b *bundle) failures() []payload.Failure {
	b.t.Helper()
	var all []payload.Failure
	for _, raw := range b.redis.List(b.t, "LRANGE", "resque:failed", 0, -1) {
		f, err := payload.ParseFailure([]byte(raw))
		if err != nil {
			b.t.Fatalf("failure record %s: %v", raw, err)
		}
		all = append(all, f)
	}
	return all
}

func (b *bundle) eventually(what string, cond func() bool) {
	b.t.Helper()
	defer func() {
		if b.t.Failed() {
			b.t.Log(b.log.text())
		}
	}()
	redistest.Eventually(b.t, soon, what, cond)
}

// process is the id under which the daemon is in the fleet.
func (b *bundle) process() string { return b.daemon.session().Process.ID }

// renewed waits until the lease was renewed n times from now on.
func (b *bundle) renewed(n int) {
	b.t.Helper()
	last := ""
	b.eventually("the lease is renewed", func() bool {
		now := b.redis.Text(b.t, "ZSCORE", "resque:go:processes", b.process())
		if now != "" && now != last {
			last = now
			n--
		}
		return n < 0
	})
}

// onlyTotals fails the test if keys are left other than queues, failures and the
// totals: what a daemon leaves behind.
func (b *bundle) onlyTotals() {
	b.t.Helper()
	for _, key := range b.redis.Keys(b.t) {
		_, name, _ := strings.Cut(key, ":") // whatever the namespace
		switch {
		case name == "queues", name == "failed", name == "stat:processed", name == "stat:failed":
		case strings.HasPrefix(name, "queue:"):
		case strings.HasPrefix(name, "go:probe:"): // expires a second after the connection was made
		default:
			b.t.Errorf("the key %s is left", key)
		}
	}
}

// runBook notes what handlers did.
type runBook struct {
	mu     sync.Mutex
	begun  map[string]int
	done   map[string]int
	causes map[string]error
}

func newRunBook() *runBook {
	return &runBook{begun: make(map[string]int), done: make(map[string]int), causes: make(map[string]error)}
}

func (r *runBook) start(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[id]++
}

func (r *runBook) end(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[id]++
}

func (r *runBook) cancelled(id string, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes[id] = cause
}

func (r *runBook) cause(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.causes[id]
}

func (r *runBook) starts(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun[id]
}

func (r *runBook) ends(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done[id]
}

// started is how many different jobs were started, ended how many came to an end.
func (r *runBook) started() int  { r.mu.Lock(); defer r.mu.Unlock(); return len(r.begun) }
func (r *runBook) finished() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.done) }

// twice returns the ids of the jobs that were started more than once.
func (r *runBook) twice() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, n := range r.begun {
		if n > 1 {
			ids = append(ids, id)
		}
	}
	return ids
}

// logBook is a slog.Handler that keeps lines.
type logBook struct {
	mu    sync.Mutex
	lines []string
}

func (l *logBook) Enabled(context.Context, slog.Level) bool { return true }
func (l *logBook) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logBook) WithGroup(string) slog.Handler            { return l }

func (l *logBook) Handle(_ context.Context, r slog.Record) error {
	line := r.Time.Format("05.000 ") + r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// count is how many lines contain a text.
func (l *logBook) count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (l *logBook) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := max(0, len(l.lines)-60)
	return strings.Join(l.lines[from:], "\n")
}
