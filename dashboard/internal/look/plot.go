package look

import (
	"fmt"
	"html/template"
	"math"
	"strconv"
	"strings"
	"time"
)

// Plots are SVG. Shapes sit in a stretched inner view box, texts are placed by per cent outside of it, so nothing is
// distorted at any width, and no style attribute is needed.
//
// Values that are NaN or infinite are not known: a line has a gap there, a column is left out. Values below zero are
// drawn as zero. Above a plot's number of points neighbours are joined, so that a page stays small whatever it shows.

// Unnamed is the name of a plot whose caller gave none. Tests of pages look for it: a screen reader needs the sentence.
const Unnamed = "a plot without a name"

const (
	linePoints = 720 // of a series
	tinyPoints = 96  // of a spark or its bars
	colPoints  = 300 // columns of one plot
	padTop     = 14  // pixels above the area of a plot, for the names of its marks
	axisFoot   = 18  // pixels beneath it, for the times
)

// picture builds one SVG.
type picture struct{ strings.Builder }

func (p *picture) add(format string, args ...any) { fmt.Fprintf(p, format, args...) }

func (p *picture) html() template.HTML { return template.HTML(p.String()) }

// named are the attributes that make an SVG one image with a name.
func named(label string) string {
	if strings.TrimSpace(label) == "" {
		label = Unnamed
	}
	return `role="img" aria-label="` + attr(label) + `"`
}

// group is named for an SVG with links in it, which an image must not have.
func group(label string) string { return strings.Replace(named(label), "img", "group", 1) }

// sane returns the value as it is drawn: NaN where nothing is known.
func sane(f float64) float64 {
	if !finite(f) {
		return math.NaN()
	}
	return math.Max(0, f)
}

// largest and sum join the values of a bucket; both return NaN if nothing is known of it.
func largest(v []float64) float64 {
	top := math.NaN()
	for _, f := range v {
		if f = sane(f); !math.IsNaN(f) && !(f <= top) {
			top = f
		}
	}
	return top
}

func sum(v []float64) float64 {
	total := math.NaN()
	for _, f := range v {
		if f = sane(f); !math.IsNaN(f) {
			if math.IsNaN(total) {
				total = 0
			}
			total += f
		}
	}
	return total
}

// thin returns at most n values, each made of neighbours by join, and how many neighbours that are.
func thin(v []float64, n int, join func([]float64) float64) (thinned []float64, each int) {
	each = max(1, (len(v)+n-1)/n)
	for i := 0; i < len(v); i += each {
		thinned = append(thinned, join(v[i:min(len(v), i+each)]))
	}
	return thinned, each
}

// top is the largest value, at least zero.
func top(v []float64) float64 {
	if t := largest(v); !math.IsNaN(t) {
		return t
	}
	return 0
}

// nice returns the round number at which a scale ends, and in how many steps it is divided.
func nice(most float64) (end float64, steps int) {
	if !(most > 0) {
		return 1, 1
	}
	mag := math.Pow(10, math.Floor(math.Log10(most)))
	if !(mag > 0) || math.IsInf(mag*10, 0) {
		return most, 1
	}
	for _, m := range []struct {
		f float64
		n int
	}{{1, 2}, {1.5, 3}, {2, 2}, {3, 3}, {4, 2}, {6, 3}, {8, 2}} {
		if most <= m.f*mag {
			return m.f * mag, m.n
		}
	}
	return 10 * mag, 2
}

// niceCount is nice for a scale of whole things, which has no step of a half.
func niceCount(most float64) (end float64, steps int) {
	if most > 0 && most <= 1 {
		return 1, 1
	}
	end, steps = nice(most)
	if end/float64(steps) < 1 {
		steps = 1
	}
	return end, steps
}

// line returns the path of values in a box, and of the areas beneath it, with a gap where a value is not known.
func line(v []float64, w, h, end float64) (path, area string) {
	p, a := make([]byte, 0, 12*len(v)), make([]byte, 0, 12*len(v)+32)
	point := func(to byte, x, y float64) { p = appendNum(append(appendNum(append(p, to), x), ' '), y) }
	x := func(i int) float64 { return float64(i) * w / float64(max(1, len(v)-1)) }
	y := func(f float64) float64 { return h - math.Min(1, f/end)*h }
	for i := 0; i < len(v); i++ {
		if math.IsNaN(sane(v[i])) {
			continue
		}
		from, begin := i, len(p)
		point('M', x(i), y(sane(v[i])))
		for i+1 < len(v) && !math.IsNaN(sane(v[i+1])) {
			i++
			point('L', x(i), y(sane(v[i])))
		}
		right := x(i)
		if from == i { // a value alone is a short level line, else it would not show
			right = x(i) + w/math.Max(50, float64(len(v)))
			if len(v) == 1 {
				right = w
			}
			point('L', right, y(sane(v[i])))
		}
		a = append(a, p[begin:]...)
		a = appendNum(append(appendNum(append(a, 'L'), right), ' '), h)
		a = appendNum(append(appendNum(append(a, 'L'), x(from)), ' '), h)
		a = append(a, 'z')
	}
	return string(p), string(a)
}

// num prints a coordinate without needless digits.
func num(f float64) string { return string(appendNum(nil, f)) }

