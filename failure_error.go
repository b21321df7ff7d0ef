package goworker

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/goworker/goworker/internal/logging"
	"github.com/goworker/goworker/internal/payload"
)

// UnknownClassError is the failure of a job whose class no handler is registered
// for in this process.
type UnknownClassError struct {
	Class string
}

// Error begins as Ruby's NameError does, which failure tools group by.
func (e *UnknownClassError) Error() string {
	return fmt.Sprintf("uninitialized constant %s: no handler is registered for this class in this process; "+
		"call goworker.Register with exactly this name, or let only workers that know it serve the queue", e.Class)
}

// ArgumentError is the failure of a job whose arguments do not fit its handler's
// parameters. Its text never holds an argument's value.
type ArgumentError struct {
	// Class is the class the handler was found by.
	Class string
	// Index is the argument's position from 1, or 0 when there are too many or too
	// few arguments.
	Index int
	// Want is the Go type of the parameter or, with Index 0, the number of
	// arguments it takes.
	Want string
	// Found is what the payload has there, such as "a string", or with Index 0 the
	// number of arguments given.
	Found string
	// Err is what the decoder said, or nil. It may quote the value.
	Err error
}

func (e *ArgumentError) Error() string {
	if e.Index == 0 {
		return fmt.Sprintf("wrong number of arguments for %s (given %s, expected %s); "+
			"producer and handler must agree on them", e.Class, e.Found, e.Want)
	}
	return fmt.Sprintf("argument %d of %s is %s where %s is expected; producer and handler must agree on its type",
		e.Index, e.Class, e.Found, e.Want)
}

// Unwrap returns Err.
func (e *ArgumentError) Unwrap() error { return e.Err }

// argumentError explains why raw could not be decoded into type t.
func argumentError(class string, index int, t reflect.Type, raw []byte, err error) *ArgumentError {
	e := &ArgumentError{Class: class, Index: index, Want: t.String(), Found: jsonKind(raw), Err: err}
	var mismatch *json.UnmarshalTypeError
	if !errors.As(err, &mismatch) {
		e.Found += " that does not decode"
		return e
	}
	e.Want = mismatch.Type.String()
	kind, literal, _ := strings.Cut(mismatch.Value, " ")
	e.Found = article(kind)
	if kind == "number" && literal != "" {
		e.Found += " with a fraction or out of range"
	}
	if mismatch.Field != "" {
		e.Found = "an object with " + e.Found + " in " + mismatch.Field
		e.Want = fmt.Sprintf("%s (in %s)", mismatch.Type, t)
	}
	return e
}

// jsonKind names the kind of a JSON value, with its article.
func jsonKind(raw []byte) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a bool"
	case 'n':
		return "null"
	}
	return "a number"
}

func article(kind string) string {
	if kind == "array" || kind == "object" {
		return "an " + kind
	}
	return "a " + kind
}

// maxUnwrap bounds the search through wrapped errors: an error that unwraps to
// itself must not hang a worker.
const maxUnwrap = 100

// describe says what a failure record tells of err. It calls methods of the
// program's errors and survives their panics, as with a nil *T in an error.
func describe(err error) (exception, text string, trace []string) {
	text = logging.Shorten(fmt.Sprint(err), maxErrorText) // fmt recovers from Error
	return exceptionName(err), text, shortTrace(backtrace(err))
}

// How much of an error a failure record keeps. Resque's pages show the records of
// many failures at once, and all that is in them.
const (
	maxErrorText = 64 << 10 // bytes of its text, and of all lines of its backtrace
	maxFrames    = 500      // lines
)

// shortTrace is so much of a backtrace's beginning as the limits allow.
func shortTrace(lines []string) []string {
	left := maxErrorText
	for i, line := range lines {
		if i == maxFrames || len(line) > left {
			return append(slices.Clone(lines[:i]), fmt.Sprintf("… (%d lines more)", len(lines)-i))
		}
		left -= len(line)
	}
	return lines
}

// exceptionName returns the failure record's exception: the name of an error's
// type, "mypkg.NotFound". Resque's web page prints it without escaping, so it
// consists of letters, digits, and _ . : only, and never holds a user's text.
// Types that only carry a text or wrap another error are looked through.
func exceptionName(err error) (name string) {
	defer func() {
		if recover() != nil {
			name = "Error"
		}
	}()
	name = "Error"
	walkErrors(err, func(e error) bool {
		switch e := e.(type) {
		case *CrashError:
			name = "Resque::DirtyExit" // as when Ruby's worker loses its child
		case *childError:
			name = e.wire.Exception
		case *PanicError:
			name = "PanicError"
		case *UnknownClassError:
			name = "NameError"
		case *ArgumentError:
			name = "ArgumentError"
		case *cancelledError, *wish:
			return false
		case *payload.Error, *payload.SizeError:
			name = "Resque::Helpers::DecodeException"
		default:
			own := typeName(e)
			if own == "" {
				return false
			}
			name = own
		}
		return true
	})
	return name
}

// backtrace returns the lines of the first error that knows its own, through a
// method Backtrace() []string, never nil.
func backtrace(err error) (lines []string) {
	defer func() {
		if recover() != nil || lines == nil {
			lines = []string{}
		}
	}()
	walkErrors(err, func(e error) bool {
		b, ok := e.(interface{ Backtrace() []string })
		if ok {
			lines = b.Backtrace()
		}
		return ok
	})
	return lines
}

// walkErrors visits err and what it wraps, depth first, until visit returns true.
func walkErrors(err error, visit func(error) bool) bool {
	left := maxUnwrap
	var walk func(error) bool
	walk = func(e error) bool {
		if e == nil || left == 0 {
			return false
		}
		left--
		if visit(e) {
			return true
		}
		switch u := e.(type) {
		case interface{ Unwrap() error }:
			return walk(u.Unwrap())
		case interface{ Unwrap() []error }:
			for _, inner := range u.Unwrap() {
				if walk(inner) {
					return true
				}
			}
		}
		return false
	}
	return walk(err)
}

// typeName is empty for the types everybody's errors have.
func typeName(err error) string {
	t := reflect.TypeOf(err)
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.PkgPath() {
	case "errors", "fmt", "github.com/pkg/errors", "golang.org/x/xerrors":
		return ""
	}
	if t.Name() == "" {
		return ""
	}
	name, _, _ := strings.Cut(t.String(), "[") // a type's parameters may name anything
	name = strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', 'A' <= r && r <= 'Z', '0' <= r && r <= '9', r == '_', r == '.', r == ':':
			return r
		}
		return -1
	}, name)
	if strings.HasSuffix(name, ".") {
		return "" // a name without one allowed letter
	}
	return name
}
