// Package cron computes when a recurring job is due. It reads the fields of a cron as Ruby's
// fugit does. netresearch/go-cron finds their next date, in UTC, for wall-clock times. This
// package then turns wall-clock times into moments, across the jumps of the clock.
package cron

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	parser "github.com/netresearch/go-cron"

	"github.com/goworker/goworker/internal/pattern"
)

// Cron is a parsed cron. It is immutable.
type Cron struct {
	zone *time.Location

	// A day matches if any of these matches it.
	alternatives []alternative

	// flows is whether the cron names every hour. Such a cron follows real time.
	flows bool

	gem    Gem
	source source
}

// source is a cron as it was written, in its parts.
type source struct {
	shorthand string   // @daily
	fields    []string // those of the shorthand, or five, or six with the seconds in front
	zone      string   // "": the cron names none
}

// alternative is a schedule of the library, and a condition that the library cannot express.
type alternative struct {
	fields *parser.SpecSchedule
	day    func(date time.Time) bool // nil: all days that the fields name
}

// searchYears is how far ahead a date is looked for: from one 29 February that is a
// Monday to the next there are up to 40 years.
const searchYears = 41

var fieldsParser = parser.MustNewParser(parser.Second | parser.Minute | parser.Hour | parser.Dom | parser.Month | parser.Dow |
	parser.DomL | parser.DowOrDom).WithMaxSearchYears(searchYears)

var shorthands = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@noon": "0 12 * * *", "@hourly": "0 * * * *",
}

// longest is more than any cron needs.
const longest = 512

// Parse reads a cron as Ruby's fugit does: five fields, or six with the seconds in
// front; lists, ranges, which may wrap around, and steps; names of months and weekdays; L,
// last and negative days of the month, mon#1 and mon#-1, sun%2; 7 for Sunday and 24 for
// midnight; @daily and its like; at the end a time zone, in place of the one given here.
// With both days of the month and weekdays, either is enough, unless one of the two ends
// with &.
//
// Parse refuses what fugit misreads: there 24/6 is 0, 5, 11, 17 and 23, and -1--5 nearly all
// days. Where fugit's versions differ, Parse follows the later ones: 10/1 is 10-59 of the
// minutes, "1," is 1, sat-tue/2 is Saturday and Monday, 1-31 is all days as * is, and of
// mon#1,mon#3 both count. Only the weeks of sun%2 are those of the given version.
func Parse(text string, zone *time.Location, gem Gem) (*Cron, error) {
	if len(text) > longest {
		return nil, fmt.Errorf("the cron has %d characters; at most %d are read", len(text), longest)
	}
	c, err := parse(strings.Fields(text), zone, gem)
	if err != nil {
		return nil, fmt.Errorf("the cron %q is not understood: %w", text, err)
	}
	return c, nil
}

func parse(fields []string, zone *time.Location, gem Gem) (*Cron, error) {
	c := &Cron{zone: zone, gem: gem}
	if len(fields) > 0 && strings.HasPrefix(fields[0], "@") {
		c.source.shorthand = fields[0]
		long, known := shorthands[strings.ToLower(fields[0])]
		if !known {
			return nil, fmt.Errorf("there is no %s; there are %s", fields[0], strings.Join(slices.Sorted(maps.Keys(shorthands)), ", "))
		}
		fields = append(strings.Fields(long), fields[1:]...)
	}
	if n := len(fields); n > 5 {
		named, err := zoneNamed(fields[n-1])
		if err != nil {
			return nil, err
		}
		if named != nil {
			c.zone, c.source.zone, fields = named, fields[n-1], fields[:n-1]
		}
	}
	c.source.fields = fields
	switch len(fields) {
	case 5:
		fields = append([]string{"0"}, fields...)
	case 6:
	default:
		return nil, wrongCount(fields)
	}
	if err := c.compile(fields); err != nil {
		return nil, err
	}
	if c.nextOnClock(time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return nil, errors.New("there is no such date")
	}
	return c, nil
}

// wrongCount is the error of a cron with too few or too many fields.
func wrongCount(fields []string) error {
	noun := "fields"
	if len(fields) == 1 {
		noun = "field"
	}
	hint := ""
	if len(fields) > 0 {
		if name := "@" + strings.ToLower(fields[0]); shorthands[name] != "" {
			hint = "; did you mean " + name + "?"
		}
	}
	return fmt.Errorf("it has %d %s; there must be 5, or 6 with the seconds in front, and a time zone may follow%s", len(fields), noun, hint)
}

