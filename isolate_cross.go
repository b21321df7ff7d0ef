package goworker

import (
	"encoding/json"
	"fmt"
	"reflect"
	"time"

	"github.com/goworker/goworker/internal/logging"
)

// This file carries a handler's error from the child to the daemon.

// wireError is a handler's error on its way from the child.
type wireError struct {
	Text      string
	Exception string
	Backtrace []string
	Chain     []wireLink // the error and what it wraps, as far as anybody may ask for it

	// What the handler asks for, if anything: see RetryIn, and RetryAfter.
	Wish       wishKind
	Wait       time.Duration
	RetryAfter time.Duration
}

// wireLink is one error of a chain: what errors.Is and errors.As need of it.
type wireLink struct {
	Type   string
	Text   string
	Fields json.RawMessage // the exported ones
}

// How much of an error is carried beside its record.
const (
	maxLinks  = 20
	maxFields = 64 << 10 // bytes, each
)

func newWireError(err error) *wireError {
	w := new(wireError)
	w.Exception, w.Text, w.Backtrace = describe(err)
	asked, after := wished(err)
	w.Wish, w.Wait, w.RetryAfter = asked.kind, asked.wait, after
	walkErrors(err, func(e error) bool {
		link := wireLink{Type: typeID(reflect.TypeOf(e)), Text: logging.Shorten(fmt.Sprint(e), maxErrorText)}
		if fields := fieldsOf(e); len(fields) <= maxFields {
			link.Fields = fields
		}
		w.Chain = append(w.Chain, link)
		return len(w.Chain) == maxLinks
	})
	return w
}

// fieldsOf is an error as JSON, nil if it has none. It calls methods of the program.
func fieldsOf(err error) (fields json.RawMessage) {
	defer func() {
		if recover() != nil {
			fields = nil
		}
	}()
	switch e := err.(type) {
	case *PanicError: // its value may be anything
		err = &PanicError{Value: fmt.Sprint(e.Value), Stack: e.Stack}
	case *ArgumentError: // the decoder's error has no form in JSON
		plain := *e
		plain.Err = nil
		err = &plain
	}
	fields, _ = json.Marshal(err)
	return fields
}

// typeID names a type as no other of the same program is named.
func typeID(t reflect.Type) string {
	if t.Kind() == reflect.Pointer {
		return "*" + typeID(t.Elem())
	}
	return t.PkgPath() + "." + t.String()
}

// childError is a handler's error as it came from the child. It stands for the error
// there: it is what that one was (errors.Is) if type and text are equal, and gives
// copies of those it wrapped (errors.As).
type childError struct{ wire *wireError }

func (e *childError) Error() string { return e.wire.Text }

// Backtrace returns the lines the failure record is to have.
func (e *childError) Backtrace() []string { return e.wire.Backtrace }

// RetryAfter is what the handler's error, or one it wrapped, gave for it; 0 if none did.
func (e *childError) RetryAfter() time.Duration { return e.wire.RetryAfter }

// Unwrap returns the handler's wish, and nil if it had none.
func (e *childError) Unwrap() error {
	if e.wire.Wish == wishNone {
		return nil
	}
	return &wish{kind: e.wire.Wish, wait: e.wire.Wait}
}

func (e *childError) Is(target error) bool {
	id := typeID(reflect.TypeOf(target))
	for _, link := range e.wire.Chain {
		if link.Type == id && link.Text == logging.Shorten(target.Error(), maxErrorText) {
			return true
		}
	}
	return false
}

func (e *childError) As(target any) bool {
	to := reflect.ValueOf(target).Elem()
	id := typeID(to.Type())
	for _, link := range e.wire.Chain {
		if link.Type != id || link.Fields == nil {
			continue
		}
		v := reflect.New(to.Type())
		if json.Unmarshal(link.Fields, v.Interface()) == nil {
			to.Set(v.Elem())
			return true
		}
	}
	return false
}
