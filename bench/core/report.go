package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
)

// results gathers every measured value. Safe for concurrent use.
type results struct {
	mu     sync.Mutex
	values map[rowKey][]float64
}

type rowKey struct {
	contender, work string
	workers         int
	figure          string
}

func (r *results) add(contender, work string, workers int, figure string, value float64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.values == nil {
		r.values = map[rowKey][]float64{}
	}
	key := rowKey{contender, work, workers, figure}
	r.values[key] = append(r.values[key], value)
}

// row is one line of the results file.
type row struct {
	Contender string  `json:"contender"`
	Work      string  `json:"work"`
	Workers   int     `json:"workers"`
	Figure    string  `json:"figure"`
	Median    float64 `json:"median"`
	Min       float64 `json:"min"`
	Max       float64 `json:"max"`
}

// figures in the order in which they are shown.
var figures = []string{
	"jobs_per_s", "commands_per_job", "inner_commands_per_job",
	"redis_cpu_us_per_job", "worker_cpu_us_per_job", "rss_mb",
	"idle_latency_p50_ms", "idle_latency_p99_ms", "idle_commands_per_s", "recovery_s",
}

// rows are sorted by figure, workers and contender, as the table shows them.
func (r *results) rows() []row {
	r.mu.Lock()
	defer r.mu.Unlock()
	rows := make([]row, 0, len(r.values))
	for key, values := range r.values {
		sorted := slices.Sorted(slices.Values(values))
		rows = append(rows, row{
			Contender: key.contender, Work: key.work, Workers: key.workers, Figure: key.figure,
			Median: round(median(sorted)), Min: round(sorted[0]), Max: round(sorted[len(sorted)-1]),
		})
	}
	slices.SortFunc(rows, func(a, b row) int {
		if d := slices.Index(figures, a.Figure) - slices.Index(figures, b.Figure); d != 0 {
			return d
		}
		if d := a.Workers - b.Workers; d != 0 {
			return d
		}
		return slices.Index(contenderNames, a.Contender) - slices.Index(contenderNames, b.Contender)
	})
	return rows
}

// median and percentile want sorted values, at least one.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// percentile is the nearest rank: a value that was measured.
func percentile(sorted []float64, p int) float64 {
	rank := (len(sorted)*p + 99) / 100
	return sorted[max(rank, 1)-1]
}

// round keeps four digits: more would only pretend to be measured.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	unit := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-3)
	if unit >= 1 {
		return math.Round(v)
	}
	return math.Round(v/unit) / math.Round(1/unit)
}

// printTable shows each figure with its ratio to goworker and to the limit.
func printTable(w io.Writer, rows []row) {
	medians := map[rowKey]float64{}
	for _, r := range rows {
		medians[rowKey{r.Contender, r.Work, r.Workers, r.Figure}] = r.Median
	}
	ratio := func(r row, to string) string {
		base := medians[rowKey{to, r.Work, r.Workers, r.Figure}]
		if base == 0 || r.Contender == to {
			return "-"
		}
		return fmt.Sprintf("%s×", number(r.Median/base))
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "figure\tworkers\tcontender\tmedian\tmin–max\tto goworker\tto limit")
	for i, r := range rows {
		figure, workers := r.Figure, fmt.Sprint(r.Workers)
		if i > 0 && rows[i-1].Figure == r.Figure {
			figure = ""
			if rows[i-1].Workers == r.Workers {
				workers = ""
			}
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s–%s\t%s\t%s\n", figure, workers, r.Contender,
			number(r.Median), number(r.Min), number(r.Max), ratio(r, "goworker"), ratio(r, "limit"))
	}
	table.Flush()
}

// number prints for a reader: three digits or more, thousands grouped.
func number(v float64) string {
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

// file is the results file; what is beside the rows tells readers how far the
// numbers can be compared with their own.
type file struct {
	Date     string            `json:"date"`
	Machine  machine           `json:"machine"`
	Versions map[string]string `json:"versions"`
	Rounds   int               `json:"rounds"`
	Rows     []row             `json:"rows"`
}

func (f file) write(path string) error {
	text, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644)
}
