package schedule

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/dashboard/internal/look"
	"github.com/goworker/goworker/internal/pattern"
)

// Words says a cron in words: "on weekdays at 18:00", "at minute 15 past every 2nd hour". It is "" for one that a sentence would not make
// clearer, or that it may misread. The zone at the end is left out.
func Words(cron string) string {
	fields := strings.Fields(cron)
	if len(fields) > 0 && fields[0][0] == '@' {
		return shorthands[strings.ToLower(fields[0])]
	}
	if n := len(fields); n > 5 && zone.MatchString(fields[n-1]) {
		fields = fields[:n-1]
	}
	if len(fields) == 6 {
		if fields[0] != "0" { // more often than once a minute, or at an odd second
			return secondly(fields)
		}
		fields = fields[1:]
	}
	if len(fields) != 5 {
		return ""
	}
	day, known := days(fields[2], fields[3], fields[4])
	at, frequent, readable := clock(fields[0], fields[1])
	switch {
	case !known || !readable:
		return ""
	case day == "" && frequent:
		return at
	case day == "":
		return "daily " + at
	case frequent:
		return at + " " + day
	}
	return day + " " + at
}

// zone is what a time zone at the end looks like.
var zone = pattern.New(`^([A-Z][A-Za-z_+\-0-9]*(/[A-Za-z_+\-0-9]+)*|[+-][0-9]{2}:?[0-9]{2})$`)

var shorthands = map[string]string{
	"@yearly": "yearly on 1 January at 00:00", "@annually": "yearly on 1 January at 00:00", "@monthly": "on day 1 of the month at 00:00",
	"@weekly": "on Sundays at 00:00", "@daily": "daily at 00:00", "@midnight": "daily at 00:00", "@noon": "daily at 12:00", "@hourly": "every hour",
}

func secondly(fields []string) string {
	for _, f := range fields[1:] {
		if f != "*" {
			return ""
		}
	}
	if n, ok := step(fields[0], 60); ok {
		return "every " + look.Plural(n, "second", "seconds")
	}
	if fields[0] == "*" {
		return "every second"
	}
	return ""
}

// clock says the minutes and hours, and whether they are several times a day.
func clock(minute, hour string) (text string, frequent, ok bool) {
	minutes, several := numbers(minute, 59)
	hours, _ := numbers(hour, 23)
	switch n, stepped := step(minute, 60); {
	case minute == "*" && hour == "*":
		return "every minute", true, true
	case stepped && hour == "*":
		return "every " + look.Plural(n, "minute", "minutes"), true, true
	case (minute == "*" || stepped) && hoursBetween.MatchString(hour):
		first, last, _ := strings.Cut(hour, "-")
		every := "every minute"
		if stepped {
			every = "every " + look.Plural(n, "minute", "minutes")
		}
		from, _ := strconv.Atoi(first)
		to, _ := strconv.Atoi(last)
		if from > to || to > 23 {
			return "", false, false
		}
		return fmt.Sprintf("%s from %02d:00 to %02d:59", every, from, to), true, true
	case !several:
		return "", false, false
	case hour == "*" && minute == "0":
		return "every hour", true, true
	case hour == "*":
		return "at " + minutesText(minutes), true, true
	}
	if n, ok := step(hour, 24); ok {
		if len(minutes) == 1 && minutes[0] == 0 {
			return "every " + look.Plural(n, "hour", "hours"), true, true
		}
		return fmt.Sprintf("at %s past every %s hour", minutesText(minutes), ordinal(n)), true, true
	}
	if len(hours) == 0 || len(hours)*len(minutes) > 4 {
		return "", false, false
	}
	var times []string
	for _, h := range hours {
		for _, m := range minutes {
			times = append(times, fmt.Sprintf("%02d:%02d", h, m))
		}
	}
	return "at " + and(times), false, true
}

var hoursBetween = pattern.New(`^[0-9]{1,2}-[0-9]{1,2}$`)

func minutesText(minutes []int) string {
	if len(minutes) == 1 {
		return fmt.Sprintf("minute %d", minutes[0])
	}
	var all []string
	for _, m := range minutes {
		all = append(all, strconv.Itoa(m))
	}
	return "minutes " + and(all)
}

