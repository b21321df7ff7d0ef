package look

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"html/template"
	"strings"
	"unicode/utf8"

	"github.com/goworker/goworker/internal/pattern"
)

// The texts of this file come from jobs. They may hold any bytes: markup, control characters, marks that turn the
// direction of writing, half a character.

const (
	indentDepth = 32      // JSON that is nested deeper is shown as it is: indenting it would cost the square of its depth
	indentBytes = 1 << 18 // so is JSON that is longer
	traceLines  = 400     // of a backtrace; the rest is counted
)

// JSON colours a JSON text, and indents it where it is valid. It parses no number: 9007199254740993 stays what it is.
// Masked values, which hold "••", are grey.
func JSON(raw string) template.HTML {
	raw = clean(indented(raw))
	var b strings.Builder
	for i := 0; i < len(raw); {
		j, class := i+1, ""
		switch c := raw[i]; {
		case c == '"':
			j = stringEnd(raw, i)
			class = "st"
			if strings.HasPrefix(strings.TrimLeft(raw[j:min(len(raw), j+8)], " \t"), ":") {
				class = "k"
			}
			if strings.Contains(raw[i:j], "••") {
				class = "x"
			}
		case c >= '0' && c <= '9' || c == '-':
			j = i + span(raw[i:], "0123456789.eE+-")
			class = "nu"
		case c >= 'a' && c <= 'z':
			j = i + span(raw[i:], "abcdefghijklmnopqrstuvwxyz")
			if word := raw[i:j]; word == "true" || word == "false" || word == "null" {
				class = "nu"
			}
		default:
			for j < len(raw) && strings.IndexByte(`"-0123456789abcdefghijklmnopqrstuvwxyz`, raw[j]) < 0 {
				j++
			}
		}
		if class == "" {
			b.WriteString(visible(raw[i:j]))
		} else {
			b.WriteString(`<span class="` + class + `">` + visible(raw[i:j]) + `</span>`)
		}
		i = j
	}
	return template.HTML(b.String())
}

// indented indents valid JSON. json.Indent copies numbers and strings byte by byte.
func indented(raw string) string {
	if len(raw) > indentBytes || depth(raw) > indentDepth || !json.Valid([]byte(raw)) {
		return raw
	}
	var b bytes.Buffer
	if err := json.Indent(&b, []byte(raw), "", "  "); err != nil {
		return raw
	}
	return strings.TrimSpace(b.String())
}

// depth counts brackets, those in strings too, so it may say more than the depth, never less.
func depth(raw string) (most int) {
	at := 0
	for i := range len(raw) {
		switch raw[i] {
		case '[', '{':
			at++
			most = max(most, at)
		case ']', '}':
			at = max(0, at-1)
		}
	}
	return most
}

// stringEnd returns the index after the string that begins at i, or the end of the text if it has no end.
func stringEnd(s string, i int) int {
	for j := i + 1; j < len(s); j++ {
		switch s[j] {
		case '\\':
			j++
		case '"':
			return j + 1
		}
	}
	return len(s)
}

func span(s, of string) int {
	for i := range len(s) {
		if strings.IndexByte(of, s[i]) < 0 {
			return i
		}
	}
	return len(s)
}

// Message marks the parts of an error's text that vary within its group. They stand between ‹ and ›; signs without a
// partner are shown as they are or end with the text.
func Message(text string) template.HTML {
	text = clean(text)
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(text, "‹")
		b.WriteString(visible(before))
		if !found {
			return template.HTML(b.String())
		}
		part, after, _ := strings.Cut(rest, "›")
		b.WriteString(`<span class="mk">` + visible(part) + `</span>`)
		text = after
	}
}

// library finds the lines of a backtrace that are not the program's own: gems, Ruby's and Go's own files, Go modules,
// vendored packages, node_modules and Node's own.
var library = pattern.New(`(?i)/gems/|/rubygems/|/lib/ruby/|/rubies/|<internal:|^(from )?\(eval|node_modules/|\bnode:|\(internal/|/vendor/|/pkg/mod/|/go/src/|/golang.org/|/libexec/src/|site-packages/|dist-packages/|/usr/lib/|^\s*(runtime|testing|reflect|net/http|sync)\.[A-Za-z(]|^goroutine \d+|^created by |^panic\(`)

// Trace colours a backtrace: lines of libraries are grey. Its lines may come as a list or as one text. Of Go, where a
// frame is two lines, the file decides for both.
func Trace(lines ...string) template.HTML {
	all := strings.Split(strings.Trim(clean(strings.Join(lines, "\n")), "\n"), "\n")
	rest := max(0, len(all)-traceLines)
	all = all[:len(all)-rest]
	var b strings.Builder
	for i, line := range all {
		from := line
		if i+1 < len(all) && strings.HasPrefix(all[i+1], "\t") && !strings.HasPrefix(line, "\t") {
			from = all[i+1]
		}
		class := "own"
		if library.MatchString(from) || from != line && library.MatchString(line) {
			class = "lib"
		} else if strings.HasPrefix(line, "\t") && i > 0 && library.MatchString(all[i-1]) {
			class = "lib"
		}
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(`<span class="` + class + `">` + visible(line) + `</span>`)
	}
	if rest > 0 {
		b.WriteString("\n" + `<span class="lib">… and ` + Plural(rest, "more line", "more lines") + `</span>`)
	}
	return template.HTML(b.String())
}

// Text escapes a text and makes visible what would hide in it: control characters and marks that turn the direction
// of writing.
func Text(s string) template.HTML { return template.HTML(visible(clean(s))) }

// clean makes a text valid UTF-8, and its lines end as those of Unix.
func clean(s string) string {
	return strings.ToValidUTF8(strings.ReplaceAll(s, "\r\n", "\n"), "\uFFFD")
}

// visible escapes a text for HTML and shows control characters and direction marks by their numbers.
func visible(s string) string {
	s = clean(s)
	if strings.IndexFunc(s, hidden) < 0 {
		return html.EscapeString(s)
	}
	var b strings.Builder
	for len(s) > 0 {
		i := strings.IndexFunc(s, hidden)
		if i < 0 {
			b.WriteString(html.EscapeString(s))
			break
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		b.WriteString(html.EscapeString(s[:i]))
		fmt.Fprintf(&b, `<span class="x">\u%04x</span>`, r)
		s = s[i+size:]
	}
	return b.String()
}

func hidden(r rune) bool {
	switch {
	case r == '\n', r == '\t':
		return false
	case r < 0x20, r >= 0x7f && r < 0xa0:
		return true
	case r >= 0x200b && r <= 0x200f, r >= 0x2028 && r <= 0x202e, r >= 0x2060 && r <= 0x2069, r == 0x061c, r == 0xfeff:
		return true
	}
	return false
}
