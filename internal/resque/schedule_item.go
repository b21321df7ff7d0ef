package resque

import (
	"strconv"
	"strings"
)

// A hint is "<millisecond> <place> <item>". One that reads otherwise was not written
// by us.
func parseHint(hint string) (at stamp, item string, ok bool) {
	digits, rest, _ := strings.Cut(hint, " ")
	place, item, ok := strings.Cut(rest, " ")
	ms, err := strconv.ParseInt(digits, 10, 64)
	_, err2 := strconv.Atoi(place)
	return stamp{ms}, item, ok && err == nil && err2 == nil && ms > 0
}
