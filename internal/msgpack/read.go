package msgpack

import (
	"encoding/base64"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/tinylib/msgp/msgp"
)

// AppendJSON appends the JSON text, without blanks, of the one value that packed begins with, and returns
// the bytes behind it. The error is a *Error; dst is then returned as it was.
//
// A bin becomes its base64, as encoding/json has it, a timestamp its RFC 3339 text in UTC, and a map's key
// that is a number or a boolean its text. Other extensions, numbers that are not finite, text that is not
// UTF-8 and more levels than a payload may have are errors.
func AppendJSON(dst, packed []byte) (out, rest []byte, err error) {
	r := reader{out: dst, room: maxDepth}
	if rest, err = r.value(packed); err != nil {
		return dst, packed, &Error{"the value " + err.Error()}
	}
	return r.out, rest, nil
}

// reader writes JSON of MessagePack. Its errors are the ends of sentences: "has …".
type reader struct {
	out  []byte
	room int // levels of nesting still allowed
}

var errNotUTF8 = errors.New("has text that is not UTF-8")

func reason(err error) error {
	if errors.Is(err, msgp.ErrShortBytes) {
		return errors.New("ends in the middle of a value")
	}
	return fmt.Errorf("is not MessagePack: %w", err)
}

func (r *reader) value(src []byte) (rest []byte, err error) {
	switch kind := msgp.NextType(src); kind {
	case msgp.StrType:
		return r.text(src)
	case msgp.IntType:
		n, rest, err := msgp.ReadInt64Bytes(src)
		if err != nil {
			return src, reason(err)
		}
		r.out = strconv.AppendInt(r.out, n, 10)
		return rest, nil
	case msgp.UintType:
		n, rest, err := msgp.ReadUint64Bytes(src)
		if err != nil {
			return src, reason(err)
		}
		r.out = strconv.AppendUint(r.out, n, 10)
		return rest, nil
	case msgp.NilType:
		r.out = append(r.out, "null"...)
		return src[1:], nil
	case msgp.BoolType:
		r.out = strconv.AppendBool(r.out, src[0] == 0xc3)
		return src[1:], nil
	case msgp.Float32Type, msgp.Float64Type:
		return r.float(src, kind)
	case msgp.BinType:
		bin, rest, err := msgp.ReadBytesZC(src)
		if err != nil {
			return src, reason(err)
		}
		r.out = append(r.out, '"')
		r.out = base64.StdEncoding.AppendEncode(r.out, bin)
		r.out = append(r.out, '"')
		return rest, nil
	case msgp.ArrayType, msgp.MapType:
		if r.room == 0 {
			return src, fmt.Errorf("is nested deeper than %d levels", maxDepth)
		}
		r.room--
		defer func() { r.room++ }()
		if kind == msgp.MapType {
			return r.object(src)
		}
		return r.list(src)
	case msgp.InvalidType:
		if len(src) > 0 {
			return src, fmt.Errorf("is not MessagePack: no value begins with the byte 0x%02x", src[0])
		}
		return src, reason(msgp.ErrShortBytes)
	}
	return r.extension(src)
}

func (r *reader) text(src []byte) (rest []byte, err error) {
	text, rest, err := msgp.ReadStringZC(src)
	switch {
	case err != nil:
		return src, reason(err)
	case !utf8.Valid(text):
		return src, errNotUTF8
	}
	r.out = appendText(r.out, text)
	return rest, nil
}

func (r *reader) float(src []byte, kind msgp.Type) (rest []byte, err error) {
	var f float64
	if kind == msgp.Float32Type {
		var short float32
		short, rest, err = msgp.ReadFloat32Bytes(src)
		f = float64(short)
	} else {
		f, rest, err = msgp.ReadFloat64Bytes(src)
	}
	switch {
	case err != nil:
		return src, reason(err)
	case math.IsNaN(f) || math.IsInf(f, 0):
		return src, fmt.Errorf("has the number %v, which JSON does not have", f)
	}
	r.out = appendFloat(r.out, f)
	return rest, nil
}

