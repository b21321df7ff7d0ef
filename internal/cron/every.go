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
	day = 24 * time.Hour
	// LongestPeriod is the longest period that is allowed.
	LongestPeriod = 100 * 365 * day
)

// The units in the order in which amount and iso have them.
var (
	units    = []time.Duration{365 * day, 30 * day, 7 * day, day, time.Hour, time.Minute, time.Second}
	isoUnits = []time.Duration{365 * day, 30 * day, 7 * day, day, 0, time.Hour, time.Minute, time.Second}
)

const number = `([0-9]+(?:\.[0-9]+)?)`

var (
	// amount is one of fugit's amounts, with the separators before it. M is a month and m a
	// minute; the case of other units does not matter. At the end seconds need no unit.
	amount = pattern.New(`^(?:[ \t,]|(?i:and))*([0-9]+\.?[0-9]*|\.[0-9]+)(?: *(?:` +
		`((?i:y(?:ears?)?))|(M|months?)|((?i:w(?:eeks?)?))|((?i:d(?:ays?)?))|((?i:h(?:ours?)?))|(m(?:in(?:ute)?s?)?)|((?i:s(?:ec(?:ond)?)?s?)))|$)`)
	iso = pattern.New(`^P(?:` + number + `Y)?(?:` + number + `M)?(?:` + number + `W)?(?:` + number + `D)?` +
		`(T(?:` + number + `H)?(?:` + number + `M)?(?:` + number + `S)?)?$`)
)

// ParsePeriod reads a duration as resque-scheduler's every takes it: 30s, 15mins, 1h30m,
// 2.5h, 1d, 1w, 1M (30 days), 1y (365 days), "1 hour and 30 minutes", PT1H, or a plain
// number of seconds. It is at least a second and a whole number of milliseconds. Unlike
// Ruby it does not subtract: there is no 1h-30m.
func ParsePeriod(text string) (time.Duration, error) {
	d, err := ParseDelay(text)
	if err == nil && d < time.Second {
		return 0, fmt.Errorf("%q is no period: it must be at least a second", text)
	}
	return d, err
}

// ParseDelay reads a duration that may also be zero or shorter than a second.
func ParseDelay(text string) (time.Duration, error) {
	text = strings.TrimSpace(text)
	total, err := 0.0, error(nil)
	plus := func(n string, unit time.Duration) {
		f, e := strconv.ParseFloat(n, 64)
		err = errors.Join(err, e)
		total += f * float64(unit/time.Millisecond)
	}
	upper := strings.ToUpper(text)
	if m := iso.FindStringSubmatch(upper); m != nil && upper != "P" && m[5] != "T" {
		for i, unit := range isoUnits {
			if n := m[i+1]; n != "" && unit > 0 {
				plus(n, unit)
			}
		}
	} else {
		for rest := text; rest != "" || text == ""; {
			m := amount.FindStringSubmatch(rest)
			if m == nil {
				return 0, fmt.Errorf("%q is no period; write it as in 30s, 15m, 1h30m, 1d, 1w, 1M, 1y or PT1H", text)
			}
			unit := time.Second
			if i := slices.IndexFunc(m[2:], func(s string) bool { return s != "" }); i >= 0 {
				unit = units[i]
			}
			plus(m[1], unit)
			rest = rest[len(m[0]):]
		}
	}
	if err != nil || total > float64(LongestPeriod/time.Millisecond) {
		return 0, fmt.Errorf("%q is no period: it must be at most 100 years", text)
	}
	return time.Duration(total+0.5) * time.Millisecond, nil
}
