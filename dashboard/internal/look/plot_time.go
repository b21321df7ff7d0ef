package look

import (
	"html/template"
	"math"
	"strings"
	"time"
)

// Span is a piece of a lane. Class is its colour as of Part; w and l, waiting and delayed, are drawn thin.
type Span struct {
	From, To time.Time
	Class    string
	Title    string
}

// Gantt is one lane, such as the life of a job. A legend beside it says which colour is which.
type Gantt struct {
	Label    string // a sentence for whom the picture is hidden from; required
	Spans    []Span // the last 300 are drawn
	From, To time.Time
}

// GanttPlot draws a Gantt. It fills the width of its panel.
func GanttPlot(g Gantt) template.HTML {
	whole := float64(g.To.Sub(g.From))
	at := func(t time.Time) float64 { return math.Max(0, math.Min(1, float64(t.Sub(g.From))/whole)) }
	var p picture
	p.add(`<svg class="plot" height="46" %s><svg width="100%%" height="22" viewBox="0 0 1000 22" preserveAspectRatio="none">`, named(g.Label))
	for _, s := range g.Spans[max(0, len(g.Spans)-colPoints):] {
		if !(whole > 0) || s.To.Before(s.From) || s.To.Before(g.From) || s.From.After(g.To) {
			continue
		}
		y, h := 6, 10
		if strings.HasPrefix(s.Class, "w") || strings.HasPrefix(s.Class, "l") {
			y, h = 9, 4
		}
		from, to := at(s.From)*1000, at(s.To)*1000
		p.add(`<rect class="%s" x="%s" y="%d" width="%s" height="%d"><title>%s</title></rect>`, attr(strings.TrimSpace("co "+s.Class)), num(math.Min(from, 996)), y, num(math.Max(to-from-1.5, 3.5)), h, attr(s.Title))
	}
	p.add(`</svg><line class="base" x1="0" x2="100%%" y1="25" y2="25"/>`)
	p.times(g.From, g.To, 40)
	p.WriteString(`</svg>`)
	return p.html()
}

// Day is when schedules fire, a row for each: the next 24 hours as a rule.
type Day struct {
	Label    string // a sentence for whom the picture is hidden from; required
	From, To time.Time
	Rows     []Ticks // the first 60 are drawn
}

// Ticks are the times at which one schedule fires. More than 72 of them within the Day are drawn as a line.
type Ticks struct {
	Name  string
	At    []time.Time
	Class string // a colour of Part
}

const (
	dayRows  = 60
	dayDense = 72
)

// DayPlot draws a Day. It fills the width of its panel.
func DayPlot(d Day) template.HTML {
	const row = 22
	rows := d.Rows[:min(len(d.Rows), dayRows)]
	h := float64(len(rows) * row)
	whole := float64(d.To.Sub(d.From))
	var p picture
	p.add(`<svg class="plot dy" height="%s" %s>`, num(h+axisFoot+4), named(d.Label))
	for _, t := range ticks(d.From, d.To) {
		p.add(`<line class="grid" x1="%s" x2="%s" y1="0" y2="%s"/>`, pct(t.at), pct(t.at), num(h))
	}
	for i, r := range rows {
		y := i*row + row/2
		class := attr(strings.TrimSpace("co " + r.Class))
		p.add(`<g><title>%s</title><text class="nm" x="-10" y="%d" text-anchor="end">%s</text><line class="grid" x1="0" x2="100%%" y1="%d" y2="%d"/>`, attr(r.Name), y+4, attr(cut(r.Name, 22)), y, y)
		var in []float64
		for _, t := range r.At {
			if whole > 0 && !t.Before(d.From) && !t.After(d.To) {
				in = append(in, float64(t.Sub(d.From))/whole)
			}
		}
		if len(in) > dayDense {
			p.add(`<rect class="%s dim" x="0" y="%d" width="100%%" height="6" rx="3"/>`, class, y-3)
			in = nil
		}
		w, th := 5, 14
		if len(in) > 12 {
			w, th = 3, 10
		}
		for _, at := range in {
			p.add(`<rect class="%s" x="%s" y="%d" width="%d" height="%d" rx="%s"/>`, class, pct(at), y-th/2, w, th, num(float64(w)/2))
		}
		p.WriteString(`</g>`)
	}
	p.add(`<line class="base" x1="0" x2="100%%" y1="%s" y2="%s"/>`, num(h), num(h))
	p.times(d.From, d.To, h+axisFoot-2)
	p.WriteString(`</svg>`)
	return p.html()
}
