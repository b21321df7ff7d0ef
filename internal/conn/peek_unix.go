//go:build unix

package conn

import (
	"errors"
	"syscall"
)

// closedByPeer reports whether a read would find the end of the stream, or that it broke. It reads nothing.
func closedByPeer(socket syscall.RawConn) (closed bool) {
	var b [1]byte
	err := socket.Control(func(fd uintptr) { // Read would look at the deadline of the last command
		n, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		closed = n == 0 && err == nil || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
	})
	return closed || err != nil
}
