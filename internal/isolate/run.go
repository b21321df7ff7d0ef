//go:build unix

package isolate

import (
	"bufio"
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
	"github.com/goworker/goworker/internal/sdnotify"
)

const (
	// exitGrace is how long a child may take to end after it sent the outcome, and how
	// long its pipe may stay open after it was killed.
	exitGrace = time.Second

	// mostStarts is how often a child is started for one job if signals stop the children
	// before they begin it.
	mostStarts = 3
)

// Run runs a job of a class in a child process: one that k has kept, if the class reuses its children, or a new one. It
// returns the handler's result, in JSON, or its error: an *Error, *Crash, *OverTime, *OverMemory, or why there is no child.
func (l Limits) Run(ctx context.Context, class string, r Request, k *Keeper) (json.RawMessage, error) {
	r.Memory = l.Memory
	if r.Keep = l.Reuse > 1 && k.keeps(); r.Keep {
		for c := k.take(class, r); c != nil; c = k.take(class, r) {
			if err := c.begin(l, r); err != nil {
				c.end()
				return nil, err
			}
			if result, err := c.attend(ctx, k); !c.unread {
				return result, err
			}
		}
	}
	for starts := 1; ; starts++ {
		result, again, err := l.runNew(ctx, class, r, k)
		if !again || starts == mostStarts || ctx.Err() != nil {
			return result, err
		}
	}
}

// runNew runs a job in a new child. again is true if the child was stopped before it began the job.
func (l Limits) runNew(ctx context.Context, class string, r Request, k *Keeper) (result json.RawMessage, again bool, err error) {
	// Linux signals a child when the thread that started it ends. A thread ends with a
	// goroutine that is locked to it, unless the goroutine unlocks it first. A child that is ready does not heed the signal.
	runtime.LockOSThread()
	c, err := l.start(class, r)
	if err != nil {
		runtime.UnlockOSThread()
		return nil, false, fmt.Errorf("starting a child process for %s: %w", class, err)
	}
	result, err = c.attend(ctx, k)
	if !c.ready {
		runtime.UnlockOSThread()
	}
	return result, c.stopped, err
}

// childRun is a child process at its job, or one that waits for another job. It belongs to the goroutine that has taken it.
type childRun struct {
	Limits
	class   string
	config  json.RawMessage       // of the daemon, as the child knows it
	process string                // as Request.Process: a daemon that has lost its lease has another one
	jobs    int                   // it was given
	said    func(json.RawMessage) // see Request
	cmd     *exec.Cmd
	stderr  tail

	expires *time.Timer // while it waits

	pipe     *os.File // to the child
	commands chan toWrite
	written  chan struct{} // closed when no more is written
	lost     bool          // the request was not written; read when no more is written

	answerPipe *os.File
	answers    chan answer // closed when the child sends no more
	broken     error       // why it sends no more

	ready   bool     // the program has called Work or Run
	unread  bool     // it ended before it read the job
	told    bool     // it was told to end the job
	limited bool     // its hard time limit has passed
	killed  bool     // by this process
	stopped bool     // by a signal to the whole service, before it was ready
	used    int64    // bytes, if it was killed for them
	stack   []string // where its handler was at the limit

	kill   <-chan time.Time
	killAt time.Time
}

func (l Limits) start(class string, r Request) (c *childRun, err error) {
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
	fromStderr, stderr, err := os.Pipe()
	if err != nil {
		toChild.Close()
		fromChild.Close()
		return nil, err
	}
	defer stderr.Close()

	c = &childRun{
		Limits: l, class: class, config: r.Config, process: r.Process, jobs: 1, said: r.Said, cmd: exec.Command(path),
		stderr: tail{pipe: fromStderr, done: make(chan struct{})},
		pipe:   toChild, commands: make(chan toWrite, 4), written: make(chan struct{}),
		answerPipe: fromChild, answers: make(chan answer),
	}
	c.cmd.Args = args
	c.cmd.Env = append(append(sdnotify.Without(os.Environ()), l.Env...), childVar+"="+strconv.Itoa(os.Getpid()))
	c.cmd.Stdout, c.cmd.Stderr = os.Stdout, stderr
	c.cmd.ExtraFiles = []*os.File{requests, answers} // requestFD, answerFD
	c.cmd.SysProcAttr = childAttributes()
	if err := c.cmd.Start(); err != nil {
		toChild.Close()
		fromChild.Close()
		fromStderr.Close()
		return nil, err
	}
	c.commands <- toWrite{first, true}
	go c.write()
	go c.read()
	go c.stderr.pass()
	return c, nil
}

