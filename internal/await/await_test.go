package await

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/clock"
	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/link"
	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/part"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

func TestMain(m *testing.M) { redistest.Main(m) }

const patience = time.Minute

// logs is a log that a test reads while it is written.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.text.String(), text)
}

// bundle is a server and a Watcher of it.
type bundle struct {
	t testing.TB
	*redistest.Server
	s    resque.Store
	w    *Watcher
	logs *logs
}

var errEnd = errors.New("the test is over")

func setup(t testing.TB) *bundle {
	s := redistest.Start(t)
	return setupAt(t, s, s.URI())
}

func setupAt(t testing.TB, s *redistest.Server, uri string) *bundle {
	t.Helper()
	d, err := conn.NewDialer(t.Context(), conn.Config{URI: uri, ConnectTimeout: time.Minute, ReadTimeout: time.Minute}, nil) // a busy machine is slow
	if err != nil {
		t.Fatal(err)
	}
	b := &bundle{t: t, Server: s, s: resque.New(""), logs: new(logs)}
	b.w = b.watcher(d)
	return b
}

func (b *bundle) watcher(d conn.Dialer) *Watcher {
	log := slog.New(slog.NewTextHandler(b.logs, nil))
	w := New(part.Base{Log: log, Outages: logging.NewOutages(log, clock.System), Store: b.s, Dialer: d, Clock: clock.System}, true)
	b.t.Cleanup(func() { w.Close(errEnd) })
	return w
}

func (b *bundle) set(id, state string, fields ...any) {
	b.t.Helper()
	b.Do(b.t, "HSET", append([]any{b.s.KeyOfResult(id), "state", state}, fields...)...)
}

func (b *bundle) del(id string) { b.t.Helper(); b.Do(b.t, "DEL", b.s.KeyOfResult(id)) }

// end is what a wait returned.
type end struct {
	status inspect.Status
	err    error
}

// wait starts a wait and returns when its document has been read.
func (b *bundle) wait(id string) <-chan end {
	b.t.Helper()
	ends := b.start(b.t.Context(), id)
	b.armed(id)
	return ends
}

func (b *bundle) start(ctx context.Context, id string) <-chan end {
	ends := make(chan end, 1)
	go func() {
		s, err := b.w.Wait(ctx, id)
		ends <- end{s, err}
	}()
	return ends
}

// armed returns when all waits for a job have been read and Redis notifies of its changes.
func (b *bundle) armed(id string) {
	b.t.Helper()
	redistest.Eventually(b.t, patience, "the document of "+id+" was read", func() bool {
		b.w.mu.Lock()
		defer b.w.mu.Unlock()
		j := b.w.jobs[id]
		return j != nil && !j.due && len(j.waits) > 0 && j.waits[len(j.waits)-1].read
	})
}

func (b *bundle) got(ends <-chan end) end {
	b.t.Helper()
	select {
	case e := <-ends:
		return e
	case <-time.After(patience):
		b.t.Fatal("the wait did not end")
		return end{}
	}
}

// is fails unless a wait ended in a state.
func (b *bundle) is(ends <-chan end, state inspect.State) {
	b.t.Helper()
	if e := b.got(ends); e.err != nil || e.status.State != state {
		b.t.Errorf("the wait ended with %q, %v; want %s", e.status.State, e.err, state)
	}
}

func (b *bundle) isErr(ends <-chan end, want error) {
	b.t.Helper()
	if e := b.got(ends); !errors.Is(e.err, want) {
		b.t.Errorf("the wait ended with %+v, %v; want %v", e.status, e.err, want)
	}
}

func TestWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	if _, err := b.w.Wait(t.Context(), "unknown"); !errors.Is(err, inspect.ErrNoResult) || !strings.Contains(err.Error(), "job unknown") {
		t.Errorf("an unknown job: %v", err)
	}
	b.set("over", "done", "result", "7")
	if s, err := b.w.Wait(t.Context(), "over"); err != nil || string(s.Result) != "7" {
		t.Errorf("a job that was over: %+v, %v", s, err)
	}
	for _, state := range []inspect.State{"done", "failed", "discarded", "expired", "cancelled"} {
		b.set("j", "pending")
		ends, twin := b.wait("j"), b.wait("j")
		for _, before := range []string{"running", "retrying", "snoozed", "pending", "of another version"} {
			b.set("j", before)
		}
		b.set("j", string(state))
		b.is(ends, state)
		b.is(twin, state)
	}
	b.Do(t, "SET", b.s.KeyOfResult("text"), "x")
	if _, err := b.w.Wait(t.Context(), "text"); err == nil || !strings.Contains(err.Error(), "is not a hash") {
		t.Errorf("a key of another type: %v", err)
	}
	b.set("turns", "running")
	ends := b.wait("turns")
	b.Do(t, "SET", b.s.KeyOfResult("turns"), "x")
	if e := b.got(ends); e.err == nil || !strings.Contains(e.err.Error(), "is not a hash") {
		t.Errorf("a key that turned into another type: %v", e.err)
	}
	if n := b.logs.count("level"); n > 0 {
		t.Errorf("%d log lines: %s", n, b.logs.text.String())
	}
}

// A document that vanishes ends its waits.
func TestWaitForVanishing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	vanish := map[string]func(id string){
		"forgotten": b.del,
		"expired":   func(id string) { b.Do(t, "PEXPIRE", b.s.KeyOfResult(id), 300) },
		"flushed":   func(string) { b.Do(t, "FLUSHALL") },
		"renamed":   func(id string) { b.Do(t, "RENAME", b.s.KeyOfResult(id), "x") },
	}
	for name, f := range vanish {
		b.set(name, "running")
		ends := b.wait(name)
		f(name)
		b.isErr(ends, inspect.ErrNoResult)
	}
}

// The end of the context ends a wait at once, and no other.
func TestWaitContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.set("j", "running")
	other := b.wait("j")
	cause := errors.New("the user left")
	ctx, cancel := context.WithCancelCause(t.Context())
	ends := b.start(ctx, "j")
	b.armed("j")
	cancel(cause)
	e := b.got(ends)
	if !errors.Is(e.err, context.Canceled) || !errors.Is(e.err, cause) || !strings.Contains(e.err.Error(), "waiting for job j") {
		t.Errorf("%v", e.err)
	}
	if _, err := b.w.Wait(ctx, "j"); !errors.Is(err, cause) {
		t.Errorf("a context that was over: %v", err)
	}
	b.set("j", "done")
	b.is(other, inspect.StateDone)
	if jobs, _ := b.w.waiters(); jobs != 0 {
		t.Errorf("%d jobs are still waited for", jobs)
	}
}

func TestClose(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.set("j", "running")
	ends := b.wait("j")
	b.w.Close(errEnd)
	b.w.Close(errors.New("another reason"))
	b.isErr(ends, errEnd)
	if _, err := b.w.Wait(t.Context(), "j"); !errors.Is(err, errEnd) {
		t.Errorf("after Close: %v", err)
	}
	for _, err := range b.w.Watch(t.Context(), "j") {
		if !errors.Is(err, errEnd) {
			t.Errorf("a Watch after Close: %v", err)
		}
	}
}

// clients counts the connections to the server beside those of the test.
func (b *bundle) clients() int {
	n := 0
	for line := range strings.Lines(b.Text(b.t, "CLIENT", "LIST")) {
		if !strings.Contains(line, "cmd=client") { // our own
			n++
		}
	}
	return n
}

// The connections go a while after the last waiter, and come back with the next.
func TestLinger(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.w.linger = 50 * time.Millisecond
	for range 3 {
		b.set("j", "running")
		ends := b.wait("j")
		redistest.Eventually(t, patience, "there are two connections while one waits", func() bool { return b.clients() == 2 }) // the test's own go
		b.set("j", "done")
		b.is(ends, inspect.StateDone)
		redistest.Eventually(t, patience, "the connections are closed", func() bool { return b.clients() == 0 })
	}
}

