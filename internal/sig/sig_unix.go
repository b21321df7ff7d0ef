//go:build unix

package sig

import (
	"os"
	"syscall"
)

// Cancel cancels the running jobs. Pause makes a worker take no more jobs until Resume.
var Cancel, Pause, Resume os.Signal = syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT
