package redistest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// ErrDead is the error of the connections of a Mortal that has died.
var ErrDead = errors.New("redistest: the program was killed")

// Mortal is a program that is killed at a boundary: as it sends the nth request to Redis, or when Redis has answered that one. From
// then on it reaches Redis no more.
type Mortal struct {
	mu    sync.Mutex
	left  int // requests before its death
	after bool
	dead  bool
	end   context.CancelFunc
}

// NewMortal returns a program that dies at its nth request, from 1: before Redis gets it, or after Redis has served it.
func NewMortal(nth int, after bool) *Mortal { return &Mortal{left: nth, after: after} }

// Life returns a context that ends with the program's death.
func (m *Mortal) Life(ctx context.Context) context.Context {
	m.mu.Lock()
	defer m.mu.Unlock()
	ctx, m.end = context.WithCancel(ctx)
	return ctx
}

// Dead reports whether the program has died.
func (m *Mortal) Dead() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.dead
}

// Conn returns a connection of the program.
func (m *Mortal) Conn(c redis.Conn) redis.Conn { return &mortalConn{Conn: c, m: m} }

// request counts a request. last says that its answer is lost.
func (m *Mortal) request() (last bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.dead {
		return false, ErrDead
	}
	m.left--
	if m.dead = m.left == 0; m.dead && !m.after {
		m.ends()
		return false, ErrDead
	}
	return m.dead, nil
}

// ends ends the context of the program's life. Where Redis serves the last request, it does so after that: the end of the context may close the
// connection, and Redis would serve the request at any time, or not.
func (m *Mortal) ends() {
	if m.end != nil {
		m.end()
	}
}

type mortalConn struct {
	redis.Conn
	m       *Mortal
	pending int
}

func (c *mortalConn) Err() error {
	if c.m.Dead() {
		return ErrDead
	}
	return c.Conn.Err()
}

func (c *mortalConn) Do(command string, args ...any) (any, error) {
	last, err := c.m.request()
	if err != nil {
		return nil, err
	}
	reply, err := c.Conn.Do(command, args...)
	if last {
		c.m.ends()
		return nil, ErrDead
	}
	return reply, err
}

func (c *mortalConn) DoWithTimeout(_ time.Duration, command string, args ...any) (any, error) {
	return c.Do(command, args...)
}

func (c *mortalConn) Send(command string, args ...any) error {
	if c.m.Dead() {
		return ErrDead
	}
	c.pending++
	return c.Conn.Send(command, args...)
}

func (c *mortalConn) Flush() error {
	last, err := c.m.request()
	if err != nil {
		return err
	}
	err = c.Conn.Flush()
	if last {
		for ; err == nil && c.pending > 0; c.pending-- { // Redis has served all of it then
			if _, err = c.Conn.Receive(); err != nil {
				if _, refused := err.(redis.Error); refused {
					err = nil
				}
			}
		}
		c.m.ends()
		return ErrDead
	}
	c.pending = 0
	return err
}

func (c *mortalConn) Receive() (any, error) {
	if c.m.Dead() {
		return nil, ErrDead
	}
	return c.Conn.Receive()
}
