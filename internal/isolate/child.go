//go:build unix

package isolate

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"runtime/metrics"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/goworker/goworker/internal/failure"
)

// childProcess is this process if a daemon started it to run one job.
type childProcess struct {
	commands *bufio.Reader
	answers  *os.File
	request  func() (Request, error) // the first one; read once
	taken    atomic.Bool             // a Run has begun with the job
	stray    bool                    // the mark was inherited from a child
	say      sync.Mutex

	next chan *run   // closed when there is no other job; of a child that is kept
	told atomic.Bool // to end a job
}

// run is one job of this process.
type run struct {
	Request
	ctx     context.Context
	cancel  context.CancelCauseFunc
	handler chan string // the name of its goroutine, once it has begun
}

// child is nil in any other process. It removes the mark, so that a process which
// this one starts is no child.
var child = sync.OnceValue(func() *childProcess {
	mark, marked := os.LookupEnv(childVar)
	if !marked {
		return nil
	}
	_ = os.Unsetenv(childVar)
	if mark != strconv.Itoa(os.Getppid()) {
		return &childProcess{stray: true}
	}
	syscall.CloseOnExec(requestFD)
	syscall.CloseOnExec(answerFD)
	_ = syscall.SetNonblock(requestFD, true) // for the poller of the runtime: a thread that waits in a read costs more
	p := &childProcess{commands: bufio.NewReader(os.NewFile(requestFD, "commands")), answers: os.NewFile(answerFD, "answers"), next: make(chan *run, 1)}
	p.request = sync.OnceValues(func() (r Request, err error) { return r, receive(p.commands, maxRequest, &r) })
	return p
})

// Child reports whether this process was started to run one job.
func Child() bool { return child() != nil }

// Config returns the configuration of the daemon whose job this process runs; nil: this process runs none, or the daemon has no file.
func Config() json.RawMessage {
	p := child()
	if p == nil || p.stray {
		return nil
	}
	r, err := p.request()
	if err != nil {
		return nil // Serve says so
	}
	return r.Config
}

// otherRun is how long the Run of another daemon waits for that of the job's daemon.
const otherRun = 10 * time.Second

// Serve runs the job of this child with the program that it belongs to, and the jobs that follow if it is kept, and ends
// the process. It returns only with an error.
func Serve(ctx context.Context, own Errors, programs ...Program) error {
	p := child()
	if p.stray {
		return fmt.Errorf("goworker: %s is set, but this process was not started by that daemon, or the daemon has ended; unset it to start another", childVar)
	}
	// A service manager may signal all processes of the service. Only the daemon
	// decides when the job must stop.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT)
	r, err := p.request()
	if err != nil {
		return fmt.Errorf("goworker: this child process was not told its job: %w", err)
	}
	i := slices.IndexFunc(programs, func(p Program) bool { return r.Daemon == "" || r.Daemon == p.Identity() })
	if i < 0 || !p.taken.CompareAndSwap(false, true) {
		time.Sleep(otherRun)
		if !p.taken.Load() {
			return errors.New("goworker: this child process was to run a job of a daemon with other settings; main must run the same daemons in it")
		}
		select {} // the process ends with the job
	}
	p.serve(ctx, own, programs[i], r)
	programs[i].Flush()
	p.die(r.Keep) // the daemon kills it too, unless it dies just now
	select {}
}

// die ends this process and its group, and of one that is kept what has left the group.
func (p *childProcess) die(kept bool) {
	if kept {
		endDescendants()
	}
	_ = syscall.Kill(0, syscall.SIGKILL)
}

