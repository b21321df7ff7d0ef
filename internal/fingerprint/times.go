package fingerprint

import (
	"slices"
	"strings"
)

// The words of times, in the order of letters.
var (
	days   = []string{"Fri", "Friday", "Mon", "Monday", "Sat", "Saturday", "Sun", "Sunday", "Thu", "Thursday", "Tue", "Tuesday", "Wed", "Wednesday"}
	months = []string{
		"Apr", "April", "Aug", "August", "Dec", "December", "Feb", "February", "Jan", "January", "Jul", "July", "Jun", "June", "Mar", "March", "May",
		"Nov", "November", "Oct", "October", "Sep", "Sept", "September",
	}
	zones = []string{
		"AM", "BST", "CDT", "CEST", "CET", "CST", "EDT", "EEST", "EET", "EST", "GMT", "IST", "JST", "MDT", "MSK", "MST", "PDT", "PM", "PST", "UTC", "Z",
		"am", "pm",
	}
)

func among(words []string, word string) bool {
	_, found := slices.BinarySearch(words, word)
	return found
}

// timer reads a time.
type timer struct {
	text string
	at   int
}

// timeOf returns how long a time or a date is with which a text begins; 0: it begins with none.
func timeOf(text string) int {
	t := &timer{text: text}
	if isDigit(text[0]) {
		if !t.date() && !t.dayMonth() && !t.clock(3) {
			return 0
		}
	} else if strings.IndexByte("ADFJMNOSTW", text[0]) < 0 || !t.words() {
		return 0
	}
	t.rest()
	if t.at < len(text) && isAlnum(text[t.at]) {
		return 0
	}
	return t.at
}

// try reads with f, or nothing.
func (t *timer) try(f func() bool) bool {
	start := t.at
	if f() {
		return true
	}
	t.at = start
	return false
}

// digits reads a number of so many digits.
func (t *timer) digits(least, most int) bool {
	n := span(t.text[t.at:], most+1, isDigit)
	if n < least || n > most {
		return false
	}
	t.at += n
	return true
}

// one reads one of some characters.
func (t *timer) one(of string) bool {
	if t.at < len(t.text) && strings.IndexByte(of, t.text[t.at]) >= 0 {
		t.at++
		return true
	}
	return false
}

func (t *timer) name(words []string) bool {
	n := span(t.text[t.at:], 10, isLetter)
	if n < 1 || !among(words, t.text[t.at:t.at+n]) {
		return false
	}
	t.at += n
	return true
}

// date reads 2026-11-22, 2026/11/22, 22.11.2026, 20261122T080000.
func (t *timer) date() bool {
	return t.try(func() bool { return t.digits(4, 4) && t.one("-/") && t.digits(1, 2) && t.one("-/") && t.digits(1, 2) }) ||
		t.try(func() bool { return t.digits(1, 2) && t.one("-/.") && t.digits(1, 2) && t.one("-/.") && t.digits(4, 4) }) ||
		t.try(func() bool { return t.digits(8, 8) && t.one("T") && t.digits(6, 6) })
}

// dayMonth reads 22 Nov 2026, 22-Nov-2026, 22/Nov/2026.
func (t *timer) dayMonth() bool {
	return t.try(func() bool { return t.digits(1, 2) && t.one(" -/") && t.name(months) && t.one(" -/") && t.digits(4, 4) })
}

// clock reads 08:00:00.123. least is 2 where 08:00 will do.
func (t *timer) clock(least int) bool {
	return t.try(func() bool {
		if !t.digits(1, 2) || !t.one(":") || !t.digits(2, 2) {
			return false
		}
		if t.try(func() bool { return t.one(":") && t.digits(2, 2) }) {
			t.try(func() bool { return t.one(".,") && t.digits(1, 9) })
			return true
		}
		return least == 2
	})
}

// words reads Sun, 22 Nov 2026, Sun Nov 22, November 22.
func (t *timer) words() bool {
	return t.try(func() bool {
		if t.name(days) {
			t.one(",")
			if !t.one(" ") {
				return false
			}
			if t.date() || t.dayMonth() {
				return true
			}
		}
		if !t.name(months) || !t.one(" ") {
			return false
		}
		t.one(" ")
		return t.digits(1, 2)
	})
}

// rest reads what stands behind a date or a clock: a clock, a zone, a year.
func (t *timer) rest() {
	for range 5 {
		more := t.try(func() bool { t.one(","); return t.one(" T:") && t.clock(2) }) ||
			t.try(func() bool { t.one(","); return t.one(" ") && t.digits(4, 4) && t.ends() }) ||
			t.try(func() bool { t.one(" "); return t.name(zones) && t.ends() }) ||
			t.try(func() bool { t.one(" "); return t.one("+-") && t.digits(2, 2) && t.one(":") && t.digits(2, 2) }) ||
			t.try(func() bool { t.one(" "); return t.one("+-") && t.digits(4, 4) })
		if !more {
			return
		}
	}
}

// ends reports whether a word ends here.
func (t *timer) ends() bool {
	return t.at == len(t.text) || !isAlnum(t.text[t.at]) || isDigit(t.text[t.at]) || t.text[t.at] == '+'
}
