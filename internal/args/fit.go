package args

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/payload"
)

// Signature is what a function takes as arguments.
type Signature struct {
	Known    bool           // false: the function takes any
	Params   []reflect.Type // without a leading context
	Variadic bool           // the last of Params is the type of each of the rest
}

// Signature returns what the function takes.
func (f *Function) Signature() (s Signature) {
	s.Known = true
	s.Params, s.Variadic, _ = f.Types()
	return s
}

// Takes names the types of the parameters for sentences: (string, ...int).
func (f *Function) Takes() string {
	names := make([]string, 0, len(f.fixed)+1)
	for _, p := range f.fixed {
		names = append(names, p.typ.String())
	}
	if f.rest != nil {
		names = append(names, "..."+f.rest.typ.String())
	}
	return "(" + strings.Join(names, ", ") + ")"
}

// Check returns why a job of the function cannot have these arguments, nil if it can. What passes, Call decodes to the same
// values. With more, further arguments come behind them later.
func (f *Function) Check(given []any, more bool) *Error {
	if len(given) < len(f.fixed) && !more || len(given) > len(f.fixed) && f.rest == nil {
		return &Error{Want: f.arity(), Found: strconv.Itoa(len(given))}
	}
	for i, arg := range given {
		p := f.rest
		if i < len(f.fixed) {
			p = &f.fixed[i]
		}
		if e := p.takes(arg); e != nil {
			e.Index, e.Want = i+1, p.typ.String()
			return e
		}
	}
	return nil
}

// takes returns what is wrong with a value as an argument, nil if its JSON becomes the same value in the parameter.
func (p *parameter) takes(arg any) *Error {
	if arg == nil {
		return p.takesNull("nil")
	}
	v := reflect.ValueOf(arg)
	from, to := v.Type(), p.typ
	if what := flaw(v, 0); what != "" {
		return &Error{Found: articled(from) + " with " + what}
	}
	if from == to && p.proven || to == anyType && proven(from, nil) {
		return nil
	}
	found := articled(from)
	raw, err := payload.EncodeValue(arg, payload.Plain)
	if err != nil {
		return &Error{Found: found + " without a JSON form", Err: err}
	}
	same := bare(from) == bare(to)
	if v.Kind() == reflect.Pointer && v.IsNil() {
		return p.takesNull("a nil " + from.String())
	} else if string(raw) == "null" && !same {
		return p.takesNull(found)
	}
	value := reflect.New(to).Elem()
	if err := p.decode(raw, value, true); err != nil {
		return unfit(found, to, raw, err)
	}
	if same {
		return nil
	}
	is, open := holdsBytes(v, 0)
	if taken, any := takesBytes(to, nil); is && !taken && !any {
		return &Error{Found: found + ", which is base64 in JSON"}
	}
	l := loss{bytes: is || open}
	if what := l.of(raw, value); what != "" {
		return &Error{Found: found + " with " + what}
	}
	return nil
}

// takesNull is takes for a value whose JSON is null.
func (p *parameter) takesNull(found string) *Error {
	value := reflect.New(p.typ).Elem()
	if err := p.decode([]byte("null"), value, true); err != nil || !isNull(value) {
		return &Error{Found: found, Err: err}
	}
	return nil
}

// isNull reports whether a value that was decoded from null says so.
func isNull(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map, reflect.Interface:
		return true
	}
	if !decodesItself(v.Type()) {
		return false
	}
	again, err := payload.EncodeValue(v.Interface(), payload.Plain)
	return err == nil && string(again) == "null"
}

// unfit says of a value that does not decode what it is.
func unfit(found string, to reflect.Type, raw []byte, err error) *Error {
	var mismatch *json.UnmarshalTypeError
	switch {
	case raw[0] == '-' || '0' <= raw[0] && raw[0] <= '9':
		if isNumber(to) {
			found += " whose value " + articled(to) + " cannot hold"
		}
	case errors.As(err, &mismatch) && mismatch.Field != "":
		found += " with " + strings.TrimPrefix(misfitOf(0, to, raw, err).Found, "an object with ")
	}
	return &Error{Found: found, Err: err}
}

