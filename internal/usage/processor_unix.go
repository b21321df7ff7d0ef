//go:build unix

package usage

import (
	"syscall"
	"time"
)

// Processor returns how long the process has used a processor.
func Processor() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
