package logging

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Log lines contain texts from Redis and from handlers: class and queue names and errors.
// Such a text may be of any length, and hold bytes that move
// a terminal's cursor.

// MaxText is how many bytes of one such text are logged.
const MaxText = 4 << 10

// Shorten returns text or, if it is longer than most bytes, its beginning and its
// length.
func Shorten(text string, most int) string {
	if len(text) <= most {
		return text
	}
	end := most
	for end > most-utf8.UTFMax && !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:end], len(text))
}

// textAttr is how each attribute of a line of text is logged. Of a time slog writes the form by itself.
func textAttr(groups []string, a slog.Attr) slog.Attr {
	if ofLine(groups, a) {
		return slog.Time(slog.TimeKey, a.Value.Time().UTC())
	}
	return attr(a)
}

// jsonAttr is how each attribute of a line of JSON is logged.
func jsonAttr(groups []string, a slog.Attr) slog.Attr {
	if ofLine(groups, a) {
		return slog.String(slog.TimeKey, a.Value.Time().UTC().Format(timeForm))
	}
	return attr(a)
}

// ofLine reports whether the attribute is the time of the line.
func ofLine(groups []string, a slog.Attr) bool {
	return a.Value.Kind() == slog.KindTime && len(groups) == 0 && a.Key == slog.TimeKey
}

// attr is how an attribute is logged: no text is too long.
func attr(a slog.Attr) slog.Attr {
	switch v := a.Value; v.Kind() {
	case slog.KindString:
		if text := v.String(); len(text) > MaxText {
			return slog.String(a.Key, Shorten(text, MaxText))
		}
	case slog.KindAny:
		if err, ok := v.Any().(error); ok {
			return slog.String(a.Key, Shorten(fmt.Sprint(err), MaxText)) // fmt survives a nil *T
		}
	}
	return a
}

// visible escapes characters of a line that are not printable: to a terminal U+009B
// begins a command, and U+202E reverses the text. slog's handlers
// escape only some of them, each handler others.
func visible(line string) string {
	hidden := func(c rune) bool { return c >= 0x7f && !unicode.IsPrint(c) }
	first := 0 // most lines are ASCII
	for first < len(line) && line[first] < 0x7f {
		first++
	}
	if first == len(line) || !strings.ContainsFunc(line[first:], hidden) {
		return line
	}
	var b strings.Builder
	for _, c := range line {
		switch high, low := utf16.EncodeRune(c); {
		case !hidden(c):
			b.WriteRune(c)
		case high != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

// mostNames is how many names List shows.
const mostNames = 30

// List joins names for one attribute of a line.
func List(names []string) string {
	if more := len(names) - mostNames; more > 0 {
		names = append(slices.Clone(names[:mostNames]), fmt.Sprintf("… (%d more)", more))
	}
	return Shorten(strings.Join(names, ","), MaxText)
}