// Weeks says how the weeks of sun%2 are counted; "" if the cron has none.
func (c *Cron) Weeks() string {
	fields := c.source.fields
	switch {
	case !strings.Contains(fields[len(fields)-1], "%"):
		return ""
	case c.gem.countsBackwards():
		return "from Tuesday, backwards"
	case c.gem.countsFromTuesday():
		return "from Tuesday"
	default:
		return "from Monday"
	}
}

// Zone is the time zone of the cron.
func (c *Cron) Zone() *time.Location { return c.zone }

var leadingWord = pattern.New(`^[a-zA-Z]+`)

// zoneNamed reads the field that may be a time zone; nil: it is none.
func zoneNamed(field string) (*time.Location, error) {
	for _, layout := range []string{"-07:00", "-0700"} {
		if at, err := time.Parse(layout, field); err == nil {
			_, offset := at.Zone()
			return time.FixedZone(at.Format("-07:00"), offset), nil
		}
	}
	word := strings.ToLower(leadingWord.FindString(field))
	if word == "" || word == "local" || slices.Contains(weekdays.names, word) {
		return nil, nil
	}
	zone, err := time.LoadLocation(field)
	if err == nil {
		return zone, nil
	}
	if strings.ContainsAny(field, "/_") {
		if _, missing := time.LoadLocation("Europe/London"); missing != nil {
			return nil, fmt.Errorf("%w, and this system knows none: install tzdata, or import time/tzdata in the program", err)
		}
		return nil, fmt.Errorf("%w; names are as in Europe/Berlin", err)
	}
	return nil, nil
}

// compile makes the alternatives of six fields.
func (c *Cron) compile(fields []string) error {
	fields, both := cutAnd(fields)
	plain, special, err := specialWeekdays(fields[5], c.gem)
	if err != nil {
		return err
	}
	lists := make([]string, 6)
	for i, f := range allFields {
		text := fields[i]
		if i == 5 {
			if text = plain; text == "" && len(special) > 0 {
				text = "*"
			}
		}
		if lists[i], err = f.list(text); err != nil {
			return err
		}
	}
	all := lists[3]
	if !both {
		all = "*"
	}
	// Day of month or weekday: the special weekdays are an alternative to the other days,
	// unless the other fields name every day.
	switch {
	case both && all != "*" && lists[5] != "*":
		weekdays := lists[5]
		lists[5] = "*"
		err = c.add(lists, func(date time.Time) bool { return strings.Contains(weekdays, strconv.Itoa(int(date.Weekday()))) })
	case lists[5] != "*", lists[3] != "*" && !both, len(special) == 0:
		err = c.add(lists, nil)
	}
	if err != nil {
		return err
	}
	for _, s := range special {
		lists[3], lists[5] = all, s.weekday
		day := s.day
		if all != "*" {
			// The library matches if either of the two does.
			weekday := s.weekday
			lists[5] = "*"
			day = func(date time.Time) bool { return strconv.Itoa(int(date.Weekday())) == weekday && s.day(date) }
		}
		if err := c.add(lists, day); err != nil {
			return err
		}
	}
	return nil
}

// cutAnd cuts off the & that requires day of month and weekday at once.
func cutAnd(fields []string) (rest []string, both bool) {
	rest = slices.Clone(fields)
	for _, i := range []int{len(rest) - 3, len(rest) - 1} {
		var and bool
		rest[i], and = strings.CutSuffix(rest[i], "&")
		both = both || and
	}
	return rest, both
}

func (c *Cron) add(lists []string, day func(time.Time) bool) error {
	parsed, err := fieldsParser.Parse(strings.Join(lists, " "))
	if err != nil {
		return err
	}
	spec, ok := parsed.(*parser.SpecSchedule)
	if !ok {
		return errors.New("it names no times")
	}
	spec.Location = time.UTC
	const allHours = 1<<24 - 1
	c.flows = spec.Hour&allHours == allHours
	c.alternatives = append(c.alternatives, alternative{spec, day})
	return nil
}

// nextOnClock is the next time on a clock's face that matches, strictly after the given
// one. Both are clock faces, written as times in UTC. It is zero if there is none.
func (c *Cron) nextOnClock(face time.Time) time.Time {
	var first time.Time
	for _, a := range c.alternatives {
		if next := a.next(face); !next.IsZero() && (first.IsZero() || next.Before(first)) {
			first = next
		}
	}
	return first
}

func (a alternative) next(face time.Time) time.Time {
	for last := face.AddDate(searchYears, 0, 0); face.Before(last); {
		face = a.fields.Next(face)
		if face.IsZero() || a.day == nil || a.day(face) {
			return face
		}
		face = time.Date(face.Year(), face.Month(), face.Day(), 23, 59, 59, 0, time.UTC)
	}
	return time.Time{}
}
