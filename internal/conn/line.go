package conn

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Line is a connection of the daemon's own. It dials when needed and
// redials after the connection broke. One goroutine at a time may use it.
type Line struct {
	Dialer Dialer
	conn   redis.Conn
	fresh  bool      // made since the last time the owner asked
	used   time.Time // when Once used it last

	// Limit is how long connecting may take, and each reply; 0 means the
	// settings' limits. A silent Redis must not delay a lease or a stop for long.
	Limit time.Duration
}

// Do runs f on the connection. An error of the connection closes it, and so does one that says
// that this server will not take our commands (it became a replica). If the connection broke
// between two calls, f runs again on a new one: f must be repeatable.
func (l *Line) Do(ctx context.Context, f func(redis.Conn) error) error {
	rested := l.conn != nil
	err := l.try(ctx, f)
	if rested && MustRedial(err) && !isTimeout(err) {
		err = l.try(ctx, f)
	}
	return err
}

// Once is Do for an f that must not run twice. An idle connection is looked at before, as a Pool does: if the server
// has closed it, f would be sent, and nobody could say whether it was carried out.
func (l *Line) Once(ctx context.Context, f func(redis.Conn) error) error {
	if l.conn != nil {
		if idle := time.Since(l.used); l.conn.Err() != nil || idle >= poolPingAfter || idle > poolPeekAfter && HungUp(l.conn) {
			l.Close()
		}
	}
	err := l.try(ctx, f)
	l.used = time.Now()
	return err
}

// CloseIdle closes a connection that Once has not used for so long.
func (l *Line) CloseIdle(after time.Duration) {
	if l.conn != nil && time.Since(l.used) >= after {
		l.Close()
	}
}

// Live reports whether there is a connection, as far as is known.
func (l *Line) Live() bool { return l.conn != nil && l.conn.Err() == nil }

func (l *Line) try(ctx context.Context, f func(redis.Conn) error) error {
	if l.conn == nil {
		c, err := l.dial(ctx)
		if err != nil {
			return err
		}
		l.conn, l.fresh = c, true
	}
	conn, used := l.conn, l.conn
	if l.Limit > 0 {
		used = hastyConn{conn, l.Limit}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // interrupts a pending read
	err := f(used)
	if !stop() || l.conn.Err() != nil || MustRedial(err) {
		l.Close()
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", err, ctx.Err())
	}
	return err
}

func (l *Line) dial(ctx context.Context) (redis.Conn, error) {
	if l.Limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.Limit)
		defer cancel()
	}
	return l.Dialer.Dial(ctx)
}

// Renewed reports, once, that the connection was redialed.
func (l *Line) Renewed() bool {
	fresh := l.fresh
	l.fresh = false
	return fresh
}

func (l *Line) Close() {
	if l.conn != nil {
		_ = l.conn.Close() // it is useless either way
		l.conn = nil
	}
}

// hastyConn gives replies less time than usual.
type hastyConn struct {
	redis.Conn
	limit time.Duration
}

func (h hastyConn) Do(command string, args ...any) (any, error) {
	return redis.DoWithTimeout(h.Conn, h.limit, command, args...)
}

func (h hastyConn) Receive() (any, error) { return redis.ReceiveWithTimeout(h.Conn, h.limit) }
