//go:build unix

package isolate

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"

	"github.com/goworker/goworker/internal/failure"
)

const (
	// exitGrace is how long a child may take to end after it sent the outcome, and how
	// long its pipe may stay open after it was killed.
	exitGrace = time.Second

	// mostStarts is how often a child is started for one job if signals stop the children
	// before they begin it.
	mostStarts = 3
)

// Run runs a job of a class in a child process. It returns the handler's result, in
// JSON, or its error: an *Error, *Crash, *OverTime, *OverMemory, or why there is no
// child.
func (l Limits) Run(ctx context.Context, class string, r Request) (json.RawMessage, error) {
	// Linux signals a child when the thread that started it ends. A thread ends with a
	// goroutine that is locked to it, unless the goroutine unlocks it first.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for starts := 1; ; starts++ {
		c, err := l.start(class, r)
		if err != nil {
			return nil, fmt.Errorf("starting a child process for %s: %w", class, err)
		}
		result, err := c.attend(ctx)
		if !c.stopped || starts == mostStarts || ctx.Err() != nil {
			return result, err
		}
	}
}

// childRun is a child process at its job.
type childRun struct {
	Limits
	class  string
	said   func(json.RawMessage) // see Request
	cmd    *exec.Cmd
	stderr tail

	pipe     *os.File // to the child
	commands chan []byte
	written  chan struct{} // closed when no more is written

	answerPipe *os.File
	answers    chan answer // closed when the child sends no more
	broken     error       // why it sends no more

	ready   bool     // the program has called Work or Run
	limited bool     // its hard time limit has passed
	killed  bool     // by this process
	stopped bool     // by a signal to the whole service, before it was ready
	used    int64    // bytes, if it was killed for them
	stack   []string // where its handler was at the limit

	kill   <-chan time.Time
	killAt time.Time
}

func (l Limits) start(class string, r Request) (c *childRun, err error) {
	r.Memory = l.Memory
	first, err := frame(r)
	if err != nil {
		return nil, err
	}
	path, args, err := selfCommand()
	if err != nil {
		return nil, err
	}
	requests, toChild, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer requests.Close()
	fromChild, answers, err := os.Pipe()
	if err != nil {
		toChild.Close()
		return nil, err
	}
	defer answers.Close()

	c = &childRun{
		Limits: l, class: class, said: r.Said, cmd: exec.Command(path),
		pipe: toChild, commands: make(chan []byte, 4), written: make(chan struct{}),
		answerPipe: fromChild, answers: make(chan answer),
	}
	c.cmd.Args = args
	c.cmd.Env = append(append(os.Environ(), l.Env...), childVar+"="+strconv.Itoa(os.Getpid()))
	c.cmd.Stdout, c.cmd.Stderr = os.Stdout, &c.stderr
	c.cmd.ExtraFiles = []*os.File{requests, answers} // requestFD, answerFD
	c.cmd.SysProcAttr = childAttributes()
	c.cmd.WaitDelay = exitGrace
	if err := c.cmd.Start(); err != nil {
		toChild.Close()
		fromChild.Close()
		return nil, err
	}
	c.commands <- first
	go c.write()
	go c.read()
	return c, nil
}

// write sends messages until there are no more. A child that does not read blocks it
// until the pipe is closed.
func (c *childRun) write() {
	defer close(c.written)
	for message := range c.commands {
		_, _ = c.pipe.Write(message) // if the child is gone, the other pipe shows it
	}
}

func (c *childRun) read() {
	defer close(c.answers)
	for {
		var a answer
		if c.broken = receive(c.answerPipe, maxAnswer, &a); c.broken != nil {
			return
		}
		c.answers <- a
	}
}

func (c *childRun) send(message command) {
	if data, err := frame(message); err == nil {
		c.commands <- data
	}
}

// attend waits until the job has ended, and ends it at its limits. When it returns, the
// child and its group are gone.
func (c *childRun) attend(ctx context.Context) (json.RawMessage, error) {
	done := ctx.Done()
	var limit, look <-chan time.Time
	if c.Hard > 0 {
		timer := time.NewTimer(c.Hard)
		defer timer.Stop()
		limit = timer.C
	}
	if c.Memory > 0 {
		ticker := time.NewTicker(memoryEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case a, open := <-c.answers:
			switch {
			case !open:
				return nil, c.crashed(ctx, c.end())
			case a.Outcome != nil:
				_ = c.answerPipe.SetReadDeadline(time.Now().Add(exitGrace))
				for range c.answers { // until it has ended
				}
				c.end()
				return c.ended(a.Outcome)
			case a.Said != nil:
				if c.said != nil {
					c.said(a.Said)
				}
			case a.Memory > 0:
				c.overMemory(a.Memory)
			case a.Stack != nil:
				c.stack = a.Stack
			default:
				c.ready = a.Ready
			}
		case <-done:
			done = nil
			cause := context.Cause(ctx)
			c.send(command{Cancel: cause.Error()})
			if failure.Is(cause, failure.ErrShutdown) {
				c.killIn(min(c.Grace, c.AtShutdown))
			} else {
				c.killIn(c.Grace)
			}
		case <-limit:
			c.limited = true
			c.send(command{Cancel: context.DeadlineExceeded.Error(), Stack: true})
			c.signal(syscall.SIGTERM)
			c.killIn(c.Grace)
		case <-look:
			if used := memoryOf(c.cmd.Process.Pid); used > c.Memory {
				c.overMemory(used)
			}
		case <-c.kill:
			c.killNow()
		}
	}
}

// killIn kills the child after a while, or sooner if an earlier call said so.
func (c *childRun) killIn(grace time.Duration) {
	if at := time.Now().Add(grace); c.kill == nil || at.Before(c.killAt) {
		c.kill, c.killAt = time.After(grace), at
	}
}

func (c *childRun) overMemory(used int64) {
	if c.used == 0 {
		c.used = used
		c.killNow()
	}
}

func (c *childRun) killNow() {
	c.killed = true
	c.signal(syscall.SIGKILL)
	_ = c.answerPipe.SetReadDeadline(time.Now().Add(exitGrace)) // another process may hold the other end
}

// signal signals the whole group. Until the child was waited for, no other process can
// have its number.
func (c *childRun) signal(s syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, s) }

// end removes everything of the child: its process, number, files and goroutines
// here. It returns how the child ended.
func (c *childRun) end() syscall.WaitStatus {
	c.signal(syscall.SIGKILL)
	_ = c.cmd.Wait()
	reapGroup(c.cmd.Process.Pid)
	close(c.commands)
	c.pipe.Close()
	<-c.written
	c.answerPipe.Close()
	for range c.answers {
	}
	status, _ := c.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return status
}

// reapGroup waits for killed processes of a group that became our children when the
// child ended. That happens if this process is process 1, as in many containers.
func reapGroup(group int) {
	if os.Getpid() != 1 {
		return
	}
	for began := time.Now(); time.Since(began) < exitGrace; {
		switch pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil); {
		case err == syscall.EINTR:
		case err != nil:
			return // there are none
		case pid == 0: // it is about to end
			time.Sleep(time.Millisecond)
		}
	}
}
