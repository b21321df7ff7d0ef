//go:build unix

package conn

import (
	"errors"
	"syscall"
)

// closedByPeer reports whether a read would not wait: it finds the end of the stream, that it broke, or a text that answers no
// command, as a TLS server sends one before it closes. It reads nothing.
func closedByPeer(socket syscall.RawConn) (closed bool) {
	var b [1]byte
	err := socket.Control(func(fd uintptr) { // Read would look at the deadline of the last command
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = err == nil || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	})
	return closed || err != nil
}
