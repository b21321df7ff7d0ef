package conn

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// fakeDialer makes connections that answer at once, counts them, and fails while
// down. It is for tests of time, which run in a bubble where no socket can be.
type fakeDialer struct {
	down   atomic.Bool
	dials  atomic.Int32
	open   atomic.Int32
	broken atomic.Bool // every open connection is
	hang   chan struct{}
	closes func() // called by each Close before it closes; nil: nothing is
}

var errDown = errors.New("redis: nothing listens")

func (d *fakeDialer) Dial(ctx context.Context) (redis.Conn, error) {
	d.dials.Add(1)
	if d.hang != nil {
		select {
		case <-d.hang:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if d.down.Load() {
		return nil, errDown
	}
	d.open.Add(1)
	return &fakeConn{d: d}, nil
}

type fakeConn struct {
	d      *fakeDialer
	closed atomic.Bool
	err    error
	sent   []string

	replies []any // to what was sent
}

func (c *fakeConn) Close() error {
	if f := c.d.closes; f != nil {
		f()
	}
	if !c.closed.Swap(true) {
		c.d.open.Add(-1)
	}
	return nil
}
func (c *fakeConn) Err() error {
	if c.closed.Load() {
		return errors.New("redigo: closed")
	}
	return c.err
}
func (c *fakeConn) Do(cmd string, _ ...any) (any, error) {
	if c.closed.Load() || c.d.broken.Load() {
		c.err = io.EOF
		return nil, io.EOF
	}
	c.sent = append(c.sent, cmd)
	if cmd == "" && c.replies != nil {
		return c.replies, nil
	}
	return "OK", nil
}
func (c *fakeConn) Send(cmd string, args ...any) error { _, err := c.Do(cmd, args...); return err }
func (c *fakeConn) Flush() error                       { return nil }
func (c *fakeConn) Receive() (any, error)              { return "OK", nil }

// inBubble runs f with a pool of two under a fake clock. The bubble fails if the
// pool leaves a goroutine.
func inBubble(t *testing.T, f func(t *testing.T, p *Pool, d *fakeDialer)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := &fakeDialer{}
		p := NewPool(d, 2)
		f(t, p, d)
		p.Close(errClosed)
		p.Close(errClosed)
		if _, err := p.Get(t.Context()); !errors.Is(err, errClosed) {
			t.Errorf("get after close: %v", err)
		}
	})
}

func take(t *testing.T, p *Pool) redis.Conn {
	t.Helper()
	c, err := p.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (d *fakeDialer) expect(t *testing.T, what string, dials, open int32) {
	t.Helper()
	if d.dials.Load() != dials || d.open.Load() != open {
		t.Errorf("%s: %d dials and %d open connections, want %d and %d", what, d.dials.Load(), d.open.Load(), dials, open)
	}
}

var errClosed = errors.New("the daemon is closed")

func TestPoolIsLazy(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, d *fakeDialer) {
		d.expect(t, "made", 0, 0)
		c := take(t, p)
		d.expect(t, "one taken", 1, 1)
		PutBack(c)
		for range 2 { // both slots
			PutBack(take(t, p))
		}
		a, b := take(t, p), take(t, p)
		d.expect(t, "two taken", 2, 2)
		PutBack(a)
		PutBack(b)
	})
}

func TestPoolWaits(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, _ *fakeDialer) {
		a, b := take(t, p), take(t, p)
		start := time.Now()
		_, err := p.Get(t.Context())
		if err == nil || err.Error() != "redis: no connection was free within 10s: all 2 are in use, 2 by the program; raise -connections, or return connections with PutConn" {
			t.Error(err)
		}
		if time.Since(start) != poolWait {
			t.Errorf("waited %v", time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err = p.Get(ctx)
		if err == nil || !strings.Contains(err.Error(), "within 1s: all 2 are in use") || !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		cancel()
		if _, err = p.Get(ctx); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.AfterFunc(time.Second, func() { PutBack(a) })
		PutBack(take(t, p)) // gets what came back
		PutBack(b)
	})
}

