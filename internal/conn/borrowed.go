package conn

import (
	"context"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

// borrowed is a connection that a pool has handed to a borrower. After its return it refuses
// commands, because the next borrower may be using the connection. It watches for
// commands that would surprise that borrower. Only one goroutine may use it, except for
// returned.
type borrowed struct {
	conn     redis.Conn
	slot     *slot // of conn
	pool     *Pool
	returned atomic.Bool
	since    time.Time       // when it was handed out
	program  bool            // the program has it, for as long as it wants
	ctx      context.Context // ends each wait for Redis; nil: none does

	inTx    bool // MULTI or WATCH, not ended
	spoiled bool // another database, subscriptions, a demoted server, …
}

// It has all methods of redigo's connection, so that redigo's helpers work with it.
var (
	_ redis.ConnWithTimeout = (*borrowed)(nil)
	_ redis.ConnWithContext = (*borrowed)(nil)
)

// reusable prepares the connection for the next borrower, or reports that it cannot. It flushes
// commands whose replies were not read, and discards the replies. Otherwise the next borrower's Do
// would get them, or their error instead of its own result.
func (l *borrowed) reusable() bool {
	if l.inTx || l.spoiled || l.conn.Err() != nil {
		return false
	}
	_, _ = l.conn.Do("")
	return l.conn.Err() == nil
}

// watch looks at a command that is about to be sent.
func (l *borrowed) watch(cmd string) {
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

// check looks for a reply which shows that the server has changed.
func (l *borrowed) check(reply any, err error) (any, error) {
	if err != nil && MustRedial(err) {
		l.spoiled = true
	}
	return reply, l.interrupted(err)
}

func (l *borrowed) before(cmd string) error {
	if l.returned.Load() {
		return errReturned
	}
	l.watch(cmd)
	return nil
}

func (l *borrowed) Close() error {
	if l.returned.Load() {
		return errReturned
	}
	return l.conn.Close()
}

func (l *borrowed) Err() error {
	if l.returned.Load() {
		return errReturned
	}
	return l.closed(l.conn.Err())
}

func (l *borrowed) Do(cmd string, args ...any) (any, error) {
	if err := l.before(cmd); err != nil {
		return nil, err
	}
	reply, err := l.check(l.conn.Do(cmd, args...))
	if replies, ok := reply.([]any); ok && cmd == "" { // to what was sent before
		for _, r := range replies {
			if refused, no := r.(redis.Error); no {
				_, _ = l.check(nil, refused)
			}
		}
	}
	return reply, err
}

func (l *borrowed) Send(cmd string, args ...any) error {
	if err := l.before(cmd); err != nil {
		return err
	}
	return l.interrupted(l.conn.Send(cmd, args...))
}

func (l *borrowed) Flush() error {
	if err := l.before(""); err != nil {
		return err
	}
	return l.interrupted(l.conn.Flush())
}

func (l *borrowed) Receive() (any, error) {
	if err := l.before(""); err != nil {
		return nil, err
	}
	return l.check(l.conn.Receive())
}

func (l *borrowed) DoWithTimeout(d time.Duration, cmd string, args ...any) (any, error) {
	if err := l.before(cmd); err != nil {
		return nil, err
	}
	return l.check(redis.DoWithTimeout(l.conn, d, cmd, args...))
}

func (l *borrowed) ReceiveWithTimeout(d time.Duration) (any, error) {
	if err := l.before(""); err != nil {
		return nil, err
	}
	return l.check(redis.ReceiveWithTimeout(l.conn, d))
}

func (l *borrowed) DoContext(ctx context.Context, cmd string, args ...any) (any, error) {
	if err := l.before(cmd); err != nil {
		return nil, err
	}
	return l.check(redis.DoContext(l.conn, ctx, cmd, args...))
}

func (l *borrowed) ReceiveContext(ctx context.Context) (any, error) {
	if err := l.before(""); err != nil {
		return nil, err
	}
	return l.check(redis.ReceiveContext(l.conn, ctx))
}
