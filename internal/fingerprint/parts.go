package fingerprint

import (
	"net/netip"
	"slices"
	"strings"
	"unicode/utf8"
)

// The parts of a pattern that stand for what varies.
const (
	hostPart    = "‹host›"
	mailAddress = "‹email›"
	uuidPart    = "‹uuid›"
	address     = "‹addr›"
	timePart    = "‹time›"
	duration    = "‹duration›"
	size        = "‹size›"
	textPart    = "‹text›"
	number      = "‹n›"
)

func isDigit(c byte) bool  { return '0' <= c && c <= '9' }
func isLetter(c byte) bool { return 'a' <= c|0x20 && c|0x20 <= 'z' }
func isHex(c byte) bool    { return isDigit(c) || 'a' <= c|0x20 && c|0x20 <= 'f' }

// isAlnum takes every byte of a character beyond ASCII for a letter.
func isAlnum(c byte) bool { return isDigit(c) || isLetter(c) || c >= utf8.RuneSelf }

func isLocal(c byte) bool {
	return c == '@' || c == '.' || c == '_' || c == '-' || c == '+' || c == '%'
}
func isPath(c byte) bool {
	return c < utf8.RuneSelf && isAlnum(c) || isLocal(c) || c == '/' || c == '~'
}

// runOf returns how many ASCII letters and digits a text begins with, and how many of them are digits and hexadecimal digits.
func runOf(text string) (n, digits, hexes int) {
	for ; n < len(text) && text[n] < utf8.RuneSelf && isAlnum(text[n]); n++ {
		if isDigit(text[n]) {
			digits++
		}
		if isHex(text[n]) {
			hexes++
		}
	}
	return n, digits, hexes
}

// span is how many bytes of a text fulfil a condition, at most so many.
func span(text string, most int, is func(c byte) bool) (n int) {
	for n < len(text) && n < most && is(text[n]) {
		n++
	}
	return n
}

// email returns how long an e-mail address is with which a text begins; 0: it begins with none.
func email(text string) int {
	local := span(text, 65, func(c byte) bool { return isDigit(c) || isLetter(c) || c != '@' && isLocal(c) })
	if local == len(text) || text[local] != '@' {
		return 0
	}
	domain := text[local+1:]
	n := span(domain, 254, func(c byte) bool { return isDigit(c) || isLetter(c) || c == '.' || c == '-' })
	domain = strings.TrimRight(domain[:n], ".-")
	if dot := strings.IndexByte(domain, '.'); dot < 1 {
		return 0
	}
	return local + 1 + len(domain)
}

// uuid reports whether a text begins with a UUID.
func uuid(text string) bool {
	if len(text) < 36 || len(text) > 36 && isAlnum(text[36]) {
		return false
	}
	for at := range 36 {
		if at == 8 || at == 13 || at == 18 || at == 23 {
			if text[at] != '-' {
				return false
			}
		} else if !isHex(text[at]) {
			return false
		}
	}
	return true
}

// ipv4 returns how long an address is with which a text begins, with its port.
func ipv4(text string) (n int) {
	for part := range 4 {
		digits := span(text[n:], 4, isDigit)
		if digits < 1 || digits > 3 {
			return 0
		}
		if n += digits; part < 3 {
			if n == len(text) || text[n] != '.' {
				return 0
			}
			n++
		}
	}
	if rest := text[n:]; rest != "" && (isAlnum(rest[0]) || rest[0] == '.' && len(rest) > 1 && isDigit(rest[1])) {
		return 0
	}
	return n + port(text[n:])
}

// port returns how long a port with its colon is.
func port(text string) int {
	if text == "" || text[0] != ':' {
		return 0
	}
	digits := span(text[1:], 6, isDigit)
	if digits < 1 || digits > 5 {
		return 0
	}
	return 1 + digits
}

// ipv6 is ipv4 for the longer addresses, in brackets or not. A name of Ruby such as Dad::Cafe is none: an address has a digit.
func ipv6(text string) int {
	inside, brackets := text, 0
	if text[0] == '[' {
		inside, brackets = text[1:], 2
	}
	n := span(inside, 46, func(c byte) bool { return isHex(c) || c == ':' || c == '.' })
	if brackets > 0 && (n == len(inside) || inside[n] != ']') {
		return 0
	}
	addr := inside[:n]
	if brackets == 0 {
		for strings.HasSuffix(addr, ".") || strings.HasSuffix(addr, ":") && !strings.HasSuffix(addr, "::") {
			addr = addr[:len(addr)-1]
		}
		if n = len(addr); n < len(inside) && isAlnum(inside[n]) {
			return 0
		}
	}
	if strings.Count(addr, ":") < 2 || !strings.ContainsAny(addr, "0123456789") {
		return 0
	}
	if _, err := netip.ParseAddr(addr); err != nil {
		return 0
	}
	return n + brackets + port(text[n+brackets:])
}

