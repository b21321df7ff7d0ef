package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"
)

// isolated kills jobs that run in processes of their own, and the daemons that have
// started them. A child that is killed is the failure of its job and of no other; a daemon
// that is killed or stopped leaves no child, nor what a child has started.
func isolated(opts options) result {
	if _, err := os.ReadFile("/proc/self/environ"); err != nil {
		return skipped("there is no /proc")
	}
	return contain(opts, "isolated", nil, func(a *arena) {
		flags := []string{"-concurrency=4", "-shutdown-timeout=0.5"}
		fleet := []*process{a.start(flags...), a.start(flags...), a.start(flags...)}
		n := 0
		keepBusy := func() {
			for i := range max(0, 16-a.number("LLEN", "resque:queue:work")) {
				j := job{fmt.Sprint("job-", n), []string{"Child", "Child", "Nap", "Exit"}[i%4], 100 + a.intn(900)}
				if n%8 == 0 {
					j.class, j.ms = "Child", 4000 // longer than its daemon's stop
				}
				a.order(order{job: j})
				n++
			}
		}
		for i := range max(24, 2*opts.kills) {
			keepBusy()
			time.Sleep(a.between(50*time.Millisecond, 150*time.Millisecond))
			k := 1 + a.intn(len(fleet)-1) // the first finds the dead
			p := fleet[k]
			switch i % 8 {
			case 3:
				p.kill()
			case 7:
				p.forced = true // its jobs go back in the middle
				p.stop()
			default:
				if children := p.children(); len(children) > 0 {
					a.killChild(children[a.intn(len(children))])
					a.inject()
				}
				continue
			}
			a.inject()
			a.eventually("nothing of "+p.name+" is left", func() bool { return len(p.offspring()) == 0 })
			fleet[k] = a.launch(flags...)
		}
	})
}

// offspring are the processes beside this one that have its ledger in their environment:
// its children and what they have started.
func (p *process) offspring() []int {
	return slices.DeleteFunc(withEnvironment("CHAOS_LEDGER="+p.a.ledger(p.name)+"\x00"), func(pid int) bool { return pid == p.pid })
}

// withEnvironment finds processes by what their environment has in it.
func withEnvironment(mark string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		if environment, _ := os.ReadFile(file); bytes.Contains(environment, []byte(mark)) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

// children are those of the offspring that run jobs.
func (p *process) children() []int {
	return slices.DeleteFunc(p.offspring(), func(pid int) bool {
		name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
		return err != nil || string(name) == "sleep\n"
	})
}

// killChild kills a child, and waits until its daemon has seen to what it had started.
func (a *arena) killChild(pid int) {
	a.mu.Lock()
	a.killed[pid] = true
	a.mu.Unlock()
	_ = syscall.Kill(pid, syscall.SIGKILL)
	a.eventually("the group of a killed child is gone", func() bool { return syscall.Kill(-pid, 0) != nil })
}

// childKilled reports whether a job may have failed because its child was killed, perhaps
// before it noted anything.
func (a *arena) childKilled(s *story) bool {
	return a.unnoted || slices.ContainsFunc(s.runs, func(n run) bool { return a.killed[n.pid] })
}
