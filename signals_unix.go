//go:build unix

package goworker

import (
	"os"
	"syscall"
)

var sigCancel, sigPause, sigResume os.Signal = syscall.SIGUSR1, syscall.SIGUSR2, syscall.SIGCONT
