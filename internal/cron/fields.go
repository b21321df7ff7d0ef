package cron

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/goworker/goworker/internal/pattern"
)

// field is one of a cron's. Its lists, ranges and steps are expanded here, as in fugit,
// since the library refuses some of them and misreads others.
type field struct {
	min, max int
	top      int      // the largest number that may be written: 24 is midnight, 7 is Sunday
	names    []string // of the values from the first one on
}

var (
	sixty    = field{0, 59, 59, nil}
	hours    = field{0, 23, 24, nil}
	days     = field{1, 31, 31, nil} // also counted from the end of the month
	months   = field{1, 12, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}}
	weekdays = field{0, 6, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}}
)

// allFields are those of a cron with seconds.
var allFields = []field{sixty, sixty, hours, days, months, weekdays}

var span = pattern.New(`^(?:[*?]|(-?[0-9]{1,2}|[a-z]+)(?:-(-?[0-9]{1,2}|[a-z]+))?)?(?:/([0-9]{1,2}))?$`)

// list writes a field as a list of numbers, or as * if it matches all.
func (f field) list(text string) (string, error) {
	var all []int
	star := false
	for item := range strings.SplitSeq(strings.ToLower(text), ",") {
		if item == "" {
			continue // as in "1,", which newer versions of fugit take
		}
		each, err := f.expand(item)
		if err != nil {
			return "", err
		}
		star = star || each == nil
		all = append(all, each...)
	}
	switch {
	case star && (len(all) == 0 || f.max != weekdays.max): // beside other weekdays * has no effect
		return "*", nil
	case len(all) == 0:
		return "", errors.New("a field is empty")
	}
	slices.Sort(all)
	var b strings.Builder
	for _, n := range slices.Compact(all) {
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		switch {
		case n >= 0:
			b.WriteString(strconv.Itoa(n))
		case n == -1:
			b.WriteString("L")
		default:
			fmt.Fprintf(&b, "L-%d", -n-1)
		}
	}
	return b.String(), nil
}

// expand lists the values of one item of a field; nil: all.
func (f field) expand(item string) ([]int, error) {
	wrong := func(why string) ([]int, error) { return nil, fmt.Errorf("%q %s", item, why) }
	m := span.FindStringSubmatch(item)
	if m == nil {
		return wrong("is no list, range or step")
	}
	step := 1
	if m[3] != "" {
		if step, _ = strconv.Atoi(m[3]); step == 0 {
			return wrong("steps by 0")
		}
	}
	from, to := f.min, f.max
	week := f.max == weekdays.max
	switch {
	case m[1] == "" && step == 1 && (m[3] == "" || !week):
		return nil, nil
	case m[1] != "":
		var ok, too bool
		from, ok = f.value(m[1])
		switch {
		case m[2] != "":
			to, too = f.value(m[2])
		case m[3] == "" || week:
			to, too = from, true
		default:
			too = true // to the end
		}
		if !ok || !too {
			return wrong(fmt.Sprintf("names what is not between %d and %d", f.min, f.top))
		}
	}
	switch {
	case !week && from == f.min && to == f.max && step == 1:
		return nil, nil
	case from == f.top && from > f.max && from != to: // it begins with midnight or Sunday
		if step > 1 && !week {
			return wrong("steps from 24")
		}
		from = 0
	case from == f.min && to == -1 && step == 1:
		return nil, nil
	case from > 0 && to == -1:
		to = f.max
	case (from < 0) != (to < 0), from < 0 && from > to:
		return wrong("names no days; -1 and L are the last of the month, -3-L the last three")
	}
	if from > to {
		to += f.max - f.min + 1
	}
	var each []int
	for n := from; n <= to; n += step {
		if n > f.max {
			each = append(each, n-f.max-1+f.min)
		} else {
			each = append(each, n)
		}
	}
	return each, nil
}

// value reads a number or a name. Hours go to 24, weekdays to 7, and days of the month
// are also counted from the end.
func (f field) value(text string) (int, bool) {
	if f.max == days.max && (text == "l" || text == "last") {
		return -1, true
	}
	if i := slices.Index(f.names, text); i >= 0 {
		return f.min + i, true
	}
	n, err := strconv.Atoi(text)
	if f.max == days.max && -31 <= n && n < 0 {
		return n, true
	}
	return n, err == nil && f.min <= n && n <= f.top
}
