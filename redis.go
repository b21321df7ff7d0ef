package goworker

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/goworker/goworker/internal/conn"
	"github.com/goworker/goworker/internal/prefix"
)

// A Dialer makes connections to one Redis. Several goroutines call Dial at once. Each
// call returns a new connection that is authenticated, has its database selected and is
// ready for commands. Its errors are sentences without passwords.
//
// A Dialer may have two more methods:
//   - Close() error: called once, when the daemon that uses it is closed and all
//     its connections are.
//   - PollInterval() time.Duration: its server cannot notify clients of changed keys,
//     so the daemon polls its queues at this interval (20 ms for the embedded Redis).
type Dialer interface {
	Dial(ctx context.Context) (redis.Conn, error)
}

// DialerFunc is a function that is a Dialer.
type DialerFunc func(ctx context.Context) (redis.Conn, error)

// Dial calls f.
func (f DialerFunc) Dial(ctx context.Context) (redis.Conn, error) { return f(ctx) }

// An Opener makes the Dialer of a URI with the scheme it was registered for. It gets
// the URI as the user wrote it and must not put its password into an error. It need not
// dial: Dial returns the error of an unreachable server.
type Opener func(ctx context.Context, uri string, opts DialOptions) (Dialer, error)

// DialOptions are the settings of every connection.
type DialOptions struct {
	ConnectTimeout time.Duration // the whole of a Dial: name lookup, TCP, TLS and greeting; > 0
	ReadTimeout    time.Duration // one reply; > 0
	WriteTimeout   time.Duration // one command; > 0
	// TLS holds the CA, client certificate and verification settings for a scheme
	// that wants TLS. An Opener's is never nil; Clone it and set ServerName before use.
	TLS *tls.Config
	// Namespace is the prefix of every key, its colon included.
	Namespace string
	// Login returns user and password at each Dial, in place of those of the URI; nil: the URI's hold. See WorkerSettings.PasswordFile.
	Login func() (user, password string, err error)
}

// Server returns the Dialer of one server with these options, for an Opener that knows
// several. The URI is one of redis://, rediss:// or unix://; the errors of both are
// those of a daemon with that URI.
func (o DialOptions) Server(uri string) (Dialer, error) {
	d, err := conn.Options(o).Server(uri)
	return d, prefix.Of(err)
}

// RedisConn is a connection taken with GetConn. It is for one goroutine, and is
// given back with PutConn.
type RedisConn struct {
	redis.Conn
}

// Close closes the connection. It must still be given back with PutConn, which
// makes room for a new one.
func (r *RedisConn) Close() {
	if r.Conn != nil {
		_ = r.Conn.Close()
	}
}

// opener returns an Opener as package conn takes it.
func opener(open Opener) conn.Opener {
	if open == nil {
		return nil
	}
	return func(ctx context.Context, uri string, o conn.Options) (conn.Dialer, error) {
		return open(ctx, uri, DialOptions(o))
	}
}