// Ten thousand waiters use two connections, and each gets its own end.
func TestManyWaiters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	const waiters = 10_000
	c := b.Dial(t)
	send := func(command string, args ...any) {
		if err := c.Send(command, args...); err != nil {
			t.Fatal(err)
		}
	}
	key := func(i int) string { return b.s.KeyOfResult(fmt.Sprint(i)) }
	for i := range waiters {
		send("HSET", key(i), "state", "pending")
	}
	if _, err := c.Do(""); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range waiters {
		wg.Go(func() {
			s, err := b.w.Wait(t.Context(), fmt.Sprint(i))
			if err != nil || string(s.Result) != fmt.Sprint(i) {
				t.Errorf("job %d: %s, %v", i, s.Result, err)
			}
		})
	}
	redistest.Eventually(t, patience, "all wait", func() bool { jobs, due := b.w.waiters(); return jobs == waiters && !due })
	three := func() bool { return b.clients() == 3 } // with c; the test's others go
	redistest.Eventually(t, patience, "there are three connections", three)
	for i := range waiters {
		send("HSET", key(i), "state", "done", "result", i)
	}
	if _, err := c.Do(""); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	redistest.Eventually(t, patience, "there are three connections still", three)
}

// However slowly the messages pass, nothing falls between a read and a change, and no wait ends with what was before it.
func TestSlowMessages(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := s.StartProxy(t)
	b := setupAt(t, s, strings.Replace(s.URI(), s.Addr, proxy.Addr, 1))
	proxy.Delay(2 * time.Millisecond)
	var wg sync.WaitGroup
	for n := range 20 {
		wg.Go(func() {
			c := s.Dial(t)
			for round := range 20 {
				id := fmt.Sprint(n%10, "-", round) // two goroutines wait for each
				if n < 10 {
					for _, state := range []string{"pending", "running", "retrying", "running", "done"} {
						_, _ = c.Do("HSET", b.s.KeyOfResult(id), "state", state)
						time.Sleep(rand.N(5 * time.Millisecond))
					}
				}
				for {
					e, err := b.w.Wait(t.Context(), id)
					if errors.Is(err, inspect.ErrNoResult) && n >= 10 { // it does not exist yet
						continue
					}
					if err != nil || e.State != inspect.StateDone {
						t.Errorf("%s: %+v, %v", id, e, err)
					}
					break
				}
			}
		})
	}
	wg.Wait()
}

// An answer that was on its way before a wait began does not end it: its job may have been enqueued since.
func TestStaleAnswer(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	proxy := s.StartProxy(t)
	b := setupAt(t, s, strings.Replace(s.URI(), s.Addr, proxy.Addr, 1))
	b.set("warm", "running")
	b.wait("warm")
	for range 3 {
		b.del("j")
		reads := b.reads()
		release := proxy.Hold()
		first := b.start(t.Context(), "j")
		redistest.Eventually(t, patience, "Redis has read that there is none", func() bool { return b.reads() > reads })
		b.set("j", "pending")
		second := b.start(t.Context(), "j")
		redistest.Eventually(t, patience, "both wait", func() bool {
			b.w.mu.Lock()
			defer b.w.mu.Unlock()
			return len(b.w.jobs["j"].waits) == 2
		})
		release()
		b.isErr(first, inspect.ErrNoResult)
		b.armed("j")
		b.set("j", "done")
		b.is(second, inspect.StateDone)
	}
}

// reads counts the documents that Redis has read.
func (b *bundle) reads() (n int) {
	_, calls, _ := strings.Cut(b.Text(b.t, "INFO", "commandstats"), "cmdstat_hgetall:calls=")
	_, _ = fmt.Sscan(strings.SplitN(calls, ",", 2)[0], &n)
	return n
}

// kill ends connections of the watcher.
func (b *bundle) kill(kind string) { b.Do(b.t, "CLIENT", "KILL", "TYPE", kind) }

