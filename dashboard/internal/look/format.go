package look

import (
	"fmt"
	"html"
	"html/template"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/goworker/goworker/inspect"
)

// This file has every text of the pages that holds a number, so that a translation has one place to change.

// none stands where a number makes no sense: a share of nothing, a time that never was.
const none = "–"

// unknown stands where nothing is known.
const unknown = "?"

// minus is the sign of numbers below zero. It is as wide as a digit.
const minus = "−"

// Whole returns a number in groups of three digits: "14,907". A fraction is rounded. What is no number is returned as
// fmt prints it, so that a template never fails on it; NaN and infinities are "?".
func Whole(n any) string {
	v := reflect.ValueOf(n)
	switch {
	case v.CanInt():
		return sign(v.Int() < 0) + groups(strings.TrimPrefix(strconv.FormatInt(v.Int(), 10), "-"))
	case v.CanUint():
		return groups(strconv.FormatUint(v.Uint(), 10))
	case v.CanFloat():
		f := math.Round(v.Float())
		if !finite(f) {
			return unknown
		}
		return sign(f < 0) + groups(strconv.FormatFloat(math.Abs(f), 'f', 0, 64))
	}
	return fmt.Sprint(n)
}

func groups(digits string) string {
	var b strings.Builder
	for i, c := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func sign(negative bool) string {
	if negative {
		return minus
	}
	return ""
}

// number returns any number of Go as a float64. It is NaN for what is no number.
func number(n any) float64 {
	switch v := reflect.ValueOf(n); {
	case v.CanInt():
		return float64(v.Int())
	case v.CanUint():
		return float64(v.Uint())
	case v.CanFloat():
		return v.Float()
	}
	return math.NaN()
}

func finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Short returns a number with three digits at most and a letter: "981", "8.4k", "14.9k", "148k", "1.2M". It is for
// places that are as narrow as the rail; lists show Whole.
func Short(n any) string {
	f := number(n)
	if !finite(f) {
		return unknown
	}
	return sign(f < 0) + scaled(math.Abs(f), 1000, []string{"", "k", "M", "G", "T", "P", "E"})
}

// scaled divides by the base until three digits are left, and adds the letter of how often it did.
func scaled(f, base float64, letters []string) string {
	at := 0
	for at < len(letters)-1 && f >= base-.5 {
		f /= base
		at++
	}
	digits := 0
	if f < 99.95 {
		digits = 1
	}
	return strings.TrimSuffix(strconv.FormatFloat(f, 'f', digits, 64), ".0") + letters[at]
}

// Bytes returns a size in powers of ten: "814 B", "1.2 kB", "64 MB".
func Bytes(n any) string {
	f := number(n)
	if !finite(f) {
		return unknown
	}
	return sign(f < 0) + scaled(math.Abs(f), 1000, []string{" B", " kB", " MB", " GB", " TB", " PB", " EB"})
}

// Plural returns a number with its noun: "1 job", "3,941 jobs".
func Plural(n any, one, many string) string {
	if number(n) == 1 {
		return "1 " + one
	}
	return Whole(n) + " " + many
}

// Share returns a part in per cent of the whole: "0.3 %", "21 %". It is "0 %" only for nothing and "100 %" only for
// all, "–" of nothing. Say beside it what it is of.
func Share(part, whole any) string {
	p, w := number(part), number(whole)
	if !finite(p) || !finite(w) {
		return unknown
	}
	if w == 0 {
		return none
	}
	return percent(p / w * 100)
}

func percent(f float64) string {
	switch {
	case f > 0 && f < .1:
		return "< 0.1 %"
	case f > 99 && f < 100:
		return "> 99 %"
	case math.Abs(f) < 9.95:
		return strings.Replace(strings.TrimSuffix(strconv.FormatFloat(f, 'f', 1, 64), ".0"), "-", minus, 1) + " %"
	}
	return Whole(f) + " %"
}

// Dur returns a length of time with two units at most, rounded down: "310 ms", "1.2 s", "41 s", "4 min 12 s",
// "2 h 05 min", "3 d 4 h".
func Dur(d time.Duration) string {
	if d < 0 {
		if d == math.MinInt64 {
			d++
		}
		return minus + Dur(-d)
	}
	s := int64(d / time.Second)
	switch {
	case d == 0:
		return "0 s"
	case d < time.Millisecond:
		return fmt.Sprintf("%d µs", d.Microseconds())
	case d < 10*time.Millisecond:
		return tenths(d, time.Millisecond) + " ms"
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return tenths(d, time.Second) + " s"
	case s < 60:
		return fmt.Sprintf("%d s", s)
	case s < 3600 && s%60 == 0:
		return fmt.Sprintf("%d min", s/60)
	case s < 3600:
		return fmt.Sprintf("%d min %d s", s/60, s%60)
	case s < 86400:
		return fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
	}
	return fmt.Sprintf("%s d %d h", Whole(s/86400), s/3600%24)
}

func tenths(d, unit time.Duration) string {
	n := d / (unit / 10)
	return strings.TrimSuffix(fmt.Sprintf("%d.%d", n/10, n%10), ".0")
}

// Count returns a count with the sign of what is known of it: "1,204", "≥ 1,204", "≤ 1,204", "?".
func Count(c inspect.Count) string { return bounded(c.Bound, Whole(c.N)) }

// CountShort is Count with Short's digits.
func CountShort(c inspect.Count) string { return bounded(c.Bound, Short(c.N)) }

func bounded(b inspect.Bound, text string) string {
	switch b {
	case inspect.Exact:
		return text
	case inspect.AtLeast:
		return "≥ " + text
	case inspect.AtMost:
		return "≤ " + text
	}
	return unknown
}

// Age returns how long a job has waited, with the sign of how that is known: "4 min 12 s" is exact, "≈ 4 min 12 s" is
// counted, "> 14 min" was seen, "?" is not known.
func Age(a inspect.Age) string {
	switch a.Method {
	case inspect.AgeExact:
		return Dur(a.For)
	case inspect.AgeCounted:
		return "≈ " + Dur(a.For)
	case inspect.AgeSeen:
		return "> " + Dur(a.For)
	}
	return unknown
}

// Rate returns how often something happens, by the unit in which it is 0.1 or more: "61.2/s", "1.2/min", "0.4/h".
func Rate(r inspect.Rate) string { return bounded(r.Bound, PerSecond(r.PerSecond)) }

// PerSecond is Rate for a bare number.
func PerSecond(f float64) string {
	a := math.Abs(f)
	switch {
	case !finite(f):
		return unknown
	case a == 0 || a >= .0995:
		return Short(f) + "/s"
	case a*60 >= .0995:
		return Short(f*60) + "/min"
	}
	return Short(f*3600) + "/h"
}

// Unknown returns the question mark, with the reason as its title.
func Unknown(reason string) template.HTML {
	return template.HTML(`<span class="q" title="` + attr(reason) + `">?</span>`)
}

// Times prints the times of one page. Each is a time element with the full time and its zone as title. A zero time is
// "–".
type Times struct {
	Now time.Time      // by the clock of Redis, as the server of the page knows it
	Loc *time.Location // nil: UTC
}

func (t Times) loc() *time.Location {
	if t.Loc == nil {
		return time.UTC
	}
	return t.Loc
}

// Ago returns how long ago a time was: "41 s ago", "2 h 05 min ago". The script keeps it true. It is "now" within two
// seconds, and "in 4 s" for a later time.
func (t Times) Ago(at time.Time) template.HTML {
	return t.element(at, " data-rel", relative(t.Now.Sub(at)))
}

// In returns when a time comes: "in 53 s". For one that has passed it says what Ago says.
func (t Times) In(at time.Time) template.HTML { return t.Ago(at) }

// relative has the rules of the script's function of the same name: a text that changes each second would move without
// need, so seconds show below a minute only.
func relative(d time.Duration) string {
	future := d < 0
	if future {
		d = -d
	}
	if d < 0 {
		d = math.MaxInt64
	}
	s := int64(d / time.Second)
	text := ""
	switch {
	case s < 2:
		return "now"
	case s < 60:
		text = fmt.Sprintf("%d s", s)
	case s < 3600:
		text = fmt.Sprintf("%d min", s/60)
	case s < 86400:
		text = fmt.Sprintf("%d h %02d min", s/3600, s/60%60)
	default:
		text = fmt.Sprintf("%d d %d h", s/86400, s/3600%24)
	}
	if future {
		return "in " + text
	}
	return text + " ago"
}

// Clock returns the time of day; of another day the date too, of another year the date alone.
func (t Times) Clock(at time.Time) template.HTML {
	now, local := t.Now.In(t.loc()), at.In(t.loc())
	layout := "15:04:05"
	switch {
	case local.Year() != now.Year():
		layout = "2 Jan 2006"
	case local.YearDay() != now.YearDay():
		layout = "2 Jan 15:04"
	}
	return t.element(at, "", local.Format(layout))
}

// Day returns the day of a time: "Wed 14 Oct", with its year where it is another one.
func (t Times) Day(at time.Time) template.HTML {
	local := at.In(t.loc())
	layout := "Mon 2 Jan"
	if local.Year() != t.Now.In(t.loc()).Year() {
		layout = "Mon 2 Jan 2006"
	}
	return t.element(at, "", local.Format(layout))
}

// Zone returns the zone of the page's times for its foot: "CEST, UTC+2".
func (t Times) Zone() string {
	local := t.Now.In(t.loc())
	name, offset := local.Zone()
	if offset == 0 {
		return "UTC"
	}
	text := "UTC+"
	if offset < 0 {
		text, offset = "UTC"+minus, -offset
	}
	text += strconv.Itoa(offset / 3600)
	if m := offset / 60 % 60; m != 0 {
		text += fmt.Sprintf(":%02d", m)
	}
	if name == "" || strings.ContainsAny(name[:1], "+-") {
		return text
	}
	return name + ", " + text
}

func (t Times) element(at time.Time, mark, text string) template.HTML {
	if at.IsZero() {
		return `<span class="q">` + none + `</span>`
	}
	local := at.In(t.loc())
	return template.HTML(fmt.Sprintf(`<time datetime="%s" title="%s"%s>%s</time>`, local.Format("2006-01-02T15:04:05.000Z07:00"),
		attr(local.Format("Mon 2 Jan 2006, 15:04:05 MST")), mark, html.EscapeString(text)))
}
