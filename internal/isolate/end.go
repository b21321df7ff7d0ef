//go:build unix

package isolate

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
)

// maxStderr is how much of the end of its standard error a crash's record may have.
const maxStderr = 64 << 10

// ended returns the outcome of a job whose handler ended.
func (c *childRun) ended(o *childOutcome) (json.RawMessage, error) {
	switch {
	case o.Err == nil:
		return o.Result, nil
	case c.limited:
		return nil, &OverTime{Err: o.Err, Trace: c.stack}
	}
	return nil, o.Err
}

// crashed returns the error of a job whose child ended without an outcome.
func (c *childRun) crashed(ctx context.Context, status syscall.WaitStatus) error {
	switch {
	case c.used > 0:
		return &OverMemory{Used: c.used}
	case c.limited:
		return &OverTime{Trace: c.stack}
	case c.killed:
		return fmt.Errorf("%s did not return after its context was cancelled, and was killed: %w", c.class, ctx.Err())
	}
	if c.stopped = !c.ready && (status.Signal() == syscall.SIGTERM || status.Signal() == syscall.SIGINT); c.stopped && ctx.Err() != nil {
		return fmt.Errorf("%s was stopped before it began: %w", c.class, ctx.Err())
	}
	e := &Crash{ExitCode: c.cmd.ProcessState.ExitCode(), Stderr: c.stderr.lines()}
	if status.Signaled() {
		e.Signal = int(status.Signal())
		e.How = fmt.Sprintf("was killed by signal %d (%s)", e.Signal, status.Signal())
	} else {
		e.How = fmt.Sprintf("exited with status %d", e.ExitCode)
	}
	if c.ready {
		e.How += " before the handler returned"
	} else {
		e.How += " before it called Work or Run, which main must do in a child too (see goworker.IsolatedChild)"
	}
	switch {
	case status.Signal() != syscall.SIGKILL:
	case c.broken == io.EOF:
		e.How += ", perhaps by the kernel because memory ran out"
	default:
		e.How += fmt.Sprintf(", because something else than goworker wrote to the pipe between them (file %d): %v", answerFD, c.broken)
	}
	return e
}

// tail passes on what a child writes to its standard error and keeps the end of it.
type tail struct {
	mu   sync.Mutex
	kept []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.kept = append(t.kept, p...)
	if n := len(t.kept) - maxStderr; n > 0 {
		t.kept = append(t.kept[:0], t.kept[n:]...)
	}
	_, _ = os.Stderr.Write(p) // a closed standard error here must not stop the child
	return len(p), nil
}

// lines returns the lines from the first of a crash on; without one, the last.
func (t *tail) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	const most = 50
	lines := strings.Split(string(bytes.ToValidUTF8(bytes.TrimRight(t.kept, "\n"), []byte("\uFFFD"))), "\n")
	for i, line := range lines {
		if isCrashLine(line) {
			return lines[i:]
		}
	}
	if len(t.kept) == 0 {
		return []string{}
	}
	return lines[max(0, len(lines)-most):]
}
