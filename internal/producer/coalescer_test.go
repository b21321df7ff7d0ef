package producer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/outcome"
	"github.com/goworker/goworker/internal/redistest"
	"github.com/goworker/goworker/internal/resque"
)

// line is a client with one connection, of which each answer to a push is held until the test lets it pass.
type line struct {
	t      *testing.T
	server *redistest.Server
	client *Client
	set    *outcome.Set
	gate   chan error // each answer takes a value: nil lets it pass, and another one breaks the connection

	pushes sync.WaitGroup
	mu     sync.Mutex
	ends   map[string]end // by the name of the job
}

// end is what a push returned.
type end struct {
	receipts []Receipt
	err      error
}

// gated is a connection of a line.
type gated struct {
	redis.Conn
	gate   chan error
	closed chan struct{}
	once   sync.Once
}

func (g *gated) Close() error {
	g.once.Do(func() { close(g.closed) })
	return g.Conn.Close()
}

func (g *gated) pass() error {
	select {
	case err := <-g.gate:
		if err != nil {
			_ = g.Close()
		}
		return err
	case <-g.closed:
		return net.ErrClosed
	}
}

func (g *gated) Do(command string, args ...any) (any, error) {
	reply, err := g.Conn.Do(command, args...)
	if (strings.HasPrefix(command, "EVAL") || command == "" && reply != nil) && err == nil {
		if err := g.pass(); err != nil {
			return nil, err
		}
	}
	return reply, err
}

func (g *gated) Flush() error {
	if err := g.Conn.Flush(); err != nil {
		return err
	}
	return g.pass()
}

// gates is the Dialer of a line.
type gates struct {
	conn.Dialer
	gate chan error
}

func (g gates) Dial(ctx context.Context) (redis.Conn, error) {
	c, err := g.Dialer.Dial(ctx)
	if err != nil {
		return nil, err
	}
	return &gated{Conn: c, gate: g.gate, closed: make(chan struct{})}, nil
}

