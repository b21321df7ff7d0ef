//go:build unix

package sig

import (
	"os"
	"syscall"
)

// Cancel cancels the running jobs. Pause makes a worker take no more jobs until Resume. Reload reads the configuration file again.
var Cancel, Pause, Resume, Reload os.Signal = syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT, syscall.SIGHUP
