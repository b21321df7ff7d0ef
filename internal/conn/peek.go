package conn

import (
	"crypto/tls"
	"net"
	"syscall"
	"time"

	"github.com/gomodule/redigo/redis"
)

// redigoConn is what redigo's own connections can do.
type redigoConn interface {
	redis.ConnWithTimeout
	redis.ConnWithContext
}

// watchedConn is a connection of which can be seen whether the server has closed it, and to which a Pipe writes.
type watchedConn struct {
	redigoConn
	socket       syscall.RawConn
	net          net.Conn // below redigo's
	writeTimeout time.Duration
}

// watched returns c, on nc, as a *watchedConn, if the system can look into its socket.
func watched(c redis.Conn, nc net.Conn, writeTimeout time.Duration) redis.Conn {
	below := nc
	if tc, ok := nc.(*tls.Conn); ok {
		nc = tc.NetConn()
	}
	full, ok := c.(redigoConn)
	sc, ok2 := nc.(syscall.Conn)
	if !ok || !ok2 {
		return c
	}
	socket, err := sc.SyscallConn()
	if err != nil {
		return c
	}
	return &watchedConn{full, socket, below, writeTimeout}
}

// HungUp reports whether the server is known to have closed a connection that waits for no answer, or to be about to. It does not wait.
func HungUp(c redis.Conn) bool {
	w, ok := c.(*watchedConn)
	return ok && closedByPeer(w.socket)
}
