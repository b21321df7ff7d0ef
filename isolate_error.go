package goworker

import (
	"fmt"
	"strings"
)

// CrashError is the failure of an isolated job whose process ended without telling
// what became of the job: a crash, an os.Exit, a kill from outside. Its failure record
// names it Resque::DirtyExit, as Ruby's does where a forked child died.
type CrashError struct {
	// Class is the class the handler was found by.
	Class string
	// ExitCode is the status the process exited with, -1 if a signal ended it.
	ExitCode int
	// Signal is the number of that signal, or 0.
	Signal int
	// Stderr is the end of what the process wrote to its standard error; where Go
	// printed a panic there, from that line on.
	Stderr []string

	how string // "exited with status 3"
}

func (e *CrashError) Error() string {
	text := fmt.Sprintf("the child process of %s %s", e.Class, e.how)
	if len(e.Stderr) > 0 && crashLine(e.Stderr[0]) {
		text += ": " + e.Stderr[0]
	}
	return text
}

// Backtrace returns Stderr.
func (e *CrashError) Backtrace() []string { return e.Stderr }

// crashLine tells whether a line is the first that Go's runtime prints when it ends a
// program.
func crashLine(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "runtime: ")
}

// MemoryLimitError is the failure of an isolated job that was killed because it went
// beyond its MaxMemory.
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
