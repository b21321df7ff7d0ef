// Package plots draws the results as SVG files, each for a light and for a dark
// page.
package plots

import (
	"image/color"
	"math"
	"strconv"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/goworker/goworker/bench/result"
)

// theme is the colours of a page.
type theme struct {
	suffix           string
	paper, ink, grid color.Color
	hues             map[string]color.Color
}

// The hues are Okabe and Ito's, which readers who do not see all colours can tell
// apart; shapes and dashes say the same once more.
func hues(ours, plain, blue, olive color.Color) map[string]color.Color {
	return map[string]color.Color{
		"ours":               ours,
		"ours-no-look-ahead": ours,
		"limit":              plain,
		"raw":                plain,
		"goworker":           blue,
		"asynq":              rgb(0x00, 0x9e, 0x73),
		"gocraft":            rgb(0xe6, 0x9f, 0x00),
		"machinery":          rgb(0x56, 0xb4, 0xe9),
		"machinery-results":  rgb(0x56, 0xb4, 0xe9),
		"node-resque":        rgb(0xcc, 0x79, 0xa7),
		"bullmq":             olive,
	}
}

var themes = []theme{
	{
		suffix: "light", paper: rgb(0xff, 0xff, 0xff), ink: rgb(0x1f, 0x23, 0x28), grid: rgb(0xd8, 0xde, 0xe4),
		hues: hues(rgb(0xd5, 0x5e, 0x00), rgb(0x57, 0x60, 0x6a), rgb(0x00, 0x72, 0xb2), rgb(0x8c, 0x7a, 0x00)),
	},
	{
		suffix: "dark", paper: rgb(0x0d, 0x11, 0x17), ink: rgb(0xe6, 0xed, 0xf3), grid: rgb(0x30, 0x36, 0x3d),
		hues: hues(rgb(0xff, 0x7b, 0x24), rgb(0x9a, 0xa4, 0xaf), rgb(0x2f, 0x8f, 0xd8), rgb(0xb5, 0xa2, 0x1a)),
	},
}

func rgb(r, g, b uint8) color.Color { return color.RGBA{r, g, b, 0xff} }

var shapes = map[string]draw.GlyphDrawer{
	"ours": draw.CircleGlyph{}, "ours-no-look-ahead": draw.RingGlyph{}, "limit": draw.CrossGlyph{},
	"goworker": draw.SquareGlyph{}, "asynq": draw.TriangleGlyph{}, "gocraft": draw.PyramidGlyph{},
	"machinery": draw.BoxGlyph{}, "machinery-results": draw.PlusGlyph{},
	"node-resque": draw.TriangleGlyph{}, "bullmq": draw.SquareGlyph{},
}

func (t theme) line(contender string) draw.LineStyle {
	l := draw.LineStyle{Color: t.hues[contender], Width: vg.Points(1.4)}
	switch contender {
	case "ours":
		l.Width = vg.Points(2.8)
	case "ours-no-look-ahead", "machinery-results":
		l.Dashes = []vg.Length{vg.Points(5), vg.Points(3)}
	case "limit":
		l.Dashes = []vg.Length{vg.Points(1.5), vg.Points(2.5)}
	}
	return l
}

func (t theme) glyph(contender string) draw.GlyphStyle {
	return draw.GlyphStyle{Color: t.hues[contender], Radius: vg.Points(3.2), Shape: shapes[contender]}
}

// label is a contender as readers know it.
func label(contender string, f result.File) string {
	names := map[string]string{
		"ours": "this", "ours-no-look-ahead": "this, no look-ahead", "gocraft": "gocraft/work",
		"machinery-results": "machinery, results kept", "bullmq": "BullMQ",
	}
	name := contender
	if n, ok := names[contender]; ok {
		name = n
	}
	if v, ok := f.Versions[contender]; ok {
		name += " " + strings.TrimPrefix(v, "v")
	}
	return name
}

// page is an empty plot in the theme's colours.
func (t theme) page(title, x, y string) *plot.Plot {
	sans := font.Font{Typeface: "Liberation", Variant: "Sans"}
	p := plot.New()
	p.BackgroundColor = t.paper
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = vg.Points(10)
	p.Title.TextStyle.Font = font.From(sans, 14)
	p.Title.TextStyle.Font.Weight = 2 // bold
	p.Title.TextStyle.Color = t.ink
	for _, a := range []*plot.Axis{&p.X, &p.Y} {
		a.Label.TextStyle.Font, a.Label.TextStyle.Color = font.From(sans, 11), t.ink
		a.Label.Padding = vg.Points(4)
		a.Tick.Label.Font, a.Tick.Label.Color = font.From(sans, 10), t.ink
		a.LineStyle.Color, a.Tick.LineStyle.Color = t.grid, t.grid
		a.Padding = vg.Points(6)
	}
	p.Legend.TextStyle.Font, p.Legend.TextStyle.Color = font.From(sans, 10), t.ink
	p.Legend.ThumbnailWidth = vg.Points(26)
	p.Legend.Padding = vg.Points(5)
	p.Legend.Top, p.Legend.Left = true, true
	return p
}

// marks are labelled ticks at the given places.
type marks []float64

func (m marks) Ticks(min, max float64) []plot.Tick {
	var ticks []plot.Tick
	for _, v := range m {
		if v >= min && v <= max {
			ticks = append(ticks, plot.Tick{Value: v, Label: short(v)})
		}
	}
	return ticks
}

// decades are ticks at 1, 2 and 5 of each power of ten, the first labelled.
type decades struct{}

func (decades) Ticks(min, max float64) []plot.Tick {
	var ticks []plot.Tick
	for e := math.Floor(math.Log10(min)); e <= math.Ceil(math.Log10(max)); e++ {
		for _, n := range []float64{1, 2, 5} {
			v := n * math.Pow(10, e)
			if v < min*0.999 || v > max*1.001 {
				continue
			}
			tick := plot.Tick{Value: v}
			if n == 1 || max/min < 200 {
				tick.Label = short(v)
			}
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// short prints 200k for 200,000, and otherwise no more digits than needed.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', 0, 64) + "k"
	case v >= 1e3:
		return strconv.FormatFloat(v/1e3, 'g', 2, 64) + "k"
	case v >= 100:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'g', 2, 64)
}
