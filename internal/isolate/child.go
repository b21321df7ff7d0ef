//go:build unix

package isolate

import (
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
	commands, answers *os.File
	request           func() (Request, error) // read once
	taken             atomic.Bool             // a Run has begun with the job
	stray             bool                    // the mark was inherited from a child
	say               sync.Mutex
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
	p := &childProcess{commands: os.NewFile(requestFD, "commands"), answers: os.NewFile(answerFD, "answers")}
	p.request = sync.OnceValues(func() (r Request, err error) { return r, receive(p.commands, maxRequest, &r) })
	return p
})

// Child reports whether this process was started to run one job.
func Child() bool { return child() != nil }

// otherRun is how long the Run of another daemon waits for that of the job's daemon.
const otherRun = 10 * time.Second

// Serve runs the job of this child with the program that it belongs to, and ends the
// process. It returns only with an error.
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
	r.Said = func(message json.RawMessage) { p.send(answer{Said: message}) }
	p.serve(ctx, own, programs[i], r)
	programs[i].Flush()
	_ = syscall.Kill(0, syscall.SIGKILL) // the daemon does so too, unless it dies just now
	select {}
}

// serve runs the job and sends the outcome.
func (p *childProcess) serve(ctx context.Context, own Errors, program Program, r Request) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	handler := make(chan string, 1)
	go p.obey(cancel, handler)
	preferAsVictim()
	if r.Memory > 0 {
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), r.Memory-r.Memory/10))
		go p.watchMemory(r.Memory)
	}
	p.send(answer{Ready: true})

	o := new(childOutcome)
	stop, err := program.Parts(ctx)
	if err == nil {
		o.Result, err = perform(ctx, program, r, handler)
	}
	if stop != nil {
		err = errors.Join(err, stop(context.WithoutCancel(ctx)))
	}
	if err != nil {
		o.Err = NewError(err, own)
	}
	p.send(answer{Outcome: o})
}

// perform runs the job in a goroutine of its own, whose name it sends to handler.
func perform(ctx context.Context, program Program, r Request, handler chan<- string) (result json.RawMessage, err error) {
	err = failure.ErrGoexit
	ended := make(chan bool)
	go func() {
		defer close(ended)
		handler <- failure.Goroutine()
		result, err = program.Perform(ctx, r)
	}()
	<-ended
	return result, err
}

// obey carries out the daemon's commands, and ends the group when the daemon is gone.
func (p *childProcess) obey(cancel context.CancelCauseFunc, handler <-chan string) {
	for {
		var c command
		if receive(p.commands, maxRequest, &c) != nil {
			_ = syscall.Kill(0, syscall.SIGKILL)
		}
		if c.Stack {
			select {
			case name := <-handler:
				p.send(answer{Stack: failure.ShortTrace(failure.StackOf(name))})
			default: // it has not begun
			}
		}
		if c.Cancel != "" {
			cancel(causeOf(c.Cancel))
		}
	}
}

func (p *childProcess) send(a answer) {
	data, err := frame(a)
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
