package look

import (
	"fmt"
	"html/template"
	"math"
	"regexp"
	"strings"
	"testing"
	"time"
)

// TestPlotsSurvive draws each plot of values that no plot is made for.
func TestPlotsSurvive(t *testing.T) {
	t.Parallel()
	inf, nan := math.Inf(1), math.NaN()
	for name, v := range map[string][]float64{
		"nil": nil, "empty": {}, "one": {4}, "zeros": {0, 0}, "negative": {-1, -5}, "nan": {nan}, "all odd": {nan, inf, -inf, 3, nan, 2, -1},
		"tiny": {math.SmallestNonzeroFloat64, 0}, "huge": {math.MaxFloat64, 1}, "many": wave(10000),
	} {
		var bars []Bar
		var cells []int64
		for _, f := range v {
			bars = append(bars, Bar{N: f, Class: `f" onload="x`, Title: "<b>", Href: "//elsewhere"})
			if finite(f) && math.Abs(f) < 1e6 {
				cells = append(cells, int64(f))
			}
		}
		start := testNow
		for _, step := range []time.Duration{0, time.Second, time.Minute, 24 * time.Hour, -time.Hour, math.MaxInt64} {
			to := start.Add(step)
			all := map[string]template.HTML{
				"spark": Spark(v, `bad"><b>`, ""), "bars": Bars(v, "f", "<b>"), "meter": Meter(nan, "f", "m"),
				"split":   SplitMeter([]Part{{inf, "f"}, {-3, ""}, {70, "o"}, {70, "<b>"}}, "s"),
				"series":  SeriesPlot(Series{Label: "s", Start: start, Step: step, Values: v, Second: v, Below: v, Name: "<b>", Marks: []Mark{{to, "<b>"}, {start, ""}}}),
				"height":  SeriesPlot(Series{Label: "s", Start: start, Step: step, Values: v, Below: v, Height: 1}),
				"below":   SeriesPlot(Series{Label: "s", Below: v}),
				"columns": ColumnPlot(Columns{Label: "c", Bars: bars, From: start, To: to, Marks: []Mark{{to, "<b>"}}}),
				"heat":    HeatMap(Heat{Label: "h", Rows: [][]int64{cells, nil, {math.MaxInt64}}, Names: []string{"<b>", "", "", "too many"}, From: start, To: to}),
				"gantt":   GanttPlot(Gantt{Label: "g", From: start, To: to, Spans: []Span{{start, to, "w", "<b>"}, {to, start, "", ""}, {start.AddDate(-9, 0, 0), start.AddDate(9, 0, 0), "f", ""}}}),
				"day":     DayPlot(Day{Label: "d", From: start, To: to, Rows: []Ticks{{"<b>", []time.Time{start, to}, ""}, {}}}),
				"runtime": Runtime(Run{For: step, Usual: -step, Limit: step}), "slots": SlotCells(Slots{Total: int(step), Busy: len(v), Late: -1, Stuck: len(v)}), "hist": Hist(strings.Repeat("of<", len(v))),
			}
			for plot, out := range all {
				sound(t, fmt.Sprintf("%s of %s, step %v", plot, name, step), out, 90_000)
			}
		}
	}
}

// sound holds what each picture keeps: it is well formed, small, without bad numbers and foreign markup, and has a name.
func sound(t *testing.T, of string, out template.HTML, most int) {
	t.Helper()
	text := string(out)
	if err := wellFormed([]byte(text)); err != nil {
		t.Errorf("%s: %v", of, err)
	}
	for _, never := range []string{"NaN", "Inf", "<b>", " style=", "onload=\"x", "%!", "elsewhere", `="-`} {
		at := strings.Index(text, never)
		if never == `="-` && regexp.MustCompile(`(x|dx)="-(5|8|10)"`).MatchString(text) {
			at = strings.Index(regexp.MustCompile(`(x|dx)="-(5|8|10)"`).ReplaceAllString(text, ""), never)
		}
		if at >= 0 {
			t.Errorf("%s has %s in %.300s", of, never, text[max(0, at-60):])
		}
	}
	if !strings.Contains(text, `aria-label="`) || strings.Contains(text, `aria-label=""`) {
		t.Errorf("%s has no name", of)
	}
	if len(text) > most {
		t.Errorf("%s is %d bytes long", of, len(text))
	}
}

func TestPlotWithoutLabel(t *testing.T) {
	t.Parallel()
	if out := Spark([]float64{1, 2}, "", " "); !strings.Contains(string(out), Unnamed) {
		t.Errorf("it is not marked: %s", out)
	}
}

func TestNice(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		most, end float64
		steps     int
	}{{0, 1, 1}, {-1, 1, 1}, {math.NaN(), 1, 1}, {3, 3, 3}, {170, 200, 2}, {201, 300, 3}, {401, 600, 3}, {.7, .8, 2}, {9.9, 10, 2}, {1e300, 1e300, 2}} {
		end, steps := nice(tt.most)
		if math.Abs(end-tt.end) > tt.end*1e-9 || steps != tt.steps {
			t.Errorf("nice(%v) = %v in %d", tt.most, end, steps)
		}
	}
}

