package main

import (
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// starter runs functions on a thread that never ends: the kernel takes the end of the thread that
// started a child for the parent's death, and a slow link's goroutines take their threads with them.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
})

// startToDieWithParent starts a child that the kernel kills should the runner be killed before it
// can do so itself.
func startToDieWithParent(cmd *exec.Cmd) error {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}
