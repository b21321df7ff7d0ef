package args

import (
	"bytes"
	"context"
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"
)

// parameter is one parameter of a function.
type parameter struct {
	typ    reflect.Type
	decode decoder
	proven bool // no value of the type loses anything on its way through JSON
}

// decoder writes one JSON value into v, which is settable and zero. raw is valid
// JSON. The result is that of encoding/json; the fast ones below only take less time.
type decoder func(raw []byte, v reflect.Value, useNumber bool) error

var (
	contextType = reflect.TypeFor[context.Context]()
	errorType   = reflect.TypeFor[error]()

	anyType    = reflect.TypeFor[any]()
	rawType    = reflect.TypeFor[json.RawMessage]()
	numberType = reflect.TypeFor[json.Number]()
	timeType   = reflect.TypeFor[time.Time]()

	jsonUnmarshaler = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
	jsonMarshaler   = reflect.TypeFor[json.Marshaler]()
	textMarshaler   = reflect.TypeFor[encoding.TextMarshaler]()
)

// decodesItself reports whether t has its own way to read JSON.
func decodesItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(jsonUnmarshaler) || p.Implements(textUnmarshaler)
}

// undecodable returns why no JSON value fits into a parameter of type t: the end of
// a sentence that begins with the parameter. It is empty if one does. It looks
// into lists and maps, but not into structs: their fields may be left out.
func undecodable(t reflect.Type, reserved []reflect.Type) string {
	seen := make(map[reflect.Type]bool) // type T []T has no innermost element
	for !seen[t] && !decodesItself(t) {
		seen[t] = true
		switch {
		case t == contextType:
			return "is a context.Context, which can only be the first"
		case slices.Contains(reserved, t):
			return fmt.Sprintf("has to do with %s, which is handed over only by itself, as a pointer behind a context", t)
		}
		switch t.Kind() {
		case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
			return fmt.Sprintf("holds a %s, which no JSON value can become", t)
		case reflect.Interface:
			if t.NumMethod() > 0 {
				return fmt.Sprintf("holds the interface %s; a JSON value needs a concrete type or interface{}", t)
			}
		case reflect.Map:
			k := t.Key()
			if k.Kind() != reflect.String && (k.Kind() < reflect.Int || k.Kind() > reflect.Uintptr) && !decodesItself(k) {
				return fmt.Sprintf("has %s for a map key; JSON's keys are strings", k)
			}
			t = t.Elem()
		case reflect.Pointer, reflect.Slice, reflect.Array:
			t = t.Elem()
		}
	}
	return ""
}

func decoderFor(t reflect.Type) decoder {
	switch {
	case t == rawType:
		return decodeRaw
	case t == timeType:
		return decodeTime
	case t == anyType:
		return decodeInterface
	case t == numberType || decodesItself(t):
		return decodeJSON
	}
	switch t.Kind() {
	case reflect.String:
		return decodeString
	case reflect.Bool:
		return decodeBool
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return decodeInt
	case reflect.Float32, reflect.Float64:
		return decodeFloat
	case reflect.Struct, reflect.Map:
		return decodeObject
	}
	return decodeJSON
}

func decodeJSON(raw []byte, v reflect.Value, useNumber bool) error {
	to := v.Addr().Interface()
	if !useNumber {
		return json.Unmarshal(raw, to)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	return dec.Decode(to)
}

// decodeObject reads a map or struct. PHP has one type for lists and maps and
// writes an empty one as [], also where every other job has an object.
func decodeObject(raw []byte, v reflect.Value, useNumber bool) error {
	if string(raw) == "[]" {
		raw = []byte("{}")
	}
	return decodeJSON(raw, v, useNumber)
}

// decodeRaw copies: the arguments are the payload's own bytes, which the failure record
// still needs after the handler has changed its parameter.
func decodeRaw(raw []byte, v reflect.Value, _ bool) error {
	v.SetBytes(bytes.Clone(raw))
	return nil
}

// decodeTime also takes a date alone, which is how ActiveJob writes a Ruby Date.
func decodeTime(raw []byte, v reflect.Value, _ bool) error {
	err := json.Unmarshal(raw, v.Addr().Interface())
	if err == nil {
		return nil
	}
	day, dateErr := time.Parse(`"`+time.DateOnly+`"`, string(raw))
	if dateErr != nil {
		return err
	}
	v.Set(reflect.ValueOf(day))
	return nil
}

func decodeInterface(raw []byte, v reflect.Value, useNumber bool) error {
	x, err := Any(raw, useNumber)
	if err == nil && x != nil {
		v.Set(reflect.ValueOf(x))
	}
	return err
}

func decodeString(raw []byte, v reflect.Value, useNumber bool) error {
	s, ok := plainString(raw)
	if !ok {
		return decodeJSON(raw, v, useNumber)
	}
	v.SetString(s)
	return nil
}

func decodeBool(raw []byte, v reflect.Value, useNumber bool) error {
	switch string(raw) {
	case "true":
		v.SetBool(true)
	case "false":
		v.SetBool(false)
	default:
		return decodeJSON(raw, v, useNumber)
	}
	return nil
}

func decodeInt(raw []byte, v reflect.Value, useNumber bool) error {
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || v.OverflowInt(n) {
		return decodeJSON(raw, v, useNumber) // for its error, and for null
	}
	v.SetInt(n)
	return nil
}

func decodeFloat(raw []byte, v reflect.Value, useNumber bool) error {
	f, err := strconv.ParseFloat(string(raw), v.Type().Bits())
	if err != nil {
		return decodeJSON(raw, v, useNumber)
	}
	v.SetFloat(f)
	return nil
}

// Any decodes a value without a type to go by. Its only error is a number that does
// not fit into a float64.
func Any(raw []byte, useNumber bool) (any, error) {
	if s, ok := plainString(raw); ok {
		return s, nil
	}
	switch string(raw) {
	case "null":
		return nil, nil
	case "true":
		return true, nil
	case "false":
		return false, nil
	}
	if len(raw) > 0 && (raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9') {
		if useNumber {
			return json.Number(raw), nil
		}
		if f, err := strconv.ParseFloat(string(raw), 64); err == nil {
			return f, nil
		}
	}
	var v any
	err := decodeJSON(raw, reflect.ValueOf(&v).Elem(), useNumber)
	return v, err
}

// plainString returns the text of a JSON string that holds no escapes.
func plainString(raw []byte) (string, bool) {
	n := len(raw)
	if n < 2 || raw[0] != '"' || raw[n-1] != '"' || bytes.IndexByte(raw, '\\') >= 0 {
		return "", false
	}
	return string(raw[1 : n-1]), true
}
