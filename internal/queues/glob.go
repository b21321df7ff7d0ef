package queues

import (
	"strings"
	"unicode/utf8"
)

// MatchGlob reports whether a queue's name matches a pattern as Ruby's
// File.fnmatch? decides it without flags: * stands for any characters, the
// slash too, ? for one character, [a-z] for one of a set, [^a-z] or [!a-z] for
// one outside of it, and \ removes the meaning of the next character. None of
// them matches a dot at the beginning of the name. An unfinished or empty set
// matches nothing, and braces stand for themselves.
func MatchGlob(pattern, name string) bool {
	if strings.HasPrefix(name, ".") && !strings.HasPrefix(strings.TrimPrefix(pattern, `\`), ".") {
		return false
	}
	// After a mismatch only the last star need be tried again one character
	// further, which keeps the time at len(pattern) * len(name).
	afterStar, starName := "", ""
	star := false
	for {
		switch {
		case strings.HasPrefix(pattern, "*"):
			pattern = strings.TrimLeft(pattern, "*")
			if pattern == "" {
				return true
			}
			star, afterStar, starName = true, pattern, name
			continue
		case pattern == "" && name == "":
			return true
		case name == "":
			return false
		}
		if rest, ok := matchOne(pattern, name); ok {
			pattern, name = rest, name[charLen(name):]
			continue
		}
		if !star {
			return false
		}
		starName = starName[charLen(starName):]
		pattern, name = afterStar, starName
	}
}

// matchOne matches the first character of a name, which has one, and returns
// what is left of the pattern.
func matchOne(pattern, name string) (rest string, ok bool) {
	switch {
	case pattern == "":
		return "", false
	case pattern[0] == '?':
		return pattern[1:], true
	case pattern[0] == '[':
		return matchSet(pattern[1:], name)
	}
	char, rest := nextChar(pattern)
	return rest, char == name[:charLen(name)]
}

// matchSet matches one character with a set whose opening bracket has been
// read. A bracket closes the set wherever it stands.
func matchSet(set, name string) (rest string, ok bool) {
	char := name[:charLen(name)]
	negated := strings.HasPrefix(set, "!") || strings.HasPrefix(set, "^")
	if negated {
		set = set[1:]
	}
	found := false
	for set != "" {
		if set[0] == ']' {
			return set[1:], found != negated
		}
		var low string
		low, set = nextChar(set)
		high := low
		if len(set) > 1 && set[0] == '-' && set[1] != ']' {
			high, set = nextChar(set[1:])
		}
		found = found || char == low || char == high || inRange(low, char, high)
	}
	return "", false
}

func inRange(low, char, high string) bool {
	l, _ := utf8.DecodeRuneInString(low)
	c, _ := utf8.DecodeRuneInString(char)
	h, _ := utf8.DecodeRuneInString(high)
	return low != high && l <= c && c <= h
}

// nextChar splits off the first character of a pattern and removes the
// backslash before it; a backslash at the end stands for itself.
func nextChar(pattern string) (char, rest string) {
	if pattern[0] == '\\' && len(pattern) > 1 {
		pattern = pattern[1:]
	}
	n := charLen(pattern)
	return pattern[:n], pattern[n:]
}

// charLen is the length of the first character; a byte that is not UTF-8 is a
// character of its own.
func charLen(s string) int {
	_, n := utf8.DecodeRuneInString(s)
	return n
}
