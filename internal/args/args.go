// Package args turns the JSON arguments of a job into the arguments of a Go function.
package args

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// Error is an argument that does not fit its parameter. No text but Err's holds an
// argument's value.
type Error struct {
	// Index is the argument's position from 1, or 0 when there are too many or too
	// few arguments.
	Index int
	// Want is the Go type of the parameter or, with Index 0, the number of
	// arguments it takes.
	Want string
	// Found is what the payload has there, such as "a string", or with Index 0 the
	// number of arguments given.
	Found string
	// Err is the decoder's error, or nil. It may quote the value.
	Err error
}

// misfitOf explains why the argument raw could not be decoded into type t.
func misfitOf(index int, t reflect.Type, raw []byte, err error) *Error {
	e := &Error{Index: index, Want: t.String(), Found: kindOf(raw), Err: err}
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

// kindOf names the kind of a JSON value, with its article.
func kindOf(raw []byte) string {
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

// All decodes arguments without types to go by.
func All(raws []json.RawMessage, useNumber bool) ([]any, *Error) {
	values := make([]any, len(raws))
	for i, raw := range raws {
		v, err := Any(raw, useNumber)
		if err != nil {
			return nil, misfitOf(i+1, anyType, raw, err)
		}
		values[i] = v
	}
	return values, nil
}
