package conn

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
	d, err := NewDialer(t.Context(), Config{URI: s.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool(d, 1)
	defer p.Close(errClosed)

	// Unread replies do not reach the next borrower, and the commands were run.
	c := take(t, p)
	_ = c.Send("RPUSH", "list", "a")
	_ = c.Send("INCR", "list")
	PutBack(c)
	c = take(t, p)
	if n, err := redis.Int(c.Do("LLEN", "list")); n != 1 || err != nil {
		t.Errorf("LLEN %d, %v", n, err)
	}
	// redigo's helpers and scripts work on it.
	if _, err := redis.DoContext(c, t.Context(), "PING"); err != nil {
		t.Error(err)
	}
	if _, err := redis.DoWithTimeout(c, time.Minute, "PING"); err != nil {
		t.Error(err)
	}
	if n, err := redis.Int(redis.NewScript(0, "return 7").Do(c)); n != 7 || err != nil {
		t.Error(n, err)
	}
	for _, receive := range []func() (any, error){
		c.Receive,
		func() (any, error) { return redis.ReceiveWithTimeout(c, time.Minute) },
		func() (any, error) { return redis.ReceiveContext(c, t.Context()) },
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
	PutBack(c)

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
	PutBack(c)
	_, err = p.Get(t.Context())
	wantSentence(t, err, "nothing listens at "+s.Addr)
	s.Restart(t)
	PutBack(take(t, p))
}

// TestPoolCrowd lends to many goroutines that break, forget nothing and put twice,
// and closes in the midst.
func TestPoolCrowd(t *testing.T) {
	t.Parallel()
	d := &fakeDialer{}
	p := NewPool(d, 3)
	var lent, done atomic.Int32
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 200 {
				c, err := p.Get(context.Background())
				if errors.Is(err, errClosed) {
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
					wg.Go(func() { p.Close(errClosed) }) // awaited: a second close does not wait for the first
				}
				lent.Add(-1)
				PutBack(c)
				PutBack(c)
			}
		})
	}
	wg.Wait()
	p.Close(errClosed)
	if n := d.open.Load(); n != 0 {
		t.Errorf("%d connections are open after the end (%d saw it close)", n, done.Load())
	}
}

func BenchmarkPool(b *testing.B) {
	p := NewPool(&fakeDialer{}, 2)
	defer p.Close(errClosed)
	for b.Loop() {
		c, err := p.Get(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		PutBack(c)
	}
}

// A connection that was closed while it rested in the pool is not lent again.
func TestPoolDropsClosed(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	d, err := NewDialer(t.Context(), Config{URI: s.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	p := NewPool(d, 1)
	defer p.Close(errClosed)
	c, err := p.Get(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	inner := c.(*borrowed).conn
	PutBack(c)
	_ = inner.Close()
	if c, err = p.Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Do("PING"); err != nil {
		t.Error(err)
	}
	PutBack(c)
}
