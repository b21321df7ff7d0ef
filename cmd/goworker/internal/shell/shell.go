// Package shell writes commands that are safe to paste into a shell, whatever names are in them.
package shell

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Plain reports whether a word is wholly of letters, digits and _.:/@-, which mean nothing to a shell.
func Plain(word string) bool {
	for i := range len(word) {
		c := word[i]
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', strings.IndexByte("_.:/@-", c) >= 0:
		default:
			return false
		}
	}
	return word != ""
}

// Printable reports whether a terminal shows a word as it is: a word with control characters, or that is no UTF-8, can stand in no
// command that is copied from a screen.
func Printable(word string) bool {
	if !utf8.ValidString(word) {
		return false
	}
	for _, c := range word {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return true
}

// Quote returns a word as a POSIX shell reads it back: as it is where it is Plain, otherwise in single quotes.
func Quote(word string) string {
	if Plain(word) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// Line returns a command line of words, each quoted. ok is false where a word is not Printable: then the line must not be shown.
func Line(words ...string) (line string, ok bool) {
	quoted := make([]string, len(words))
	for n, w := range words {
		if !Printable(w) {
			return "", false
		}
		quoted[n] = Quote(w)
	}
	return strings.Join(quoted, " "), true
}

// Own returns a line of our own command: its verb and flags, and names out of Redis behind --, where none of them is a flag.
func Own(verb string, names ...string) (line string, ok bool) {
	rest, ok := Line(names...)
	if !ok {
		return "", false
	}
	line = "goworker " + verb
	if len(names) == 0 {
		return line, true
	}
	for _, name := range names {
		if strings.HasPrefix(name, "-") {
			return line + " -- " + rest, true
		}
	}
	return line + " " + rest, true
}
