//go:build unix

package probe

import (
	"syscall"
	"time"
)

// cpuTime is what the process has used of the processors, in and out of the kernel, and
// with it the children that have ended.
func cpuTime() time.Duration {
	var used time.Duration
	for _, who := range []int{syscall.RUSAGE_SELF, syscall.RUSAGE_CHILDREN} {
		var u syscall.Rusage
		if err := syscall.Getrusage(who, &u); err != nil {
			return 0
		}
		used += time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	return used
}
