package look

import (
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"
)

// Spark is a line for a cell of a table, 96 by 24. Its class is its colour: "", bad, warn or q.
func Spark(v []float64, class, label string) template.HTML {
	v, _ = thin(v, tinyPoints, largest)
	path, area := line(v, 96, 22, math.Max(top(v)*1.05, 1e-300))
	var p picture
	p.add(`<svg class="%s" viewBox="0 0 96 24" preserveAspectRatio="none" %s>`, attr(strings.TrimSpace("spark "+class)), named(label))
	if path != "" {
		p.add(`<path class="ar" d="%s"/><path class="ln" d="%s"/>`, area, path)
	}
	p.WriteString(`</svg>`)
	return p.html()
}

// Bars are columns for a cell of a table, for what is counted in buckets. Their class is a colour of Part.
func Bars(v []float64, class, label string) template.HTML {
	v, _ = thin(v, tinyPoints/2, sum)
	most := math.Max(top(v), 1e-300)
	var p picture
	p.add(`<svg class="spark" viewBox="0 0 96 24" preserveAspectRatio="none" %s>`, named(label))
	w := 96 / float64(max(1, len(v)))
	wide := math.Min(w*.8, 8)
	for i, x := range v {
		x = sane(x)
		switch {
		case math.IsNaN(x):
		case x == 0:
			p.add(`<rect class="co w dim" x="%s" y="23.2" width="%s" height=".8"/>`, num(float64(i)*w+(w-wide)/2), num(wide))
		default:
			h := math.Max(x/most*22, 1.5)
			p.add(`<rect class="%s" x="%s" y="%s" width="%s" height="%s"/>`, attr("co "+class), num(float64(i)*w+(w-wide)/2), num(24-h), num(wide), num(h))
		}
	}
	p.WriteString(`</svg>`)
	return p.html()
}

// Part is a piece of a meter. Class is its colour: "" accent, o done, f failed, y warn, l later, w grey.
type Part struct {
	Share float64 // per cent
	Class string
}

// Parts makes the pieces of a meter of pairs of a share in per cent and a class, as templates write them.
func Parts(pairs ...any) (all []Part) {
	for i := 0; i+1 < len(pairs); i += 2 {
		all = append(all, Part{number(pairs[i]), fmt.Sprint(pairs[i+1])})
	}
	return all
}

// Meter is a bar that is full at 100 per cent.
func Meter(share any, class, label string) template.HTML {
	return SplitMeter(Parts(share, class), label)
}

// SplitMeter is a bar of several pieces. What goes beyond 100 per cent is not drawn.
func SplitMeter(parts []Part, label string) template.HTML {
	var p picture
	p.add(`<svg class="mtr" viewBox="0 0 100 5" preserveAspectRatio="none" %s><rect class="t" width="100" height="5" rx="1"/>`, named(label))
	x := 0.0
	for _, part := range parts {
		w := math.Min(sane(part.Share), 100-x)
		if !(w > 0) {
			continue
		}
		p.add(`<rect class="%s" x="%s" width="%s" height="5" rx="1"/>`, attr(strings.TrimSpace("co "+part.Class)), num(x), num(math.Max(w-.35, .5)))
		x += w
	}
	p.WriteString(`</svg>`)
	return p.html()
}

// Run is how long a job has run.
type Run struct {
	For, Usual, Limit time.Duration // Usual and Limit: 0, not known or none
	LimitName         string        // "limit", "lease"; "": limit
}

// Runtime is a bar of a running job: how much of its limit is used, with a tick at its usual time. Without a limit the
// bar ends at twice the longer one of its time and its usual time. It has its numbers as name.
func Runtime(r Run) template.HTML {
	if r.LimitName == "" {
		r.LimitName = "limit"
	}
	end, label := r.Limit, Dur(r.For)
	if end <= 0 {
		end = 2 * max(r.For, r.Usual, 1)
	}
	if r.Usual > 0 {
		label += ", usually " + Dur(r.Usual)
	}
	class := "co"
	if r.Limit > 0 {
		label += ", " + r.LimitName + " " + Dur(r.Limit)
		if r.For > r.Limit {
			class = "co f"
		}
	}
	share := func(d time.Duration) float64 { return math.Max(0, math.Min(100, 100*float64(d)/float64(end))) }
	var p picture
	p.add(`<svg class="mtr rb" viewBox="0 0 100 9" preserveAspectRatio="none" %s><rect class="t" y="2" width="100" height="5" rx="1"/><rect class="%s" y="2" width="%s" height="5" rx="1"/>`, named(label), class, num(share(r.For)))
	if r.Usual > 0 {
		p.add(`<rect class="us" x="%s" width="1" height="9"/>`, num(math.Min(99, share(r.Usual))))
	}
	p.WriteString(`</svg>`)
	return p.html()
}

// Slots are the workers of a process. Those that are late or stuck are among the busy ones.
type Slots struct {
	Total int
	Busy  int
	Late  int // run a job for longer than it usually takes
	Stuck int // run a job past its time limit
}

// slotCells is the most workers that have a cell each.
const slotCells = 50

// SlotCells draws a cell for each worker, or one bar above 50.
func SlotCells(s Slots) template.HTML {
	total := max(0, s.Total)
	busy := min(max(0, s.Busy), total)
	stuck := min(max(0, s.Stuck), busy)
	late := min(max(0, s.Late), busy-stuck)
	label := Whole(busy) + " of " + Plural(total, "worker busy", "workers busy")
	if late > 0 {
		label += ", " + Whole(late) + " longer than usual"
	}
	if stuck > 0 {
		label += ", " + Whole(stuck) + " past the limit"
	}
	if total > slotCells {
		of := func(n int) float64 { return 100 * float64(n) / float64(total) }
		return SplitMeter([]Part{{of(stuck), "f"}, {of(late), "y"}, {of(busy - late - stuck), ""}}, label)
	}
	var p picture
	p.add(`<span class="slots" %s>`, named(label))
	for _, c := range []struct {
		n    int
		cell string
	}{{stuck, `<i class="s"></i>`}, {late, `<i class="p"></i>`}, {busy - late - stuck, `<i class="b"></i>`}, {total - busy, `<i></i>`}} {
		p.WriteString(strings.Repeat(c.cell, c.n))
	}
	p.WriteString(`</span>`)
	return p.html()
}

// Hist draws how the last runs ended, the newest last: o done, f failed, r retried, m missed, any other letter not
// known. It shows the last 60.
func Hist(ends string) template.HTML {
	all := []rune(clean(ends))
	all = all[max(0, len(all)-60):]
	failed, missed := 0, 0
	var cells picture
	for _, c := range all {
		switch c {
		case 'f':
			failed++
		case 'm':
			missed++
		case 'o', 'r':
		default:
			c = 'u'
		}
		cells.add(`<i class="%c"></i>`, c)
	}
	label := "no run yet"
	if len(all) > 0 {
		label = fmt.Sprintf("of the last %s %d failed, %d missed", Plural(len(all), "run", "runs"), failed, missed)
	}
	return template.HTML(`<span class="hist" ` + named(label) + `>` + cells.String() + `</span>`)
}
