package delayedbridge

import (
	"cmp"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"

	"github.com/goworker/goworker/internal/args"
	"github.com/goworker/goworker/internal/msgpack"
	"github.com/goworker/goworker/internal/payload"
)

// errMisfit says that packed arguments have not the form of a parameter. The job then gets them as they are, and its
// failure names the argument.
var errMisfit = errors.New("the arguments do not fit the function")

// errDeep is for values of more levels than a payload may have.
var errDeep = fmt.Errorf("its arguments are nested deeper than %d levels", payload.MaxDepth)

// goArguments appends the arguments of a Go task to dst as a JSON list. A Go task packs one argument bare, a struct as the array of
// its fields, and several arguments as an array: the types of the function's parameters tell what the bytes are.
func goArguments(dst, packed []byte, s args.Signature) ([]byte, error) {
	if s.Known {
		out, err := typedArguments(dst, packed, s)
		if !errors.Is(err, errMisfit) {
			return out, err
		}
	}
	switch {
	case len(packed) == 0:
		return append(dst, "[]"...), nil
	case msgp.NextType(packed) == msgp.ArrayType && (!s.Known || len(s.Params) != 1):
		return whole(dst, packed)
	case msgp.NextType(packed) == msgp.NilType && len(s.Params) != 1:
		return append(dst, "[]"...), ends(packed[1:])
	}
	out, err := whole(append(dst, '['), packed)
	return append(out, ']'), err
}

// whole appends the JSON of packed, which is one value.
func whole(dst, packed []byte) ([]byte, error) {
	out, rest, err := plain(dst, packed)
	if err == nil {
		err = ends(rest)
	}
	return out, err
}

// plain appends the JSON of the first value of packed, without types.
func plain(dst, packed []byte) (out, rest []byte, err error) {
	if len(packed) == 0 {
		return dst, packed, errEnds
	}
	return msgpack.AppendJSON(dst, packed)
}

func typedArguments(dst, packed []byte, s args.Signature) ([]byte, error) {
	fixed := len(s.Params)
	if s.Variadic {
		fixed--
	}
	isNil := msgp.NextType(packed) == msgp.NilType
	switch {
	case len(packed) == 0, isNil && len(s.Params) != 1, isNil && s.Variadic:
		return append(dst, "[]"...), ends(packed[min(len(packed), 1):])
	case len(s.Params) == 0:
		return dst, errMisfit
	case len(s.Params) == 1 && !(s.Variadic && msgp.NextType(packed) == msgp.ArrayType):
		out, rest, err := value(append(dst, '['), packed, s.Params[0], payload.MaxDepth-2)
		if err == nil {
			err = ends(rest)
		}
		return append(out, ']'), err
	}
	n, rest, err := elements(packed)
	if err != nil {
		return dst, err
	}
	dst = append(dst, '[')
	for i := range n {
		if i > 0 && dst[len(dst)-1] != '[' {
			dst = append(dst, ',')
		}
		switch {
		case i < fixed, fixed == 0:
			dst, rest, err = value(dst, rest, s.Params[min(i, len(s.Params)-1)], payload.MaxDepth-2)
		case i == fixed && s.Variadic: // the rest comes as one array
			dst, rest, err = spread(dst, rest, s.Params[fixed])
		default:
			return dst, errMisfit
		}
		if err != nil {
			return dst, err
		}
	}
	return append(dst, ']'), ends(rest)
}

// spread appends the elements of the array in which the rest of a variadic function's arguments is.
func spread(dst, src []byte, t reflect.Type) (out, rest []byte, err error) {
	if msgp.NextType(src) == msgp.NilType {
		return trimComma(dst), src[1:], nil
	}
	n, rest, err := elements(src)
	if err != nil {
		return dst, rest, err
	}
	if n == 0 {
		return trimComma(dst), rest, nil
	}
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, rest, err = value(dst, rest, t, payload.MaxDepth-2); err != nil {
			return dst, rest, err
		}
	}
	return dst, rest, nil
}