func (r *reader) list(src []byte) (rest []byte, err error) {
	count, rest, err := msgp.ReadArrayHeaderBytes(src)
	if err != nil {
		return src, reason(err)
	}
	r.out = append(r.out, '[')
	for i := range count {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		if rest, err = r.value(rest); err != nil {
			return rest, err
		}
	}
	r.out = append(r.out, ']')
	return rest, nil
}

func (r *reader) object(src []byte) (rest []byte, err error) {
	count, rest, err := msgp.ReadMapHeaderBytes(src)
	if err != nil {
		return src, reason(err)
	}
	r.out = append(r.out, '{')
	for i := range count {
		if i > 0 {
			r.out = append(r.out, ',')
		}
		if rest, err = r.member(rest); err != nil {
			return rest, err
		}
	}
	r.out = append(r.out, '}')
	return rest, nil
}

// member writes a key and its value.
func (r *reader) member(src []byte) (rest []byte, err error) {
	switch kind := msgp.NextType(src); kind {
	case msgp.StrType:
		rest, err = r.text(src)
	case msgp.BinType: // Python 2 and Perl write text so
		key, behind, wrong := msgp.ReadBytesZC(src)
		switch {
		case wrong != nil:
			return src, reason(wrong)
		case !utf8.Valid(key):
			return src, errNotUTF8
		}
		r.out, rest = appendText(r.out, key), behind
	case msgp.IntType, msgp.UintType, msgp.BoolType:
		r.out = append(r.out, '"')
		rest, err = r.value(src)
		r.out = append(r.out, '"')
	case msgp.InvalidType:
		return src, reason(msgp.ErrShortBytes)
	default:
		return src, fmt.Errorf("has a map with a key of type %s; JSON has strings", kind)
	}
	if err != nil {
		return rest, err
	}
	r.out = append(r.out, ':')
	return r.value(rest)
}

// extension writes MessagePack's own timestamp. JSON has no other extension.
func (r *reader) extension(src []byte) (rest []byte, err error) {
	header, kind := extension(src)
	switch {
	case header == 0:
		return src, reason(msgp.ErrShortBytes)
	case kind != msgp.MsgTimeExtension:
		return src, fmt.Errorf("has a MessagePack extension of type %d, which JSON does not have", kind)
	}
	at, rest, err := msgp.ReadTimeUTCBytes(src)
	if err != nil {
		return src, reason(err)
	}
	if year := at.Year(); year < 0 || year > 9999 {
		return src, fmt.Errorf("has a time in the year %d", year)
	}
	r.out = append(r.out, '"')
	r.out = at.AppendFormat(r.out, time.RFC3339Nano)
	r.out = append(r.out, '"')
	return rest, nil
}

// extension returns the size of an extension's header and its type; 0: there is not all of it.
func extension(src []byte) (header int, kind int8) {
	switch src[0] {
	case 0xd4, 0xd5, 0xd6, 0xd7, 0xd8:
		header = 2
	case 0xc7:
		header = 3
	case 0xc8:
		header = 4
	default:
		header = 6
	}
	if len(src) < header {
		return 0, 0
	}
	return header, int8(src[header-1])
}

// appendText writes valid UTF-8 as a JSON string, with the escapes of Ruby.
func appendText(dst, text []byte) []byte {
	dst = append(dst, '"')
	start := 0 // everything before it is written
	for i, c := range text {
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		dst = append(dst, text[start:i]...)
		start = i + 1
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\b':
			dst = append(dst, `\b`...)
		case '\f':
			dst = append(dst, `\f`...)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, `\u00`...)
			dst = append(dst, hexDigits[c>>4], hexDigits[c&15])
		}
	}
	dst = append(dst, text[start:]...)
	return append(dst, '"')
}

const hexDigits = "0123456789abcdef"

// appendFloat writes a number as encoding/json does, and always so that it is none of the integers.
func appendFloat(dst []byte, f float64) []byte {
	format, size := byte('f'), math.Abs(f)
	if size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	start := len(dst)
	dst = strconv.AppendFloat(dst, f, format, -1, 64)
	if format == 'f' {
		if f == math.Trunc(f) {
			dst = append(dst, ".0"...)
		}
		return dst
	}
	// encoding/json writes e-09 as e-9.
	if n := len(dst); n-start >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}
