package page

import (
	"fmt"
	"strings"

	"github.com/goworker/goworker/bench/result"
)

// table builds a Markdown table.
type table struct{ strings.Builder }

func (t *table) row(cells ...string) { fmt.Fprintf(t, "| %s |\n", strings.Join(cells, " | ")) }

func (t *table) head(cells ...string) {
	t.row(cells...)
	t.WriteString("|---|" + strings.Repeat("--:|", len(cells)-1) + "\n")
}

// title is a contender's name as the page has it.
func title(name string) string {
	switch name {
	case "ours":
		return "**this**"
	case "ours-plain":
		return "this, in resque-scheduler's keys"
	case "ours-no-look-ahead":
		return "this, without look-ahead"
	case "limit", "raw":
		return "*" + name + "*"
	case "ours-unused":
		return "this, all features in use"
	case "ours-no-history":
		return "this, without history"
	case "ours-unscraped":
		return "this, with metrics"
	case "ours-scraped":
		return "this, with metrics that are scraped"
	case "ours-events":
		return "this, a listener to bad ends"
	case "ours-events-all":
		return "this, a listener to all events"
	case "ours-traced":
		return "this, with traces"
	case "ours-called":
		return "**this**, a function"
	case "ours-gathering":
		return "**this**, in groups"
	case "ours-msgpack":
		return "**this**, MessagePack"
	case "asynq-gathering":
		return "asynq, in groups"
	case "ours-retried", "ours-unique", "ours-expiring", "ours-limited", "ours-keyed", "ours-many-keys", "ours-rated", "ours-fair", "ours-isolated", "ours-isolated-static", "ours-reused",
		"ours-results", "ours-chord":
		return "this, " + strings.TrimPrefix(name, "ours-")
	case "asynq-unique":
		return "asynq, unique"
	case "gocraft-unique":
		return "gocraft/work, unique"
	case "gocraft":
		return "gocraft/work"
	case "asynq-results", "machinery-results", "bullmq-results":
		return title(strings.TrimSuffix(name, "-results")) + ", results kept"
	case "bullmq":
		return "BullMQ"
	}
	return name
}

// cell is number, and bold for ours.
func cell(f result.File, contender, work string, workers int, figure string) string {
	text := number(f, contender, work, workers, figure)
	if contender == "ours" && text != "" {
		return "**" + text + "**"
	}
	return text
}

// number is a median and how far the rounds were from it.
func number(f result.File, contender, work string, workers int, figure string) string {
	r, ok := f.Get(contender, work, workers, figure)
	if !ok {
		return ""
	}
	text := result.Number(r.Median)
	if r.Median > 0 && r.Max > r.Min {
		text += fmt.Sprintf(" ±%.0f%%", 50*(r.Max-r.Min)/r.Median)
	}
	return text
}

type figure struct{ head, name string }

// costs is a table of one work at one number of workers: a row a contender, a column a
// figure.
func costs(work string, workers int, figures []figure) func(result.File) string {
	return func(f result.File) string {
		var t table
		heads := []string{""}
		for _, x := range figures {
			heads = append(heads, x.head)
		}
		t.head(heads...)
		empty := true
		for _, name := range result.Contenders {
			cells, any := []string{title(name)}, false
			for _, x := range figures {
				text := cell(f, name, work, workers, x.name)
				any = any || text != ""
				cells = append(cells, text)
			}
			if any {
				t.row(cells...)
				empty = false
			}
		}
		if empty {
			return notMeasured
		}
		return t.String()
	}
}

// notMeasured stands where a table would have no rows.
const notMeasured = "This was not measured.\n"

type column struct {
	head, work string
	workers    int
}

// works is a table of one figure: a row a contender, a column a kind of work.
func works(figure string, list []column) func(result.File) string {
	return func(f result.File) string {
		var t table
		heads := []string{""}
		for _, c := range list {
			heads = append(heads, c.head)
		}
		t.head(heads...)
		for _, name := range result.Contenders {
			cells, any := []string{title(name)}, false
			for _, c := range list {
				text := cell(f, name, c.work, c.workers, figure)
				any = any || text != ""
				cells = append(cells, text)
			}
			if any {
				t.row(cells...)
			}
		}
		return t.String()
	}
}

// columns is a table of one figure of one work by workers.
func columns(work, figure string, workers []string) func(result.File) string {
	var list []column
	for i, n := range workers {
		var count int
		fmt.Sscan(n, &count)
		head := result.Number(float64(count))
		if count < 1000 {
			head = n
		}
		if i == 0 {
			head += " worker"
		}
		list = append(list, column{head, work, count})
	}
	return works(figure, list)
}
