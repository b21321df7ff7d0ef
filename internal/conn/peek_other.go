//go:build !unix

package conn

import "syscall"

// closedByPeer does not know.
func closedByPeer(syscall.RawConn) bool { return false }
