package msgpack

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// AppendValue appends a JSON value in MessagePack. exact reports whether AppendJSON would make the same
// bytes of it; if not, a number that MessagePack does not have became the nearest float64, or the text has
// blanks or escapes that AppendJSON does not write. ok is false, and dst returned as it was, for text that is
// not one JSON value of at most as many levels as a payload may have, or has a number that no float64 is near.
func AppendValue(dst, text []byte) (packed []byte, exact, ok bool) {
	w := writer{src: text, out: dst, exact: true, room: maxDepth}
	w.space()
	if !utf8.Valid(text) || !w.value() {
		return dst, false, false
	}
	w.space()
	if w.pos != len(text) {
		return dst, false, false
	}
	return w.out, w.exact, true
}

// writer writes MessagePack of JSON.
type writer struct {
	src    []byte
	pos    int // next byte of src
	out    []byte
	exact  bool // AppendJSON would write what was read so far
	strict bool // stop at the first thing that is not exact
	room   int  // levels of nesting still allowed
}

func (w *writer) peek() byte {
	if w.pos < len(w.src) {
		return w.src[w.pos]
	}
	return 0
}

func (w *writer) space() {
	for w.pos < len(w.src) {
		switch w.src[w.pos] {
		case ' ', '\t', '\n', '\r':
			w.pos++
			w.exact = false
		default:
			return
		}
	}
}

func (w *writer) word(word string) bool {
	if len(w.src)-w.pos < len(word) || string(w.src[w.pos:w.pos+len(word)]) != word {
		return false
	}
	w.pos += len(word)
	return true
}

func (w *writer) value() bool {
	switch w.peek() {
	case '"':
		return w.text()
	case '[':
		return w.nested(']', arrayForms)
	case '{':
		return w.nested('}', mapForms)
	case 't':
		w.out = msgp.AppendBool(w.out, true)
		return w.word("true")
	case 'f':
		w.out = msgp.AppendBool(w.out, false)
		return w.word("false")
	case 'n':
		w.out = msgp.AppendNil(w.out)
		return w.word("null")
	}
	return w.number()
}

// forms are the first bytes of an array or a map: with up to 15 elements (or'ed with their number), with
// 16 bits for it, with 32.
type forms struct{ short, long, longer byte }

var (
	arrayForms = forms{0x90, 0xdc, 0xdd}
	mapForms   = forms{0x80, 0xde, 0xdf}
)

// nested writes an array or an object.
func (w *writer) nested(closing byte, f forms) bool {
	if w.room == 0 {
		return false
	}
	w.room--
	w.pos++
	start, count := w.open(), 0
	for w.space(); w.peek() != closing; w.space() {
		if count > 0 {
			if !w.word(",") {
				return false
			}
			w.space()
		}
		if closing == '}' && !w.member() || closing == ']' && !w.value() {
			return false
		}
		if w.strict && !w.exact {
			return false
		}
		count++
	}
	w.pos++
	w.room++
	w.close(start, count, f)
	return true
}

// member writes a name and its value.
func (w *writer) member() bool {
	if w.peek() != '"' || !w.text() {
		return false
	}
	w.space()
	if !w.word(":") {
		return false
	}
	w.space()
	return w.value()
}

// open leaves a byte for the header of an array or a map: most have but few elements.
func (w *writer) open() (start int) {
	w.out = append(w.out, 0)
	return len(w.out)
}

// close writes the header, once the number of elements is known.
func (w *writer) close(start, count int, f forms) {
	switch {
	case count < 16:
		w.out[start-1] = f.short | byte(count)
	case count <= math.MaxUint16:
		w.out[start-1] = f.long
		w.out = slices.Insert(w.out, start, byte(count>>8), byte(count))
	default:
		w.out[start-1] = f.longer
		w.out = slices.Insert(w.out, start, byte(count>>24), byte(count>>16), byte(count>>8), byte(count))
	}
}

// text writes a string.
func (w *writer) text() bool {
	start := w.pos + 1
	for i := start; i < len(w.src); i++ {
		switch c := w.src[i]; {
		case c == '"':
			w.out = msgp.AppendStringFromBytes(w.out, w.src[start:i])
			w.pos = i + 1
			return true
		case c == '\\':
			return w.escaped(i)
		case c < ' ':
			return false
		}
	}
	return false
}

// escaped writes a string whose first escape is at i.
func (w *writer) escaped(i int) bool {
	for ; i < len(w.src) && w.src[i] != '"'; i++ {
		if w.src[i] == '\\' {
			i++
		}
	}
	if i >= len(w.src) {
		return false
	}
	quoted := w.src[w.pos : i+1]
	var text string
	if json.Unmarshal(quoted, &text) != nil {
		return false
	}
	w.out = msgp.AppendString(w.out, text)
	w.pos = i + 1
	if w.exact {
		w.exact = bytes.Equal(appendText(nil, []byte(text)), quoted)
	}
	return true
}

// number writes an integer of 64 bits as such, and any other number as a float.
func (w *writer) number() bool {
	start := w.pos
	integer := true
	for w.pos < len(w.src) {
		switch c := w.src[w.pos]; {
		case '0' <= c && c <= '9', c == '-':
		case c == '.', c == 'e', c == 'E', c == '+':
			integer = false
		default:
			return w.literal(w.src[start:w.pos], integer)
		}
		w.pos++
	}
	return w.literal(w.src[start:], integer)
}

func (w *writer) literal(text []byte, integer bool) bool {
	if integer && w.integer(text) {
		return true
	}
	f, err := strconv.ParseFloat(string(text), 64)
	if err != nil || !json.Valid(text) {
		return false // too large for a float, or no number
	}
	w.out = msgp.AppendFloat64(w.out, f)
	if w.exact {
		var own [32]byte
		w.exact = bytes.Equal(appendFloat(own[:0], f), text)
	}
	return true
}

func (w *writer) integer(text []byte) bool {
	digits := bytes.TrimPrefix(text, []byte("-"))
	if len(digits) == 0 || digits[0] == '0' && len(text) > 1 { // -0 too is a float
		return false
	}
	if len(digits) == len(text) {
		n, err := strconv.ParseUint(string(text), 10, 64)
		if err == nil {
			w.out = msgp.AppendUint64(w.out, n)
		}
		return err == nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err == nil {
		w.out = msgp.AppendInt64(w.out, n)
	}
	return err == nil
}