func newLine(t *testing.T) *line {
	t.Helper()
	l := &line{t: t, server: redistest.Start(t), gate: make(chan error), ends: make(map[string]end)}
	dialer, err := conn.NewDialer(t.Context(), conn.Config{URI: l.server.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	l.client, l.set = setup(t, l.server, 1)
	for _, kind := range []*outcome.Options{nil, options(locked("first", false))} { // Redis has the scripts
		if r, err := l.client.Enqueue(t.Context(), l.set, []outcome.Push{{Queue: "first", Name: "C", Options: kind}}); err != nil || len(r) != 1 {
			t.Fatal(r, err)
		}
	}
	l.use(conn.NewPool(gates{dialer, l.gate}, 1))
	return l
}

// use replaces the connections.
func (l *line) use(p *conn.Pool) {
	l.client.Pool.Close(errors.New("replaced"))
	l.client.Pool, l.client.Coalescer = p, new(Coalescer)
	l.t.Cleanup(func() { p.Close(errors.New("closed")) })
}

// push pushes a job in a goroutine. Its name says which it is.
func (l *line) push(ctx context.Context, name, queue string, opts *outcome.Options) {
	l.pushes.Go(func() {
		receipts, err := l.client.Enqueue(ctx, l.set, []outcome.Push{{Queue: queue, Name: "C", Args: []any{name}, Options: opts}})
		l.mu.Lock()
		defer l.mu.Unlock()
		l.ends[name] = end{receipts, err}
	})
}

// hold pushes a job whose answer is held.
func (l *line) hold() {
	l.t.Helper()
	l.push(l.t.Context(), "held", "q", nil)
	redistest.Eventually(l.t, 10*time.Second, "a push is held", func() bool { return l.count("held") == 1 })
}

// answer lets answers pass. With an error the connection breaks instead.
func (l *line) answer(errs ...error) {
	for _, err := range errs {
		l.gate <- err
	}
}

// wait waits until so many pushes wait for those before them.
func (l *line) wait(n int) {
	l.t.Helper()
	redistest.Eventually(l.t, 10*time.Second, fmt.Sprint(n, " pushes wait"), func() bool {
		l.client.Coalescer.mu.Lock()
		defer l.client.Coalescer.mu.Unlock()
		return len(l.client.Coalescer.waiting) == n
	})
}

// idle waits until no call is under way.
func (l *line) idle() {
	l.t.Helper()
	redistest.Eventually(l.t, 10*time.Second, "no call is under way", func() bool {
		l.client.Coalescer.mu.Lock()
		defer l.client.Coalescer.mu.Unlock()
		return l.client.Coalescer.calls == 0
	})
}

// count returns how often a job is in a queue.
func (l *line) count(name string) (n int) {
	for _, jobs := range waiting(l.t, l.server) {
		for _, job := range jobs {
			if strings.Contains(job, fmt.Sprintf(`"args":[%q]`, name)) {
				n++
			}
		}
	}
	return n
}

// calls counts the calls of scripts that Redis has had.
func (l *line) calls() (n int) {
	for line := range strings.FieldsSeq(l.server.Text(l.t, "INFO", "commandstats")) {
		var calls int
		if _, err := fmt.Sscanf(line, "cmdstat_evalsha:calls=%d,", &calls); err == nil {
			n = calls
		}
	}
	return n
}

// ended lets all answers pass, and returns what the pushes returned.
func (l *line) ended() map[string]end {
	all := make(chan struct{})
	go func() { l.pushes.Wait(); close(all) }()
	for {
		select {
		case l.gate <- nil:
			continue
		case <-all:
		}
		break
	}
	return l.ends
}

// Pushes that come while one is under way go in one call, and each caller has its own receipt.
func TestPushesGoTogether(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.hold()
	before := l.calls()
	for i := range 50 {
		l.push(t.Context(), fmt.Sprint("plain", i), fmt.Sprint("q", i%3), nil)
	}
	for i := range 50 {
		l.push(t.Context(), fmt.Sprint("unique", i), "q", options(locked(fmt.Sprint("lock", i), false)))
	}
	l.wait(100)
	ids := make(map[string]bool)
	for name, e := range l.ended() {
		if e.err != nil || len(e.receipts) != 1 || e.receipts[0].Err != nil {
			t.Errorf("%s: %+v, %v", name, e.receipts, e.err)
			continue
		}
		if n := l.count(name); n != 1 {
			t.Errorf("%s is %d times in its queue", name, n)
		}
		if id := e.receipts[0].ID; id != "" {
			ids[id] = true
		}
	}
	if len(ids) != 50 || len(l.ends) != 101 {
		t.Errorf("%d pushes had %d ids", len(l.ends), len(ids))
	}
	if n := l.calls() - before; n != 2 { // those of plain jobs, and those of unique ones
		t.Errorf("%d calls", n)
	}
	l.client.Coalescer.mu.Lock()
	defer l.client.Coalescer.mu.Unlock()
	if g := l.client.Coalescer; len(g.waiting) > 0 {
		t.Errorf("%d still wait", len(g.waiting))
	}
}

// What Redis refuses of one push is no matter of those that it went with.
func TestRefusedPushHarmsNoOther(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.server.Do(t, "SET", "resque:queue:spoiled", "text")
	l.hold()
	l.push(t.Context(), "spoiled", "spoiled", nil)
	l.push(t.Context(), "spoiled-unique", "spoiled", options(locked("a", false)))
	l.push(t.Context(), "expiring", "q", options(expiring))
	for i := range 3 {
		l.push(t.Context(), fmt.Sprint("good", i), "q", nil)
		l.push(t.Context(), fmt.Sprint("same", i), "q", options(locked("b", false)))
		l.push(t.Context(), fmt.Sprint("own", i), "q", options(locked(fmt.Sprint("c", i), false)))
	}
	l.wait(12)
	same, held := 0, 0
	for name, e := range l.ended() {
		wrong := strings.HasPrefix(name, "spoiled")
		switch refused := e.err; {
		case wrong:
			if refused == nil || len(e.receipts) > 0 || !strings.Contains(refused.Error(), "pushing 1 job to queue spoiled: ") || !strings.Contains(refused.Error(), "WRONGTYPE") || Unconfirmed(refused) {
				t.Errorf("%s: %+v, %v", name, e.receipts, refused)
			}
		case refused != nil || len(e.receipts) != 1:
			t.Errorf("%s: %+v, %v", name, e.receipts, refused)
		case strings.HasPrefix(name, "same") && e.receipts[0].Err != nil:
			if !errors.As(e.receipts[0].Err, new(*Duplicate)) {
				t.Errorf("%s: %v", name, e.receipts[0].Err)
			}
			if held++; l.count(name) != 0 {
				t.Errorf("%s is a duplicate and was pushed", name)
			}
			continue
		case strings.HasPrefix(name, "same"):
			same++
		case e.receipts[0].Err != nil:
			t.Errorf("%s: %v", name, e.receipts[0].Err)
		}
		if n := l.count(name); n != map[bool]int{false: 1}[wrong] {
			t.Errorf("%s is %d times in its queue", name, n)
		}
	}
	if same != 1 || held != 2 {
		t.Errorf("of jobs with the same lock %d were pushed, and %d refused", same, held)
	}
}

// The end of a context is the end of its caller's call, and of no other. The error says whether Redis had the call.
func TestContextOfAPushAmongOthers(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.hold()
	gone, leave := context.WithCancel(t.Context())
	l.push(gone, "unsent", "q", nil)
	l.push(t.Context(), "stays", "q", nil)
	l.wait(2)
	leave()
	l.wait(1)
	for name, e := range l.ended() {
		if name != "unsent" && e.err != nil || name == "unsent" && (!errors.Is(e.err, context.Canceled) || Unconfirmed(e.err)) {
			t.Errorf("%s: %v", name, e.err)
		}
		if n := l.count(name); n != map[bool]int{false: 1}[name == "unsent"] {
			t.Errorf("%s is %d times in its queue", name, n)
		}
	}
}

// A caller whose context ends while Redis has the call learns that its job may be in its queue; the others get their answers. When the last
// caller is gone, so is the call.
func TestContextEndsWhileOthersWait(t *testing.T) {
	t.Parallel()
	for _, stay := range []bool{true, false} {
		t.Run(fmt.Sprint("others stay ", stay), func(t *testing.T) {
			t.Parallel()
			l := newLine(t)
			l.hold()
			gone, leave := context.WithCancel(t.Context())
			others := t.Context()
			if !stay {
				others = gone
			}
			l.push(gone, "a", "q", nil)
			l.wait(1)
			l.push(gone, "b", "q", options(locked("b", false))) // in the call after that
			l.push(others, "c", "q", nil)
			l.wait(3)
			l.answer(nil)
			redistest.Eventually(t, 10*time.Second, "the jobs are there", func() bool { return l.count("a") == 1 && l.count("c") == 1 })
			leave()
			redistest.Eventually(t, 10*time.Second, "the callers are back", func() bool {
				l.mu.Lock()
				defer l.mu.Unlock()
				return l.ends["a"].err != nil && l.ends["b"].err != nil && (stay || l.ends["c"].err != nil)
			})
			if !stay {
				l.idle() // although no answer has come
			}
			ends := l.ended()
			for name, e := range ends {
				switch {
				case name == "held" || stay && name == "c":
					if e.err != nil || len(e.receipts) != 1 {
						t.Errorf("%s: %v", name, e.err)
					}
				case !errors.Is(e.err, context.Canceled) || (stay || name != "b") && Unconfirmed(e.err) != (name != "b") || name != "b" && !strings.Contains(e.err.Error(), "pushing 1 job to queue q: "):
					t.Errorf("%s: %v", name, e.err)
				}
			}
			l.idle()
		})
	}
}

// A connection that breaks leaves it unknown of each push of the call whether its job is there, and of no other push.
func TestLostConnectionOfSeveral(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.hold()
	for i := range 5 {
		l.push(t.Context(), fmt.Sprint("lost", i), "q", nil)
	}
	l.wait(5)
	l.answer(nil)
	redistest.Eventually(t, 10*time.Second, "the jobs are there", func() bool { return l.count("lost4") == 1 })
	l.push(t.Context(), "next", "q", nil)
	l.wait(1)
	l.answer(io.EOF)
	for name, e := range l.ended() {
		if lost := strings.HasPrefix(name, "lost"); lost != Unconfirmed(e.err) || !lost && e.err != nil {
			t.Errorf("%s: %v", name, e.err)
		}
		if n := l.count(name); n != 1 {
			t.Errorf("%s is %d times in its queue", name, n)
		}
	}
}

// A client that is closed lets the call that is under way end, and refuses what waits.
func TestCloseWhilePushesWait(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.hold()
	for i := range 5 {
		l.push(t.Context(), fmt.Sprint("late", i), "q", nil)
	}
	l.wait(5)
	closed := errors.New("closed")
	l.client.Pool.Close(closed)
	for name, e := range l.ended() {
		if late := strings.HasPrefix(name, "late"); late != errors.Is(e.err, closed) || !late && e.err != nil || Unconfirmed(e.err) {
			t.Errorf("%s: %v", name, e.err)
		}
		if n := l.count(name); n != map[bool]int{false: 1}[e.err != nil] {
			t.Errorf("%s is %d times in its queue", name, n)
		}
	}
}

// Each push of a call that fewer replicas have than wanted says so of its own job.
func TestTooFewReplicasOfSeveral(t *testing.T) {
	t.Parallel()
	l := newLine(t)
	l.client.Store = l.client.Store.Replicated(1, time.Millisecond)
	l.hold()
	for i := range 3 {
		l.push(t.Context(), fmt.Sprint("few", i), fmt.Sprint("q", i), nil)
	}
	l.wait(3)
	for name, e := range l.ended() {
		var few *resque.ReplicasError
		if !errors.As(e.err, &few) || len(e.receipts) != 1 || l.count(name) != 1 {
			t.Errorf("%s: %v", name, e.err)
		} else if i := strings.TrimPrefix(name, "few"); i != name && (few.To != "queue q"+i || few.Jobs != 1) {
			t.Errorf("%s: %v", name, e.err)
		}
	}
}
