package cron

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/pattern"
)

const (
	// rubyLongest is how many characters of a cron fugit reads.
	rubyLongest = 256
	// rubyWeeks is how many weeks ahead fugit finds a date: it gives up after 2048 days.
	rubyWeeks = 290
)

// ForRuby writes the cron, with its time zone, so that fugit from the cron's version on
// reads it with the same meaning. An item that some of these versions refuse or misread is
// rewritten if it has another form: sat-tue/2 is 6,1. An error
// says which item has none and what to do.
//
// A Ruby scheduler that cannot read a cron exits, at each start.
func (c *Cron) ForRuby() (string, error) {
	zone, err := c.rubyZone()
	if err != nil {
		return "", err
	}
	if _, known := shorthands[c.source.shorthand]; known && zone == "" {
		return c.source.shorthand, nil
	}
	if err := c.checkWeekdays(); err != nil {
		return "", err
	}
	fields, both := cutAnd(c.source.fields)
	skipped := len(allFields) - len(fields) // the seconds
	for i, text := range fields {
		if fields[i], err = allFields[i+skipped].forRuby(text); err != nil {
			return "", err
		}
	}
	if err := checkMonths(fields, both); err != nil {
		return "", err
	}
	if both {
		if c.gem.reader().before(andSince) {
			return "", fmt.Errorf(`"&" asks for day of month and weekday at once, which fugit reads since %v: %s`, andSince, nameTheGem(andSince))
		}
		fields[len(fields)-1] += "&"
	}
	if zone != "" {
		fields = append(fields, zone)
	}
	text := strings.Join(fields, " ")
	if len(text) > rubyLongest {
		return "", fmt.Errorf("for Ruby it would have %d characters, of which fugit reads at most %d: make it two schedules", len(text), rubyLongest)
	}
	return text, nil
}

// reader is the oldest version that may read the cron.
func (g Gem) reader() Gem {
	if g.isNamed() {
		return g
	}
	return oldest
}

func nameTheGem(gem Gem) string {
	return fmt.Sprintf(`if all Ruby schedulers have that, say so with Fugit: "%v"`, gem)
}

var (
	rubyZoneName = pattern.New(`^[A-Z][a-zA-Z0-9+-]+(?:/[A-Z][a-zA-Z0-9+_-]+){0,2}$`)
	rubyOffset   = pattern.New(`^[+-](?:0[0-9]|1[01]):?(?:00|15|30|45)$`)
)

// rubyZone is the time zone to write; "" is that of the process that reads it.
func (c *Cron) rubyZone() (string, error) {
	name := c.source.zone
	switch {
	case name == "" && c.zone == time.Local:
		return "", nil
	case name == "":
		name = c.zone.String()
		named, err := time.LoadLocation(name)
		if err != nil || !rubyZoneName.MatchString(name) || !sameClock(c.zone, named) {
			return "", fmt.Errorf("its Location %q cannot be written for others: they would not find the time zone by this name; %s", name, insteadOf(c.zone))
		}
	case !rubyZoneName.MatchString(name) && !rubyOffset.MatchString(name):
		return "", fmt.Errorf("the time zone %q is none of Ruby's: write one as in Europe/Berlin, or an offset of less than 12 hours, in quarters of an hour, as in +05:30", name)
	}
	return name, nil
}

// insteadOf says what to write for a time zone that the program itself made.
func insteadOf(zone *time.Location) string {
	offset := time.Date(2026, 1, 1, 0, 0, 0, 0, zone).Format("-07:00")
	if sameClock(zone, time.FixedZone("", offsetAt(zone, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)))) && rubyOffset.MatchString(offset) {
		return fmt.Sprintf("leave it out and end the Cron with %s, or take one of time.LoadLocation", offset)
	}
	return "take one of time.LoadLocation"
}

func offsetAt(zone *time.Location, at time.Time) int {
	_, offset := at.In(zone).Zone()
	return offset
}

// sameClock reports whether clocks in two time zones agree in each month of the
// years that matter.
func sameClock(a, b *time.Location) bool {
	for at := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC); at.Year() < 2040; at = at.AddDate(0, 1, 0) {
		if offsetAt(a, at) != offsetAt(b, at) {
			return false
		}
	}
	return true
}

