// Package view draws what the command prints: tables that fit a terminal, numbers, ages, JSON lines and the frame of status.
//
// Names come out of Redis, and anyone who may push a job chooses them. Text makes them harmless for a terminal; all that this
// package draws has passed through it.
package view

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/charmbracelet/x/ansi"
)

// Text escapes what does not print, as the log does: a name can neither move the cursor nor turn the line's direction. Bytes that
// are no UTF-8 become \x….
func Text(s string) string {
	clean := true
	for _, c := range s {
		if c == utf8.RuneError || !unicode.IsPrint(c) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		c, size := utf8.DecodeRuneInString(s[i:])
		switch high, low := utf16.EncodeRune(c); {
		case c == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case unicode.IsPrint(c):
			b.WriteRune(c)
		case high != utf8.RuneError:
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
		i += size
	}
	return b.String()
}

// Lines is Text that keeps line breaks, and the indent of lines: for text of several lines, such as a backtrace. A tab before a line
// becomes four blanks.
func Lines(s string) string {
	lines := strings.Split(s, "\n")
	for n, line := range lines {
		text := strings.TrimLeft(line, "\t")
		lines[n] = strings.Repeat("    ", len(line)-len(text)) + Text(strings.TrimSuffix(text, "\r"))
	}
	return strings.Join(lines, "\n")
}

// Width is how many cells of a terminal a text takes.
func Width(s string) int { return ansi.StringWidth(s) }

// Cut shortens a text to so many cells: it takes out the middle, since names that are alike differ at their ends.
func Cut(s string, cells int) string {
	width := Width(s)
	switch {
	case width <= cells:
		return s
	case cells < 1:
		return ""
	case cells == 1:
		return "…"
	}
	left := cells / 2
	head := ansi.Truncate(s, left, "")
	tail := ansi.TruncateLeft(s, width-(cells-1-Width(head)), "")
	for Width(head)+1+Width(tail) > cells { // a wide character at the cut
		_, size := utf8.DecodeRuneInString(tail)
		tail = tail[size:]
	}
	return head + "…" + tail
}

// pad fills a text up to so many cells.
func pad(s string, cells int, right bool) string {
	space := strings.Repeat(" ", max(0, cells-Width(s)))
	if right {
		return space + s
	}
	return s + space
}

// Wrap breaks a sentence into lines of at most so many cells; each but the first begins with indent.
func Wrap(s string, cells int, indent string) string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(s) {
		for {
			room := cells - Width(line)
			if line != "" && line != indent {
				room--
			}
			if Width(word) <= room {
				break
			}
			if line == "" || line == indent { // a word that fits no line
				part := ansi.Truncate(word, max(1, room), "")
				lines, word = append(lines, line+part), word[len(part):]
			} else {
				lines = append(lines, line)
			}
			line = indent
		}
		if line != "" && line != indent {
			line += " "
		}
		line += word
	}
	return strings.Join(append(lines, line), "\n")
}
