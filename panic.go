package goworker

import (
	"errors"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"runtime/debug"
	"strings"
)

// ErrGoexit is the failure of a job whose handler called runtime.Goexit, as
// t.FailNow does: it ended its goroutine instead of returning, so whether the work
// was done is unknown.
var ErrGoexit = errors.New("the handler ended its goroutine with runtime.Goexit instead of returning; return an error to fail the job")

// PanicError is the failure of a job whose handler panicked.
type PanicError struct {
	// Value is what panic was called with.
	Value any
	// Stack is the goroutine's whole stack, as debug.Stack prints it.
	Stack []byte

	frames []runtime.Frame
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
// place of the panic first. Frames of the runtime, of reflect and of this package
// are left out: what remains is the program's.
func (e *PanicError) Backtrace() []string {
	lines := make([]string, 0, len(e.frames))
	for _, f := range e.frames {
		if !internalFrame(f) {
			lines = append(lines, fmt.Sprintf("%s:%d %s", path.Base(f.File), f.Line, path.Base(f.Function)))
		}
	}
	return lines
}

// newPanicError is called by the deferred function that recovered v: only there
// is the panicking stack still whole.
func newPanicError(v any) *PanicError {
	e := &PanicError{Value: v, Stack: debug.Stack()}
	pcs := make([]uintptr, 128) // deeper frames tell nothing a person reads
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if f.Function != "" {
			e.frames = append(e.frames, f)
		}
		if !more {
			return e
		}
	}
}

// ownPrefix begins the names of this package's functions.
var ownPrefix = reflect.TypeFor[Delivery]().PkgPath() + "."

func internalFrame(f runtime.Frame) bool {
	if strings.HasPrefix(f.Function, "runtime.") || strings.HasPrefix(f.Function, "reflect.") {
		return true
	}
	return strings.HasPrefix(f.Function, ownPrefix) && !strings.HasSuffix(f.File, "_test.go")
}
