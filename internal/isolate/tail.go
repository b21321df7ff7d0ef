//go:build unix

package isolate

import (
	"bytes"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// maxStderr is how much of the end of its standard error a crash's record may have.
const maxStderr = 64 << 10

// tail passes on what a child writes to its standard error, and keeps the end of what it has written for its present job.
type tail struct {
	pipe *os.File
	done chan struct{} // closed when no more comes

	mu   sync.Mutex // held while the pipe is read, so that what was read is kept
	kept []byte
	buf  [4 << 10]byte
}

// pass reads the pipe to its end.
func (t *tail) pass() {
	defer close(t.done)
	raw, err := t.pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Read(func(fd uintptr) bool { return t.read(int(fd)) })
}

// read reads what is there, and reports whether that is the end.
func (t *tail) read(fd int) (end bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for {
		n, err := syscall.Read(fd, t.buf[:])
		switch {
		case err == syscall.EINTR:
		case err == syscall.EAGAIN:
			return false
		case err != nil || n == 0:
			return true
		default:
			t.take(t.buf[:n])
		}
	}
}

func (t *tail) take(p []byte) {
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - maxStderr; n > 0 {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	_, _ = os.Stderr.Write(p) // a closed standard error here must not stop the child
}

// cut forgets what the child has written so far.
func (t *tail) cut() {
	raw, err := t.pipe.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { t.read(int(fd)) })
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = t.kept[:0]
}

// close waits a while for the end of the pipe, whose other end another process may hold.
func (t *tail) close() {
	_ = t.pipe.SetReadDeadline(time.Now().Add(exitGrace))
	<-t.done
	t.pipe.Close()
}

// lines returns the lines from the first of a crash on; without one, the last.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 50
	lines := strings.Split(string(bytes.ToValidUTF8(bytes.TrimRight(t.kept, "\n"), []byte("\uFFFD"))), "\n")
	for i, line := range lines {
		if isCrashLine(line) {
			return lines[i:]
		}
	}
	if len(t.kept) == 0 {
		return []string{}
	}
	return lines[max(0, len(lines)-most):]
}
