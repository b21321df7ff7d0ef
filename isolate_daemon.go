//go:build unix

package goworker

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"time"
)

// This file is the daemon's side of an isolated job: it starts the child, tells it
// what to do and when to give way, and ends it.

const (
	// shutdownGrace is the most a child gets at a shutdown: what it returns, or that
	// it was killed, must come before the daemon gives its job back by itself.
	shutdownGrace = cancelGrace / 2

	// exitGrace is how long a child may take to end after it told the outcome, and how
	// long its pipe may stay open after it was killed.
	exitGrace = time.Second

	// mostStarts is how often a child is started for a job whose children are stopped by
	// a signal before they come to it.
	mostStarts = 3

	// memoryEvery is how often the memory of a child is looked at.
	memoryEvery = 100 * time.Millisecond
)

// Perform runs the job in a child process.
func (i *isolation) Perform(ctx context.Context, d *Delivery) error {
	// Linux tells a child of the end of the thread that started it: this one must not
	// be ended, as a thread is whose goroutine ends while it is locked to it.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for starts := 1; ; starts++ {
		c, err := i.start(d)
		if err != nil {
			return fmt.Errorf("starting a child process for %s: %w", d.Class, err)
		}
		if err = c.attend(ctx); !c.stopped || starts == mostStarts || ctx.Err() != nil {
			return err
		}
	}
}

// childRun is a child process at its job.
type childRun struct {
	*isolation
	d      *Delivery
	cmd    *exec.Cmd
	stderr tail

	pipe     *os.File // to the child
	commands chan []byte
	written  chan struct{} // closed when no more is written

	answerPipe *os.File
	answers    chan answer // closed when the child says no more
	broken     error       // and why, then

	ready   bool     // it has called Work or Run
	limited bool     // its hard time limit has passed
	killed  bool     // by us
	stopped bool     // by a signal that meant the whole service, before it was ready
	used    int64    // bytes, where it was killed for them
	stack   []string // where its handler was at the limit

	kill   <-chan time.Time
	killAt time.Time
}

func (i *isolation) start(d *Delivery) (c *childRun, err error) {
	first, err := frame(newRequest(d, i.memory))
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
		isolation: i, d: d, cmd: exec.Command(path),
		pipe: toChild, commands: make(chan []byte, 4), written: make(chan struct{}),
		answerPipe: fromChild, answers: make(chan answer),
	}
	c.cmd.Args = args
	c.cmd.Env = append(append(os.Environ(), i.env...), childVar+"="+strconv.Itoa(os.Getpid()))
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

func newRequest(d *Delivery, memory int64) request {
	r := request{
		Queue: d.Queue, Payload: d.raw, ID: d.ID, Attempt: d.Attempt, Retries: d.RetriesLeft, Recovered: d.Recovered,
		Worker: d.Worker, ReservedAt: d.ReservedAt, UseNumber: d.useNumber, Memory: memory,
	}
	if d.workers != nil {
		r.Daemon = d.workers.d.config.identity()
	}
	return r
}

// identity tells the daemons of one program apart, in the same way in its children.
func (c config) identity() string { return c.URI + "\x00" + c.Namespace + "\x00" + c.queues.Label() }

// write sends messages until there are no more. A child that does not read blocks it
// until the pipe is closed.
func (c *childRun) write() {
	defer close(c.written)
	for message := range c.commands {
		_, _ = c.pipe.Write(message) // a child that is gone shows at the other pipe
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

// attend waits for the end of the job and sees to it that there is one. When it
// returns, the child and its group are gone.
func (c *childRun) attend(ctx context.Context) error {
	done := ctx.Done()
	var limit, look <-chan time.Time
	if c.limit > 0 {
		timer := time.NewTimer(c.limit)
		defer timer.Stop()
		limit = timer.C
	}
	if c.memory > 0 {
		ticker := time.NewTicker(memoryEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case a, open := <-c.answers:
			switch {
			case !open:
				return c.crashed(ctx, c.end())
			case a.Outcome != nil:
				_ = c.answerPipe.SetReadDeadline(time.Now().Add(exitGrace))
				for range c.answers { // until it has ended
				}
				c.end()
				return c.ended(a.Outcome)
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
			if is(cause, ErrShutdown) {
				c.killIn(min(c.grace, shutdownGrace))
			} else {
				c.killIn(c.grace)
			}
		case <-limit:
			c.limited = true
			c.send(command{Cancel: context.DeadlineExceeded.Error(), Stack: true})
			c.signal(syscall.SIGTERM)
			c.killIn(c.grace)
		case <-look:
			if used := memoryOf(c.cmd.Process.Pid); used > c.memory {
				c.overMemory(used)
			}
		case <-c.kill:
			c.killNow()
		}
	}
}

// killIn kills the child after a while, or sooner if that was decided before.
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
	_ = c.answerPipe.SetReadDeadline(time.Now().Add(exitGrace)) // somebody else may hold the other end
}

// signal reaches the whole group. Until the child was waited for, its number belongs
// to nobody else.
func (c *childRun) signal(s syscall.Signal) { _ = syscall.Kill(-c.cmd.Process.Pid, s) }

// end leaves nothing behind of the child: its processes, its number, our files and
// goroutines. It returns how the child ended.
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
// child ended. That is so where we are process 1, as in many a container, and nobody
// else would.
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
