package goworker

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// TestPoolReal borrows from a real server that loses connections and restarts.
func TestPoolReal(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	s := redistest.Start(t)
	d, err := newDialer(t.Context(), dialConfig{uri: s.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := newPool(d, 1)
	defer p.close(ErrClosed)

	// Replies nobody read are not the next borrower's, and what was sent is done.
	c := take(t, p)
	_ = c.Send("RPUSH", "list", "a")
	_ = c.Send("INCR", "list")
	putBack(c)
	c = take(t, p)
	if n, err := redis.Int(c.Do("LLEN", "list")); n != 1 || err != nil {
		t.Errorf("LLEN %d, %v", n, err)
	}
	// redigo's helpers and scripts work on it.
	if _, err := redis.DoContext(c.Conn, t.Context(), "PING"); err != nil {
		t.Error(err)
	}
	if _, err := redis.DoWithTimeout(c.Conn, time.Minute, "PING"); err != nil {
		t.Error(err)
	}
	if n, err := redis.Int(redis.NewScript(0, "return 7").Do(c.Conn)); n != 7 || err != nil {
		t.Error(n, err)
	}
	for _, receive := range []func() (any, error){
		c.Receive,
		func() (any, error) { return redis.ReceiveWithTimeout(c.Conn, time.Minute) },
		func() (any, error) { return redis.ReceiveContext(c.Conn, t.Context()) },
	} {
		if err := c.Send("ECHO", "x"); err != nil {
			t.Fatal(err)
		}
		if err := c.Flush(); err != nil {
			t.Fatal(err)
		}
		if text, err := redis.String(receive()); text != "x" || err != nil {
			t.Error(text, err)
		}
	}
	putBack(c)

	s.Restart(t)
	p.pingAfter = 0
	c = take(t, p)
	if _, err := c.Do("PING"); err != nil {
		t.Errorf("after a restart: %v", err)
	}
	s.Kill()
	if _, err := c.Do("PING"); !isConnError(err) {
		t.Error(err)
	}
	putBack(c)
	_, err = p.get(t.Context())
	wantSentence(t, err, "nothing listens at "+s.Addr)
	s.Restart(t)
	putBack(take(t, p))
}

// TestPoolCrowd lends to many goroutines that break, forget nothing and put twice,
// and closes in the midst.
func TestPoolCrowd(t *testing.T) {
	t.Parallel()
	d := &fakeDialer{}
	p := newPool(d, 3)
	var lent, done atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 200 {
				c, err := p.get(context.Background())
				if errors.Is(err, ErrClosed) {
					done.Add(1)
					return
				}
				if err != nil {
					t.Error(err)
					return
				}
				if n := lent.Add(1); n > 3 {
					t.Errorf("%d are lent", n)
				}
				if rand.IntN(4) == 0 {
					c.Close()
				}
				if i == 0 && rand.IntN(150) == 0 {
					wg.Go(func() { p.close(ErrClosed) }) // awaited: a second close does not wait for the first
				}
				lent.Add(-1)
				putBack(c)
				putBack(c)
			}
		})
	}
	wg.Wait()
	p.close(ErrClosed)
	if n := d.open.Load(); n != 0 {
		t.Errorf("%d connections are open after the end (%d saw it close)", n, done.Load())
	}
}

func BenchmarkPool(b *testing.B) {
	p := newPool(&fakeDialer{}, 2)
	defer p.close(ErrClosed)
	for b.Loop() {
		c, err := p.get(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		putBack(c)
	}
}

// What was closed while it rested is not lent.
func TestPoolDropsClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d := New(WorkerSettings{URI: s.URI(), Connections: 1})
	t.Cleanup(d.Close)
	c, err := d.GetConn()
	if err != nil {
		t.Fatal(err)
	}
	inner := c.Conn.(*lentConn).conn
	d.PutConn(c)
	_ = inner.Close()
	if err := d.Enqueue(&Job{"q", Payload{"J", nil}}); err != nil {
		t.Error(err)
	}
}
