package isolate

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
)

// childAttributes put a child into a process group of its own. When this process is
// killed, a child that has not called Work yet gets SIGTERM; one that has kills its
// group itself.
func childAttributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
}

// selfCommand returns this very program, even if its file was replaced since,
// and the arguments it was started with, even if main changed os.Args.
func selfCommand() (path string, args []string, err error) {
	const self = "/proc/self/exe"
	line, err := os.ReadFile("/proc/self/cmdline")
	if err != nil || len(line) == 0 {
		path, err = os.Executable()
		return path, os.Args, err
	}
	return self, strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00"), nil
}

// preferAsVictim makes the kernel kill the child and not the daemon when memory runs
// out.
func preferAsVictim() { _ = os.WriteFile("/proc/self/oom_score_adj", []byte("500"), 0) }

// memoryOf returns how many bytes a process and its descendants hold in memory. Each counts
// with the memory it shares with others.
func memoryOf(pid int) (total int64) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	statm, _ := os.ReadFile(dir + "statm")
	if fields := bytes.Fields(statm); len(fields) > 1 {
		pages, _ := strconv.ParseInt(string(fields[1]), 10, 64)
		total = pages * int64(os.Getpagesize())
	}
	threads, _ := os.ReadDir(dir + "task") // each has the children it started
	for _, thread := range threads {
		children, _ := os.ReadFile(dir + "task/" + thread.Name() + "/children")
		for _, child := range bytes.Fields(children) {
			if n, err := strconv.Atoi(string(child)); err == nil {
				total += memoryOf(n)
			}
		}
	}
	return total
}
