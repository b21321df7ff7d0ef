package failure

import (
	"bytes"
	"fmt"
	"path"
	"reflect"
	"runtime"
	"strings"
)

// Trace is the stack of a goroutine that panicked.
type Trace []runtime.Frame

// Here returns the stack of its caller. The deferred function that recovered from a
// panic calls it: only there is the panicking stack still whole.
func Here() Trace {
	var t Trace
	pcs := make([]uintptr, 128) // deeper frames do not help a reader
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for {
		f, more := frames.Next()
		if f.Function != "" {
			t = append(t, f)
		}
		if !more {
			return t
		}
	}
}

// Lines returns the program's frames as lines of a failure record,
// "file.go:12 pkg.Func", the innermost first.
func (t Trace) Lines() []string {
	lines := make([]string, 0, len(t))
	for _, f := range t {
		if !internal(f.Function, f.File) {
			lines = append(lines, fmt.Sprintf("%s:%d %s", path.Base(f.File), f.Line, path.Base(f.Function)))
		}
	}
	return lines
}

// module is the import path of this module.
var module = strings.TrimSuffix(reflect.TypeFor[Trace]().PkgPath(), "/internal/failure")

// internal reports whether a function belongs to Go's runtime, to reflect, or to the
// packages of this module that call handlers: the root and those below internal. Handlers in
// the module's tests and examples count as the program's.
func internal(function, file string) bool {
	if strings.HasPrefix(function, "runtime.") || strings.HasPrefix(function, "reflect.") {
		return true
	}
	own, ok := strings.CutPrefix(function, module)
	return ok && (strings.HasPrefix(own, ".") || strings.HasPrefix(own, "/internal/")) && !strings.HasSuffix(file, "_test.go")
}

// maxStacks is how many bytes of all goroutines' stacks are read to find one.
const maxStacks = 4 << 20

// Goroutine returns the name of the calling goroutine, "goroutine 7", as StackOf takes it.
func Goroutine() string {
	var buf [64]byte
	first, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte(" ["))
	return string(first)
}

// StackOf returns where a goroutine is now, as lines of a failure record, and nil if
// there is no such goroutine. It stops all goroutines meanwhile.
func StackOf(goroutine string) []string {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < maxStacks {
		buf = make([]byte, 4*len(buf))
		n = runtime.Stack(buf, true)
	}
	for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		if bytes.HasPrefix(stack, []byte(goroutine+" [")) {
			return stackLines(string(stack))
		}
	}
	return nil
}

// stackLines turns a stack as package runtime prints it into the lines of Trace.Lines.
func stackLines(stack string) []string {
	var lines []string
	var function string
	for line := range strings.Lines(stack) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "created by ") {
			break
		}
		at, isPlace := strings.CutPrefix(line, "\t")
		if !isPlace {
			function = line
			if i := strings.LastIndexByte(function, '('); i > 0 {
				function = function[:i]
			}
			continue
		}
		at, _, _ = strings.Cut(at, " +0x")
		if file := at[:max(strings.LastIndexByte(at, ':'), 0)]; !internal(function, file) {
			lines = append(lines, path.Base(at)+" "+path.Base(function))
		}
	}
	return lines
}
