package payload

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"unicode"
)

// This file writes JSON values as Ruby prints them after parsing. The keys that
// Ruby plugins make of a job's arguments hold that text, or a digest of it.

// rubyText prints values. Ruby 3.4 and newer put blanks around a hash's arrows.
type rubyText struct {
	strings.Builder
	spaced bool
}

// rubyHash is an object with its keys in the order in which they came first.
type rubyHash []rubyPair

type rubyPair struct {
	key   string
	value any
}

// RubyJoin is what Ruby's args.join("-") returns.
func RubyJoin(args []json.RawMessage, spaced bool) string {
	t := rubyText{spaced: spaced}
	for i, raw := range args {
		if i > 0 {
			t.WriteByte('-')
		}
		d := json.NewDecoder(bytes.NewReader(raw))
		d.UseNumber()
		t.join(rubyValue(d))
	}
	return t.String()
}

// rubyValue reads one value of valid JSON.
func rubyValue(d *json.Decoder) any {
	token, err := d.Token()
	if err != nil {
		return nil
	}
	switch token {
	case json.Delim('['):
		list := []any{}
		for d.More() {
			list = append(list, rubyValue(d))
		}
		_, _ = d.Token()
		return list
	case json.Delim('{'):
		hash, place := rubyHash{}, map[string]int{}
		for d.More() {
			key, _ := d.Token()
			name, _ := key.(string)
			value := rubyValue(d)
			if at, twice := place[name]; twice {
				hash[at].value = value
				continue
			}
			place[name] = len(hash)
			hash = append(hash, rubyPair{name, value})
		}
		_, _ = d.Token()
		return hash
	}
	return token
}

// join writes an element of a joined array. Arrays in it are joined too, strings and
// nil are their text, everything else is as inspected.
func (t *rubyText) join(v any) {
	switch v := v.(type) {
	case nil:
	case string:
		t.WriteString(v)
	case []any:
		for i, e := range v {
			if i > 0 {
				t.WriteByte('-')
			}
			t.join(e)
		}
	default:
		t.inspect(v)
	}
}

func (t *rubyText) inspect(v any) {
	switch v := v.(type) {
	case nil:
		t.WriteString("nil")
	case bool:
		t.WriteString(strconv.FormatBool(v))
	case json.Number:
		t.number(v.String())
	case string:
		t.quote(v)
	case []any:
		t.WriteByte('[')
		for i, e := range v {
			if i > 0 {
				t.WriteString(", ")
			}
			t.inspect(e)
		}
		t.WriteByte(']')
	case rubyHash:
		arrow := "=>"
		if t.spaced {
			arrow = " => "
		}
		t.WriteByte('{')
		for i, p := range v {
			if i > 0 {
				t.WriteString(", ")
			}
			t.quote(p.key)
			t.WriteString(arrow)
			t.inspect(p.value)
		}
		t.WriteByte('}')
	}
}

// number writes integers unchanged and other numbers as Float#to_s does.
func (t *rubyText) number(literal string) {
	if !strings.ContainsAny(literal, ".eE") {
		if literal == "-0" {
			literal = "0"
		}
		t.WriteString(literal)
		return
	}
	f, _ := strconv.ParseFloat(literal, 64) // what is too large is infinite in Ruby as well
	switch a := math.Abs(f); {
	case math.IsInf(f, 0):
		t.WriteString(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+") + "inity")
	case a == 0 || a >= 1e-4 && (a < 1e15 || a < 1e16 && a != math.Trunc(a)):
		text := strconv.FormatFloat(f, 'f', -1, 64)
		if !strings.Contains(text, ".") {
			text += ".0"
		}
		t.WriteString(text)
	default:
		mantissa, exponent, _ := strings.Cut(strconv.FormatFloat(f, 'e', -1, 64), "e")
		if !strings.Contains(mantissa, ".") {
			mantissa += ".0"
		}
		t.WriteString(mantissa + "e" + exponent)
	}
}

var rubyEscapes = map[rune]string{
	'"': `\"`, '\\': `\\`, '\n': `\n`, '\t': `\t`, '\r': `\r`, '\f': `\f`, '\v': `\v`, '\b': `\b`, '\a': `\a`, 0x1b: `\e`,
}

// quote is String#inspect.
func (t *rubyText) quote(s string) {
	t.WriteByte('"')
	runes := []rune(s)
	for i, r := range runes {
		escape, special := rubyEscapes[r]
		switch {
		case special:
			t.WriteString(escape)
		case r == '#' && i+1 < len(runes) && strings.ContainsRune("{$@", runes[i+1]):
			t.WriteString(`\#`)
		case unicode.In(r, unicode.L, unicode.M, unicode.N, unicode.P, unicode.S, unicode.Zs, unicode.Cf, unicode.Co):
			t.WriteRune(r)
		case r > 0xffff:
			t.WriteString(`\u{` + strings.ToUpper(strconv.FormatInt(int64(r), 16)) + "}")
		default:
			hex := strings.ToUpper(strconv.FormatInt(int64(r), 16))
			t.WriteString(`\u` + strings.Repeat("0", 4-len(hex)) + hex)
		}
	}
	t.WriteByte('"')
}
