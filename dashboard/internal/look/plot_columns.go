package look

import (
	"html/template"
	"math"
	"slices"
	"strings"
	"time"
)

// Columns are counts in buckets of time, such as what failed in each quarter of an hour.
type Columns struct {
	Label  string // a sentence for whom the picture is hidden from; required
	Bars   []Bar  // above 300, neighbours are added up
	From   time.Time
	To     time.Time // the end of the last bucket; the zone of From is the axis's
	Marks  []Mark
	Height int // pixels; 0: 112
}

// Bar is one column.
type Bar struct {
	N     float64
	Class string // a colour of Part; of neighbours that are added up, that of the first
	Title string // what the pointer shows
	Href  string // where a click leads; "": nowhere
}

// ColumnPlot draws Columns. It fills the width of its panel.
func ColumnPlot(c Columns) template.HTML {
	h := float64(c.Height)
	if h <= 0 {
		h = 112
	}
	h = math.Max(h, padTop+axisFoot+20)
	area := h - padTop - axisFoot
	bars := joined(c.Bars)
	most := 0.0
	for _, b := range bars {
		if n := sane(b.N); n > most {
			most = n
		}
	}
	end, steps := niceCount(most)
	label := named(c.Label)
	if slices.ContainsFunc(bars, func(b Bar) bool { return local(b.Href) }) {
		label = group(c.Label)
	}
	var p picture
	p.add(`<svg class="plot ax" height="%s" %s>`, num(h), label)
	p.grid(padTop, area, end, steps)
	p.stretched(padTop, area)
	w := 1000 / float64(max(1, len(bars)))
	wide := math.Min(w*.76, 40)
	for i, b := range bars {
		n := sane(b.N)
		if !(n > 0) {
			continue
		}
		ch := math.Max(n/end*area, 1.5)
		rect := `<rect class="` + attr(strings.TrimSpace("co "+b.Class)) + `" x="` + num(float64(i)*w+(w-wide)/2) + `" y="` + num(area-ch) + `" width="` + num(wide) + `" height="` + num(ch) + `"><title>` + attr(b.Title) + `</title></rect>`
		if local(b.Href) {
			rect = `<a href="` + attr(b.Href) + `" tabindex="-1">` + rect + `</a>`
		}
		p.WriteString(rect)
	}
	p.WriteString(`</svg>`)
	p.marks(c.Marks, c.From, c.To, h-axisFoot)
	p.times(c.From, c.To, h-4)
	p.WriteString(`</svg>`)
	return p.html()
}

// joined adds up neighbours until there are few enough columns.
func joined(bars []Bar) (few []Bar) {
	each := max(1, (len(bars)+colPoints-1)/colPoints)
	if each == 1 {
		return bars
	}
	for i := 0; i < len(bars); i += each {
		first := bars[i]
		values := []float64{}
		for _, b := range bars[i:min(len(bars), i+each)] {
			values = append(values, b.N)
		}
		first.N = sum(values)
		first.Title += " and the " + Whole(len(values)-1) + " after it: " + Whole(first.N)
		few = append(few, first)
	}
	return few
}

// local reports whether a link leads to a page of the dashboard. Script and other sites are no such link.
func local(href string) bool {
	return strings.HasPrefix(href, "?") || strings.HasPrefix(href, "#") || strings.HasPrefix(href, "/") && !strings.HasPrefix(href, "//") && !strings.HasPrefix(href, `/\`)
}

// Heat is how many runs took how long, over time.
type Heat struct {
	Label string    // a sentence for whom the picture is hidden from; required
	Rows  [][]int64 // the longest runs first; each row has its columns. Above 300 columns neighbours are added up
	Names []string  // of the rows; "" for a row without a name
	From  time.Time // in the zone of the axis
	To    time.Time // the end of the last column
	Marks []Mark
}

// HeatMap draws a Heat. A cell's colour is the logarithm of its number, zero aside.
func HeatMap(t Heat) template.HTML {
	const row = 13
	rows := t.Rows[:min(len(t.Rows), 64)]
	var top int64 = 1
	cells := make([][]int64, len(rows))
	for i, r := range rows {
		each := max(1, (len(r)+colPoints-1)/colPoints)
		cells[i] = make([]int64, (len(r)+each-1)/each)
		for j, n := range r {
			cells[i][j/each] += max(0, n)
			top = max(top, cells[i][j/each])
		}
	}
	h := float64(len(rows) * row)
	var p picture
	p.add(`<svg class="plot ax hm" height="%s" %s>`, num(h+padTop+axisFoot), named(t.Label))
	p.stretched(padTop, math.Max(1, h))
	for y, r := range cells {
		w := 1000 / float64(max(1, len(r)))
		for x, n := range r {
			level := 0
			if n > 0 {
				level = 1 + min(4, int(5*math.Log1p(float64(n))/math.Log1p(float64(top))))
			}
			p.add(`<rect class="g%d" x="%s" y="%d" width="%s" height="%d"><title>%s</title></rect>`, level, num(float64(x)*w+w*.04), y*row, num(w*.92), row-1, Plural(n, "run", "runs"))
		}
	}
	p.WriteString(`</svg>`)
	for i, name := range t.Names[:min(len(t.Names), len(rows))] {
		if name != "" {
			p.add(`<text x="-8" y="%d" text-anchor="end">%s</text>`, padTop+i*row+10, attr(cut(name, 9)))
		}
	}
	p.marks(t.Marks, t.From, t.To, padTop+h)
	p.times(t.From, t.To, padTop+h+axisFoot-4)
	p.WriteString(`</svg>`)
	return p.html()
}
