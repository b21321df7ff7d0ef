package cron

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// hours writes 24, which is midnight, in the library's words.
func hours(field string) (string, error) {
	items := strings.Split(field, ",")
	for i, item := range items {
		span, step, _ := strings.Cut(item, "/")
		from, to, ranges := strings.Cut(span, "-")
		switch {
		case from == "24" && !ranges && step == "":
			items[i] = "0"
		case to == "24":
			first, err := strconv.Atoi(from)
			by := 1
			if err == nil && step != "" {
				by, err = strconv.Atoi(step)
			}
			if err != nil || first < 0 || first > 24 || by < 1 {
				return "", fmt.Errorf("%q is no range of hours", item)
			}
			var each []string
			for h := first; h <= 24; h += by {
				each = append(each, strconv.Itoa(h%24))
			}
			items[i] = strings.Join(each, ",")
		}
	}
	return strings.Join(items, ","), nil
}

var (
	fromEnd   = regexp.MustCompile(`^-([0-9]{1,2})$`)
	endsRange = regexp.MustCompile(`^-([0-9]{1,2})-(?:-([0-9]{1,2})|[lL])$`)
)

// daysOfMonth writes days counted from the end of the month in the library's words:
// -1 and L are the last day, -2 is L-1.
func daysOfMonth(field string) (string, error) {
	items := strings.Split(field, ",")
	for i, item := range items {
		from, to := 0, 0
		if m := fromEnd.FindStringSubmatch(item); m != nil {
			from, _ = strconv.Atoi(m[1])
			to = from
		} else if m := endsRange.FindStringSubmatch(item); m != nil {
			from, _ = strconv.Atoi(m[1])
			if to = 1; m[2] != "" {
				to, _ = strconv.Atoi(m[2])
			}
		} else {
			continue
		}
		if to < 1 || from > 31 || from < to {
			return "", fmt.Errorf("%q names no days; -1 is the last of the month, -31 the first of a long one", item)
		}
		var each []string
		for n := from; n >= to; n-- {
			if n == 1 {
				each = append(each, "L")
			} else {
				each = append(each, "L-"+strconv.Itoa(n-1))
			}
		}
		items[i] = strings.Join(each, ",")
	}
	return strings.Join(items, ","), nil
}

// special is a weekday of some weeks only.
type special struct {
	weekday string
	day     func(date time.Time) bool
}

var (
	nthFromEnd = regexp.MustCompile(`^([0-7]|[a-zA-Z]{3})#-([1-5])$`)
	everyNth   = regexp.MustCompile(`^([0-7]|[a-zA-Z]{3})%([0-9]{1,3})(?:\+([0-9]{1,3}))?$`)
)

// specialWeekdays takes what the library has no words for out of the weekdays: mon#-2,
// the last but one, and mon%2+1, one of every second week.
func specialWeekdays(field string) (rest string, specials []special, err error) {
	var plain []string
	for item := range strings.SplitSeq(field, ",") {
		if m := nthFromEnd.FindStringSubmatch(item); m != nil {
			n, _ := strconv.Atoi(m[2])
			specials = append(specials, special{m[1], func(date time.Time) bool {
				last := time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
				return (last-date.Day())/7+1 == n
			}})
			continue
		}
		if m := everyNth.FindStringSubmatch(item); m != nil {
			n, _ := strconv.Atoi(m[2])
			plus, _ := strconv.Atoi(m[3])
			if n == 0 {
				return "", nil, fmt.Errorf("%q names no weeks; sun%%2 is every second Sunday", item)
			}
			specials = append(specials, special{m[1], func(date time.Time) bool {
				return mod(week(date)-plus, n) == 0
			}})
			continue
		}
		plain = append(plain, item)
	}
	return strings.Join(plain, ","), specials, nil
}

// week numbers weeks as fugit does: the first begins on 1 January 2019, a Tuesday.
func week(date time.Time) int {
	const day = 24 * 60 * 60
	days := date.Truncate(24*time.Hour).Unix()/day - time.Date(2019, 1, 1, 0, 0, 0, 0, time.UTC).Unix()/day
	return int(days-int64(mod(int(days), 7)))/7 + 1
}

func mod(a, n int) int { return ((a % n) + n) % n }
