package cron

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/internal/pattern"
)

// special is a weekday of some weeks only.
type special struct {
	item    string // as in the cron
	weekday string
	weeks   int // of %n; 0: the weekday is one of a month's
	day     func(date time.Time) bool
}

var (
	nth      = pattern.New(`(?i)^([0-7]|[a-z]{3})#(-?[1-5]|l|last)$`)
	everyNth = pattern.New(`(?i)^([0-7]|[a-z]{3})%([0-9]{1,3})(?:\+([0-9]{1,3}))?$`)
)

// specialWeekdays separates the weekdays that the library has no form for: mon#1 and
// mon#-2, the first and the last but one of a month, and mon%2+1, one of every second
// week.
func specialWeekdays(field string, gem Gem) (rest string, specials []special, err error) {
	var plain []string
	for item := range strings.SplitSeq(field, ",") {
		s := special{item: item}
		var m []string
		if m = nth.FindStringSubmatch(item); m != nil {
			n, err := strconv.Atoi(m[2])
			if err != nil {
				n = -1 // the last
			}
			s.day = func(date time.Time) bool {
				last := time.Date(date.Year(), date.Month()+1, 0, 0, 0, 0, 0, time.UTC).Day()
				return (date.Day()-1)/7+1 == n || (last-date.Day())/7+1 == -n
			}
		} else if m = everyNth.FindStringSubmatch(item); m != nil {
			n, _ := strconv.Atoi(m[2])
			plus, _ := strconv.Atoi(m[3])
			if n == 0 {
				return "", nil, fmt.Errorf("%q names no weeks; sun%%2 is every second Sunday", item)
			}
			s.weeks = n
			s.day = func(date time.Time) bool { return gem.inWeek(date, n, plus) }
		} else {
			plain = append(plain, item)
			continue
		}
		if s.weekday, err = weekdays.list(m[1]); err != nil {
			return "", nil, err
		}
		specials = append(specials, s)
	}
	return strings.Join(plain, ","), specials, nil
}