// isNumber reports whether JSON's numbers are for the type.
func isNumber(t reflect.Type) bool {
	k := bare(t).Kind()
	return reflect.Int <= k && k <= reflect.Float64 && !own(bare(t))
}

// articled names a type with its article.
func articled(t reflect.Type) string {
	name := t.String()
	if strings.ContainsRune("aeio", rune(name[0])) {
		return "an " + name
	}
	return "a " + name
}

// bare returns a type without pointers.
func bare(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer && t.Elem() != t {
		t = t.Elem()
	}
	return t
}

// own reports whether a type writes or reads its JSON by itself, or holds JSON.
func own(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return t == rawType || t == numberType || decodesItself(t) || p.Implements(jsonMarshaler) || p.Implements(textMarshaler)
}

// proven reports whether every value of the type that has a JSON form is decoded from it without loss, by the type alone. within are the types
// around it.
func proven(t reflect.Type, within []reflect.Type) bool {
	for _, w := range within {
		if w == t {
			return true
		}
	}
	if t == timeType || t == anyType {
		return true
	}
	if own(t) {
		return false
	}
	within = append(within, t)
	switch t.Kind() {
	case reflect.Chan, reflect.Func, reflect.Complex64, reflect.Complex128, reflect.UnsafePointer, reflect.Interface:
		return false
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return proven(t.Elem(), within)
	case reflect.Map:
		return t.Key().Kind() == reflect.String && !own(t.Key()) && proven(t.Elem(), within)
	case reflect.Struct:
		for i := range t.NumField() {
			f := t.Field(i)
			if f.Anonymous || f.IsExported() && f.Tag.Get("json") != "-" && !proven(f.Type, within) {
				return false
			}
		}
	}
	return true
}

// flaw names what of a value JSON cannot hold, or would change without an error; "": nothing. What writes its JSON by itself is not looked into.
func flaw(v reflect.Value, level int) string {
	if level > mostLevels {
		return "values nested too deeply, or itself in it"
	}
	if !v.IsValid() || v.Type().PkgPath() != "" && own(v.Type()) {
		return ""
	}
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return "text that is not UTF-8"
		}
	case reflect.Float32, reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			return "a number that JSON does not have"
		}
	case reflect.Pointer, reflect.Interface:
		return flaw(v.Elem(), level+1)
	case reflect.Slice, reflect.Array:
		if k := v.Type().Elem().Kind(); reflect.Bool <= k && k <= reflect.Uintptr {
			return ""
		}
		for i := range v.Len() {
			if what := flaw(v.Index(i), level+1); what != "" {
				return what
			}
		}
	case reflect.Map:
		for key, value := range v.Seq2() {
			if what := cmp.Or(flaw(key, level+1), flaw(value, level+1)); what != "" {
				return what
			}
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() && !f.Anonymous || f.Tag.Get("json") == "-" {
				continue
			}
			if what := flaw(v.Field(i), level+1); what != "" {
				return what
			}
		}
	}
	return ""
}

// mostLevels bounds what is followed, as the encoder does.
const mostLevels = 1000

// holdsBytes reports whether a value holds bytes, and whether it holds what writes JSON by itself.
func holdsBytes(v reflect.Value, level int) (is, open bool) {
	if !v.IsValid() || level > mostLevels {
		return false, false
	}
	if own(v.Type()) {
		return false, v.Type() != numberType
	}
	add := func(of reflect.Value) {
		b, o := holdsBytes(of, level+1)
		is, open = is || b, open || o
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		add(v.Elem())
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			return !v.IsNil(), false
		}
		for i := range v.Len() {
			add(v.Index(i))
		}
	case reflect.Map:
		for _, value := range v.Seq2() {
			add(value)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			add(v.Field(i))
		}
	}
	return is, open
}

