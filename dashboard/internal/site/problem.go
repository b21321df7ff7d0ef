package site

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/goworker/goworker/inspect"
	"github.com/goworker/goworker/internal/conn"
)

// Problem is an error with the status of its answer.
type Problem struct {
	Status int
	Title  string
	Err    error
	More   map[string]any // further fields of the answer in JSON
	Links  []Link         // where to go from here
}

func (p *Problem) Error() string { return p.Err.Error() }
func (p *Problem) Unwrap() error { return p.Err }

func problem(status int, format string, args ...any) *Problem {
	return &Problem{Status: status, Title: http.StatusText(status), Err: fmt.Errorf(format, args...)}
}

// Bad is the error of a request with a value that cannot be: 400.
func Bad(format string, args ...any) error { return problem(http.StatusBadRequest, format, args...) }

// Missing is the error of a page about something that is not there: 404.
func Missing(format string, args ...any) error { return problem(http.StatusNotFound, format, args...) }

// Changed is the error of an action on something that is other than the user saw: 409. now is what it is.
func Changed(now any, format string, args ...any) error {
	p := problem(http.StatusConflict, format, args...)
	p.More = map[string]any{"now": now}
	return p
}

// Denied is the error of something that the user may not do: 403.
func Denied(format string, args ...any) error { return problem(http.StatusForbidden, format, args...) }

// gone are the errors of things that are no longer there.
var gone = []error{
	inspect.ErrNoJob, inspect.ErrNoFailure, inspect.ErrUnknownQueue, inspect.ErrUnknownJob, inspect.ErrUnknownSchedule, inspect.ErrUnknownWorker, inspect.ErrUnknownProcess,
	inspect.ErrNoResult, inspect.ErrNoWorkflow, inspect.ErrNoStep, inspect.ErrNoOperation, inspect.ErrNoLock, inspect.ErrNoLimit, inspect.ErrNoRule,
	inspect.ErrNoLease, inspect.ErrNoKey, inspect.ErrForeignKey,
}

// refused are the errors of changes that cannot be made as things are.
var refused = []error{
	inspect.ErrRetried, inspect.ErrJobEnded, inspect.ErrWorkflowEnded, inspect.ErrWorkflowGoesOn, inspect.ErrNothingToRetry, inspect.ErrWorkflowHeld,
	inspect.ErrStepWaits, inspect.ErrStepEnded, inspect.ErrOperationBusy, inspect.ErrOperationsFull, inspect.ErrOperationOver, inspect.ErrOperationLost, inspect.ErrLockHeld,
	inspect.ErrWorkerAlive, inspect.ErrScheduleElsewhere,
}

// problemOfAction is problemOf for an action: an error of no known kind says what is wrong with what was asked for.
func problemOfAction(err error) *Problem {
	p := problemOf(err)
	if p.Status == http.StatusInternalServerError && !errors.Is(err, errPanic) {
		p.Status, p.Title = http.StatusBadRequest, "It cannot be done"
	}
	return p
}

// errPanic is in the errors of pages and actions that panicked.
var errPanic = errors.New("it panicked")

// problemOf gives an error its status.
func problemOf(err error) *Problem {
	var p *Problem
	var query *inspect.QueryError
	var plan *inspect.PlanError
	switch {
	case errors.As(err, &p):
		return p
	case errors.As(err, &query), errors.As(err, &plan), errors.Is(err, inspect.ErrCursor), errors.Is(err, inspect.ErrLimitText):
		return &Problem{Status: http.StatusBadRequest, Title: "This cannot be asked", Err: err}
	case anyOf(err, gone):
		return &Problem{Status: http.StatusNotFound, Title: "It is not there", Err: err}
	case anyOf(err, refused):
		return &Problem{Status: http.StatusConflict, Title: "It cannot be done now", Err: err}
	case errors.Is(err, context.DeadlineExceeded), conn.Away(err), conn.Refused(err):
		return &Problem{Status: http.StatusServiceUnavailable, Title: "Redis does not serve this", Err: err}
	}
	return &Problem{Status: http.StatusInternalServerError, Title: "This page has a fault", Err: err}
}

func anyOf(err error, those []error) bool {
	for _, one := range those {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// plain is the text of an error for people.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "goworker: ")
	if text == "" {
		return text
	}
	return strings.ToUpper(text[:1]) + text[1:]
}

// Refusal says what Redis does not permit this user, and the rule to add, if that is what an error says. A page leaves that part of
// it out. "": the error is another one.
func Refusal(err error) string {
	denied, ok := inspect.DeniedBy(err)
	if !ok {
		return ""
	}
	return RefusalText(denied)
}

// RefusalText is what Redis denies, as a sentence.
func RefusalText(d inspect.Denied) string {
	text := d.String()
	return strings.ToUpper(text[:1]) + text[1:] + "."
}

// Text is the sentence of the problem, for people.
func (p *Problem) Text() string { return plain(p.Err) }
