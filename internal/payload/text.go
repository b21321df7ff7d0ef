package payload

import "unicode/utf8"

// replacement stands for bytes that are not UTF-8, as in encoding/json.
const replacement = "\uFFFD"

const hexDigits = "0123456789abcdef"

// appendString writes s as a JSON string. Each byte that is not UTF-8 is
// written as bad, which must not need an escape.
func appendString(dst []byte, s string, style Style, bad string) []byte {
	dst = append(dst, '"')
	start := 0 // everything before it is written
	for i := asIsUpTo(s); i < len(s); {
		if asIs[s[i]] {
			i++
			continue
		}
		c, size := rune(s[i]), 1
		if c >= utf8.RuneSelf {
			c, size = utf8.DecodeRuneInString(s[i:])
		}
		if invalid := c == utf8.RuneError && size == 1; invalid || mustEscape(c, style) {
			dst = append(dst, s[start:i]...)
			if invalid {
				dst = append(dst, bad...)
			} else {
				dst = appendEscape(dst, c)
			}
			start = i + size
		}
		i += size
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}

// asIsUpTo returns how many of the first bytes of a text stand for themselves in either style, as far as eight at a time say. A byte of zero is found
// by what it borrows when 1 is taken from it, and each of the others by a difference that is zero.
func asIsUpTo(s string) (n int) {
	const ones, tops = 0x0101010101010101, 0x8080808080808080
	for ; n+8 <= len(s); n += 8 {
		b := s[n : n+8]
		w := uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 | uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
		ampersand := (w | ('"'^'&')*ones) ^ '&'*ones // or a quote
		greater := (w | ('<'^'>')*ones) ^ '>'*ones   // or less
		backslash := w ^ '\\'*ones
		found := w | (w-' '*ones)&^w | (ampersand-ones)&^ampersand | (greater-ones)&^greater | (backslash-ones)&^backslash
		if found&tops != 0 { // the first is beyond ASCII, the second a control character
			return n
		}
	}
	return n
}

// asIs are the bytes that stand for themselves in either style.
var asIs = func() (plain [256]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = !mustEscape(c, Rails)
	}
	return plain
}()

// Escaped reports whether a text may be another one between its quotes in JSON, in one of the styles: that of a text beyond ASCII may be.
func Escaped(text string) bool {
	for i := range len(text) {
		if !asIs[text[i]] {
			return true
		}
	}
	return false
}

func mustEscape(c rune, style Style) bool {
	return c < ' ' || c == '"' || c == '\\' || style == Rails && styled(c)
}

// styled reports whether the two styles write c differently.
func styled(c rune) bool {
	return c == '<' || c == '>' || c == '&' || c == '\u2028' || c == '\u2029'
}

func appendEscape(dst []byte, c rune) []byte {
	switch c {
	case '"', '\\':
		return append(dst, '\\', byte(c))
	case '\b':
		return append(dst, `\b`...)
	case '\f':
		return append(dst, `\f`...)
	case '\n':
		return append(dst, `\n`...)
	case '\r':
		return append(dst, `\r`...)
	case '\t':
		return append(dst, `\t`...)
	}
	return append(dst, '\\', 'u', hexDigits[c>>12&15], hexDigits[c>>8&15], hexDigits[c>>4&15], hexDigits[c&15])
}

// appendRestyled copies JSON text and gives the style to the characters that the styles
// write differently. Outside of strings JSON has none of them, nor a
// backslash, so the function need not find the strings.
func appendRestyled(dst, text []byte, style Style) []byte {
	for i := 0; i < len(text); {
		if text[i] == '\\' {
			// Take the whole escape at once: the first two bytes of \\u003c are
			// one escape, and the rest is text.
			size := max(escapeLength(text[i:]), 1)
			if c := escaped(text[i : i+size]); style == Plain && styled(c) {
				dst = utf8.AppendRune(dst, c)
			} else {
				dst = append(dst, text[i:i+size]...)
			}
			i += size
			continue
		}
		c, size := utf8.DecodeRune(text[i:])
		if style == Rails && styled(c) {
			dst = appendEscape(dst, c)
		} else {
			dst = append(dst, text[i:i+size]...)
		}
		i += size
	}
	return dst
}

// escaped is the number that an escape of the form \u003c names, 0 for others.
func escaped(escape []byte) (c rune) {
	if len(escape) != 6 {
		return 0
	}
	for _, h := range escape[2:] {
		c <<= 4
		if isDigit(h) {
			c |= rune(h - '0')
		} else {
			c |= rune(h|0x20-'a') + 10
		}
	}
	return c
}
