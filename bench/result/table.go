package result

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
)

// Print shows each figure with its ratio to ours and to goworker.
func (f File) Print(w io.Writer) {
	ratio := func(r Row, to string) string {
		base := f.Median(to, r.Work, r.Workers, r.Figure)
		if base == 0 || r.Contender == to {
			return "-"
		}
		return fmt.Sprintf("%s×", Number(r.Median/base))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "figure\twork\tworkers\tcontender\tmedian\tmin–max\tto ours\tto goworker\tto limit")
	var last Key
	for _, r := range f.Rows {
		figure, work, workers := r.Figure, r.Work, fmt.Sprint(r.Workers)
		if last.Figure == r.Figure {
			figure = ""
			if last.Work == r.Work {
				work = ""
				if last.Workers == r.Workers {
					workers = ""
				}
			}
		}
		last = r.Key
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s–%s\t%s\t%s\t%s\n", figure, work, workers, r.Contender,
			Number(r.Median), Number(r.Min), Number(r.Max), ratio(r, "ours"), ratio(r, "goworker"), ratio(r, "limit"))
	}
	table.Flush()
}

// Number prints for a reader: three digits or more, thousands grouped.
func Number(v float64) string {
	switch a := math.Abs(v); {
	case a == 0:
		return "0"
	case a < 0.01:
		return fmt.Sprintf("%.4f", v)
	case a < 1:
		return fmt.Sprintf("%.3f", v)
	case a < 10:
		return fmt.Sprintf("%.2f", v)
	case a < 1000:
		return fmt.Sprintf("%.1f", v)
	}
	digits := fmt.Sprintf("%.0f", v)
	var groups []string
	for len(digits) > 3 {
		groups = append([]string{digits[len(digits)-3:]}, groups...)
		digits = digits[:len(digits)-3]
	}
	return strings.Join(append([]string{digits}, groups...), ",")
}

// PrintTargets shows what was aimed at beside what was measured.
func (f File) PrintTargets(w io.Writer) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\ntarget\tmeasured\treached")
	for _, t := range f.Targets() {
		fmt.Fprintf(table, "%s\t%s\t%s\n", t.What, t.Measured, t.Reached)
	}
	table.Flush()
}