// Waits go on when a connection breaks, and find what changed meanwhile.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"normal", "pubsub"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			for round := range 3 {
				b.set("j", "running")
				ends, before := b.wait("j"), b.logs.count("redis available again")
				b.kill(kind)
				over := func() bool { return b.logs.count("redis available again") > before }
				if round > 0 {
					redistest.Eventually(t, patience, "it is noticed", over)
				}
				b.set("j", "done")
				b.is(ends, inspect.StateDone)
				redistest.Eventually(t, patience, "it is over", over)
			}
		})
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	b := setupAt(t, s, s.URI())
	b.set("j", "running")
	b.set("gone", "running")
	ends, gone := b.wait("j"), b.wait("gone")
	b.Kill()
	redistest.Eventually(t, patience, "the outage is noticed", func() bool { return b.logs.count("redis unavailable") == 1 })
	if _, err := b.w.Wait(t.Context(), "j"); err == nil || !strings.HasPrefix(err.Error(), "goworker: ") {
		t.Errorf("a wait that begins without Redis: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	if _, err := b.w.Wait(ctx, "j"); err == nil {
		t.Error("no error without Redis")
	}
	b.Restart(t)
	b.del("gone")
	b.isErr(gone, inspect.ErrNoResult)
	b.armed("j")
	b.set("j", "done")
	b.is(ends, inspect.StateDone)
	if n := b.logs.count("level=WARN"); n != 1 {
		t.Errorf("%d warnings: %s", n, b.logs.text.String())
	}
}

// What a wait says of its end while Redis is away names the reason.
func TestContextWithoutRedis(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.set("j", "running")
	ctx, cancel := context.WithCancel(t.Context())
	ends := b.start(ctx, "j")
	b.armed("j")
	b.Kill()
	redistest.Eventually(t, patience, "the outage is noticed", func() bool { return b.logs.count("redis unavailable") > 0 })
	cancel()
	if e := b.got(ends); !errors.Is(e.err, context.Canceled) || !strings.Contains(e.err.Error(), "Redis could not be asked") {
		t.Errorf("%v", e.err)
	}
}

// Where the server does not let the messages through, documents are read again and again. The log says so once.
func TestPolling(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	for name, rules := range map[string][]any{"no tracking": {"-client|tracking"}, "no channel": {"resetchannels"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := redistest.Start(t)
			s.Do(t, "ACL", append([]any{"SETUSER", "waiter", "on", ">pw", "+@all", "~resque:*", "&*"}, rules...)...)
			b := setupAt(t, s, "redis://waiter:pw@"+s.Addr)
			b.w.linger = 10 * time.Millisecond
			for range 2 {
				b.set("j", "running")
				ends := b.wait("j")
				b.set("j", "done")
				b.is(ends, inspect.StateDone)
				b.set("j", "running")
				ends = b.wait("j")
				b.del("j")
				b.isErr(ends, inspect.ErrNoResult)
				redistest.Eventually(t, patience, "the connection is closed", func() bool { return b.clients() == 0 })
			}
			if n := b.logs.count("those that are waited for are read every 250ms"); n != 1 || b.logs.count("level") != 1 {
				t.Errorf("%d log lines: %s", n, b.logs.text.String())
			}
		})
	}
}

