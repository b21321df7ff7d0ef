package delayedbridge

import (
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/tinylib/msgp/msgp"

	"github.com/goworker/goworker/internal/msgpack"
	"github.com/goworker/goworker/internal/payload"
)

// packer packs Go values. For Go workers a struct is the array of its fields, for Python a map.
type packer struct {
	structs  func(p packer, dst []byte, v reflect.Value, room int) ([]byte, error)
	textKeys bool // of maps only: Python's worker reads no others, and loses the task
}

var (
	forGo     = packer{packer.array, false}
	forPython = packer{packer.dict, true}
)

var (
	timeType      = reflect.TypeFor[time.Time]()
	marshaler     = reflect.TypeFor[json.Marshaler]()
	textMarshaler = reflect.TypeFor[encoding.TextMarshaler]()
)

// value appends a value. room is how many levels it may have.
func (p packer) value(dst []byte, v reflect.Value, room int) ([]byte, error) {
	if room == 0 {
		return dst, fmt.Errorf("it is nested deeper than %d levels", payload.MaxDepth)
	}
	if !v.IsValid() {
		return msgp.AppendNil(dst), nil
	}
	t := v.Type()
	switch nilable := t.Kind() == reflect.Pointer || t.Kind() == reflect.Interface; {
	case nilable && v.IsNil():
		return msgp.AppendNil(dst), nil
	case t == timeType:
		return msgp.AppendTimeExt(dst, v.Interface().(time.Time)), nil
	case t.Implements(marshaler) || t.Implements(textMarshaler):
		return appendMarshaled(dst, v)
	case nilable:
		return p.value(dst, v.Elem(), room-1)
	}
	switch t.Kind() {
	case reflect.Bool:
		return msgp.AppendBool(dst, v.Bool()), nil
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return msgp.AppendInt64(dst, v.Int()), nil
	case reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Uintptr:
		return msgp.AppendUint64(dst, v.Uint()), nil
	case reflect.Float32:
		return msgp.AppendFloat32(dst, float32(v.Float())), nil
	case reflect.Float64:
		return msgp.AppendFloat64(dst, v.Float()), nil
	case reflect.String:
		return msgp.AppendString(dst, v.String()), nil
	case reflect.Slice:
		switch {
		case v.IsNil():
			return msgp.AppendNil(dst), nil
		case t.Elem().Kind() == reflect.Uint8:
			return msgp.AppendBytes(dst, v.Bytes()), nil
		}
		return p.list(dst, v, room)
	case reflect.Array:
		return p.list(dst, v, room)
	case reflect.Map:
		return p.dictionary(dst, v, room)
	case reflect.Struct:
		return p.structs(p, dst, v, room)
	}
	return dst, fmt.Errorf("it is or holds a %s, which MessagePack does not have", t)
}

