package plots

import (
	"math"
	"slices"
	"strconv"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"

	"github.com/goworker/goworker/bench/result"
)

// have are the contenders with this row, in the order of the legend.
func have(f result.File, work string, workers int, figure string) []string {
	var names []string
	for _, name := range result.Contenders {
		if name != "raw" && f.Median(name, work, workers, figure) > 0 {
			names = append(names, name)
		}
	}
	return names
}

// curve adds a line with points and its entry in the legend.
func (t theme) curve(p *plot.Plot, name string, line draw.LineStyle, glyph draw.GlyphStyle, points plotter.XYs) error {
	l, g, err := plotter.NewLinePoints(points)
	if err != nil {
		return err
	}
	l.LineStyle, g.GlyphStyle = line, glyph
	p.Add(l, g)
	p.Legend.Add(name, l, g)
	return nil
}

func logarithmic(a *plot.Axis, ticks plot.Ticker) {
	a.Scale, a.Tick.Marker = plot.LogScale{}, ticks
}

func (t theme) grid2(p *plot.Plot, vertical bool) {
	g := plotter.NewGrid()
	g.Horizontal = draw.LineStyle{Color: t.grid, Width: vg.Points(0.6)}
	g.Vertical = g.Horizontal
	if !vertical {
		g.Vertical.Color = nil
	} else {
		g.Horizontal.Color = nil
	}
	p.Add(g)
}

func throughput(t theme, f result.File) (*plot.Plot, error) {
	p := t.page("", "workers", "jobs a second")
	t.grid2(p, false)
	counts := []int{1, 10, 25, 100, 1000}
	names := have(f, "noop", 25, "jobs_per_s")
	if len(names) == 0 {
		return nil, nil
	}
	for _, name := range names {
		var points plotter.XYs
		for _, n := range counts {
			if v := f.Median(name, "noop", n, "jobs_per_s"); v > 0 {
				points = append(points, plotter.XY{X: float64(n), Y: v})
			}
		}
		if err := t.curve(p, label(name, f), t.line(name), t.glyph(name), points); err != nil {
			return nil, err
		}
	}
	logarithmic(&p.X, marks{1, 10, 25, 100, 1000})
	logarithmic(&p.Y, decades{})
	roundUp(&p.Y)
	return p, nil
}

// roundUp lets an axis begin and end at a tick.
func roundUp(a *plot.Axis) {
	step := func(v float64, up bool) float64 {
		e := math.Pow(10, math.Floor(math.Log10(v)))
		best := e
		for _, n := range []float64{1, 2, 5, 10} {
			if up && n*e >= v*0.999 {
				return n * e
			}
			if !up && n*e <= v*1.001 {
				best = n * e
			}
		}
		return best
	}
	a.Min, a.Max = step(a.Min, false), step(a.Max, true)
}

// rows makes the Y axis one row a contender, the first on top.
func rows(p *plot.Plot, names []string, f result.File) func(name string) float64 {
	place := func(name string) float64 { return float64(len(names) - 1 - slices.Index(names, name)) }
	ticks := make([]plot.Tick, len(names))
	for i, name := range names {
		ticks[i] = plot.Tick{Value: place(name), Label: label(name, f) + "\u00a0\u00a0"}
	}
	p.Y.Tick.Marker = plot.ConstantTicks(ticks)
	p.Y.Tick.Length = 0
	p.Y.LineStyle.Width = 0
	p.Y.Min, p.Y.Max = -0.5, float64(len(names))-0.5
	p.Y.Padding = 0
	return place
}

func cpu(t theme, f result.File) (*plot.Plot, error) {
	names := have(f, "noop", 100, "worker_cpu_us_per_job")
	if len(names) == 0 {
		return nil, nil
	}
	p := t.page("", "microseconds a job", "")
	t.grid2(p, true)
	var worker, redis, sum plotter.Values
	for _, name := range slices.Backward(names) {
		w, r := f.Median(name, "noop", 100, "worker_cpu_us_per_job"), f.Median(name, "noop", 100, "redis_cpu_us_per_job")
		worker, redis, sum = append(worker, w), append(redis, r), append(sum, w+r)
	}
	a, err := plotter.NewBarChart(worker, vg.Points(13))
	if err != nil {
		return nil, err
	}
	b, err := plotter.NewBarChart(redis, vg.Points(13))
	if err != nil {
		return nil, err
	}
	a.Horizontal, b.Horizontal = true, true
	a.Color, b.Color = t.hues["ours"], t.hues["goworker"]
	a.LineStyle.Width, b.LineStyle.Width = 0, 0
	b.StackOn(a)
	p.Add(a, b)
	p.Legend.Add("worker", a)
	p.Legend.Add("Redis", b)
	place := rows(p, names, f)
	p.X.Min = 0
	for _, name := range names {
		y := place(name)
		if err := t.note(p, sum[int(y)], y, result.Number(sum[int(y)])); err != nil {
			return nil, err
		}
	}
	p.X.Max = slices.Max(sum) * 1.12
	return p, nil
}

