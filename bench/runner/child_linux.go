package main

import (
	"os/exec"
	"syscall"
)

// dieWithParent makes the kernel kill the child should the runner be killed
// before it can do so itself.
func dieWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
