package look

import (
	"html/template"
	"math"
	"strings"
	"unicode/utf8"
)

// Step is a step of a workflow, or a group of steps that the caller has counted already.
type Step struct {
	Name   string
	Sub    string // a second line: how long it took, what it waits for; of a group "": its counts
	State  string // as of State
	Href   string // where its box leads; "": nowhere
	Count  int    // of a group: its members; else 0
	Done   int    // of a group
	Failed int
}

// Edge says that To waits for From, as indexes of the steps.
type Edge struct{ From, To int }

// Graph is a workflow.
type Graph struct {
	Label string // a sentence for whom the picture is hidden from; required
	Steps []Step
	Edges []Edge
}

const (
	boxHeight  = 58
	boxGap     = 20 // between the boxes of a layer
	pointSize  = 10 // the height that an edge takes where it passes a layer
	graphWidth = 1100
)

// Dag draws a Graph, its layers as columns. Put a table of the same steps beneath it.
func Dag(g Graph) template.HTML {
	laid := layered(g.Steps, g.Edges)
	w, h := laid.measure()
	var p picture
	p.add(`<svg class="graph" width="%s" height="%s" viewBox="0 0 %s %s" %s>`, num(w), num(h), num(w), num(h), group(g.Label))
	for _, way := range laid.routes {
		p.edge(way)
	}
	for _, b := range laid.boxes {
		p.box(b)
	}
	p.WriteString(`</svg>`)
	return p.html()
}

// measure gives each box its place, and returns the size of the picture.
func (g *graph) measure() (w, h float64) {
	widths := make([]float64, len(g.layers))
	heights := make([]float64, len(g.layers))
	all := 0.0
	for i, layer := range g.layers {
		widths[i] = 120
		for _, b := range layer {
			b.h = pointSize
			if !b.dummy {
				b.h = boxHeight
				widest := max(utf8.RuneCountInString(b.title())*75, utf8.RuneCountInString(b.sub())*66)
				widths[i] = math.Max(widths[i], math.Min(230, 52+float64(widest)/10))
			}
			heights[i] += b.h + boxGap
		}
		heights[i] = math.Max(0, heights[i]-boxGap)
		all += widths[i]
		h = math.Max(h, heights[i])
	}
	gap := 48.0
	if len(g.layers) > 1 {
		gap = math.Max(gap, math.Min(120, (graphWidth-all)/float64(len(g.layers)-1)))
	}
	x := 4.0
	for i, layer := range g.layers {
		y := 4 + (h-heights[i])/2
		for _, b := range layer {
			b.x, b.y, b.w = x, y, widths[i]
			y += b.h + boxGap
		}
		x += widths[i] + gap
	}
	return math.Max(8, x-gap+4), h + 8
}

// edge draws a line from box to box, level where it passes a layer. Its class says how far the work is.
func (p *picture) edge(way []*box) {
	from, to := way[0], way[len(way)-1]
	class := "edge"
	switch {
	case from.step.State == "done":
		class = "edge done"
	case from.step.State == "running":
		class = "edge run"
	}
	p.add(`<path class="%s" d="M%s %s`, class, num(from.x+from.w), num(from.y+from.h/2))
	x, y := from.x+from.w, from.y+from.h/2
	for _, b := range way[1:] {
		mid, by := (b.x-x)/2, b.y+b.h/2
		p.add(`C%s %s %s %s %s %s`, num(x+mid), num(y), num(b.x-mid), num(by), num(b.x), num(by))
		if b != to {
			p.add(`H%s`, num(b.x+b.w))
		}
		x, y = b.x+b.w, by
	}
	p.WriteString(`"/>`)
}

// sub is the second line of a box.
func (b *box) sub() string {
	s := b.step
	if s.Sub != "" {
		return s.Sub
	}
	if s.Count > 1 {
		text := Whole(s.Done) + " done"
		if s.Failed > 0 {
			text += " · " + Whole(s.Failed) + " failed"
		}
		if rest := s.Count - s.Done - s.Failed; rest > 0 {
			text += " · " + Whole(rest) + " left"
		}
		return text
	}
	if known, ok := states[s.State]; ok {
		return known.word
	}
	return s.State
}

func (p *picture) box(b *box) {
	s := b.step
	known, ok := states[s.State]
	if !ok {
		known = stateLook{"unknown", "q", s.State}
	}
	class := map[string]string{"running": " run", "failed": " bad", "waiting": " wait", "pending": " wait"}[s.State]
	icon, _, _ := strings.Cut(known.class, " ") // without the class that turns it, which would turn the picture
	letters := int((b.w - 48) / 7.2)
	title, second := cut(b.title(), letters), cut(b.sub(), letters+letters/10)
	name := title + " " + second + ", " + known.word // what is seen comes first: who speaks to the computer says that
	if title != b.title() || second != b.sub() {
		name += ", " + b.title() + ", " + b.sub()
	}
	if local(s.Href) {
		p.add(`<a href="%s" aria-label="%s">`, attr(s.Href), attr(name))
	} else {
		p.add(`<g role="img" aria-label="%s">`, attr(name))
	}
	p.add(`<title>%s</title><rect class="node%s" x="%s" y="%s" width="%s" height="%d" rx="8"/>`, attr(name), class, num(b.x), num(b.y), num(b.w), boxHeight)
	p.add(`<svg class="%s" x="%s" y="%s" width="16" height="16"><use href="#i-%s" width="16" height="16"/></svg>`, attr("i "+icon), num(b.x+12), num(b.y+11), known.icon)
	p.add(`<text x="%s" y="%s">%s</text> `, num(b.x+36), num(b.y+24), attr(title))
	sub := "q"
	if s.State == "failed" {
		sub = "q bad"
	}
	p.add(`<text class="%s" x="%s" y="%s">%s</text>`, sub, num(b.x+36), num(b.y+42), attr(second))
	if s.Count > 1 {
		w := b.w - 16
		done := math.Min(1, float64(max(0, s.Done))/float64(s.Count)) * w
		failed := math.Min(w-done, math.Max(0, float64(s.Failed)/float64(s.Count)*w))
		p.add(`<rect class="g0" x="%s" y="%s" width="%s" height="3" rx="1.5"/><rect class="co o" x="%s" y="%s" width="%s" height="3" rx="1.5"/>`, num(b.x+8), num(b.y+boxHeight-6), num(w), num(b.x+8), num(b.y+boxHeight-6), num(done))
		if failed > 0 {
			p.add(`<rect class="co f" x="%s" y="%s" width="%s" height="3"/>`, num(b.x+8+done), num(b.y+boxHeight-6), num(math.Max(failed, 2)))
		}
	}
	if local(s.Href) {
		p.WriteString(`</a>`)
	} else {
		p.WriteString(`</g>`)
	}
}
