package mask

import (
	"bytes"
	"strconv"
	"strings"
)

// span is a masked part of a text.
type span struct{ from, to int }

// join adds a span that does not begin before the last one.
func join(all []span, s span) []span {
	if n := len(all); n > 0 && s.from <= all[n-1].to {
		all[n-1].to = max(all[n-1].to, s.to)
		return all
	}
	return append(all, s)
}

// merged merges two sorted lists.
func merged(a, b []span) (all []span) {
	if len(b) == 0 {
		return a
	}
	for len(a) > 0 || len(b) > 0 {
		if len(b) == 0 || len(a) > 0 && a[0].from <= b[0].from {
			all, a = join(all, a[0]), a[1:]
		} else {
			all, b = join(all, b[0]), b[1:]
		}
	}
	return all
}

// apply puts the Mark in the place of each span. most is how many bytes are enough; 0: all.
func apply(text []byte, spans []span, most int) []byte {
	if most <= 0 {
		most = len(text) + len(spans)*len(Mark)
	}
	out := make([]byte, 0, min(most, len(text)+len(spans)*len(Mark)))
	add := func(piece []byte) { out = append(out, piece[:min(len(piece), most-len(out))]...) }
	from := 0
	for _, s := range spans {
		if add(text[from:s.from]); len(out) >= most {
			return out
		}
		out, from = append(out, Mark...), s.to
		if len(out) >= most {
			return out
		}
	}
	add(text[from:])
	return out
}

// masked is a text with the Mark in the place of each span.
func masked(text string, spans []span) string {
	if len(spans) == 0 {
		return text
	}
	return string(apply([]byte(text), spans, 0))
}

// starts are the bytes at which a secret may begin, and the signs behind a name.
var starts = func() (of [256]bool) {
	for _, c := range []byte("e-srgxABb:=.0123456789") {
		of[c] = true
	}
	return of
}()

// spansOf finds the secrets of a text: those known by their form, and those that a name stands before. It takes time in proportion to the text.
func spansOf(text []byte) (all []span) {
	named := 0 // up to here the value of a name goes
	for i := 0; i < len(text); {
		c := text[i]
		if !starts[c] {
			i++
			continue
		}
		if c == ':' || c == '=' {
			if c == ':' {
				if s, ok := urlPassword(text, i); ok {
					all = join(all, s)
				}
			}
			if i >= named {
				if s, ok := namedValue(text, i); ok {
					all, named = join(all, s), s.to
				}
			}
			i++
			continue
		}
		var s span
		switch c {
		case '-':
			s = pem(text, i)
		case 'e':
			s = jwt(text, i)
		case 'B', 'b':
			s = bearer(text, i)
		case 's', 'r', 'g', 'x', 'A':
			s = prefixed(text, i)
		case '.':
			s = stepToken(text, i)
		default:
			var next int
			if s, next = card(text, i); s.to == 0 {
				i = next
				continue
			}
		}
		if s.to == 0 {
			i++
			continue
		}
		all, i = join(all, s), s.to
	}
	return all
}

// while returns the end of the bytes from i on that are in a class.
func while(text []byte, i int, in func(c byte) bool) int {
	for i < len(text) && in(text[i]) {
		i++
	}
	return i
}

func has(text []byte, i int, prefix string) bool {
	return len(text)-i >= len(prefix) && string(text[i:i+len(prefix)]) == prefix
}

func isWord(c byte) bool { return isAlnum(c) || c == '_' || c == '-' }

// pem is a PEM block. One without an end goes up to the end of the text.
func pem(text []byte, i int) span {
	const begin, end, dashes = "-----BEGIN ", "-----END ", "-----"
	if !has(text, i, begin) {
		return span{}
	}
	to := bytes.Index(text[i+len(begin):], []byte(end))
	if to < 0 {
		return span{i, len(text)}
	}
	to += i + len(begin) + len(end)
	if close := bytes.Index(text[to:], []byte(dashes)); close >= 0 {
		return span{i, to + close + len(dashes)}
	}
	return span{i, len(text)}
}

// jwt is a JSON Web Token: JSON in Base64, with dots in between.
func jwt(text []byte, i int) span {
	if !has(text, i, "eyJ") || i > 0 && isWord(text[i-1]) {
		return span{}
	}
	end := while(text, i, func(c byte) bool { return isWord(c) || c == '.' || c == '=' })
	if bytes.IndexByte(text[i:end], '.') < 0 {
		if end-i < 20 { // one that was cut off is longer
			return span{}
		}
	}
	return span{i, end}
}

