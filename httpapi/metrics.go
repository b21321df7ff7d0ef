package httpapi

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// mostQueues is how many queues have a label of their own in the metrics. The rest are one: "other".
const mostQueues = 500

const otherQueues = "other"

// lmstfyMetric begins the names of lmstfy's metrics, which say namespace where goworker's say ns.
const lmstfyMetric = "infra_lmstfy_"

// counters are counts by labels, whose values are known beforehand or bounded.
type counters struct {
	mu     sync.RWMutex
	counts map[string]*atomic.Int64 // by the labels as they are written
}

// of returns the count of some labels, which labels has written.
func (c *counters) of(labels string) *atomic.Int64 {
	c.mu.RLock()
	n := c.counts[labels]
	c.mu.RUnlock()
	if n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n = c.counts[labels]; n == nil {
		if c.counts == nil {
			c.counts = make(map[string]*atomic.Int64)
		}
		n = new(atomic.Int64)
		c.counts[labels] = n
	}
	return n
}

// sum returns all counts together.
func (c *counters) sum() (n int64) {
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, one := range c.counts {
		n += one.Load()
	}
	return n
}

// bounds are the upper ends of the histograms' buckets, in seconds.
var bounds = [...]float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 3600}

// histogram counts times.
type histogram struct {
	buckets [len(bounds) + 1]atomic.Int64
	nanos   atomic.Int64
}

func (h *histogram) see(d time.Duration) {
	at, _ := slices.BinarySearch(bounds[:], d.Seconds())
	h.buckets[at].Add(1)
	h.nanos.Add(int64(d))
}

// histograms are some by labels.
type histograms struct {
	mu  sync.RWMutex
	all map[string]*histogram
}

func (h *histograms) of(labels string) *histogram {
	h.mu.RLock()
	one := h.all[labels]
	h.mu.RUnlock()
	if one != nil {
		return one
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if one = h.all[labels]; one == nil {
		if h.all == nil {
			h.all = make(map[string]*histogram)
		}
		one = new(histogram)
		h.all[labels] = one
	}
	return one
}

// labels writes names and values as the text format has them: name="value",…
func labels(pairs ...string) string {
	var b strings.Builder
	for i := 0; i < len(pairs); i += 2 {
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(pairs[i])
		b.WriteString(`="`)
		b.WriteString(labelValue.Replace(strings.ToValidUTF8(pairs[i+1], "�")))
		b.WriteByte('"')
	}
	return b.String()
}

var labelValue = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// page writes metrics in the text format of Prometheus.
type page struct {
	*bufio.Writer
	headed map[string]bool
}

func newPage(w io.Writer) *page { return &page{bufio.NewWriter(w), make(map[string]bool)} }

// head writes what a metric is, once.
func (p *page) head(name, kind, help string) {
	if !p.headed[name] {
		p.headed[name] = true
		fmt.Fprintf(p, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, kind)
	}
}

func (p *page) line(name, labels string, value float64) {
	p.WriteString(name)
	if labels != "" {
		p.WriteString("{" + labels + "}")
	}
	p.WriteByte(' ')
	if value == math.Trunc(value) && math.Abs(value) < 1<<53 {
		p.WriteString(strconv.FormatInt(int64(value), 10))
	} else {
		p.WriteString(strconv.FormatFloat(value, 'g', -1, 64))
	}
	p.WriteByte('\n')
}

func (p *page) value(name, kind, help, labels string, value float64) {
	p.head(name, kind, help)
	p.line(name, labels, value)
}

func (p *page) counters(name, help string, c *counters) {
	p.head(name, "counter", help)
	c.mu.RLock()
	defer c.mu.RUnlock()
	for _, labels := range slices.Sorted(maps.Keys(c.counts)) {
		shown := labels
		if strings.HasPrefix(name, lmstfyMetric) && strings.HasPrefix(labels, `ns="`) {
			shown = "namespace" + labels[len("ns"):]
		}
		p.line(name, shown, float64(c.counts[labels].Load()))
	}
}

// histogram writes one whose values are in units of a second.
func (p *page) histogram(name, help, of string, h *histogram, unit time.Duration) {
	p.head(name, "histogram", help)
	prefix, braces := "", of
	if of != "" {
		prefix = of + ","
	}
	total, factor := int64(0), float64(time.Second)/float64(unit)
	for i := range h.buckets {
		total += h.buckets[i].Load()
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i]*factor, 'g', -1, 64)
		}
		p.line(name+"_bucket", prefix+`le="`+le+`"`, float64(total))
	}
	p.line(name+"_sum", braces, float64(h.nanos.Load())/float64(unit))
	p.line(name+"_count", braces, float64(total))
}

func (p *page) histograms(name, help string, h *histograms) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for _, of := range slices.Sorted(maps.Keys(h.all)) {
		p.histogram(name, help, of, h.all[of], time.Second)
	}
}
