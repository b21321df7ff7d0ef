// Package prefix puts the module's name before the errors that its public calls return. The packages
// below write errors without it, because these also go into logs and failure records. The public
// packages pass an error through Of on its way out.
package prefix

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

const (
	module = "goworker: "
	redis  = "redis: " // before the errors of internal/conn
)

// public is an error with the module's name before its text.
type public struct {
	err   error
	whole bool // failure records show the name too
}

// New returns an error to be compared with errors.Is. Failure records show the text alone.
func New(text string) error { return &public{err: errors.New(text)} }

// Errorf is fmt.Errorf with the module's name before the text, in failure records too.
func Errorf(format string, args ...any) error {
	return &public{err: fmt.Errorf(format, args...), whole: true}
}

// Of returns an error whose text begins with the module's name and has it only once. Of errors that
// errors.Join joined, each does. An error that has it already is returned as it is.
func Of(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		if errs := joined.Unwrap(); text == join(errs) {
			errs = slices.Clone(errs)
			for i, e := range errs {
				errs[i] = Of(e)
			}
			return errors.Join(errs...)
		}
	}
	if strings.HasPrefix(text, module) {
		if !strings.Contains(text[len(module):], module) {
			return err
		}
		return &public{err: err, whole: true}
	}
	return &public{err: err}
}

func join(errs []error) string {
	texts := make([]string, len(errs))
	for i, e := range errs {
		texts[i] = e.Error()
	}
	return strings.Join(texts, "\n")
}

// Error returns the text, with the module's name once, in front. Errors of the connection begin with
// the name of Redis, which their sentences name too.
func (e *public) Error() string {
	text := strings.ReplaceAll(e.err.Error(), module, "")
	return module + strings.TrimPrefix(text, redis)
}

func (e *public) Unwrap() error { return e.err }

// Exception makes failure records look through the error.
func (e *public) Exception() string { return "" }

// Record returns the text that a failure record shows of an error, or another error that names it as a
// part: Of adds nothing to it. Like fmt, it survives a panic of the program's errors.
func Record(err error) string {
	p, ok := err.(*public)
	switch {
	case !ok:
		return fmt.Sprint(err)
	case p.whole:
		return p.Error()
	}
	return strings.ReplaceAll(p.err.Error(), module, "")
}

// Bare returns Record's text without the module's name, to be a part of another text.
func Bare(err error) string { return strings.ReplaceAll(Record(err), module, "") }
