// Package daemontest gives tests of a running daemon a Redis of their own, a daemon on
// it and books of what it did. It uses the public face of goworker only.
package daemontest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/goworker/goworker"
	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/payload"
	"github.com/goworker/goworker/internal/redistest"
)

// SafeBuffer is a log that a test reads while a daemon writes it.
type SafeBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *SafeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *SafeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// Soon is how long a test waits for what should happen at once.
const Soon = 2 * time.Minute

// Late is what a busy machine may add to a time that a process keeps.
const Late = 15 * time.Second

// Bundle is what most tests of a running daemon need: a Redis of their own, a
// daemon on it, and a book of what ran.
type Bundle struct {
	T     *testing.T
	Redis *redistest.Server
	// Settings are what the daemon was made with.
	Settings goworker.WorkerSettings
	Daemon   *goworker.Daemon
	Log      *LogBook
	Runs     *RunBook
	Ended    chan error // the result of Run

	Cancel context.CancelFunc
	Gate   chan struct{} // closed by open: Hold and Deaf end
}

// Setup starts a Redis and makes a daemon that works the queue "work" with four
// workers, wakes by signal only and knows these classes:
//
//	Mark id      ends at once
//	Nap id ms    ends after a while
//	Hold id      ends when the gate opens or its context is cancelled
//	Deaf id      ends when the gate opens, whatever its context says
//	Fail id      returns an error
//
// All are noted in the book of runs.
func Setup(t *testing.T, change ...func(*goworker.WorkerSettings)) *Bundle {
	t.Helper()
	return SetupOn(t, redistest.Start(t), change...)
}

func SetupOn(t *testing.T, server *redistest.Server, change ...func(*goworker.WorkerSettings)) *Bundle {
	t.Helper()
	b := &Bundle{T: t, Redis: server, Log: new(LogBook), Runs: NewRunBook(), Ended: make(chan error, 1), Gate: make(chan struct{})}
	s := goworker.WorkerSettings{
		QueuesString: "work", Concurrency: 4, PollInterval: time.Minute,
		URI: server.URI(), Logger: slog.New(b.Log),
	}
	for _, c := range change {
		c(&s)
	}
	b.Settings, b.Daemon = s, goworker.New(s)
	b.Register(b.Daemon)
	return b
}

func (b *Bundle) Register(d *goworker.Daemon) {
	for class, handler := range b.Classes() {
		d.Register(class, handler)
	}
}

// Classes are the handlers of the classes that Setup names.
func (b *Bundle) Classes() map[string]any {
	return map[string]any{
		"Mark": func(id string) { b.Runs.Start(id); b.Runs.End(id) },
		"Nap": func(id string, ms int) {
			b.Runs.Start(id)
			time.Sleep(time.Duration(ms) * time.Millisecond)
			b.Runs.End(id)
		},
		"Fail": func(id string) error { b.Runs.Start(id); b.Runs.End(id); return errors.New("no luck") },
		"Hold": func(ctx context.Context, id string) error {
			b.Runs.Start(id)
			select {
			case <-b.Gate:
				b.Runs.End(id)
				return nil
			case <-ctx.Done():
				b.Runs.Cancelled(id, context.Cause(ctx))
				return ctx.Err()
			}
		},
		"Deaf": func(id string) { b.Runs.Start(id); <-b.Gate; b.Runs.End(id) },
	}
}

// Start runs the daemon; the test's end stops it.
func (b *Bundle) Start() {
	b.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	b.Cancel = cancel
	go func() { b.Ended <- b.Daemon.Run(ctx) }()
	b.T.Cleanup(func() {
		b.Open()
		b.Redis.Resume()
		cancel()
		select {
		case err := <-b.Ended:
			b.Ended <- err
		case <-time.After(3 * Soon):
			b.T.Error("Run did not return")
		}
		b.Daemon.Close()
	})
}

// Stop ends the run and returns its error.
func (b *Bundle) Stop() error {
	b.T.Helper()
	b.Cancel()
	return b.Wait()
}

func (b *Bundle) Wait() error {
	b.T.Helper()
	select {
	case err := <-b.Ended:
		b.Ended <- err
		return err
	case <-time.After(2 * Soon):
		b.T.Fatal("Run did not return")
		return nil
	}
}

