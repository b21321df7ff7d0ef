package look

import (
	"encoding/json"
	"html/template"
	"math"
	"slices"
	"time"
)

// Series is a plot of values over time: an area, a dashed line over it, and columns of a scale of their own beneath it.
type Series struct {
	Label string // a sentence for whom the picture is hidden from; required

	// Start is the time of the first value, in the zone of the axis, and Step the time between two. Above 720 values
	// each point is the largest of its neighbours, so that no peak is lost.
	Start time.Time
	Step  time.Duration

	Values, Second, Below       []float64 // Second and Below may be nil. NaN is not known
	Name, SecondName, BelowName string    // for the tip: "done", "taken", "failed"
	Unit, SecondUnit, BelowUnit string    // for the tip: "/s", "a minute"
	Marks                       []Mark
	Height                      int    // pixels; 0: 200, at least 96 with columns
	Class                       string // a colour: "", warn or bad
}

func (s Series) end() time.Time { return s.Start.Add(s.Step * time.Duration(max(0, len(s.Values)-1))) }

// tip is what the script shows beside the pointer. Times are seconds, z is the zone's offset.
type tip struct {
	Start float64   `json:"t0"`
	Step  float64   `json:"dt"`
	Zone  int       `json:"z"`
	Lines []tipLine `json:"l"`
}

type tipLine struct {
	Name   string     `json:"n"`
	Unit   string     `json:"u"`
	Values []*float64 `json:"v"`
}

func (t *tip) line(name, unit string, v []float64) {
	l := tipLine{Name: clean(name), Unit: clean(unit), Values: make([]*float64, len(v))}
	for i, f := range v {
		if f = sane(f); !math.IsNaN(f) {
			digits := math.Pow(10, 3-math.Floor(math.Log10(math.Max(f, 1e-9))))
			if r := math.Round(f*digits) / digits; finite(r) && f < 1000 {
				f = r
			}
			l.Values[i] = &f
		}
	}
	t.Lines = append(t.Lines, l)
}

func (t *tip) attr() string {
	text, err := json.Marshal(t)
	if err != nil {
		return ""
	}
	return attr(string(text))
}

// SeriesPlot draws a Series. It fills the width of its panel.
func SeriesPlot(s Series) template.HTML {
	h := float64(s.Height)
	if h <= 0 {
		h = 200
	}
	below := 0.0
	if s.Below != nil {
		below = 44
	}
	h = math.Max(h, padTop+axisFoot+below+20)
	area := h - padTop - axisFoot - below
	from, to := s.Start, s.end()
	values, each := thin(s.Values, linePoints, largest)
	second, _ := thin(fit(s.Second, len(s.Values)), linePoints, largest)
	columns, _ := thin(fit(s.Below, len(s.Values)), linePoints, largest)

	_, zone := s.Start.Zone()
	data := tip{Start: float64(from.UnixMilli()) / 1000, Step: (s.Step * time.Duration(each)).Seconds(), Zone: zone}
	data.line(s.Name, s.Unit, values)
	if s.Second != nil {
		data.line(s.SecondName, s.SecondUnit, second)
	}
	if s.Below != nil {
		data.line(s.BelowName, s.BelowUnit, columns)
	}

	end, steps := nice(math.Max(top(values), top(second)))
	var p picture
	p.add(`<svg class="%s" height="%s" %s data-plot="%s">`, attr("plot ax "+s.Class), num(h), named(s.Label), data.attr())
	p.grid(padTop, area, end, steps)
	p.stretched(padTop, area)
	if path, under := line(values, 1000, area, end); path != "" {
		p.add(`<path class="ar" d="%s"/><path class="ln" d="%s"/>`, under, path)
	}
	if path, _ := line(second, 1000, area, end); path != "" {
		p.add(`<path class="ln2" d="%s"/>`, path)
	}
	p.WriteString(`</svg>`)
	if s.Below != nil {
		p.below(columns, padTop+area+16, below-16)
	}
	p.marks(s.Marks, from, to, h-axisFoot)
	p.times(from, to, h-4)
	if top(values) == 0 && largest(values) != 0 {
		p.add(`<text x="50%%" y="%s" text-anchor="middle">no values yet</text>`, num(padTop+area/2))
	}
	p.add(`<line class="hair" y1="%d" y2="%s"/></svg>`, padTop, num(h-axisFoot))
	return p.html()
}

// fit makes a row of values as long as another one: what is missing is not known, what is too much is left out.
func fit(v []float64, n int) []float64 {
	if v == nil || len(v) >= n {
		return v[:min(len(v), n)]
	}
	out := slices.Clone(v)
	for len(out) < n {
		out = append(out, math.NaN())
	}
	return out
}

// below draws the columns of their own scale, beneath the area.
func (p *picture) below(v []float64, y, h float64) {
	end, _ := niceCount(top(v))
	p.stretched(y, h)
	w := 1000 / float64(max(1, len(v)))
	wide := math.Min(w*.72, 40)
	for i, f := range v {
		if f = sane(f); f > 0 {
			ch := math.Max(f/end*h, 1.5)
			p.add(`<rect class="co f" x="%s" y="%s" width="%s" height="%s"/>`, num(float64(i)*w+(w-wide)/2), num(h-ch), num(wide), num(ch))
		}
	}
	p.add(`</svg><line class="base" x1="0" x2="100%%" y1="%s" y2="%s"/><text x="-8" y="%s" text-anchor="end">%s</text>`, num(y+h), num(y+h), num(y+8), Short(end))
}
