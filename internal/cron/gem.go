package cron

import (
	"fmt"
	"strconv"
	"time"

	"github.com/goworker/goworker/internal/pattern"
)

// Gem is a version of Ruby's fugit. The zero Gem is the default: weeks are counted
// as the newest version does, and crons are written for all versions from oldest on.
type Gem struct{ major, minor int }

// oldest is the first version for which crons are written. Before it 5/15 was 5.
var oldest = Gem{1, 5}

var (
	andSince    = Gem{1, 7}  // reads fri&, and has sun%3+1 in the week after that of sun%3, not before it
	mondaySince = Gem{1, 12} // needs et-orbi 1.4, which counts weeks from a Monday; and takes mon#3 of mon#1,mon#3 too
)

var gemVersion = pattern.New(`^([0-9]{1,4})\.([0-9]{1,4})(?:\.[0-9]{1,4})*$`)

// ParseGem reads a version such as 1.11 or 1.12.3; "" is the zero Gem.
func ParseGem(text string) (Gem, error) {
	if text == "" {
		return Gem{}, nil
	}
	m := gemVersion.FindStringSubmatch(text)
	if m == nil {
		return Gem{}, fmt.Errorf("%q is no version of fugit; write it as in 1.11 or 1.12.3", text)
	}
	var g Gem
	g.major, _ = strconv.Atoi(m[1])
	g.minor, _ = strconv.Atoi(m[2])
	if g.before(oldest) {
		return Gem{}, fmt.Errorf("fugit %s is older than %v, the first that is known here; in YAML quote the version, since 1.10 is the number 1.1 there", text, oldest)
	}
	return g, nil
}

func (g Gem) String() string { return fmt.Sprintf("%d.%d", g.major, g.minor) }

func (g Gem) before(other Gem) bool {
	return g.major < other.major || g.major == other.major && g.minor < other.minor
}

// isNamed reports whether a program named the version.
func (g Gem) isNamed() bool { return g != Gem{} }

// inWeek reports whether a date is in one of the weeks that %n+plus names.
//
// They are numbered from Monday, 31 December 2018, whose week is 0. Versions before 1.12
// number them from Tuesday, 1 January 2019, whose week is 1.
func (g Gem) inWeek(date time.Time, n, plus int) bool {
	first, number := time.Date(2018, 12, 31, 0, 0, 0, 0, time.UTC), 0
	if g.countsFromTuesday() {
		first, number = first.AddDate(0, 0, 1), 1
	}
	const day = 24 * 60 * 60
	days := int((date.Truncate(24*time.Hour).Unix() - first.Unix()) / day)
	number += (days - mod(days, 7)) / 7
	if g.countsBackwards() {
		plus = -plus
	}
	return mod(number-plus, n) == 0
}

func (g Gem) countsFromTuesday() bool { return g.isNamed() && g.before(mondaySince) }

// countsBackwards reports whether sun%3+1 is in the week before that of sun%3.
func (g Gem) countsBackwards() bool { return g.isNamed() && g.before(andSince) }

func mod(a, n int) int { return ((a % n) + n) % n }