// forRuby writes a field. An item that all versions read alike stays as it is.
func (f field) forRuby(text string) (string, error) {
	var items []string
	for item := range strings.SplitSeq(text, ",") {
		lower := strings.ToLower(item)
		switch {
		case item == "":
			continue
		case f.max == weekdays.max && (nth.MatchString(item) || everyNth.MatchString(item)):
			items = append(items, item)
			continue
		}
		each, err := f.expand(lower)
		switch {
		case err != nil:
			return "", err
		case f.isPlain(lower, each == nil):
			items = append(items, item)
		case each == nil:
			items = append(items, "*")
		default:
			items = append(items, runs(each)...)
		}
	}
	return strings.Join(items, ","), nil
}

// isPlain reports whether all versions read an item, and read it alike. With a step of 1,
// 10/1 is 10 in some of them; with any step, sat-tue/2 is every day; and 1-31 is not
// the same as *.
func (f field) isPlain(item string, all bool) bool {
	m := span.FindStringSubmatch(item)
	from, to, step := m[1], m[2], m[3]
	week := f.max == weekdays.max
	for _, bound := range []string{from, to} {
		n, err := strconv.Atoi(bound)
		if err == nil && (week && len(bound) > 1 || n <= 0 && bound[0] == '-' && f.max != days.max) {
			return false
		}
	}
	switch {
	case strings.HasPrefix(item, "?"):
		return false
	case from == "":
		return true
	case all:
		return false
	case to == "":
		n, _ := strconv.Atoi(step)
		return n != 1 || week
	case week && step != "":
		first, _ := f.value(from)
		last, _ := f.value(to)
		return first <= last
	}
	return true
}

// runs writes numbers as a list, three or more in a row as a range.
func runs(each []int) (items []string) {
	for i := 0; i < len(each); {
		end := i + 1
		for end < len(each) && each[end] == each[end-1]+1 && each[i] >= 0 {
			end++
		}
		if end-i < 3 {
			end = i + 1
			items = append(items, strconv.Itoa(each[i]))
		} else {
			items = append(items, fmt.Sprintf("%d-%d", each[i], each[end-1]))
		}
		i = end
	}
	return items
}

// checkWeekdays refuses weekdays that the possible versions read differently.
func (c *Cron) checkWeekdays() error {
	fields, _ := cutAnd(c.source.fields)
	plain, all, err := specialWeekdays(fields[len(fields)-1], c.gem)
	if err != nil {
		return err
	}
	every, err := weekdays.list(plain)
	if err != nil {
		every = "" // there are none beside the special ones
	}
	for i, s := range all {
		if s.weeks > 0 && !c.gem.isNamed() {
			return fmt.Errorf(`fugit before %v counts the weeks of %q from another day: name the version that the Ruby schedulers have, as in Fugit: "%v"`,
				mondaySince, s.item, mondaySince)
		}
		if s.weeks > rubyWeeks {
			return fmt.Errorf("%q is too seldom for Ruby, which finds no date more than %d weeks ahead: count in fewer weeks", s.item, rubyWeeks)
		}
		for _, other := range all[:i] {
			switch {
			case other.weekday != s.weekday:
			case (other.weeks > 0) != (s.weeks > 0):
				return fmt.Errorf("fugit fails on %s,%s, a weekday with both %% and #: make it two schedules", other.item, s.item)
			case !slices.Contains(strings.Split(every, ","), s.weekday) && c.gem.reader().before(mondaySince):
				return fmt.Errorf("fugit before %v overlooks all but one of %s,%s: make it two schedules, or %s", mondaySince, other.item, s.item, nameTheGem(mondaySince))
			}
		}
	}
	return nil
}

// checkMonths refuses months that contain none of the days of the month: fugit drops
// such a month, although its weekdays match.
func checkMonths(fields []string, both bool) error {
	n := len(fields)
	dates, err := days.list(fields[n-3])
	if err != nil {
		return err
	}
	in, err := months.list(fields[n-2])
	if err != nil {
		return err
	}
	if dates == "*" || in == "*" || fields[n-1] == "*" || both {
		return nil
	}
	for month := range strings.SplitSeq(in, ",") {
		m, _ := strconv.Atoi(month)
		last := time.Date(2024, time.Month(m)+1, 0, 0, 0, 0, 0, time.UTC).Day() // of a leap year
		if !slices.ContainsFunc(strings.Split(dates, ","), func(day string) bool {
			d, err := strconv.Atoi(day)
			return err != nil || d <= last // counted from the end, any will do
		}) {
			return errors.New("fugit drops months that have none of the days, with their weekdays: make it two schedules, one for the days and one for the weekdays")
		}
	}
	return nil
}