func trimComma(dst []byte) []byte {
	if n := len(dst); dst[n-1] == ',' {
		return dst[:n-1]
	}
	return dst
}

// elements reads the head of an array.
func elements(src []byte) (n int, rest []byte, err error) {
	if msgp.NextType(src) != msgp.ArrayType {
		return 0, src, errMisfit
	}
	count, rest, err := msgp.ReadArrayHeaderBytes(src)
	if err != nil || int64(count) > int64(len(rest)) { // each element has a byte at least
		return 0, src, errEnds
	}
	return int(count), rest, nil
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// readsItself reports whether a type has its own way to read JSON.
func readsItself(t reflect.Type) bool {
	p := reflect.PointerTo(t)
	return p.Implements(unmarshaler) || p.Implements(textUnmarshaler)
}

// value appends the JSON that becomes the packed value when it is decoded into the type. room is how many levels it may have.
func value(dst, src []byte, t reflect.Type, room int) (out, rest []byte, err error) {
	for t.Kind() == reflect.Pointer && !readsItself(t) {
		t = t.Elem()
	}
	kind := msgp.NextType(src)
	switch {
	case room == 0:
		return dst, src, errDeep
	case t.Kind() == reflect.Array && t.Elem().Kind() == reflect.Uint8 && (kind == msgp.BinType || kind == msgp.StrType && !readsItself(t)):
		return byteArray(dst, src, t)
	case readsItself(t):
	case kind == msgp.ArrayType && t.Kind() == reflect.Struct:
		return structure(dst, src, t, room)
	case kind == msgp.MapType && t.Kind() == reflect.Struct:
		return object(dst, src, room, func(name string) reflect.Type { return fieldNamed(t, name) })
	case kind == msgp.MapType && t.Kind() == reflect.Map:
		return object(dst, src, room, func(string) reflect.Type { return t.Elem() })
	case kind == msgp.ArrayType && (t.Kind() == reflect.Slice || t.Kind() == reflect.Array):
		return list(dst, src, t.Elem(), room)
	case kind == msgp.BinType && t.Kind() == reflect.String: // Python's bytes
		b, rest, err := bytesOf(src)
		if err == nil && !utf8.Valid(b) {
			err = errMisfit
		}
		return payload.AppendText(dst, string(b)), rest, err
	case kind == msgp.StrType && t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8:
		b, rest, err := bytesOf(src)
		dst = base64.StdEncoding.AppendEncode(append(dst, '"'), b)
		return append(dst, '"'), rest, err
	}
	return plain(dst, src)
}

// byteArray appends an array of bytes, which go-delayed packs as a bin: as a list of numbers, or as what it is in JSON if
// its type has a form of its own, as a UUID has.
func byteArray(dst, src []byte, t reflect.Type) (out, rest []byte, err error) {
	b, rest, err := bytesOf(src)
	own := readsItself(t)
	if err != nil || len(b) > t.Len() || own && len(b) < t.Len() {
		return dst, src, cmp.Or(err, errMisfit)
	}
	v := reflect.New(t)
	for i, x := range b {
		v.Elem().Index(i).SetUint(uint64(x))
	}
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return dst, src, errMisfit
	}
	return append(dst, text...), rest, nil
}

func list(dst, src []byte, t reflect.Type, room int) (out, rest []byte, err error) {
	n, rest, err := elements(src)
	if err != nil {
		return dst, src, err
	}
	dst = append(dst, '[')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, rest, err = value(dst, rest, t, room-1); err != nil {
			return dst, rest, err
		}
	}
	return append(dst, ']'), rest, nil
}

func object(dst, src []byte, room int, typeOf func(name string) reflect.Type) (out, rest []byte, err error) {
	n, rest, err := msgp.ReadMapHeaderBytes(src)
	if err != nil {
		return dst, src, errEnds
	}
	dst = append(dst, '{')
	for i := range n {
		if i > 0 {
			dst = append(dst, ',')
		}
		var key []byte
		if key, rest, err = keyOf(rest); err != nil {
			return dst, rest, err
		}
		dst = append(payload.AppendText(dst, string(key)), ':')
		if t := typeOf(string(key)); t != nil {
			dst, rest, err = value(dst, rest, t, room-1)
		} else {
			dst, rest, err = plain(dst, rest)
		}
		if err != nil {
			return dst, rest, err
		}
	}
	return append(dst, '}'), rest, nil
}