// serve runs the job and sends the outcome, and does so for those that follow.
func (p *childProcess) serve(ctx context.Context, own Errors, program Program, r Request) {
	ctx = context.WithoutCancel(ctx)
	job := newRun(ctx, r)
	go p.obey(ctx, job, r.Keep)
	preferAsVictim()
	if r.Memory > 0 {
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), r.Memory-r.Memory/10))
		go p.watchMemory(r.Memory)
	}
	var keep *upkeep
	if r.Keep {
		keep = newUpkeep(r.Memory)
	}
	p.send(answer{Ready: true})

	starting, abort := context.WithCancelCause(ctx) // not job: the parts may outlive it
	first := job.ctx
	detach := context.AfterFunc(first, func() { abort(context.Cause(first)) })
	stop, err := program.Parts(starting)
	detach()
	h := newHand()
	if keep != nil {
		keep.start()
	}
	for more := true; more; err = nil {
		o := new(childOutcome)
		broken := err != nil // the parts are
		if !broken {
			job.Said = func(message json.RawMessage) { p.send(answer{Said: message}) }
			var gone bool
			if o.Result, gone, err = h.perform(job, program); gone {
				h = newHand()
			}
		}
		kept := keep != nil && keep.fit() && !broken && !job.Last && !p.told.Load()
		if !kept && stop != nil {
			err = errors.Join(err, stop(context.WithoutCancel(job.ctx)))
		}
		if err != nil {
			o.Err = NewError(err, own)
		}
		job.cancel(nil)
		p.send(answer{Outcome: o, Kept: kept})
		if !kept {
			return
		}
		job, more = <-p.next
	}
	if stop != nil {
		_ = stop(ctx) // there is no job any more that could fail
	}
}

func newRun(ctx context.Context, r Request) *run {
	ctx, cancel := context.WithCancelCause(ctx)
	return &run{r, ctx, cancel, make(chan string, 1)}
}

// hand is a goroutine that runs the jobs of this process. It does not end with a job: one that is about to end could be
// counted as left behind.
type hand struct {
	name string
	work chan func()
}

func newHand() *hand {
	h, named := &hand{work: make(chan func())}, make(chan string)
	go func() {
		named <- failure.Goroutine()
		for job := range h.work {
			job()
		}
	}()
	h.name = <-named
	return h
}

// perform runs a job, and sends the name of its goroutine to it. gone says that the handler has ended the goroutine.
func (h *hand) perform(job *run, program Program) (result json.RawMessage, gone bool, err error) {
	gone, err = true, failure.ErrGoexit
	ended := make(chan bool)
	h.work <- func() {
		defer close(ended)
		job.handler <- h.name
		result, err = program.Perform(job.ctx, job.Request)
		gone = false
	}
	<-ended
	return result, gone, err
}

// obey carries out the daemon's commands, and ends the group when the daemon is gone. A command is for the last job that came before
// it, whether that has begun or not.
func (p *childProcess) obey(ctx context.Context, job *run, kept bool) {
	for {
		var c command
		data, err := next(p.commands, maxRequest)
		if err == nil {
			err = c.parse(data)
		}
		if err != nil {
			p.die(kept)
		}
		if c.Stack || c.Cancel != "" {
			p.told.Store(true)
		}
		if c.Stack {
			select {
			case name := <-job.handler:
				p.send(answer{Stack: failure.ShortTrace(failure.StackOf(name))})
			default: // it has not begun
			}
		}
		if c.Cancel != "" {
			job.cancel(causeOf(c.Cancel))
		}
		switch {
		case c.Next != nil:
			job = newRun(ctx, *c.Next)
			p.next <- job
		case c.End:
			close(p.next)
		}
	}
}

func (p *childProcess) send(a answer) {
	data, err := a.frame()
	if err != nil {
		panic("goworker: an answer has no form in JSON: " + err.Error())
	}
	p.say.Lock()
	defer p.say.Unlock()
	_, _ = p.answers.Write(data) // if the daemon is gone, the other pipe shows it
}

// watchMemory reports to the daemon when this process exceeds its memory limit, on systems
// where the daemon cannot see it.
func (p *childProcess) watchMemory(limit int64) {
	if memoryOf(os.Getpid()) > 0 {
		return
	}
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(memoryEvery) {
		metrics.Read(samples)
		if used := int64(samples[0].Value.Uint64() - samples[1].Value.Uint64()); used > limit {
			p.send(answer{Memory: used})
			return
		}
	}
}
