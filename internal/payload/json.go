package payload

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
)

// Style says which characters of a string are escaped. Ruby applications use both
// styles, and Resque.dequeue finds a job only if its
// bytes are those its own process would write.
type Style int

const (
	// Plain writes <, >, & and U+2028/9 as they are, like Ruby's json and Oj
	// and like Node.
	Plain Style = iota
	// Rails writes them as \u003c, \u003e, \u0026, \u2028 and \u2029, like
	// ActiveSupport before Rails 8.1.
	Rails
)

// maxLevels bounds what Encode follows, so that a value which contains itself
// is an error and not a stack overflow.
const maxLevels = 1000

// EncodeValue writes v as one JSON value, without blanks or a final newline, in the
// bytes Ruby would write as far as Go can know them:
//
//   - json.Number and json.RawMessage keep their literal; a RawMessage only
//     loses white space between its tokens. Inside a struct or the result of a
//     MarshalJSON method strings get the style, and everything else is kept.
//   - Other numbers print as encoding/json prints them: float64(3) is 3.
//   - Maps are sorted by key; for another order use a type with MarshalJSON.
//   - Bytes of a string that are not UTF-8 become U+FFFD.
//
// Everything else is as in encoding/json. A value without a JSON form (NaN,
// infinities, channels, functions, a value that contains itself) is an error.
func EncodeValue(v any, style Style) ([]byte, error) {
	e := encoder{style: style}
	if err := e.value(v, 0); err != nil {
		return nil, err
	}
	return e.buf, nil
}

type encoder struct {
	buf   []byte
	style Style
}

// value has short ways for the common types of arguments; reflected does the rest.
func (e *encoder) value(v any, level int) error {
	switch v := v.(type) {
	case nil:
		e.buf = append(e.buf, "null"...)
		return nil
	case string:
		e.buf = appendString(e.buf, v, e.style, replacement)
		return nil
	case int:
		e.buf = strconv.AppendInt(e.buf, int64(v), 10)
		return nil
	case int64:
		e.buf = strconv.AppendInt(e.buf, v, 10)
		return nil
	case bool:
		e.buf = strconv.AppendBool(e.buf, v)
		return nil
	case float64:
		return e.float(v)
	case []any:
		if v != nil && level <= maxLevels {
			return e.values(v, level)
		}
	case map[string]any:
		if v != nil && level <= maxLevels {
			return e.members(v, level)
		}
	}
	return e.reflected(reflect.ValueOf(v), level)
}

// float writes a number as encoding/json does.
func (e *encoder) float(f float64) error {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return fmt.Errorf("JSON has no number %v; send null or a string in its place", f)
	}
	form := byte('f')
	if size := math.Abs(f); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	e.buf = strconv.AppendFloat(e.buf, f, form, -1, 64)
	if n := len(e.buf); form == 'e' && e.buf[n-4] == 'e' && e.buf[n-2] == '0' { // e-09 is e-9
		e.buf = append(e.buf[:n-2], e.buf[n-1])
	}
	return nil
}

func (e *encoder) values(list []any, level int) error {
	e.buf = append(e.buf, '[')
	for i, v := range list {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if err := e.value(v, level+1); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, ']')
	return nil
}