// numberOf returns how long a number is: 12, 1,234, 1.5, 1.2.3, 6.02e23.
func numberOf(text string) int {
	n := span(text, len(text), isDigit)
	for n+1 < len(text) && (text[n] == '.' || text[n] == ',') && isDigit(text[n+1]) {
		digits := span(text[n+1:], len(text), isDigit)
		if text[n] == ',' && digits != 3 {
			break
		}
		n += 1 + digits
	}
	if n < len(text) && text[n]|0x20 == 'e' {
		e := n + 1
		if e < len(text) && (text[e] == '+' || text[e] == '-') {
			e++
		}
		if digits := span(text[e:], 5, isDigit); digits > 0 && (e+digits == len(text) || !isAlnum(text[e+digits])) {
			return e + digits
		}
	}
	return n
}

// units are the units of durations and sizes. Those of one letter stand right behind their number.
var units = map[string]string{
	"ns": duration, "us": duration, "µs": duration, "μs": duration, "ms": duration, "s": duration, "m": duration, "h": duration, "d": duration, "w": duration,
	"msec": duration, "msecs": duration, "sec": duration, "secs": duration, "second": duration, "seconds": duration, "min": duration, "mins": duration,
	"minute": duration, "minutes": duration, "hr": duration, "hrs": duration, "hour": duration, "hours": duration, "day": duration, "days": duration,
	"week": duration, "weeks": duration, "millisecond": duration, "milliseconds": duration, "microseconds": duration, "nanoseconds": duration,
	"byte": size, "bytes": size, "kb": size, "mb": size, "gb": size, "tb": size, "kib": size, "mib": size, "gib": size, "tib": size,
}

const longestUnit = 12

// unitOf returns the unit with which a text begins that stands behind a number, and how long it is with the blank before it.
func unitOf(text string) (kind string, n int) {
	word := strings.TrimPrefix(text, " ")
	blank := len(text) - len(word)
	n = span(word, longestUnit+1, isAlnumByte)
	if n == 0 || n > longestUnit {
		return "", 0
	}
	unit := word[:n]
	if digit := strings.IndexAny(unit, "0123456789"); digit > 0 && blank == 0 { // 1m30s
		unit = unit[:digit]
	}
	kind = units[strings.ToLower(unit)]
	if unit == "B" && blank == 0 {
		kind = size
	}
	if kind == "" || blank > 0 && len(unit) == 1 && unit != "s" {
		return "", 0
	}
	return kind, blank + len(unit)
}

func isAlnumByte(c byte) bool { return isAlnum(c) }

// url writes a URL whose scheme has n letters: the scheme, and the words of its path.
func (f *folder) url(n int) {
	f.copy(n + len("://"))
	rest := f.text[f.at:]
	rest = rest[:span(rest, len(rest), func(c byte) bool {
		return c > ' ' && c != 0x7f && !strings.ContainsRune("\"'`<>(){}|\\,;", rune(c))
	})]
	rest = strings.TrimRight(rest, ".:!?")
	f.at += len(rest)
	if query := strings.IndexAny(rest, "?#"); query >= 0 {
		rest = rest[:query]
	}
	_, path, _ := strings.Cut(rest, "/")
	f.out = append(f.out, hostPart...)
	segments := 0
	for segment := range strings.SplitSeq(path, "/") {
		if segment == "" {
			continue
		}
		if segments++; segments > 8 {
			break
		}
		f.out = append(f.out, '/')
		if isName(segment) {
			f.out = append(f.out, segment...)
		} else {
			f.out = append(f.out, number...)
		}
	}
	f.word = ""
}

