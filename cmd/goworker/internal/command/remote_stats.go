package command

import (
	"fmt"
	"maps"
	"slices"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
)

// drawStats draws what a process has counted: its numbers in three columns, and a line for each class.
func (o *operator) drawStats(s control.StatsAnswer) string {
	outages := view.Count(s.Outages)
	if s.Outages > 0 {
		outages += " (" + spanOf(s.Away) + ")"
	}
	t := view.Table{
		Columns: []view.Column{{}, {Right: true}, {}, {Right: true}, {}, {Right: true}},
		Rows: [][]string{
			{"up", spanOf(s.Up), "heap", view.Bytes(s.Heap), "exchanges", view.Count(s.Exchanges)},
			{"workers", view.Count(int64(s.Workers)), "memory", view.Bytes(s.System), "last exchange", spanOf(s.Exchange) + " ago"},
			{"busy", view.Count(int64(s.Busy)), "collections", view.Count(s.GCs), "lease renewed", spanOf(s.Lease) + " ago"},
			{"goroutines", view.Count(int64(s.Goroutines)), "outages", outages, "round trip", spanOf(s.RTT)},
		},
	}
	text := t.Draw(o.room())
	if a := s.Autoscale; a != nil {
		text += o.wrapped(fmt.Sprintf("autoscale %d..%d: %s", a.Min, a.Max, escaped(a.Reason)), "  ")
	}
	if s.Jobs == (control.CountsAnswer{}) {
		return text + "no job has ended\n"
	}
	return text + o.drawCounts(s)
}

// drawCounts is the table of the classes of a process.
func (o *operator) drawCounts(s control.StatsAnswer) string {
	other := func(c control.CountsAnswer) int64 { return c.Cancelled + c.Expired + c.Discarded }
	t := view.Table{Columns: []view.Column{
		{Head: "CLASS", Cut: true}, {Head: "DONE", Right: true}, {Head: "FAILED", Right: true}, {Head: "RETRIED", Right: true}, {Head: "OTHER", Right: true},
		{Head: "P50", Right: true}, {Head: "P95", Right: true}, {Head: "P99", Right: true}, {Head: "LONGEST", Right: true},
	}}
	row := func(name string, c control.CountsAnswer) {
		span := func(seconds float64) string {
			if c.Runs == 0 {
				return "-"
			}
			return spanOf(min(seconds, c.Longest)) // a quantile is the upper end of its bucket
		}
		t.Rows = append(t.Rows, []string{
			name, view.Count(c.Done), view.Count(c.Failed), view.Count(c.Retried), view.Count(other(c)), span(c.P50), span(c.P95), span(c.P99), span(c.Longest),
		})
	}
	for _, name := range slices.Sorted(maps.Keys(s.Classes)) {
		row(escaped(name), s.Classes[name])
	}
	if len(s.Classes) != 1 {
		row("(all)", s.Jobs)
	}
	if other(s.Jobs) == 0 {
		t.Columns = slices.Delete(t.Columns, 4, 5)
		for n := range t.Rows {
			t.Rows[n] = slices.Delete(t.Rows[n], 4, 5)
		}
		return t.Draw(o.room())
	}
	return t.Draw(o.room()) + o.wrapped(fmt.Sprintf("other: %s cancelled, %s expired, %s discarded", view.Count(s.Jobs.Cancelled), view.Count(s.Jobs.Expired), view.Count(s.Jobs.Discarded)), "  ")
}
