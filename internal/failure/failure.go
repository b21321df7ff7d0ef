// Package failure turns an error into the fields of a failure record: the exception, the
// message and the backtrace. It also holds the meaning of a handler's error: why the job was
// cancelled, and what the handler asks for.
//
// It calls methods of the program's errors and survives their panics, as with a nil *T
// in an error.
package failure

import (
	"fmt"
	"slices"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/prefix"
)

// How much of an error a failure record keeps. Resque's pages show many records at
// once, each of them whole.
const (
	MaxText   = 64 << 10 // bytes of its text, and of all lines of its backtrace
	MaxFrames = 500      // lines
)

// Describe returns the exception, the error and the backtrace of a failure record.
func Describe(err error, names Names) (exception, text string, trace []string) {
	return Exception(err, names), Text(err), ShortTrace(backtrace(err))
}

// Text is the text of a failure.
func Text(err error) string { return logging.Shorten(prefix.Record(err), MaxText) }

// backtrace returns the lines of the first error with a method Backtrace() []string,
// never nil.
func backtrace(err error) (lines []string) {
	defer func() {
		if recover() != nil || lines == nil {
			lines = []string{}
		}
	}()
	Walk(err, func(e error) bool {
		b, ok := e.(interface{ Backtrace() []string })
		if ok {
			lines = b.Backtrace()
		}
		return ok
	})
	return lines
}

// ShortTrace returns as many of a backtrace's first lines as the limits allow.
func ShortTrace(lines []string) []string {
	left := MaxText
	for i, line := range lines {
		if i == MaxFrames || len(line) > left {
			return append(slices.Clone(lines[:i]), fmt.Sprintf("… (%d lines more)", len(lines)-i))
		}
		left -= len(line)
	}
	return lines
}

// maxUnwrap bounds the search through wrapped errors: an error that unwraps to
// itself must not hang a worker.
const maxUnwrap = 100

// Walk visits err and what it wraps, depth first, until visit returns true.
func Walk(err error, visit func(error) bool) {
	left := maxUnwrap
	var down func(error) bool
	down = func(e error) bool {
		if e == nil || left == 0 {
			return false
		}
		left--
		if visit(e) {
			return true
		}
		switch u := e.(type) {
		case interface{ Unwrap() error }:
			return down(u.Unwrap())
		case interface{ Unwrap() []error }:
			for _, inner := range u.Unwrap() {
				if down(inner) {
					return true
				}
			}
		}
		return false
	}
	down(err)
}