// bearer is what stands behind Bearer.
func bearer(text []byte, i int) span {
	const name = len("bearer")
	if len(text)-i <= name || i > 0 && isAlnum(text[i-1]) || !bytes.EqualFold(text[i:i+name], []byte("bearer")) {
		return span{}
	}
	from := while(text, i+name, func(c byte) bool { return c == ' ' || c == '\t' })
	end := while(text, from, func(c byte) bool { return isWord(c) || strings.IndexByte("._~+/=", c) >= 0 && c != 0 })
	if from == i+name || end == from {
		return span{}
	}
	return span{from, end}
}

// tokenLetters is how many letters the secret of a token has at least.
const tokenLetters = 16

// stepToken is the secret of the token by which another program ends a step of a workflow: behind a dot, the step's number and another dot.
// Who has it can end the step.
func stepToken(text []byte, i int) span {
	dot := while(text, i+1, isDigit)
	if dot == i+1 || dot == len(text) || text[dot] != '.' {
		return span{}
	}
	end := while(text, dot+1, func(c byte) bool { return isUpper(c) || isDigit(c) })
	if end-dot-1 < tokenLetters {
		return span{}
	}
	return span{dot + 1, end}
}

// prefixes begin the keys of services. Behind them stand at least so many letters, digits, _ and -.
var prefixes = []struct {
	text  string
	least int
}{
	{"sk_live_", 1}, {"sk_test_", 1}, {"rk_live_", 1}, {"rk_test_", 1},
	{"ghp_", 4}, {"gho_", 4}, {"ghu_", 4}, {"ghs_", 4}, {"ghr_", 4}, {"github_pat_", 1},
}

func prefixed(text []byte, i int) span {
	switch text[i] {
	case 'A':
		if has(text, i, "AKIA") || has(text, i, "ASIA") {
			if end := while(text, i, func(c byte) bool { return isUpper(c) || isDigit(c) }); end-i >= 12 {
				return span{i, end}
			}
		}
		return span{}
	case 'x':
		if !has(text, i, "xox") || len(text)-i < 6 || !isAlnum(text[i+3]) || text[i+4] != '-' {
			return span{}
		}
		return span{i, while(text, i, isWord)}
	}
	for _, p := range prefixes {
		if p.text[0] == text[i] && has(text, i, p.text) {
			if end := while(text, i, isWord); end-i >= len(p.text)+p.least {
				return span{i, end}
			}
		}
	}
	return span{}
}

// The numbers of cards have so many digits.
const (
	leastDigits = 13
	mostDigits  = 19
)

// card is the number of a card that begins at a digit: groups of digits with a blank or a dash between two of them. Without one, next is
// where to go on.
func card(text []byte, i int) (s span, next int) {
	next = while(text, i, isDigit)
	if i >= 2 && text[i-1] == '.' && isDigit(text[i-2]) && next-i > 6 {
		return s, next // the fraction of a number
	}
	var room [mostDigits]byte
	digits := room[:0]
	for at := i; ; {
		end := while(text, at, isDigit)
		if end == at || len(digits)+end-at > mostDigits {
			return s, next
		}
		if digits = append(digits, text[at:end]...); isCard(digits) {
			s = span{i, end}
		}
		if end == len(text) || text[end] != ' ' && text[end] != '-' {
			return s, next
		}
		at = end + 1
	}
}

