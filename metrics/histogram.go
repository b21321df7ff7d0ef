package metrics

import (
	"math"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/goworker/goworker/internal/meter"
	"github.com/goworker/goworker/internal/spread"
)

// The recorder's buckets grow by √2, as those of a native histogram of schema 1 do: its bucket n ends at (√2)ⁿ seconds. The first bucket
// of the recorder also has all that is shorter, so it is the zero bucket. A classic histogram has each fourth edge.
const (
	schema     = 1
	firstIndex = -25 // the recorder's bucket 0 ends at 2^-12.5 s
	firstEdge  = 2   // the classic bucket's first edge, 2^-12 s, is the lower bound of this bucket
	nextEdge   = 4
)

// edges are the upper bounds of the classic buckets: 0.000244 s … 4096 s.
var edges = func() (all []float64) {
	for n := firstEdge; n <= 50; n += nextEdge {
		all = append(all, math.Exp2(float64(n)/2-13))
	}
	return all
}()

// spreadOf is a histogram of durations: native, with classic buckets too.
func (r *Row) spreadOf(d *spread.Durations, created time.Time, labels ...string) prometheus.Metric {
	positive := make(map[int]int64)
	count := d.In[0]
	for n, in := range d.In[1:] {
		if count += in; in > 0 {
			positive[n+1+firstIndex] = int64(in)
		}
	}
	classic, sum, at := make([]*dto.Bucket, len(edges)), uint64(0), 0
	for n := range edges {
		for ; at < firstEdge+n*nextEdge; at++ {
			sum += d.In[at]
		}
		upTo := sum
		classic[n] = &dto.Bucket{UpperBound: &edges[n], CumulativeCount: &upTo}
	}
	native := prometheus.MustNewConstNativeHistogram(r.desc, count, d.Sum.Seconds(), positive, nil, d.In[0], schema, spread.Bound(1).Seconds(), created, labels...)
	return both{native, classic}
}

// both is a native histogram with classic buckets.
type both struct {
	prometheus.Metric
	classic []*dto.Bucket
}

func (b both) Write(to *dto.Metric) error {
	err := b.Metric.Write(to)
	if err == nil {
		to.Histogram.Bucket = b.classic
	}
	return err
}

// sizesOf is a histogram of numbers of jobs.
func (r *Row) sizesOf(s meter.Sizes) prometheus.Metric {
	buckets, count := make(map[float64]uint64), uint64(0)
	for n, in := range s.In {
		count += uint64(in)
		if most, ok := s.Most(n); ok {
			buckets[float64(most)] = count
		}
	}
	return prometheus.MustNewConstHistogram(r.desc, count, float64(s.Sum), buckets)
}