func TestTicks(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("CEST", 7200)
	from := time.Date(2026, 10, 14, 13, 32, 7, 0, berlin)
	for _, tt := range []struct {
		span time.Duration
		want string
	}{
		{time.Minute, "13:32:10 13:32:20 13:32:30 13:32:40 13:32:50 13:33:00"},
		{5 * time.Minute, "13:33 13:34 13:35 13:36 13:37"},
		{time.Hour, "13:40 13:50 14:00 14:10 14:20 14:30"},
		{24 * time.Hour, "15:00 18:00 21:00 00:00 03:00 06:00 09:00 12:00"},
		{7 * 24 * time.Hour, "15 Oct 16 Oct 17 Oct 18 Oct 19 Oct 20 Oct 21 Oct"},
		{0, ""}, {-time.Hour, ""},
	} {
		var got []string
		for _, one := range ticks(from, from.Add(tt.span)) {
			got = append(got, one.text)
			if one.at < 0 || one.at > 1 {
				t.Errorf("%v: %s is at %v", tt.span, one.text, one.at)
			}
		}
		if all := strings.Join(got, " "); all != tt.want {
			t.Errorf("%v: %s", tt.span, all)
		}
	}
}

func TestThinKeepsPeaks(t *testing.T) {
	t.Parallel()
	v := make([]float64, 10000)
	v[7777] = 42
	few, each := thin(v, linePoints, largest)
	if len(few) > linePoints || each != 14 || top(few) != 42 {
		t.Errorf("%d values of %d each, the largest %v", len(few), each, top(few))
	}
}

func TestDag(t *testing.T) {
	t.Parallel()
	chain := func(n int) (g Graph) {
		g.Label = "chain"
		for i := range n {
			g.Steps = append(g.Steps, Step{Name: fmt.Sprintf("Step<%d>", i), State: "done", Href: "/jobs/1"})
			g.Edges = append(g.Edges, Edge{i - 1, i})
		}
		return g
	}
	wide := func(n int, same bool) (g Graph) {
		g = Graph{Label: "wide", Steps: []Step{{Name: "begin", State: "done"}, {Name: "end", State: "waiting"}}}
		for i := range n {
			name := "member"
			if !same {
				name = fmt.Sprint(i)
			}
			state := "done"
			if i%10 == 0 {
				state = "failed"
			}
			g.Steps = append(g.Steps, Step{Name: name, State: state})
			g.Edges = append(g.Edges, Edge{0, i + 2}, Edge{i + 2, 1})
		}
		return g
	}
	mesh := Graph{Label: "mesh"}
	for i := range 400 {
		mesh.Steps = append(mesh.Steps, Step{Name: fmt.Sprint(i), State: "done"})
		for j := i % 7; j < i; j += 7 {
			mesh.Edges = append(mesh.Edges, Edge{j, i})
		}
	}
	circle := Graph{Label: "circle", Steps: make([]Step, 3), Edges: []Edge{{0, 1}, {1, 2}, {2, 0}, {1, 1}, {5, 0}, {0, -1}}}
	for name, g := range map[string]Graph{
		"none": {Label: "none"}, "one": chain(1), "chain": chain(10), "long": chain(10000), "group": wide(2000, true), "crowd": wide(2000, false), "circle": circle, "mesh": mesh,
	} {
		sound(t, name, Dag(g), 160_000)
	}
	if out := string(Dag(wide(2000, true))); !strings.Contains(out, "member × 2,000") || !strings.Contains(out, "1,800 done · 200 failed") || strings.Count(out, "<rect class=\"node") != 3 {
		t.Errorf("a group of 2,000 is %.600s", out)
	}
	if out := string(Dag(wide(2000, false))); !strings.Contains(out, "and 1,989 more steps") || strings.Count(out, "<rect class=\"node") != layerMost+2 {
		t.Errorf("2,000 different steps are %d boxes", strings.Count(out, "<rect class=\"node"))
	}
}

// TestLayers lays a step right of all that it waits for, and lets an edge over a layer pass between its boxes.
func TestLayers(t *testing.T) {
	t.Parallel()
	g := layered([]Step{{Name: "a"}, {Name: "b"}, {Name: "c"}, {Name: "d"}}, []Edge{{0, 1}, {1, 2}, {0, 2}, {2, 3}, {0, 3}, {0, 3}})
	var got []string
	for _, b := range g.boxes {
		got = append(got, fmt.Sprintf("%s%d", b.step.Name, b.layer))
	}
	if all := strings.Join(got, " "); all != "a0 b1 c2 d3" {
		t.Errorf("the boxes are %s", all)
	}
	lengths := map[int]int{}
	for _, way := range g.routes {
		lengths[len(way)]++
	}
	if lengths[2] != 3 || lengths[3] != 1 || lengths[4] != 1 {
		t.Errorf("the edges pass %v boxes", lengths)
	}
	g.measure()
	for _, layer := range g.layers {
		for i := 1; i < len(layer); i++ {
			if layer[i].y < layer[i-1].y+layer[i-1].h {
				t.Errorf("%q lies over %q", layer[i].step.Name, layer[i-1].step.Name)
			}
		}
	}
}

func TestNum(t *testing.T) {
	t.Parallel()
	for f, want := range map[float64]string{0: "0", .04: "0", -.04: "0", .25: "0.3", -.5: "-0.5", 12: "12", 99.96: "100", 1e17: "100000000000000000", math.Inf(1): "0"} {
		if got := num(f); got != want {
			t.Errorf("num(%v) = %s", f, got)
		}
	}
}
