package goworker

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// lentConn is the connection inside a RedisConn while it is lent. It refuses
// commands once given back, since somebody else may be using the connection by
// then, and watches for commands that would surprise the next borrower. It is for
// one goroutine, but for returned.
type lentConn struct {
	conn     redis.Conn
	pool     *pool
	returned atomic.Bool

	inTx    bool // MULTI or WATCH, not ended
	spoiled bool // another database, subscriptions, a demoted server, …
}

// It can all that redigo's connection can, so that redigo's helpers work with it.
var (
	_ redis.ConnWithTimeout = (*lentConn)(nil)
	_ redis.ConnWithContext = (*lentConn)(nil)
)

// reusable makes the connection fit for the next borrower or reports that it
// cannot be. Commands that were sent without their replies being read are sent off
// and their replies thrown away: else the next borrower's Do would get them, or
// their error instead of its own result.
func (l *lentConn) reusable() bool {
	if l.inTx || l.spoiled || l.conn.Err() != nil {
		return false
	}
	_, _ = l.conn.Do("")
	return l.conn.Err() == nil
}

// watch takes note of a command that is about to be sent.
func (l *lentConn) watch(cmd string) {
	switch strings.ToUpper(cmd) {
	case "MULTI", "WATCH":
		l.inTx = true
	case "EXEC", "DISCARD", "UNWATCH":
		l.inTx = false
	case "SELECT", "AUTH", "HELLO", "CLIENT", "MONITOR", "SYNC", "PSYNC", "QUIT", "RESET", "READONLY", "ASKING",
		"SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE":
		l.spoiled = true
	}
}

// check takes note of what came back.
func (l *lentConn) check(reply any, err error) (any, error) {
	if err != nil && mustRedial(err) {
		l.spoiled = true
	}
	return reply, err
}

func (l *lentConn) before(cmd string) error {
	if l.returned.Load() {
		return errReturned
	}
	l.watch(cmd)
	return nil
}

func (l *lentConn) Close() error {
	if l.returned.Load() {
		return errReturned
	}
	return l.conn.Close()
}

func (l *lentConn) Err() error {
	if l.returned.Load() {
		return errReturned
	}
	return l.conn.Err()
}

func (l *lentConn) Do(cmd string, args ...any) (any, error) {
	if err := l.before(cmd); err != nil {
		return nil, err
	}
	return l.check(l.conn.Do(cmd, args...))
}

func (l *lentConn) Send(cmd string, args ...any) error {
	if err := l.before(cmd); err != nil {
		return err
	}
	return l.conn.Send(cmd, args...)
}

func (l *lentConn) Flush() error {
	if err := l.before(""); err != nil {
		return err
	}
	return l.conn.Flush()
}

func (l *lentConn) Receive() (any, error) {
	if err := l.before(""); err != nil {
		return nil, err
	}
	return l.check(l.conn.Receive())
}

func (l *lentConn) DoWithTimeout(d time.Duration, cmd string, args ...any) (any, error) {
	if err := l.before(cmd); err != nil {
		return nil, err
	}
	return l.check(redis.DoWithTimeout(l.conn, d, cmd, args...))
}

func (l *lentConn) ReceiveWithTimeout(d time.Duration) (any, error) {
	if err := l.before(""); err != nil {
		return nil, err
	}
	return l.check(redis.ReceiveWithTimeout(l.conn, d))
}

func (l *lentConn) DoContext(ctx context.Context, cmd string, args ...any) (any, error) {
	if err := l.before(cmd); err != nil {
		return nil, err
	}
	return l.check(redis.DoContext(l.conn, ctx, cmd, args...))
}

func (l *lentConn) ReceiveContext(ctx context.Context) (any, error) {
	if err := l.before(""); err != nil {
		return nil, err
	}
	return l.check(redis.ReceiveContext(l.conn, ctx))
}
