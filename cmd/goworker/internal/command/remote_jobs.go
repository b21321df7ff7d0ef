package command

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/goworker/goworker/cmd/goworker/internal/view"
	"github.com/goworker/goworker/control"
)

// drawJobs draws the table of a process's jobs. It leaves out empty columns, and writes arguments on a line of their own.
func (o *operator) drawJobs(jobs []control.JobAnswer) string {
	if len(jobs) == 0 {
		return "none\n"
	}
	type column struct {
		view.Column
		of func(control.JobAnswer) string
	}
	columns := []column{
		{view.Column{Head: "FOR", Right: true}, func(j control.JobAnswer) string {
			if j.Since == nil {
				return ""
			}
			return spanOf(j.For)
		}},
		{view.Column{Head: "QUEUE", Cut: true}, func(j control.JobAnswer) string { return j.Queue }},
		{view.Column{Head: "CLASS", Cut: true}, func(j control.JobAnswer) string { return j.Class }},
		{view.Column{Head: "ID", Cut: true}, func(j control.JobAnswer) string { return j.ID }},
		{view.Column{Head: "ATTEMPT", Right: true}, func(j control.JobAnswer) string {
			if j.Attempt < 2 {
				return ""
			}
			return view.Count(int64(j.Attempt))
		}},
		{view.Column{Head: "TICKET", Right: true}, func(j control.JobAnswer) string { return fmt.Sprint(j.Ticket) }},
		{view.Column{Head: "WORKER", Cut: true}, func(j control.JobAnswer) string { return j.Worker }},
	}
	columns = slices.DeleteFunc(columns, func(c column) bool {
		return !slices.ContainsFunc(jobs, func(j control.JobAnswer) bool { return c.of(j) != "" })
	})
	var t view.Table
	for _, c := range columns {
		t.Columns = append(t.Columns, c.Column)
	}
	for _, j := range jobs {
		var cells []string
		for _, c := range columns {
			cells = append(cells, cmp.Or(escaped(c.of(j)), "-"))
		}
		t.Rows = append(t.Rows, cells)
	}
	var b strings.Builder
	n := -1 // the line of the heads
	for line := range strings.Lines(t.Draw(o.room())) {
		b.WriteString(line)
		if n >= 0 && len(jobs[n].Args) > 0 {
			var args []string
			for _, a := range jobs[n].Args {
				args = append(args, string(a))
			}
			text := "  [" + escaped(strings.Join(args, ",")) + "]"
			if o.width > 0 {
				text = view.Cut(text, o.room())
			}
			b.WriteString(text + "\n")
		}
		n++
	}
	return b.String()
}
