package conn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/redistest"
)

// A Pipe sends the same over every connection, whatever lengths its values have, and answers for each command.
func TestPipe(t *testing.T) {
	t.Parallel()
	s := redistest.Start(t)
	ca := redistest.NewAuthority(t)
	ca.Issue(t, "server", &x509.Certificate{IPAddresses: loopback})
	secure, _ := ca.Start(t, "server", "no")
	dialed := func(uri string, change ...func(*Config)) redis.Conn {
		c, err := dial(t, uri, change...)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	d, err := NewDialer(t.Context(), Config{URI: s.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := NewPool(d, 1)
	defer pool.Close(errClosed)
	lent := take(t, pool)
	defer PutBack(lent)
	for name, tt := range map[string]struct {
		c      redis.Conn
		direct bool
	}{
		"plain": {dialed(s.URI()), true},
		"TLS":   {dialed("rediss://"+secure, func(c *Config) { c.CAPath = ca.Crt("ca") }), true},
		"lent":  {lent, true},
		"other": {s.Dial(t), false},
	} {
		var want []string
		list := "list " + name
		p := NewPipe(tt.c)
		if (p.direct != nil) != tt.direct {
			t.Errorf("%s: written directly: %t", name, p.direct != nil)
		}
		p.Command("PING", 0)
		p.Command("RPUSH", 1+2*300+2)
		p.Text(list)
		for i := range 300 { // across the end of the room at many places
			bytes, text := strings.Repeat("b", i*i), strings.Repeat("t", 37*i)
			p.Bytes([]byte(bytes))
			p.Text(text)
			want = append(want, bytes, text)
		}
		large := strings.Repeat("\r\n$", 3*pipeRoom)
		p.Bytes([]byte(large))
		p.Text(large)
		want = append(want, large, large)
		p.Command("INCRBY", 2)
		p.Text(list)
		p.Int(1)
		p.Command("LTRIM", 3)
		p.Text(list)
		p.Int(0)
		p.Int(-1)
		answers, err := p.Do()
		if err != nil || len(answers) != 4 {
			t.Fatalf("%s: %d answers, %v", name, len(answers), err)
		}
		if refused, no := answers[2].(redis.Error); answers[0] != "PONG" || answers[1] != int64(len(want)) || !no || !strings.HasPrefix(refused.Error(), "WRONGTYPE") || answers[3] != "OK" {
			t.Errorf("%s: the answers are %v", name, answers)
		}
		got, err := redis.Strings(tt.c.Do("LRANGE", list, 0, -1))
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s: %d values, %v", name, len(got), err)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%s: value %d has %d bytes and not %d, or others", name, i, len(got[i]), len(want[i]))
			}
		}
	}
}

// A connection to which half a command was written serves no longer, and the one that comes from a pool is not lent again.
func TestPipeBreaks(t *testing.T) {
	redistest.OwnUser(t)
	t.Parallel()
	s := redistest.Start(t)
	d, err := NewDialer(t.Context(), Config{URI: s.URI()}, nil)
	if err != nil {
		t.Fatal(err)
	}
	pool := NewPool(d, 1)
	defer pool.Close(errClosed)
	push := func(c redis.Conn) error {
		p := NewPipe(c)
		p.Command("RPUSH", 1+100)
		p.Text("list")
		value := make([]byte, pipeRoom)
		for range 100 {
			p.Bytes(value)
		}
		_, err := p.Do()
		return err
	}
	c := take(t, pool)
	s.Kill()
	if err := push(c); !isConnError(err) || c.Err() == nil {
		t.Errorf("the server was away: %v, then %v", err, c.Err())
	}
	PutBack(c)
	if err := push(c); !errors.Is(err, errReturned) {
		t.Errorf("a connection that was given back: %v", err)
	}
	s.Restart(t)
	c = take(t, pool)
	if err := push(c); err != nil {
		t.Error(err)
	}
	// A transaction that is not over is not for the next borrower.
	p := NewPipe(c)
	p.Command("MULTI", 0)
	if _, err := p.Do(); err != nil {
		t.Error(err)
	}
	below := c.(*borrowed).conn
	PutBack(c)
	if c = take(t, pool); c.(*borrowed).conn == below {
		t.Error("a connection in a transaction was lent again")
	}
	PutBack(c)

	// A server that became a replica is left.
	err = pool.Do(t.Context(), func(c redis.Conn) error {
		below = c.(*borrowed).conn
		s.Do(t, "REPLICAOF", "127.0.0.1", "1")
		p := NewPipe(c)
		p.Command("SET", 2)
		p.Text("a")
		p.Text("b")
		answers, err := p.Do()
		if err != nil || len(answers) != 1 || !MustRedial(answers[0].(redis.Error)) {
			t.Errorf("a replica answered %v, %v", answers, err)
		}
		return nil
	})
	s.Do(t, "REPLICAOF", "NO", "ONE")
	if c = take(t, pool); err != nil || c.(*borrowed).conn == below {
		t.Errorf("the connection to a replica was lent again; %v", err)
	}
	PutBack(c)
}

// The end of a call's context, and the limit of a command, end a write for which the server leaves no room.
func TestPipeWaits(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	begun := make(chan struct{}, 2) // one for each push
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.ReadFull(c, make([]byte, len("*1\r\n$4\r\nPING\r\n")))
				_, _ = fmt.Fprint(c, "+PONG\r\n")
				_, _ = io.ReadFull(c, make([]byte, 1))
				begun <- struct{}{}
				<-t.Context().Done() // it reads no more
				_ = c.Close()
			}()
		}
	}()
	push := func(ctx context.Context, limit time.Duration) (c redis.Conn, err error) {
		d, err := NewDialer(t.Context(), Config{URI: "redis://" + l.Addr().String(), WriteTimeout: limit}, nil)
		if err != nil {
			return nil, err
		}
		pool := NewPool(d, 1)
		defer pool.Close(errClosed)
		return c, pool.Do(ctx, func(on redis.Conn) error {
			c = on
			p := NewPipe(on)
			p.Command("SET", 2)
			p.Text("a")
			p.Bytes(make([]byte, 64<<20))
			_, err := p.Do()
			return err
		})
	}
	c, err := push(t.Context(), 200*time.Millisecond)
	if !isTimeout(err) {
		t.Errorf("beyond the limit: %v", err)
	}
	if c == nil || c.(*borrowed).conn.Err() == nil {
		t.Error("half a command was written, and the connection serves on")
	}
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-begun
		cancel()
	}()
	var over *InterruptedError
	if _, err := push(ctx, time.Hour); !errors.As(err, &over) || !over.Sent || !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
}

// Values cost no allocation where the pipe writes them itself.
func TestPipeIsCheap(t *testing.T) {
	redistest.OwnUser(t)
	s := redistest.Start(t)
	c, err := dial(t, s.URI())
	if err != nil {
		t.Fatal(err)
	}
	value := []byte(strings.Repeat("a", 100))
	n := testing.AllocsPerRun(100, func() {
		p := NewPipe(c)
		p.Command("RPUSH", 1+1000)
		p.Text("list")
		for range 1000 {
			p.Bytes(value)
		}
		if _, err := p.Do(); err != nil {
			t.Fatal(err)
		}
	})
	if n > 20 {
		t.Errorf("%v allocations for 1,000 values", n)
	}
}
