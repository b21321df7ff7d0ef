package isolated

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// As process 1, which a daemon is in many a container, it inherits what its children
// leave behind and must not keep it as zombies.
func TestProcessOneKeepsNoZombies(t *testing.T) {
	t.Parallel()
	b, cmd := daemonProcess(t)
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if err := cmd.Start(); err != nil {
		t.Skip("no process namespace of its own: ", err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	b.push(`{"class":"Leave","args":[]}`, `{"class":"Leave","args":[]}`)
	b.eventually("the jobs are done", func() bool { return b.stat("processed") == 2 })
	if pids := b.pids(); len(pids) != 6 {
		t.Errorf("the jobs noted the processes %v", pids)
	}
	if zombies := childrenOf(cmd.Process.Pid); len(zombies) > 0 {
		t.Errorf("it keeps %v", zombies)
	}
}

// A daemon whose file was replaced, as by a deploy, starts children of what it is
// itself.
func TestReplacedBinary(t *testing.T) {
	t.Parallel()
	b, cmd := daemonProcess(t)
	cmd.Path = filepath.Join(t.TempDir(), "worker")
	// Were the copy written here, a child that another test forks meanwhile would have the file open, and it could not be run.
	if out, err := exec.Command("cp", os.Args[0], cmd.Path).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Wait() }()
	defer func() { _ = cmd.Process.Kill() }()
	b.push(`{"class":"Nothing","args":[]}`)
	b.eventually("a first job is done", func() bool { return b.stat("processed") == 1 })
	other := cmd.Path + ".new"
	if err := os.WriteFile(other, []byte("#!/bin/sh\nexit 1\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, cmd.Path); err != nil {
		t.Fatal(err)
	}
	b.push(`{"class":"Nothing","args":[]}`)
	b.eventually("a second job is done", func() bool { return b.stat("processed") == 2 })
	if n := b.stat("failed"); n != 0 {
		t.Errorf("%d failed", n)
	}
}

// childrenOf are the states of a process's children, zombies included.
func childrenOf(parent int) (states []string) {
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		stat, _ := os.ReadFile(name)
		_, after, _ := strings.Cut(string(stat), ") ")
		if fields := strings.Fields(after); len(fields) > 1 && fields[1] == fmt.Sprint(parent) {
			states = append(states, string(stat[:len(stat)-len(after)])+fields[0])
		}
	}
	return states
}