// While Redis hangs each call ends with its own context, whether it has a connection or waits for one.
// Its error says which, and whether anything was sent.
func TestPoolInterrupts(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	d, err := NewDialer(t.Context(), Config{URI: server.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool(d, 2)
	defer p.Close(errClosed)
	ping := func(c redis.Conn) error { _, err := c.Do("PING"); return err }
	if err := p.Do(t.Context(), ping); err != nil {
		t.Fatal(err)
	}
	redistest.Eventually(t, time.Minute, "a call sends before its context ends", func() bool {
		server.Pause()
		texts := make(chan string, 5)
		for range cap(texts) {
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
				defer cancel()
				err := p.Do(ctx, ping)
				var e *InterruptedError
				if !errors.Is(err, context.DeadlineExceeded) || !errors.As(err, &e) || e.Sent != strings.Contains(err.Error(), "no answer came within") {
					t.Errorf("%#v", err)
				}
				texts <- err.Error()
			}()
		}
		answers := 0
		for range cap(texts) {
			switch text := <-texts; {
			case strings.Contains(text, "no answer came"):
				answers++
			case !strings.Contains(text, "no connection was free") && !strings.Contains(text, "did not answer before") &&
				!strings.Contains(text, "was given up because"):
				t.Error(text)
			}
		}
		if answers > 1 {
			t.Errorf("%d calls waited for an answer, want 1: the one that got the connection", answers)
		}
		server.Resume()
		if err := p.Do(t.Context(), ping); err != nil {
			t.Errorf("when Redis is back: %v", err)
		}
		return answers > 0
	})
}

func TestPoolPingsTheRested(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, d *fakeDialer) {
		c := take(t, p)
		PutBack(take(t, p)) // the other slot
		PutBack(c)
		d.expect(t, "two open", 2, 2)

		time.Sleep(poolPingAfter - time.Second)
		c = take(t, p)
		if sent := c.(*borrowed).conn.(*fakeConn).sent; len(sent) != 1 { // the Do("") of put
			t.Errorf("sent %v to a connection that rested little", sent)
		}
		PutBack(c)
		time.Sleep(poolPingAfter)
		for range 2 {
			c = take(t, p)
			if sent := c.(*borrowed).conn.(*fakeConn).sent; sent[len(sent)-1] != "PING" {
				t.Errorf("sent %v to a connection that rested long", sent)
			}
			defer PutBack(c)
		}
		d.expect(t, "two living", 2, 2)
	})
}

func TestPoolReplacesTheDead(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, d *fakeDialer) {
		a, b := take(t, p), take(t, p)
		PutBack(a)
		PutBack(b)
		time.Sleep(poolPingAfter)
		d.broken.Store(true)
		d.down.Store(true)
		for range 3 { // one dial a try, and no capacity is lost
			before := d.dials.Load()
			if _, err := p.Get(t.Context()); !errors.Is(err, errDown) {
				t.Error(err)
			}
			if n := d.dials.Load() - before; n != 1 {
				t.Errorf("%d dials for one get", n)
			}
		}
		if n := d.open.Load(); n != 0 {
			t.Errorf("%d dead connections are open", n)
		}
		d.broken.Store(false)
		d.down.Store(false)
		a, b = take(t, p), take(t, p)
		if n := d.open.Load(); n != 2 {
			t.Errorf("%d connections are open", n)
		}
		PutBack(a)
		PutBack(b)
	})
}

func TestPoolClosesTheIdle(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, d *fakeDialer) {
		c := take(t, p)
		PutBack(take(t, p))
		time.Sleep(2 * poolIdleTimeout)
		if n := d.open.Load(); n != 1 {
			t.Errorf("%d connections are open, want the one that is lent", n)
		}
		PutBack(c)
	})
}

func TestPoolDropsTheBroken(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, d *fakeDialer) {
		for i, spoil := range []func(c redis.Conn){
			func(c redis.Conn) { c.(*borrowed).conn.(*fakeConn).err = io.EOF },
			func(c redis.Conn) { c.Close(); _, _ = c.Do("PING") },
			func(c redis.Conn) { _, _ = c.Do("select", 3) },
			func(c redis.Conn) { _ = c.Send("SUBSCRIBE", "x") },
			func(c redis.Conn) { _, _ = c.Do("MULTI") },
			func(c redis.Conn) { _, _ = c.Do("WATCH", "x") },
			func(c redis.Conn) { _, _ = c.(*borrowed).check(nil, redis.Error("READONLY You can't write")) },
			func(c redis.Conn) {
				c.(*borrowed).conn.(*fakeConn).replies = []any{"OK", redis.Error("READONLY You can't write")}
				_, _ = c.Do("")
			},
		} {
			c := take(t, p)
			dead := c.(*borrowed).conn.(*fakeConn)
			spoil(c)
			PutBack(c)
			if !dead.closed.Load() {
				t.Errorf("case %d: the connection is open", i)
			}
		}
		c := take(t, p)
		for _, cmd := range []string{"MULTI", "EXEC", "WATCH", "UNWATCH", "MULTI", "DISCARD"} {
			_, _ = c.Do(cmd)
		}
		PutBack(c)
		if n := d.open.Load(); n != 1 {
			t.Errorf("a transaction that ended costs the connection: %d open", n)
		}
	})
}