func appendNum(b []byte, f float64) []byte {
	if !finite(f) {
		return append(b, '0')
	}
	tenths := math.Round(f * 10)
	if math.Abs(tenths) > 1e15 {
		return strconv.AppendFloat(b, f, 'f', 0, 64)
	}
	n := int64(tenths)
	if n < 0 {
		b, n = append(b, '-'), -n
	}
	b = strconv.AppendInt(b, n/10, 10)
	if n%10 != 0 {
		b = append(b, '.', byte('0'+n%10))
	}
	return b
}

// pct prints a share of the width.
func pct(f float64) string { return strings.TrimSuffix(fmt.Sprintf("%.2f", f*100), ".00") + "%" }

// grid draws the lines and numbers of a scale.
func (p *picture) grid(y0, area, end float64, steps int) {
	for i := 0; i <= steps; i++ {
		y := y0 + area*(1-float64(i)/float64(steps))
		class := "grid"
		if i == 0 {
			class = "base"
		}
		p.add(`<line class="%s" x1="0" x2="100%%" y1="%s" y2="%s"/>`, class, num(y), num(y))
		if i > 0 {
			p.add(`<text x="-8" y="%s" text-anchor="end">%s</text>`, num(y+4), Short(end*float64(i)/float64(steps)))
		}
	}
}

// stretched opens an inner picture of 1000 by h units that fills the width.
func (p *picture) stretched(y, h float64) {
	p.add(`<svg x="0" y="%s" width="100%%" height="%s" viewBox="0 0 1000 %s" preserveAspectRatio="none">`, num(y), num(h), num(h))
}

// tick is a label of an axis of time.
type tick struct {
	at   float64 // 0 to 1
	text string
}

// ticks returns round times of a span in the zone of its begin, at most nine.
func ticks(from, to time.Time) (all []tick) {
	if from.IsZero() || !to.After(from) {
		return nil
	}
	whole, minute, hour, day := to.Sub(from), time.Minute, time.Hour, 24*time.Hour
	steps := []time.Duration{10 * time.Second, 30 * time.Second, minute, 2 * minute, 5 * minute, 10 * minute, 15 * minute, 30 * minute, hour, 2 * hour, 3 * hour, 6 * hour,
		12 * hour, day, 2 * day, 7 * day, 14 * day, 30 * day, 91 * day, 365 * day}
	step := steps[len(steps)-1]
	for _, s := range steps {
		if whole/s <= 8 {
			step = s
			break
		}
	}
	if whole/step > 64 {
		return nil
	}
	layout := "15:04"
	switch {
	case step < minute:
		layout = "15:04:05"
	case step >= day:
		layout = "2 Jan"
	case whole > 36*hour:
		layout = "Mon 15:04"
	}
	y, m, d := from.Date()
	midnight := time.Date(y, m, d, 0, 0, 0, 0, from.Location())
	for i := max(0, int(from.Sub(midnight)/step)); ; i++ {
		at := midnight.Add(time.Duration(i) * step)
		if step >= day { // days have 23 or 25 hours now and then
			at = midnight.AddDate(0, 0, i*int(step/day))
		}
		if at.After(to) {
			return all
		}
		if !at.Before(from) {
			all = append(all, tick{float64(at.Sub(from)) / float64(whole), at.Format(layout)})
		}
	}
}

// times draws the labels of an axis. Phones leave out each second one.
func (p *picture) times(from, to time.Time, y float64) {
	for i, t := range ticks(from, to) {
		anchor, class := "middle", ""
		if t.at < .015 {
			anchor = "start"
		} else if t.at > .985 {
			anchor = "end"
		}
		if i%2 == 1 {
			class = ` class="odd"`
		}
		p.add(`<text%s x="%s" y="%s" text-anchor="%s">%s</text>`, class, pct(t.at), num(y), anchor, t.text)
	}
}

// Mark is something that happened at one time, such as a deploy. A mark outside of its plot is not drawn.
type Mark struct {
	At   time.Time
	Text string
}

// marks draws dashed lines. One that follows another closely has its name as title only.
func (p *picture) marks(all []Mark, from, to time.Time, foot float64) {
	last := -1.0
	for _, m := range all[max(0, len(all)-40):] {
		if !to.After(from) || m.At.Before(from) || m.At.After(to) {
			continue
		}
		at := float64(m.At.Sub(from)) / float64(to.Sub(from))
		p.add(`<g><title>%s</title><line class="mark" x1="%s" x2="%s" y1="0" y2="%s"/>`, attr(m.Text), pct(at), pct(at), num(foot))
		if last < 0 || at-last > .2 {
			anchor, dx := "start", 5
			if at > .6 {
				anchor, dx = "end", -5
			}
			p.add(`<svg x="%s" y="0" overflow="visible"><text class="tag" x="%d" y="9" text-anchor="%s">%s</text></svg>`, pct(at), dx, anchor, attr(cut(m.Text, 28)))
			last = at
		}
		p.WriteString(`</g>`)
	}
}

// cut shortens a text to n characters, the last of them an ellipsis.
func cut(s string, n int) string {
	r := []rune(clean(s))
	if len(r) <= n {
		return string(r)
	}
	return string(r[:n-1]) + "…"
}