// isCard reports whether digits are the number of a card: the kinds of cards that there are begin with 3 to 6, or 2200 to 2720, and the
// last digit is that of Luhn. So times in ms are none.
func isCard(digits []byte) bool {
	if len(digits) < leastDigits || len(digits) > mostDigits || digits[0] < '2' || digits[0] > '6' {
		return false
	}
	if first := string(digits[:4]); digits[0] == '2' && (first < "2200" || first > "2720") {
		return false
	}
	sum := 0
	for n := range digits {
		d := int(digits[len(digits)-1-n] - '0')
		if n%2 == 1 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return sum%10 == 0
}

// numberIsCard reports whether a number of JSON is that of a card.
func numberIsCard(raw []byte) bool {
	whole := while(raw, 0, isDigit)
	if whole == len(raw) || raw[whole]|0x20 != 'e' && bytes.IndexByte(raw, 'e') < 0 && bytes.IndexByte(raw, 'E') < 0 {
		return isCard(raw[:whole])
	}
	f, err := strconv.ParseFloat(string(raw), 64)
	return err == nil && f >= 1e12 && f < 1e19 && isCard(strconv.AppendFloat(nil, f, 'f', 0, 64))
}

// urlPassword is the password in a URL whose colon is at i.
func urlPassword(text []byte, i int) (span, bool) {
	if !has(text, i, "://") {
		return span{}, false
	}
	from := i + len("://")
	end := while(text, from, func(c byte) bool { return c > ' ' && strings.IndexByte(`/?#"'<>`, c) < 0 })
	at := bytes.LastIndexByte(text[from:end], '@')
	colon := bytes.IndexByte(text[from:end], ':')
	if at < 0 || colon < 0 || colon+1 >= at {
		return span{}, false
	}
	return span{from + colon + 1, from + at}, true
}

// longestName is as much of a name as is looked at before a sign.
const longestName = 96

// namedValue is the value behind a sign at i, if the name before it says that it is secret.
func namedValue(text []byte, i int) (s span, ok bool) {
	if text[i] == ':' && (i+1 < len(text) && text[i+1] == ':' || i > 0 && text[i-1] == ':') {
		return s, false // Session::Expired is a name
	}
	name := nameBefore(text, i)
	if !secretKey(name) {
		return s, false
	}
	lower := strings.ToLower(string(name))
	if strings.HasSuffix(lower, "error") || strings.HasSuffix(lower, "exception") {
		return s, false // an error of that name, and its text
	}
	header := strings.Contains(lower, "authorization") || strings.Contains(lower, "cookie")
	from := while(text, i, func(c byte) bool { return c == ':' || c == '=' || c == '>' })
	blank := while(text, from, func(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' })
	slashes := while(text, blank, func(c byte) bool { return c == '\\' }) - blank
	if q := blank + slashes; q < len(text) && (text[q] == '"' || text[q] == '\'' || text[q] == '`') {
		s = span{q + 1, quoteEnd(text, q, slashes)}
		return s, s.to > s.from
	}
	if blank < len(text) && (text[blank] == '{' || text[blank] == '[') {
		return span{blank, bracketEnd(text, blank)}, true
	}
	from = while(text, from, func(c byte) bool { return c == ' ' || c == '\t' })
	in := func(c byte) bool { return c > ' ' && strings.IndexByte(",;&\"'`)]}<>|", c) < 0 }
	if header {
		in = func(c byte) bool { return c != '\n' && c != '\r' && c != '"' }
	}
	end := while(text, from, in)
	if end > from && text[end-1] == '\\' { // it is that of the quote behind
		end--
	}
	return span{from, end}, end > from
}

// nameBefore returns the name before a sign.
func nameBefore(text []byte, i int) []byte {
	end := i
	for n := 0; n < 6 && end > 0 && strings.IndexByte(" \"'`\\)]", text[end-1]) >= 0; n++ {
		end--
	}
	if end >= 3 && text[end-3] == '%' && strings.EqualFold(string(text[end-2:end]), "5D") { // user%5Bpassword%5D=
		end -= 3
	}
	from := end
	for from > 0 && end-from < longestName && (isWord(text[from-1]) || text[from-1] >= 0x80) {
		from--
	}
	// The last word of a name may say nothing: API key, card number.
	if from > 0 && text[from-1] == ' ' && generalNames[strings.ToLower(string(text[from:end]))] {
		for from--; from > 0 && end-from < longestName && isWord(text[from-1]); {
			from--
		}
	}
	return text[from:end]
}

var generalNames = map[string]bool{"key": true, "keys": true, "number": true, "no": true, "code": true, "id": true, "value": true, "data": true}

// quoteEnd is where a text in quotes ends that begins at i. In a text that was quoted again, the end has no more backslashes before it than the
// beginning. Without an end it goes up to that of the text.
func quoteEnd(text []byte, i, slashes int) int {
	back := 0
	for at := i + 1; at < len(text); at++ {
		switch {
		case text[at] == '\\':
			back++
			continue
		case text[at] == text[i] && (slashes == 0 && back%2 == 0 || slashes > 0 && back <= slashes):
			return at - back*min(slashes, 1)
		}
		back = 0
	}
	return len(text)
}

// bracketEnd is where the bracket ends that opens at i. Brackets in quotes do not count.
func bracketEnd(text []byte, i int) int {
	depth := 0
	for at := i; at < len(text); at++ {
		switch text[at] {
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth == 0 {
				return at + 1
			}
		case '"':
			at = quoteEnd(text, at, 0)
		}
	}
	return len(text)
}
