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

// CannotReuse says why a child runs one job only here.
const CannotReuse = "it needs Linux, where a process can see and end what a handler has started"

func preferAsVictim() {}

// unread is not used here; nor is what follows.
func unread(*os.File) int { return 0 }

func killDescendants(int) {}

type upkeep struct{}

func newUpkeep(int64) *upkeep { return nil }

func (*upkeep) start() {}

func (*upkeep) fit() bool { return false }

func endDescendants() {}

// memoryOf is 0 here: the child measures itself.
func memoryOf(int) int64 { return 0 }
