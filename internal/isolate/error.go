package isolate

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/failure"
	"github.com/goworker/goworker/internal/logging"
)

// Errors is what the root package knows about its own errors.
type Errors struct {
	Names failure.Names

	// Plain returns an error of the root package without the parts that have no JSON form, and
	// any other error as it is.
	Plain func(error) error
}

// Error is a handler's error as it reaches the daemon, in place of the error that
// the handler returned. It has that error's text and failure record. errors.Is and
// errors.As find the same in it, as far as exported fields allow.
type Error struct {
	Text  string
	Name  string   `json:"Exception"`
	Trace []string `json:"Backtrace"`
	Chain []link   // the error and what it wraps

	// What the handler asks for, if anything: see failure.Wished.
	Wish  failure.WishKind
	Wait  time.Duration
	After time.Duration `json:"RetryAfter"`
}

// link is one error of a chain: what errors.Is and errors.As need of it.
type link struct {
	Type   string
	Text   string
	Fields json.RawMessage // the exported ones
}

// How much of an error is carried beside its record.
const (
	maxLinks  = 20
	maxFields = 64 << 10 // bytes, each
)

// NewError turns a handler's error into the form that the child sends.
func NewError(err error, own Errors) *Error {
	exception, text, trace := failure.Describe(err, own.Names)
	wish, after := failure.Wished(err)
	e := &Error{Text: text, Name: exception, Trace: trace, Wish: wish.Kind, Wait: wish.Wait, After: after}
	failure.Walk(err, func(err error) bool {
		l := link{Type: typeID(reflect.TypeOf(err)), Text: logging.Shorten(fmt.Sprint(err), failure.MaxText)}
		if fields := fieldsOf(err, own); len(fields) <= maxFields {
			l.Fields = fields
		}
		e.Chain = append(e.Chain, l)
		return len(e.Chain) == maxLinks
	})
	return e
}

// fieldsOf returns an error as JSON, nil if it has no such form. It calls methods of the
// program.
func fieldsOf(err error, own Errors) (fields json.RawMessage) {
	defer func() {
		if recover() != nil {
			fields = nil
		}
	}()
	fields, _ = json.Marshal(own.Plain(err))
	return fields
}

// typeID returns a name that no other type of the program has.
func typeID(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + typeID(t.Elem())
	}
	return t.PkgPath() + "." + t.String()
}

func (e *Error) Error() string { return e.Text }

// Exception returns the exception that the child found.
func (e *Error) Exception() string { return e.Name }

// Backtrace returns the lines that the child found.
func (e *Error) Backtrace() []string { return e.Trace }

// RetryAfter returns the wait that the handler's error, or one it wrapped, asked for.
func (e *Error) RetryAfter() time.Duration { return e.After }

// Unwrap returns the handler's wish, and nil if it had none.
func (e *Error) Unwrap() error {
	if e.Wish == failure.WishNone {
		return nil
	}
	return &failure.Wish{Kind: e.Wish, Wait: e.Wait}
}

// Is reports whether the child's error is target: of the same type and text.
func (e *Error) Is(target error) bool {
	id := typeID(reflect.TypeOf(target))
	for _, l := range e.Chain {
		if l.Type == id && l.Text == logging.Shorten(target.Error(), failure.MaxText) {
			return true
		}
	}
	return false
}

// As sets target to the first error of its type, as far as exported fields allow.
func (e *Error) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	id := typeID(to.Type())
	for _, l := range e.Chain {
		if l.Type != id || l.Fields == nil {
			continue
		}
		v := reflect.New(to.Type())
		if json.Unmarshal(l.Fields, v.Interface()) == nil {
			to.Set(v.Elem())
			return true
		}
	}
	return false
}

// Crash says how a child ended that sent no outcome.
type Crash struct {
	ExitCode int      // -1 if a signal ended it
	Signal   int      // 0: none
	Stderr   []string // the end of its standard error; from the first line of a panic on
	How      string   // "exited with status 3"
}

func (e *Crash) Error() string { return "the child process " + e.How }

// OverTime says that a job was ended at its Limits.Hard.
type OverTime struct {
	Err   error    // what the handler returned, once it was cancelled; nil if it was killed
	Trace []string // where it was at the limit, as lines of a failure record
}

func (e *OverTime) Error() string { return "the hard time limit was reached" }

// OverMemory says that a job was killed because it held more than its Limits.Memory.
type OverMemory struct{ Used int64 } // bytes

func (e *OverMemory) Error() string { return "the memory limit was reached" }

// CrashLine returns the first line that Go's runtime prints when it ends a program, if
// lines begin with it.
func CrashLine(lines []string) string {
	if len(lines) > 0 && isCrashLine(lines[0]) {
		return lines[0]
	}
	return ""
}

func isCrashLine(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ") || strings.HasPrefix(line, "runtime: ")
}
