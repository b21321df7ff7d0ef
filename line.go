package goworker

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// line is a connection of the daemon's own that is made when it is needed and
// made anew after it broke. It is used by one goroutine at a time.
type line struct {
	dialer Dialer
	conn   redis.Conn
	fresh  bool // made since the last time the owner asked

	// limit is how long connecting may take, and each reply; 0 leaves it to the
	// settings. A silent Redis must cost neither a lease nor a stop much time.
	limit time.Duration
}

// do runs f on the connection. An error of the connection, or one that says that
// this server will not take our commands (it became a replica), closes it. If that
// came about while nobody used the connection, f runs again on a new one: what it
// does must bear being done twice.
func (l *line) do(ctx context.Context, f func(redis.Conn) error) error {
	rested := l.conn != nil
	err := l.try(ctx, f)
	if rested && mustRedial(err) && !isTimeout(err) {
		err = l.try(ctx, f)
	}
	return err
}

func (l *line) try(ctx context.Context, f func(redis.Conn) error) error {
	if l.conn == nil {
		c, err := l.dial(ctx)
		if err != nil {
			return err
		}
		l.conn, l.fresh = c, true
	}
	conn, used := l.conn, l.conn
	if l.limit > 0 {
		used = hastyConn{conn, l.limit}
	}
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // reaches a read that waits
	err := f(used)
	if !stop() || l.conn.Err() != nil || mustRedial(err) {
		l.close()
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w (%w)", err, ctx.Err())
	}
	return err
}

func (l *line) dial(ctx context.Context) (redis.Conn, error) {
	if l.limit > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, l.limit)
		defer cancel()
	}
	return l.dialer.Dial(ctx)
}

// renewed reports, once, that the connection was made anew.
func (l *line) renewed() bool {
	fresh := l.fresh
	l.fresh = false
	return fresh
}

func (l *line) close() {
	if l.conn != nil {
		_ = l.conn.Close() // it is of no more use either way
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

// backoff waits longer after each failure, with jitter, so that a fleet does not
// come back to a Redis that restarts as one.
type backoff struct{ failures int }

const (
	backoffFirst = 50 * time.Millisecond
	backoffMost  = 1 * time.Second
)

func (b *backoff) next() time.Duration {
	d := backoffMost
	if b.failures < 5 {
		d = min(backoffMost, backoffFirst<<b.failures)
	}
	b.failures++
	return d/2 + rand.N(d/2)
}

func (b *backoff) reset() { b.failures = 0 }

// outages logs each trouble with Redis once: when the first part of the daemon
// meets it and when the last one is over it.
type outages struct {
	log *slog.Logger

	mu     sync.Mutex
	failed map[string]bool
	since  time.Time
}

func (o *outages) fail(part string, err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.failed) == 0 {
		o.since = time.Now()
		o.failed = make(map[string]bool)
		o.log.Warn("Redis does not serve us; trying again until it does", "part", part, "error", err)
	} else {
		o.log.Debug("still no Redis", "part", part, "error", err)
	}
	o.failed[part] = true
}

func (o *outages) ok(part string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.failed[part] {
		return
	}
	delete(o.failed, part)
	if len(o.failed) == 0 {
		o.log.Info("Redis serves us again", "after", time.Since(o.since).Round(time.Millisecond))
	}
}
