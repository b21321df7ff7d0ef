// Package spread says how durations are spread: how many lie in each bucket. The history, the counters of a process and its metrics
// have the same buckets.
package spread

import (
	"math"
	"sync/atomic"
	"time"
)

// Buckets is how many buckets a distribution of durations has. Their bounds grow by √2, from 122 µs to 18 hours, so that a
// quantile is within 19 % of the true one. The first also has all that is shorter, and the last all that is longer.
const Buckets = 58

const (
	// unit is the lower bound of the first bucket in seconds: 2⁻¹³, which is 122 µs.
	unit = 1.0 / 8192

	mantissaBits = 52
	exponentBias = 1023
)

// half is the mantissa of √2: a number whose mantissa is as large lies in the upper bucket of its power of two.
var half = math.Float64bits(math.Sqrt2) & (1<<mantissaBits - 1)

// Bucket returns the number of the bucket of a duration. The exponent of a float is twice the number, so it takes no search.
func Bucket(d time.Duration) int {
	bits := math.Float64bits(float64(d) * (1 / unit / float64(time.Second)))
	n := 2 * (int(bits>>mantissaBits) - exponentBias) // the sign's bit makes it large for a negative duration: see below
	if bits&(1<<mantissaBits-1) >= half {
		n++
	}
	if n < 0 || d <= 0 {
		return 0
	}
	return min(n, Buckets-1)
}

// Bound returns the lower bound of a bucket, and of the bucket behind the last the upper bound of that.
func Bound(bucket int) time.Duration {
	return time.Duration(math.Exp2(float64(bucket)/2) * unit * float64(time.Second))
}

// Durations is a distribution of durations.
type Durations struct {
	Sum time.Duration
	In  [Buckets]uint64 // how many are in each bucket
}

// Count returns how many durations there are.
func (d *Durations) Count() (n uint64) {
	for _, in := range d.In {
		n += in
	}
	return n
}

// Record adds a duration.
func (d *Durations) Record(t time.Duration) {
	d.Sum += t
	d.In[Bucket(t)]++
}

// Add adds a distribution.
func (d *Durations) Add(o *Durations) {
	d.Sum += o.Sum
	for i, in := range o.In {
		d.In[i] += in
	}
}

// Quantile returns the duration that a share q of all does not exceed, and false if there are none. It is the middle of a bucket,
// by proportion.
func (d *Durations) Quantile(q float64) (time.Duration, bool) {
	all := d.Count()
	if all == 0 {
		return 0, false
	}
	rank := uint64(math.Ceil(min(max(q, 0), 1) * float64(all)))
	for i, in := range d.In {
		if in >= max(rank, 1) {
			return time.Duration(float64(Bound(i)) * math.Pow(2, 0.25)), true
		}
		rank -= in
	}
	return Bound(Buckets), true
}

// Counter is a distribution that many goroutines record into. It allocates nothing.
type Counter struct {
	sum atomic.Int64
	in  [Buckets]atomic.Int64
}

// Record adds a duration.
func (c *Counter) Record(t time.Duration) {
	c.in[Bucket(t)].Add(1)
	c.sum.Add(int64(t))
}

// Read returns what was recorded. While others record, its sum may be that of a few durations more or less.
func (c *Counter) Read() *Durations {
	d := &Durations{Sum: time.Duration(c.sum.Load())}
	for n := range c.in {
		d.In[n] = uint64(c.in[n].Load())
	}
	return d
}
