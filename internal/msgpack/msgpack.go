// Package msgpack turns jobs and values from MessagePack into JSON and back. It works on bytes only
// and knows no Redis.
//
// A job of a MessagePack queue is an item: the array [class, [args…]], or [class, [args…], {fields…}] if
// its payload has fields beside class and args. In the place of the arguments an item may have a bin that
// holds them packed. The rest of goworker sees the payload: {"class":…,"args":[…],…}.
package msgpack

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// maxDepth is payload.MaxDepth.
const maxDepth = 98

// Error says why bytes are not an item, or not a value that JSON can hold.
type Error struct {
	Reason string // "the item …"
}

func (e *Error) Error() string { return e.Reason }

// Is reports whether the first byte is that of a MessagePack array, as every item has. A payload in JSON
// never begins so.
func Is(item []byte) bool {
	if len(item) == 0 {
		return false
	}
	c := item[0]
	return c&0xf0 == 0x90 || c == 0xdc || c == 0xdd
}

// AppendPayload appends the payload of an item, as JSON without blanks: class, args and the fields, in
// the item's order. The error is a *Error; dst is then returned as it was.
//
// JSON does not have all that MessagePack has: see AppendJSON.
func AppendPayload(dst, item []byte) ([]byte, error) {
	if !Is(item) {
		return dst, &Error{"the item is not a MessagePack array"}
	}
	r := reader{out: append(dst, `{"class":`...), room: maxDepth - 1}
	rest, err := r.payload(item)
	switch {
	case err != nil:
		return dst, &Error{"the item " + err.Error()}
	case len(rest) > 0:
		return dst, &Error{fmt.Sprintf("the item has %d bytes behind its end", len(rest))}
	}
	return append(r.out, '}'), nil
}

func (r *reader) payload(item []byte) (rest []byte, err error) {
	count, rest, err := msgp.ReadArrayHeaderBytes(item)
	switch {
	case err != nil:
		return rest, reason(err)
	case count == 0 || count > 3:
		return rest, fmt.Errorf("has %d elements", count)
	}
	if msgp.NextType(rest) != msgp.StrType {
		return rest, errors.New("begins with no class, which is a string")
	}
	if rest, err = r.value(rest); err != nil {
		return rest, err
	}
	r.out = append(r.out, `,"args":`...)
	if count == 1 {
		r.out = append(r.out, "[]"...)
	} else if rest, err = r.arguments(rest); err != nil {
		return rest, err
	}
	if count == 3 {
		rest, err = r.fields(rest)
	}
	return rest, err
}

// arguments writes those of an item. One that is no list is the only argument, and nil is none, as in
// JSON. A bin holds the arguments packed.
func (r *reader) arguments(src []byte) (rest []byte, err error) {
	packed := src
	boxed := msgp.NextType(src) == msgp.BinType
	if boxed {
		if packed, rest, err = msgp.ReadBytesZC(src); err != nil {
			return rest, reason(err)
		}
	}
	var behind []byte
	switch kind := msgp.NextType(packed); {
	case boxed && len(packed) == 0:
		r.out = append(r.out, "[]"...)
		return rest, nil
	case kind == msgp.NilType:
		r.out = append(r.out, "[]"...)
		behind = packed[1:]
	case kind == msgp.ArrayType:
		behind, err = r.value(packed)
	default:
		r.out = append(r.out, '[')
		r.room--
		behind, err = r.value(packed)
		r.room++
		r.out = append(r.out, ']')
	}
	switch {
	case err != nil:
		return rest, err
	case !boxed:
		return behind, nil
	case len(behind) > 0:
		return rest, fmt.Errorf("has %d bytes behind the end of its arguments", len(behind))
	}
	return rest, nil
}

// fields writes the payload's fields beside class and args.
func (r *reader) fields(src []byte) (rest []byte, err error) {
	if msgp.NextType(src) == msgp.NilType {
		return src[1:], nil
	}
	if msgp.NextType(src) != msgp.MapType {
		return src, errors.New("has fields that are no map")
	}
	count, rest, err := msgp.ReadMapHeaderBytes(src)
	if err != nil {
		return rest, reason(err)
	}
	for range count {
		r.out = append(r.out, ',')
		start := len(r.out)
		if rest, err = r.member(rest); err != nil {
			return rest, err
		}
		if reserved(r.out[start:]) {
			return rest, errors.New("has class or args among its fields")
		}
	}
	return rest, nil
}

// AppendItem appends the item of a payload. It reports false, and returns dst as it was, if AppendPayload
// would not make the same bytes of it: a number that MessagePack does not have, such as one of more than
// 64 bits, or JSON that goworker writes otherwise, such as with blanks. Such a job is kept as JSON.
func AppendItem(dst, text []byte) (item []byte, exact bool) {
	w := writer{src: text, out: append(dst, 0x92), exact: true, strict: true, room: maxDepth - 1}
	if !utf8.Valid(text) || !w.word(`{"class":`) || w.peek() != '"' || !w.value() || !w.word(`,"args":`) || w.peek() != '[' || !w.value() {
		return dst, false
	}
	if w.peek() == ',' {
		w.out[len(dst)] = 0x93
		if !w.fields() {
			return dst, false
		}
	}
	if !w.word("}") || w.pos != len(text) || !w.exact {
		return dst, false
	}
	return w.out, true
}

func (w *writer) fields() bool {
	start := w.open()
	count := 0
	for w.word(",") {
		name := w.pos
		if !w.member() {
			return false
		}
		if reserved(w.src[name:w.pos]) {
			return false
		}
		count++
	}
	w.close(start, count, mapForms)
	return true
}

// reserved reports whether a member of an object, in its one exact form, is the class or the arguments.
func reserved(member []byte) bool {
	return bytes.HasPrefix(member, []byte(`"class":`)) || bytes.HasPrefix(member, []byte(`"args":`))
}
