//go:build unix && !linux

package isolate

import (
	"os"
	"syscall"
)

// childAttributes put a child into a process group of its own.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// selfCommand returns this program and its arguments.
func selfCommand() (path string, args []string, err error) {
	path, err = os.Executable()
	return path, os.Args, err
}

func preferAsVictim() {}

// memoryOf is 0 here: the child measures itself.
func memoryOf(int) int64 { return 0 }
