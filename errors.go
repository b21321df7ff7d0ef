package goworker

import (
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/isolate"
	"github.com/goworker/goworker/internal/prefix"
	"github.com/goworker/goworker/internal/producer"
	"github.com/goworker/goworker/internal/recurring"
	"github.com/goworker/goworker/internal/resque"
)

// Causes of a job's context being cancelled, as context.Cause returns them.
var (
	// ErrLeaseLost: this process was silent for so long that another process found it
	// dead and requeued its jobs. From here on the handler's work is done twice.
	ErrLeaseLost = failure.ErrLeaseLost

	// ErrShutdown: the shutdown timeout has passed, or a second signal came. A job
	// that returns a context error now, or this one, goes back to its queue.
	ErrShutdown = failure.ErrShutdown

	// ErrCancelled: CancelJobs or the signal USR1 cancelled the running jobs. The job
	// is a failure. A job that Client.Cancel or CancelRunning cancelled by itself has a cause
	// that matches (errors.Is) ErrCancelled; what it returns then is dropped.
	ErrCancelled = failure.ErrCancelled
)

// ErrNotHeld matches (errors.Is) the error of JobCursor and Once after the job was taken from this run: its process was
// found dead and the job is back in its queue, or the handler has returned. A handler that returns it
// changes nothing any more.
var ErrNotHeld = failure.ErrNotHeld

// ErrGoexit is the failure of a job whose handler called runtime.Goexit, as t.FailNow
// does. The handler ended its goroutine and did not return, so it is unknown whether it
// did its work.
var ErrGoexit = failure.ErrGoexit

// ErrTooFewReplicas matches (errors.Is) an error of Enqueue if the job was pushed, but
// fewer replicas than WorkerSettings.WaitReplicas confirmed it in time. Workers take
// the job; pushing it again doubles it.
var ErrTooFewReplicas = resque.ErrFewReplicas

// ErrUnconfirmed matches (errors.Is) an error of a call that enqueues, if Redis had the call
// and its answer did not come: the connection broke or the context ended. The jobs may be in
// their queues. After any other error none is, except with ErrTooFewReplicas.
var ErrUnconfirmed = producer.ErrUnconfirmed

// ErrBufferFull matches (errors.Is) an error of a call that enqueues, if Redis is away and the
// buffer of WithBuffer has no room. Nothing was enqueued.
var ErrBufferFull = producer.ErrBufferFull

// ErrDuplicate matches (errors.Is) every *DuplicateError.
var ErrDuplicate = errors.New("goworker: another job holds the lock of this one")

// ErrClosed matches (errors.Is) the error of a call after Close: nothing was done. Only
// Init, Run and Work make a closed Daemon or Shards usable again. A call that was under
// way at the Close may return it too.
var ErrClosed = errors.New("goworker: the client or the daemon is closed; Init makes a daemon usable again")

// ErrRunning is returned by Run and Work while the daemon is running already.
var ErrRunning = errors.New("goworker: the daemon is running already")

// ErrNoSchedule is returned for a name that no recurring schedule has, neither in this
// process nor in Redis.
var ErrNoSchedule = recurring.ErrNoSchedule

// UnknownClassError is the failure of a job for whose class this process has no
// handler.
type UnknownClassError struct {
	Class string
}

// Error begins as the text of Ruby's NameError does: failure tools group by it.
func (e *UnknownClassError) Error() string {
	return fmt.Sprintf("uninitialized constant %s: no handler is registered for this class in this process; "+
		"call goworker.Register with exactly this name, or let only workers that know it serve the queue", e.Class)
}

// ArgumentError is the failure of a job whose arguments do not fit its handler's
// parameters. Its text never holds an argument's value.
type ArgumentError struct {
	// Class is the class the handler was found by.
	Class string
	// Index is the argument's position from 1, or 0 when there are too many or too
	// few arguments.
	Index int
	// Want is the Go type of the parameter or, with Index 0, the number of
	// arguments it takes.
	Want string
	// Found names the value in the payload, such as "a string", or with Index 0 the
	// number of arguments given.
	Found string
	// Err is the decoder's error, or nil. It may quote the value.
	Err error
}

func (e *ArgumentError) Error() string {
	if e.Index == 0 {
		return fmt.Sprintf("wrong number of arguments for %s (given %s, expected %s); "+
			"producer and handler must agree on them", e.Class, e.Found, e.Want)
	}
	return fmt.Sprintf("argument %d of %s is %s where %s is expected; producer and handler must agree on its type",
		e.Index, e.Class, e.Found, e.Want)
}

// Unwrap returns Err.
func (e *ArgumentError) Unwrap() error { return e.Err }

// argumentError returns the failure of a job of a class.
func argumentError(class string, e *args.Error) error {
	return &ArgumentError{Class: class, Index: e.Index, Want: e.Want, Found: e.Found, Err: e.Err}
}

// PanicError is the failure of a job whose handler panicked.
type PanicError struct {
	// Value is the argument of panic.
	Value any
	// Stack is the goroutine's whole stack, as debug.Stack prints it.
	Stack []byte

	trace failure.Trace
}

// newPanicError is called by the deferred function that recovered v.
func newPanicError(v any) *PanicError {
	return &PanicError{Value: v, Stack: debug.Stack(), trace: failure.Here()}
}

