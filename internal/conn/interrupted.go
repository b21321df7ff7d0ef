package conn

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// InterruptedError says that a call's context ended before Redis had answered.
type InterruptedError struct {
	Sent bool // commands may have been sent: Redis may have carried them out, or may yet do so

	text  string
	cause error // of the context's end
}

func (e *InterruptedError) Error() string { return fmt.Sprintf("%s (%v)", e.text, e.cause) }

func (e *InterruptedError) Unwrap() error { return e.cause }

// Exception is the name that failure tools know.
func (e *InterruptedError) Exception() string { return "goworker.busyError" }

// interrupted returns an error of a broken connection as an *InterruptedError, if the context broke it.
func (l *borrowed) interrupted(err error) error {
	if err == nil || l.ctx == nil || l.ctx.Err() == nil || !isConnError(err) {
		return err
	}
	if errors.As(err, new(*InterruptedError)) {
		return err
	}
	return &InterruptedError{
		Sent: true, cause: context.Cause(l.ctx),
		text: fmt.Sprintf("redis: no answer came within %s, before the call's context ended", round(time.Since(l.since))),
	}
}

// notSent returns an error of a dial as an *InterruptedError, if the context ended the dial.
func notSent(ctx context.Context, err error) error {
	over := ended(ctx)
	if over == nil || !errors.Is(err, over) {
		return err
	}
	if cause := context.Cause(ctx); cause != nil {
		over = cause
	}
	return &InterruptedError{text: err.Error(), cause: over}
}