// days says the days; "": all of them.
func days(dom, month, dow string) (text string, ok bool) {
	in := ""
	if month != "*" {
		months := names(month, monthNames)
		if months == nil {
			return "", false
		}
		in = and(months)
	}
	switch {
	case dom != "*" && dow != "*": // either is enough, as in Ruby, which no short sentence says
		return "", false
	case dow != "*":
		on := weekdays(dow)
		if on == "" {
			return "", false
		}
		if in != "" {
			on += " in " + in
		}
		return on, true
	case dom == "*" && in == "":
		return "", true
	case dom == "*":
		return "in " + in + " daily", true
	}
	on := ""
	if last := strings.ToLower(dom); last == "l" || last == "last" || last == "-1" {
		on = "on the last day"
	} else if all, ok := numbers(dom, 31); ok && all[0] > 0 {
		if in != "" && len(all) == 1 && !strings.Contains(in, " and ") {
			return fmt.Sprintf("on %d %s", all[0], in), true
		}
		var text []string
		for _, d := range all {
			text = append(text, strconv.Itoa(d))
		}
		on = "on day " + and(text)
		if len(all) > 1 {
			on = "on days " + and(text)
		}
	}
	switch {
	case on == "":
		return "", false
	case in != "":
		return on + " of " + in, true
	}
	return on + " of the month", true
}

// weekdays says days of the week; "": they are not plain ones.
func weekdays(dow string) string {
	switch strings.ToLower(dow) {
	case "mon-fri", "1-5":
		return "on weekdays"
	case "sat,sun", "sun,sat", "0,6", "6,0", "6,7", "sat-sun":
		return "at weekends"
	}
	if from, to, ok := strings.Cut(dow, "-"); ok {
		first, last := names(from, dayNames), names(to, dayNames)
		if len(first) != 1 || len(last) != 1 {
			return ""
		}
		return "from " + first[0] + " to " + last[0]
	}
	all := names(dow, dayNames)
	if all == nil {
		return ""
	}
	for n := range all {
		all[n] += "s"
	}
	return "on " + and(all)
}

var (
	dayNames   = []string{"Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"}
	monthNames = []string{"", "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"}
)

// names are those of a list of numbers or of beginnings of names; nil: it has something else in it.
func names(list string, of []string) (all []string) {
	for item := range strings.SplitSeq(strings.ToLower(list), ",") {
		at := slices.IndexFunc(of, func(name string) bool { return len(item) == 3 && name != "" && strings.ToLower(name[:3]) == item })
		if n, err := strconv.Atoi(item); err == nil {
			at = n
		}
		if at < 0 || at >= len(of) || of[at] == "" {
			return nil
		}
		all = append(all, of[at])
	}
	return all
}

// numbers are those of a list with nothing but numbers in it.
func numbers(list string, most int) (all []int, ok bool) {
	for item := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(item)
		if err != nil || n < 0 || n > most {
			return nil, false
		}
		all = append(all, n)
	}
	slices.Sort(all)
	return slices.Compact(all), true
}

// step reads */n where n divides the whole, so that the times are evenly apart.
func step(field string, whole int) (int, bool) {
	text, ok := strings.CutPrefix(field, "*/")
	n, err := strconv.Atoi(text)
	if !ok || err != nil || n < 2 || n > whole/2 || whole%n != 0 {
		return 0, false
	}
	return n, true
}

func ordinal(n int) string {
	switch n {
	case 2:
		return "2nd"
	case 3:
		return "3rd"
	}
	return fmt.Sprintf("%dth", n)
}

func and(all []string) string {
	if len(all) < 2 {
		return strings.Join(all, "")
	}
	return strings.Join(all[:len(all)-1], ", ") + " and " + all[len(all)-1]
}

// every says a period.
func every(d time.Duration) string {
	switch {
	case d%(24*time.Hour) == 0 && d > 24*time.Hour:
		return "every " + look.Plural(int64(d/(24*time.Hour)), "day", "days")
	case d == 24*time.Hour:
		return "every 24 hours"
	case d == time.Hour:
		return "every hour"
	case d == time.Minute:
		return "every minute"
	case d%time.Hour == 0:
		return "every " + look.Plural(int64(d/time.Hour), "hour", "hours")
	case d%time.Minute == 0:
		return "every " + look.Plural(int64(d/time.Minute), "minute", "minutes")
	}
	return "every " + look.Dur(d)
}
