// Package log formats what the daemon logs.
package log

import (
	"fmt"
	"unicode/utf8"
)

// MaxLogText is how many bytes of a text from Redis or from a handler are logged.
const MaxLogText = 4 << 10

// Shorten returns text, or as much of its beginning as most bytes hold and how
// long it was.
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