// Error is "panic: " and the value.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }

// Unwrap returns the value if it is an error, so that errors.Is sees a panicked
// sentinel.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// Backtrace returns the lines of the failure record, "file.go:12 pkg.Func", the
// place of the panic first. Frames of the runtime, of reflect and of goworker are left
// out: what remains is the program's.
func (e *PanicError) Backtrace() []string { return e.trace.Lines() }

// TimeLimitError is the failure of an isolated job that was ended at its HardTimeout.
type TimeLimitError struct {
	// Class is the class the handler was found by.
	Class string
	// Limit is the HardTimeout.
	Limit time.Duration
	// Err is the error that the handler returned after its context was cancelled at the
	// limit. It is nil if the handler did not return and was killed.
	Err error

	trace []string
}

func (e *TimeLimitError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s reached its hard time limit of %s and was cancelled: %v", e.Class, e.Limit, e.Err)
	}
	return fmt.Sprintf("%s reached its hard time limit of %s and was killed; its work may be half done", e.Class, e.Limit)
}

// Backtrace returns where the handler was at the limit, as lines of the failure record.
// It is empty if the process did not report it.
func (e *TimeLimitError) Backtrace() []string { return e.trace }

// CrashError is the failure of an isolated job whose process ended and reported no
// outcome: a crash, an os.Exit, a kill from outside. Its failure record names it
// Resque::DirtyExit, as Ruby's does if a forked child died.
type CrashError struct {
	// Class is the class the handler was found by.
	Class string
	// ExitCode is the status the process exited with, -1 if a signal ended it.
	ExitCode int
	// Signal is the number of that signal, or 0.
	Signal int
	// Stderr is the end of the process's standard error. If Go printed a panic there,
	// it starts at that line.
	Stderr []string

	how string // "exited with status 3"
}

func (e *CrashError) Error() string {
	text := fmt.Sprintf("the child process of %s %s", e.Class, e.how)
	if line := isolate.CrashLine(e.Stderr); line != "" {
		text += ": " + line
	}
	return text
}

// Backtrace returns Stderr.
func (e *CrashError) Backtrace() []string { return e.Stderr }

// MemoryLimitError is the failure of an isolated job that was killed because it
// exceeded its MaxMemory.
type MemoryLimitError struct {
	// Class is the class the handler was found by.
	Class string
	// Limit is MaxMemory and Used what the job's processes held, in bytes.
	Limit, Used int64
}

func (e *MemoryLimitError) Error() string {
	const mib = 1 << 20
	return fmt.Sprintf("the processes of %s held %.1f MiB of memory, more than its limit of %.1f MiB, and were killed",
		e.Class, float64(e.Used)/mib, float64(e.Limit)/mib)
}

// exceptionOf returns the exception that a failure record names for an error, if it is
// not the name of the error's type. See failure.Names.
func exceptionOf(err error) string {
	switch err.(type) {
	case *CrashError:
		return "Resque::DirtyExit" // as when Ruby's worker loses its child
	case *PanicError:
		return "PanicError"
	case *UnknownClassError:
		return "NameError"
	case *ArgumentError:
		return "ArgumentError"
	}
	return ""
}

// plainError returns an error of this package without the parts that JSON cannot hold,
// and any other error as it is. See isolate.Errors.
func plainError(err error) error {
	switch e := err.(type) {
	case *PanicError: // its value may be anything
		return &PanicError{Value: fmt.Sprint(e.Value), Stack: e.Stack}
	case *ArgumentError: // the decoder's error has no form in JSON
		plain := *e
		plain.Err = nil
		return &plain
	}
	return err
}

// ShardError says that a shard did not take its part of the jobs of an EnqueueMany.
type ShardError struct {
	URI  string // of the shard, without a password
	Jobs []*Job // its part; none of it is there, unless the connection broke
	Err  error
}

func (e *ShardError) Error() string {
	return fmt.Sprintf("goworker: shard %s did not take %d of the jobs: %s", e.URI, len(e.Jobs), prefix.Bare(e.Err))
}

func (e *ShardError) Unwrap() error { return e.Err }

// DuplicateError says that a job was not enqueued because another holds its lock, or that a workflow was not started because
// another is unique under its name.
type DuplicateError struct {
	Class  string    // of the job that was refused
	Holder string    // the id of the job or the workflow that has the lock; see Receipt.ID
	Queue  string    // the holder's; "" of a workflow
	Since  time.Time // when the holder was enqueued, or its last retry was, by Redis's clock; zero of a workflow

	Name string // of UniqueAs; "" of a job
}

func (e *DuplicateError) Error() string {
	if e.Name != "" {
		return fmt.Sprintf("goworker: workflow %s is running and is unique as %q; nothing was started", e.Holder, e.Name)
	}
	return fmt.Sprintf("goworker: this job of class %s is unique, and job %s in queue %s has had its lock since %s; nothing was enqueued",
		e.Class, e.Holder, e.Queue, e.Since.UTC().Format(time.RFC3339))
}

// Is reports whether the target is ErrDuplicate.
func (e *DuplicateError) Is(target error) bool { return target == ErrDuplicate }