// A user who may not read documents is an error for those that wait, and not a silent wait.
func TestNoPermission(t *testing.T) {
	t.Parallel()
	redistest.OwnUser(t)
	s := redistest.Start(t)
	s.Do(t, "ACL", "SETUSER", "waiter", "on", ">pw", "+@all", "-hgetall", "~resque:*", "&*")
	b := setupAt(t, s, "redis://waiter:pw@"+s.Addr)
	if _, err := b.w.Wait(t.Context(), "j"); err == nil || !strings.Contains(err.Error(), "extend its ACL") {
		t.Errorf("%v", err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.set("j", "pending")
	statuses := make(chan inspect.Status)
	var failed error
	go func() {
		defer close(statuses)
		for s, err := range b.w.Watch(t.Context(), "j") {
			if failed = err; err == nil {
				statuses <- s
			}
		}
	}()
	next := func(what string, fits func(inspect.Status) bool) {
		t.Helper()
		select {
		case s := <-statuses:
			if !fits(s) {
				t.Errorf("%s: %+v", what, s)
			}
		case <-time.After(patience):
			t.Fatalf("no Status: %s", what)
		}
	}
	next("now", func(s inspect.Status) bool { return s.State == inspect.StatePending && s.Progress == nil })
	b.set("j", "running", "attempt", 1)
	next("running", func(s inspect.Status) bool { return s.State == inspect.StateRunning && s.Attempt == 1 })
	b.Do(t, "SET", b.s.KeyOfProgress("j"), `{"done":1,"total":3}`)
	next("progress", func(s inspect.Status) bool { return s.Progress != nil && s.Progress.Done == 1 })
	b.set("j", "running", "attempt", 1) // no change
	for i := range 1000 {
		b.Do(t, "SET", b.s.KeyOfProgress("j"), fmt.Sprintf(`{"done":%d}`, i+2))
	}
	for n, last := 0, int64(1); last < 1001; n++ {
		next("a later progress", func(s inspect.Status) bool {
			was := last
			last = s.Progress.Done
			return last > was && n < 1000
		})
	}
	b.set("j", "done", "result", "1")
	next("the end", func(s inspect.Status) bool { return s.State == inspect.StateDone && string(s.Result) == "1" })
	if _, more := <-statuses; more || failed != nil {
		t.Errorf("after the end: %v, %v", more, failed)
	}
}

// A Watch ends with its loop, its context and its document.
func TestWatchEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.set("j", "running")
	for range b.w.Watch(t.Context(), "j") {
		break
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var errs []error
	for _, err := range b.w.Watch(ctx, "j") {
		errs = append(errs, err)
		cancel()
	}
	if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], context.Canceled) {
		t.Errorf("a context that ends: %v", errs)
	}
	errs = nil
	for _, err := range b.w.Watch(t.Context(), "j") {
		errs = append(errs, err)
		b.del("j")
	}
	if len(errs) != 2 || errs[0] != nil || !errors.Is(errs[1], inspect.ErrNoResult) {
		t.Errorf("a document that vanishes: %v", errs)
	}
	if jobs, _ := b.w.waiters(); jobs != 0 {
		t.Errorf("%d jobs are still waited for", jobs)
	}
}

// At most ten a second, and always the latest.
func TestWatchPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := New(part.Base{Clock: clock.System}, true)
		w.running = true // without connections: the test gives the answers
		began, seen := time.Now(), 0
		go func() {
			for i := range 100 {
				time.Sleep(10 * time.Millisecond)
				w.take(1)
				w.give("j", resque.DocumentRead{There: true, Document: resque.Document{ID: "j", State: "running", Attempt: i}})
			}
			w.give("j", resque.DocumentRead{There: true, Document: resque.Document{ID: "j", State: "done"}})
		}()
		for s, err := range w.Watch(t.Context(), "j") {
			if seen++; err != nil || s.State == inspect.StateRunning && s.Attempt < int(time.Since(began)/(10*time.Millisecond))-2 {
				t.Errorf("after %v: %+v, %v", time.Since(began), s, err)
			}
		}
		if seen < 10 || seen > 12 {
			t.Errorf("%d Statuses in %v", seen, time.Since(began))
		}
	})
}

// Large results are read in smaller portions, so that they are not all in memory at a time.
func TestLargeResults(t *testing.T) {
	t.Parallel()
	b := setup(t)
	large := strings.Repeat("x", 1<<20)
	s := &session{Watcher: b.w, most: readMost}
	d, err := conn.NewDialer(t.Context(), conn.Config{URI: b.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	w := b.watcher(d)
	var asks []resque.DocumentAsk
	for i := range 8 {
		id := fmt.Sprint(i)
		b.set(id, "done", "result", large)
		asks = append(asks, resque.DocumentAsk{ID: id})
		if s, err := w.Wait(t.Context(), id); err != nil || len(s.Result) != len(large) {
			t.Errorf("%d bytes, %v", len(s.Result), err)
		}
	}
	if s.pair, err = link.DialPair(t.Context(), b.w.base, nil, pingEvery, b.w.signal); err != nil {
		t.Fatal(err)
	}
	defer s.pair.Shut()
	if err := s.read(asks); err != nil || s.most > 8 {
		t.Errorf("after large results %d are read in one go, %v", s.most, err)
	}
	for range 10 {
		if err := s.read([]resque.DocumentAsk{{ID: "unknown"}}); err != nil {
			t.Fatal(err)
		}
	}
	if s.most != readMost {
		t.Errorf("after small ones %d are read in one go", s.most)
	}
}
