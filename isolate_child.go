//go:build unix

package goworker

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

	"github.com/goworker/goworker/internal/payload"
)

// This file is the child's side of an isolated job: where main calls Run, the job is
// run instead.

// childProcess is this process where it was started to run one job.
type childProcess struct {
	commands, answers *os.File
	request           func() (request, error) // read once
	taken             atomic.Bool             // a Run has begun with the job
	stray             bool                    // the mark was inherited from a child
	say               sync.Mutex
}

// child is nil in a process that is none. The mark is taken off, so that what this
// process starts is none either.
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
	p.request = sync.OnceValues(func() (r request, err error) { return r, receive(p.commands, maxRequest, &r) })
	return p
})

// otherRun is how long a Run that is not the job's own waits for the one that is.
const otherRun = 10 * time.Second

// serveChild runs the job of this child with one of these daemons and those parts that
// belong in a child, and ends the process.
func serveChild(ctx context.Context, daemons []*Daemon, parts []Part) error {
	p := child()
	if p.stray {
		return fmt.Errorf("goworker: %s is set, but this process was not started by that daemon, or the daemon has ended; unset it to start another", childVar)
	}
	// Whoever stops the service may signal all its processes. When the job gives way
	// is for the daemon to say.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM, syscall.SIGINT)
	r, err := p.request()
	if err != nil {
		return fmt.Errorf("goworker: this child process was not told its job: %w", err)
	}
	i := slices.IndexFunc(daemons, func(d *Daemon) bool { return r.Daemon == "" || r.Daemon == d.initialized().config.identity() })
	if i < 0 || !p.taken.CompareAndSwap(false, true) {
		time.Sleep(otherRun)
		if !p.taken.Load() {
			return errors.New("goworker: this child process was to run a job of a daemon with other settings; main must run the same daemons in it")
		}
		select {} // the process ends with the job
	}
	p.serve(ctx, daemons[i], parts, r)
	daemons[i].initialized().flush()
	_ = syscall.Kill(0, syscall.SIGKILL) // the daemon does so too, unless it dies just now
	select {}
}

// initialized is what Init has made; Run has called it.
func (d *Daemon) initialized() *client {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.client
}

// serve runs the job and tells the outcome.
func (p *childProcess) serve(ctx context.Context, d *Daemon, parts []Part, r request) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	handler := make(chan string, 1)
	go p.obey(cancel, handler)
	preferAsVictim()
	if r.Memory > 0 {
		debug.SetMemoryLimit(min(debug.SetMemoryLimit(-1), r.Memory-r.Memory/10))
		go p.watchMemory(r.Memory)
	}
	p.tell(answer{Ready: true})

	o := new(childOutcome)
	err := withParts(ctx, parts, func() (err error) {
		o.Result, err = d.performChild(ctx, r, handler)
		return err
	})
	if err != nil {
		o.Err = newWireError(err)
	}
	p.tell(answer{Outcome: o})
}

// withParts runs something while those parts run that belong in a child.
func withParts(ctx context.Context, parts []Part, run func() error) error {
	parts, err := childParts(parts)
	if err != nil {
		return err
	}
	started, err := startParts(ctx, parts)
	if err == nil {
		err = run()
	}
	return errors.Join(err, stopParts(context.WithoutCancel(ctx), started))
}

// childParts are the parts of a program that run in a child, sorted.
func childParts(parts []Part) ([]Part, error) {
	var kept []Part
	isKept := func(name string) bool { return slices.ContainsFunc(kept, func(p Part) bool { return p.Name == name }) }
	for _, p := range parts {
		if p.Isolated {
			kept = append(kept, p)
		}
	}
	for i, p := range kept {
		kept[i].Requires = slices.DeleteFunc(slices.Clone(p.Requires), func(name string) bool { return !isKept(name) })
	}
	return sortParts(kept)
}

// performChild runs the handler in a goroutine of its own, whose name it gives to
// handler.
func (d *Daemon) performChild(ctx context.Context, r request, handler chan<- string) (json.RawMessage, error) {
	payload, err := payload.Parse(r.Payload)
	if err != nil {
		return nil, err
	}
	job, err := d.registry.prepare(r.Queue, r.Payload, payload)
	if err != nil {
		return nil, err
	}
	e := d.registry.lookup(job.Class)
	job.handler, job.timeout, job.limit = e.wrapped, e.options.timeout, 0
	job.ID, job.Attempt, job.RetriesLeft, job.Recovered = r.ID, r.Attempt, r.Retries, r.Recovered
	job.Worker, job.ReservedAt, job.useNumber = r.Worker, r.ReservedAt, r.UseNumber

	ended := make(chan error, 1)
	go func() {
		err := ErrGoexit
		defer func() { ended <- err }()
		handler <- goroutineID()
		err = job.perform(ctx)
	}()
	if err := <-ended; err != nil || job.Result == nil {
		return nil, err
	}
	result, err := json.Marshal(job.Result)
	if err == nil && len(result) > maxResult {
		err = fmt.Errorf("%d bytes are more than %d", len(result), maxResult)
	}
	if err != nil { // the work is done
		fmt.Fprintf(os.Stderr, "goworker: no hook gets the result of %s, which the daemon cannot be told: %v\n", job.Class, err)
		return nil, nil
	}
	return result, nil
}

// obey does what the daemon says, and ends the group when the daemon is gone.
func (p *childProcess) obey(cancel context.CancelCauseFunc, handler <-chan string) {
	for {
		var c command
		if receive(p.commands, maxRequest, &c) != nil {
			_ = syscall.Kill(0, syscall.SIGKILL)
		}
		if c.Stack {
			select {
			case name := <-handler:
				p.tell(answer{Stack: shortTrace(stackOf(name))})
			default: // it has not begun
			}
		}
		if c.Cancel != "" {
			cancel(causeOf(c.Cancel))
		}
	}
}

func (p *childProcess) tell(a answer) {
	data, err := frame(a)
	if err != nil {
		panic("goworker: an answer has no form in JSON: " + err.Error())
	}
	p.say.Lock()
	defer p.say.Unlock()
	_, _ = p.answers.Write(data) // a daemon that is gone shows at the other pipe
}

// watchMemory tells the daemon when the memory of this process is beyond the limit,
// where the daemon cannot see it.
func (p *childProcess) watchMemory(limit int64) {
	if memoryOf(os.Getpid()) > 0 {
		return
	}
	samples := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}}
	for range time.Tick(memoryEvery) {
		metrics.Read(samples)
		if used := int64(samples[0].Value.Uint64() - samples[1].Value.Uint64()); used > limit {
			p.tell(answer{Memory: used})
			return
		}
	}
}
