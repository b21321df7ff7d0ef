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

// CannotReuse says why a child runs one job only here; "": it does not.
const CannotReuse = ""

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
	for _, child := range childrenOf(pid) {
		total += memoryOf(child)
	}
	return total
}

// childrenOf returns the processes that a process has started, or inherited, and that were not waited for.
func childrenOf(pid int) (pids []int) {
	dir := fmt.Sprintf("/proc/%d/task/", pid)
	threads, _ := os.ReadDir(dir) // each has the children it started
	for _, thread := range threads {
		children, _ := os.ReadFile(dir + thread.Name() + "/children")
		for _, child := range bytes.Fields(children) {
			if n, err := strconv.Atoi(string(child)); err == nil {
				pids = append(pids, n)
			}
		}
	}
	return pids
}