// isName reports whether a part of a path names something: it is of letters, or a version such as v2.
func isName(segment string) bool {
	letters := strings.Trim(segment, "-_.")
	if len(letters) > 1 && letters[0] == 'v' && len(letters) < 4 && strings.Trim(letters[1:], "0123456789") == "" {
		return true
	}
	n := span(segment, 33, func(c byte) bool { return isLetter(c) || c == '-' || c == '_' || c == '.' })
	return n == len(segment) && n <= 32
}

// sources are the endings of files that programs name with a line.
var sources = []string{
	"c", "cc", "cjs", "cpp", "css", "csv", "erb", "ex", "exs", "go", "h", "haml", "html", "java", "js", "json", "jsx", "lua", "mjs", "php",
	"py", "rake", "rb", "rs", "ru", "slim", "sql", "ts", "tsx", "txt", "vue", "xml", "yaml", "yml",
}

// file reads file:line or file:line:column, of which the name of the file stays.
func (f *folder) file() bool {
	rest := f.text[f.at:]
	n := span(rest, 1024, isPath)
	dot := strings.LastIndexByte(rest[:n], '.')
	if dot < 1 || n == len(rest) || rest[n] != ':' {
		return false
	}
	digits := span(rest[n+1:], 10, isDigit)
	if _, known := slices.BinarySearch(sources, rest[dot+1:n]); digits == 0 || !known {
		return false
	}
	name := rest[strings.LastIndexByte(rest[:n], '/')+1 : n]
	f.at += n - len(name)
	f.mixed(len(name))
	f.at += 1 + digits
	f.out = append(append(f.out, ':'), number...)
	f.at += port(f.text[f.at:]) // the column
	return true
}

// named are words behind which the name in quotes says what is wrong, and does not vary.
var named = map[string]bool{
	"attribute": true, "class": true, "column": true, "constant": true, "function": true, "method": true, "module": true, "parameter": true,
	"properties": true, "property": true, "reading": true, "relation": true, "setting": true, "table": true, "type": true, "variable": true,
}

// closings are the quotes that end what another begins. Ruby wrote `name' until 3.4.
var closings = map[string]string{"\"": "\"", "'": "'", "`": "`'", "“": "”", "‘": "’", "«": "»", "„": "“"}

// quote reads what stands between two quotes, and reports whether a second one is there.
func (f *folder) quote(open string) bool {
	ascii := open[0] < utf8.RuneSelf
	if ascii && open != "\"" && f.behindAlnum() { // don't
		return false
	}
	escaped := f.at > 0 && f.text[f.at-1] == '\\'
	kind := open
	if escaped {
		kind = `\` + open
	}
	start := f.at + len(open)
	end, after := -1, 0
	if !f.unended[kind] {
		end, after = f.closing(start, open, escaped)
	}
	if end < 0 {
		if f.cut && open == "\"" {
			f.take(len(f.text)-f.at, textPart)
			return true
		}
		if f.unended == nil {
			f.unended = make(map[string]bool)
		}
		f.unended[kind] = true
		return false
	}
	if inside := f.text[start:end]; named[f.word] && isIdentifier(inside) {
		f.out = append(append(append(f.out, '\''), inside...), '\'')
		f.at, f.word = after, ""
		return true
	}
	if f.at = after; escaped {
		f.out = f.out[:len(f.out)-1] // the backslash before it
	}
	f.write(textPart)
	return true
}

// closing returns where what a quote begins ends, and where the text goes on.
func (f *folder) closing(start int, open string, escaped bool) (end, after int) {
	closers := closings[open]
	for at := start; at < len(f.text); at++ {
		c := f.text[at]
		if open[0] >= utf8.RuneSelf {
			if strings.HasPrefix(f.text[at:], closers) {
				return at, at + len(closers)
			}
			continue
		}
		if c == '\\' {
			if escaped && at+1 < len(f.text) && f.text[at+1] == open[0] {
				return at, at + 2
			}
			if !escaped {
				at++
			}
			continue
		}
		if escaped || strings.IndexByte(closers, c) < 0 {
			continue
		}
		if open != "\"" && at+1 < len(f.text) && isAlnum(f.text[at+1]) { // 'it doesn't'
			continue
		}
		return at, at + 1
	}
	return -1, 0
}

// isIdentifier reports whether a text is a name in a program.
func isIdentifier(text string) bool {
	n := span(text, 65, func(c byte) bool { return isDigit(c) || isLetter(c) || strings.IndexByte("_?!:.#=[]+-*/<>", c) >= 0 })
	return n > 0 && n == len(text) && n <= 64
}
