package failures

import (
	"strings"
	"time"

	"github.com/goworker/goworker/internal/resque"
)

// failedLayouts are the forms of failed_at beside those of other times.
var failedLayouts = []string{
	"2006/01/02 15:04:05 -0700",        // in zones that have no abbreviation …
	"2006/01/02 15:04:05 -07",          // … with whole hours
	"2006/01/02 15:04:05 MST",          // Ruby's, and ours
	"2006/01/02 15:04:05",              // without a zone
	"Mon Jan 2 15:04:05 MST 2006",      // php-resque
	"Mon Jan 2 2006 15:04:05 GMT-0700", // node-resque
	"2006-01-02 15:04:05",
}

// zoneDoubt is how far the clocks of two places on earth can differ. A time may be wrong by that
// much if its text has no zone, or an abbreviation that is ambiguous.
const zoneDoubt = 26 * time.Hour

// Time reads when a job failed, as Filter.Since does; zero if the text is not readable.
func Time(text string) time.Time {
	at, _ := failureTime(text, time.Local)
	return at
}

// failureTime reads when a job failed. If the text has no zone, or an abbreviation that this
// machine does not know, it counts as local time and sure is false. An unreadable time is zero.
func failureTime(text string, local *time.Location) (at time.Time, sure bool) {
	text, _, _ = strings.Cut(text, " (")  // JavaScript's name of the zone
	text, _, _ = strings.Cut(text, " m=") // Go's monotonic clock
	for _, layout := range failedLayouts {
		t, err := time.ParseInLocation(layout, text, local)
		if err != nil {
			continue
		}
		if !strings.Contains(layout, "MST") && !strings.Contains(layout, "-07") {
			return t, false
		}
		name, offset := t.Zone()
		if t.Location() == local || t.Location() == time.UTC || name == "GMT" || offset != 0 {
			return t, true
		}
		// Go has invented a zone of that name.
		return time.Date(t.Year(), t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), t.Nanosecond(), local), false
	}
	if !strings.ContainsAny(text, "-:") { // none of the forms is a bare number
		return time.Time{}, true
	}
	return resque.ParseTime(text), true
}