func (p packer) list(dst []byte, v reflect.Value, room int) (_ []byte, err error) {
	dst = msgp.AppendArrayHeader(dst, uint32(v.Len()))
	for i := range v.Len() {
		if dst, err = p.value(dst, v.Index(i), room-1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// dictionary appends a map in the order of its keys' texts, so that equal maps have equal bytes.
func (p packer) dictionary(dst []byte, v reflect.Value, room int) (_ []byte, err error) {
	if v.IsNil() {
		return msgp.AppendNil(dst), nil
	}
	if key := v.Type().Key(); p.textKeys && key.Kind() != reflect.String {
		return dst, fmt.Errorf("it is or holds a %s, and delayed's workers in Python read only texts as keys of maps", v.Type())
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int {
		return strings.Compare(fmt.Sprint(a.Interface()), fmt.Sprint(b.Interface()))
	})
	dst = msgp.AppendMapHeader(dst, uint32(len(keys)))
	for _, key := range keys {
		if dst, err = p.value(dst, key, room-1); err == nil {
			dst, err = p.value(dst, v.MapIndex(key), room-1)
		}
		if err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// array appends a struct as the array of its fields.
func (p packer) array(dst []byte, v reflect.Value, room int) (_ []byte, err error) {
	n := 0
	for range packedFields(v.Type()) {
		n++
	}
	dst = msgp.AppendArrayHeader(dst, uint32(n))
	for f := range packedFields(v.Type()) {
		if dst, err = p.value(dst, v.FieldByIndex(f.Index), room-1); err != nil {
			return dst, err
		}
	}
	return dst, nil
}

// dict appends a struct as a map of its fields.
func (p packer) dict(dst []byte, v reflect.Value, room int) ([]byte, error) {
	members, n, err := p.members(nil, v, room)
	return append(msgp.AppendMapHeader(dst, uint32(n)), members...), err
}

func (p packer) members(dst []byte, v reflect.Value, room int) (_ []byte, n int, err error) {
	if room == 0 {
		return dst, 0, fmt.Errorf("it is nested deeper than %d levels", payload.MaxDepth)
	}
	for f := range packedFields(v.Type()) {
		name, inline, carried := fieldName(f)
		of := v.FieldByIndex(f.Index)
		_, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !carried || slices.Contains(strings.Split(options, ","), "omitempty") && of.IsZero() {
			continue
		}
		if inline {
			if of.Kind() == reflect.Pointer {
				if of.IsNil() {
					continue
				}
				of = of.Elem()
			}
			var more int
			dst, more, err = p.members(dst, of, room-1)
			n += more
		} else {
			dst, err = p.value(msgp.AppendString(dst, name), of, room-1)
			n++
		}
		if err != nil {
			return dst, n, err
		}
	}
	return dst, n, nil
}

// appendMarshaled appends what a value is in JSON.
func appendMarshaled(dst []byte, v reflect.Value) ([]byte, error) {
	text, err := json.Marshal(v.Interface())
	if err != nil {
		return dst, err
	}
	dst, _, ok := msgpack.AppendValue(dst, text)
	if !ok {
		return dst, fmt.Errorf("it is or holds a %s, whose JSON has no form in MessagePack", v.Type())
	}
	return dst, nil
}

// Task is one task for workers of delayed. PyTask and GoTask make it. It is safe for concurrent use.
type Task struct {
	function string
	data     []byte
	err      error // why it cannot be packed
}

// PyTask is a task for Python: a function "module.path:name", its arguments in order, and by name. The arguments by name are a map with
// texts as keys, or a struct: its fields have their names in JSON, or in Go. nil is none.
//
// MessagePack carries nil, booleans, numbers, texts, []byte, lists, maps and structs, which are maps in Python. A time is
// a timestamp of MessagePack. What encodes itself as JSON is what its JSON is. A mistake is the error of Enqueue.
func PyTask(function string, args []any, kwargs any) Task {
	t := Task{function: function}
	module, name, _ := strings.Cut(function, ":")
	if module == "" || name == "" {
		return t.wrong(errors.New(`name the function as "module.path:function"`))
	}
	named, count, err := packKwargs(kwargs)
	if err != nil {
		return t.wrong(fmt.Errorf("its arguments by name: %w", err))
	}
	elements := uint32(1)
	switch {
	case count > 0:
		elements = 3
	case len(args) > 0:
		elements = 2
	}
	t.data = msgp.AppendString(msgp.AppendArrayHeader(nil, elements), function)
	if elements > 1 {
		t.data = msgp.AppendArrayHeader(t.data, uint32(len(args)))
		for i, arg := range args {
			if t.data, err = forPython.value(t.data, reflect.ValueOf(arg), payload.MaxDepth); err != nil {
				return t.wrong(fmt.Errorf("its argument %d: %w", i+1, err))
			}
		}
	}
	if elements > 2 {
		t.data = append(t.data, named...)
	}
	return t
}

// packKwargs packs arguments by name as a map, and returns how many there are.
func packKwargs(kwargs any) (packed []byte, count int, err error) {
	v := reflect.ValueOf(kwargs)
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	switch {
	case !v.IsValid(), v.Kind() == reflect.Pointer, v.Kind() == reflect.Map && v.Len() == 0:
		return nil, 0, nil
	case v.Kind() == reflect.Map && v.Type().Key().Kind() == reflect.String:
		packed, err = forPython.dictionary(nil, v, payload.MaxDepth)
		return packed, v.Len(), err
	case v.Kind() == reflect.Struct:
		members, count, err := forPython.members(nil, v, payload.MaxDepth)
		return append(msgp.AppendMapHeader(nil, uint32(count)), members...), count, err
	}
	return nil, 0, fmt.Errorf("they are a %T, not a map with texts as keys or a struct", kwargs)
}

// GoTask is a task for Go workers: the path of a function, such as "github.com/acme/app/mail.Send", and its arguments. A struct is packed
// as the array of its fields, one argument by itself, and several as an array, as go-delayed does. The rest of a variadic function's
// arguments is a slice, unless they are its only ones. See PyTask for what MessagePack carries.
func GoTask(function string, args ...any) Task {
	t := Task{function: function}
	if function == "" || strings.Contains(function, ":") {
		return t.wrong(errors.New(`name the function by its path, as "github.com/acme/app/mail.Send"`))
	}
	var packed []byte
	var err error
	switch len(args) {
	case 0:
		packed = msgp.AppendNil(nil)
	case 1:
		packed, err = forGo.value(nil, reflect.ValueOf(args[0]), payload.MaxDepth)
	default:
		packed, err = forGo.list(nil, reflect.ValueOf(args), payload.MaxDepth)
	}
	if err != nil {
		return t.wrong(fmt.Errorf("its arguments: %w", err))
	}
	if len(packed) > math.MaxUint32 {
		return t.wrong(errors.New("its arguments are larger than 4 GiB"))
	}
	t.data = msgp.AppendBytes(msgp.AppendString(msgp.AppendArrayHeader(nil, 2), function), packed)
	return t
}

func (t Task) wrong(err error) Task {
	t.data, t.err = nil, fmt.Errorf("the task %q cannot be enqueued: %w", t.function, err)
	return t
}
