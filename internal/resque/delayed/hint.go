package delayed

import (
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/resque"
)

// A hint is "<millisecond> <place> <item>". We did not write one that has another form.
func parseHint(hint string) (at resque.Stamp, item string, ok bool) {
	digits, rest, _ := strings.Cut(hint, " ")
	place, item, ok := strings.Cut(rest, " ")
	ms, err := strconv.ParseInt(digits, 10, 64)
	_, err2 := strconv.Atoi(place)
	return resque.Stamp{MS: ms}, item, ok && err == nil && err2 == nil && ms > 0
}
