package result

import (
	"math"
	"slices"
	"sync"
)

// Collector gathers every measured value. Safe for concurrent use.
type Collector struct {
	mu     sync.Mutex
	values map[Key][]float64
}

// Add takes one measured value.
func (c *Collector) Add(contender, work string, workers int, figure string, value float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.values == nil {
		c.values = map[Key][]float64{}
	}
	key := Key{contender, work, workers, figure}
	c.values[key] = append(c.values[key], value)
}

// Rows are the medians of what was gathered, sorted.
func (c *Collector) Rows() []Row {
	c.mu.Lock()
	defer c.mu.Unlock()
	rows := make([]Row, 0, len(c.values))
	for key, values := range c.values {
		sorted := slices.Sorted(slices.Values(values))
		rows = append(rows, Row{
			Key: key, Median: round(median(sorted)), Min: round(sorted[0]), Max: round(sorted[len(sorted)-1]),
		})
	}
	Sort(rows)
	return rows
}

// median and Percentile want sorted values, at least one.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// Percentile is the nearest rank: a value that was measured.
func Percentile(sorted []float64, p int) float64 {
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
