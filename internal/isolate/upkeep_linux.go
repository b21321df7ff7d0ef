package isolate

import (
	"bytes"
	"os"
	"runtime"
	"slices"
	"strconv"
	"syscall"
	"time"
	"unsafe"
)

// mostKept is how much memory a child without a limit may hold to be given another job.
const mostKept = 64 << 20

// upkeep makes this process, a child that runs several jobs, after each as it was before the first one, or finds that it
// cannot. The goroutine of the jobs uses it.
type upkeep struct {
	memory     int64 // that it may hold
	statm      int   // a file that says what it holds
	goroutines int   // that it has without a job
	own        []int // the processes of its parts
}

// newUpkeep has this process inherit the processes that its descendants leave behind, so that it knows all of them. limit is
// how much memory it may hold; 0: any.
func newUpkeep(limit int64) *upkeep {
	const setChildSubreaper = 36
	if _, _, errno := syscall.RawSyscall(syscall.SYS_PRCTL, setChildSubreaper, 1, 0); errno != 0 {
		return nil
	}
	statm, err := syscall.Open("/proc/self/statm", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &upkeep{memory: limit / 2, statm: statm}
}

// start remembers how this process is before its first job.
func (u *upkeep) start() {
	u.goroutines, u.own = settled(), childrenOf(os.Getpid())
	if u.memory == 0 {
		u.memory = max(mostKept, 2*u.held()) // a large program holds as much without any job
	}
}

// fit ends the processes that a job has left, and reports whether this process is fit for another job.
func (u *upkeep) fit() bool {
	return u.endStrays() && u.held() <= u.memory && within(20*time.Millisecond, func() bool { return runtime.NumGoroutine() <= u.goroutines })
}

// settled returns how many goroutines there are once their number stays for three looks, a millisecond apart: one of the start that is
// about to end would hide one that the first job leaves.
func settled() int {
	n := runtime.NumGoroutine()
	for same, looks := 0, 0; same < 3 && looks < 20; looks++ {
		time.Sleep(time.Millisecond)
		now := runtime.NumGoroutine()
		if same++; now != n {
			n, same = now, 0
		}
	}
	return n
}

// within reports whether something comes true soon: a goroutine may be about to end.
func within(long time.Duration, is func() bool) bool {
	for range 50 {
		if is() {
			return true
		}
		runtime.Gosched()
	}
	for end := time.Now().Add(long); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if is() {
			return true
		}
	}
	return false
}

// held returns how many bytes of memory this process holds.
func (u *upkeep) held() int64 {
	var line [64]byte
	n, _ := syscall.Pread(u.statm, line[:], 0) // ReadAt of a File would look for the end, too
	fields := bytes.Fields(line[:max(n, 0)])
	if len(fields) < 2 {
		return 0
	}
	pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return pages * int64(os.Getpagesize())
}

// endStrays kills all processes below this one but those of its parts, and reports whether none is left.
func (u *upkeep) endStrays() bool { return childless() || endChildren(u.own) }

// endDescendants kills all processes below this one.
func endDescendants() { _ = childless() || endChildren(nil) }

// childless reports whether this process has no child at all. One call tells it, where /proc takes dozens.
func childless() bool {
	const all = 0
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, all, 0, 0, syscall.WEXITED|syscall.WNOHANG|syscall.WNOWAIT, 0, 0)
	return errno == syscall.ECHILD
}

// endChildren kills the children of this process that are not among some. It inherits theirs, which it kills too.
func endChildren(but []int) bool {
	for end := time.Now().Add(exitGrace); ; {
		children := childrenOf(os.Getpid())
		if len(children) == 0 {
			return childless() // otherwise they cannot be seen here
		}
		left := false
		for _, pid := range children {
			if slices.Contains(but, pid) {
				continue
			}
			left = true
			_ = syscall.Kill(pid, syscall.SIGKILL)
			_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
		}
		if !left {
			return true
		}
		if time.Now().After(end) {
			return false
		}
		time.Sleep(100 * time.Microsecond)
	}
}

// killDescendants kills the processes below a child. Until it is killed itself, they stay below it, whatever group they are
// in.
func killDescendants(pid int) {
	_ = syscall.Kill(-pid, syscall.SIGSTOP) // so that it starts no more
	var kill func(pid int)
	kill = func(pid int) {
		children := childrenOf(pid)
		for _, child := range children {
			_ = syscall.Kill(child, syscall.SIGSTOP)
			kill(child)
			_ = syscall.Kill(child, syscall.SIGKILL)
		}
	}
	kill(pid)
}

// unread returns how many bytes of a pipe nothing has read.
func unread(pipe *os.File) int {
	var n int32
	raw, err := pipe.SyscallConn()
	if err != nil {
		return 0
	}
	_ = raw.Control(func(fd uintptr) {
		_, _, _ = syscall.Syscall(syscall.SYS_IOCTL, fd, syscall.TIOCINQ, uintptr(unsafe.Pointer(&n)))
	})
	return int(n)
}