func (b *Bundle) Open() {
	select {
	case <-b.Gate:
	default:
		close(b.Gate)
	}
}

// Idle waits until the daemon is in the fleet and sleeps: the exchange that armed
// it is answered.
func (b *Bundle) Idle() {
	b.T.Helper()
	b.Push(Job("Mark", "idle"))
	b.Eventually("a first job runs", func() bool { return b.Runs.Ends("idle") == 1 && b.Stat("processed") == 1 })
	b.Redis.Do(b.T, "DEL", "resque:stat:processed")
}

func Job(class, id string) string { return fmt.Sprintf(`{"class":%q,"args":[%q]}`, class, id) }

func Jobs(class string, n int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = Job(class, fmt.Sprintf("%s%03d", class, i))
	}
	return all
}

// Naps are n jobs that take from 0 to the given number of milliseconds.
func Naps(n, most int) []string {
	all := make([]string, n)
	for i := range all {
		all[i] = fmt.Sprintf(`{"class":"Nap","args":["nap%05d",%d]}`, i, i%(most+1))
	}
	return all
}

// Push enqueues as Ruby does.
func (b *Bundle) Push(payloads ...string) { b.T.Helper(); b.PushTo("work", payloads...) }

func (b *Bundle) PushTo(queue string, payloads ...string) {
	b.T.Helper()
	b.Redis.Do(b.T, "SADD", "resque:queues", queue)
	args := []any{"resque:queue:" + queue}
	for _, p := range payloads {
		args = append(args, p)
	}
	b.Redis.Do(b.T, "RPUSH", args...)
}

func (b *Bundle) Stat(name string) int {
	b.T.Helper()
	return b.Redis.Int(b.T, "GET", "resque:stat:"+name)
}

func (b *Bundle) Queue(name string) []string {
	b.T.Helper()
	return b.Redis.List(b.T, "LRANGE", "resque:queue:"+name, 0, -1)
}

func (b *Bundle) Failures() []payload.Failure {
	b.T.Helper()
	var all []payload.Failure
	for _, raw := range b.Redis.List(b.T, "LRANGE", "resque:failed", 0, -1) {
		f, err := payload.ParseFailure([]byte(raw))
		if err != nil {
			b.T.Fatalf("failure record %s: %v", raw, err)
		}
		all = append(all, f)
	}
	return all
}

func (b *Bundle) Eventually(what string, cond func() bool) {
	b.T.Helper()
	defer func() {
		if b.T.Failed() {
			b.T.Log(b.Log.Text())
			select {
			case err := <-b.Ended: // perhaps at its start, where the log has nothing of it
				b.T.Log("the daemon has ended with", err)
				b.Ended <- err
			default:
			}
		}
	}()
	redistest.Eventually(b.T, Soon, what, cond)
}

// Reaches waits until a number has risen to n, for as long as it moves: on a busy machine many jobs take their time.
func (b *Bundle) Reaches(what string, n int, number func() int) {
	b.T.Helper()
	for last := number(); last < n; {
		was := last
		b.Eventually(fmt.Sprintf("%d %s become more, up to %d", was, what, n), func() bool { last = number(); return last != was })
	}
}

// Operator is a client of an operator, whose Redis user may read what a worker's may not.
func (b *Bundle) Operator() *goworker.Client {
	b.T.Helper()
	c, err := goworker.NewClient(goworker.WorkerSettings{URI: "redis://" + b.Redis.Addr, Namespace: b.Settings.Namespace})
	if err != nil {
		b.T.Fatal(err)
	}
	b.T.Cleanup(c.Close)
	return c
}

// Inspect asks as an operator.
func (b *Bundle) Inspect() *inspect.Inspector { return b.Operator().Inspect() }

// Process is the id under which the daemon is in the fleet, as its log says. Redis may have the process before the log does: then
// it waits.
func (b *Bundle) Process() string {
	b.T.Helper()
	if b.Log.Process() == "" {
		b.Eventually("the log says as which process the daemon has started", func() bool { return b.Log.Process() != "" })
	}
	return b.Log.Process()
}

// Renewed waits until the lease was renewed n times from now on.
func (b *Bundle) Renewed(n int) {
	b.T.Helper()
	last := ""
	b.Eventually("the lease is renewed", func() bool {
		now := b.Redis.Text(b.T, "ZSCORE", "resque:go:processes", b.Process())
		if now != "" && now != last {
			last = now
			n--
		}
		return n < 0
	})
}

