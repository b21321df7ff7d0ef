//go:build unix

package isolate

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"syscall"
)

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
