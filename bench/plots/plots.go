package plots

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"

	"github.com/goworker/goworker/bench/result"
)

// Plot is one picture.
type Plot struct {
	Name, Title string
	draw        func(theme, result.File) (*plot.Plot, error)
	legend      bool // beside the plot
	height      vg.Length
}

// All are the pictures of docs/benchmarks.md.
var All = []Plot{
	{"throughput", "No-op jobs a second by workers", throughput, true, 4.6 * vg.Inch},
	{"cpu", "Processor time a no-op job, 100 workers", cpu, true, 4 * vg.Inch},
	{"idle", "From push to start while 25 workers wait", idle, true, 4 * vg.Inch},
	{"link", "No-op jobs a second over a link of 0.5 ms each way", link, true, 4 * vg.Inch},
	{"queues", "No-op jobs a second with 1, 10 and 200 queues", queues, true, 4.6 * vg.Inch},
}

const (
	width       = 9 * vg.Inch
	legendWidth = 2.3 * vg.Inch
)

// Write draws all plots that there are rows for and returns their names.
func Write(dir string, f result.File) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	var names []string
	for _, p := range All {
		drawn := false
		for _, t := range themes {
			svg, err := p.svg(t, f)
			if err != nil {
				return nil, fmt.Errorf("plot %s: %w", p.Name, err)
			}
			if svg == nil {
				continue
			}
			drawn = true
			if err := os.WriteFile(filepath.Join(dir, p.Name+"-"+t.suffix+".svg"), svg, 0o644); err != nil {
				return nil, err
			}
		}
		if drawn {
			names = append(names, p.Name)
		}
	}
	return names, nil
}

func (p Plot) svg(t theme, f result.File) ([]byte, error) {
	picture, err := p.draw(t, f)
	if err != nil || picture == nil {
		return nil, err
	}
	picture.Title.Text = p.Title
	canvas := vgsvg.New(width, p.height)
	all := draw.New(canvas)
	all.SetColor(t.paper)
	all.Fill(all.Rectangle.Path())
	inner := draw.Crop(all, 12, -12, 10, -12)
	legend := picture.Legend
	picture.Legend = plot.NewLegend()
	picture.Draw(draw.Crop(inner, 0, -legendWidth, 0, 0))
	legend.Draw(draw.Crop(inner, width-legendWidth-12, 0, 0, -34))
	var out bytes.Buffer
	if _, err := canvas.WriteTo(&out); err != nil {
		return nil, err
	}
	// The reader's own sans-serif: the font the text was measured with may not be there.
	svg := strings.ReplaceAll(out.String(), "font-family:Liberation Sans", "font-family:Liberation Sans,Arial,Helvetica,sans-serif")
	return []byte(svg), nil
}