// atOnce is how long a message may be that is written without another goroutine: a pipe that is empty has room for it.
const atOnce = 4 << 10

// begin gives another job to a child that waits.
func (c *childRun) begin(l Limits, r Request) error {
	c.jobs++
	c.Limits, c.said = l, r.Said
	r.Last = c.jobs >= c.Reuse
	r.Daemon, r.Config, r.Memory, r.Keep = "", nil, 0, false // these it knows
	message, err := (&command{Next: &r}).frame()
	if err != nil {
		return err
	}
	c.stderr.cut()
	if len(message) <= atOnce {
		c.put(toWrite{message, true})
	} else {
		c.commands <- toWrite{message, true}
	}
	return nil
}

// waits reports whether a child without a job is still there. What it said after its last job is dropped.
func (c *childRun) waits() bool {
	for {
		select {
		case _, open := <-c.answers:
			if !open {
				return false
			}
		default:
			return true
		}
	}
}

// retire has a child without a job stop its parts, and ends it.
func (c *childRun) retire() {
	c.send(command{End: true})
	late := time.AfterFunc(min(c.Grace, c.AtShutdown), func() { _ = c.answerPipe.SetReadDeadline(time.Now()) })
	for range c.answers { // until it has ended
	}
	late.Stop()
	c.end()
}

// write sends messages until there are no more. A child that does not read blocks it
// until the pipe is closed.
func (c *childRun) write() {
	defer close(c.written)
	for message := range c.commands {
		c.put(message)
	}
}

// toWrite is a message to a child.
type toWrite struct {
	data    []byte
	request bool
}

func (c *childRun) put(m toWrite) {
	if _, err := c.pipe.Write(m.data); err != nil && m.request {
		c.lost = true // the child is gone, as the other pipe shows
	}
}

func (c *childRun) read() {
	defer close(c.answers)
	pipe := bufio.NewReader(c.answerPipe)
	for {
		data, err := next(pipe, maxAnswer)
		var a answer
		if err == nil {
			err = a.parse(data)
		}
		if c.broken = err; err != nil {
			return
		}
		c.answers <- a
	}
}

func (c *childRun) send(message command) {
	if data, err := message.frame(); err == nil {
		c.commands <- toWrite{data: data}
	}
}

// attend waits until the job has ended, and ends it at its limits. When it returns, the
// child and its group are gone, or k has it.
func (c *childRun) attend(ctx context.Context, k *Keeper) (json.RawMessage, error) {
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
				left := unread(c.pipe)
				status := c.end()
				c.unread = c.jobs > 1 && !c.told && (left > 0 || c.lost)
				return nil, c.crashed(ctx, status)
			case a.Outcome != nil && a.Kept:
				result, err := c.ended(a.Outcome)
				if c.told { // which it may hear only now
					c.retire()
				} else {
					k.keep(c)
				}
				return result, err
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
			case a.Ready && !c.ready:
				c.ready = true
				runtime.UnlockOSThread()
			}
		case <-done:
			done, c.told = nil, true
			cause := context.Cause(ctx)
			c.send(command{Cancel: cause.Error()})
			if failure.Is(cause, failure.ErrShutdown) {
				c.killIn(min(c.Grace, c.AtShutdown))
			} else {
				c.killIn(c.Grace)
			}
		case <-limit:
			c.limited, c.told = true, true
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
	if c.Reuse > 1 {
		killDescendants(c.cmd.Process.Pid)
	}
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
	c.stderr.close()
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
