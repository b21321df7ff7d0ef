package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

const rowForm = "%-14s %9s %6s %7s %5s %6s %6s %6s %6s %6s\n"

// print writes the table of all classes. A job retried by hand counts as
// processed twice, as in Resque; the rates are those of the first runs.
func (t *tally) print(w io.Writer, took time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rule := strings.Repeat("-", 80) + "\n"
	fmt.Fprintf(w, "\n%39s %26s %13s\n", "retried", "handler, ms", "wait, ms")
	fmt.Fprintf(w, rowForm, "class", "processed", "failed", "by hand", "cured", "jobs/s", "p50", "p99", "p50", "p99")
	fmt.Fprint(w, rule)
	total := &class{}
	byProcessed := func(a, b string) int {
		return cmp.Or(t.classes[b].processed-t.classes[a].processed, cmp.Compare(a, b))
	}
	for _, name := range slices.SortedFunc(maps.Keys(t.classes), byProcessed) {
		c := t.classes[name]
		c.print(w, name, took)
		total.add(c)
	}
	fmt.Fprint(w, rule)
	total.print(w, "all", took)
	fmt.Fprintln(w, "\ncured: done when retried; wait: from being enqueued to the handler's start")
}

func (c *class) add(other *class) {
	c.processed += other.processed
	c.failed += other.failed
	c.retried += other.retried
	c.cured += other.cured
	c.ran = append(c.ran, other.ran...)
	c.waited = append(c.waited, other.waited...)
}

func (c *class) print(w io.Writer, name string, took time.Duration) {
	perSecond := float64(c.processed-c.retried) / took.Seconds()
	fmt.Fprintf(w, rowForm, cut(name, 14), thousands(c.processed), thousands(c.failed), thousands(c.retried), thousands(c.cured),
		thousands(int(perSecond+0.5)), percentile(c.ran, 50), percentile(c.ran, 99), percentile(c.waited, 50), percentile(c.waited, 99))
}

// percentile is the time in milliseconds within which this share of the times
// stays; "-" without times, as for a class whose handler never ran.
func percentile(times []time.Duration, percent int) string {
	if len(times) == 0 {
		return "-"
	}
	sorted := slices.Sorted(slices.Values(times))
	ms := float64(sorted[(len(sorted)-1)*percent/100]) / float64(time.Millisecond)
	if ms < 0.1 {
		return "<0.1"
	}
	return strconv.FormatFloat(ms, 'f', 1, 64)
}
