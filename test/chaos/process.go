package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// dies is the status with which the class Die ends its process, having noted so.
const dies = 7

// process is one run of a worker program.
type process struct {
	a      *arena
	name   string
	cmd    *exec.Cmd
	pid    int
	node   bool // no daemon of goworker: node-resque's, Ruby's, a server or a consumer
	begun  time.Time
	exited chan struct{}

	enqueues bool // it runs no jobs

	// valid after exited
	died   time.Time
	status int // -1: by a signal

	termed, forced bool      // by the fault; guarded by the arena's mutex
	killed         time.Time // the same
}

// start runs a worker on the queue "work", with further flags, and returns when it is
// in the fleet.
func (a *arena) start(flags ...string) *process { return a.startWith(nil, flags...) }

func (a *arena) startWith(environment []string, flags ...string) *process {
	p := a.launchWith(environment, flags...)
	a.eventually(p.name+" enters the fleet", func() bool {
		if !p.alive() {
			a.Fatalf("%s ended by itself with status %d; see %s", p.name, p.status, p.output())
		}
		return p.id() != ""
	})
	return p
}

// launch is start without the wait.
func (a *arena) launch(flags ...string) *process { return a.launchWith(nil, flags...) }

func (a *arena) launchWith(environment []string, flags ...string) *process {
	// The last of two flags counts.
	flags = append([]string{"-uri=" + a.redis.URI(), "-queues=work", "-interval=5", "-concurrency=5"}, flags...)
	return a.run("w", exec.Command(a.opts.worker, flags...), environment...)
}

// run starts a program that keeps a ledger. It dies with the harness.
func (a *arena) run(kind string, cmd *exec.Cmd, environment ...string) *process {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := &process{a: a, name: fmt.Sprint(kind, len(a.fleet)), cmd: cmd, node: kind == "node" || kind == "ruby" || kind == "http" || kind == "consumer", enqueues: kind == "pushing", begun: time.Now(), exited: make(chan struct{})}
	cmd.Env = append(append(os.Environ(), "CHAOS_LEDGER="+a.ledger(p.name)), environment...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	out, err := os.Create(p.output())
	if err != nil {
		a.Fatalf("%v", err)
	}
	defer out.Close()
	cmd.Stdout, cmd.Stderr = out, out
	if err := startOnLastingThread(cmd); err != nil {
		a.Fatalf("%v", err)
	}
	p.pid = cmd.Process.Pid
	go func() {
		_ = cmd.Wait()
		p.died, p.status = time.Now(), cmd.ProcessState.ExitCode()
		a.mu.Lock()
		killed := p.killed
		a.mu.Unlock()
		// Its end itself may take seconds on a busy machine, in which it does nothing.
		if p.status == -1 && !killed.IsZero() {
			p.died = killed
		} else if note, err := os.Stat(a.ledger(p.name)); p.status == dies && err == nil {
			p.died = note.ModTime()
		}
		close(p.exited)
	}()
	a.fleet = append(a.fleet, p)
	return p
}

// starter starts processes on a thread that never ends: the kernel takes the end of
// the thread that started a child for the parent's death.
var starter = func() chan func() {
	work := make(chan func())
	go func() {
		runtime.LockOSThread()
		for f := range work {
			f()
		}
	}()
	return work
}()

func startOnLastingThread(cmd *exec.Cmd) error {
	done := make(chan error)
	starter <- func() { done <- cmd.Start() }
	return <-done
}

func (p *process) output() string { return filepath.Join(p.a.dir, p.name+".out") }

// id is the process's name in the fleet, "" where it is not in it.
func (p *process) id() string {
	for _, id := range p.a.list("ZRANGE", "resque:go:processes", 0, -1) {
		if pidOf(id) == p.pid {
			return id
		}
	}
	return ""
}

// pidOf reads the middle of host:pid:random.
func pidOf(id string) int {
	parts := strings.Split(id, ":")
	pid, _ := strconv.Atoi(parts[max(0, len(parts)-2)])
	return pid
}

func (p *process) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// ended reports whether the process had ended at a time.
func (p *process) ended(at int64) bool { return !p.alive() && p.died.UnixNano() < at }

// dead reports whether it had, without having left in peace.
func (p *process) dead(at int64) bool { return p.ended(at) && p.status != 0 }

func (p *process) signal(s syscall.Signal) {
	if p.alive() {
		_ = p.cmd.Process.Signal(s)
	}
}

// kill ends the process as a crash would and returns when it is gone.
func (p *process) kill() {
	p.a.mu.Lock()
	if p.killed.IsZero() {
		p.killed = time.Now()
	}
	p.a.mu.Unlock()
	p.signal(syscall.SIGKILL)
	<-p.exited
}

// term asks the process to stop. One that has ended was not asked.
func (p *process) term() {
	p.a.mu.Lock()
	p.termed = p.termed || p.alive()
	p.a.mu.Unlock()
	p.signal(syscall.SIGTERM)
}

// stop sends TERM and expects a clean exit.
func (p *process) stop() {
	p.term()
	p.mustLeave()
}

// mustLeave waits for the end of a process that was asked to stop, with status 0. One
// that leaves jobs behind says so with another.
func (p *process) mustLeave() {
	select {
	case <-p.exited:
		if p.status != 0 && p.entered() && !p.a.harsh && !p.forced && !p.unheard() {
			p.a.problem("%s exited with status %d; see %s", p.name, p.status, p.output())
		}
	case <-time.After(soon):
		p.a.problem("%s did not end within %v; see %s", p.name, soon, p.output())
		p.kill()
	}
}

// unheard reports whether a process ended without an answer of Redis to its leaving: it
// waits two seconds for one, in which a busy machine may do nothing for it.
func (p *process) unheard() bool {
	if p.alive() || p.status <= 0 {
		return false
	}
	text, err := os.ReadFile(p.output())
	return err == nil && (strings.Contains(string(text), "i/o timeout") || strings.Contains(string(text), "does not answer within"))
}

// entered reports whether the process ever was in the fleet. One that was stopped while it
// still waited for Redis says that it could not start.
func (p *process) entered() bool {
	text, err := os.ReadFile(p.output())
	return err != nil || strings.Contains(string(text), "started")
}

// freeze stops the process for f's time, without ending it.
func (p *process) freeze(f func()) {
	p.a.silence(p, func() {
		p.signal(syscall.SIGSTOP)
		f()
		p.signal(syscall.SIGCONT)
	})
}
