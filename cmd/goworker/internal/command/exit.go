package command

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/conn"
)

// The exit codes. Scripts rely on them.
const (
	exitDone        = 0
	exitFailed      = 1   // an error: nothing was done of what was asked, or it is not known how much
	exitUsage       = 2   // the command line or a setting is wrong, or a change was not confirmed: nothing was begun
	exitNothing     = 3   // nothing matched
	exitPartly      = 4   // a part was done, by some of the processes too: the rest was refused or silent, or the budget was over
	exitFound       = 5   // doctor found an error
	exitWarned      = 6   // with --strict: doctor found a warning, or could not look everywhere
	exitUnavailable = 69  // Redis does not answer, or there is no process to ask
	exitDeadline    = 124 // --timeout is over
	exitInterrupted = 130 // Ctrl-C
)

// usageError is a mistake of the caller's.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// usagef returns a mistake of the caller's.
func usagef(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// exitError ends the command with a code of its own. A nil error prints nothing.
type exitError struct {
	code int
	err  error
}

func (e exitError) Error() string {
	if e.err == nil {
		return ""
	}
	return e.err.Error()
}

func (e exitError) Unwrap() error { return e.err }

// nothing says that nothing matched: exit code 3.
func nothing(format string, args ...any) error {
	return exitError{exitNothing, fmt.Errorf(format, args...)}
}

// partly says that a part was done, and what is left: exit code 4.
func partly(format string, args ...any) error {
	return exitError{exitPartly, fmt.Errorf(format, args...)}
}

// lacking says which of the names that were asked for are not there: 3 for all of them, 4 for some. The sentence has a place for
// the names.
func lacking(asked, absent []string, sentence string) error {
	switch len(absent) {
	case 0:
		return nil
	case len(asked):
		return nothing(sentence, andList(absent))
	}
	return partly(sentence, andList(absent))
}

// codeOf returns the exit code of an error. ctx is that of the whole command.
func codeOf(ctx context.Context, err error) int {
	var own exitError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &own):
		return own.code
	case errors.As(err, new(usageError)), errors.As(err, new(*inspect.PlanError)), errors.Is(err, inspect.ErrCursor), errors.Is(err, inspect.ErrLimitText):
		return exitUsage
	case ctx.Err() != nil:
		return exitInterrupted
	case absent(err), errors.Is(err, inspect.ErrNoResult):
		return exitNothing
	case errors.Is(err, errDeadline):
		return exitDeadline
	case conn.Away(err):
		return exitUnavailable
	}
	return exitFailed
}

// errDeadline says that --timeout is over.
var errDeadline = errors.New("the time of --timeout is over")

// nounArguments refuses a verb that a noun does not have.
func nounArguments(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var verbs []string
	for _, sub := range c.Commands() {
		if !sub.Hidden && sub.Name() != "help" {
			verbs = append(verbs, sub.Name())
		}
	}
	path := strings.TrimPrefix(c.CommandPath()+" ", c.Root().Name()+" ")
	own := ""
	if c.Name() == "control" || c.Name() == "inspect" {
		own = fmt.Sprintf("; to call a verb that the program has added: %s call %s", c.CommandPath(), escaped(args[0]))
	}
	return usagef("there is no command %s%s; there are %s%s", path, args[0], andList(verbs), own)
}

// brokenPipe reports whether the reader of our output has gone, as head does.
func brokenPipe(err error) bool { return errors.Is(err, syscall.EPIPE) }
