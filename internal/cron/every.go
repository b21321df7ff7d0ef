package cron

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

var units = map[string]time.Duration{
	"s": time.Second, "sec": time.Second, "secs": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "mins": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hour": time.Hour, "hours": time.Hour,
	"d": day, "day": day, "days": day,
	"w": 7 * day, "week": 7 * day, "weeks": 7 * day,
	"M": 30 * day, "month": 30 * day, "months": 30 * day,
	"y": 365 * day, "year": 365 * day, "years": 365 * day,
}

const (
	day    = 24 * time.Hour
	number = `([0-9]+(?:\.[0-9]+)?)`
	// LongestPeriod is more than anybody waits for.
	LongestPeriod = 100 * 365 * day
)

var (
	amounts = regexp.MustCompile(`^(?:` + number + `\s*[a-zA-Z]+\s*)+$`)
	amount  = regexp.MustCompile(number + `\s*([a-zA-Z]+)`)
	iso     = regexp.MustCompile(`^P(?:` + number + `Y)?(?:` + number + `M)?(?:` + number + `W)?(?:` + number + `D)?` +
		`(T(?:` + number + `H)?(?:` + number + `M)?(?:` + number + `S)?)?$`)
)

// ParsePeriod reads a duration as resque-scheduler's every takes it: 30s, 15mins, 1h30m,
// 2.5h, 1d, 1w, 1M (30 days), 1y (365 days), PT1H, or a plain number of seconds. It is
// at least a second and a whole number of milliseconds.
func ParsePeriod(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	total, err := 0.0, error(nil)
	plus := func(n string, unit time.Duration) {
		f, e := strconv.ParseFloat(n, 64)
		err = errors.Join(err, e)
		total += f * float64(unit/time.Millisecond)
	}
	if _, e := strconv.ParseFloat(text, 64); e == nil && len(text) < 32 && strings.Trim(text, "0123456789.") == "" {
		plus(text, time.Second)
	} else if amounts.MatchString(text) {
		for _, m := range amount.FindAllStringSubmatch(text, -1) {
			unit, known := units[m[2]]
			if !known {
				return 0, fmt.Errorf("%q is no period: there is no unit %q; write it as in 30s, 15m, 1h30m, 1d, 1w, 1M, 1y or PT1H", text, m[2])
			}
			plus(m[1], unit)
		}
	} else if m := iso.FindStringSubmatch(text); m != nil && text != "P" && m[5] != "T" {
		for i, unit := range []time.Duration{365 * day, 30 * day, 7 * day, day, 0, time.Hour, time.Minute, time.Second} {
			if n := m[i+1]; n != "" && unit > 0 {
				plus(n, unit)
			}
		}
	} else {
		return 0, fmt.Errorf("%q is no period; write it as in 30s, 15m, 1h30m, 1d, 1w, 1M, 1y or PT1H", text)
	}
	if err != nil || total < 1000 || total > float64(LongestPeriod/time.Millisecond) {
		return 0, fmt.Errorf("%q is no period: it must be at least a second and at most 100 years", text)
	}
	return time.Duration(total+0.5) * time.Millisecond, nil
}