// note writes beside a point.
func (t theme) note(p *plot.Plot, x, y float64, text string) error {
	l, err := plotter.NewLabels(plotter.XYLabels{XYs: plotter.XYs{{X: x, Y: y}}, Labels: []string{text}})
	if err != nil {
		return err
	}
	l.TextStyle[0] = p.X.Tick.Label
	l.TextStyle[0].YAlign = draw.YCenter
	l.TextStyle[0].XAlign = draw.XLeft
	l.Offset = vg.Point{X: vg.Points(6)}
	p.Add(l)
	return nil
}

// dots draws, a row a contender, several values joined by a line.
func (t theme) dots(f result.File, names []string, x string, series []string, styles []draw.GlyphStyle, value func(name string, i int) float64, notes func(name string, i int) string) (*plot.Plot, error) {
	p := t.page("", x, "")
	t.grid2(p, true)
	place := rows(p, names, f)
	for _, name := range names {
		points := make(plotter.XYs, len(series))
		for i := range series {
			points[i] = plotter.XY{X: value(name, i), Y: place(name)}
		}
		l, err := plotter.NewLine(points)
		if err != nil {
			return nil, err
		}
		l.LineStyle = draw.LineStyle{Color: t.grid, Width: vg.Points(5)}
		p.Add(l)
	}
	for i, what := range series {
		var points plotter.XYs
		for _, name := range names {
			points = append(points, plotter.XY{X: value(name, i), Y: place(name)})
		}
		s, err := plotter.NewScatter(points)
		if err != nil {
			return nil, err
		}
		s.GlyphStyle = styles[i]
		p.Add(s)
		p.Legend.Add(what, s)
	}
	for _, name := range names {
		last := len(series) - 1
		if err := t.note(p, value(name, last), place(name), notes(name, last)); err != nil {
			return nil, err
		}
	}
	logarithmic(&p.X, decades{})
	roundUp(&p.X)
	p.X.Max *= 1.6 // room for what is written beside the last point
	rows(p, names, f)
	return p, nil
}

func (t theme) series() []draw.GlyphStyle {
	return []draw.GlyphStyle{
		{Color: t.hues["ours"], Radius: vg.Points(4.5), Shape: draw.CircleGlyph{}},
		{Color: t.hues["goworker"], Radius: vg.Points(4.5), Shape: draw.BoxGlyph{}},
		{Color: t.hues["limit"], Radius: vg.Points(4.5), Shape: draw.PyramidGlyph{}},
	}
}

func idle(t theme, f result.File) (*plot.Plot, error) {
	figures := []string{"idle_latency_p50_ms", "idle_latency_p99_ms", "idle_latency_max_ms"}
	names := have(f, "idle", 25, figures[0])
	if len(names) == 0 {
		return nil, nil
	}
	value := func(name string, i int) float64 { return f.Median(name, "idle", 25, figures[i]) }
	return t.dots(f, names, "milliseconds", []string{"half are faster (p50)", "99 of 100 are (p99)", "the slowest"}, t.series(), value,
		func(name string, _ int) string { return "p50 " + result.Number(value(name, 0)) })
}

func link(t theme, f result.File) (*plot.Plot, error) {
	counts := []int{25, 100}
	names := slices.DeleteFunc(have(f, "link", 25, "jobs_per_s"), func(name string) bool {
		return f.Median(name, "link", 100, "jobs_per_s") == 0
	})
	if len(names) == 0 {
		return nil, nil
	}
	value := func(name string, i int) float64 { return f.Median(name, "link", counts[i], "jobs_per_s") }
	return t.dots(f, names, "jobs a second", []string{"25 workers", "100 workers"}, t.series(), value,
		func(name string, i int) string { return result.Number(value(name, i)) })
}

func queues(t theme, f result.File) (*plot.Plot, error) {
	p := t.page("", "queues", "jobs a second relative to one queue")
	t.grid2(p, false)
	dashes := map[string][]vg.Length{
		"weighted": {vg.Points(6), vg.Points(3)}, "all": {vg.Points(1.5), vg.Points(2.5)}, "strict": nil,
	}
	any := false
	for _, name := range have(f, "strict-1", 25, "jobs_per_s") {
		for _, order := range []string{"strict", "weighted", "all"} {
			var points plotter.XYs
			one := f.Median(name, order+"-1", 25, "jobs_per_s")
			for _, n := range []int{1, 10, 200} {
				if v := f.Median(name, order+"-"+strconv.Itoa(n), 25, "jobs_per_s"); v > 0 && one > 0 {
					points = append(points, plotter.XY{X: float64(n), Y: v / one})
				}
			}
			if len(points) < 2 {
				continue
			}
			any = true
			line := t.line(name)
			line.Dashes = dashes[order]
			shown := map[string]string{"strict": "strict", "weighted": "weighted", "all": "*"}[order]
			if err := t.curve(p, label(name, result.File{})+", "+shown, line, t.glyph(name), points); err != nil {
				return nil, err
			}
		}
	}
	if !any {
		return nil, nil
	}
	logarithmic(&p.X, marks{1, 10, 200})
	p.Y.Min, p.Y.Max = 0, max(p.Y.Max, 1.1)
	return p, nil
}
