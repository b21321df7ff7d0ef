package view

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Field is a key of an Object and its value: a text, a number, a bool, a time, a duration (seconds), a json.RawMessage, an Object,
// a list of these, or nil.
type Field struct {
	Key   string
	Value any
}

// Object is what --json prints on one line. Its keys never change their meaning.
type Object []Field

// With returns the object with a field more.
func (o Object) With(key string, value any) Object {
	return append(o[:len(o):len(o)], Field{key, value})
}

// Get returns the value of a key; nil: there is none.
func (o Object) Get(key string) any {
	for _, f := range o {
		if f.Key == key {
			return f.Value
		}
	}
	return nil
}

// Line returns the object as one line of JSON, exactly: what does not print is \u…, and a text that is no UTF-8 is an object
// {"base64": …}.
func (o Object) Line() string {
	var b bytes.Buffer
	o.write(&b)
	return b.String()
}

func (o Object) write(b *bytes.Buffer) {
	b.WriteByte('{')
	for n, f := range o {
		if n > 0 {
			b.WriteByte(',')
		}
		writeText(b, f.Key)
		b.WriteByte(':')
		write(b, f.Value)
	}
	b.WriteByte('}')
}

func write(b *bytes.Buffer, value any) {
	switch v := value.(type) {
	case nil:
		b.WriteString("null")
	case Object:
		if v == nil {
			b.WriteString("null")
			return
		}
		v.write(b)
	case string:
		writeText(b, v)
	case []byte:
		writeText(b, string(v))
	case json.RawMessage:
		writeRaw(b, v)
	case bool:
		b.WriteString(strconv.FormatBool(v))
	case int:
		b.WriteString(strconv.Itoa(v))
	case int64:
		b.WriteString(strconv.FormatInt(v, 10))
	case float64:
		writeNumber(b, v)
	case time.Duration:
		writeNumber(b, math.Round(v.Seconds()*1e6)/1e6)
	case time.Time:
		if v.IsZero() {
			b.WriteString("null")
			return
		}
		writeText(b, v.UTC().Format("2006-01-02T15:04:05.999999Z"))
	case error:
		writeText(b, v.Error())
	case fmt.Stringer:
		writeText(b, v.String())
	case []string:
		writeList(b, v)
	case []Object:
		writeList(b, v)
	case []json.RawMessage:
		writeList(b, v)
	case []any:
		writeList(b, v)
	default:
		panic(fmt.Sprintf("view: %T is no value of an Object", value))
	}
}

func writeList[T any](b *bytes.Buffer, list []T) {
	b.WriteByte('[')
	for n, v := range list {
		if n > 0 {
			b.WriteByte(',')
		}
		write(b, v)
	}
	b.WriteByte(']')
}

func writeNumber(b *bytes.Buffer, f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		b.WriteString("null")
		return
	}
	b.WriteString(strconv.FormatFloat(f, 'f', -1, 64))
}

// writeRaw writes JSON that another program wrote. Where it is none, it is a text.
func writeRaw(b *bytes.Buffer, raw json.RawMessage) {
	switch {
	case len(raw) == 0:
		b.WriteString("null")
		return
	case !utf8.Valid(raw) || !json.Valid(raw):
		writeText(b, string(raw))
		return
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		writeText(b, string(raw))
		return
	}
	for _, c := range compact.String() { // what does not print is inside of texts
		writeRune(b, c)
	}
}

// Escape returns a line of JSON in which what does not print is \u…: it means the same.
func Escape(line []byte) string {
	var b bytes.Buffer
	for _, c := range string(line) {
		writeRune(&b, c)
	}
	return b.String()
}

func writeText(b *bytes.Buffer, s string) {
	if !utf8.ValidString(s) {
		b.WriteString(`{"base64":"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"}`)
		return
	}
	b.WriteByte('"')
	for _, c := range s {
		switch c {
		case '"', '\\':
			b.WriteByte('\\')
			b.WriteRune(c)
		case '\n':
			b.WriteString(`\n`)
		case '\t':
			b.WriteString(`\t`)
		default:
			writeRune(b, c)
		}
	}
	b.WriteByte('"')
}

func writeRune(b *bytes.Buffer, c rune) {
	switch high, low := utf16.EncodeRune(c); {
	case unicode.IsPrint(c):
		b.WriteRune(c)
	case high != utf8.RuneError:
		fmt.Fprintf(b, `\u%04x\u%04x`, high, low)
	default:
		fmt.Fprintf(b, `\u%04x`, c)
	}
}