// takesBytes reports whether a type has bytes in it, and whether it has what takes any JSON.
func takesBytes(t reflect.Type, within []reflect.Type) (is, open bool) {
	for _, w := range within {
		if w == t {
			return false, false
		}
	}
	if t == anyType || own(t) {
		return false, true
	}
	within = append(within, t)
	add := func(of reflect.Type) {
		b, o := takesBytes(of, within)
		is, open = is || b, open || o
	}
	switch t.Kind() {
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return true, false
		}
		add(t.Elem())
	case reflect.Pointer, reflect.Array, reflect.Map:
		add(t.Elem())
	case reflect.Struct:
		for i := range t.NumField() {
			add(t.Field(i).Type)
		}
	}
	return is, open
}

// loss looks for what of a JSON value is not in the value that was decoded from it. Where it says so, the words end a sentence
// about the JSON value.
type loss struct {
	bytes bool // JSON's strings may be the base64 of bytes
}

func (l loss) of(raw []byte, v reflect.Value) string {
	t := v.Type()
	switch {
	case string(raw) == "null" && isNull(v):
		return ""
	case string(raw) == "null":
		return "null where " + articled(t) + " is expected"
	case t == numberType && raw[0] == '"':
		return "text where a number is expected"
	case own(t):
		return ""
	}
	switch t.Kind() {
	case reflect.Pointer:
		return l.of(raw, v.Elem())
	case reflect.Float32, reflect.Float64:
		if !exact(string(raw), v.Float(), t.Bits()) {
			return "digits that " + articled(t) + " does not hold"
		}
	case reflect.Slice, reflect.Array:
		return l.ofList(raw, v)
	case reflect.Map:
		return l.ofMap(raw, v)
	case reflect.Struct:
		return l.ofStruct(raw, v)
	}
	return ""
}

func (l loss) ofList(raw []byte, v reflect.Value) string {
	if raw[0] == '"' {
		if !l.bytes {
			return "text where bytes are expected"
		}
		return ""
	}
	elements := payload.Elements(raw)
	if len(elements) > v.Len() {
		return fmt.Sprintf("more than %d elements", v.Len())
	}
	for i, e := range elements {
		if what := l.of(e, v.Index(i)); what != "" {
			return what
		}
	}
	return ""
}

func (l loss) ofMap(raw []byte, v reflect.Value) string {
	if v.Type().Key().Kind() != reflect.String || own(v.Type().Key()) {
		return ""
	}
	for _, m := range payload.Members(raw) {
		key := reflect.New(v.Type().Key()).Elem()
		key.SetString(payload.StringValue(m.Key))
		if value := v.MapIndex(key); value.IsValid() {
			if what := l.of(m.Value, value); what != "" {
				return what
			}
		}
	}
	return ""
}

func (l loss) ofStruct(raw []byte, v reflect.Value) string {
	fields := fieldsOf(v.Type())
	for _, m := range payload.Members(raw) {
		name := payload.StringValue(m.Key)
		f := fields.named(name)
		if f == nil {
			return fmt.Sprintf("a member %.40q, for which %s has no field", name, v.Type())
		}
		of, err := v.FieldByIndexErr(f.index)
		if err != nil || f.quoted {
			continue // the decoder refuses what does not fit there
		}
		if what := l.of(m.Value, of); what != "" {
			return what
		}
	}
	return ""
}

// exact reports whether a float has all digits of a JSON number: those that a float64 has, and all of an integer. The shortest text
// of the float has them too.
func exact(literal string, f float64, bits int) bool {
	if !strings.ContainsAny(literal, ".eE") {
		return strconv.FormatFloat(f, 'f', 0, 64) == literal || strconv.FormatFloat(f, 'f', -1, bits) == literal
	}
	of, err := strconv.ParseFloat(literal, 64)
	return err == nil && strconv.FormatFloat(of, 'g', -1, 64) == strconv.FormatFloat(f, 'g', -1, bits)
}
