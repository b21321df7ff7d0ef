//go:build unix && !linux

package goworker

import (
	"os"
	"syscall"
)

// childAttributes put a child into a process group of its own.
func childAttributes() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// selfCommand is this program and its arguments.
func selfCommand() (path string, args []string, err error) {
	path, err = os.Executable()
	return path, os.Args, err
}

func preferAsVictim() {}

// memoryOf says nothing here: the child looks at itself.
func memoryOf(int) int64 { return 0 }