// A borrower that looks at the connection, before it sends, sees why the context ended.
func TestPoolSaysWhyAContextCloses(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, _ *fakeDialer) {
		cause := errors.New("the visitor left")
		ctx, cancel := context.WithCancelCause(t.Context())
		err := p.Do(ctx, func(c redis.Conn) error {
			cancel(cause)
			synctest.Wait() // the connection is closed
			return c.Err()
		})
		var e *InterruptedError
		if !errors.Is(err, cause) || !errors.Is(err, context.Canceled) || !errors.As(err, &e) || e.Sent {
			t.Errorf("%#v", err)
		}
	})
}

// A connection that a context's end is closing is not lent again, though what it was lent for is done.
func TestPoolDropsWhatAContextCloses(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, d *fakeDialer) {
		closing := make(chan struct{})
		d.closes = func() { <-closing }
		ctx, cancel := context.WithCancel(t.Context())
		if err := p.Do(ctx, func(c redis.Conn) error {
			_, err := c.Do("PING")
			cancel()
			synctest.Wait() // the context's end is about to close the connection
			d.closes = nil
			return err
		}); err != nil {
			t.Fatal(err)
		}
		all := []redis.Conn{take(t, p), take(t, p)} // one of them is in the place of that connection
		close(closing)
		synctest.Wait()
		for _, c := range all {
			if _, err := c.Do("PING"); err != nil {
				t.Errorf("the next borrower: %v", err)
			}
			PutBack(c)
		}
	})
}

func TestPoolPut(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, d *fakeDialer) {
		PutBack(nil)
		foreign := &fakeConn{d: d}
		d.open.Add(1)
		PutBack(foreign)
		if !foreign.closed.Load() {
			t.Error("a foreign connection stays open")
		}

		c := take(t, p)
		PutBack(c)
		PutBack(c)
		d.expect(t, "put three times", 1, 1)
		if _, err := c.Do("PING"); !errors.Is(err, errReturned) {
			t.Errorf("use after put: %v", err)
		}
		if c.Send("PING") != errReturned || c.Flush() != errReturned || c.Err() != errReturned {
			t.Error("a connection that was given back can be used")
		}
		c.Close()
		if _, err := c.Receive(); err != errReturned || d.open.Load() != 1 {
			t.Error("a connection that was given back can be closed")
		}
		q := NewPool(d, 1)
		c = take(t, q)
		PutBack(c)
		PutBack(take(t, q))
		a, b := take(t, p), take(t, p)
		PutBack(a)
		PutBack(b)
		q.Close(errClosed)
		d.expect(t, "other pool closed", 3, 2)
	})
}

func TestPoolCloseWithLent(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, d *fakeDialer) {
		a, b := take(t, p), take(t, p)
		waiting := make(chan error)
		go func() { _, err := p.Get(context.Background()); waiting <- err }()
		synctest.Wait()
		p.Close(errClosed) // returns although two are lent
		if err := <-waiting; !errors.Is(err, errClosed) {
			t.Error(err)
		}
		if _, err := a.Do("PING"); err != nil {
			t.Errorf("a lent connection broke: %v", err)
		}
		PutBack(a)
		d.expect(t, "one back", 2, 1)
		PutBack(b)
		PutBack(b)
		d.expect(t, "all back", 2, 0)
	})
}

func TestPoolCloseInterruptsDial(t *testing.T) {
	inBubble(t, func(t *testing.T, p *Pool, d *fakeDialer) {
		d.hang = make(chan struct{})
		dialing := make(chan error)
		go func() { _, err := p.Get(context.Background()); dialing <- err }()
		synctest.Wait()
		closed := make(chan struct{})
		go func() { p.Close(errClosed); close(closed) }()
		if err := <-dialing; !errors.Is(err, errClosed) {
			t.Error(err)
		}
		<-closed
	})
}

func TestPoolOfOne(t *testing.T) {
	t.Parallel()
	p := NewPool(&fakeDialer{}, 1)
	c := take(t, p)
	p.wait = time.Millisecond
	if _, err := p.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "the only one is in use, 1 by the program") {
		t.Error(err)
	}
	PutBack(c)
	p.Close(errClosed)
}

// To lend a connection that is there costs what is lent, and a wait that did not come.
func TestPoolLendsCheaply(t *testing.T) {
	p := NewPool(&fakeDialer{}, 2)
	defer p.Close(errors.New("over"))
	answer := func(redis.Conn) error { return nil }
	if n := testing.AllocsPerRun(100, func() {
		if err := p.Do(context.Background(), answer); err != nil {
			t.Error(err)
		}
	}); n > 3 {
		t.Errorf("%v allocations", n)
	}
}