// keyOf reads a key of a map. A number or a boolean is its text, as it is one in JSON.
func keyOf(src []byte) (key, rest []byte, err error) {
	switch msgp.NextType(src) {
	case msgp.IntType, msgp.UintType, msgp.BoolType:
		return plain(nil, src)
	case msgp.StrType, msgp.BinType:
	default:
		return nil, src, errMisfit // plain says what is wrong with it
	}
	if key, rest, err = bytesOf(src); err == nil && !utf8.Valid(key) {
		err = errors.New("a key of its arguments is not UTF-8")
	}
	return key, rest, err
}

// structure appends a struct that is packed as the array of its fields. A shorter array leaves the other fields zero.
func structure(dst, src []byte, t reflect.Type, room int) (out, rest []byte, err error) {
	out, rest, err = fields(append(dst, '{'), src, t, room)
	return append(out, '}'), rest, err
}

func fields(dst, src []byte, t reflect.Type, room int) (out, rest []byte, err error) {
	n, rest, err := elements(src)
	if err != nil {
		return dst, src, err
	}
	i := 0
	for f := range packedFields(t) {
		if i++; i > n {
			return dst, rest, nil
		}
		name, inline, carried := fieldName(f)
		switch {
		case !carried:
			if rest, err = msgp.Skip(rest); err != nil {
				return dst, rest, errEnds
			}
			continue
		case inline && msgp.NextType(rest) == msgp.NilType:
			rest = rest[1:]
			continue
		case inline:
			if room == 0 {
				return dst, rest, errDeep
			}
			of := f.Type
			if of.Kind() == reflect.Pointer {
				of = of.Elem()
			}
			if dst, rest, err = fields(dst, rest, of, room-1); err != nil {
				return dst, rest, err
			}
			continue
		}
		if dst[len(dst)-1] != '{' {
			dst = append(dst, ',')
		}
		dst = append(payload.AppendText(dst, name), ':')
		if dst, rest, err = value(dst, rest, f.Type, room-1); err != nil {
			return dst, rest, err
		}
	}
	if n > i {
		return dst, rest, errMisfit
	}
	return dst, rest, nil
}

// packedFields yields the fields that delayed packs of a struct, in order.
func packedFields(t reflect.Type) func(yield func(reflect.StructField) bool) {
	return func(yield func(reflect.StructField) bool) {
		for i := range t.NumField() {
			if f := t.Field(i); f.IsExported() && f.Tag.Get("msgpack") != "-" && !yield(f) {
				return
			}
		}
	}
}

// fieldName returns the name of a field in JSON, whether the fields of the struct that it is stand among its neighbours there, and
// whether JSON has it at all.
func fieldName(f reflect.StructField) (name string, inline, carried bool) {
	tag, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	if f.Tag.Get("json") == "-" {
		return "", false, false
	}
	of := f.Type
	if of.Kind() == reflect.Pointer {
		of = of.Elem()
	}
	if tag == "" && f.Anonymous && of.Kind() == reflect.Struct && !readsItself(of) {
		return "", true, true
	}
	if tag == "" {
		tag = f.Name
	}
	return tag, false, true
}

// fieldNamed returns the type of the field that JSON decodes a name into, nil if there is none. Like JSON it looks at
// upper and lower case second.
func fieldNamed(t reflect.Type, name string) (found reflect.Type) {
	for _, f := range reflect.VisibleFields(t) {
		own, inline, carried := fieldName(f)
		switch {
		case !f.IsExported() || inline || !carried:
		case own == name:
			return f.Type
		case found == nil && strings.EqualFold(own, name):
			found = f.Type
		}
	}
	return found
}
