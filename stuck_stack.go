package goworker

import (
	"bytes"
	"path"
	"runtime"
	"strings"
)

// maxStacks is how many bytes of all goroutines' stacks are read to find one.
const maxStacks = 4 << 20

// goroutineID is how stack traces name the goroutine that calls it.
func goroutineID() string {
	var buf [64]byte
	first, _, _ := bytes.Cut(buf[:runtime.Stack(buf[:], false)], []byte(" ["))
	return string(first) // "goroutine 7"
}

// stackOf returns where a goroutine is now, as lines of a failure's backtrace, and
// nil if it is not found. All goroutines stand still meanwhile.
func stackOf(goroutine string) []string {
	buf := make([]byte, 64<<10)
	n := runtime.Stack(buf, true)
	for n == len(buf) && n < maxStacks {
		buf = make([]byte, 4*len(buf))
		n = runtime.Stack(buf, true)
	}
	for stack := range bytes.SplitSeq(buf[:n], []byte("\n\n")) {
		if bytes.HasPrefix(stack, []byte(goroutine+" [")) {
			return traceLines(string(stack))
		}
	}
	return nil
}

// traceLines makes of a stack as package runtime prints it what PanicError.Backtrace
// makes of one: "file.go:12 pkg.Func", the program's frames only.
func traceLines(stack string) []string {
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
		if file := at[:max(strings.LastIndexByte(at, ':'), 0)]; !internalFrame(runtime.Frame{Function: function, File: file}) {
			lines = append(lines, path.Base(at)+" "+path.Base(function))
		}
	}
	return lines
}