func (e *encoder) members(object map[string]any, level int) error {
	var some [16]string
	keys := some[:0]
	for k := range object {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	e.buf = append(e.buf, '{')
	for i, k := range keys {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = append(appendString(e.buf, k, e.style, replacement), ':')
		if err := e.value(object[k], level+1); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, '}')
	return nil
}

var (
	rawType       = reflect.TypeFor[json.RawMessage]()
	numberType    = reflect.TypeFor[json.Number]()
	marshalerType = reflect.TypeFor[json.Marshaler]()
	textType      = reflect.TypeFor[encoding.TextMarshaler]()
)

func (e *encoder) reflected(v reflect.Value, level int) error {
	if level > maxLevels {
		return fmt.Errorf("the value is nested deeper than %d levels or contains itself", maxLevels)
	}
	switch t := v.Type(); {
	case t == rawType:
		return e.raw(v.Bytes())
	case t == numberType:
		return e.number(v.String())
	case t.Kind() == reflect.Pointer && t.Elem() == rawType && !v.IsNil():
		return e.raw(v.Elem().Bytes())
	case marshals(t), v.CanAddr() && marshals(reflect.PointerTo(t)):
		return e.standard(v)
	}
	switch v.Kind() {
	case reflect.String:
		e.buf = appendString(e.buf, v.String(), e.style, replacement)
	case reflect.Bool:
		e.buf = strconv.AppendBool(e.buf, v.Bool())
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		e.buf = strconv.AppendInt(e.buf, v.Int(), 10)
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			e.buf = append(e.buf, "null"...)
			return nil
		}
		return e.reflected(v.Elem(), level+1)
	case reflect.Slice, reflect.Array:
		return e.list(v, level)
	case reflect.Map:
		return e.object(v, level)
	case reflect.Float64:
		return e.float(v.Float())
	case reflect.Float32:
		if f := v.Float(); math.IsNaN(f) || math.IsInf(f, 0) {
			return fmt.Errorf("JSON has no number %v; send null or a string in its place", f)
		}
		return e.standard(v)
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer:
		return fmt.Errorf("a value of type %s has no JSON form", v.Type())
	default:
		return e.standard(v)
	}
	return nil
}

func marshals(t reflect.Type) bool { return t.Implements(marshalerType) || t.Implements(textType) }

func (e *encoder) list(v reflect.Value, level int) error {
	if v.Kind() == reflect.Slice {
		if v.IsNil() {
			e.buf = append(e.buf, "null"...)
			return nil
		}
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return e.standard(v) // base64
		}
	}
	e.buf = append(e.buf, '[')
	for i := range v.Len() {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if err := e.reflected(v.Index(i), level+1); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, ']')
	return nil
}

func (e *encoder) object(v reflect.Value, level int) error {
	if v.Type().Key().Kind() != reflect.String {
		return e.standard(v)
	}
	if v.IsNil() {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		return bytes.Compare([]byte(a.String()), []byte(b.String()))
	})
	e.buf = append(e.buf, '{')
	for i, k := range keys {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.buf = appendString(e.buf, k.String(), e.style, replacement)
		e.buf = append(e.buf, ':')
		if err := e.reflected(v.MapIndex(k), level+1); err != nil {
			return err
		}
	}
	e.buf = append(e.buf, '}')
	return nil
}

func (e *encoder) number(literal string) error {
	if literal == "" { // encoding/json's zero json.Number
		literal = "0"
	}
	s := scanner{src: []byte(literal)}
	if !s.number() || s.pos != len(literal) {
		return fmt.Errorf("the json.Number %q is not a JSON number", literal)
	}
	e.buf = append(e.buf, literal...)
	return nil
}

func (e *encoder) raw(text []byte) error {
	if text == nil {
		e.buf = append(e.buf, "null"...)
		return nil
	}
	if !utf8.Valid(text) {
		return errors.New("a json.RawMessage is not UTF-8")
	}
	out := bytes.NewBuffer(e.buf)
	if err := json.Compact(out, text); err != nil {
		return fmt.Errorf("a json.RawMessage is not JSON: %w", err)
	}
	e.buf = out.Bytes()
	return nil
}

// standard leaves the value to encoding/json. The result may hold escapes
// of either style, since a MarshalJSON method mostly calls json.Marshal.
func (e *encoder) standard(v reflect.Value) error {
	if v.CanAddr() {
		v = v.Addr() // so that methods of the pointer are found
	}
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v.Interface()); err != nil {
		return fmt.Errorf("a value of type %s has no JSON form: %w", v.Type(), err)
	}
	text := bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	if !utf8.Valid(text) {
		return fmt.Errorf("the JSON form of a value of type %s is not UTF-8", v.Type())
	}
	e.buf = appendRestyled(e.buf, text, e.style)
	return nil
}