// OnlyTotals fails the test if keys are left other than queues, failures and the
// totals: what a daemon leaves behind.
func (b *Bundle) OnlyTotals() {
	b.T.Helper()
	for _, key := range b.Redis.Keys(b.T) {
		_, name, _ := strings.Cut(key, ":") // whatever the namespace
		switch {
		case name == "queues", name == "failed", name == "stat:processed", name == "stat:failed":
		case strings.HasPrefix(name, "queue:"):
		case strings.HasPrefix(name, "go:unique:") && strings.HasSuffix(name, ":refused"): // a count, which expires
		case strings.HasPrefix(name, "go:probe:"): // expires a second after the connection was made
		case OfHistory(name):
		default:
			b.T.Errorf("the key %s is left", key)
		}
	}
}

// OfHistory reports whether a key, without its namespace, belongs to the history of the fleet or the ages of its queues, which stay.
func OfHistory(name string) bool {
	rest, own := strings.CutPrefix(name, "go:")
	return own && (slices.Contains([]string{"log", "tally", "folded", "taken", "depths"}, rest) || len(rest) > 2 && rest[1] == ':' && strings.ContainsRune("mxhd", rune(rest[0])))
}

// RunBook notes what handlers did.
type RunBook struct {
	mu     sync.Mutex
	begun  map[string]int
	done   map[string]int
	causes map[string]error
}

func NewRunBook() *RunBook {
	return &RunBook{begun: make(map[string]int), done: make(map[string]int), causes: make(map[string]error)}
}

func (r *RunBook) Start(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun[id]++
}

func (r *RunBook) End(id string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done[id]++
}

func (r *RunBook) Cancelled(id string, cause error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.causes[id] = cause
}

func (r *RunBook) Cause(id string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.causes[id]
}

func (r *RunBook) Starts(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.begun[id]
}

func (r *RunBook) Ends(id string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done[id]
}

// Started is how many different jobs were started, ended how many came to an end.
func (r *RunBook) Started() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.begun) }

func (r *RunBook) Finished() int { r.mu.Lock(); defer r.mu.Unlock(); return len(r.done) }

// Twice returns the ids of the jobs that were started more than once.
func (r *RunBook) Twice() []string {
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

// LogBook is a slog.Handler that keeps lines.
type LogBook struct {
	mu    sync.Mutex
	lines []string
}

func (l *LogBook) Enabled(context.Context, slog.Level) bool { return true }

func (l *LogBook) WithAttrs([]slog.Attr) slog.Handler { return l }

func (l *LogBook) WithGroup(string) slog.Handler { return l }

func (l *LogBook) Handle(_ context.Context, r slog.Record) error {
	line := r.Time.Format("05.000 ") + r.Level.String() + " " + r.Message
	r.Attrs(func(a slog.Attr) bool { line += " " + a.String(); return true })
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, line)
	return nil
}

// Count is how many lines contain a text.
func (l *LogBook) Count(part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range l.lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func (l *LogBook) Text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	from := max(0, len(l.lines)-60)
	return strings.Join(l.lines[from:], "\n")
}

func Past() goworker.EnqueueOption { return goworker.ExpiresAt(time.Now().Add(-time.Hour)) }

// These tests give a daemon the jobs of the recordings made of Ruby Resque and
// compare the keys it leaves with those that Ruby left.

var Quiet = slog.New(slog.NewTextHandler(io.Discard, nil))

func Leaving(s *goworker.WorkerSettings) { s.LeaveUnknown = true }

var inFleet = regexp.MustCompile(`(?:started|in the fleet again) process=(\S+)`)

// Process is the id under which the daemon was in the fleet last; "" before it was.
func (l *LogBook) Process() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, line := range slices.Backward(l.lines) {
		if found := inFleet.FindStringSubmatch(line); found != nil {
			return found[1]
		}
	}
	return ""
}

// WantPanic calls a function that is to panic with a text that contains another; "": that
// is not to panic.
func WantPanic(t *testing.T, want string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		v := recover()
		if want == "" && v != nil || want != "" && !strings.Contains(fmt.Sprint(v), want) {
			t.Errorf("panic %v, want %q", v, want)
		}
	}()
	f()
}
