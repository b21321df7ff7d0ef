package payload

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Every byte is written as its character alone is, wherever in a text it stands, and so is every pair of bytes.
func TestEveryByteOfAString(t *testing.T) {
	t.Parallel()
	alone := func(text string, style Style) []byte {
		out := []byte{'"'}
		for _, c := range text {
			if mustEscape(c, style) {
				out = appendEscape(out, c)
			} else {
				out = utf8.AppendRune(out, c) // the replacement, for a byte that is not UTF-8
			}
		}
		return append(out, '"')
	}
	check := func(text string) {
		for _, style := range []Style{Plain, Rails} {
			if got, want := appendString(nil, text, style, replacement), alone(text, style); string(got) != string(want) {
				t.Fatalf("%q in style %d is %s, want %s", text, style, got, want)
			}
		}
		if stays := string(alone(text, Plain)) == `"`+text+`"` && string(alone(text, Rails)) == `"`+text+`"`; !Escaped(text) && !stays {
			t.Fatalf("%q is not escaped", text)
		}
	}
	for c := range 256 {
		for place := range 20 {
			text := []byte(strings.Repeat("a", 20))
			text[place] = byte(c)
			check(string(text))
		}
		for d := range 256 {
			check(string([]byte{byte(c), byte(d), 'a', 'a', 'a', 'a', byte(d), byte(c)}))
		}
	}
	check("\u2028\u2029é€😀 \xe2\x80")
}
