package conn

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// InterruptedError says that a call's context ended before Redis had answered. It matches (errors.Is) the
// context's error and its cause.
type InterruptedError struct {
	Sent bool // commands may have been sent: Redis may have carried them out, or may yet do so

	text string
	why  error
}

func interruptedBy(ctx context.Context, text string) *InterruptedError {
	return &InterruptedError{text: text, why: WhyEnded(ctx)}
}

func (e *InterruptedError) Error() string { return fmt.Sprintf("%s (%v)", e.text, e.why) }

func (e *InterruptedError) Unwrap() error { return e.why }

// Interrupted returns what a call returns whose context has ended while another goroutine made it. sent says that Redis may have it.
func Interrupted(ctx context.Context, after time.Duration, sent bool) *InterruptedError {
	text := "redis: after %s the call still waited for those before it, and was not sent"
	if sent {
		text = noAnswer
	}
	e := interruptedBy(ctx, fmt.Sprintf(text, round(after)))
	e.Sent = sent
	return e
}

const noAnswer = "redis: no answer came within %s, before the call's context ended"

// endedError is the cause of a context's end, which need not match the context's error.
type endedError struct{ cause, over error }

func (e *endedError) Error() string { return e.cause.Error() }

func (e *endedError) Unwrap() []error { return []error{e.cause, e.over} }

// WhyEnded returns the cause of the end of a context that is over. It matches (errors.Is) the context's error
// too.
func WhyEnded(ctx context.Context) error {
	over, cause := ended(ctx), context.Cause(ctx)
	if cause == nil { // the sockets' timers are a moment ahead of the context's own
		return over
	}
	if errors.Is(cause, over) {
		return cause
	}
	return &endedError{cause, over}
}

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
	e := interruptedBy(l.ctx, fmt.Sprintf(noAnswer, round(time.Since(l.since))))
	e.Sent = true
	return e
}

// closed returns the error of a connection that the context has closed as an *InterruptedError.
func (l *borrowed) closed(err error) error {
	if err == nil || l.ctx == nil || l.ctx.Err() == nil {
		return err
	}
	return interruptedBy(l.ctx, "redis: the call's context had ended, so its connection is closed")
}

// Over returns an error if the context is over.
func Over(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return interruptedBy(ctx, "redis: the call's context had ended before anything was sent")
}

// notSent returns an error of a dial as an *InterruptedError, if the context ended the dial.
func notSent(ctx context.Context, err error) error {
	over := ended(ctx)
	if over == nil || !errors.Is(err, over) {
		return err
	}
	return interruptedBy(ctx, err.Error())
}
