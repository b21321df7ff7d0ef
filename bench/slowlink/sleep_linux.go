package slowlink

import (
	"runtime"
	"syscall"
	"time"
)

// exactSleeps keeps the calling goroutine on a thread whose sleeps the kernel does
// not stretch to wake several threads at once (by 50 µs by default).
func exactSleeps() {
	runtime.LockOSThread()
	const setTimerSlack = 29 // PR_SET_TIMERSLACK
	_, _, _ = syscall.RawSyscall(syscall.SYS_PRCTL, setTimerSlack, 1, 0)
}

// exactSleep goes on when a signal has interrupted it.
func exactSleep(d time.Duration) {
	until := time.Now().Add(d)
	for ; d > 0; d = time.Until(until) {
		t := syscall.NsecToTimespec(d.Nanoseconds())
		_ = syscall.Nanosleep(&t, nil)
	}
}
